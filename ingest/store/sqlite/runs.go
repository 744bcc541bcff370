package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"

	"pave/ingest/store"
)

// PutRun stores a finished flow run; see store.Store. Runs that finish while others are written share a transaction,
// because most of what one costs is its commit.
func (s *Store) PutRun(ctx context.Context, tenant string, run store.Run) error {
	own := &finishedRun{tenant: tenant, run: run, done: make(chan error, 1)}
	s.w.runs.add(own)
	select {
	case err := <-own.done:
		return s.wrap("put a run into", err)
	case <-s.w.turn:
		s.w.putRuns(ctx)
		s.w.done()
	case <-ctx.Done():
		if s.w.runs.leave(own) {
			return s.wrap("put a run into", ctx.Err())
		}
	}
	return s.wrap("put a run into", <-own.done)
}

// putRuns writes the runs that wait, together or, when that fails, each alone.
func (w *writer) putRuns(ctx context.Context) {
	batch := w.runs.take()
	err := w.replaceRuns(ctx, batch...)
	for _, f := range batch {
		if err != nil && len(batch) > 1 {
			f.done <- w.replaceRuns(ctx, f)
			continue
		}
		f.done <- err
	}
}

func (w *writer) replaceRuns(ctx context.Context, batch ...*finishedRun) error {
	if len(batch) == 0 {
		return nil
	}
	if w.closed {
		return errClosed
	}
	return w.within(ctx, func(ctx context.Context) error {
		for _, f := range batch {
			if err := w.replaceRun(ctx, f.tenant, &f.run); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *writer) replaceRun(ctx context.Context, tenant string, run *store.Run) error {
	id, err := w.tenant(ctx, tenant)
	if err != nil {
		return err
	}
	// Not REPLACE, at which triggers would not see the old row go.
	if _, err := w.dropRun.ExecContext(ctx, id, run.ID); err != nil {
		return err
	}
	_, err = w.addRun.ExecContext(ctx, id, run.ID, run.Flow, run.Version, run.Status, run.Caller, nanos(run.Start), int64(run.Duration), run.Steps, run.StepsDone,
		run.ErrorCode, run.LLMCallsAvoided, run.TokensAvoided, run.CostAvoidedUSD, int64(run.LatencyAvoided), []byte(run.Result))
	return err
}

// finished are runs that wait to be written.
type finished struct {
	mu      sync.Mutex
	waiting []*finishedRun
}

type finishedRun struct {
	tenant string
	run    store.Run
	done   chan error // holds one
}

func (q *finished) add(f *finishedRun) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, f)
}

func (q *finished) take() []*finishedRun {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting
	q.waiting = nil
	return all
}

// leave takes a run out; false when it is being written.
func (q *finished) leave(f *finishedRun) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, f)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// Runs pages through finished runs; see store.Store.
func (s *Store) Runs(ctx context.Context, tenant string, filter store.RunFilter) (store.Page[store.Run], error) {
	var page store.Page[store.Run]
	limit, after, err := pageBounds(filter.Limit, filter.Cursor)
	if err != nil {
		return page, err
	}
	where, args := "", []any{tenant, sql.Named("limit", limit+1)}
	if after != nil {
		more, moreArgs := following(after.Start, "id", after.ID)
		where, args = more, append(args, moreArgs...)
	}
	for _, equal := range []struct{ column, value string }{{"flow", filter.Flow}, {"status", filter.Status}, {"id", filter.ID}} {
		if equal.value != "" {
			where += " AND " + equal.column + " = :" + equal.column
			args = append(args, sql.Named(equal.column, equal.value))
		}
	}
	rows, err := s.read.QueryContext(ctx, `SELECT id, flow, version, status, caller, start, duration, steps, steps_done, error_code,
		llm_calls_avoided, tokens_avoided, cost_avoided_usd, latency_avoided, result FROM runs WHERE tenant = `+tenantID+
		where+" ORDER BY start DESC, id LIMIT :limit", args...)
	if err != nil {
		return page, s.wrap("list runs of", err)
	}
	defer rows.Close()
	for rows.Next() {
		if len(page.Items) == limit {
			last := page.Items[limit-1]
			page.Next = store.Position{Start: instant(nanos(last.Start)), ID: last.ID}.Cursor()
			break
		}
		var r store.Run
		var start int64
		if err := rows.Scan(&r.ID, &r.Flow, &r.Version, &r.Status, &r.Caller, &start, &r.Duration, &r.Steps, &r.StepsDone, &r.ErrorCode,
			&r.LLMCallsAvoided, &r.TokensAvoided, &r.CostAvoidedUSD, &r.LatencyAvoided, (*[]byte)(&r.Result)); err != nil {
			return page, s.wrap("list runs of", err)
		}
		r.Start = instant(start)
		page.Items = append(page.Items, r)
	}
	return page, s.wrap("list runs of", rows.Err())
}

// Stats counts what is stored; see store.Store. Bytes is the size of the whole file, of all tenants.
func (s *Store) Stats(ctx context.Context, tenant string) (store.Stats, error) {
	var st store.Stats
	err := s.snapshot(ctx, "count", func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `SELECT events, tool_call_events, sessions, tool_calls, llm_calls,
			(SELECT count(*) FROM runs WHERE tenant = t.id), (SELECT count(*) FROM dirty WHERE tenant = t.id) FROM tenants t WHERE name = ?`, tenant).
			Scan(&st.Events, &st.ToolCallRows, &st.Sessions, &st.ToolCalls, &st.LLMCalls, &st.Runs, &st.DirtySessions)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&st.Bytes)
	})
	return st, err
}
