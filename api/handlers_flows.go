package api

import (
	"context"
	"encoding/json"
	"fmt"

	"pave/api/gen"
	"pave/flows"
	"pave/governance"
)

// ListFlows pages flows by name.
func (h *handlers) ListFlows(ctx context.Context, r gen.ListFlowsRequestObject) (gen.ListFlowsResponseObject, error) {
	versions, err := h.s.deps.Flows.Flows(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	page, next, err := pageByName(flowSummaries(versions), func(f gen.FlowSummary) string { return f.Name }, r.Params.Limit, r.Params.Cursor)
	if err != nil {
		return nil, err
	}
	return gen.ListFlows200JSONResponse{Items: page, NextCursor: next}, nil
}

// flowSummaries groups versions, which come by name and oldest first. A summary describes the active version, else
// the newest.
func flowSummaries(versions []governance.FlowVersion) []gen.FlowSummary {
	out := []gen.FlowSummary{}
	for _, v := range versions {
		if len(out) == 0 || out[len(out)-1].Name != v.Flow.Name {
			out = append(out, gen.FlowSummary{Name: v.Flow.Name})
		}
		s := &out[len(out)-1]
		s.Versions = append(s.Versions, gen.FlowVersionRef{Version: v.Flow.Version, Status: gen.FlowStatus(v.Status),
			Digest: v.Digest, Share: v.Share(), CreatedAt: utc(v.CreatedAt)})
		if v.Active {
			s.ActiveVersion, s.Rollout = v.Flow.Version, rolloutOf(v.Rollout)
		}
		if v.Active || s.ActiveVersion == "" {
			s.Description, s.Status, s.Tools = v.Flow.Description, gen.FlowStatus(v.Status), toolsOf(v.Flow)
		}
	}
	return out
}

// GetFlow reads the version that runs.
func (h *handlers) GetFlow(ctx context.Context, r gen.GetFlowRequestObject) (gen.GetFlowResponseObject, error) {
	v, err := h.s.deps.Flows.Flow(ctx, actorFrom(ctx), r.Name, "")
	if err != nil {
		return nil, err
	}
	out, err := flowAnswer(v)
	return gen.GetFlow200JSONResponse{FlowVersionAnswerJSONResponse: out}, err
}

// GetFlowVersion reads one version.
func (h *handlers) GetFlowVersion(ctx context.Context, r gen.GetFlowVersionRequestObject) (gen.GetFlowVersionResponseObject, error) {
	v, err := h.s.deps.Flows.Flow(ctx, actorFrom(ctx), r.Name, r.Version)
	if err != nil {
		return nil, err
	}
	out, err := flowAnswer(v)
	return gen.GetFlowVersion200JSONResponse{FlowVersionAnswerJSONResponse: out}, err
}

// SetFlowStatus opens or closes the gate of a version.
func (h *handlers) SetFlowStatus(ctx context.Context, r gen.SetFlowStatusRequestObject) (gen.SetFlowStatusResponseObject, error) {
	revision, err := ifMatch(r.Params.IfMatch, 1)
	if err != nil {
		return nil, err
	}
	v, err := h.s.deps.Flows.SetFlowStatus(ctx, actorFrom(ctx), r.Name, r.Version, governance.StatusRequest{
		Status: flows.Status(r.Body.Status), Reason: r.Body.Reason, AcceptDrift: r.Body.AcceptDrift, IfRevision: revision})
	if err != nil {
		return nil, err
	}
	out, err := flowAnswer(v)
	return gen.SetFlowStatus200JSONResponse{FlowVersionAnswerJSONResponse: out}, err
}

// RollbackFlow makes another version the active one.
func (h *handlers) RollbackFlow(ctx context.Context, r gen.RollbackFlowRequestObject) (gen.RollbackFlowResponseObject, error) {
	revision, err := ifMatch(r.Params.IfMatch, 1)
	if err != nil {
		return nil, err
	}
	req := governance.RollbackRequest{IfRevision: revision}
	if b := r.Body; b != nil {
		req.To, req.Reason, req.AcceptDrift = b.To, b.Reason, b.AcceptDrift
	}
	v, err := h.s.deps.Flows.Rollback(ctx, actorFrom(ctx), r.Name, req)
	if err != nil {
		return nil, err
	}
	out, err := flowAnswer(v)
	return gen.RollbackFlow200JSONResponse{FlowVersionAnswerJSONResponse: out}, err
}

// SetFlowRollout changes the share of a rollout.
func (h *handlers) SetFlowRollout(ctx context.Context, r gen.SetFlowRolloutRequestObject) (gen.SetFlowRolloutResponseObject, error) {
	revision, err := ifMatch(r.Params.IfMatch, 1)
	if err != nil {
		return nil, err
	}
	v, err := h.s.deps.Flows.SetRollout(ctx, actorFrom(ctx), r.Name, governance.RolloutRequest{
		Version: r.Body.Version, Share: r.Body.Rollout, Reason: r.Body.Reason, IfRevision: revision})
	if err != nil {
		return nil, err
	}
	out, err := flowAnswer(v)
	return gen.SetFlowRollout200JSONResponse{FlowVersionAnswerJSONResponse: out}, err
}

// GetFlowTests reads the golden tests of a version.
func (h *handlers) GetFlowTests(ctx context.Context, r gen.GetFlowTestsRequestObject) (gen.GetFlowTestsResponseObject, error) {
	v, tests, tools, err := h.s.deps.Flows.FlowTests(ctx, actorFrom(ctx), r.Name, r.Version)
	if err != nil {
		return nil, err
	}
	doc, err := json.Marshal(v.Flow)
	if err != nil {
		return nil, fmt.Errorf("encode flow %s: %w", v.Flow.Name, err)
	}
	out := gen.GetFlowTests200JSONResponse{Flow: doc, Tools: []gen.ToolDocument{}, Items: list(tests, goldenTest)}
	for _, tool := range tools {
		doc, err := json.Marshal(tool)
		if err != nil {
			return nil, fmt.Errorf("encode tool %s: %w", tool.Name, err)
		}
		out.Tools = append(out.Tools, doc)
	}
	return out, nil
}

func goldenTest(g governance.GoldenTest) gen.GoldenTest {
	return gen.GoldenTest{Name: g.Name, SessionID: g.SessionID, Input: g.Input, Status: g.Status, Output: g.Output,
		Calls: list(g.Calls, func(c governance.GoldenCall) gen.GoldenCall {
			return gen.GoldenCall{Tool: c.Tool, Args: c.Args, Result: c.Result}
		})}
}

func bumpOf(b governance.VersionBump) *gen.VersionBump {
	if b.To == "" {
		return nil
	}
	return &gen.VersionBump{Level: gen.VersionBumpLevel(b.Level), From: b.From, To: b.To, Reasons: present(b.Reasons)}
}

// rolloutOf is nil when the active version serves all.
func rolloutOf(r governance.Rollout) *gen.Rollout {
	if !r.Partial() {
		return nil
	}
	return &gen.Rollout{Version: r.Version, Share: r.Share, RestVersion: r.Rest}
}

func flowAnswer(v *governance.FlowVersion) (gen.FlowVersionAnswerJSONResponse, error) {
	body, err := flowVersion(v)
	return gen.FlowVersionAnswerJSONResponse{Body: body, Headers: gen.FlowVersionAnswerResponseHeaders{ETag: etag(v.Revision)}}, err
}

func flowVersion(v *governance.FlowVersion) (gen.FlowVersion, error) {
	doc, err := json.Marshal(v.Flow)
	if err != nil {
		return gen.FlowVersion{}, fmt.Errorf("encode flow %s: %w", v.Flow.Name, err)
	}
	return gen.FlowVersion{
		Name: v.Flow.Name, Version: v.Flow.Version, Digest: v.Digest, Status: gen.FlowStatus(v.Status), Active: v.Active,
		Share: v.Share(), Rollout: rolloutOf(v.Rollout), Revision: v.Revision, ProposalID: v.ProposalID, PromotedBy: v.PromotedBy, CreatedAt: utc(v.CreatedAt), Flow: doc,
		Savings: Savings(v.Savings), Reason: v.Reason, Bump: bumpOf(v.Bump), Shadow: shadowOf(v.Shadow),
	}, nil
}
