package clickhouse

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"pave/ingest/store"
)

// entryKind tells how an entry's body is encoded.
type entryKind int

const (
	eventsEntry entryKind = 1
	runEntry    entryKind = 2
)

// entry is an acknowledged piece of work on its way to the server.
type entry struct {
	id      int64
	kind    entryKind
	tenant  string
	arrival int64 // of its first row
	rows    int
	body    []byte
}

// shipment is a range of entries that is sent as one batch and, once that was tried, always as that batch.
type shipment struct {
	first, last int64
	entries     []entry
}

// SpoolState says how far the server is behind.
type SpoolState struct {
	Rows, Bytes int64     // acknowledged, not yet in the engine; Bytes as stored
	Oldest      time.Time // when the oldest of them was acknowledged, zero when there is none
	Reason      error     // why the last attempt to ship failed, nil when it did not
}

// spool is the queue on disk between Append and the server: what put returned nil for survives a power loss. Safe for
// concurrent use.
type spool struct {
	db     *sql.DB
	id     uint64 // of this spool file, random
	cap    int64
	insert *sql.Stmt
	enc    *zstd.Encoder
	dec    *zstd.Decoder

	put sync.Mutex // orders entries: ids and arrivals grow together

	mu          sync.Mutex
	rows, bytes int64
	peak        int64 // bytes since the file was last shrunk
	last        int64 // newest entry id
	lastArrival int64
	oldest      time.Time
}

// spoolSchema is the version that this code writes; a file of a newer one is refused.
const spoolSchema = 1

const spoolDDL = `
CREATE TABLE IF NOT EXISTS entries (
	id      INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: tokens are made of ids
	kind    INTEGER NOT NULL,
	tenant  BLOB NOT NULL,
	arrival INTEGER NOT NULL,
	rows    INTEGER NOT NULL,
	size    INTEGER NOT NULL,                  -- of the body before compression
	body    BLOB NOT NULL                      -- zstd
);
-- The batch that was started; it is sent again unchanged until the server answers.
CREATE TABLE IF NOT EXISTS shipment (one INTEGER PRIMARY KEY CHECK (one = 1), first INTEGER NOT NULL, last INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS state (one INTEGER PRIMARY KEY CHECK (one = 1), id BLOB NOT NULL, arrival INTEGER NOT NULL);
-- Per tenant: sessions touched before this instant (server time, unix microseconds) are assembled.
CREATE TABLE IF NOT EXISTS marks (tenant BLOB PRIMARY KEY, noticed INTEGER NOT NULL);
PRAGMA user_version = 1;
`

// maxBody bounds what one entry may inflate to; put makes none that large.
const maxBody = 1 << 30

func openSpool(ctx context.Context, path string, capacity int64) (*spool, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(2000)", "page_size(16384)", "auto_vacuum(incremental)", "journal_mode(wal)", "synchronous(full)",
	}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: abs, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	s := &spool{db: db, cap: capacity}
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open spool %s: %w", path, err), db.Close())
	}
	return s, nil
}

func (s *spool) load(ctx context.Context) error {
	var version int
	if err := s.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > spoolSchema {
		return fmt.Errorf("it was written by a newer pave (schema %d, this one knows %d); use that version", version, spoolSchema)
	}
	if _, err := s.db.ExecContext(ctx, spoolDDL); err != nil {
		return err
	}
	fresh := make([]byte, 8)
	if _, err := rand.Read(fresh); err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, "INSERT OR IGNORE INTO state (one, id, arrival) VALUES (1, ?, 0)", fresh); err != nil {
		return err
	}
	var id []byte
	if err := s.db.QueryRowContext(ctx, "SELECT id, arrival FROM state").Scan(&id, &s.lastArrival); err != nil {
		return err
	}
	s.id = binary.BigEndian.Uint64(id)
	var oldest int64
	err := s.db.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(rows), 0), coalesce(sum(length(body)), 0), coalesce(max(id), 0), coalesce(min(arrival), 0) FROM entries").
		Scan(new(int64), &s.rows, &s.bytes, &s.last, &oldest)
	if err != nil {
		return err
	}
	if s.rows > 0 {
		s.oldest = time.Unix(0, oldest)
	}
	if s.insert, err = s.db.PrepareContext(ctx, "INSERT INTO entries (kind, tenant, arrival, rows, size, body) VALUES (?, ?, ?, ?, ?, ?)"); err != nil {
		return err
	}
	if s.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2)); err != nil {
		return err
	}
	s.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBody))
	return err
}

// chunk is a part of a put: a body that is not compressed yet and how many rows it holds.
type chunk struct {
	body []byte
	rows int
}

