package clickhouse

import (
	"context"
	"fmt"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"pave/ingest"
	"pave/ingest/store"
)

// Delete removes sessions: what is in the spool is sent first, then the parts that hold the rows are written anew
// (mutations, which this waits for); the server removes the old parts by itself, some minutes later by default. The events
// go first and what finds them last, so that a Delete that was cut short can be made again. See store.Store.
func (s *Store) Delete(ctx context.Context, tenant string, sessionIDs []string) (store.Deleted, error) {
	var out store.Deleted
	if len(sessionIDs) == 0 {
		return out, nil
	}
	if err := s.current(ctx); err != nil {
		return out, err
	}
	ids := slices.Clone(sessionIDs)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for len(ids) > 0 {
		n := prefix(ids)
		d := deletion{s: s, tenant: tenant, ids: ids[:n]}
		err := d.run(ctx)
		out.Add(d.removed)
		if err != nil {
			return out, err
		}
		ids = ids[n:]
	}
	return out, nil
}

// deletion removes some sessions.
type deletion struct {
	s       *Store
	tenant  string
	ids     []string // sorted
	whole   []string // origins that no other session has
	shared  []string
	others  []string // sessions that share an origin
	removed store.Deleted
}

func (d *deletion) deletes(id string) bool {
	_, found := slices.BinarySearch(d.ids, id)
	return found
}

func (d *deletion) run(ctx context.Context) error {
	if err := d.findOrigins(ctx); err != nil {
		return err
	}
	if err := d.countSessions(ctx); err != nil {
		return err
	}
	if err := d.dropShared(ctx); err != nil {
		return err
	}
	if err := d.dropWhole(ctx); err != nil {
		return err
	}
	stale := append(slices.Clone(d.ids), d.others...) // the others are assembled anew
	stale = append(stale, d.whole...)                 // which may have been sessions of their own
	for len(stale) > 0 {
		n := prefix(stale)
		if err := d.mutate(ctx, "sessions", "id IN {ids:Array(String)}", arg("ids", stale[:n])); err != nil {
			return err
		}
		stale = stale[n:]
	}
	if err := d.mutate(ctx, "bindings", "session IN {ids:Array(String)}", arg("ids", d.ids)); err != nil {
		return err
	}
	return d.notice(ctx)
}

const deletedOriginsSQL = `
SELECT origin, groupUniqArray(session) FROM bindings
WHERE tenant = {tenant:String}
  AND (origin IN {ids:Array(String)}
       OR origin IN (SELECT origin FROM bindings WHERE tenant = {tenant:String} AND session IN {ids:Array(String)}))
GROUP BY origin ORDER BY origin`

// findOrigins tells the origins of the sessions apart. A session without a binding of its name is its own origin.
func (d *deletion) findOrigins(ctx context.Context) error {
	bound := map[string]bool{}
	err := d.s.query(ctx, "find the origins of sessions", deletedOriginsSQL, []any{arg("tenant", d.tenant), arg("ids", d.ids)}, func(rows driver.Rows) error {
		var origin string
		var sessions []string
		if err := rows.Scan(&origin, &sessions); err != nil {
			return err
		}
		bound[origin] = true
		others := slices.DeleteFunc(slices.Clone(sessions), d.deletes)
		switch {
		case len(others) == 0:
			d.whole = append(d.whole, origin)
		case len(others) < len(sessions):
			d.shared = append(d.shared, origin)
			d.others = append(d.others, others...)
		}
		return nil
	})
	for _, id := range d.ids {
		if !bound[id] {
			d.whole = append(d.whole, id)
		}
	}
	slices.Sort(d.others)
	d.others = slices.Compact(d.others)
	return err
}

const deletedSessionsSQL = `
SELECT uniqExact(id) FROM (
    SELECT id FROM sessions FINAL WHERE tenant = {tenant:String} AND removed = 0 AND id IN {ids:Array(String)}
    UNION ALL
    SELECT session AS id FROM bindings WHERE tenant = {tenant:String} AND session IN {ids:Array(String)}
    UNION ALL
    SELECT origin AS id FROM origins WHERE tenant = {tenant:String} AND origin IN {own:Array(String)})`

func (d *deletion) countSessions(ctx context.Context) error {
	own := slices.DeleteFunc(slices.Clone(d.whole), func(o string) bool { return !d.deletes(o) })
	var n uint64
	err := d.s.queryRow(ctx, "count sessions", deletedSessionsSQL,
		[]any{arg("tenant", d.tenant), arg("ids", d.ids), arg("own", append([]string{}, own...))}, &n)
	d.removed.Sessions = int64(n)
	return err
}

// dropWhole removes the origins that no other session has.
func (d *deletion) dropWhole(ctx context.Context) error {
	for rest := d.whole; len(rest) > 0; {
		n := prefix(rest)
		origins := arg("origins", rest[:n])
		var events, calls uint64
		err := d.s.queryRow(ctx, "count events", "SELECT count(), countIf(kind = 1) FROM events WHERE tenant = {tenant:String} AND origin IN {origins:Array(String)}",
			[]any{arg("tenant", d.tenant), origins}, &events, &calls)
		if err != nil {
			return err
		}
		for _, table := range []string{"events", "touches", "origins", "bindings"} {
			if err := d.mutate(ctx, table, "origin IN {origins:Array(String)}", origins); err != nil {
				return err
			}
		}
		d.removed.Events += int64(events)
		d.removed.ToolCalls += int64(calls)
		rest = rest[n:]
	}
	return nil
}

