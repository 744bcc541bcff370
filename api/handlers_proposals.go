package api

import (
	"context"
	"encoding/json"
	"fmt"

	"pave/analyzer"
	"pave/api/gen"
	"pave/flows"
	"pave/governance"
)

var openStates = []governance.State{governance.StateProposed, governance.StateInReview, governance.StateChanges, governance.StateApproved}

// ListProposals pages the queue.
func (h *handlers) ListProposals(ctx context.Context, r gen.ListProposalsRequestObject) (gen.ListProposalsResponseObject, error) {
	p := r.Params
	f := governance.ProposalFilter{Source: analyzer.Source(p.Source), Assignee: p.Assignee, Sort: string(p.Sort), Limit: pageSize(p.Limit), Cursor: p.Cursor}
	switch p.State {
	case "":
	case gen.ListProposalsParamsStateOpen:
		f.States = openStates
	default:
		f.States = []governance.State{governance.State(p.State)}
	}
	page, err := h.s.deps.Proposals.Proposals(ctx, actorFrom(ctx), f)
	if err != nil {
		return nil, err
	}
	return gen.ListProposals200JSONResponse{Items: list(page.Items, proposalSummary), NextCursor: page.Next}, nil
}

// GetProposal reads one proposal.
func (h *handlers) GetProposal(ctx context.Context, r gen.GetProposalRequestObject) (gen.GetProposalResponseObject, error) {
	p, err := h.s.deps.Proposals.Proposal(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	out, err := proposalAnswer(p)
	return gen.GetProposal200JSONResponse{ProposalAnswerJSONResponse: out}, err
}

// SubmitProposal puts a flow that somebody wrote into the queue.
func (h *handlers) SubmitProposal(ctx context.Context, r gen.SubmitProposalRequestObject) (gen.SubmitProposalResponseObject, error) {
	flow, _, err := flows.ParseFlow(r.Body.Flow)
	if err != nil {
		return nil, err
	}
	submit := h.s.deps.Proposals.Submit
	if r.Body.Source == gen.ProposalCreateSourceExternal {
		submit = h.s.deps.Proposals.SubmitExternal
	}
	p, err := submit(ctx, actorFrom(ctx), flow)
	if err != nil {
		return nil, err
	}
	out, err := proposalAnswer(p)
	return gen.SubmitProposal201JSONResponse{Body: out.Body, Headers: gen.SubmitProposal201ResponseHeaders{
		ETag: out.Headers.ETag, Location: "/api/v1/proposals/" + p.ID}}, err
}

// ReviewProposal records a verdict on one digest.
func (h *handlers) ReviewProposal(ctx context.Context, r gen.ReviewProposalRequestObject) (gen.ReviewProposalResponseObject, error) {
	revision, err := ifMatch(r.Params.IfMatch, 1)
	if err != nil {
		return nil, err
	}
	p, err := h.s.deps.Proposals.Review(ctx, actorFrom(ctx), r.ID, governance.ReviewRequest{
		Verdict: governance.Verdict(r.Body.Verdict), Feedback: governance.Feedback(r.Body.Feedback), Digest: r.Body.Digest, Comment: r.Body.Comment, IfRevision: revision,
		Safety: list(r.Body.Safety, func(d gen.SafetyDeclaration) governance.SafetyDeclaration {
			return governance.SafetyDeclaration{Tool: d.Tool, SideEffects: flows.SideEffects(d.SideEffects), Reason: d.Reason}
		})})
	if err != nil {
		return nil, err
	}
	out, err := proposalAnswer(p)
	return gen.ReviewProposal200JSONResponse{ProposalAnswerJSONResponse: out}, err
}

// WithdrawProposal takes a proposal out of the queue.
func (h *handlers) WithdrawProposal(ctx context.Context, r gen.WithdrawProposalRequestObject) (gen.WithdrawProposalResponseObject, error) {
	revision, err := ifMatch(r.Params.IfMatch, 1)
	if err != nil {
		return nil, err
	}
	reason := ""
	if r.Body != nil {
		reason = r.Body.Reason
	}
	p, err := h.s.deps.Proposals.Withdraw(ctx, actorFrom(ctx), r.ID, reason, revision)
	if err != nil {
		return nil, err
	}
	out, err := proposalAnswer(p)
	return gen.WithdrawProposal200JSONResponse{ProposalAnswerJSONResponse: out}, err
}

// PromoteProposal makes a proposal an active flow version.
func (h *handlers) PromoteProposal(ctx context.Context, r gen.PromoteProposalRequestObject) (gen.PromoteProposalResponseObject, error) {
	revision, err := ifMatch(r.Params.IfMatch, 1)
	if err != nil {
		return nil, err
	}
	req := governance.PromoteRequest{IfRevision: revision}
	if b := r.Body; b != nil {
		req.Version, req.Rollout = b.Version, b.Rollout
	}
	v, err := h.s.deps.Proposals.Promote(ctx, actorFrom(ctx), r.ID, req)
	if err != nil {
		return nil, err
	}
	out, err := flowVersion(v)
	return gen.PromoteProposal200JSONResponse{Body: out, Headers: gen.PromoteProposal200ResponseHeaders{ETag: etag(v.Revision)}}, err
}

func proposalAnswer(p *governance.Proposal) (gen.ProposalAnswerJSONResponse, error) {
	doc, err := json.Marshal(p.Flow)
	if err != nil {
		return gen.ProposalAnswerJSONResponse{}, fmt.Errorf("encode flow of proposal %s: %w", p.ID, err)
	}
	s := proposalSummary(*p)
	return gen.ProposalAnswerJSONResponse{
		Headers: gen.ProposalAnswerResponseHeaders{ETag: etag(p.Revision)},
		Body: gen.Proposal{
			ID: s.ID, State: s.State, Source: s.Source, Digest: s.Digest, Revision: s.Revision, FlowName: s.FlowName,
			Description: s.Description, Tools: s.Tools, Author: s.Author, Editors: s.Editors, Safety: s.Safety, Unbound: s.Unbound,
			Warnings: s.Warnings, Rank: s.Rank, Score: s.Score, Occurrences: s.Occurrences, Sessions: s.Sessions, Sampled: s.Sampled,
			Explained: s.Explained, Batch: s.Batch, Needs: s.Needs, Approvals: s.Approvals, Savings: s.Savings, PromotedAs: s.PromotedAs,
			Changed: s.Changed, Returned: s.Returned, Assignee: s.Assignee, Labels: s.Labels, Closed: s.Closed, Reservation: s.Reservation, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
			PatternKey: p.PatternKey, Flow: doc, Evidence: Evidence(p.Evidence), Reviews: list(p.Reviews, reviewOf),
			ReplayCheck: replayCheck(p.Check), Shadow: shadowOf(p.Shadow), NextVersion: bumpOf(p.Next), UnboundBy: p.Binders,
		},
	}, nil
}

func proposalSummary(p governance.Proposal) gen.ProposalSummary {
	out := gen.ProposalSummary{
		ID: p.ID, State: gen.ProposalState(p.State), Source: gen.ProposalSource(p.Source), Digest: p.Digest, Revision: p.Revision,
		FlowName: p.Flow.Name, Description: p.Flow.Description, Tools: toolsOf(p.Flow), Author: p.Author, Editors: p.Editors,
		Safety: gen.SideEffects(p.Safety), Unbound: p.Unbound, Warnings: p.Warnings, Rank: p.Rank, Score: finite(p.Score),
		Needs: p.Needs, Approvals: p.Approvals, Savings: Savings(p.Savings), PromotedAs: p.PromotedAs, Changed: p.Changed,
		Returned: p.Returned, Assignee: p.Assignee, Labels: p.Labels, CreatedAt: utc(p.CreatedAt), UpdatedAt: utc(p.UpdatedAt),
	}
	if c := p.Closed; c != nil {
		out.Closed = &gen.Closing{By: c.By, Reason: c.Reason, At: utc(c.At)}
	}
	if r := p.Reserved; r != nil {
		out.Reservation = &gen.Reservation{By: r.By, Until: utc(r.Until)}
	}
	if pattern := p.Evidence.Pattern; pattern != nil {
		out.Occurrences, out.Sessions, out.Batch = pattern.Occurrences, pattern.Sessions, batch(pattern.Batch)
		if pattern.DataFlow != nil {
			out.Sampled, out.Explained = pattern.DataFlow.Sampled, pattern.DataFlow.Explained
		}
	}
	return out
}

// toolsOf names the steps of a flow in order.
func toolsOf(f *flows.Flow) []string {
	names := make([]string, len(f.Steps))
	for i := range f.Steps {
		names[i] = f.Steps[i].Name()
	}
	return names
}

func reviewOf(r governance.Review) gen.Review {
	return gen.Review{ID: r.ID, Principal: r.Principal, Verdict: gen.Verdict(r.Verdict), Feedback: gen.Feedback(r.Feedback), Digest: r.Digest, Comment: r.Comment,
		Solo: r.Solo, Dismissed: r.Dismissed, At: utc(r.At)}
}
