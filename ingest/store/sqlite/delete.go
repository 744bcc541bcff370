package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"pave/ingest"
	"pave/ingest/store"
)

// Delete removes sessions in one transaction; see store.Store. Blocks are written anew without the events. What was in
// their pages is overwritten (secure_delete), and the write-ahead log is moved into the database and cut, as soon as no
// reader holds an older state.
func (s *Store) Delete(ctx context.Context, tenant string, sessionIDs []string) (store.Deleted, error) {
	var out store.Deleted
	err := s.w.transaction(ctx, func(ctx context.Context) (err error) {
		if _, err := s.w.conn.ExecContext(ctx, "PRAGMA secure_delete=on"); err != nil {
			return err
		}
		defer func() {
			_, off := s.w.conn.ExecContext(ctx, "PRAGMA secure_delete=off")
			err = errors.Join(err, off)
		}()
		id, err := s.w.tenant(ctx, tenant)
		if err != nil {
			return err
		}
		d := deleter{sessionPutter: sessionPutter{writer: s.w, tenant: id}, sessions: map[int64]string{}, gone: map[int64]map[uint64]bool{}}
		out, err = d.delete(ctx, sessionIDs)
		// Names that are gone must not be found in memory.
		return errors.Join(err, s.w.forget(ctx))
	})
	if err == nil && out.Events > 0 {
		err = s.w.checkpoint(ctx)
	}
	return out, s.wrap("delete sessions of", err)
}

// checkpoint moves the write-ahead log into the database and cuts it; readers of older states may keep it from that.
func (w *writer) checkpoint(ctx context.Context) error {
	if err := w.wait(ctx); err != nil {
		return err
	}
	defer w.done()
	_, err := w.conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// deleter removes sessions inside a transaction.
type deleter struct {
	sessionPutter
	sessions map[int64]string          // those to delete
	gone     map[int64]map[uint64]bool // events to remove: block -> places
	removed  store.Deleted
}

// segment is a row of segments, with its places.
type segment struct {
	id, block int64
	places    []uint64
}

func (d *deleter) delete(ctx context.Context, names []string) (store.Deleted, error) {
	for _, name := range names {
		var id int64
		err := d.findName.QueryRowContext(ctx, hash(name), d.tenant, name).Scan(&id)
		if err == nil {
			d.sessions[id] = name
		} else if !errors.Is(err, sql.ErrNoRows) {
			return d.removed, err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.sessions)) {
		if err := d.session(ctx, id); err != nil {
			return d.removed, fmt.Errorf("session %q: %w", d.sessions[id], err)
		}
	}
	for _, block := range slices.Sorted(maps.Keys(d.gone)) {
		if err := d.rewrite(ctx, block, d.gone[block]); err != nil {
			return d.removed, fmt.Errorf("block %d: %w", block, err)
		}
	}
	if err := d.writer.dirty.flush(ctx); err != nil {
		return d.removed, err
	}
	_, err := d.count.ExecContext(ctx, -d.removed.Events, -d.removed.ToolCalls, d.sessionPutter.sessions, d.calls, d.llm, d.tenant)
	return d.removed, err
}

// session marks the events of a session as gone and removes its rows.
func (d *deleter) session(ctx context.Context, id int64) error {
	before := d.sessionPutter.sessions
	origins, err := d.column(ctx, originsOf+" ORDER BY 1", id)
	if err != nil {
		return err
	}
	segments := map[int64][]segment{} // of shared origins
	var others []int64
	found := false
	for _, origin := range origins {
		sharing, err := d.column(ctx, sessionsOf, origin)
		if err != nil {
			return err
		}
		list, err := d.chainOf(ctx, origin)
		if err != nil {
			return err
		}
		found = found || len(list) > 0
		sharing = slices.DeleteFunc(sharing, func(s int64) bool { _, ok := d.sessions[s]; return ok })
		if len(sharing) > 0 {
			segments[origin] = list
			others = append(others, sharing...)
			continue
		}
		for _, seg := range list {
			d.mark(seg.block, seg.places)
		}
		if err := d.forgetOrigin(ctx, origin, list); err != nil {
			return err
		}
	}
	if len(segments) > 0 {
		if err := d.share(ctx, id, segments, others); err != nil {
			return err
		}
	}
	if err := d.drop(ctx, id); err != nil {
		return err
	}
	if found || d.sessionPutter.sessions < before {
		d.removed.Sessions++
	}
	return d.execAll(ctx, id, "DELETE FROM bindings WHERE session = ?1", "DELETE FROM dirty WHERE session = ?1", forgetName)
}

// forgetName removes a name that nothing uses any more.
const forgetName = `DELETE FROM names WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM bindings WHERE session = ?1)
	AND NOT EXISTS (SELECT 1 FROM heads WHERE origin = ?1)`

// share marks those events of shared origins as gone that belong to the session, and has the other sessions assembled anew.
// Which they are shows in the events of the shared origins alone: spans of other origins are of other traces.
func (d *deleter) share(ctx context.Context, id int64, segments map[int64][]segment, others []int64) error {
	var events []ingest.Event
	var at []place
	for _, origin := range slices.Sorted(maps.Keys(segments)) {
		for _, seg := range segments[origin] {
			b, err := d.read(ctx, seg.block)
			if err != nil {
				return err
			}
			for _, index := range seg.places {
				var e ingest.Event
				if err := b.event(index, &e, nil); err != nil {
					return err
				}
				events, at = append(events, e), append(at, place{seg.block, index})
			}
		}
	}
	own := ingest.Belongs(d.sessions[id], events)
	for i := range own {
		if own[i] || events[i].SessionID == d.sessions[id] {
			d.mark(at[i].block, []uint64{at[i].index})
		}
	}
	for _, list := range segments {
		for _, seg := range list {
			var left []byte
			var last uint64
			for _, index := range seg.places {
				if !d.gone[seg.block][index] {
					left, last = appendPlace(left, last, index), index
				}
			}
			if left == nil {
				left = []byte{}
			}
			if _, err := d.conn.ExecContext(ctx, "UPDATE segments SET events = ?2 WHERE id = ?1", seg.id, left); err != nil {
				return err
			}
		}
	}
	d.lastSegment++ // no assembly that is under way has seen this
	slices.Sort(others)
	for _, other := range slices.Compact(others) {
		if err := d.writer.dirty.add(ctx, other, d.tenant, int64(noTime), d.lastSegment); err != nil {
			return err
		}
	}
	return nil
}

// forgetOrigin removes the rows of an origin all of whose events go.
func (d *deleter) forgetOrigin(ctx context.Context, origin int64, segments []segment) error {
	for _, seg := range segments {
		if err := d.execAll(ctx, seg.id, "DELETE FROM segments WHERE id = ?1"); err != nil {
			return err
		}
	}
	if err := d.drop(ctx, origin); err != nil { // it may have been a session of its own
		return err
	}
	return d.execAll(ctx, origin, "DELETE FROM heads WHERE origin = ?1", "DELETE FROM bindings WHERE origin = ?1",
		"DELETE FROM dirty WHERE session = ?1", forgetName)
}

func (d *deleter) execAll(ctx context.Context, id int64, statements ...string) error {
	for _, text := range statements {
		if _, err := d.conn.ExecContext(ctx, text, id); err != nil {
			return err
		}
	}
	return nil
}

// mark notes events to remove from a block.
func (d *deleter) mark(block int64, places []uint64) {
	if d.gone[block] == nil {
		d.gone[block] = map[uint64]bool{}
	}
	for _, p := range places {
		d.gone[block][p] = true
	}
}

// column reads a column of ids.
func (d *deleter) column(ctx context.Context, text string, id int64) (list []int64, err error) {
	rows, err := d.conn.QueryContext(ctx, text, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var found int64
		if err := rows.Scan(&found); err != nil {
			return nil, err
		}
		list = append(list, found)
	}
	return list, rows.Err()
}

// chainOf reads the segments of an origin, oldest first.
func (d *deleter) chainOf(ctx context.Context, origin int64) (list []segment, err error) {
	rows, err := d.conn.QueryContext(ctx, `WITH RECURSIVE chain (id, prev, block, events) AS (
			SELECT id, prev, block, events FROM segments WHERE id = (SELECT segment FROM heads WHERE origin = ?1)
			UNION ALL
			SELECT s.id, s.prev, s.block, s.events FROM chain JOIN segments s ON s.id = chain.prev)
		SELECT id, block, events FROM chain ORDER BY id`, origin)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var seg segment
		var raw sql.RawBytes
		if err := rows.Scan(&seg.id, &seg.block, &raw); err != nil {
			return nil, err
		}
		var at uint64
		for rest := []byte(raw); len(rest) > 0; {
			step, n := binary.Uvarint(rest)
			if n <= 0 {
				return nil, errDamaged
			}
			rest, at = rest[n:], at+step
			seg.places = append(seg.places, at)
		}
		list = append(list, seg)
	}
	return list, rows.Err()
}

