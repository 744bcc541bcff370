package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pave/api/flowmcp"
	"pave/cmd/pave/internal/app"
	"pave/flows"
)

// mcpSettings are the settings of both sides of the Model Context Protocol.
type mcpSettings struct {
	Stdio   bool     `help:"Start MCP servers that are programs of this machine." env:"PAVE_MCP_STDIO" default:"true" negatable:""`
	Ceiling string   `help:"Offer flows to MCP clients whose side effects are at most: ${enum}." env:"PAVE_MCP_CEILING" enum:"none,read,write,external,destructive" default:"read"`
	Prefix  string   `help:"Put before the names of flows that MCP clients see." env:"PAVE_MCP_PREFIX" placeholder:"TEXT"`
	Rate    float64  `help:"Requests a second that one principal may make as an MCP client." env:"PAVE_MCP_RATE" default:"60"`
	Params  []string `help:"Fill a dynamic param of MCP calls from a secret: 'PRINCIPAL PARAM=SECRET', PRINCIPAL * for all." env:"PAVE_MCP_PARAMS" placeholder:"ENTRY"`
}

func (s *mcpSettings) options() app.MCPOptions {
	return app.MCPOptions{NoStdio: !s.Stdio, Ceiling: s.Ceiling, Prefix: s.Prefix, Rate: s.Rate, Params: s.Params}
}

type mcpCmd struct{}

// Run serves one client: with the data directory, or by way of the server that holds it.
func (c *mcpCmd) Run(e *env) error {
	if e.g.Server != "" {
		return c.bridge(e, e.g.Server, e.g.Key)
	}
	if err := e.g.usable(); err != nil {
		return err
	}
	a, err := app.Open(e.ctx, e.aloneOptions())
	if held := new(app.HeldError); errors.As(err, &held) && held.Address != "" {
		key := e.g.Key
		if key == "" {
			if key, err = app.AdminKey(e.g.DataDir); err != nil {
				return flows.NewError(flows.CodeForbidden, held.Address+" holds the data directory, and its admin key cannot be read; give --key")
			}
		}
		return c.bridge(e, held.Address, key)
	}
	if err != nil {
		return err
	}
	return errors.Join(gone(a.ServeMCP(e.ctx)), a.Close())
}

// bridge passes the messages of this client on to a server's /mcp.
func (c *mcpCmd) bridge(e *env, server, key string) error {
	client := &http.Client{Transport: &bearer{key: key, next: http.DefaultTransport}}
	return gone(flowmcp.Bridge(e.ctx, &mcp.StreamableClientTransport{Endpoint: strings.TrimSuffix(server, "/") + "/mcp", HTTPClient: client}, &mcp.StdioTransport{}, version))
}

// gone is nil for a client that went, or an interrupt.
func gone(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || errors.Is(err, mcp.ErrConnectionClosed) {
		return nil
	}
	return err
}

type bearer struct {
	key  string
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.key != "" {
		r.Header.Set("Authorization", "Bearer "+b.key)
	}
	return b.next.RoundTrip(r)
}
