package clickhouse

import (
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"pave/ingest"
	"pave/ingest/store"
)

// Limits of one query of Events: how many sessions, how many bytes of their ids go into its address, and how many
// bytes of payload come back at most, unless one session is larger.
const (
	lookupSessions = 500
	lookupBytes    = 64 << 10
	loadBytes      = 32 << 20
)

// A session that spans more than longSession of arrival is read alone, and a gap of more than arrivalGap between
// sessions starts another query: a query reads the log between its oldest and its newest event.
const (
	longSession = time.Hour
	arrivalGap  = time.Minute
)

// extentOf is where the events of a session are.
type extentOf struct {
	session     string
	origins     []string
	bytes       uint64
	first, last int64 // arrival
}

// Events reads sessions. See store.Store.
func (s *Store) Events(ctx context.Context, tenant string, sessionIDs []string, fn func(string, []ingest.Event) error) error {
	if len(sessionIDs) == 0 {
		return nil
	}
	if err := s.current(ctx); err != nil {
		return err
	}
	ids := slices.Clone(sessionIDs)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for len(ids) > 0 {
		n := prefix(ids)
		extents, err := s.extents(ctx, tenant, ids[:n])
		if err != nil {
			return err
		}
		for len(extents) > 0 {
			n := group(extents)
			if err := s.load(ctx, tenant, extents[:n], fn); err != nil {
				return err
			}
			extents = extents[n:]
		}
		ids = ids[n:]
	}
	return nil
}

// prefix is how many of the ids fit into one lookup, at least one.
func prefix(ids []string) int {
	size := 0
	for i, id := range ids {
		size += len(id)
		if i > 0 && (size > lookupBytes || i == lookupSessions) {
			return i
		}
	}
	return len(ids)
}

// group is how many of the extents, in order of arrival, are loaded by one query, at least one.
func group(extents []extentOf) int {
	size, last := uint64(0), extents[0].last
	for i, x := range extents {
		size += x.bytes
		if i == 0 {
			if x.last-x.first > int64(longSession) {
				return 1
			}
			continue
		}
		if size > loadBytes || x.last-x.first > int64(longSession) || x.first-last > int64(arrivalGap) {
			return i
		}
		last = max(last, x.last)
	}
	return len(extents)
}

const extentsSQL = `
WITH
    pairs AS (
        SELECT session, origin, 0 AS itself FROM bindings
        WHERE tenant = {tenant:String} AND session IN {ids:Array(String)}
        GROUP BY session, origin
        UNION ALL
        SELECT arrayJoin({ids:Array(String)}) AS session, session AS origin, 1 AS itself),
    states AS (
        SELECT
            origin,
            sum(bytes) AS bytes,
            min(first_arrival) AS first,
            max(last_arrival) AS last,
            countIf(session != '') > 0 AS bound
        FROM origins FINAL
        WHERE tenant = {tenant:String} AND origin IN (SELECT origin FROM pairs)
        GROUP BY origin)
SELECT p.session, groupUniqArray(p.origin), sum(o.bytes), min(o.first) AS first, max(o.last)
FROM pairs AS p INNER JOIN states AS o ON p.origin = o.origin
WHERE p.itself = 0 OR NOT o.bound
GROUP BY p.session
ORDER BY first, p.session`

// extents finds the sessions' origins, in order of arrival; sessions without events are not among them.
func (s *Store) extents(ctx context.Context, tenant string, ids []string) ([]extentOf, error) {
	var list []extentOf
	err := s.query(ctx, "find the origins of sessions", extentsSQL, []any{arg("tenant", tenant), arg("ids", ids)}, func(rows driver.Rows) error {
		var x extentOf
		if err := rows.Scan(&x.session, &x.origins, &x.bytes, &x.first, &x.last); err != nil {
			return err
		}
		list = append(list, x)
		return nil
	})
	return list, err
}

// eventsSQL takes the sessions, whose origins it finds again, and the ids among them that are origins themselves:
// a session can have more origins than fit into a query's address.
const eventsSQL = `
SELECT
    arrival, spool, kind, present, origin, session_id, trace_id, span_id, parent_span_id, run_id, agent, source, origin_kind,
    seq, turn, toUnixTimestamp64Nano(started), duration, toUnixTimestamp64Nano(received), identity, metadata,
    tool, call_id, args, result, status, error, model, llm_calls, input_tokens, output_tokens, cached_tokens, cost_usd, text
FROM events
WHERE tenant = {tenant:String} AND arrival BETWEEN {first:Int64} AND {last:Int64}
  AND (origin IN {own:Array(String)}
       OR origin IN (SELECT origin FROM bindings WHERE tenant = {tenant:String} AND session IN {ids:Array(String)}))
ORDER BY arrival, spool`