func (d *deleter) read(ctx context.Context, id int64) (*block, error) {
	var head, payload []byte
	if err := d.conn.QueryRowContext(ctx, "SELECT head, payload FROM blocks WHERE id = ?1", id).Scan(&head, &payload); err != nil {
		return nil, err
	}
	return openBlock(head, payload)
}

// rewrite writes a block without the events at some places, whose places stay and hold nothing; a block of which nothing
// is left goes.
func (d *deleter) rewrite(ctx context.Context, id int64, gone map[uint64]bool) error {
	b, err := d.read(ctx, id)
	if err != nil {
		return err
	}
	w := newBlockWriter()
	for i := range uint64(len(b.records)) {
		var e ingest.Event
		if err := b.event(i, &e, nil); err != nil {
			return err
		}
		if gone[i] {
			d.removed.Events++
			if e.Kind == ingest.KindToolCall {
				d.removed.ToolCalls++
			}
			e = ingest.Event{Kind: ingest.KindSpan, Received: e.Received}
		}
		w.add(&e)
	}
	var left int
	if err := d.conn.QueryRowContext(ctx, "UPDATE blocks SET events = events - ?2 WHERE id = ?1 RETURNING events", id, len(gone)).Scan(&left); err != nil {
		return err
	}
	if left == 0 {
		return d.execAll(ctx, id, "DELETE FROM blocks WHERE id = ?1")
	}
	head, payload := w.finish()
	_, err = d.conn.ExecContext(ctx, "UPDATE blocks SET head = ?2, payload = ?3 WHERE id = ?1", id, head, payload)
	return err
}
