package executor

// replay is the record that a run follows.
type replay struct {
	log   []StepRecord
	reuse int // steps before this index take their outputs from the record
}

// recorded is the record of a step, nil where there is none.
func (r *run) recorded(index int) *StepRecord {
	if r.replay == nil {
		return nil
	}
	for i := range r.replay.log {
		if rec := &r.replay.log[i]; rec.StepIndex == index && rec.ToolName != r.plan.flow.Name {
			return rec
		}
	}
	return nil
}

// recordedDecision is the decision that a replayed run made.
func (r *run) recordedDecision(index int) *Decision {
	if rec := r.recorded(index); rec != nil {
		return rec.Decision
	}
	return nil
}

// recordedApproval is the approval that a replayed run got.
func (r *run) recordedApproval(index int) *Approval {
	if rec := r.recorded(index); rec != nil && rec.Approval != nil && rec.Approval.Decision == Approve {
		return rec.Approval
	}
	return nil
}