// add makes the chunks durable as entries of one transaction. Their rows get consecutive arrival numbers.
func (s *spool) add(ctx context.Context, kind entryKind, tenant string, chunks []chunk) error {
	bodies, size := make([][]byte, len(chunks)), int64(0)
	rows := 0
	for i, c := range chunks {
		bodies[i] = s.enc.EncodeAll(c.body, nil)
		size += int64(len(bodies[i]))
		rows += c.rows
	}
	s.put.Lock()
	defer s.put.Unlock()
	s.mu.Lock()
	used, arrival := s.bytes, max(s.lastArrival+1, time.Now().UnixNano())
	s.mu.Unlock()
	if used+size > s.cap {
		return fmt.Errorf("%w: the spool holds %d of %d bytes; ClickHouse must take some first", store.ErrFull, used, s.cap)
	}
	last, err := s.write(ctx, kind, tenant, chunks, bodies, arrival, arrival+int64(rows)-1)
	if err != nil {
		return spoolError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == 0 {
		s.oldest = time.Now()
	}
	s.rows += int64(rows)
	s.bytes += size
	s.peak = max(s.peak, s.bytes)
	s.last, s.lastArrival = last, arrival+int64(rows)-1
	return nil
}

func (s *spool) write(ctx context.Context, kind entryKind, tenant string, chunks []chunk, bodies [][]byte, arrival, lastArrival int64) (int64, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	insert, last := tx.StmtContext(ctx, s.insert), int64(0)
	for i, c := range chunks {
		res, err := insert.ExecContext(ctx, int(kind), []byte(tenant), arrival, c.rows, len(c.body), bodies[i])
		if err != nil {
			return 0, err
		}
		if last, err = res.LastInsertId(); err != nil {
			return 0, err
		}
		arrival += int64(c.rows)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE state SET arrival = ?", lastArrival); err != nil {
		return 0, err
	}
	return last, tx.Commit()
}

// spoolError names a full disk, and one that fails, as what it is to callers.
func spoolError(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			return fmt.Errorf("%w: no room on the disk of the spool: %w", store.ErrFull, err)
		case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
			return fmt.Errorf("%w: write spool: %w", store.ErrUnavailable, err)
		}
	}
	return fmt.Errorf("write spool: %w", err)
}

// next returns the shipment to send: the started one, else a new one of at most the given rows and inflated bytes (but
// at least one entry), whose extent is on disk before next returns. Nil when the spool is empty.
func (s *spool) next(ctx context.Context, maxRows int, maxBytes int64) (*shipment, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	ship := &shipment{}
	err = tx.QueryRowContext(ctx, "SELECT first, last FROM shipment").Scan(&ship.first, &ship.last)
	if errors.Is(err, sql.ErrNoRows) {
		if err := extent(ctx, tx, ship, maxRows, maxBytes); err != nil || ship.last == 0 {
			return nil, err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO shipment (one, first, last) VALUES (1, ?, ?)", ship.first, ship.last)
	}
	if err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, "SELECT id, kind, tenant, arrival, rows, body FROM entries WHERE id BETWEEN ? AND ? ORDER BY id", ship.first, ship.last)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e entry
		var tenant []byte
		if err := rows.Scan(&e.id, &e.kind, &tenant, &e.arrival, &e.rows, &e.body); err != nil {
			return nil, err
		}
		e.tenant = string(tenant)
		if e.body, err = s.dec.DecodeAll(e.body, nil); err != nil {
			return nil, fmt.Errorf("spool entry %d: %w", e.id, err)
		}
		ship.entries = append(ship.entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return ship, tx.Commit()
}

// extent chooses the entries of a new shipment.
func extent(ctx context.Context, tx *sql.Tx, ship *shipment, maxRows int, maxBytes int64) error {
	rows, err := tx.QueryContext(ctx, "SELECT id, rows, size FROM entries ORDER BY id LIMIT ?", maxRows)
	if err != nil {
		return err
	}
	defer rows.Close()
	total, size := 0, int64(0)
	for rows.Next() {
		var id, bytes int64
		var n int
		if err := rows.Scan(&id, &n, &bytes); err != nil {
			return err
		}
		total, size = total+n, size+bytes
		if ship.last != 0 && (total > maxRows || size > maxBytes) {
			break
		}
		if ship.last == 0 {
			ship.first = id
		}
		ship.last = id
	}
	return rows.Err()
}

// shrinkAbove is the size from which on an emptied spool gives its pages back to the file system.
const shrinkAbove = 64 << 20

// done removes a shipment that the server has.
func (s *spool) done(ctx context.Context, ship *shipment) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	var rows, size, left int64
	err = tx.QueryRowContext(ctx, "SELECT coalesce(sum(rows), 0), coalesce(sum(length(body)), 0) FROM entries WHERE id BETWEEN ? AND ?", ship.first, ship.last).Scan(&rows, &size)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM entries WHERE id BETWEEN ? AND ?", ship.first, ship.last); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM shipment"); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(min(arrival), 0) FROM entries").Scan(&left); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.mu.Lock()
	s.rows, s.bytes, s.oldest = s.rows-rows, s.bytes-size, time.Time{}
	if s.rows > 0 {
		s.oldest = time.Unix(0, left)
	}
	shrink := s.rows == 0 && s.peak > shrinkAbove
	if shrink {
		s.peak = 0
	}
	s.mu.Unlock()
	if shrink {
		_, err = s.db.ExecContext(ctx, "PRAGMA incremental_vacuum")
	}
	return err
}

// state is a copy of the counters, without the reason.
func (s *spool) state() SpoolState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SpoolState{Rows: s.rows, Bytes: s.bytes, Oldest: s.oldest}
}

// newest is the id of the entry added last, 0 when there was none.
func (s *spool) newest() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// mark reads the tenant's low-water mark, 0 when there is none.
func (s *spool) mark(ctx context.Context, tenant string) (int64, error) {
	var noticed int64
	err := s.db.QueryRowContext(ctx, "SELECT noticed FROM marks WHERE tenant = ?", []byte(tenant)).Scan(&noticed)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return noticed, err
}

func (s *spool) setMark(ctx context.Context, tenant string, noticed int64) error {
	_, err := s.db.ExecContext(ctx, "INSERT INTO marks (tenant, noticed) VALUES (?, ?) ON CONFLICT (tenant) DO UPDATE SET noticed = excluded.noticed", []byte(tenant), noticed)
	return err
}

func (s *spool) close() error {
	s.dec.Close()
	return errors.Join(s.insert.Close(), s.db.Close())
}
