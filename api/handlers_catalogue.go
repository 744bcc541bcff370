package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"pave/api/gen"
	"pave/flows"
	"pave/governance"
	"pave/governance/openapi"
)

// DiscoverTools asks an MCP server for its tools.
func (h *handlers) DiscoverTools(ctx context.Context, r gen.DiscoverToolsRequestObject) (gen.DiscoverToolsResponseObject, error) {
	found, err := h.s.deps.Discovery.Discover(ctx, actorFrom(ctx), r.Body.Server)
	if err != nil {
		return nil, err
	}
	items, err := discoveredTools(found)
	return gen.DiscoverTools200JSONResponse{Items: items}, err
}

func discoveredTools(found []governance.DiscoveredTool) ([]gen.DiscoveredTool, error) {
	out := make([]gen.DiscoveredTool, len(found))
	for i, d := range found {
		out[i] = gen.DiscoveredTool{Server: d.Server, Remote: d.Remote, Match: gen.DiscoveredToolMatch(d.Match), ToolName: d.For,
			Reason: d.Reason, DefinitionDigest: d.Digest}
		if d.Tool == nil {
			out[i].Match = gen.DiscoveredToolMatchUnusable
			continue
		}
		doc, err := json.Marshal(d.Tool)
		if err != nil {
			return nil, fmt.Errorf("encode tool %s: %w", d.Remote, err)
		}
		out[i].Tool, out[i].SeenAt = doc, utc(d.SeenAt)
	}
	return out, nil
}

// ListMCPServers lists the declared servers.
func (h *handlers) ListMCPServers(ctx context.Context, _ gen.ListMCPServersRequestObject) (gen.ListMCPServersResponseObject, error) {
	servers, err := h.s.deps.Tools.MCPServers(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	out := gen.ListMCPServers200JSONResponse{Items: make([]gen.MCPServer, len(servers))}
	for i, s := range servers {
		tools, err := discoveredTools(s.Tools)
		if err != nil {
			return nil, err
		}
		out.Items[i] = gen.MCPServer{Name: s.Server.Name, Transport: gen.MCPServerTransport(s.Server.Transport), Command: s.Server.Command,
			URL: s.Server.URL, Revision: s.Revision, UpdatedBy: s.UpdatedBy, UpdatedAt: utc(s.UpdatedAt), Tools: tools}
	}
	return out, nil
}

// PinTool accepts a server's definition of a tool.
func (h *handlers) PinTool(ctx context.Context, r gen.PinToolRequestObject) (gen.PinToolResponseObject, error) {
	var req governance.PinRequest
	if r.Body != nil {
		req = governance.PinRequest{Server: r.Body.Server, Force: r.Body.Force}
	}
	report, err := h.s.deps.Tools.PinTool(ctx, actorFrom(ctx), r.Name, req)
	return gen.PinTool200JSONResponse(applyReport(report)), err
}

// GetToolDrift compares a tool with what its server lists now.
func (h *handlers) GetToolDrift(ctx context.Context, r gen.GetToolDriftRequestObject) (gen.GetToolDriftResponseObject, error) {
	d, against, err := h.s.deps.Tools.ToolDrift(ctx, actorFrom(ctx), r.Name)
	if err != nil {
		return nil, err
	}
	out := gen.GetToolDrift200JSONResponse{Equal: d.Equal, SchemasChanged: d.Schemas, Riskier: d.Riskier, Unified: d.Unified, Against: against,
		Changes: make([]gen.ToolDriftChange, len(d.Changes))}
	for i, c := range d.Changes {
		was, errWas := json.Marshal(c.Old)
		now, errNow := json.Marshal(c.New)
		if errWas != nil || errNow != nil {
			return nil, fmt.Errorf("encode drift of %s at %s", r.Name, c.Pointer)
		}
		out.Changes[i] = gen.ToolDriftChange{Pointer: c.Pointer, Kind: c.Kind, Old: was, New: now}
	}
	return out, nil
}

// ListToolVersions lists the definitions that a tool has had.
func (h *handlers) ListToolVersions(ctx context.Context, r gen.ListToolVersionsRequestObject) (gen.ListToolVersionsResponseObject, error) {
	versions, err := h.s.deps.Tools.ToolVersions(ctx, actorFrom(ctx), r.Name)
	if err != nil {
		return nil, err
	}
	out := gen.ListToolVersions200JSONResponse{Items: make([]gen.Tool, len(versions))}
	for i := range versions {
		if out.Items[i], err = toolOf(&versions[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ImportTools makes tools of an OpenAPI document.
func (h *handlers) ImportTools(ctx context.Context, r gen.ImportToolsRequestObject) (gen.ImportToolsResponseObject, error) {
	var doc []byte
	var err error
	switch {
	case r.JSONBody != nil:
		doc = *r.JSONBody
	case r.Body != nil:
		if doc, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	tools, skipped, err := openapi.Tools(doc, openapi.Options{BaseURL: r.Params.BaseURL, Prefix: r.Params.Prefix})
	if err != nil {
		return nil, err
	}
	out := gen.ImportTools200JSONResponse{Tools: make([]gen.ToolDocument, len(tools)),
		Skipped: list(skipped, func(s openapi.Skipped) gen.SkippedOperation {
			return gen.SkippedOperation{Operation: s.Operation, Reason: s.Reason}
		})}
	for i, tool := range tools {
		if out.Tools[i], err = json.Marshal(tool); err != nil {
			return nil, fmt.Errorf("encode tool %s: %w", tool.Name, err)
		}
	}
	if r.Params.Apply && len(tools) > 0 {
		report, err := h.s.deps.Tools.ApplyToolFile(ctx, actorFrom(ctx), &flows.ToolFile{Tools: tools})
		if err != nil {
			return nil, err
		}
		out.Applied = applyReport(report)
	}
	return out, nil
}