const sharedEventsSQL = `
SELECT
    arrival, spool, kind, present, origin, session_id, trace_id, span_id, parent_span_id, run_id, agent, source, origin_kind,
    seq, turn, toUnixTimestamp64Nano(started), duration, toUnixTimestamp64Nano(received), identity, metadata,
    tool, call_id, '' AS args, '' AS result, status, '' AS error, model, llm_calls, input_tokens, output_tokens, cached_tokens, cost_usd, '' AS text
FROM events
WHERE tenant = {tenant:String} AND origin = {origin:String}
ORDER BY arrival, spool`

// dropShared removes those events of shared origins that belong to the sessions.
func (d *deletion) dropShared(ctx context.Context) error {
	for _, origin := range d.shared {
		var rows []rowID
		var events []ingest.Event
		var r eventRow
		err := d.s.query(ctx, "read events", sharedEventsSQL, []any{arg("tenant", d.tenant), arg("origin", origin)}, func(result driver.Rows) error {
			if err := r.scan(result); err != nil {
				return err
			}
			rows, events = append(rows, r.rowID), append(events, r.event())
			return nil
		})
		if err != nil {
			return err
		}
		if err := d.dropRows(ctx, origin, rows, events); err != nil {
			return err
		}
	}
	return nil
}

// maxDroppedRows is how many rows one mutation names.
const maxDroppedRows = 2000

// dropRows removes the events of an origin that belong to the sessions, and counts the origin's others anew.
func (d *deletion) dropRows(ctx context.Context, origin string, rows []rowID, events []ingest.Event) error {
	drop := make([]bool, len(events))
	for _, id := range d.ids {
		for i, own := range ingest.Belongs(id, events) {
			drop[i] = drop[i] || own || events[i].SessionID == id
		}
	}
	bySpool := map[uint64][]int64{}
	for i := range rows {
		if !drop[i] {
			continue
		}
		bySpool[rows[i].spool] = append(bySpool[rows[i].spool], rows[i].arrival)
		d.removed.Events++
		if events[i].Kind == ingest.KindToolCall {
			d.removed.ToolCalls++
		}
	}
	for spool, arrivals := range bySpool {
		for chunk := range slices.Chunk(arrivals, maxDroppedRows) {
			err := d.mutate(ctx, "events", "origin = {origin:String} AND spool = {spool:UInt64} AND arrival IN {arrivals:Array(Int64)}",
				arg("origin", origin), arg("spool", spool), arg("arrivals", chunk))
			if err != nil {
				return err
			}
		}
	}
	return d.recount(ctx, origin)
}

const recountSQL = `
INSERT INTO origins (tenant, origin, session, spool, entry, events, tool_calls, bytes, first_arrival, last_arrival, last_received)
SELECT tenant, origin, session_id, spool, min(arrival), count(), countIf(kind = 1),
       sum(length(args) + length(result) + length(text) + length(metadata) + length(error)), min(arrival), max(arrival), max(toUnixTimestamp64Nano(received))
FROM events WHERE tenant = {tenant:String} AND origin = {origin:String}
GROUP BY tenant, origin, session_id, spool`

// recount makes the rows of an origin of the events that are left of it.
func (d *deletion) recount(ctx context.Context, origin string) error {
	if err := d.mutate(ctx, "origins", "origin = {origin:String}", arg("origin", origin)); err != nil {
		return err
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"insert_deduplicate": 0}))
	return d.s.failed(ctx, "count the events of an origin", d.s.conn.Exec(ctx, recountSQL, arg("tenant", d.tenant), arg("origin", origin)))
}

// notice puts shared origins into the feed of changes, and takes the deleted sessions off the list of dirty ones.
func (d *deletion) notice(ctx context.Context) error {
	dirty := &d.s.tenant(d.tenant).dirty
	dirty.mu.Lock()
	for _, id := range d.ids {
		delete(dirty.sessions, id)
	}
	dirty.mu.Unlock()
	if len(d.shared) == 0 {
		return nil
	}
	tenants, spools := make([]string, len(d.shared)), make([]uint64, len(d.shared))
	for i := range tenants {
		tenants[i], spools[i] = d.tenant, d.s.spool.id
	}
	token := fmt.Sprintf("delete-%d", d.s.nextVersion())
	return d.s.failed(ctx, "note a change", touchesTable.send(ctx, d.s.conn, token, []any{tenants, spools, d.shared}))
}

// mutate deletes rows of the tenant and waits until they are gone.
func (d *deletion) mutate(ctx context.Context, table, where string, args ...any) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2}))
	return d.s.failed(ctx, "delete from "+table,
		d.s.conn.Exec(ctx, "ALTER TABLE "+table+" DELETE WHERE tenant = {tenant:String} AND "+where, append(args, arg("tenant", d.tenant))...))
}
