package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"pave/ingest"
	"pave/ingest/store"
)

// origin is what the writer knows of an origin.
type origin struct {
	id    int64
	head  int64 // its last segment, 0 when it has none
	bound binding
}

// batch is an Append made ready without looking at the file: encoded blocks, and what each origin has in them.
type batch struct {
	blocks    []encodedBlock
	origins   map[string]*batchOrigin
	segments  []batchSegment // in order of their blocks
	events    int
	toolCalls int
}

type encodedBlock struct {
	received      int64
	events        int
	head, payload []byte
}

type batchOrigin struct {
	newest   int64
	sessions []string // explicit ones, each once
	open     int      // index of its segment in the block being made, -1 when it has none
}

type batchSegment struct {
	origin string
	block  int // index in batch.blocks
	last   uint64
	events []byte
}

var blockWriters = sync.Pool{New: func() any { return newBlockWriter() }}

// newBatch encodes checked events.
func newBatch(events []ingest.Event) *batch {
	w := blockWriters.Get().(*blockWriter)
	defer blockWriters.Put(w)
	b := &batch{origins: map[string]*batchOrigin{}, events: len(events)}
	first := 0 // segment of the block being made
	cut := func(next int) {
		received := int64(noTime)
		for i := next - w.events; i < next; i++ {
			received = max(received, nanos(events[i].Received))
		}
		made := encodedBlock{received: received, events: w.events}
		made.head, made.payload = w.finish()
		b.blocks = append(b.blocks, made)
		for _, s := range b.segments[first:] {
			b.origins[s.origin].open = -1
		}
		first = len(b.segments)
	}
	for i := range events {
		e := &events[i]
		if !w.fits(contentBytes(e)) {
			cut(i)
		}
		b.note(e, w.add(e))
	}
	cut(len(events))
	return b
}

// note records an event that has been added to the block being made at place.
func (b *batch) note(e *ingest.Event, place uint64) {
	o := b.origins[e.Origin]
	if o == nil {
		o = &batchOrigin{newest: noTime, open: -1}
		b.origins[e.Origin] = o
	}
	if o.open < 0 {
		o.open = len(b.segments)
		b.segments = append(b.segments, batchSegment{origin: e.Origin, block: len(b.blocks)})
	}
	s := &b.segments[o.open]
	s.events = appendPlace(s.events, s.last, place)
	s.last = place
	o.newest = max(o.newest, nanos(e.Received))
	if e.SessionID != "" && !slices.Contains(o.sessions, e.SessionID) {
		o.sessions = append(o.sessions, e.SessionID)
	}
	if e.Kind == ingest.KindToolCall {
		b.toolCalls++
	}
}

// Append makes the events durable; see store.Store.
func (s *Store) Append(ctx context.Context, tenant string, events []ingest.Event) error {
	if len(events) == 0 {
		return nil
	}
	if err := store.CheckEvents(events); err != nil {
		return err
	}
	b := newBatch(events)
	return s.wrap("append to", s.w.transaction(ctx, func(ctx context.Context) error {
		id, err := s.w.tenant(ctx, tenant)
		if err != nil {
			return err
		}
		return s.w.append(ctx, id, b)
	}))
}

func (w *writer) append(ctx context.Context, tenant int64, b *batch) error {
	base := w.lastBlock + 1
	for i := range b.blocks {
		block := &b.blocks[i]
		w.lastBlock++
		if _, err := w.addBlock.ExecContext(ctx, w.lastBlock, block.received, block.events, block.head, block.payload); err != nil {
			return err
		}
	}
	known := make(map[string]*origin, len(b.origins))
	touched := map[int64]int64{} // session id -> newest
	for i := range b.segments {
		seg := &b.segments[i]
		o := known[seg.origin]
		if o == nil {
			var err error
			if o, err = w.meet(ctx, nameKey{tenant, seg.origin}, b.origins[seg.origin], touched); err != nil {
				return err
			}
			known[seg.origin] = o
		}
		w.lastSegment++
		if err := w.segments.add(ctx, w.lastSegment, o.id, o.head, base+int64(seg.block), seg.events); err != nil {
			return err
		}
		o.head = w.lastSegment
	}
	// In the order of ids, that neighbours are written together.
	for _, o := range slices.SortedFunc(maps.Values(known), func(a, b *origin) int { return cmp.Compare(a.id, b.id) }) {
		if err := w.heads.add(ctx, o.id, o.head); err != nil {
			return err
		}
	}
	for _, session := range slices.Sorted(maps.Keys(touched)) {
		if err := w.dirty.add(ctx, session, tenant, touched[session], w.lastSegment); err != nil {
			return err
		}
	}
	for _, bulk := range []*bulk{w.names, w.segments, w.heads, w.bindings, w.dirty} {
		if err := bulk.flush(ctx); err != nil {
			return err
		}
	}
	_, err := w.count.ExecContext(ctx, b.events, b.toolCalls, 0, 0, 0, tenant)
	return err
}

