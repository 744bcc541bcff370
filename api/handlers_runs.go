package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"pave/api/flowmcp"
	"pave/api/gen"
	"pave/executor"
	"pave/flows"
	"pave/flows/value"
	"pave/governance/runs"
)

// RunFlow runs a flow to its end.
func (h *handlers) RunFlow(ctx context.Context, r gen.RunFlowRequestObject) (gen.RunFlowResponseObject, error) {
	input, err := objectOf("input", r.Body.Input)
	if err != nil {
		return nil, err
	}
	params, err := objectOf("dynamic_params", r.Body.DynamicParams)
	if err != nil {
		return nil, err
	}
	traceID, spanID := flowmcp.TraceOf(r.Params.Traceparent)
	req := runs.Request{TraceID: traceID, ParentSpanID: spanID, Flow: r.Name, Version: r.Body.Version, SessionID: r.Body.SessionID, Force: r.Body.Force, Input: input, DynamicParams: params, IdempotencyKey: r.Params.IdempotencyKey,
		DryRun: r.Body.DryRun, DryRunUnsupported: string(r.Body.DryRunUnsupported)}
	if r.Params.Wait != "" {
		req.Detach = true
		if req.Wait, err = waitOf(r.Params.Wait); err != nil {
			return nil, err
		}
	}
	if r.Params.Stream {
		return &runStream{start: func(onEvent func(executor.Event)) (*runs.Run, error) {
			req.OnEvent = onEvent
			return h.s.deps.Runs.Run(ctx, actorFrom(ctx), req)
		}}, nil
	}
	return runAnswerOf(h.s.deps.Runs.Run(ctx, actorFrom(ctx), req))
}

// objectOf reads a JSON object of a request with exact values; nil when it is not there.
func objectOf(field string, raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := value.Decode(raw)
	if err != nil {
		return nil, flows.NewError(flows.CodeInvalid, field+" is not JSON that can be taken: "+err.Error(),
			flows.ErrorDetail{Pointer: "/" + field, Code: "invalid", Detail: err.Error()})
	}
	object, _ := v.(map[string]any) // the contract has checked that it is one
	return object, nil
}

// maxWait bounds how long a request waits for a run.
const maxWait = 10 * time.Minute

// waitOf reads the parameter wait; "" is no time.
func waitOf(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d > maxWait {
		return 0, flows.NewError(flows.CodeInvalid, fmt.Sprintf("wait %s: use a time such as 10s, at most 10m", text),
			flows.ErrorDetail{Pointer: "wait", Code: "invalid", Detail: "such as 10s, at most 10m"})
	}
	return d, nil
}

// runAnswer is a run as an answer: 202 with its place while it goes on.
type runAnswer struct{ run gen.Run }

func runAnswerOf(run *runs.Run, err error) (*runAnswer, error) {
	if err != nil {
		return nil, err
	}
	out, err := runOf(*run)
	return &runAnswer{out}, err
}

func (a *runAnswer) write(w http.ResponseWriter) error {
	body, err := json.Marshal(a.run)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", etag(a.run.Revision))
	status := http.StatusOK
	if a.run.Status == gen.RunStatusRunning {
		status = http.StatusAccepted
		w.Header().Set("Location", "/api/v1/runs/"+a.run.ID)
	}
	w.WriteHeader(status)
	_, err = w.Write(append(body, '\n'))
	return err
}

// VisitRunFlowResponse implements gen.RunFlowResponseObject.
func (a *runAnswer) VisitRunFlowResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitDecideRunApprovalResponse implements gen.DecideRunApprovalResponseObject.
func (a *runAnswer) VisitDecideRunApprovalResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitResumeRunResponse implements gen.ResumeRunResponseObject.
func (a *runAnswer) VisitResumeRunResponse(w http.ResponseWriter) error { return a.write(w) }

