package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"

	"pave/flows"
	"pave/flows/schema"
)

// run is the state of one execution. It lives on one goroutine; the steps of a level that run side by side write
// only their visits.
type run struct {
	e      *Engine
	plan   *Plan
	in     RunInput
	ctx    context.Context
	runID  string
	path   string // prefix of the places of calls: "" or "<place of the calling step>/"
	result *RunResult
	vars   vars
	visits []visit
	wide   bool // the level at hand has several steps
	// produced holds the keys that a wide level has merged, by the step that did.
	produced map[string]int
	skipped  []bool // by position: what branches have ruled out; nil in plans without branches
	// executed counts the records of steps, finished those that succeeded without being skipped.
	executed, finished int
	failure            *failure // what ended the run
	decided            int      // decisions asked for
	awaiting           []ApprovalRequest
	from               *Checkpoint    // where a resumed run goes on
	next               int            // level
	replay             *replay        // nil: no replay
	dynamic            map[string]any // the caller's dynamic params
}

// Run executes a plan and always returns a result: a flow that fails, is handed back or cancelled says so in it.
// ctx cancels the run at the next step boundary, in a backoff or in the middle of a call. The caller owns the
// result; its maps may share values with each other and must not be changed in place.
func (e *Engine) Run(ctx context.Context, plan *Plan, in RunInput) *RunResult {
	ctx, cancel := context.WithTimeoutCause(ctx, e.limits.MaxRunTime, errRunTime)
	defer cancel()
	in.OnEvent = redactEvents(in.OnEvent, in.DynamicParams)
	r := e.newRun(ctx, plan, in)
	r.start()
	return r.result
}

var errRunTime = errors.New("the run's time limit has passed")

func (e *Engine) newRun(ctx context.Context, plan *Plan, in RunInput) *run {
	r := &run{e: e, plan: plan, in: in, ctx: ctx, runID: in.RunID, dynamic: in.DynamicParams}
	if r.runID == "" {
		r.runID = e.newID()
	}
	traceID := in.TraceID
	if traceID == "" {
		traceID = e.newID()
	}
	r.result = &RunResult{
		TraceSchemaVersion: TraceSchemaVersion,
		FlowName:           plan.flow.Name,
		FlowVersion:        plan.flow.Version,
		ExecutionLog:       make([]StepRecord, 0, len(plan.steps)+1),
		TraceID:            traceID,
		InitialInput:       in.Input,
		DryRun:             in.DryRun,
	}
	return r
}

// start runs the plan from its beginning to its end.
func (r *run) start() {
	started := r.e.now()
	r.result.StartedAt = stamp(started)
	r.emit(Event{Kind: EventFlowStart, TotalSteps: len(r.plan.steps)})
	if r.ready() && r.levels() {
		r.finish()
	}
	ended := r.e.now()
	r.result.EndedAt = stamp(ended)
	r.result.TotalDurationMS = millis(ended.Sub(started))
	if r.e.cost != nil {
		r.result.CostReport = NewCostReport(*r.e.cost, r.executed, r.finished, r.result.TotalDurationMS)
	}
	r.forget()
	r.emit(Event{Kind: EventFlowEnd, Result: r.result})
}

func (r *run) ready() bool {
	if r.from != nil {
		return r.restore(r.from)
	}
	return r.begin()
}

// begin checks limits and the input, and sets up the context from the validated, coerced input.
func (r *run) begin() bool {
	input, size, err := snapshotObject(r.in.Input)
	if err == nil && len(r.dynamic) > 0 {
		r.dynamic, _, err = snapshotObject(r.dynamic)
	}
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
	for key, v := range r.dynamic {
		r.vars.put(key, v)
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
	r.result.Status, r.failure = status, f
	r.emit(Event{Kind: EventStepEnd, StepIndex: index, ToolName: name, StepRecord: &r.result.ExecutionLog[len(r.result.ExecutionLog)-1]})
	return false
}

// endAt ends the run with a failed step, whose record is the last one.
func (r *run) endAt(sp *stepPlan, rec *StepRecord, f *failure) {
	r.failure = f
	switch {
	case f.ended:
		r.result.Status = StatusCancelled
	case r.plan.flow.OnFailure == flows.OnFailureHandBack:
		r.handBack(sp, rec.Inputs, "step failed: "+f.String())
	default:
		r.result.Status = StatusFailed
	}
}

// handBack ends the run so that an agent can go on: with the outputs so far, projected by returns where its values
// exist, and the step that it should take.
func (r *run) handBack(sp *stepPlan, inputs map[string]any, reason string) {
	r.result.Status = StatusHandedBack
	r.result.HandBack = &HandBack{StepIndex: sp.index, StepID: sp.step.StepID, ToolName: sp.name, Inputs: inputs, Reason: reason}
	r.result.FinalOutput = r.vars.values
	if r.plan.flow.Returns != nil {
		r.result.FinalOutput = r.plan.returns.resolvable(r.vars.values)
	}
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

// close stamps the end of a step's record.
func (r *run) close(v *visit) {
	if v.finished.IsZero() {
		v.finished = r.e.now()
	}
	v.rec.StartedAt, v.rec.EndedAt = stamp(v.started), stamp(v.finished)
	v.rec.DurationMS = millis(v.finished.Sub(v.started))
	r.logStep(v.rec)
}
