package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pave/flows"
)

// decide lets the engine's Decider choose the tool of a step that has candidates. Without a Decider the step calls its
// own. The chosen tool is the one that the record names.
func (v *visit) decide() *failure {
	r, sp := v.r, v.sp
	candidates := sp.step.DecisionCandidates
	if len(candidates) == 0 || r.e.decider == nil && r.replay == nil {
		return nil
	}
	fail := func(cw flows.CWError, format string, args ...any) *failure {
		message := fmt.Sprintf(format, args...)
		return &failure{cw: cw, message: message, raw: message, class: ClassOther}
	}
	if recorded := r.recordedDecision(sp.index); recorded != nil {
		v.choose(recorded)
		return nil
	}
	if r.e.decider == nil {
		return nil
	}
	policy := r.e.decisions
	if r.decided++; policy.MaxPerFlow > 0 && r.decided > policy.MaxPerFlow {
		return fail(flows.CWDecisionBudget, "Flow '%s' exceeded its decision budget of %d decision callback(s) per execution.", r.plan.flow.Name, policy.MaxPerFlow)
	}
	seen, _, err := snapshotObject(v.values)
	if err != nil {
		return fail(flows.CWDecisionCallback, "Decision callback for step %d (default tool '%s') failed: the context %v", sp.index, sp.name, err)
	}
	started := r.e.now()
	chosen, timedOut, err := r.e.askDecider(r.ctx, DecisionRequest{RunID: r.runID, TraceID: r.result.TraceID, FlowName: r.plan.flow.Name, StepIndex: sp.index,
		StepID: sp.step.StepID, DefaultToolName: sp.name, Candidates: candidates, Context: seen})
	record := &Decision{Candidates: candidates, Chosen: chosen, DefaultToolName: sp.name, DurationMS: millis(r.e.now().Sub(started)), TimedOut: timedOut}
	switch {
	case r.ctx.Err() != nil:
		return failCancelled(r.plan.flow.Name, sp.index, r.ended())
	case timedOut && policy.OnTimeout == OnTimeoutDefault:
		record.Chosen = sp.name
	case timedOut:
		return fail(flows.CWDecisionTimeout, "Decision callback for step %d (default tool '%s') exceeded its timeout of %vs.", sp.index, sp.name, policy.Timeout.Seconds())
	case err != nil:
		return fail(flows.CWDecisionCallback, "Decision callback for step %d (default tool '%s') failed: callback raised %s", sp.index, sp.name, raisedBy(err))
	case !slices.Contains(candidates, chosen):
		return fail(flows.CWDecisionCallback, "Decision callback for step %d (default tool '%s') failed: callback returned '%s' which is not in decision_candidates=['%s']",
			sp.index, sp.name, chosen, strings.Join(candidates, "', '"))
	}
	v.choose(record)
	return nil
}

// choose makes a decision the step's.
func (v *visit) choose(d *Decision) {
	v.rec.Decision = d
	v.name, v.rec.ToolName = d.Chosen, d.Chosen
	v.tool = v.sp.candidates[d.Chosen]
}

// raisedBy writes an error of a callback as "Class: message".
func raisedBy(err error) string {
	class := "error"
	var te *ToolError
	if errors.As(err, &te) && te.Type != "" {
		class = te.Type
	}
	return class + ": " + err.Error()
}

// protect turns a panic of a callback into its error.
func protect(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}

// gates are what stands between a step's inputs and its call, in order: ceiling, approval, input guardrail, dry run.
func (v *visit) gates() *failure {
	r, sp, tp := v.r, v.sp, v.tool
	if f := r.checkCeiling(sp, tp); f != nil {
		return f
	}
	approval, f := v.ask(tp, false)
	if v.rec.Approval = approval; f != nil {
		return f
	}
	if sp.fallback != nil {
		approval, denied := v.ask(sp.fallback, true)
		if denied != nil && denied.pending {
			return denied
		}
		if approval != nil || denied != nil {
			v.special().fallbackApproval, v.special().fallbackDenied = approval, denied
		}
	}
	for i := range max(1, len(v.elements)) {
		subject := v
		if sp.each != nil {
			if len(v.elements) == 0 {
				break
			}
			subject = &v.elements[i]
		}
		if f := subject.guardInput(tp); f != nil {
			return f
		}
	}
	skip, f := r.checkDryRun(sp, tp)
	if skip {
		v.ended = true
		v.rec.skip()
	}
	return f
}

