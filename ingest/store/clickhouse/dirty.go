package clickhouse

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"pave/ingest/store"
)

// movedMark is the watermark of an origin that was a session of its own until a session id arrived for it. It has no
// events any more; putting it with this mark makes it clean for good.
const movedMark = 1 << 62

// lateFeed is how much of the feed is looked at again, in microseconds: another process's batch carries the time of
// its insert and may become visible after a newer one.
const lateFeed = int64(30 * time.Second / time.Microsecond)

// keepMarkEvery is by how much the low-water mark must have moved to be written again, in microseconds.
const keepMarkEvery = int64(10 * time.Second / time.Microsecond)

// dirtySet holds the sessions of one tenant that are to be assembled. It follows the feed of changes (table touches),
// so that each change is evaluated once; what is dirty is always computed from the tables, hence a lost or repeated
// change at worst costs another look.
type dirtySet struct {
	mu       sync.Mutex
	loaded   bool
	sessions map[string]dirtyState
	// order lists the sessions by their newest event, and some that were taken out since; nil when it is to be made.
	order []string
	// cursor is the newest change seen, in microseconds of the server's clock; seen are the changes since
	// cursor-lateFeed.
	cursor int64
	seen   map[change]bool
	kept   int64 // the low-water mark on disk
	// partial: more sessions may be dirty than the set takes at once; the cursor was not moved.
	partial bool
}

// change is a batch in the feed.
type change struct {
	noticed int64
	spool   uint64
}

type dirtyState struct {
	mark     int64 // events of the session, or movedMark
	received int64 // newest event, unix nanoseconds
	noticed  int64 // the evaluation that found it
}

// Dirty lists sessions to assemble. See store.Store.
func (s *Store) Dirty(ctx context.Context, tenant string, quietSince time.Time, limit int) ([]store.DirtySession, error) {
	if err := s.current(ctx); err != nil {
		return nil, err
	}
	d := &s.tenant(tenant).dirty
	d.mu.Lock()
	defer d.mu.Unlock()
	quiet := d.quiet(quietSince, limit)
	if d.partial && len(quiet) == limit {
		return quiet, nil
	}
	if err := s.refresh(ctx, tenant, d); err != nil {
		return nil, err
	}
	return d.quiet(quietSince, limit), nil
}

// quiet lists sessions without events received after since, oldest newest event first.
func (d *dirtySet) quiet(since time.Time, limit int) []store.DirtySession {
	if d.order == nil {
		d.order = slices.SortedFunc(maps.Keys(d.sessions), func(a, b string) int {
			return cmp.Or(cmp.Compare(d.sessions[a].received, d.sessions[b].received), cmp.Compare(a, b))
		})
	}
	for len(d.order) > 0 && !d.holds(d.order[0]) {
		d.order = d.order[1:]
	}
	var list []store.DirtySession
	for _, id := range d.order {
		st, ok := d.sessions[id]
		if !ok {
			continue
		}
		if len(list) == limit || (!since.IsZero() && st.received > nanos(since)) {
			break
		}
		list = append(list, store.DirtySession{ID: id, Watermark: st.mark})
	}
	return list
}

func (d *dirtySet) holds(id string) bool {
	_, ok := d.sessions[id]
	return ok
}

// put takes out a session that was assembled with the watermark.
func (d *dirtySet) put(id string, watermark int64) {
	if st, ok := d.sessions[id]; ok && watermark >= st.mark {
		delete(d.sessions, id)
	}
}

const changesSQL = `
SELECT toUnixTimestamp64Micro(noticed) AS at, spool
FROM touches
WHERE tenant = {tenant:String} AND noticed >= fromUnixTimestamp64Micro({from:Int64}, 'UTC')
GROUP BY at, spool`

// refresh follows the feed to its end.
func (s *Store) refresh(ctx context.Context, tenant string, d *dirtySet) error {
	if !d.loaded {
		mark, err := s.spool.mark(ctx, tenant)
		if err != nil {
			return err
		}
		d.loaded, d.cursor, d.kept = true, mark, mark
		d.sessions, d.seen = map[string]dirtyState{}, map[change]bool{}
	}
	var fresh []change
	from, to := int64(0), int64(0)
	err := s.query(ctx, "read the feed of changes", changesSQL, []any{arg("tenant", tenant), arg("from", d.cursor-lateFeed)}, func(rows driver.Rows) error {
		var c change
		if err := rows.Scan(&c.noticed, &c.spool); err != nil {
			return err
		}
		if !d.seen[c] {
			if len(fresh) == 0 || c.noticed < from {
				from = c.noticed
			}
			to = max(to, c.noticed)
			fresh = append(fresh, c)
		}
		return nil
	})
	if err != nil || len(fresh) == 0 {
		return err
	}
	if err := s.evaluate(ctx, tenant, d, from, to); err != nil || d.partial {
		return err
	}
	d.cursor = max(d.cursor, to)
	for _, c := range fresh {
		d.seen[c] = true
	}
	for c := range d.seen {
		if c.noticed < d.cursor-lateFeed {
			delete(d.seen, c)
		}
	}
	return s.keepMark(ctx, tenant, d)
}

