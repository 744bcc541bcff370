package executor

import (
	"fmt"

	"pave/flows"
)

// safety is the gate before a tool is called, primary or fallback: the ceiling of side effects, approval under
// strict safety, and what a dry run may call.
func (r *run) safety(sp *stepPlan, tp *toolPlan) (skip bool, f *failure) {
	effects := flows.Effects(tp.tool.Safety)
	if ceiling := r.e.ceiling; ceiling != "" && flows.Exceeds(effects, ceiling) {
		message := fmt.Sprintf("Tool '%s' at step %d has side-effect level '%s' which exceeds the configured ceiling '%s'.", tp.tool.Name, sp.index, effects, ceiling)
		return false, &failure{cw: flows.CWSafetyCeiling, message: message, raw: message, class: ClassOther}
	}
	if s := tp.tool.Safety; r.e.strict && s != nil && s.RequiresApproval {
		message := fmt.Sprintf("Approval denied for tool '%s' at step %d: nobody can be asked and safety is strict.", tp.tool.Name, sp.index)
		return false, &failure{cw: flows.CWApprovalDenied, message: message, raw: message, class: ClassOther}
	}
	if !r.in.DryRun || !flows.Exceeds(effects, flows.EffectRead) {
		return false, nil
	}
	if r.in.DryRunUnsupported == DryRunAbort {
		return false, failExecution(tp.tool.Name, sp.index, &ToolError{Class: ClassOther,
			Message: "dry-run abort: the tool has side effects and no preview"})
	}
	return true, nil
}

// safeToRetry is the rule of unsafe retries: the contract allows it, and the tool is idempotent or only reads.
func safeToRetry(s *flows.SafetyContract) bool {
	return s != nil && s.SafeToRetry && (s.Idempotent || s.ReadOnly())
}

// retryPolicy is the step's retry policy. Under strict safety a tool that is not safe to retry has none; its
// errors then end with note.
func (r *run) retryPolicy(sp *stepPlan) (policy *flows.RetryPolicy, note string) {
	policy = sp.step.Retry
	if policy == nil || policy.MaxRetries == 0 || !r.e.strict || sp.callee == nil || safeToRetry(sp.callee.tool.Safety) {
		return policy, ""
	}
	return nil, fmt.Sprintf(" (retry suppressed: tool '%s' safety contract disallows unsafe retry under strict_safety=True)", sp.name)
}
