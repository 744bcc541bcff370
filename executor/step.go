package executor

import (
	"errors"
	"fmt"

	"pave/flows"
	"pave/flows/schema"
)

// noErrors is the retry_errors of a step without failed attempts: [] in JSON, never null.
var noErrors = []string{}

// prepare does what must be done before any step of the level starts: inputs, input contract, gates.
func (v *visit) prepare() {
	v.started = v.r.e.now()
	if v.f == nil { // else the guard could not be evaluated
		v.f = v.ready()
	}
}

func (v *visit) ready() *failure {
	sp := v.sp
	v.tool = sp.primary
	if f := v.decide(); f != nil {
		return f
	}
	if v.tool == nil {
		if f := v.untooled(); f != nil {
			return f
		}
	}
	if sp.each != nil {
		if f := v.readyElements(); f != nil {
			return f
		}
	} else if f := v.resolve(); f != nil {
		return f
	}
	if v.r.in.OnEvent != nil {
		v.emit(Event{Kind: EventStepStart, StepIndex: sp.index, ToolName: v.name, Inputs: v.resolved})
	}
	if v.tool == nil {
		return nil // a flow's own steps pass the gates, a kernel has its own
	}
	return v.gates()
}

// untooled fails a step without a tool, unless a flow or a kernel runs it.
func (v *visit) untooled() *failure {
	switch {
	case v.sp.capability && v.r.e.kernel == nil:
		return failExecution(v.name, v.sp.index, &ToolError{Class: ClassOther, Message: fmt.Sprintf(
			"Step '%s' has step_type='capability' and no kernel is configured for capability '%s'; configure one, or use a tool.", v.sp.step.StepID, v.sp.step.CapabilityID)})
	case v.sp.capability || v.sp.step.FlowName != "":
		return nil
	}
	return failMissingTool(v.name)
}

// resolve takes the step's arguments from the context that it sees.
func (v *visit) resolve() *failure {
	sp := v.sp
	resolved, f := sp.mapping.resolve(v.values, v.name, sp.index)
	if f != nil {
		return f
	}
	v.resolved, v.rec.Inputs = resolved, resolved
	return sp.inContract.check("step_input_contract", v.name, sp.index, resolved)
}

// execute runs a prepared step.
func (v *visit) execute() {
	v.ran = true
	if rec := v.r.reused(v.sp.index); rec != nil {
		v.reuse(rec)
	} else if v.sp.each != nil {
		v.executeElements()
	} else {
		v.executeOnce()
	}
	v.finished = v.r.e.now()
}

// reuse takes a step's outcome from the record that is replayed.
func (v *visit) reuse(rec *StepRecord) {
	fresh := v.rec
	*fresh = *rec
	v.sent = !rec.NotSent
	v.outputs = rec.Outputs
	if _, size, err := snapshotObject(rec.Outputs); err == nil {
		v.size = size
	}
}

// executeOnce runs a step or an element of it: the call with its retries, rescue by on_error, output contract, output
// guardrail, cache.
func (v *visit) executeOnce() {
	v.outputs, v.size, v.f = v.attempts()
	if v.f != nil {
		if v.r.previews(v.tool) {
			return // the failure of a preview is not one of the tool
		}
		v.outputs, v.size, v.f = v.rescue(v.f)
	}
	if v.f != nil || v.rec.Skipped {
		return
	}
	if v.f = v.sp.outContract.check("step_output_contract", v.name, v.sp.index, v.outputs); v.f == nil {
		v.f = v.guardOutput(v.outputs)
	}
	if v.f == nil && v.key != "" && !v.rec.Cached && !v.rec.FallbackUsed {
		v.r.e.cache.Put(v.key, v.outputs, v.size)
	}
}

// skip marks a step that ran nothing or whose failure is skipped: it succeeds with empty outputs and merges
// nothing, whatever its output mapping.
func (rec *StepRecord) skip() {
	rec.Skipped, rec.Outputs = true, map[string]any{}
}

