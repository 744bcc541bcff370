package app

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"pave/governance"
	"pave/governance/runs"
	"pave/ingest"
)

// flowNames knows every flow that was ever promoted, so that an agent's own telemetry about the call of a flow is not
// taken for the call of a tool, and mined.
type flowNames struct {
	gate   *governance.Service
	runs   *runs.Service
	prefix string // of flows over MCP
	names  atomic.Pointer[map[string]bool]

	changes atomic.Int64 // of the catalogue
	seen    atomic.Int64 // changes that names knows
	mu      sync.Mutex   // held while names are read; who asks meanwhile waits for them
}

func newFlowNames(prefix string) *flowNames {
	f := &flowNames{prefix: prefix}
	f.names.Store(&map[string]bool{})
	f.changes.Store(1)
	return f
}

// classify marks the call of a flow. The call of a tool that a run's own telemetry reports is marked already.
func (f *flowNames) classify(tenant string, e *ingest.Event) {
	if e.Kind != ingest.KindToolCall || e.Call == nil || e.OriginKind != ingest.OriginAgent {
		return
	}
	if f.is(tenant, e.Call.Tool, e.TraceID) {
		e.OriginKind = ingest.OriginFlowCall
	}
}

// is compares a name as agents report it: bare, or with the name of an MCP server before or behind it, as in mcp__pave__refund,
// pave.refund, mcp_pave_refund and refund_mcp_pave. Of a server that is not called after pave it is a flow only where the call's
// trace is one in which the flow ran: another server may have a tool of that name.
func (f *flowNames) is(tenant, tool, traceID string) bool {
	names := f.current(tenant)
	if len(names) == 0 {
		return false
	}
	if f.flow(names, tool) != "" {
		return true
	}
	for i := 1; i+1 < len(tool); i++ {
		if !strings.ContainsRune("_./:-", rune(tool[i])) {
			continue
		}
		server, name := tool[:i], tool[i+1:]
		if flow := f.flow(names, name); flow != "" && (ofPave(server) || namesServer(server, tool[i]) && f.ran(tenant, traceID, flow)) {
			return true
		}
	}
	if i := strings.LastIndex(tool, "_mcp_"); i > 0 {
		flow := f.flow(names, tool[:i])
		return flow != "" && (ofPave(tool[i:]) || f.ran(tenant, traceID, flow))
	}
	return false
}

// flow is the flow of that name, with the prefix of flows over MCP or without it; "" when there is none.
func (f *flowNames) flow(names map[string]bool, name string) string {
	if names[name] {
		return name
	}
	if bare, ok := strings.CutPrefix(name, f.prefix); ok && f.prefix != "" && names[bare] {
		return bare
	}
	return ""
}

func ofPave(server string) bool { return strings.Contains(strings.ToLower(server), "pave") }

// namesServer reports whether what is before a name surely is that of its server, which one underscore does not say.
func namesServer(before string, separator byte) bool {
	return separator != '_' && separator != '-' || strings.HasSuffix(before, "_") || strings.HasPrefix(before, "mcp_")
}

func (f *flowNames) current(tenant string) map[string]bool {
	if f.gate == nil || f.seen.Load() == f.changes.Load() {
		return *f.names.Load()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := f.changes.Load()
	if f.seen.Load() == changes {
		return *f.names.Load()
	}
	reader := governance.Actor{Tenant: tenant, Principal: governance.SystemPrincipal, Scopes: []governance.Scope{governance.ScopeRead}}
	versions, err := f.gate.Flows(context.Background(), reader)
	if err == nil { // else the next one asks again
		names := make(map[string]bool, len(versions))
		for i := range versions {
			names[versions[i].Flow.Name] = true
		}
		f.names.Store(&names)
		f.seen.Store(changes)
	}
	return *f.names.Load()
}

// ran reports whether the flow ran in the trace. Where that cannot be read the call is taken for what its name says first, a tool.
func (f *flowNames) ran(tenant, traceID, flow string) bool {
	if traceID == "" {
		return false
	}
	ran, err := f.runs.RanInTrace(context.Background(), tenant, traceID, flow)
	return err == nil && ran
}
