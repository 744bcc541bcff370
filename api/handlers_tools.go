package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"pave/api/gen"
	"pave/flows"
	"pave/governance"
)

// ListTools pages tools by name.
func (h *handlers) ListTools(ctx context.Context, r gen.ListToolsRequestObject) (gen.ListToolsResponseObject, error) {
	all, err := h.s.deps.Tools.Tools(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	page, next, err := pageByName(all, func(t governance.ToolVersion) string { return t.Tool.Name }, r.Params.Limit, r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	out := gen.ListTools200JSONResponse{Items: make([]gen.Tool, len(page)), NextCursor: next}
	for i := range page {
		if out.Items[i], err = toolOf(&page[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// GetTool reads one tool.
func (h *handlers) GetTool(ctx context.Context, r gen.GetToolRequestObject) (gen.GetToolResponseObject, error) {
	v, err := h.s.deps.Tools.Tool(ctx, actorFrom(ctx), r.Name)
	if err != nil {
		return nil, err
	}
	out, err := toolAnswer(v)
	return gen.GetTool200JSONResponse{ToolAnswerJSONResponse: out}, err
}

// PutTool creates a tool, or replaces the one whose ETag the request carries.
func (h *handlers) PutTool(ctx context.Context, r gen.PutToolRequestObject) (gen.PutToolResponseObject, error) {
	tools, err := flows.ParseTools(*r.Body)
	if err != nil {
		return nil, err
	}
	if len(tools) != 1 || tools[0].Name != r.Name {
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("the body must be the one tool %q that the path names", r.Name),
			flows.ErrorDetail{Pointer: "/name", Code: "mismatch", Detail: "differs from the path"})
	}
	revision, err := h.toolRevision(ctx, r.Name, r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	if _, err := h.s.deps.Tools.ApplyTool(ctx, actorFrom(ctx), tools[0], revision); err != nil {
		return nil, err
	}
	v, err := h.s.deps.Tools.Tool(ctx, actorFrom(ctx), r.Name)
	if err != nil {
		return nil, err
	}
	out, err := toolAnswer(v)
	return gen.PutTool200JSONResponse{ToolAnswerJSONResponse: out}, err
}

// toolRevision is the revision to compare with. A tool that nobody declared yet needs none, and is not replaced when
// another declares it at the same time.
func (h *handlers) toolRevision(ctx context.Context, name, header string) (int64, error) {
	if header != "" {
		return ifMatch(header, 1)
	}
	v, err := h.s.deps.Tools.Tool(ctx, actorFrom(ctx), name)
	switch {
	case flows.CodeOf(err) == flows.CodeNotFound:
		return governance.Absent, nil
	case err != nil:
		return 0, err
	case v.Tool.Origin == flows.ToolInferred:
		return governance.Absent, nil
	}
	return ifMatch("", 1)
}

// ApplyTools declares the tools of a tool file.
func (h *handlers) ApplyTools(ctx context.Context, r gen.ApplyToolsRequestObject) (gen.ApplyToolsResponseObject, error) {
	doc, err := toolFile(r)
	if err != nil {
		return nil, err
	}
	file, err := flows.ParseToolFile(doc)
	if err != nil {
		return nil, err
	}
	if len(file.Tools)+len(file.Servers) == 0 {
		return nil, flows.NewError(flows.CodeInvalid, "the body holds no tool")
	}
	report, err := h.s.deps.Tools.ApplyToolFile(ctx, actorFrom(ctx), file)
	if err != nil {
		return nil, err
	}
	return gen.ApplyTools200JSONResponse(applyReport(report)), nil
}

func applyReport(report governance.ApplyReport) gen.ToolApplyReport {
	changes := func(c governance.ToolChange) gen.ToolChange {
		return gen.ToolChange{Name: c.Name, Change: gen.ToolChangeChange(c.Change)}
	}
	return gen.ToolApplyReport{FlowsToReview: report.NeedsReview, Items: list(report.Tools, changes), Servers: list(report.Servers, changes)}
}

// toolFile is the body as a tool file, which may be JSON as it is.
func toolFile(r gen.ApplyToolsRequestObject) ([]byte, error) {
	if r.JSONBody != nil {
		return *r.JSONBody, nil
	}
	if r.Body == nil {
		return nil, flows.NewError(flows.CodeUnsupportedMedia, "send application/yaml or a JSON array as application/json")
	}
	return io.ReadAll(r.Body)
}

func toolAnswer(v *governance.ToolVersion) (gen.ToolAnswerJSONResponse, error) {
	body, err := toolOf(v)
	return gen.ToolAnswerJSONResponse{Body: body, Headers: gen.ToolAnswerResponseHeaders{ETag: etag(v.Revision)}}, err
}

func toolOf(v *governance.ToolVersion) (gen.Tool, error) {
	doc, err := json.Marshal(v.Tool)
	if err != nil {
		return gen.Tool{}, fmt.Errorf("encode tool %s: %w", v.Tool.Name, err)
	}
	out := gen.Tool{Name: v.Tool.Name, Revision: v.Revision, Origin: gen.ToolOrigin(v.Tool.Origin), Bound: v.Tool.Binding != nil,
		SchemaHash: v.SchemaHash, DefinitionDigest: v.DefinitionDigest, UpdatedBy: v.UpdatedBy, UpdatedAt: utc(v.UpdatedAt), Tool: doc}
	if out.Origin == "" {
		out.Origin = gen.ToolOrigin(flows.ToolDeclared)
	}
	if v.Tool.Safety != nil {
		out.Safety = gen.SideEffects(v.Tool.Safety.SideEffects)
	}
	return out, nil
}
