package api

import (
	"context"
	"encoding/json"
	"net/http"

	"pave/api/gen"
	"pave/flows"
	"pave/governance"
)

// UpdateProposal edits, assigns or labels a proposal.
func (h *handlers) UpdateProposal(ctx context.Context, r gen.UpdateProposalRequestObject) (gen.UpdateProposalResponseObject, error) {
	revision, err := ifMatch(r.Params.IfMatch, 1)
	if err != nil {
		return nil, err
	}
	req := governance.EditRequest{Owner: r.Body.Owner, Assignee: r.Body.Assignee, Labels: r.Body.Labels, IfRevision: revision}
	if len(r.Body.Flow) > 0 {
		if req.Flow, _, err = flows.ParseFlow(r.Body.Flow); err != nil {
			return nil, err
		}
	}
	p, err := h.s.deps.Proposals.Edit(ctx, actorFrom(ctx), r.ID, req)
	if err != nil {
		return nil, err
	}
	out, err := proposalAnswer(p)
	return gen.UpdateProposal200JSONResponse{ProposalAnswerJSONResponse: out}, err
}

// BulkRejectProposals rejects many proposals with one reason.
func (h *handlers) BulkRejectProposals(ctx context.Context, r gen.BulkRejectProposalsRequestObject) (gen.BulkRejectProposalsResponseObject, error) {
	items := list(r.Body.Items, func(i gen.BulkItem) governance.BulkItem { return governance.BulkItem{ID: i.ID, Digest: i.Digest} })
	out, err := h.s.deps.Proposals.BulkReject(ctx, actorFrom(ctx), items, r.Body.Reason)
	if err != nil {
		return nil, err
	}
	return gen.BulkRejectProposals200JSONResponse{Items: list(out, func(o governance.BulkOutcome) gen.BulkOutcome {
		if o.Err == nil {
			return gen.BulkOutcome{ID: o.ID, Rejected: true}
		}
		return gen.BulkOutcome{ID: o.ID, Code: string(o.Err.Code), Detail: o.Err.Message}
	})}, nil
}

// ListRejections lists what is not proposed again.
func (h *handlers) ListRejections(ctx context.Context, r gen.ListRejectionsRequestObject) (gen.ListRejectionsResponseObject, error) {
	kept, err := h.s.deps.Proposals.Rejections(ctx, actorFrom(ctx), pageSize(r.Params.Limit))
	if err != nil {
		return nil, err
	}
	return gen.ListRejections200JSONResponse{Items: list(kept, func(j governance.Rejection) gen.Rejection {
		return gen.Rejection{ProposalID: j.ProposalID, PatternKey: j.PatternKey, FlowName: j.Flow, State: gen.ProposalState(j.State), By: j.By,
			Reason: j.Reason, At: utc(j.At), Sessions: j.Support, Exactness: j.Exactness, Lifts: present(j.Lifts)}
	})}, nil
}

// ListProposalComments lists the remarks on a proposal.
func (h *handlers) ListProposalComments(ctx context.Context, r gen.ListProposalCommentsRequestObject) (gen.ListProposalCommentsResponseObject, error) {
	comments, err := h.s.deps.Discuss.Comments(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return gen.ListProposalComments200JSONResponse{Items: list(comments, commentOf)}, nil
}

// CommentProposal makes a remark.
func (h *handlers) CommentProposal(ctx context.Context, r gen.CommentProposalRequestObject) (gen.CommentProposalResponseObject, error) {
	c, err := h.s.deps.Discuss.Comment(ctx, actorFrom(ctx), r.ID, governance.CommentRequest{Pointer: r.Body.Pointer, Body: r.Body.Body})
	if err != nil {
		return nil, err
	}
	return gen.CommentProposal201JSONResponse(commentOf(*c)), nil
}

func commentOf(c governance.Comment) gen.Comment {
	return gen.Comment{ID: c.ID, Principal: c.Principal, Pointer: c.Pointer, Digest: c.Digest, Body: c.Body, At: utc(c.At), Outdated: c.Outdated}
}

// DiffProposal compares a draft with a flow version.
func (h *handlers) DiffProposal(ctx context.Context, r gen.DiffProposalRequestObject) (gen.DiffProposalResponseObject, error) {
	d, err := h.s.deps.Discuss.Diff(ctx, actorFrom(ctx), r.ID, r.Params.Against)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(d)
	return rawJSON(out), err
}

// VisitDiffProposalResponse implements gen.DiffProposalResponseObject.
func (d rawJSON) VisitDiffProposalResponse(w http.ResponseWriter) error { return d.write(w) }

// GetReplayCheck reads the newest check of the draft.
func (h *handlers) GetReplayCheck(ctx context.Context, r gen.GetReplayCheckRequestObject) (gen.GetReplayCheckResponseObject, error) {
	c, err := h.s.deps.Discuss.ReplayCheck(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return gen.GetReplayCheck200JSONResponse(*replayCheck(c)), nil
}

// CheckProposal lays the draft over recorded sessions.
func (h *handlers) CheckProposal(ctx context.Context, r gen.CheckProposalRequestObject) (gen.CheckProposalResponseObject, error) {
	limit := 0
	if r.Body != nil {
		limit = r.Body.Limit
	}
	if r.Body != nil && len(r.Body.Flow) > 0 {
		draft, _, err := flows.ParseFlow(r.Body.Flow)
		if err != nil {
			return nil, err
		}
		c, err := h.s.deps.Discuss.TryReplay(ctx, actorFrom(ctx), r.ID, draft, limit)
		if err != nil {
			return nil, err
		}
		return gen.CheckProposal200JSONResponse(*replayCheck(c)), nil
	}
	c, err := h.s.deps.Discuss.CheckReplay(ctx, actorFrom(ctx), r.ID, limit)
	if err != nil {
		return nil, err
	}
	return gen.CheckProposal200JSONResponse(*replayCheck(c)), nil
}

func replayCheck(c *governance.ReplayCheck) *gen.ReplayCheck {
	if c == nil {
		return nil
	}
	return &gen.ReplayCheck{Digest: c.Digest, By: c.By, At: utc(c.At), Note: c.Note, Sessions: c.Sessions, Windows: c.Windows, Exact: c.Exact,
		Problems: list(c.Problems, func(d flows.ErrorDetail) gen.ProblemError {
			return gen.ProblemError{Pointer: d.Pointer, Code: d.Code, Detail: d.Detail}
		}),
		DivergedCount: c.DivergedCount, BlockedCount: c.BlockedCount, DestructiveMismatches: c.DestructiveMismatches,
		GoldenTests: len(c.Golden), Diverged: list(c.Diverged, replayWindow), Blocked: list(c.Blocked, replayWindow)}
}

func replayWindow(w governance.ReplayWindow) gen.ReplayWindow {
	return gen.ReplayWindow{SessionID: w.SessionID, Calls: present(w.Calls), Faults: list(w.Faults, func(f governance.ReplayFault) gen.ReplayFault {
		return gen.ReplayFault{Step: f.Step, Arg: f.Arg, Reason: gen.ReplayFaultReason(f.Reason)}
	})}
}

func shadowOf(r *governance.ShadowResult) *gen.ShadowResult {
	if r == nil {
		return nil
	}
	out := &gen.ShadowResult{Since: utc(r.Since), Updated: utc(r.Updated), Sessions: r.Sessions, Windows: r.Windows, Exact: r.Exact, Given: r.Given,
		DestructiveMismatches: r.DestructiveMismatches}
	out.Passed, out.Reason = r.Passed()
	if share, known := r.Conformance(); known {
		out.Conformance = &share
	}
	return out
}
