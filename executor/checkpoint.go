package executor

import "context"

// Checkpointer keeps checkpoints.
type Checkpointer interface {
	Save(ctx context.Context, c *Checkpoint) error
}

// Checkpoint is where a run can go on.
type Checkpoint struct{}
