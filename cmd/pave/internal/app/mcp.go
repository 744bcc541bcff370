package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pave/api/flowmcp"
	"pave/flows"
	"pave/ingest"
)

// MCPOptions are the settings of both sides of the Model Context Protocol.
type MCPOptions struct {
	NoStdio bool   // servers that are programs are not started
	Ceiling string // the worst side effects of flows that are offered; "" is read
	Prefix  string // before the names of flows
	Rate    float64
	// Params bind dynamic params to secrets of the server: "PRINCIPAL PARAM=SECRET", PRINCIPAL "*" for all.
	Params []string
}

var ceilings = []flows.SideEffects{flows.EffectNone, flows.EffectRead, flows.EffectWrite, flows.EffectExternal, flows.EffectDestructive}

// Check lists what is wrong, by the key paths of the settings file.
func (o *MCPOptions) Check() (problems []string) {
	if o.Ceiling != "" && !slices.Contains(ceilings, flows.SideEffects(o.Ceiling)) {
		problems = append(problems, fmt.Sprintf("mcp.ceiling: %q is not one of %v", o.Ceiling, ceilings))
	}
	if o.Rate < 0 {
		problems = append(problems, "mcp.rate: must not be negative")
	}
	if strings.Trim(o.Prefix, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") != "" {
		problems = append(problems, "mcp.prefix: use A-Z a-z 0-9 _ . -")
	}
	if _, err := o.params(); err != nil {
		problems = append(problems, "mcp.params: "+err.Error())
	}
	return problems
}

func (o *MCPOptions) params() (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	for _, entry := range o.Params {
		who, rest, _ := strings.Cut(entry, " ")
		param, secret, ok := strings.Cut(strings.TrimSpace(rest), "=")
		if !ok || who == "" || param == "" || secret == "" {
			return nil, fmt.Errorf("%q is not PRINCIPAL PARAM=SECRET, such as service:agent tenant_token=CRM_TOKEN", entry)
		}
		if out[who] == nil {
			out[who] = map[string]string{}
		}
		out[who][param] = secret
	}
	return out, nil
}

func (a *App) openMCP(context.Context) error {
	o := &a.opts.MCP
	if problems := o.Check(); len(problems) > 0 {
		return flows.NewError(flows.CodeInvalid, problems[0])
	}
	params, err := o.params()
	if err != nil {
		return err
	}
	a.flowTools = flowmcp.New(flowmcp.Options{Runs: a.runs, Audit: a.gate, Tenant: ingest.DefaultTenant, Ceiling: flows.SideEffects(o.Ceiling), Prefix: o.Prefix,
		Rate: o.Rate, AtOnce: a.opts.Runs.MaxPerPrincipal, Secret: secrets(a.opts.DataDir), Params: params, Version: a.opts.Version, Logger: a.log})
	a.flowNames.gate, a.flowNames.runs = a.gate, a.runs
	a.gate.OnChange(func() {
		a.flowNames.changes.Add(1)
		a.flowTools.Changed()
	})
	a.defers(a.flowTools.Close)
	return nil
}

// ServeMCP serves one MCP client over standard input and output, as this machine's user, until it goes.
func (a *App) ServeMCP(ctx context.Context) error {
	return a.flowTools.ServeStdio(ctx, a.localActor(), &mcp.StdioTransport{})
}
