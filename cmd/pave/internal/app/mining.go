package app

import (
	"context"

	"pave/governance"
	"pave/governance/loop"
	"pave/governance/watch"
	"pave/ingest"
)

// miner mines, and holds the sessions that were assembled for it against what flows predict, so that reports know who
// still walks by hand when a pass has ended and not some seconds later.
type miner struct {
	*loop.Loop
	watcher *watch.Watcher
}

// MineOnce implements api.Mining.
func (m *miner) MineOnce(ctx context.Context, actor governance.Actor, req governance.MiningRequest) (*governance.MiningRun, error) {
	run, err := m.Loop.MineOnce(ctx, actor, req)
	if err != nil {
		return run, err
	}
	return run, m.watcher.Once(ctx, ingest.DefaultTenant)
}
