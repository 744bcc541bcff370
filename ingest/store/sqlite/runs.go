package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"pave/ingest/store"
)

// PutRun stores a finished flow run; see store.Store.
func (s *Store) PutRun(ctx context.Context, tenant string, run store.Run) error {
	return s.wrap("put a run into", s.w.transaction(ctx, func(ctx context.Context) error {
		id, err := s.w.tenant(ctx, tenant)
		if err != nil {
			return err
		}
		// Not REPLACE, at which triggers would not see the old row go.
		if _, err := s.w.conn.ExecContext(ctx, "DELETE FROM runs WHERE tenant = ? AND id = ?", id, run.ID); err != nil {
			return err
		}
		_, err = s.w.conn.ExecContext(ctx, `INSERT INTO runs (tenant, id, flow, version, status, caller, start, duration, steps, steps_done,
			error_code, llm_calls_avoided, tokens_avoided, cost_avoided_usd, latency_avoided, result)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			id, run.ID, run.Flow, run.Version, run.Status, run.Caller, nanos(run.Start), int64(run.Duration), run.Steps, run.StepsDone,
			run.ErrorCode, run.LLMCallsAvoided, run.TokensAvoided, run.CostAvoidedUSD, int64(run.LatencyAvoided), []byte(run.Result))
		return err
	}))
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
