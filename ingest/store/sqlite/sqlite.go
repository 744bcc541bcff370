// Package sqlite is the event store in one SQLite file: the engine that needs no installation.
//
// Writing is made cheap by writing at the end of tables only. The events of an Append become one or a few compressed
// blocks; what is said about each origin in them is one segment row that points back to the origin's segment before.
// Sessions are read by following these lists. Derived rows (sessions, sequences) are stored beside them and replaced
// whole.
//
// One connection writes, under a lock, in transactions that are on disk when they end (WAL, synchronous=FULL);
// others read, each call in one snapshot. One process owns a file; who opens it sees to that.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"pave/ingest/store"
)

// Options tune a Store; the zero value is right for most.
type Options struct {
	// Readers is the most reads at one time, 8 when 0; more wait. A read from inside the callback of another takes
	// one more.
	Readers int
	// CheckpointPages is the size of the write-ahead log, in pages of 4 KiB, at which it is moved into the database,
	// 2,000 when 0.
	CheckpointPages int
}

// Store is the event store in one file.
type Store struct {
	path  string
	read  *sql.DB
	write *sql.DB
	w     *writer
}

var _ store.Store = (*Store)(nil)

// Open opens or creates the event store at path and brings its schema up to date. A file of a newer schema is refused.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	if opts.Readers <= 0 {
		opts.Readers = 8
	}
	if opts.CheckpointPages <= 0 {
		opts.CheckpointPages = 2000
	}
	s := &Store{path: path}
	if err := s.open(ctx, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("open event store %s: %w", path, err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, opts Options) error {
	path, err := filepath.Abs(s.path)
	if err != nil {
		return err
	}
	dsn := (&url.URL{Scheme: "file", Path: path}).String() + "?_pragma=busy_timeout(10000)&_pragma=temp_store(memory)"
	s.write, err = sql.Open("sqlite", dsn+"&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=cache_size(-16384)"+
		"&_pragma=journal_size_limit(67108864)&_pragma=wal_autocheckpoint("+strconv.Itoa(opts.CheckpointPages)+")")
	if err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if err := migrate(ctx, s.write); err != nil {
		return err
	}
	if s.w, err = newWriter(ctx, s.write); err != nil {
		return err
	}
	if s.read, err = sql.Open("sqlite", dsn+"&_pragma=query_only(1)&_pragma=cache_size(-8192)"); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(opts.Readers)
	s.read.SetMaxIdleConns(4)
	return s.Ping(ctx)
}

// Ping answers nil when the file can be read.
func (s *Store) Ping(ctx context.Context) error {
	var version int64
	return s.wrap("ping", s.read.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM tenants LIMIT 1)").Scan(&version))
}

// Close waits for the write that is under way, moves the write-ahead log into the database and releases the file.
func (s *Store) Close() error {
	// The writer last: what only reads cannot remove the log.
	var errs []error
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	if s.w != nil {
		errs = append(errs, s.w.close())
	}
	if s.write != nil {
		errs = append(errs, s.write.Close())
	}
	return s.wrap("close", errors.Join(errs...))
}

// wrap adds what was done and where, turns a full disk into store.ErrFull, and a disk that fails into
// store.ErrUnavailable: nothing was kept, and trying again later is right.
func (s *Store) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			return fmt.Errorf("%w: %s %s: %w", store.ErrFull, doing, s.path, err)
		case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
			return fmt.Errorf("%w: %s %s: %w", store.ErrUnavailable, doing, s.path, err)
		}
	}
	return fmt.Errorf("event store: %s %s: %w", doing, s.path, err)
}

// snapshot runs fn in one read transaction: what it reads is of one moment, the latest.
func (s *Store) snapshot(ctx context.Context, doing string, fn func(*sql.Tx) error) error {
	tx, err := s.read.BeginTx(ctx, nil)
	if err != nil {
		return s.wrap(doing, err)
	}
	err = fn(tx)
	return s.wrap(doing, errors.Join(err, tx.Rollback()))
}