// DecideRunApproval approves or denies a call that a run waits for.
func (h *handlers) DecideRunApproval(ctx context.Context, r gen.DecideRunApprovalRequestObject) (gen.DecideRunApprovalResponseObject, error) {
	revision, err := ifMatch(r.Params.IfMatch, 1)
	if err != nil {
		return nil, err
	}
	wait, err := waitOf(r.Params.Wait)
	if err != nil {
		return nil, err
	}
	return runAnswerOf(h.s.deps.Runs.Decide(ctx, actorFrom(ctx), r.ID, runs.DecisionRequest{Step: r.Body.Step, Decision: string(r.Body.Decision),
		Reason: r.Body.Reason, IfRevision: revision, Wait: wait}))
}

// ResumeRun goes on with an interrupted run.
func (h *handlers) ResumeRun(ctx context.Context, r gen.ResumeRunRequestObject) (gen.ResumeRunResponseObject, error) {
	wait, err := waitOf(r.Params.Wait)
	if err != nil {
		return nil, err
	}
	req := runs.ResumeRequest{Wait: wait}
	if r.Body != nil {
		req.RepeatUnsafe = r.Body.RepeatUnsafe
		if req.DynamicParams, err = objectOf("dynamic_params", r.Body.DynamicParams); err != nil {
			return nil, err
		}
	}
	return runAnswerOf(h.s.deps.Runs.Resume(ctx, actorFrom(ctx), r.ID, req))
}

// CancelRun ends a run.
func (h *handlers) CancelRun(ctx context.Context, r gen.CancelRunRequestObject) (gen.CancelRunResponseObject, error) {
	run, err := h.s.deps.Runs.Cancel(ctx, actorFrom(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	out, err := runResource(run)
	return gen.CancelRun200JSONResponse{RunAnswerJSONResponse: out}, err
}

func runResource(run *runs.Run) (gen.RunAnswerJSONResponse, error) {
	out, err := runOf(*run)
	return gen.RunAnswerJSONResponse{Body: out, Headers: gen.RunAnswerResponseHeaders{ETag: etag(run.Revision)}}, err
}

// ListRuns pages runs without their records.
func (h *handlers) ListRuns(ctx context.Context, r gen.ListRunsRequestObject) (gen.ListRunsResponseObject, error) {
	page, err := h.s.deps.Runs.List(ctx, actorFrom(ctx), runs.Filter{Flow: r.Params.Flow, State: cmp.Or(string(r.Params.State), string(r.Params.Status)),
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
	out, err := runResource(run)
	return gen.GetRun200JSONResponse{RunAnswerJSONResponse: out}, err
}

func runOf(run runs.Run) (gen.Run, error) {
	out := gen.Run{
		ID: run.ID, Flow: run.Flow, Version: run.Version, Status: gen.RunStatus(run.State), Caller: run.Caller,
		StartedAt: utc(run.Started), EndedAt: utc(run.Ended), ErasedAt: utc(run.Erased), DryRun: run.DryRun,
		LlmCallsAvoided: run.Avoided.LLMCalls, TokensAvoided: run.Avoided.Tokens, CostUsdAvoided: run.Avoided.CostUSD,
		LatencyMsAvoided: float64(run.Avoided.Latency.Microseconds()) / 1000, Replayed: run.Replayed,
		Revision: run.Revision, Approvals: list(run.Approvals, approvalOf),
	}
	if run.Problem != nil {
		out.ErrorCode, out.ErrorMessage = run.Problem.Code, run.Problem.Message
	}
	if !run.Ended.IsZero() {
		out.DurationMs = run.Ended.Sub(run.Started).Milliseconds()
	}
	if c := run.Continuation; c != nil {
		out.HandBack, out.HandBackText = value.Encode(flowmcp.Stopped(run.State, run.ID, c)), c.Text()
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

func approvalOf(a runs.Approval) gen.RunApproval {
	return gen.RunApproval{Step: a.Step, Decision: gen.RunApprovalDecision(a.Decision), ToolName: a.ToolName, FlowName: a.FlowName, StepID: a.StepID,
		SideEffects: gen.SideEffects(a.SideEffects), Why: a.Why, Inputs: value.Encode(a.Inputs), RequestedAt: utc(a.RequestedAt), ExpiresAt: utc(a.ExpiresAt),
		DecidedAt: utc(a.DecidedAt), DecidedBy: a.DecidedBy, Reason: a.Reason}
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
