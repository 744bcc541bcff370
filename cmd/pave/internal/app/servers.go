package app

import (
	"context"

	bindmcp "pave/executor/bind/mcp"
	"pave/flows"
	"pave/governance"
	"pave/ingest"
)

// directory is what the binding of MCP tools needs of the catalogue. It is set once the catalogue is open.
type directory struct {
	gate *governance.Service
	log  func(msg string, args ...any)
}

// server finds a declared MCP server.
func (d *directory) server(ctx context.Context, name string) (*flows.MCPServer, error) {
	if d.gate == nil {
		return nil, flows.NewError(flows.CodeUnavailable, "MCP servers are known where the data directory is open; run this through the service")
	}
	return d.gate.ServerOf(ctx, ingest.DefaultTenant, name)
}

// listed keeps what a server lists and takes flows whose pinned tools changed out of service.
func (d *directory) listed(ctx context.Context, server string, tools []bindmcp.Discovered) {
	if d.gate == nil {
		return
	}
	report, err := d.gate.ServerListed(ctx, ingest.DefaultTenant, server, discovered(server, tools))
	if err != nil {
		d.log("what an MCP server lists could not be kept", "server", server, "error", err)
		return
	}
	for _, flow := range report.NeedsReview {
		d.log("an MCP server changed a tool; a flow needs review", "server", server, "flow", flow)
	}
}

func discovered(server string, tools []bindmcp.Discovered) []governance.DiscoveredTool {
	out := make([]governance.DiscoveredTool, len(tools))
	for i, t := range tools {
		out[i] = governance.DiscoveredTool{Server: server, Remote: t.Remote, Tool: t.Tool, Digest: t.Digest, Reason: t.Problem}
	}
	return out
}

// discovery asks a server now, and matches the answer with the catalogue.
type discovery struct {
	binding *bindmcp.Binding
	gate    *governance.Service
}

// Discover implements api.Discovery.
func (d *discovery) Discover(ctx context.Context, actor governance.Actor, server string) ([]governance.DiscoveredTool, error) {
	if err := governance.Permit(actor, governance.ActionAdmin); err != nil {
		return nil, err
	}
	if _, err := d.gate.ServerOf(ctx, actor.Tenant, server); err != nil {
		return nil, err
	}
	found, err := d.binding.Discover(ctx, server)
	if err != nil {
		return nil, &flows.Error{Code: flows.CodeUnavailable, Message: err.Error(), Err: err}
	}
	all := discovered(server, found)
	if _, err := d.gate.ServerListed(ctx, actor.Tenant, server, all); err != nil {
		return nil, err
	}
	servers, err := d.gate.MCPServers(ctx, actor)
	if err != nil {
		return nil, err
	}
	for _, s := range servers {
		if s.Server.Name != server {
			continue
		}
		out := s.Tools
		for _, t := range all {
			if t.Tool == nil {
				out = append(out, t)
			}
		}
		return out, nil
	}
	return nil, nil
}