// checkCeiling refuses tools above the engine's ceiling of side effects.
func (r *run) checkCeiling(sp *stepPlan, tp *toolPlan) *failure {
	effects := flows.Effects(tp.tool.Safety)
	ceiling := r.e.ceiling
	if ceiling == "" || !flows.Exceeds(effects, ceiling) {
		return nil
	}
	message := fmt.Sprintf("Tool '%s' at step %d has side-effect level '%s' which exceeds the configured ceiling '%s'.", tp.tool.Name, sp.index, effects, ceiling)
	return &failure{cw: flows.CWSafetyCeiling, message: message, raw: message, class: ClassOther}
}

// ask gets the approval of a tool that requires one. Where nobody can be asked the requirement is advice, under strict
// safety a refusal.
func (v *visit) ask(tp *toolPlan, fallback bool) (*Approval, *failure) {
	s, r := tp.tool.Safety, v.r
	if s == nil || !s.RequiresApproval {
		return nil, nil
	}
	if recorded := r.recordedApproval(v.sp.index); recorded != nil && !fallback {
		return recorded, nil
	}
	if r.e.approver == nil {
		if !r.e.strict {
			return nil, nil
		}
		return v.deny(tp, "no approval_callback registered (strict_safety=True)")
	}
	request := ApprovalRequest{RunID: r.runID, FlowName: r.plan.flow.Name, FlowVersion: r.plan.flow.Version, Path: v.path(), StepIndex: v.sp.index,
		StepID: v.sp.step.StepID, ToolName: tp.tool.Name, Fallback: fallback, SideEffects: flows.Effects(s), Reason: s.ApprovalReason, Inputs: v.resolved}
	d, err := askApprover(r.ctx, r.e.approver, request)
	switch {
	case r.ctx.Err() != nil:
		return nil, failCancelled(r.plan.flow.Name, v.sp.index, r.ended())
	case err != nil:
		return v.deny(tp, "approval callback raised "+raisedBy(err))
	case d.Decision == Pending:
		waits := v.special()
		waits.awaiting = append(waits.awaiting, request)
		return nil, &failure{pending: true}
	case d.Decision == Approve:
		a := &Approval{Decision: Approve}
		if d.Reason != "" {
			a.Reason = &d.Reason
		}
		return a, nil
	case d.Decision == Deny && d.Reason != "":
		return v.deny(tp, d.Reason)
	case d.Decision == Deny:
		return v.deny(tp, "approval callback returned DENY")
	}
	return v.deny(tp, fmt.Sprintf("approval callback returned '%s', not an ApprovalDecision", d.Decision))
}

func askApprover(ctx context.Context, a Approver, request ApprovalRequest) (d ApprovalDecision, err error) {
	defer protect(&err)
	return a.Approve(ctx, request)
}

func (v *visit) deny(tp *toolPlan, reason string) (*Approval, *failure) {
	message := fmt.Sprintf("Approval denied for tool '%s' at step %d: %s.", tp.tool.Name, v.sp.index, reason)
	return &Approval{Decision: Deny, Reason: &reason}, &failure{cw: flows.CWApprovalDenied, message: message, raw: message, class: ClassOther}
}

// guardInput shows the guardrail a call's inputs.
func (v *visit) guardInput(tp *toolPlan) *failure {
	if v.r.e.guardrail == nil {
		return nil
	}
	return v.guard(GuardrailCall{Stage: GuardrailInput, ToolName: tp.tool.Name, Inputs: v.resolved})
}

