// Package store is the state store: small, transactional, compare-and-swap, in one SQLite file. It keeps tools,
// flow versions, proposals, reviews, the audit chain, keys, settings, live and recent runs, idempotency keys and
// mining passes as typed rows whose larger parts are JSON bodies. It knows rows and transactions only; the rules
// are those of package governance.
//
// There is one writer. Update runs in an immediate transaction that is durable (WAL, synchronous=FULL) when it
// returns nil; View reads one consistent snapshot beside it. All methods are safe for concurrent use.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors of the store, tested with errors.Is.
var (
	// ErrNotFound: no such row.
	ErrNotFound = errors.New("not found")
	// ErrExists: a row with this key is there already.
	ErrExists = errors.New("already exists")
	// ErrStale: the row has another revision than the caller read.
	ErrStale = errors.New("stale revision")
	// ErrCursor: the page cursor is not one of ours.
	ErrCursor = errors.New("bad cursor")
	// ErrFull: the disk has no room.
	ErrFull = errors.New("state store full")
	// ErrChain: the audit log is not as it was written.
	ErrChain = errors.New("audit chain broken")
	// ErrNewer: a newer pave wrote the file.
	ErrNewer = errors.New("state store has a newer schema")
)

//go:embed migrations/*.sql
var migrations embed.FS

// readers is the number of connections that read beside the writer.
const readers = 4

// DB is the open state store.
type DB struct {
	write *pool
	read  *pool
	group *group // of what writes
}

// Open opens or creates the file at path and brings its schema up to date. A file of a newer schema is refused
// with ErrNewer and left as it is.
func Open(ctx context.Context, path string) (*DB, error) {
	write, err := openPool(dsn(path, "_txlock=immediate"), 1)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, write.DB, path); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	read, err := openPool(dsn(path, "_pragma=query_only(1)"), readers)
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	return &DB{write: write, read: read, group: newGroup()}, nil
}

// Settle moves the write-ahead log into the file and cuts it, so that neither holds what was deleted or replaced: freed
// pages are overwritten. Readers of older states may keep it from that; the log is then moved later.
func (db *DB) Settle(ctx context.Context) error {
	if _, err := db.write.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return fmt.Errorf("state store: %w", classify(err))
	}
	return nil
}

func dsn(path, extra string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}
	u.RawQuery = "_pragma=busy_timeout(10000)&_pragma=secure_delete(1)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&" + extra
	return u.String()
}

func migrate(ctx context.Context, db *sql.DB, path string) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("state store migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, sub, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("state store %s: %w", path, classify(err))
	}
	current, target, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("state store %s: %w", path, classify(err))
	}
	if current > target {
		return fmt.Errorf("%w: %s has schema %d, this pave knows %d; use the newer pave", ErrNewer, path, current, target)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate state store %s: %w", path, classify(err))
	}
	return nil
}

// Close closes the store. Transactions must have ended.
func (db *DB) Close() error {
	return errors.Join(db.read.Close(), db.write.Close())
}

// Ping answers nil when reads work.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.read.PingContext(ctx); err != nil {
		return fmt.Errorf("state store: %w", err)
	}
	return nil
}

// Reader reads inside one transaction. It is valid until the function that got it returns, for one goroutine.
type Reader struct {
	ctx context.Context
	in  *transaction
}

// View calls fn with one consistent snapshot.
func (db *DB) View(ctx context.Context, fn func(*Reader) error) error {
	tx, err := db.read.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("state store read: %w", classify(err))
	}
	r := &Reader{ctx: ctx, in: &transaction{tx: tx, from: db.read}}
	defer db.read.prepare(ctx, &r.in.missed)
	defer func() { _ = tx.Rollback() }() // nothing was written; the error would say only that ctx ended
	return fn(r)
}

// classify turns the engine's errors that callers act on into the errors of the contract.
func classify(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	var se *sqlite.Error
	if errors.As(err, &se) {
		switch se.Code() {
		case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE:
			return fmt.Errorf("%w: %w", ErrExists, err)
		case sqlite3.SQLITE_FULL:
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	return err
}

// exec makes a change and returns the number of rows that it changed.
func (tx *Tx) exec(query string, args ...any) (int64, error) {
	if err := tx.begin(); err != nil {
		return 0, err
	}
	return tx.run(query, args...)
}

func (tx *Tx) run(query string, args ...any) (int64, error) {
	var res sql.Result
	var err error
	if s := tx.prepared(query); s != nil {
		res, err = s.ExecContext(tx.ctx, args...)
	} else {
		res, err = tx.in.tx.ExecContext(tx.ctx, query, args...)
	}
	if err != nil {
		return 0, fmt.Errorf("state store: %w", classify(err))
	}
	return res.RowsAffected()
}

// swap runs an UPDATE guarded by a revision: no row changed means that the caller's revision is stale.
func (tx *Tx) swap(query string, args ...any) error {
	n, err := tx.exec(query, args...)
	if err == nil && n == 0 {
		return ErrStale
	}
	return err
}

// row scans the single row of a query; ErrNotFound when there is none.
func (r *Reader) row(query string, args []any, dest ...any) error {
	var found *sql.Row
	if s := r.prepared(query); s != nil {
		found = s.QueryRowContext(r.ctx, args...)
	} else {
		found = r.in.tx.QueryRowContext(r.ctx, query, args...)
	}
	if err := found.Scan(dest...); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNotFound
		}
		return fmt.Errorf("state store: %w", classify(err))
	}
	return nil
}

// collect scans every row of a query with scan.
func collect[T any](r *Reader, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	var rows *sql.Rows
	var err error
	if s := r.prepared(query); s != nil {
		rows, err = s.QueryContext(r.ctx, args...)
	} else {
		rows, err = r.in.tx.QueryContext(r.ctx, query, args...)
	}
	if err != nil {
		return nil, fmt.Errorf("state store: %w", classify(err))
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("state store: %w", err)
		}
		out = append(out, item)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("state store: %w", classify(err))
	}
	return out, nil
}

// each calls fn with every row of a query, one at a time.
func each[T any](r *Reader, scan func(scanner) (T, error), fn func(T) error, query string, args ...any) error {
	rows, err := r.in.tx.QueryContext(r.ctx, query, args...)
	if err != nil {
		return fmt.Errorf("state store: %w", classify(err))
	}
	defer rows.Close()
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return fmt.Errorf("state store: %w", err)
		}
		if err := fn(item); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("state store: %w", classify(err))
	}
	return nil
}

// scanner is a row or the current one of rows.
type scanner interface{ Scan(dest ...any) error }

// Times are kept as microseconds since the epoch, 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
