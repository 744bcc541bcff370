package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

// maxGroup bounds how many updates share a transaction, so that the first of them does not wait for long.
const maxGroup = 64

// group lets updates that meet share one transaction: most of what an update costs is its commit, which has to reach the
// disk. Each is undone alone when it fails.
type group struct {
	turn chan struct{} // holds one token; who puts it may write

	mu      sync.Mutex
	waiting []*part
}

// part is one caller's part of a transaction.
type part struct {
	ctx      context.Context
	fn       func(*Tx) error
	done     chan struct{} // closed when it is on disk or undone
	err      error
	panicked string
}

func newGroup() *group { return &group{turn: make(chan struct{}, 1)} }

func (g *group) add(u *part) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, u)
}

// leave takes an update out that nobody has begun; false when somebody has.
func (g *group) leave(u *part) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, u)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

// take takes those that waited longest.
func (g *group) take() []*part {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), maxGroup)
	batch := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	return batch
}

// Update calls fn in a writing transaction, of which there is one at a time, and answers when it is on disk. When fn
// returns an error, or when this does, nothing of it is kept. Updates that meet share a transaction, so fn may run on the
// goroutine of another caller. An update whose context ends before it has begun does not happen; after that the context
// ends it at its next change.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	u := &part{ctx: ctx, fn: fn, done: make(chan struct{})}
	db.group.add(u)
	for gone := ctx.Done(); ; {
		select {
		case <-u.done:
			if u.panicked != "" {
				panic(u.panicked)
			}
			return u.err
		case db.group.turn <- struct{}{}:
			db.writeTogether()
		case <-gone:
			if db.group.leave(u) {
				return fmt.Errorf("state store write: %w", ctx.Err())
			}
			gone = nil
		}
	}
}

// writeTogether runs the updates that wait, and gives the turn back.
func (db *DB) writeTogether() {
	defer func() { <-db.group.turn }()
	batch := db.group.take()
	if len(batch) == 0 {
		return
	}
	err := errors.New("state store write: the transaction was not finished") // when a function ends its goroutine
	defer func() {
		for _, u := range batch {
			if u.err == nil {
				u.err = err
			}
			close(u.done)
		}
	}()
	err = db.transact(batch)
}

// transact runs updates in one transaction. An error means that none of them is kept; each has its own beside.
func (db *DB) transact(batch []*part) error {
	ctx := context.Background()
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("state store write: %w", classify(err))
	}
	t := &transaction{tx: tx, from: db.write}
	defer t.from.prepare(ctx, &t.missed)
	defer func() { _ = tx.Rollback() }() // a no-op after Commit
	failed := 0
	for _, u := range batch {
		own := &Tx{Reader: Reader{ctx: context.WithoutCancel(u.ctx), in: t}, caller: u.ctx, shared: len(batch) > 1}
		u.run(own)
		if u.err != nil {
			failed++
		}
		if err := own.end(u.err == nil); err != nil { // the engine has undone everything
			return errors.Join(err, u.err)
		}
	}
	if failed == len(batch) {
		return nil
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("state store commit: %w", classify(err))
	}
	return nil
}

// run calls the function. A panic is its caller's.
func (u *part) run(tx *Tx) {
	defer func() {
		if p := recover(); p != nil {
			u.panicked = fmt.Sprintf("%v\n\n%s", p, debug.Stack())
			u.err = errors.New("state store write: panic")
		}
	}()
	if u.err = u.ctx.Err(); u.err == nil {
		u.err = u.fn(tx)
	}
}

// transaction is what goes on, on one connection.
type transaction struct {
	tx    *sql.Tx
	from  *pool
	stmts map[string]*sql.Stmt // of this transaction, by their text
	// missed are the queries that were not prepared; they are when the transaction has ended.
	missed []string
}

// Tx reads and writes inside one transaction; reads see its own writes.
type Tx struct {
	Reader
	caller context.Context
	shared bool // with other updates
	marked bool // where this one's changes begin
}

// begin comes before each change: an update that shares its transaction marks where its changes begin.
func (tx *Tx) begin() error {
	if err := tx.caller.Err(); err != nil {
		return fmt.Errorf("state store write: %w", err)
	}
	if !tx.shared || tx.marked {
		return nil
	}
	tx.marked = true
	return tx.mark("SAVEPOINT part")
}

// end keeps the changes, or undoes them.
func (tx *Tx) end(keep bool) error {
	if !tx.marked {
		return nil
	}
	if !keep {
		if err := tx.mark("ROLLBACK TO part"); err != nil {
			return err
		}
	}
	return tx.mark("RELEASE part")
}

func (tx *Tx) mark(how string) error {
	_, err := tx.run(how)
	return err
}
