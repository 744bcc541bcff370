package flows

import (
	"pave/flows/value"
)

// interopTree has every field of the base system, in sorted order throughout.
func interopTree(f *Flow) value.Members {
	own := flowTree(f)
	var b fields
	b.members = own
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	for key, dflt := range map[string]any{
		"format_version": FormatVersion1, "version": orText(f.Version, "0.1.0"), "deterministic": true, "status": string(StatusActive), "trigger_conditions": nil,
		"input_schema_ref": nil, "output_schema_ref": nil, "context_schema_ref": nil, "tool_schema_hashes": nil, "capability_id": nil,
		"safety": nil, "on_context_collision": string(CollisionWarn), "dynamic_params": []any{},
	} {
		b.fill(key, dflt)
	}
	g := Governance{Lifecycle: LifecycleActive}
	if f.Governance != nil {
		g = *f.Governance
	}
	b.set("governance", interopGovernance(g, orNull))
	if f.Safety != nil {
		b.set("safety", interopSafety(*f.Safety, orNull))
	}
	steps := make([]any, len(f.Steps))
	is11 := needs11(f) || f.FormatVersion != "" && f.FormatVersion != FormatVersion1
	for i := range f.Steps {
		steps[i] = interopStep(&f.Steps[i], f.Type == TypeDAGFlow, is11)
	}
	b.set("steps", steps)
	return sortedMembers(value.Plain(b.members).(map[string]any))
}

// fill adds a field that is not there.
func (b *fields) fill(key string, v any) {
	if _, ok := b.members.Get(key); !ok {
		b.add(key, v)
	}
}

func (b *fields) set(key string, v any) {
	for i := range b.members {
		if b.members[i].Key == key {
			b.members[i].Value = v
			return
		}
	}
	b.add(key, v)
}

func interopGovernance(g Governance, orNull func(string) any) value.Members {
	b := fields{members: value.Members{
		{Key: "lifecycle", Value: orText(string(g.Lifecycle), string(LifecycleActive))}, {Key: "owner", Value: orNull(g.Owner)}, {Key: "replaces_tools", Value: anyList(g.ReplacesTools)},
		{Key: "estimated_model_calls_removed", Value: int64(g.EstimatedModelCallsRemoved)}, {Key: "estimated_token_savings", Value: nil},
		{Key: "reviewed_by", Value: orNull(g.ReviewedBy)}, {Key: "review_notes", Value: orNull(g.ReviewNotes)},
	}}
	if g.EstimatedTokenSavings != nil {
		b.set("estimated_token_savings", *g.EstimatedTokenSavings)
	}
	return b.sorted()
}

func interopSafety(c SafetyContract, orNull func(string) any) value.Members {
	b := fields{members: value.Members{
		{Key: "side_effects", Value: string(Effects(&c))}, {Key: "read_only", Value: c.ReadOnly()}, {Key: "stability", Value: orText(c.Stability, "stable")},
		{Key: "determinism_level", Value: orText(c.DeterminismLevel, "full")}, {Key: "idempotent", Value: c.Idempotent}, {Key: "cacheable", Value: c.Cacheable},
		{Key: "safe_to_retry", Value: c.SafeToRetry}, {Key: "supports_dry_run", Value: c.SupportsDryRun},
		{Key: "requires_approval", Value: c.RequiresApproval}, {Key: "approval_reason", Value: orNull(c.ApprovalReason)},
	}}
	b.text("source", c.Source, "")
	return b.sorted()
}

func interopStep(s *Step, dag, is11 bool) value.Members {
	b := fields{members: stepTree(s, is11)}
	for key, dflt := range map[string]any{
		"tool_name": nil, "flow_name": nil, "input_mapping": value.Members{}, "output_mapping": nil, "retry": nil, "on_error": "fail",
		"decision_candidates": nil, "input_contract": nil, "output_contract": nil,
	} {
		b.fill(key, dflt)
	}
	if s.Retry != nil {
		b.set("retry", interopRetry(s.Retry))
	}
	if dag {
		for key, dflt := range map[string]any{
			"step_id": s.StepID, "depends_on": []any{}, "step_type": "tool", "capability_id": nil, "branches": []any{}, "default_next": nil,
		} {
			b.fill(key, dflt)
		}
	}
	return b.sorted()
}

func interopRetry(p *RetryPolicy) value.Members {
	b := fields{members: retryTree(p)}
	for key, dflt := range map[string]any{
		"max_retries": int64(p.MaxRetries), "backoff_seconds": p.BackoffSeconds, "backoff_multiplier": p.BackoffMultiplier, "jitter": p.Jitter,
		"retryable_errors": anyList(DefaultRetry().RetryableErrors),
	} {
		b.fill(key, dflt)
	}
	return b.sorted()
}
