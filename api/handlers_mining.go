package api

import (
	"context"

	"pave/api/gen"
	"pave/governance"
	"pave/governance/loop"
	"pave/observer"
)

// StartMiningRun mines, waiting for the end or not.
func (h *handlers) StartMiningRun(ctx context.Context, r gen.StartMiningRunRequestObject) (gen.StartMiningRunResponseObject, error) {
	var req governance.MiningRequest
	if b := r.Body; b != nil {
		req = governance.MiningRequest{From: b.From, To: b.To, MinSessions: b.MinSessions, MaxLength: b.MaxLength, Incremental: b.Incremental}
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
		out.Blocked = list(run.NotPaved(), Blocked)
	}
	return out, nil
}

func miningRun(m *governance.MiningRun) gen.MiningRun {
	out := gen.MiningRun{
		ID: m.ID, Status: gen.MiningRunStatus(m.State), Phase: m.Phase, StartedAt: utc(m.Started), EndedAt: utc(m.Ended),
		StartedBy: m.By, Trigger: gen.MiningTrigger(m.Trigger), Mode: gen.MiningMode(m.Mode), Increment: miningIncrement(m.Increment),
		Error: m.Error, Candidates: m.Candidates, Proposals: proposeReport(m.Report),
	}
	if res := m.Result; res != nil {
		out.Sessions, out.Calls, out.Stretches, out.LlmCalls, out.RepeatCalls = res.Sessions, res.Calls, res.Stretches, res.LLMCalls, res.RepeatCalls
		out.RetryCalls, out.FlowCalls, out.SkippedCalls, out.LeftOutCalls = res.RetryCalls, res.FlowCalls, res.SkippedCalls, res.LeftOut
		out.NotExamined, out.EarlierCalls = res.NotExamined, res.EarlierCalls
		out.Patterns, out.Blocked = len(res.Patterns), len(res.Blocked)
		out.Noise = list(res.Noise, func(n observer.NoiseTool) gen.NoiseTool {
			return gen.NoiseTool{Tool: n.Tool, Calls: n.Calls, Dependence: n.Dependence, Without: n.Without, Skipped: n.Skipped}
		})
	}
	return out
}

func proposeReport(r governance.ProposeReport) gen.ProposeReport {
	return gen.ProposeReport{
		Created: r.Count(governance.OutcomeCreated), Returned: r.Count(governance.OutcomeReturned),
		Updated: r.Count(governance.OutcomeUpdated), Changed: r.Count(governance.OutcomeChanged),
		Unchanged: r.Count(governance.OutcomeUnchanged), Suppressed: r.Count(governance.OutcomeSuppressed),
		Capped: r.Count(governance.OutcomeCapped),
		Items:  list(r.Items, proposeItem),
	}
}

func proposeItem(i governance.ProposeItem) gen.ProposeItem {
	return gen.ProposeItem{Flow: i.Flow, Outcome: gen.ProposeItemOutcome(i.Outcome), ProposalID: i.ProposalID, Reason: i.Reason}
}

// GetMiningStatus tells how the loop stands.
func (h *handlers) GetMiningStatus(context.Context, gen.GetMiningStatusRequestObject) (gen.GetMiningStatusResponseObject, error) {
	return gen.GetMiningStatus200JSONResponse(miningStatus(h.s.deps.Mining.Status())), nil
}

// ExplainPattern says why a path is or is not proposed.
func (h *handlers) ExplainPattern(ctx context.Context, r gen.ExplainPatternRequestObject) (gen.ExplainPatternResponseObject, error) {
	e, err := h.s.deps.Mining.Explain(ctx, actorFrom(ctx), r.Params.Tool)
	if err != nil {
		return nil, storeError(err)
	}
	return gen.ExplainPattern200JSONResponse(patternExplanation(e)), nil
}

func miningIncrement(i *observer.Increment) *gen.MiningIncrement {
	if i == nil {
		return nil
	}
	return &gen.MiningIncrement{Days: i.Days, Calls: i.Calls, NewPaths: i.NewPaths, Growth: i.Growth}
}

func miningStatus(s loop.Status) gen.MiningStatus {
	out := gen.MiningStatus{
		Automatic: s.Automatic, Running: s.Running, MiningRunID: s.RunID, Trigger: gen.MiningTrigger(s.Trigger), Phase: s.Phase,
		PendingSessions: s.PendingSessions, ToolsChanged: s.ToolsChanged, NextAt: utc(s.NextAt), Passes: s.Passes, Failures: s.Failures,
		IncrementalPasses: s.Incremental, LastFullAt: utc(s.LastFull),
	}
	if p := s.Progress; p.Stage != "" {
		out.Progress = &struct {
			Done  int    `json:"done"`
			Stage string `json:"stage"`
			Total int    `json:"total"`
		}{Done: p.Done, Stage: p.Stage, Total: p.Total}
	}
	if l := s.Last; l != nil {
		out.Last = &gen.MiningPass{
			MiningRunID: l.RunID, Status: gen.MiningPassStatus(l.State), Trigger: gen.MiningTrigger(l.Trigger), Mode: gen.MiningMode(l.Mode), Error: l.Error,
			StartedAt: utc(l.Started), EndedAt: utc(l.Ended), DurationMs: l.Ended.Sub(l.Started).Milliseconds(), Sessions: l.Sessions, Calls: l.Calls,
			Patterns: l.Patterns, Blocked: l.Blocked, Candidates: l.Candidates, Increment: miningIncrement(l.Increment),
		}
	}
	return out
}

func patternExplanation(e *loop.Explanation) gen.PatternExplanation {
	out := gen.PatternExplanation{
		Tools: present(e.Tools), Verdict: gen.PatternExplanationVerdict(e.Verdict), Occurrences: e.Occurrences, Sessions: e.Sessions,
		Failures: e.Failures, MinSessions: e.MinSessions, StepConfidence: e.StepConfidence, Expected: e.Expected,
		Before: list(e.Before, patternNeighbour), After: list(e.After, patternNeighbour), Detail: e.Detail, Unblock: e.Unblock, Dropped: e.Dropped,
		Proposals: list(e.Proposals, proposeItem), MiningRunID: e.RunID,
	}
	if e.Pattern != nil {
		p := Pattern(*e.Pattern)
		out.Pattern = &p
	}
	if e.Blocked != nil {
		b := Blocked(*e.Blocked)
		out.Blocked = &b
	}
	return out
}