// keepMark writes down from where on a later process must look at the feed.
func (s *Store) keepMark(ctx context.Context, tenant string, d *dirtySet) error {
	low := d.cursor - lateFeed
	if low < d.kept+keepMarkEvery {
		return nil
	}
	for _, st := range d.sessions {
		low = min(low, st.noticed)
	}
	if low < d.kept+keepMarkEvery {
		return nil
	}
	d.kept = low
	return s.spool.setMark(ctx, tenant, low)
}

// dirtySQL finds the sessions that a range of the feed reaches and are not assembled as they are now: every session
// bound to a touched origin, with the events of all its origins; and the origin itself, which is a session while no
// session is bound to it, and which is to be removed when it was one in an earlier append than the first binding.
const dirtySQL = `
WITH
    touched AS (
        SELECT DISTINCT origin FROM touches
        WHERE tenant = {tenant:String}
          AND noticed BETWEEN fromUnixTimestamp64Micro({from:Int64}, 'UTC') AND fromUnixTimestamp64Micro({to:Int64}, 'UTC')),
    reached AS (
        SELECT origin AS session FROM touched
        UNION DISTINCT
        SELECT session FROM origins
        WHERE tenant = {tenant:String} AND session != '' AND origin IN (SELECT origin FROM touched)),
    pairs AS (
        SELECT session, origin, 0 AS itself FROM bindings
        WHERE tenant = {tenant:String} AND session IN (SELECT session FROM reached)
        GROUP BY session, origin
        UNION ALL
        SELECT session, session AS origin, 1 AS itself FROM reached),
    states AS (
        SELECT
            origin,
            toInt64(sum(events)) AS n,
            max(last_received) AS newest,
            countIf(session != '') > 0 AS bound,
            countIf(session = '') > 0 AND bound AND minIf(entry, session = '') < minIf(entry, session != '') AS moved
        FROM origins FINAL
        WHERE tenant = {tenant:String} AND origin IN (SELECT origin FROM pairs)
        GROUP BY origin),
    marks AS (
        SELECT id, argMax(watermark, version) AS mark FROM sessions
        WHERE tenant = {tenant:String} AND id IN (SELECT session FROM reached)
        GROUP BY id),
    found AS (
        SELECT
            p.session AS session,
            sumIf(o.n, p.itself = 0 OR NOT o.bound) AS n,
            max(p.itself = 1 AND o.moved) AS moved,
            max(o.newest) AS newest
        FROM pairs AS p INNER JOIN states AS o ON p.origin = o.origin
        GROUP BY p.session)
SELECT f.session, if(f.n > 0, f.n, {moved:Int64}) AS mark, f.newest
FROM found AS f LEFT JOIN marks AS m ON f.session = m.id
WHERE (f.n > 0 AND f.n > if(m.mark >= {moved:Int64}, 0, m.mark)) OR (f.n = 0 AND f.moved AND m.mark < {moved:Int64})
ORDER BY f.newest, f.session
LIMIT {limit:Int64}`

// evaluate adds the dirty sessions among those that changes of the range reach.
func (s *Store) evaluate(ctx context.Context, tenant string, d *dirtySet, from, to int64) error {
	found := 0
	args := []any{arg("tenant", tenant), arg("from", from), arg("to", to), arg("moved", int64(movedMark)), arg("limit", int64(s.limits.DirtySessions))}
	err := s.query(ctx, "find sessions to assemble", dirtySQL, args, func(rows driver.Rows) error {
		var id string
		st := dirtyState{noticed: from}
		if err := rows.Scan(&id, &st.mark, &st.received); err != nil {
			return err
		}
		d.sessions[id], d.order = st, nil
		found++
		return nil
	})
	d.partial = found == s.limits.DirtySessions
	return err
}
