package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"pave/flows"
	"pave/flows/schema"
)

// run is the state of one execution. It lives on one goroutine.
type run struct {
	e      *Engine
	plan   *Plan
	in     RunInput
	ctx    context.Context
	runID  string
	result *RunResult
	vars   vars
	// executed counts the records of steps, finished those that succeeded without being skipped.
	executed, finished int
}

// Run executes a plan and always returns a result: a flow that fails, is handed back or cancelled says so in it.
// ctx cancels the run at the next step boundary, in a backoff or in the middle of a call. The caller owns the
// result; its maps may share values with each other and must not be changed in place.
func (e *Engine) Run(ctx context.Context, plan *Plan, in RunInput) *RunResult {
	ctx, cancel := context.WithTimeoutCause(ctx, e.limits.MaxRunTime, errRunTime)
	defer cancel()
	r := &run{e: e, plan: plan, in: in, ctx: ctx, runID: in.RunID}
	if r.runID == "" {
		r.runID = e.newID()
	}
	traceID := in.TraceID
	if traceID == "" {
		traceID = e.newID()
	}
	started := e.now()
	r.result = &RunResult{
		TraceSchemaVersion: TraceSchemaVersion,
		FlowName:           plan.flow.Name,
		FlowVersion:        plan.flow.Version,
		ExecutionLog:       make([]StepRecord, 0, len(plan.steps)+1),
		TraceID:            traceID,
		StartedAt:          stamp(started),
		InitialInput:       in.Input,
		DryRun:             in.DryRun,
	}
	r.emit(Event{Kind: EventFlowStart, TotalSteps: len(plan.steps)})
	if r.begin() && r.steps() {
		r.finish()
	}
	ended := e.now()
	r.result.EndedAt = stamp(ended)
	r.result.TotalDurationMS = millis(ended.Sub(started))
	if e.cost != nil {
		r.result.CostReport = NewCostReport(*e.cost, r.executed, r.finished, r.result.TotalDurationMS)
	}
	r.emit(Event{Kind: EventFlowEnd, Result: r.result})
	return r.result
}

var errRunTime = errors.New("the run's time limit has passed")

// begin checks limits and the input, and sets up the context from the validated, coerced input.
func (r *run) begin() bool {
	input, size, err := snapshotObject(r.in.Input)
	if err != nil {
		r.result.InitialInput = map[string]any{}
		return r.endWith(StatusFailed, -1, r.result.InitialInput, failSchema("flow_input", r.plan.flow.Name, -1,
			[]schema.Violation{{Loc: "$", Type: "json_type", Message: "the input " + err.Error()}}))
	}
	r.result.InitialInput = input
	if n := len(r.plan.steps); n > r.e.limits.MaxSteps {
		return r.endWith(StatusFailed, -1, input, &failure{cw: flows.CWFlowSerialization,
			message: fmt.Sprintf("Flow '%s' has %d steps, above the limit max_steps of %d.", r.plan.flow.Name, n, r.e.limits.MaxSteps)})
	}
	input, f := r.plan.input.coerce("flow_input", r.plan.flow.Name, -1, input)
	if f != nil {
		return r.endWith(StatusFailed, -1, r.result.InitialInput, f)
	}
	r.result.InitialInput = input
	r.vars = vars{values: maps.Clone(input), size: size}
	return true
}

// steps runs the steps in declaration order; false when the run has ended before the last one.
func (r *run) steps() bool {
	for i := range r.plan.steps {
		sp := &r.plan.steps[i]
		if reason := r.ended(); reason != "" {
			return r.endWith(StatusCancelled, sp.index, map[string]any{}, failCancelled(r.plan.flow.Name, sp.index, reason))
		}
		holds, guardFailure := sp.checkGuard(r.vars.values)
		if !holds && guardFailure == nil {
			return r.handBack(sp, sp.mapping.resolvable(r.vars.values), "guard is false: "+sp.step.Guard)
		}
		log := append(r.result.ExecutionLog, StepRecord{})
		r.result.ExecutionLog = log
		rec := &log[len(log)-1]
		f := r.step(sp, rec, guardFailure)
		r.executed++
		if rec.Success && !rec.Skipped {
			r.finished++
		}
		r.emit(Event{Kind: EventStepEnd, StepIndex: sp.index, ToolName: rec.ToolName, StepRecord: rec})
		if f == nil {
			continue
		}
		switch {
		case f.ended:
			r.result.Status = StatusCancelled
		case r.plan.flow.OnFailure == flows.OnFailureHandBack:
			return r.handBack(sp, rec.Inputs, "step failed: "+f.String())
		default:
			r.result.Status = StatusFailed
		}
		return false
	}
	return true
}

