// Package clickhouse is the event store on ClickHouse, 24.8 or newer, over its native protocol or HTTP.
//
// Append commits to a spool on the local disk and returns; a shipper sends the spool in large batches, each with a
// deterministic deduplication token, and removes a batch after the server's answer. So acknowledged events survive
// the loss of this process and of the server, and reach the server once. Reads ask the server; those that must see
// acknowledged events let the shipper send them first. While the server is away writes go on until the spool is full
// and reads answer store.ErrUnavailable.
//
// On the server, events is the log in order of arrival; origins, bindings and touches are small tables beside it from
// which the events of a session and the sessions to assemble are found without scanning the log. Sessions and runs
// are versioned rows, read with FINAL.
package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/singleflight"

	"pave/ingest/store"
)

// Config says where the server and the spool are.
type Config struct {
	// DSN is clickhouse://user:password@host:9000/database (native) or http(s)://...:8123/database, with the
	// driver's options as query parameters. A database that does not exist is created.
	DSN string
	// SpoolPath is the spool's file on a local disk; it belongs to one process at a time.
	SpoolPath string
	Limits    Limits
	// Transport wraps or replaces the HTTP transport of http DSNs; nil for none.
	Transport func(http.RoundTripper) http.RoundTripper
	// Logger gets the shipper's changes of state; nil for none.
	Logger *slog.Logger
}

// Limits bound the spool and pace the shipper. Zero fields take the default.
type Limits struct {
	SpoolBytes  int64         // compressed bytes in the spool before Append answers store.ErrFull; 4 GiB
	BatchRows   int           // rows of a shipment; 10,000
	BatchBytes  int64         // bytes of a shipment before compression; 8 MiB
	Linger      time.Duration // how long rows wait for a shipment to fill; 1 s
	RetryFirst  time.Duration // first pause after a failed shipment; 100 ms
	RetryMax    time.Duration // longest pause; 5 s
	SendTimeout time.Duration // one attempt; 60 s
	FlushWait   time.Duration // how long a read waits for the shipper without progress; 10 s
	CloseWait   time.Duration // how long Close lets the shipper send what is left; 5 s
	// DirtySessions is how many sessions to assemble are taken into memory at once, per tenant; 200,000.
	DirtySessions int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		SpoolBytes:  or(l.SpoolBytes, 4<<30),
		BatchRows:   or(l.BatchRows, 10_000),
		BatchBytes:  or(l.BatchBytes, 8<<20),
		Linger:      or(l.Linger, time.Second),
		RetryFirst:  or(l.RetryFirst, 100*time.Millisecond),
		RetryMax:    or(l.RetryMax, 5*time.Second),
		SendTimeout: or(l.SendTimeout, time.Minute),
		FlushWait:   or(l.FlushWait, 10*time.Second),
		CloseWait:   or(l.CloseWait, 5*time.Second),

		DirtySessions: or(l.DirtySessions, 200_000),
	}
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Store is the event store on ClickHouse. All methods are safe for concurrent use.
type Store struct {
	opt    *clickhouse.Options
	conn   driver.Conn
	limits Limits
	spool  *spool
	ship   *shipper
	cancel context.CancelFunc // ends the shipper's attempts

	migrated atomic.Bool
	migrate  singleflight.Group

	closeOnce sync.Once
	closed    atomic.Bool
	closeErr  error

	version atomic.Int64 // of the newest row of a versioned table

	mu      sync.Mutex
	tenants map[string]*tenantState
}

// tenantState is what this process remembers of one tenant.
type tenantState struct {
	dirty dirtySet
	tools dictionary
}

var _ store.Store = (*Store)(nil)

// openWait bounds how long Open waits for the server; without an answer it goes on alone.
const openWait = 5 * time.Second

