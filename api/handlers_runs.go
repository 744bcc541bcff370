package api

import (
	"context"
	"encoding/json"
	"fmt"

	"pave/api/gen"
	"pave/executor"
	"pave/flows"
	"pave/flows/value"
	"pave/governance/runs"
)

// RunFlow runs a flow to its end.
func (h *handlers) RunFlow(ctx context.Context, r gen.RunFlowRequestObject) (gen.RunFlowResponseObject, error) {
	input, err := value.Decode(r.Body.Input)
	if err != nil {
		return nil, flows.NewError(flows.CodeInvalid, "the input is not JSON that can be taken: "+err.Error(),
			flows.ErrorDetail{Pointer: "/input", Code: "invalid", Detail: err.Error()})
	}
	object, _ := input.(map[string]any)
	req := runs.Request{Flow: r.Name, Version: r.Body.Version, Input: object, IdempotencyKey: r.Params.IdempotencyKey, DryRun: r.Body.DryRun}
	if r.Params.Stream {
		return &runStream{start: func(onEvent func(executor.Event)) (*runs.Run, error) {
			req.OnEvent = onEvent
			return h.s.deps.Runs.Run(ctx, actorFrom(ctx), req)
		}}, nil
	}
	run, err := h.s.deps.Runs.Run(ctx, actorFrom(ctx), req)
	if err != nil {
		return nil, err
	}
	out, err := runOf(*run)
	return gen.RunFlow200JSONResponse(out), err
}

// ListRuns pages runs without their records.
func (h *handlers) ListRuns(ctx context.Context, r gen.ListRunsRequestObject) (gen.ListRunsResponseObject, error) {
	page, err := h.s.deps.Runs.List(ctx, actorFrom(ctx), runs.Filter{Flow: r.Params.Flow, State: string(r.Params.Status),
		Limit: pageSize(r.Params.Limit), Cursor: r.Params.Cursor})
	if err != nil {
		return nil, err
	}
	out := gen.ListRuns200JSONResponse{Items: make([]gen.Run, len(page.Items)), NextCursor: page.Next}
	for i := range page.Items {
		if out.Items[i], err = runOf(page.Items[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// GetRun reads one run with its record.
func (h *handlers) GetRun(ctx context.Context, r gen.GetRunRequestObject) (gen.GetRunResponseObject, error) {
	run, err := h.s.deps.Runs.Get(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	out, err := runOf(*run)
	return gen.GetRun200JSONResponse(out), err
}

func runOf(run runs.Run) (gen.Run, error) {
	out := gen.Run{
		ID: run.ID, Flow: run.Flow, Version: run.Version, Status: gen.RunStatus(run.State), Caller: run.Caller,
		StartedAt: utc(run.Started), EndedAt: utc(run.Ended), DryRun: run.DryRun,
		LlmCallsAvoided: run.Avoided.LLMCalls, TokensAvoided: run.Avoided.Tokens, CostUsdAvoided: run.Avoided.CostUSD,
		LatencyMsAvoided: float64(run.Avoided.Latency.Microseconds()) / 1000, Replayed: run.Replayed,
	}
	if !run.Ended.IsZero() {
		out.DurationMs = run.Ended.Sub(run.Started).Milliseconds()
	}
	if run.Result == nil {
		return out, nil
	}
	record, err := json.Marshal(run.Result)
	if err != nil {
		return out, fmt.Errorf("encode run %s: %w", run.ID, err)
	}
	out.Record = record
	if run.Result.FinalOutput != nil {
		out.Output = value.Encode(run.Result.FinalOutput)
	}
	out.Steps = len(run.Result.ExecutionLog)
	describe(&out, run.Result)
	return out, nil
}

// describe counts finished steps and lifts the reason of a run that did not succeed to the top.
func describe(out *gen.Run, result *executor.RunResult) {
	for i := range result.ExecutionLog {
		record := &result.ExecutionLog[i]
		if record.Success && !record.Skipped {
			out.StepsDone++
		}
		if result.Success || record.ErrorCode == nil {
			continue
		}
		out.ErrorCode = *record.ErrorCode
		if record.ErrorMessage != nil {
			out.ErrorMessage = *record.ErrorMessage
		}
	}
	if out.ErrorMessage == "" && result.HandBack != nil {
		out.ErrorMessage = result.HandBack.Reason
	}
}
