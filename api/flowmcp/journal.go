package flowmcp

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"pave/governance"
)

// journal writes decisions of the gate in batches, because one transaction costs more than a call. What cannot be
// written is dropped: the gate does not wait for its record.
type journal struct {
	to     Auditor
	tenant string
	log    *slog.Logger

	mu      sync.Mutex
	pending []governance.GateDecision
	dropped int
	timer   *time.Timer
}

const (
	journalDelay = time.Second
	journalSize  = 8192
)

func newJournal(to Auditor, tenant string, log *slog.Logger) *journal {
	return &journal{to: to, tenant: tenant, log: log}
}

func (j *journal) add(d governance.GateDecision) {
	if j.to == nil {
		return
	}
	d.At = time.Now().UTC()
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.pending) == journalSize {
		j.dropped++
		return
	}
	j.pending = append(j.pending, d)
	if j.timer == nil {
		j.timer = time.AfterFunc(journalDelay, func() { _ = j.flush() }) // logged
	}
}

// flush writes what is pending.
func (j *journal) flush() error {
	j.mu.Lock()
	batch, dropped := j.pending, j.dropped
	j.pending, j.dropped = nil, 0
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	j.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	err := j.to.AuditDecisions(context.Background(), j.tenant, batch)
	if err != nil || dropped > 0 {
		j.log.Warn("decisions of the gate are missing in the audit log", "error", err, "dropped", dropped)
	}
	return err
}