// load reads the events of some sessions and gives them to fn, session by session.
func (s *Store) load(ctx context.Context, tenant string, extents []extentOf, fn func(string, []ingest.Event) error) error {
	readers := map[string][]int{} // origin -> sessions that read it
	events := make([][]ingest.Event, len(extents))
	rooms := make([]store.SessionRoom, len(extents))
	ids, own := []string{}, []string{}
	first, last := extents[0].first, extents[0].last
	for i, x := range extents {
		ids = append(ids, x.session)
		for _, o := range x.origins {
			readers[o] = append(readers[o], i)
			if o == x.session {
				own = append(own, o)
			}
		}
		first, last = min(first, x.first), max(last, x.last)
	}
	args := []any{arg("tenant", tenant), arg("first", first), arg("last", last), arg("own", own), arg("ids", ids)}
	var r eventRow
	previous := r.rowID
	err := s.query(ctx, "read events", eventsSQL, args, func(rows driver.Rows) error {
		if err := r.scan(rows); err != nil {
			return err
		}
		if r.rowID == previous { // stored twice: the deduplication window of the server was too short
			return nil
		}
		previous = r.rowID
		for _, i := range readers[r.origin] {
			if e := r.event(); rooms[i].Take(&e) {
				events[i] = append(events[i], e)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, x := range extents {
		if len(events[i]) == 0 {
			continue
		}
		if err := fn(x.session, events[i]); err != nil {
			return err
		}
	}
	return nil
}

// rowID identifies a row of the log.
type rowID struct {
	arrival int64
	spool   uint64
}

// eventRow is a row of the log as it is scanned.
type eventRow struct {
	rowID
	kind, present                        uint8
	origin, session, trace, span, parent string
	run, agent, source, originKind       string
	seq, start, duration, received       int64
	turn                                 int32
	identity, metadata                   string
	part
}

func (r *eventRow) scan(rows driver.Rows) error {
	return rows.Scan(
		&r.arrival, &r.spool, &r.kind, &r.present, &r.origin, &r.session, &r.trace, &r.span, &r.parent, &r.run, &r.agent, &r.source, &r.originKind,
		&r.seq, &r.turn, &r.start, &r.duration, &r.received, &r.identity, &r.metadata,
		&r.tool, &r.callID, &r.args, &r.result, &r.status, &r.error, &r.model, &r.calls, &r.input, &r.output, &r.cached, &r.cost, &r.text)
}

// event makes an event that shares nothing with another.
func (r *eventRow) event() ingest.Event {
	has := func(bit uint8) bool { return r.present&bit != 0 }
	e := ingest.Event{
		Kind: ingest.Kind(r.kind), Origin: r.origin, SessionID: r.session,
		TraceID: r.trace, SpanID: r.span, ParentSpanID: r.parent, RunID: r.run,
		Agent: r.agent, Source: r.source, OriginKind: ingest.OriginKind(r.originKind),
		Seq: r.seq, HasSeq: has(presentSeq), Turn: r.turn, HasTurn: has(presentTurn),
		Start: instant(has(presentStart), r.start), Duration: time.Duration(r.duration), Received: instant(true, r.received),
		Identity: r.identity, Metadata: raw(r.metadata),
	}
	switch e.Kind {
	case ingest.KindToolCall:
		e.Call = &ingest.ToolCall{
			Tool: r.tool, CallID: r.callID, Args: raw(r.args), Result: raw(r.result),
			Status: ingest.Status(r.status), Error: r.error, Truncated: has(presentTruncated),
		}
	case ingest.KindLLMCall:
		e.LLM = &ingest.LLMCall{
			Model: r.model, Count: r.calls, InputTokens: r.input, OutputTokens: r.output, CachedTokens: r.cached,
			CostUSD: r.cost, HasCost: has(presentCost),
		}
	case ingest.KindUserMessage:
		e.User = &ingest.UserMessage{Text: r.text}
	}
	return e
}
