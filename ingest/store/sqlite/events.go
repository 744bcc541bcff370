package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"pave/ingest"
	"pave/ingest/store"
)

// cachedBlockBytes bounds the decoded blocks that one Events call keeps.
const cachedBlockBytes = 32 << 20

// tenantID is the subquery for the id of the tenant with the name in parameter 1; of an unknown tenant nothing is found.
const tenantID = "(SELECT id FROM tenants WHERE name = ?1)"

// selectName finds the id of a name by tenant, hash and name.
const selectName = "SELECT id FROM names WHERE tenant = " + tenantID + " AND hash = ?2 AND name = ?3"

// originsOf are the origins of the session ?1: those bound to it, the one of its own name when that is bound to none,
// and the nameless one (see sessionOrigin).
const originsOf = `SELECT origin FROM bindings WHERE session = ?1
	UNION ALL SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM bindings WHERE origin = ?1)
	UNION ALL SELECT ?1 + 1 WHERE NOT EXISTS (SELECT 1 FROM names WHERE id = ?1 + 1)`

// sessionsOf are the sessions that the origin ?1 is bound to.
const sessionsOf = `SELECT session FROM bindings WHERE origin = ?1
	UNION ALL SELECT id FROM names WHERE id = ?1 - 1 AND NOT EXISTS (SELECT 1 FROM names WHERE id = ?1)`

// Dirty lists sessions to assemble; see store.Store.
func (s *Store) Dirty(ctx context.Context, tenant string, quietSince time.Time, limit int) ([]store.DirtySession, error) {
	quiet := nanos(quietSince)
	if quietSince.IsZero() {
		quiet = nanos(lastInstant)
	}
	rows, err := s.read.QueryContext(ctx, `SELECT n.name, d.touched FROM dirty d JOIN names n ON n.id = d.session
		WHERE d.tenant = `+tenantID+` AND d.newest <= ?2 ORDER BY d.newest, d.session LIMIT ?3`, tenant, quiet, limit)
	if err != nil {
		return nil, s.wrap("list dirty sessions of", err)
	}
	defer rows.Close()
	var list []store.DirtySession
	for rows.Next() {
		var d store.DirtySession
		if err := rows.Scan(&d.ID, &d.Watermark); err != nil {
			return nil, s.wrap("list dirty sessions of", err)
		}
		list = append(list, d)
	}
	return list, s.wrap("list dirty sessions of", rows.Err())
}

// Events reads sessions, those that began first before the others; see store.Store. The strings of events that were
// stored together share memory, so keeping one string of an event may keep the strings of some hundred others.
func (s *Store) Events(ctx context.Context, tenant string, sessionIDs []string, fn func(sessionID string, events []ingest.Event) error) error {
	var fromFn error
	err := s.snapshot(ctx, "read events of", func(tx *sql.Tx) error {
		r, err := newEventReader(ctx, tx)
		if err != nil {
			return err
		}
		defer r.close()
		ids, err := r.find(tenant, sessionIDs)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := ctx.Err(); err != nil {
				return err
			}
			events, err := r.session(id.id)
			if err != nil {
				return fmt.Errorf("session %q: %w", id.name, err)
			}
			if len(events) == 0 {
				continue
			}
			if fromFn = fn(id.name, events); fromFn != nil {
				return nil
			}
		}
		return nil
	})
	return errors.Join(fromFn, err)
}

// eventReader reads the events of sessions in one snapshot.
type eventReader struct {
	ctx                       context.Context
	findName, chain, getBlock *sql.Stmt
	blocks                    *lru[int64, *block]
	places                    []place // reused
}

// spareBlocks are blocks that nobody reads any more, for their memory.
var spareBlocks = sync.Pool{New: func() any { return &block{} }}

// close gives the memory of the blocks back.
func (r *eventReader) close() { r.blocks.clear() }

// place is where an event is.
type place struct {
	block int64
	index uint64
}

type sessionName struct {
	id   int64
	name string
}

func newEventReader(ctx context.Context, tx *sql.Tx) (*eventReader, error) {
	// The caller looks at its context between sessions: having every statement watch it costs more than the reads.
	r := &eventReader{ctx: context.WithoutCancel(ctx), blocks: newLRU[int64, *block](cachedBlockBytes)}
	r.blocks.gone = func(b *block) { spareBlocks.Put(b) }
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&r.findName, selectName},
		{&r.chain, `WITH RECURSIVE chain (prev, block, events) AS (
				SELECT prev, block, events FROM segments WHERE id IN (
					SELECT segment FROM heads WHERE origin IN (` + originsOf + `))
				UNION ALL
				SELECT s.prev, s.block, s.events FROM chain JOIN segments s ON s.id = chain.prev)
			SELECT block, events FROM chain`},
		{&r.getBlock, "SELECT head, payload FROM blocks WHERE id = ?1"},
	} {
		var err error
		if *p.stmt, err = tx.PrepareContext(r.ctx, p.text); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// find gives the known ones of the names, each once, in the order in which they were first seen: so sessions that
// lie in the same blocks are read one after the other.
func (r *eventReader) find(tenant string, names []string) ([]sessionName, error) {
	ids := make([]sessionName, 0, len(names))
	for _, name := range names {
		var id int64
		err := r.findName.QueryRowContext(r.ctx, tenant, hash(name), name).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, sessionName{id, name})
	}
	slices.SortFunc(ids, func(a, b sessionName) int { return cmp.Compare(a.id, b.id) })
	return slices.Compact(ids), nil
}

// session reads the events of one session in arrival order.
func (r *eventReader) session(id int64) ([]ingest.Event, error) {
	if err := r.follow(id); err != nil {
		return nil, err
	}
	slices.SortFunc(r.places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.block, b.block), cmp.Compare(a.index, b.index))
	})
	events := make([]ingest.Event, min(len(r.places), store.MaxSessionEvents))
	var room store.SessionRoom
	var contents arena
	for i := range events {
		p := r.places[i]
		b, err := r.block(p.block)
		if err == nil {
			err = b.event(p.index, &events[i], &contents)
		}
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", p.block, err)
		}
		if !room.Take(&events[i]) {
			return events[:i:i], nil
		}
	}
	return events, nil
}

// follow collects the places of a session's events.
func (r *eventReader) follow(session int64) error {
	r.places = r.places[:0]
	rows, err := r.chain.QueryContext(r.ctx, session)
	if err != nil {
		return err
	}
	defer rows.Close()
	var list sql.RawBytes
	for rows.Next() {
		var p place
		if err := rows.Scan(&p.block, &list); err != nil {
			return err
		}
		for rest := []byte(list); len(rest) > 0; {
			step, n := binary.Uvarint(rest)
			if n <= 0 {
				return errDamaged
			}
			rest = rest[n:]
			p.index += step
			r.places = append(r.places, p)
		}
	}
	return rows.Err()
}

func (r *eventReader) block(id int64) (*block, error) {
	if b, ok := r.blocks.get(id); ok {
		return b, nil
	}
	rows, err := r.getBlock.QueryContext(r.ctx, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, errors.Join(rows.Err(), fmt.Errorf("%w: it is missing", errDamaged))
	}
	var head, payload sql.RawBytes
	if err := rows.Scan(&head, &payload); err != nil {
		return nil, err
	}
	b := spareBlocks.Get().(*block)
	if err := b.open(head, payload); err != nil {
		return nil, err
	}
	r.blocks.put(id, b, b.size)
	return b, nil
}