// Open opens the spool and starts to ship it. A server that does not answer is no error: its tables are created when
// it does. A database of a newer pave is.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	opt, err := clickhouse.ParseDSN(cfg.DSN)
	if err != nil {
		return nil, fmt.Errorf("ClickHouse DSN: %w", err)
	}
	if cfg.Transport != nil {
		opt.TransportFunc = func(t *http.Transport) (http.RoundTripper, error) { return cfg.Transport(t), nil }
	}
	opt.DialTimeout = or(opt.DialTimeout, openWait)
	opt.ReadTimeout = or(opt.ReadTimeout, time.Minute)
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	conn, err := clickhouse.Open(opt)
	if err != nil {
		return nil, fmt.Errorf("ClickHouse DSN: %w", err)
	}
	limits := cfg.Limits.withDefaults()
	sp, err := openSpool(ctx, cfg.SpoolPath, limits.SpoolBytes)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s := &Store{opt: opt, conn: conn, limits: limits, spool: sp, tenants: map[string]*tenantState{}}
	s.ship = newShipper(sp, limits, log, s.deliver)
	first, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	if err := s.ready(first); err != nil {
		if ctx.Err() != nil || (first.Err() == nil && !errors.Is(err, store.ErrUnavailable)) {
			return nil, errors.Join(err, sp.close(), conn.Close())
		}
		log.Warn("ClickHouse does not answer; events wait in the spool", "error", err)
	}
	shipCtx, cancelShip := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancelShip
	go s.ship.run(shipCtx)
	return s, nil
}

// tenant is the state of a tenant, made on first use.
func (s *Store) tenant(name string) *tenantState {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[name]
	if t == nil {
		t = &tenantState{}
		s.tenants[name] = t
	}
	return t
}

// nextVersion is larger than every version before it: clock time, for other processes write versions too.
func (s *Store) nextVersion() int64 {
	for {
		last := s.version.Load()
		next := max(last+1, time.Now().UnixNano())
		if s.version.CompareAndSwap(last, next) {
			return next
		}
	}
}

// Spool says how far the server is behind and why.
func (s *Store) Spool() SpoolState {
	st := s.spool.state()
	st.Reason = s.ship.status()
	return st
}

// Ping answers nil when the server answers and its tables are there.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.failed(ctx, "ping", s.conn.Ping(ctx))
}

// Close sends what is left in the spool, as long as that succeeds and takes no longer than the CloseWait limit, and
// closes the spool and the connections.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.closed.Store(true)
		s.ship.close(s.cancel)
		s.closeErr = errors.Join(s.spool.close(), s.conn.Close())
	})
	return s.closeErr
}

// current prepares a read that must see every acknowledged event.
func (s *Store) current(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	if err := s.ship.flush(ctx); err != nil {
		return err
	}
	return s.ready(ctx)
}

// query runs a SELECT with server parameters and calls fn for each row of the result.
func (s *Store) query(ctx context.Context, what, sql string, args []any, fn func(driver.Rows) error) error {
	// Leaving early cancels the query; closing alone would read the rest of the result.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows, err := s.conn.Query(ctx, sql, args...)
	if err != nil {
		return s.failed(ctx, what, err)
	}
	defer func() {
		cancel()
		rows.Close() //nolint:errcheck // its errors are those of the cancelled query
	}()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return s.failed(ctx, what, rows.Err())
}

// queryRow runs a SELECT that answers one row.
func (s *Store) queryRow(ctx context.Context, what, sql string, args []any, dest ...any) error {
	return s.failed(ctx, what, s.conn.QueryRow(ctx, sql, args...).Scan(dest...))
}

// arg is a server parameter.
func arg(name string, value any) driver.NamedValue { return clickhouse.Named(name, value) }

// passing are exceptions by which a server says that it cannot answer now, rather than that the query is wrong.
var passing = map[int32]bool{
	81:  true, // UNKNOWN_DATABASE
	159: true, // TIMEOUT_EXCEEDED
	164: true, // READONLY
	192: true, // UNKNOWN_USER
	202: true, // TOO_MANY_SIMULTANEOUS_QUERIES
	209: true, // SOCKET_TIMEOUT
	210: true, // NETWORK_ERROR
	241: true, // MEMORY_LIMIT_EXCEEDED
	242: true, // TABLE_IS_READ_ONLY
	243: true, // NOT_ENOUGH_SPACE
	252: true, // TOO_MANY_PARTS
	279: true, // ALL_CONNECTION_TRIES_FAILED
	394: true, // QUERY_WAS_CANCELLED
	497: true, // ACCESS_DENIED
	516: true, // AUTHENTICATION_FAILED
	999: true, // KEEPER_EXCEPTION
}

// failed turns an error of the driver into one of the contract: the caller's own end, a query that the server refuses
// (a fault of this package), or ErrUnavailable with the reason.
func (s *Store) failed(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if s.closed.Load() {
		return errClosed
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s: %w", what, cause)
	}
	var refused *clickhouse.Exception
	if errors.As(err, &refused) && !passing[refused.Code] {
		return fmt.Errorf("ClickHouse refused to %s: %w", what, err)
	}
	return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, what, err)
}