// finish checks the flow's own schemas and projects what the caller gets.
func (r *run) finish() {
	flow, index := r.plan.flow, len(r.plan.steps)
	output := r.vars.values
	if flow.Returns != nil {
		projected, f := r.plan.returns.resolve(r.vars.values, flow.Name, index)
		if f != nil {
			r.endWith(StatusFailed, index, r.vars.values, f)
			return
		}
		output = projected
	}
	for _, check := range []struct {
		label  string
		schema contract
		value  map[string]any
	}{{"flow_output", r.plan.output, output}, {"flow_context", r.plan.context, r.vars.values}} {
		if f := check.schema.check(check.label, flow.Name, index, check.value); f != nil {
			r.endWith(StatusFailed, index, check.value, f)
			return
		}
	}
	r.result.Success, r.result.Status, r.result.FinalOutput = true, StatusSucceeded, output
}

// endWith ends the run with a record that belongs to no executed step: a check of the whole flow, or the step
// before which the run was cancelled. It counts for no cost.
func (r *run) endWith(status string, index int, inputs map[string]any, f *failure) bool {
	name := r.plan.flow.Name
	rec := StepRecord{StepIndex: index, Inputs: inputs, RetryErrors: []string{}}
	if index >= 0 && index < len(r.plan.steps) {
		sp := &r.plan.steps[index]
		name, rec.StepID = sp.name, sp.step.StepID
	}
	rec.ToolName = name
	rec.StartedAt = stamp(r.e.now())
	rec.EndedAt = rec.StartedAt
	f.write(&rec)
	r.result.ExecutionLog = append(r.result.ExecutionLog, rec)
	r.result.Status = status
	r.emit(Event{Kind: EventStepEnd, StepIndex: index, ToolName: name, StepRecord: &r.result.ExecutionLog[len(r.result.ExecutionLog)-1]})
	return false
}

// handBack ends the run so that an agent can go on: with the outputs so far, projected by returns where its values
// exist, and the step that it should take.
func (r *run) handBack(sp *stepPlan, inputs map[string]any, reason string) bool {
	r.result.Status = StatusHandedBack
	r.result.HandBack = &HandBack{StepIndex: sp.index, StepID: sp.step.StepID, ToolName: sp.name, Inputs: inputs, Reason: reason}
	r.result.FinalOutput = r.vars.values
	if r.plan.flow.Returns != nil {
		r.result.FinalOutput = r.plan.returns.resolvable(r.vars.values)
	}
	return false
}

// ended says why the run must not go on, "" when it may.
func (r *run) ended() string {
	if r.ctx.Err() == nil {
		return ""
	}
	switch cause := context.Cause(r.ctx); {
	case errors.Is(cause, errRunTime):
		return errRunTime.Error()
	case errors.Is(cause, context.DeadlineExceeded):
		return "the caller's deadline has passed"
	default:
		return "the caller cancelled it"
	}
}

// logStep writes one line for a finished step.
func (r *run) logStep(rec *StepRecord) {
	level := slog.LevelDebug
	code := ""
	if rec.ErrorCode != nil {
		level, code = slog.LevelInfo, *rec.ErrorCode
	}
	if !r.e.logger.Enabled(r.ctx, level) {
		return
	}
	r.e.logger.Log(r.ctx, level, "step", logFlow, r.plan.flow.Name, logRun, r.runID, logStep, rec.StepIndex, logTool, rec.ToolName,
		logOK, rec.Success, logCode, code, logRetries, rec.RetryCount, logMillis, rec.DurationMS)
}

// close stamps the end of a record.
func (r *run) close(rec *StepRecord, started time.Time) {
	ended := r.e.now()
	rec.EndedAt = stamp(ended)
	rec.DurationMS = millis(ended.Sub(started))
	r.logStep(rec)
}