// meet finds or creates an origin, binds it to the sessions that the batch names for it, and notes every session
// that the batch touches through it.
func (w *writer) meet(ctx context.Context, key nameKey, in *batchOrigin, touched map[int64]int64) (*origin, error) {
	o, err := w.origin(ctx, key, in.sessions)
	if err != nil {
		return nil, err
	}
	touch := func(session int64) {
		if newest, ok := touched[session]; !ok || newest < in.newest {
			touched[session] = in.newest
		}
	}
	if len(o.bound.all) == 0 && (o.head != 0 || len(in.sessions) == 0) {
		// It is its own session, or was until now and has to become nothing.
		touch(o.id)
	}
	for _, session := range in.sessions {
		if o.bound.has(session) {
			continue
		}
		id, _, err := w.name(ctx, nameKey{key.tenant, session})
		if err != nil {
			return nil, err
		}
		if err := w.bindings.add(ctx, o.id, id); err != nil {
			return nil, err
		}
		o.bound.add(session, id)
	}
	for _, session := range o.bound.all {
		touch(session.id)
	}
	return o, nil
}

// origin gives what is known of an origin, which it creates; sessions are those that the batch names for it.
func (w *writer) origin(ctx context.Context, key nameKey, sessions []string) (*origin, error) {
	if o, ok := w.origins.get(key); ok {
		return o, nil
	}
	o, err := w.sessionOrigin(ctx, key, sessions)
	if err != nil {
		return nil, err
	}
	if o == nil {
		id, created, err := w.name(ctx, key)
		if err != nil {
			return nil, err
		}
		o = &origin{id: id}
		if !created {
			if err := w.load(ctx, o); err != nil {
				return nil, err
			}
		}
	}
	w.origins.put(key, o, 1)
	return o, nil
}

// sessionOrigin gives an origin that has no name of its own, because it is that of a session by the session's name and
// was bound to it from the start: its id is the one after the session's. It creates one when the session and the
// origin are new and the batch binds them; nil is an origin of any other kind.
func (w *writer) sessionOrigin(ctx context.Context, key nameKey, sessions []string) (*origin, error) {
	name, ok := strings.CutPrefix(key.name, sessionOrigin)
	if !ok {
		return nil, nil
	}
	session := nameKey{key.tenant, name}
	id, err := w.find(ctx, session)
	if err != nil {
		return nil, err
	}
	if id != 0 {
		return w.loadSessionOrigin(ctx, name, id)
	}
	if !slices.Contains(sessions, name) {
		return nil, nil
	}
	if named, err := w.find(ctx, key); err != nil || named != 0 {
		return nil, err
	}
	if id, err = w.create(ctx, session); err != nil {
		return nil, err
	}
	w.lastName++
	return &origin{id: w.lastName, bound: boundTo(name, id)}, nil
}

// loadSessionOrigin gives the nameless origin of a session, nil when it has none.
func (w *writer) loadSessionOrigin(ctx context.Context, name string, session int64) (*origin, error) {
	o := &origin{id: session + 1, bound: boundTo(name, session)}
	var named bool
	if err := w.isNamed.QueryRowContext(ctx, o.id).Scan(&named); err != nil || named {
		return nil, err
	}
	if err := w.load(ctx, o); err != nil || o.head == 0 {
		return nil, err
	}
	return o, nil
}

// load adds what the file has of an origin.
func (w *writer) load(ctx context.Context, o *origin) error {
	err := w.findHead.QueryRowContext(ctx, o.id).Scan(&o.head)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	rows, err := w.findBindings.QueryContext(ctx, o.id)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var id int64
		if err := rows.Scan(&name, &id); err != nil {
			return err
		}
		if !o.bound.has(name) {
			o.bound.add(name, id)
		}
	}
	return rows.Err()
}