// attempts validates the inputs once (a failure there is never retried: it cannot change) and calls the tool until
// it answers or the retry policy ends.
func (v *visit) attempts() (map[string]any, int, *failure) {
	r, rec := v.r, v.rec
	inputs := v.resolved
	policy, suppressed := v.retryPolicy()
	if v.tool != nil {
		var f *failure
		if inputs, f = v.tool.accept(v.sp.index, v.resolved); f != nil {
			rec.RetryErrors = []string{f.raw + suppressed}
			return nil, 0, f
		}
	}
	rec.Inputs = inputs
	if v.key = v.cacheKey(inputs); v.key != "" {
		if outputs, size, hit := r.e.cache.Get(v.key); hit {
			rec.Cached = true
			return outputs, size, nil
		}
	}
	for attempt := rec.RetryCount + 1; ; attempt++ { // a resumed step goes on counting
		outputs, size, f := v.call(inputs, attempt)
		if f == nil {
			return outputs, size, nil
		}
		// The errors of a flow stand in its result; they are listed here only where it is tried again.
		if !f.ended && !f.pending && (v.tool != nil || policy != nil) && !r.previews(v.tool) {
			rec.RetryErrors = append(rec.RetryErrors, f.raw+suppressed)
		}
		if f.ended || f.pending || policy == nil || attempt > policy.MaxRetries || !retryable(policy, f) {
			return nil, 0, f
		}
		if delay := Backoff(policy, attempt, r.e.jitter()); delay > 0 {
			if err := r.e.sleep(r.ctx, delay); err != nil || r.ctx.Err() != nil {
				return nil, 0, failCancelled(r.plan.flow.Name, v.sp.index, r.ended())
			}
		}
		rec.RetryCount = attempt
	}
}

// call is one attempt at what the step calls.
func (v *visit) call(inputs map[string]any, attempt int) (map[string]any, int, *failure) {
	switch {
	case v.tool != nil:
		return v.attempt(v.tool, inputs, attempt, false)
	case v.sp.capability:
		return v.callCapability(inputs, attempt)
	}
	return v.callFlow()
}

// attempt is one call of a tool: the inputs go out, a private copy of the answer comes in, is measured, wrapped if it is
// no object, and validated.
func (v *visit) attempt(tp *toolPlan, inputs map[string]any, attempt int, fallback bool) (map[string]any, int, *failure) {
	r, sp := v.r, v.sp
	raw, err := r.e.call(r.ctx, tp.tool, tp.timeout, inputs, CallInfo{RunID: r.runID, TraceID: r.result.TraceID,
		Path: v.path(), StepIndex: sp.index, StepID: sp.step.StepID, Attempt: attempt, Fallback: fallback, Preview: r.previews(tp), Scope: r.in.CacheScope})
	v.sent = v.sent || !notSent(err)
	if err != nil {
		return nil, 0, r.callFailure(sp, tp, err)
	}
	answer := raw
	size, isFlat := 0, false
	if tp.rebuilds {
		size, isFlat = flat(raw, tp.outputs)
	}
	if !isFlat {
		if answer, size, err = snapshot(raw); err != nil {
			return nil, 0, failExecution(tp.tool.Name, sp.index, &ToolError{Class: ClassValidation, Message: "the tool's answer " + err.Error()})
		}
	}
	if limit := tp.maxOutput(r.e.limits.MaxOutputBytes); size > limit {
		return nil, 0, failSize(tp.tool.Name, size, limit)
	}
	outputs, violations := tp.outputsOf(answer)
	if len(violations) > 0 {
		return nil, 0, failSchema("tool", tp.tool.Name, sp.index, violations)
	}
	return outputs, size, nil
}

// notSent reports whether a binding says of a call that it did not make it.
func notSent(err error) bool {
	te := new(ToolError)
	return errors.As(err, &te) && te.NotSent
}

