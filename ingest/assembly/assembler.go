package assembly

import (
	"context"
	"sync"
	"time"

	"pave/ingest"
	"pave/ingest/store"
)

// Store is the part of the event store that assembly needs.
type Store interface {
	Dirty(ctx context.Context, tenant string, quietSince time.Time, limit int) ([]store.DirtySession, error)
	Events(ctx context.Context, tenant string, sessionIDs []string, fn func(sessionID string, events []ingest.Event) error) error
	PutSessions(ctx context.Context, tenant string, rows []store.SessionRow) error
	Delete(ctx context.Context, tenant string, sessionIDs []string) (store.Deleted, error)
}

// Options configure an Assembler; the zero value is ready to use.
type Options struct {
	Assemble ingest.AssembleOptions
	// Batch is the number of sessions read and written at once, 500 when zero. Their events are in memory one session
	// at a time.
	Batch int
	// Assembled, when not nil, is told after each batch how many sessions of the tenant were written.
	Assembled func(tenant string, sessions int)
	// Wrote, when not nil, is told after each batch which sessions were written. It must not block.
	Wrote func(tenant string, sessions []string)
}

// Assembler assembles dirty sessions. It is safe for concurrent use; runs of one Assembler take turns.
type Assembler struct {
	store Store
	opts  Options

	running sync.Mutex
	mu      sync.Mutex
	ended   map[string]map[string]bool // tenant -> sessions whose end was recorded
}

// New returns an Assembler over s.
func New(s Store, opts Options) *Assembler {
	if opts.Batch == 0 {
		opts.Batch = 500
	}
	return &Assembler{store: s, opts: opts, ended: make(map[string]map[string]bool)}
}

// Run assembles every dirty session without events received after quietSince (zero: every dirty session), each once,
// and returns how many. Sessions that get events meanwhile stay dirty for the next run.
func (a *Assembler) Run(ctx context.Context, tenant string, quietSince time.Time) (int, error) {
	return a.run(ctx, tenant, quietSince, nil)
}

// Committed notes the ends of sessions among events that were just stored: see Ended. It fits
// ingest.RecorderOptions.Committed.
func (a *Assembler) Committed(tenant string, events []ingest.Event) {
	for i := range events {
		if events[i].Kind != ingest.KindSessionEnd || events[i].SessionID == "" {
			continue
		}
		a.mu.Lock()
		if a.ended[tenant] == nil {
			a.ended[tenant] = make(map[string]bool)
		}
		a.ended[tenant][events[i].SessionID] = true
		a.mu.Unlock()
	}
}

// Ended assembles the sessions whose end was recorded since the last call, without waiting for a quiet period, and
// returns how many. Late events make them dirty again like any other.
func (a *Assembler) Ended(ctx context.Context, tenant string) (int, error) {
	a.mu.Lock()
	ended := a.ended[tenant]
	delete(a.ended, tenant)
	a.mu.Unlock()
	if len(ended) == 0 {
		return 0, nil
	}
	return a.run(ctx, tenant, time.Time{}, ended)
}

// Every runs the assembler until ctx ends: ended sessions at every tick, others after they were quiet for that long.
// Errors go to report; the next tick tries again.
func (a *Assembler) Every(ctx context.Context, tenant string, tick, quiet time.Duration, report func(error)) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if _, err := a.Ended(ctx, tenant); err != nil && ctx.Err() == nil {
				report(err)
			}
			if _, err := a.Run(ctx, tenant, now.Add(-quiet)); err != nil && ctx.Err() == nil {
				report(err)
			}
		}
	}
}

// Delete removes sessions from the store while no assembly is under way that could write one of them again.
func (a *Assembler) Delete(ctx context.Context, tenant string, sessionIDs []string) (store.Deleted, error) {
	a.running.Lock()
	defer a.running.Unlock()
	return a.store.Delete(ctx, tenant, sessionIDs)
}

// run assembles dirty sessions, those of only when it is not nil.
func (a *Assembler) run(ctx context.Context, tenant string, quietSince time.Time, only map[string]bool) (int, error) {
	a.running.Lock()
	defer a.running.Unlock()
	done := make(map[string]bool)
	for limit := a.opts.Batch; ; {
		dirty, err := a.store.Dirty(ctx, tenant, quietSince, limit)
		if err != nil {
			return len(done), err
		}
		fresh := make(map[string]int64, len(dirty))
		var ids []string
		for _, d := range dirty {
			if !done[d.ID] && (only == nil || only[d.ID]) && len(ids) < a.opts.Batch {
				fresh[d.ID] = d.Watermark
				ids = append(ids, d.ID)
			}
		}
		if len(ids) == 0 {
			if len(dirty) < limit {
				return len(done), nil
			}
			limit *= 2 // the first ones stay dirty, or are not wanted
			continue
		}
		rows, err := a.rows(ctx, tenant, ids, fresh)
		if err != nil {
			return len(done), err
		}
		if err := a.store.PutSessions(ctx, tenant, rows); err != nil {
			return len(done), err
		}
		for _, id := range ids {
			done[id] = true
		}
		if a.opts.Assembled != nil {
			a.opts.Assembled(tenant, len(rows))
		}
		if a.opts.Wrote != nil {
			a.opts.Wrote(tenant, ids)
		}
	}
}

// rows assembles the sessions. One whose events belong to other sessions now has none, and its row is empty.
func (a *Assembler) rows(ctx context.Context, tenant string, ids []string, watermarks map[string]int64) ([]store.SessionRow, error) {
	rows := make([]store.SessionRow, 0, len(ids))
	seen := make(map[string]bool, len(ids))
	err := a.store.Events(ctx, tenant, ids, func(id string, events []ingest.Event) error {
		seen[id] = true
		rows = append(rows, Row(ingest.Assemble(tenant, id, events, a.opts.Assemble), watermarks[id]))
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if !seen[id] {
			rows = append(rows, Row(&ingest.Session{Tenant: tenant, ID: id}, watermarks[id]))
		}
	}
	return rows, nil
}

// Loader reads whole sessions, payloads included, from the event store.
type Loader struct {
	Store interface {
		Events(ctx context.Context, tenant string, sessionIDs []string, fn func(sessionID string, events []ingest.Event) error) error
	}
	Assemble ingest.AssembleOptions
}

// Sessions calls fn with each session that has calls, model calls or messages, in the store's order, and stops at
// fn's error. The session belongs to fn.
func (l Loader) Sessions(ctx context.Context, tenant string, ids []string, fn func(*ingest.Session) error) error {
	return l.Store.Events(ctx, tenant, ids, func(id string, events []ingest.Event) error {
		s := ingest.Assemble(tenant, id, events, l.Assemble)
		s.AtLimit = store.AtLimit(events)
		if len(s.Runs) == 0 {
			return nil
		}
		return fn(s)
	})
}
