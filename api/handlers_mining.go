package api

import (
	"context"

	"pave/api/gen"
	"pave/governance"
)

// StartMiningRun mines, waiting for the end or not.
func (h *handlers) StartMiningRun(ctx context.Context, r gen.StartMiningRunRequestObject) (gen.StartMiningRunResponseObject, error) {
	var req governance.MiningRequest
	if b := r.Body; b != nil {
		req = governance.MiningRequest{From: b.From, To: b.To, MinSessions: b.MinSessions, MaxLength: b.MaxLength}
	}
	if r.Params.Wait {
		run, err := h.s.deps.Mining.MineOnce(ctx, actorFrom(ctx), req)
		if err != nil {
			return nil, storeError(err)
		}
		return gen.StartMiningRun200JSONResponse(miningRun(run)), nil
	}
	run, err := h.s.deps.Mining.Begin(ctx, actorFrom(ctx), req)
	if err != nil {
		return nil, storeError(err)
	}
	return gen.StartMiningRun202JSONResponse{Body: miningRun(run),
		Headers: gen.StartMiningRun202ResponseHeaders{Location: "/api/v1/mining-runs/" + run.ID}}, nil
}

// GetMiningRun reads one pass.
func (h *handlers) GetMiningRun(ctx context.Context, r gen.GetMiningRunRequestObject) (gen.GetMiningRunResponseObject, error) {
	run, err := h.s.deps.Passes.MiningRun(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return gen.GetMiningRun200JSONResponse(miningRun(run)), nil
}

// ListPatterns pages what the newest finished pass found.
func (h *handlers) ListPatterns(ctx context.Context, r gen.ListPatternsRequestObject) (gen.ListPatternsResponseObject, error) {
	run, err := h.s.deps.Passes.MiningRun(ctx, actorFrom(ctx), "")
	if err != nil {
		return nil, err
	}
	out := gen.ListPatterns200JSONResponse{MiningRunID: run.ID, Items: []gen.Pattern{}}
	if run.Result == nil {
		return out, nil
	}
	all := run.Result.Patterns
	first, err := parseOffset(r.Params.Cursor, run.ID, len(all))
	if err != nil {
		return nil, err
	}
	last := min(first+pageSize(r.Params.Limit), len(all))
	out.Items = list(all[first:last], Pattern)
	if last < len(all) {
		out.NextCursor = offsetCursor(run.ID, last)
	}
	if first == 0 {
		out.Blocked = list(run.Result.Blocked, Blocked)
	}
	return out, nil
}

func miningRun(m *governance.MiningRun) gen.MiningRun {
	out := gen.MiningRun{
		ID: m.ID, Status: gen.MiningRunStatus(m.State), Phase: m.Phase, StartedAt: utc(m.Started), EndedAt: utc(m.Ended),
		StartedBy: m.By, Error: m.Error, Candidates: m.Candidates, Proposals: proposeReport(m.Report),
	}
	if res := m.Result; res != nil {
		out.Sessions, out.Calls, out.Stretches, out.LlmCalls, out.RepeatCalls = res.Sessions, res.Calls, res.Stretches, res.LLMCalls, res.RepeatCalls
		out.Patterns, out.Blocked = len(res.Patterns), len(res.Blocked)
	}
	return out
}

func proposeReport(r governance.ProposeReport) gen.ProposeReport {
	return gen.ProposeReport{
		Created: r.Count(governance.OutcomeCreated), Returned: r.Count(governance.OutcomeReturned),
		Updated: r.Count(governance.OutcomeUpdated), Changed: r.Count(governance.OutcomeChanged),
		Unchanged: r.Count(governance.OutcomeUnchanged), Suppressed: r.Count(governance.OutcomeSuppressed),
		Capped: r.Count(governance.OutcomeCapped),
		Items: list(r.Items, func(i governance.ProposeItem) gen.ProposeItem {
			return gen.ProposeItem{Flow: i.Flow, Outcome: gen.ProposeItemOutcome(i.Outcome), ProposalID: i.ProposalID, Reason: i.Reason}
		}),
	}
}