// callFailure sorts out why a call gave no answer: the run ended, the tool's own time ran out, or the tool failed.
func (r *run) callFailure(sp *stepPlan, tp *toolPlan, err error) *failure {
	var te *ToolError
	switch isTool := errors.As(err, &te); {
	case r.ctx.Err() != nil:
		return failCancelled(r.plan.flow.Name, sp.index, r.ended())
	case isTool && te.Code == CodeOutputTooLarge:
		f := failExecution(tp.tool.Name, sp.index, te)
		f.cw, f.message, f.raw = flows.CWToolOutputSize, te.Message, te.Message
		return f
	case isTool:
		return failExecution(tp.tool.Name, sp.index, te)
	case tp.timeout > 0 && isContextError(err):
		return failTimeout(tp.tool.Name, *tp.tool.TimeoutSeconds)
	}
	return failExecution(tp.tool.Name, sp.index, &ToolError{Class: ClassOther, Message: err.Error()})
}

// rescue applies on_error to a failed call. A run that has ended is beyond recovery.
func (v *visit) rescue(f *failure) (map[string]any, int, *failure) {
	sp, rec := v.sp, v.rec
	switch {
	case f.ended || f.pending || sp.onError == onErrorFail:
		return nil, 0, f
	case sp.onError == onErrorSkip && v.element > 0:
		v.skips = true
		return nil, 0, f
	case sp.onError == onErrorSkip:
		rec.skip()
		f.write(rec)
		return nil, 0, nil
	}
	rec.FallbackUsed, rec.FallbackToolName = true, &sp.fallbackName
	rec.RetryErrors = append(rec.RetryErrors, f.message)
	if sp.fallback == nil {
		return nil, 0, failMissingTool(sp.fallbackName)
	}
	if f := v.r.checkCeiling(sp, sp.fallback); f != nil {
		return nil, 0, f
	}
	if v.fallbackApproval != nil {
		rec.Approval = v.fallbackApproval
	}
	if v.fallbackDenied != nil {
		return nil, 0, v.fallbackDenied
	}
	if f := v.guardInput(sp.fallback); f != nil {
		return nil, 0, f
	}
	skip, f := v.r.checkDryRun(sp, sp.fallback)
	if f != nil {
		return nil, 0, f
	}
	if skip {
		rec.skip()
		return nil, 0, nil
	}
	inputs, f := sp.fallback.accept(sp.index, v.resolved)
	if f != nil {
		return nil, 0, f
	}
	return v.attempt(sp.fallback, inputs, 1, true)
}

// accept validates and coerces resolved inputs into what the tool is called with.
func (tp *toolPlan) accept(step int, resolved map[string]any) (map[string]any, *failure) {
	if tp.in == nil {
		return resolved, nil
	}
	v, violations := tp.in.Accept(resolved)
	if len(violations) > 0 {
		return nil, failSchema("tool", tp.tool.Name, step, violations)
	}
	inputs, ok := v.(map[string]any)
	if !ok {
		return nil, failSchema("tool", tp.tool.Name, step, notAnObject)
	}
	return inputs, nil
}

var notAnObject = []schema.Violation{{Loc: "$", Type: "model_type", Message: "must be an object"}}

// outputsOf wraps and validates a tool's answer. An answer that is no object becomes {"result": answer} where the
// output schema declares "result" or nothing at all (then not for functions of this process, which answer with objects);
// this is the only place that does so.
func (tp *toolPlan) outputsOf(answer any) (map[string]any, []schema.Violation) {
	object, isObject := answer.(map[string]any)
	if !isObject && tp.wraps {
		object, isObject = map[string]any{resultKey: answer}, true
	}
	if tp.out == nil {
		if !isObject {
			return nil, notAnObject
		}
		return object, nil
	}
	if isObject {
		answer = object
	}
	v, violations := tp.out.Complete(answer)
	if len(violations) > 0 {
		return nil, violations
	}
	outputs, ok := v.(map[string]any)
	if !ok {
		return nil, notAnObject
	}
	return outputs, nil
}

// checkGuard evaluates the step's guard; a step without one holds.
func (sp *stepPlan) checkGuard(values map[string]any) (holds bool, f *failure) {
	if sp.guard == nil {
		return true, nil
	}
	holds, err := sp.guard.Eval(values)
	if err != nil {
		message := fmt.Sprintf("Guard of step %d ('%s') cannot be evaluated: %v", sp.index, sp.name, err)
		return false, &failure{cw: flows.CWPredicateSyntax, message: message, raw: message, class: ClassOther}
	}
	return holds, nil
}
