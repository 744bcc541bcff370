package clickhouse

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"pave/ingest"
	"pave/ingest/store"
)

// Append makes the events durable in the spool. See store.Store.
func (s *Store) Append(ctx context.Context, tenant string, events []ingest.Event) error {
	if s.closed.Load() {
		return errClosed
	}
	if err := store.CheckEvents(events); err != nil || len(events) == 0 {
		return err
	}
	if err := s.spool.add(ctx, eventsEntry, tenant, s.encode(events)); err != nil {
		return err
	}
	signal(s.ship.more)
	return nil
}

// encode cuts events into chunks, none larger than a shipment unless one event is.
func (s *Store) encode(events []ingest.Event) []chunk {
	var chunks []chunk
	var b encoder
	rows := 0
	flush := func() {
		if rows == 0 {
			return
		}
		// The count stands before the rows and is known after them.
		body := binary.AppendUvarint([]byte{eventsForm}, uint64(rows))
		chunks = append(chunks, chunk{body: append(slices.Grow(body, len(b.buf)), b.buf...), rows: rows})
		b.buf, rows = b.buf[:0], 0
	}
	for i := range events {
		before := len(b.buf)
		encodeEvent(&b, &events[i])
		rows++
		if rows > 1 && int64(len(b.buf)) > s.limits.BatchBytes {
			tail := slices.Clone(b.buf[before:])
			b.buf, rows = b.buf[:before], rows-1
			flush()
			b.buf, rows = append(b.buf, tail...), 1
		}
		if rows == s.limits.BatchRows {
			flush()
		}
	}
	flush()
	return chunks
}

// deliver sends a shipment to the server: what reads find events by goes before the events, the feed of changes
// last, so that whoever sees a change sees all of it.
func (s *Store) deliver(ctx context.Context, ship *shipment) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	var b delivery
	for _, e := range ship.entries {
		if err := b.add(&e, s.spool.id); err != nil {
			return fmt.Errorf("spool entry %d: %w", e.id, err)
		}
	}
	token := fmt.Sprintf("%016x-%d-%d", s.spool.id, ship.first, ship.last)
	for _, part := range []struct {
		table
		rows   int
		values []any
	}{
		{bindingsTable, len(b.bound.session), []any{b.bound.tenant, b.bound.session, b.bound.origin}},
		{eventsTable, len(b.events.origin), b.events.values()},
		{originsTable, len(b.origins.origin), b.origins.values()},
		{touchesTable, len(b.touched.origin), []any{b.touched.tenant, b.touched.spool, b.touched.origin}},
		{runsTable, len(b.runs.id), b.runs.values()},
	} {
		if part.rows == 0 {
			continue
		}
		if err := part.send(ctx, s.conn, token, part.values); err != nil {
			return err
		}
	}
	return nil
}

// delivery is a shipment as rows.
type delivery struct {
	events  eventBatch
	origins originBatch
	runs    runBatch
	bound   struct{ tenant, session, origin []string }
	touched struct {
		tenant []string
		spool  []uint64
		origin []string
	}
}

func (b *delivery) add(e *entry, spool uint64) error {
	if e.kind == runEntry {
		return b.runs.decode(string(e.body), e.tenant, e.arrival)
	}
	from := len(b.events.origin)
	if err := b.events.decode(string(e.body), e.tenant, spool, e.arrival); err != nil {
		return err
	}
	if n := len(b.events.origin) - from; n != e.rows {
		return fmt.Errorf("%w: %d events where %d were written", errCorrupt, n, e.rows)
	}
	b.index(from, e, spool)
	return nil
}

// index adds what the events from the given row on mean for their origins.
func (b *delivery) index(from int, e *entry, spool uint64) {
	type key struct{ origin, session string }
	rows, touched := map[key]int{}, map[string]bool{}
	ev, o := &b.events, &b.origins
	for i := from; i < len(ev.origin); i++ {
		k := key{ev.origin[i], ev.session[i]}
		at, seen := rows[k]
		if !seen {
			at = len(o.origin)
			rows[k] = at
			b.newOrigin(k.origin, k.session, e, spool, ev.arrival[i])
			if !touched[k.origin] {
				touched[k.origin] = true
				b.touched.tenant = append(b.touched.tenant, e.tenant)
				b.touched.spool = append(b.touched.spool, spool)
				b.touched.origin = append(b.touched.origin, k.origin)
			}
		}
		o.events[at]++
		if ev.kind[i] == uint8(ingest.KindToolCall) {
			o.toolCalls[at]++
		}
		o.bytes[at] += uint64(len(ev.args[i]) + len(ev.result[i]) + len(ev.text[i]) + len(ev.metadata[i]) + len(ev.err[i]))
		o.lastArrival[at] = ev.arrival[i]
		o.newest[at] = max(o.newest[at], ev.received[i].UnixNano())
	}
}

func (b *delivery) newOrigin(origin, session string, e *entry, spool uint64, arrival int64) {
	o := &b.origins
	o.tenant = append(o.tenant, e.tenant)
	o.origin = append(o.origin, origin)
	o.session = append(o.session, session)
	o.spool = append(o.spool, spool)
	o.entry = append(o.entry, e.arrival)
	o.events = append(o.events, 0)
	o.toolCalls = append(o.toolCalls, 0)
	o.bytes = append(o.bytes, 0)
	o.firstArrival = append(o.firstArrival, arrival)
	o.lastArrival = append(o.lastArrival, arrival)
	o.newest = append(o.newest, firstInstant.UnixNano())
	if session != "" {
		b.bound.tenant = append(b.bound.tenant, e.tenant)
		b.bound.session = append(b.bound.session, session)
		b.bound.origin = append(b.bound.origin, origin)
	}
}