// guardOutput shows the guardrail what a call gave.
func (v *visit) guardOutput(outputs map[string]any) *failure {
	if v.r.e.guardrail == nil {
		return nil
	}
	tool := v.name
	if v.rec.FallbackUsed {
		tool = v.sp.fallbackName
	}
	return v.guard(GuardrailCall{Stage: GuardrailOutput, ToolName: tool, Inputs: v.rec.Inputs, Outputs: outputs})
}

func (v *visit) guard(call GuardrailCall) *failure {
	r := v.r
	call.RunID, call.FlowName, call.StepIndex, call.StepID = r.runID, r.plan.flow.Name, v.sp.index, v.sp.step.StepID
	err := checkGuardrail(r.ctx, r.e.guardrail, call)
	if err == nil {
		return nil
	}
	message := fmt.Sprintf("Guardrail blocked tool '%s' at step %d: %s guardrail raised %s", call.ToolName, v.sp.index, call.Stage, raisedBy(err))
	return &failure{cw: flows.CWGuardrail, message: message, raw: message, class: ClassOther}
}

func checkGuardrail(ctx context.Context, g Guardrail, call GuardrailCall) (err error) {
	defer protect(&err)
	return g.Check(ctx, call)
}

// checkDryRun decides what a dry run does with a tool: one without side effects is called, one with a preview gives
// that, any other is skipped or ends the run.
func (r *run) checkDryRun(sp *stepPlan, tp *toolPlan) (skip bool, f *failure) {
	if !r.in.DryRun || !flows.Exceeds(flows.Effects(tp.tool.Safety), flows.EffectRead) || r.previews(tp) {
		return false, nil
	}
	if r.in.DryRunUnsupported == DryRunAbort {
		return false, failExecution(tp.tool.Name, sp.index, &ToolError{Class: ClassOther,
			Message: "dry-run abort: the tool has side effects and no preview"})
	}
	return true, nil
}

// previews reports whether a dry run takes the tool's preview instead of calling it.
func (r *run) previews(tp *toolPlan) bool {
	if tp == nil || !r.in.DryRun {
		return false
	}
	s := tp.tool.Safety
	return s != nil && s.SupportsDryRun && flows.Exceeds(flows.Effects(s), flows.EffectRead) && r.e.previewer != nil && r.e.previewer.Previews(tp.tool)
}

func (e *Engine) invokeCapability(ctx context.Context, c CapabilityCall) (out map[string]any, err error) {
	defer protect(&err)
	return e.kernel.InvokeCapability(ctx, c)
}

// callCapability runs a capability step once.
func (v *visit) callCapability(inputs map[string]any, attempt int) (map[string]any, int, *failure) {
	r, sp := v.r, v.sp
	sent, _, err := snapshotObject(inputs)
	if err != nil {
		return nil, 0, failExecution(sp.name, sp.index, &ToolError{Class: ClassOther, Message: "the input " + err.Error()})
	}
	call := CapabilityCall{CapabilityID: sp.step.CapabilityID, ToolName: sp.name, Inputs: sent, RunID: r.runID, StepID: sp.step.StepID, IdempotencyKey: r.runID + "-" + v.path()}
	call.Deadline, _ = r.ctx.Deadline()
	answer, err := r.e.invokeCapability(r.ctx, call)
	v.sent = v.sent || !notSent(err)
	if err != nil {
		f := r.callFailure(sp, &toolPlan{tool: &flows.Tool{Name: sp.name}}, err)
		if !f.ended {
			f.cw = flows.CWKernelInvocation
			f.message = fmt.Sprintf("Capability '%s' failed at step %d (attempt %s): %s", sp.step.CapabilityID, sp.index, strconv.Itoa(attempt), f.raw)
		}
		return nil, 0, f
	}
	outputs, size, err := snapshotObject(answer)
	if err != nil {
		return nil, 0, failExecution(sp.name, sp.index, &ToolError{Class: ClassValidation, Message: "the capability's answer " + err.Error()})
	}
	if limit := r.e.limits.MaxOutputBytes; size > limit {
		return nil, 0, failSize(sp.name, size, limit)
	}
	return outputs, size, nil
}
