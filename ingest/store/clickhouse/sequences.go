package clickhouse

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"pave/ingest"
	"pave/ingest/store"
)

// dictionary numbers the tools of one tenant. The table tools keeps the order in which they were added, so ids stay
// as long as one process at a time assembles sessions; the names themselves are in every row.
type dictionary struct {
	mu     sync.Mutex
	loaded bool
	names  []string
	ids    map[string]uint32
}

// id is the number of a tool, a new one when it has none.
func (d *dictionary) id(name string) uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	id, known := d.ids[name]
	if !known {
		id = uint32(len(d.names))
		d.names = append(d.names, name)
		d.ids[name] = id
	}
	return id
}

// loadTools reads the tenant's dictionary on first use.
func (s *Store) loadTools(ctx context.Context, tenant string, d *dictionary) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.loaded {
		return nil
	}
	d.names, d.ids = nil, map[string]uint32{}
	err := s.query(ctx, "read the tool names",
		"SELECT name FROM tools WHERE tenant = {tenant:String} GROUP BY name ORDER BY min(added), name",
		[]any{arg("tenant", tenant)}, func(rows driver.Rows) error {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			d.ids[name] = uint32(len(d.names))
			d.names = append(d.names, name)
			return nil
		})
	d.loaded = err == nil
	return err
}

// addTools stores the names that the dictionary does not have, in order, and only then numbers them.
func (s *Store) addTools(ctx context.Context, tenant string, d *dictionary, version int64, rows []store.SessionRow) error {
	if err := s.loadTools(ctx, tenant, d); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var names, tenants []string
	var added []int64
	fresh := map[string]bool{}
	for _, row := range rows {
		for _, q := range row.Sequences {
			for _, name := range q.Tools {
				if _, known := d.ids[name]; known || fresh[name] {
					continue
				}
				fresh[name] = true
				names, tenants, added = append(names, name), append(tenants, tenant), append(added, version+int64(len(added)))
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := toolsTable.send(ctx, s.conn, putToken(version, 0), []any{tenants, names, added}); err != nil {
		return s.failed(ctx, "store tool names", err)
	}
	for _, name := range names {
		d.ids[name] = uint32(len(d.names))
		d.names = append(d.names, name)
	}
	return nil
}

// ToolNames returns the tool dictionary. See store.Store.
func (s *Store) ToolNames(ctx context.Context, tenant string) ([]string, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	d := &s.tenant(tenant).tools
	if err := s.loadTools(ctx, tenant, d); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.names), nil
}

const sequencesSQL = `
SELECT id, sequences FROM sessions FINAL
WHERE tenant = {tenant:String} AND removed = 0
  AND ({timed:UInt8} = 0 OR sequences_to >= {from:Int64} AND sequences_from < {to:Int64})
  AND ({agent:String} = '' OR has(sequence_agents, {agent:String}))
  AND ({of_day:UInt8} = 0 OR ` + dayNumber + ` BETWEEN {day:Int64} AND {to_day:Int64})
ORDER BY id`

// Sequences reads the sequences for mining, by session id. See store.Store.
func (s *Store) Sequences(ctx context.Context, tenant string, filter store.SequenceFilter, fn func(*ingest.Sequence) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	d := &s.tenant(tenant).tools
	if err := s.loadTools(ctx, tenant, d); err != nil {
		return err
	}
	var r sequenceReader
	take := func(q *ingest.Sequence) error {
		if !within(q.Start, filter.From, filter.To) || (filter.Agent != "" && q.Agent != filter.Agent) {
			return nil
		}
		return fn(q)
	}
	args := append(timeArgs(filter.From, filter.To), arg("tenant", tenant), arg("agent", filter.Agent), arg("no_day", int64(store.NoDay)))
	if filter.OfDay != nil {
		last := filter.OfDay
		if filter.ToDay != nil {
			last = filter.ToDay
		}
		args = append(args, arg("of_day", uint8(1)), arg("day", int64(*filter.OfDay)), arg("to_day", int64(*last)))
	} else {
		args = append(args, arg("of_day", uint8(0)), arg("day", int64(0)), arg("to_day", int64(0)))
	}
	var session, packed string
	return s.query(ctx, "read sequences", sequencesSQL, args, func(rows driver.Rows) error {
		if err := rows.Scan(&session, &packed); err != nil {
			return err
		}
		return r.each(packed, session, d.id, take)
	})
}

// within tells whether a time is in [from, to); zero bounds are open, and an unknown time is in only when both are.
func within(t, from, to time.Time) bool {
	if t.IsZero() {
		return from.IsZero() && to.IsZero()
	}
	return (from.IsZero() || !t.Before(from)) && (to.IsZero() || t.Before(to))
}

// timeArgs are the parameters of a time filter: timed is 0 when both sides are open.
func timeArgs(from, to time.Time) []any {
	timed, first, last := uint8(0), int64(math.MinInt64), int64(math.MaxInt64)
	if !from.IsZero() {
		timed, first = 1, nanos(from)
	}
	if !to.IsZero() {
		timed, last = 1, nanos(to)
	}
	return []any{arg("timed", timed), arg("from", first), arg("to", last)}
}
