package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"pave/executor"
	"pave/flows/value"
	"pave/governance/store"
)

// begun is how a run begins, kept sealed from before its first step. Dynamic params are not in it.
type begun struct {
	Input   json.RawMessage `json:"input"`
	TraceID string          `json:"trace_id"`
	// ParentSpanID is the caller's span, "" when it is not known.
	ParentSpanID string            `json:"parent_span_id,omitempty"`
	Unsupported  string            `json:"dry_run_unsupported"`
	Params       []string          `json:"params"` // names of the dynamic params
	Plan         string            `json:"plan"`   // admission key
	Called       map[string]string `json:"called"` // versions of the flows that steps call without one, by name
	Forced       bool              `json:"forced,omitempty"`
}

// progress is where a run can go on.
type progress struct {
	begun
	reached *executor.Checkpoint // nil: at its beginning
}

func (s *Service) sealBegun(tenant, runID string, b begun) ([]byte, error) {
	raw, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode checkpoint: %w", err)
	}
	return s.vault.seal(tenant, runID, raw), nil
}

// progressOf opens a run's checkpoint; nil when it has none.
func (s *Service) progressOf(r *store.Reader, tenant, runID string) (*progress, error) {
	row, err := r.Checkpoint(tenant, runID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := new(progress)
	raw, err := s.vault.open(tenant, runID, row.Begun)
	if err == nil {
		err = json.Unmarshal(raw, &p.begun)
	}
	if err != nil || row.Reached == nil {
		return p, err
	}
	if raw, err = s.vault.open(tenant, runID, row.Reached); err != nil {
		return p, err
	}
	p.reached = new(executor.Checkpoint)
	return p, json.Unmarshal(raw, p.reached)
}

// input is the run's input, with exact values.
func (p *progress) input() (map[string]any, error) {
	v, err := value.Decode(p.Input)
	if err != nil {
		return nil, fmt.Errorf("stored input: %w", err)
	}
	object, _ := v.(map[string]any)
	return object, nil
}

// checkpointer keeps the checkpoints of the service's runs in the state store. The checkpoint of a run is deleted in the
// transaction that writes the run's end, not here: in between a crash would leave a run that cannot go on.
type checkpointer struct{ s *Service }

var _ executor.Checkpointer = checkpointer{}

// Save implements executor.Checkpointer. Runs that the service does not keep, such as a flow that a tool calls, have
// no checkpoints; nor is the last level's worth one where all tools may be called again.
func (c checkpointer) Save(ctx context.Context, cp *executor.Checkpoint) error {
	l := liveOf(ctx)
	if l == nil || l.run.ID != cp.RunID || !l.careful && cp.CompletedSteps == len(l.admission.Version.Flow.Steps) {
		return nil
	}
	raw, err := json.Marshal(cp)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	sealed := c.s.vault.seal(l.tenant, cp.RunID, raw)
	return c.s.db.Update(ctx, func(tx *store.Tx) error { return tx.Reach(l.tenant, cp.RunID, sealed) })
}

// Load implements executor.Checkpointer.
func (c checkpointer) Load(ctx context.Context, runID string) (cp *executor.Checkpoint, err error) {
	l := liveOf(ctx)
	if l == nil {
		return nil, nil
	}
	err = c.s.db.View(ctx, func(r *store.Reader) error {
		p, err := c.s.progressOf(r, l.tenant, runID)
		if p != nil {
			cp = p.reached
		}
		return err
	})
	return cp, err
}

// Delete implements executor.Checkpointer; see the type's comment.
func (c checkpointer) Delete(context.Context, string) error { return nil }
