package executor

import (
	"fmt"

	"pave/flows"
)

// safeToRetry is the rule of unsafe retries: the contract allows it, and the tool is idempotent or only reads.
func safeToRetry(s *flows.SafetyContract) bool {
	return s != nil && s.SafeToRetry && (s.Idempotent || s.ReadOnly())
}

// retryPolicy is the step's retry policy. Under strict safety a tool that is not safe to retry has none; its
// errors then end with note.
func (v *visit) retryPolicy() (policy *flows.RetryPolicy, note string) {
	policy = v.sp.step.Retry
	if policy == nil || !v.r.e.strict {
		return policy, ""
	}
	callee := v.tool
	if callee == nil {
		callee = v.sp.callee
	}
	if callee == nil || safeToRetry(callee.tool.Safety) {
		return policy, ""
	}
	return nil, fmt.Sprintf(" (retry suppressed: tool '%s' safety contract disallows unsafe retry under strict_safety=True)", v.name)
}
