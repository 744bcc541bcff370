package clickhouse

import (
	"context"

	"pave/ingest/store"
)

const statsSQL = `
SELECT
    (SELECT toInt64(sum(events)) FROM origins FINAL WHERE tenant = {tenant:String}),
    (SELECT toInt64(sum(tool_calls)) FROM origins FINAL WHERE tenant = {tenant:String}),
    (SELECT toInt64(count()) FROM sessions FINAL WHERE tenant = {tenant:String} AND removed = 0),
    (SELECT sum(tool_calls) FROM sessions FINAL WHERE tenant = {tenant:String} AND removed = 0),
    (SELECT sum(llm_calls) FROM sessions FINAL WHERE tenant = {tenant:String} AND removed = 0),
    (SELECT toInt64(count()) FROM runs FINAL WHERE tenant = {tenant:String})`

const bytesSQL = `SELECT toInt64(sum(bytes_on_disk)) FROM system.parts WHERE database = currentDatabase() AND active`

// Stats counts what is stored. Bytes is that of all tenants, 0 when the user may not read system tables. See
// store.Store.
func (s *Store) Stats(ctx context.Context, tenant string) (store.Stats, error) {
	var st store.Stats
	if err := s.current(ctx); err != nil {
		return st, err
	}
	err := s.queryRow(ctx, "count what is stored", statsSQL, []any{arg("tenant", tenant)},
		&st.Events, &st.ToolCallRows, &st.Sessions, &st.ToolCalls, &st.LLMCalls, &st.Runs)
	if err != nil {
		return st, err
	}
	if err := s.conn.QueryRow(ctx, bytesSQL).Scan(&st.Bytes); err != nil {
		st.Bytes = 0
	}
	d := &s.tenant(tenant).dirty
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := s.refresh(ctx, tenant, d); err != nil {
		return st, err
	}
	st.DirtySessions = int64(len(d.sessions))
	st.SpoolRows = s.spool.state().Rows
	return st, nil
}
