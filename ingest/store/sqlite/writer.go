package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// errClosed is the answer of a closed store.
var errClosed = errors.New("the event store is closed")

// cachedOrigins is how many origins the writer remembers, far more than are in use at a time.
const cachedOrigins = 50_000

// writer owns the one connection that writes, with what it knows of the file while no one else writes.
type writer struct {
	turn   chan struct{} // holds one token; who has it may write
	closed bool
	conn   *sql.Conn

	findTenant, addTenant, count *sql.Stmt
	findName, isNamed            *sql.Stmt
	findHead, findBindings       *sql.Stmt
	addBlock, dropRun, addRun    *sql.Stmt
	dropSession, dropSequences   *sql.Stmt
	clean                        *sql.Stmt

	names, segments, heads, bindings, dirty, words, sessions, sequences *bulk
	prepared                                                            []*sql.Stmt // all of the above

	tenants                          map[string]int64
	created                          map[nameKey]int64 // in the transaction under way
	origins                          *lru[nameKey, *origin]
	dictionaries                     map[dictionaryKey]*dictionary
	lastName, lastBlock, lastSegment int64

	runs finished // that wait to be written
}

// nameKey is a name inside a tenant.
type nameKey struct {
	tenant int64
	name   string
}

func newWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{turn: make(chan struct{}, 1), conn: conn, created: map[nameKey]int64{}, origins: newLRU[nameKey, *origin](cachedOrigins)}
	w.turn <- struct{}{}
	if err = w.prepare(ctx); err == nil {
		err = w.forget(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *writer) prepare(ctx context.Context) error {
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&w.findTenant, "SELECT id FROM tenants WHERE name = ?"},
		{&w.addTenant, "INSERT INTO tenants (name) VALUES (?) RETURNING id"},
		{&w.count, `UPDATE tenants SET events = events + ?, tool_call_events = tool_call_events + ?, sessions = sessions + ?,
			tool_calls = tool_calls + ?, llm_calls = llm_calls + ? WHERE id = ?`},
		{&w.findName, "SELECT id FROM names WHERE hash = ? AND tenant = ? AND name = ?"},
		{&w.isNamed, "SELECT EXISTS (SELECT 1 FROM names WHERE id = ?)"},
		{&w.findHead, "SELECT segment FROM heads WHERE origin = ?"},
		{&w.findBindings, "SELECT n.name, n.id FROM bindings b JOIN names n ON n.id = b.session WHERE b.origin = ?"},
		{&w.addBlock, "INSERT INTO blocks (id, received, events, head, payload) VALUES (?, ?, ?, ?, ?)"},
		{&w.dropRun, "DELETE FROM runs WHERE tenant = ? AND id = ?"},
		{&w.addRun, `INSERT INTO runs (tenant, id, flow, version, status, caller, start, duration, steps, steps_done,
			error_code, llm_calls_avoided, tokens_avoided, cost_avoided_usd, latency_avoided, result)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&w.dropSession, "DELETE FROM sessions WHERE session = ? RETURNING tool_calls, llm_calls"},
		{&w.dropSequences, "DELETE FROM sequences WHERE tenant = ? AND session = ?"},
		{&w.clean, "DELETE FROM dirty WHERE session = ? AND touched <= ?"},
	} {
		var err error
		if *p.stmt, err = w.conn.PrepareContext(ctx, p.text); err != nil {
			return fmt.Errorf("prepare %q: %w", p.text, err)
		}
		w.prepared = append(w.prepared, *p.stmt)
	}
	for _, p := range []struct {
		bulk    **bulk
		insert  string
		columns int
		tail    string
	}{
		{&w.names, "INSERT INTO names (id, tenant, hash, name)", 4, ""},
		{&w.segments, "INSERT INTO segments (id, origin, prev, block, events)", 5, ""},
		{&w.heads, "REPLACE INTO heads (origin, segment)", 2, ""},
		{&w.bindings, "INSERT INTO bindings (origin, session)", 2, ""},
		{&w.dirty, "INSERT INTO dirty (session, tenant, newest, touched)", 4,
			"ON CONFLICT (session) DO UPDATE SET newest = max(newest, excluded.newest), touched = excluded.touched"},
		{&w.words, "INSERT INTO words (tenant, kind, id, word)", 4, ""},
		{&w.sessions, "INSERT INTO sessions (session, tenant, start, tool_calls, llm_calls, tools, agents, summary)", 8, ""},
		{&w.sequences, "INSERT INTO sequences (tenant, session, run, start, data)", 5, ""},
	} {
		var err error
		if *p.bulk, err = prepareBulk(ctx, w.conn, p.insert, p.columns, p.tail); err != nil {
			return fmt.Errorf("prepare %q: %w", p.insert, err)
		}
		w.prepared = append(w.prepared, (*p.bulk).stmts[:]...)
	}
	return nil
}

// forget drops what is known of the file, after a transaction that may have been undone, and reads it anew.
func (w *writer) forget(ctx context.Context) error {
	w.tenants = map[string]int64{}
	w.dictionaries = map[dictionaryKey]*dictionary{}
	w.origins.clear()
	for _, b := range []*bulk{w.names, w.segments, w.heads, w.bindings, w.dirty, w.words, w.sessions, w.sequences} {
		b.reset()
	}
	clear(w.created)
	// Origins without a name have ids too. A mark in dirty must stay below later segments, also when the last segments
	// are gone.
	return w.conn.QueryRowContext(ctx, `SELECT
		max((SELECT coalesce(max(id), 0) FROM names), (SELECT coalesce(max(origin), 0) FROM heads)), (SELECT coalesce(max(id), 0) FROM blocks),
		max((SELECT coalesce(max(id), 0) FROM segments), (SELECT coalesce(max(touched), 0) FROM dirty))`).
		Scan(&w.lastName, &w.lastBlock, &w.lastSegment)
}

// wait takes the turn, which done gives back, unless the context ends before or the writer is closed.
func (w *writer) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.turn:
	}
	if w.closed {
		w.done()
		return errClosed
	}
	return nil
}

func (w *writer) done() { w.turn <- struct{}{} }

// transaction waits for its turn and runs fn in a transaction that is on disk when this returns nil. A context that
// ends while waiting leaves nothing written; what has begun is finished, as it is short and half of it is of no use.
func (w *writer) transaction(ctx context.Context, fn func(context.Context) error) error {
	if err := w.wait(ctx); err != nil {
		return err
	}
	defer w.done()
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.within(ctx, fn)
}

// within is transaction for who has the turn.
func (w *writer) within(ctx context.Context, fn func(context.Context) error) (err error) {
	ctx = context.WithoutCancel(ctx)
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err = fn(ctx); err == nil {
		clear(w.created)
		if _, err = w.conn.ExecContext(ctx, "COMMIT"); err == nil {
			return nil
		}
	}
	// SQLite has undone some failed transactions itself; then there is nothing to roll back.
	_, _ = w.conn.ExecContext(ctx, "ROLLBACK")
	return errors.Join(err, w.forget(ctx))
}

func (w *writer) close() error {
	<-w.turn
	defer w.done()
	if w.closed {
		return nil
	}
	w.closed = true
	var errs []error
	for _, stmt := range w.prepared {
		errs = append(errs, stmt.Close())
	}
	_, err := w.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	return errors.Join(append(errs, err, w.conn.Close())...)
}

// tenant gives the id of a tenant, which it creates.
func (w *writer) tenant(ctx context.Context, name string) (int64, error) {
	if id, ok := w.tenants[name]; ok {
		return id, nil
	}
	var id int64
	err := w.findTenant.QueryRowContext(ctx, name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = w.addTenant.QueryRowContext(ctx, name).Scan(&id)
	}
	if err != nil {
		return 0, err
	}
	w.tenants[name] = id
	return id, nil
}

// name gives the id of an origin or a session, which it creates; fresh tells that nothing else is known of it.
func (w *writer) name(ctx context.Context, key nameKey) (id int64, fresh bool, err error) {
	if id, err = w.find(ctx, key); err != nil || id != 0 {
		return id, false, err
	}
	id, err = w.create(ctx, key)
	return id, true, err
}

// find gives the id of a name, 0 when it has none.
func (w *writer) find(ctx context.Context, key nameKey) (id int64, err error) {
	if id, ok := w.created[key]; ok {
		return id, nil
	}
	err = w.findName.QueryRowContext(ctx, hash(key.name), key.tenant, key.name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}

// create gives a name that has no id one.
func (w *writer) create(ctx context.Context, key nameKey) (int64, error) {
	w.lastName++
	w.created[key] = w.lastName
	return w.lastName, w.names.add(ctx, w.lastName, key.tenant, hash(key.name), key.name)
}

// hash is names.hash.
func hash(name string) int64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, name) // never fails
	return int64(int32(h.Sum64()))
}
