package runs

import (
	"context"
	"errors"

	"pave/executor"
)

// discreet shows a Decider the context of a run without its secrets: redacted as what is stored, and without the values
// of dynamic params.
type discreet struct {
	s    *Service
	next executor.Decider
}

var _ executor.Decider = (*discreet)(nil)

// Decide implements executor.Decider.
func (d *discreet) Decide(ctx context.Context, req executor.DecisionRequest) (string, error) {
	var params map[string]any
	if l := liveOf(ctx); l != nil {
		params = l.params
	}
	shown, err := d.s.redactParts(params, executor.StepRecord{Inputs: req.Context})
	if err != nil {
		return "", errors.New("the context cannot be shown to the decision endpoint")
	}
	req.Context = shown.Inputs
	return d.next.Decide(ctx, req)
}
