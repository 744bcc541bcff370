package flows

import (
	"slices"
	"strings"
)

// Levels in rising order.
var (
	effectLevels      = []SideEffects{EffectNone, EffectRead, EffectWrite, EffectExternal, EffectDestructive}
	stabilityLevels   = []string{"stable", "best_effort", "unstable"}
	determinismLevels = []string{"full", "partial", "none"}
)

// DefaultSafety is the permissive contract of the base system: no side effects, stable, fully deterministic.
func DefaultSafety() SafetyContract {
	return SafetyContract{SideEffects: EffectNone, Stability: "stable", DeterminismLevel: "full", Idempotent: true, Cacheable: true, SafeToRetry: true}
}

// ReadOnly reports whether the contract changes nothing.
func (c *SafetyContract) ReadOnly() bool {
	return c.SideEffects == EffectNone || c.SideEffects == EffectRead
}

// Exceeds reports whether side effects a are strictly above the ceiling. An unknown level counts as external.
func Exceeds(a, ceiling SideEffects) bool { return effectRank(a) > effectRank(ceiling) }

// Effects is the side-effect level of a contract; nil is unknown, which counts as external.
func Effects(c *SafetyContract) SideEffects {
	if c == nil || !slices.Contains(effectLevels, c.SideEffects) {
		return EffectExternal
	}
	return c.SideEffects
}

func effectRank(e SideEffects) int {
	if i := slices.Index(effectLevels, e); i >= 0 {
		return i
	}
	return slices.Index(effectLevels, EffectExternal)
}

// MergeSafety is the contract of tools used together: the maximum of the ordered fields, the conjunction of the
// permissions, approval when any part needs it. Without contracts it is DefaultSafety. Callers add
// {SideEffects: external} for tools whose contract is unknown.
func MergeSafety(contracts ...SafetyContract) SafetyContract {
	if len(contracts) == 0 {
		return DefaultSafety()
	}
	out := contracts[0]
	var reasons []string
	for _, c := range contracts {
		if effectRank(c.SideEffects) > effectRank(out.SideEffects) {
			out.SideEffects = c.SideEffects
		}
		out.Stability = highest(stabilityLevels, out.Stability, c.Stability)
		out.DeterminismLevel = highest(determinismLevels, out.DeterminismLevel, c.DeterminismLevel)
		out.Idempotent = out.Idempotent && c.Idempotent
		out.Cacheable = out.Cacheable && c.Cacheable
		out.SafeToRetry = out.SafeToRetry && c.SafeToRetry
		out.SupportsDryRun = out.SupportsDryRun && c.SupportsDryRun
		out.RequiresApproval = out.RequiresApproval || c.RequiresApproval
		if c.RequiresApproval && c.ApprovalReason != "" && !slices.Contains(reasons, c.ApprovalReason) {
			reasons = append(reasons, c.ApprovalReason)
		}
		if c.Source != out.Source {
			out.Source = ""
		}
	}
	out.ApprovalReason = strings.Join(reasons, "; ")
	return out
}

func highest(levels []string, a, b string) string {
	if slices.Index(levels, b) > slices.Index(levels, a) {
		return b
	}
	return a
}

// lifecycleMoves are the allowed changes of a flow's lifecycle.
var lifecycleMoves = map[Lifecycle][]Lifecycle{
	LifecycleObserved:  {LifecycleSuggested, LifecycleIgnored},
	LifecycleSuggested: {LifecycleDraft, LifecycleIgnored},
	LifecycleDraft:     {LifecycleReviewed, LifecycleIgnored},
	LifecycleReviewed:  {LifecycleDraft, LifecycleActive, LifecycleArchived},
	LifecycleActive:    {LifecycleArchived},
	LifecycleIgnored:   {LifecycleSuggested},
	LifecycleArchived:  {LifecycleReviewed},
}

// CanMoveTo reports whether the lifecycle may change from l to next. Standing still is no move.
func (l Lifecycle) CanMoveTo(next Lifecycle) bool { return slices.Contains(lifecycleMoves[l], next) }
