package clickhouse_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
	"pave/ingest/store/clickhouse"
	"pave/ingest/store/storetest"
)

const tenant = ingest.DefaultTenant

// faults stands between the driver and the server.
type faults struct {
	next http.RoundTripper

	mu      sync.Mutex
	away    bool                  // no request reaches the server
	hang    bool                  // requests wait for their context's end
	lose    func(sql string) bool // the request is served, its answer lost
	inserts []string              // deduplication tokens of inserts into events, in order
}

var errAway = errors.New("connection refused by the test")

func (f *faults) set(change func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faults) tokens() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.inserts...)
}

func (f *faults) RoundTrip(req *http.Request) (*http.Response, error) {
	q := req.URL.Query()
	f.mu.Lock()
	away, hang := f.away, f.hang
	lose := f.lose != nil && f.lose(q.Get("query"))
	if !away && strings.HasPrefix(q.Get("query"), "INSERT INTO events ") {
		f.inserts = append(f.inserts, q.Get("insert_deduplication_token"))
	}
	f.mu.Unlock()
	if away || hang {
		if req.Body != nil {
			defer req.Body.Close()
		}
		if hang {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		return nil, errAway
	}
	res, err := f.next.RoundTrip(req)
	if err == nil && lose {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return nil, errAway
	}
	return res, err
}

// faulty is a configuration whose connections go through faults. Only HTTP can be wrapped.
func faulty(t testing.TB) (clickhouse.Config, *faults) {
	t.Helper()
	cfg := config(t)
	if !strings.HasPrefix(cfg.DSN, "http") {
		t.Skip("faults are injected into HTTP only; this DSN is native")
	}
	f := &faults{}
	inner := cfg.Transport
	cfg.Transport = func(rt http.RoundTripper) http.RoundTripper {
		if inner != nil {
			rt = inner(rt)
		}
		f.next = rt
		return f
	}
	cfg.Limits = clickhouse.Limits{Linger: time.Millisecond, RetryFirst: time.Millisecond, RetryMax: 10 * time.Millisecond}
	return cfg, f
}

// count asks the server itself how many rows a table has, duplicates included.
func count(t testing.TB, cfg clickhouse.Config, table string) uint64 {
	t.Helper()
	var n uint64
	require.NoError(t, direct(t, cfg).QueryRow(t.Context(), "SELECT count() FROM "+table).Scan(&n))
	return n
}

// direct is a connection of the test's own.
func direct(t testing.TB, cfg clickhouse.Config) driver.Conn {
	t.Helper()
	opt, err := driver.ParseDSN(cfg.DSN)
	require.NoError(t, err)
	if cfg.Transport != nil {
		opt.TransportFunc = func(rt *http.Transport) (http.RoundTripper, error) { return cfg.Transport(rt), nil }
	}
	conn, err := driver.Open(opt)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// calls are n events of one origin, numbered from first.
func calls(origin string, first, n int) []ingest.Event {
	var events []ingest.Event
	for i := range n {
		events = append(events, storetest.ToolCall(origin, "", first+i))
	}
	return events
}

func eventsOf(t testing.TB, s store.Store, id string) []ingest.Event {
	t.Helper()
	var got []ingest.Event
	require.NoError(t, s.Events(t.Context(), tenant, []string{id}, func(_ string, events []ingest.Event) error {
		got = events
		return nil
	}))
	return got
}

func TestServerAbsentAtStart(t *testing.T) {
	cfg, f := faulty(t)
	f.away = true
	s := open(t, cfg)
	want := calls("trace:a", 0, 20)
	require.NoError(t, s.Append(t.Context(), tenant, want))

	for name, read := range map[string]func(context.Context) error{
		"ping":      s.Ping,
		"dirty":     func(ctx context.Context) error { _, err := s.Dirty(ctx, tenant, time.Time{}, 10); return err },
		"stats":     func(ctx context.Context) error { _, err := s.Stats(ctx, tenant); return err },
		"tools":     func(ctx context.Context) error { _, err := s.ToolNames(ctx, tenant); return err },
		"sequences": func(ctx context.Context) error { return s.Sequences(ctx, tenant, store.SequenceFilter{}, nil) },
		"events":    func(ctx context.Context) error { return s.Events(ctx, tenant, []string{"trace:a"}, nil) },
		"put": func(ctx context.Context) error {
			return s.PutSessions(ctx, tenant, []store.SessionRow{{ID: "x"}})
		},
	} {
		err := read(t.Context())
		require.ErrorIs(t, err, store.ErrUnavailable, name)
		require.ErrorContains(t, err, errAway.Error(), "the reason is given by %s", name)
	}
	behind := s.Spool()
	require.EqualValues(t, 20, behind.Rows)
	require.Positive(t, behind.Bytes)
	require.False(t, behind.Oldest.IsZero())
	require.ErrorContains(t, behind.Reason, errAway.Error())

	f.set(func(f *faults) { f.away = false })
	require.Equal(t, want, eventsOf(t, s, "trace:a"))
	require.Equal(t, clickhouse.SpoolState{}, s.Spool())
}

func TestServerAwayAndBack(t *testing.T) {
	cfg, f := faulty(t)
	s := open(t, cfg)
	require.NoError(t, s.Append(t.Context(), tenant, calls("trace:a", 0, 10)))
	require.Len(t, eventsOf(t, s, "trace:a"), 10)
	for round := range 3 {
		f.set(func(f *faults) { f.away = true })
		for i := range 5 {
			require.NoError(t, s.Append(t.Context(), tenant, calls("trace:a", 10+50*round+10*i, 10)))
		}
		_, err := s.Dirty(t.Context(), tenant, time.Time{}, 1)
		require.ErrorIs(t, err, store.ErrUnavailable)
		f.set(func(f *faults) { f.away = false })
		// The spool drains by itself.
		require.Eventually(t, func() bool { return s.Spool().Rows == 0 }, 30*time.Second, 5*time.Millisecond)
	}
	require.Equal(t, calls("trace:a", 0, 160), eventsOf(t, s, "trace:a"))
	require.EqualValues(t, 160, count(t, cfg, "events"))
}

// TestLostAnswers loses the answer of the first attempt of every insert: the rows are there, the shipper does not
// know and sends them again.
func TestLostAnswers(t *testing.T) {
	for name, window := range map[string]string{
		"the server drops the second copy":           "",
		"reads do where the server's window is over": "ALTER TABLE %s MODIFY SETTING non_replicated_deduplication_window = 0",
	} {
		t.Run(name, func(t *testing.T) {
			cfg, f := faulty(t)
			s := open(t, cfg)
			require.NoError(t, s.Ping(t.Context()))
			if window != "" {
				for _, table := range []string{"events", "origins", "bindings", "touches", "runs"} {
					require.NoError(t, direct(t, cfg).Exec(t.Context(), strings.ReplaceAll(window, "%s", table)))
				}
			}
			lost := map[string]int{}
			f.set(func(f *faults) {
				f.lose = func(sql string) bool {
					if !strings.HasPrefix(sql, "INSERT") {
						return false
					}
					lost[sql]++
					return lost[sql]%2 == 1
				}
			})
			const rounds = 4
			run := store.Run{ID: "r", Flow: "f", Version: "1", Status: "succeeded", Start: storetest.At(1)}
			for i := range rounds {
				events := append(calls("trace:a", 10*i, 10), storetest.ToolCall("session:s", "s", i))
				require.NoError(t, s.Append(t.Context(), tenant, events))
				require.NoError(t, s.PutRun(t.Context(), tenant, run))
				f.set(func(f *faults) { clear(lost) })
				require.Eventually(t, func() bool { return s.Spool().Rows == 0 }, 30*time.Second, time.Millisecond)
			}
			require.Equal(t, calls("trace:a", 0, 10*rounds), eventsOf(t, s, "trace:a"))
			require.Len(t, eventsOf(t, s, "s"), rounds)
			stats, err := s.Stats(t.Context(), tenant)
			require.NoError(t, err)
			require.EqualValues(t, 11*rounds, stats.Events)
			require.EqualValues(t, 11*rounds, stats.ToolCallRows)
			require.EqualValues(t, 1, stats.Runs)
			list, err := s.Dirty(t.Context(), tenant, time.Time{}, 10)
			require.NoError(t, err)
			require.ElementsMatch(t, []store.DirtySession{{ID: "trace:a", Watermark: 10 * rounds}, {ID: "s", Watermark: rounds}}, list)
			stored := count(t, cfg, "events")
			if window == "" {
				require.EqualValues(t, 11*rounds, stored)
			} else {
				require.Greater(t, stored, uint64(11*rounds), "the test did make copies")
			}
		})
	}
}

// TestRestartWithSpool stops after a shipment was started whose answer was lost; the next process must send exactly
// that shipment again although more was appended since.
func TestRestartWithSpool(t *testing.T) {
	cfg, f := faulty(t)
	cfg.Limits.Linger = time.Hour // only reads and the end make it ship
	first := open(t, cfg)
	require.NoError(t, first.Append(t.Context(), tenant, calls("trace:a", 0, 10)))
	f.set(func(f *faults) {
		f.lose = func(sql string) bool { return strings.HasPrefix(sql, "INSERT INTO events ") }
	})
	_, err := first.Stats(t.Context(), tenant)
	require.ErrorIs(t, err, store.ErrUnavailable)
	f.set(func(f *faults) { f.away = true })
	require.NoError(t, first.Append(t.Context(), tenant, calls("trace:a", 10, 10)))
	require.NoError(t, first.Close())

	second := open(t, cfg) // the server is still away
	require.EqualValues(t, 20, second.Spool().Rows)
	require.NoError(t, second.Append(t.Context(), tenant, calls("trace:a", 20, 10)))
	require.NoError(t, second.Close())

	f.set(func(f *faults) { f.away, f.lose = false, nil })
	third := open(t, cfg)
	require.EqualValues(t, 30, third.Spool().Rows)
	require.NoError(t, third.Append(t.Context(), tenant, calls("trace:a", 30, 10)))
	require.Equal(t, calls("trace:a", 0, 40), eventsOf(t, third, "trace:a"))
	require.EqualValues(t, 40, count(t, cfg, "events"))
	tokens := f.tokens()
	require.GreaterOrEqual(t, len(tokens), 3)
	require.Equal(t, tokens[0], tokens[1], "the started shipment keeps its token")
	require.NotEqual(t, tokens[0], tokens[len(tokens)-1])
}

func TestCloseSendsWhatIsLeft(t *testing.T) {
	cfg, _ := faulty(t)
	cfg.Limits.Linger = time.Hour
	s := open(t, cfg)
	require.NoError(t, s.Append(t.Context(), tenant, calls("trace:a", 0, 10)))
	require.NoError(t, s.Close())
	require.EqualValues(t, 10, count(t, cfg, "events"))
}

func TestSpoolIsBounded(t *testing.T) {
	cfg, f := faulty(t)
	cfg.Limits.SpoolBytes = 20_000
	f.away = true
	s := open(t, cfg)
	stored := 0
	var err error
	for stored < 10_000 {
		if err = s.Append(t.Context(), tenant, calls("trace:a", stored, 50)); err != nil {
			break
		}
		stored += 50
	}
	require.ErrorIs(t, err, store.ErrFull)
	require.Positive(t, stored)
	require.LessOrEqual(t, s.Spool().Bytes, int64(20_000))
	f.set(func(f *faults) { f.away = false })
	require.Len(t, eventsOf(t, s, "trace:a"), stored, "what was refused left nothing")
	require.NoError(t, s.Append(t.Context(), tenant, calls("trace:a", stored, 50)))
	require.Len(t, eventsOf(t, s, "trace:a"), stored+50)
}

func TestHangingServer(t *testing.T) {
	cfg, f := faulty(t)
	cfg.Limits.FlushWait, cfg.Limits.CloseWait = 50*time.Millisecond, 50*time.Millisecond
	s := open(t, cfg)
	f.set(func(f *faults) { f.hang = true })
	require.NoError(t, s.Append(t.Context(), tenant, calls("trace:a", 0, 10)))
	_, err := s.Dirty(t.Context(), tenant, time.Time{}, 10)
	require.ErrorIs(t, err, store.ErrUnavailable)
	impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Sequences(impatient, tenant, store.SequenceFilter{}, nil), context.DeadlineExceeded)
	require.NoError(t, s.Close())
	f.set(func(f *faults) { f.hang = false })
	cfg.Limits = clickhouse.Limits{}
	again := open(t, cfg)
	require.Equal(t, calls("trace:a", 0, 10), eventsOf(t, again, "trace:a"))
}

// TestTwoWriters has two processes' spools feed one database; the assembling one sees both.
func TestTwoWriters(t *testing.T) {
	cfg := config(t)
	a := open(t, cfg)
	cfg.SpoolPath += "2"
	b := open(t, cfg)
	for i := range 5 {
		require.NoError(t, a.Append(t.Context(), tenant, calls("trace:a", 2*i, 1)))
		require.NoError(t, a.Ping(t.Context()))
		require.NoError(t, b.Append(t.Context(), tenant, calls("trace:a", 2*i+1, 1)))
		_, err := b.Stats(t.Context(), tenant)
		require.NoError(t, err)
		list, err := a.Dirty(t.Context(), tenant, time.Time{}, 10)
		require.NoError(t, err)
		require.Equal(t, []store.DirtySession{{ID: "trace:a", Watermark: int64(2*i + 2)}}, list)
		row := store.SessionRow{ID: "trace:a", Watermark: list[0].Watermark, Summary: ingest.SessionSummary{ToolCalls: 2 * i}}
		require.NoError(t, a.PutSessions(t.Context(), tenant, []store.SessionRow{row}))
	}
	require.Len(t, eventsOf(t, a, "trace:a"), 10)
}

func TestMoreDirtySessionsThanMemoryTakes(t *testing.T) {
	cfg := config(t)
	cfg.Limits.DirtySessions = 3
	s := open(t, cfg)
	for i := range 10 {
		require.NoError(t, s.Append(t.Context(), tenant, calls("trace:"+string(rune('a'+i)), i, 1)))
	}
	seen := map[string]bool{}
	for range 20 {
		list, err := s.Dirty(t.Context(), tenant, time.Time{}, 2)
		require.NoError(t, err)
		var rows []store.SessionRow
		for _, d := range list {
			require.False(t, seen[d.ID], d.ID)
			seen[d.ID] = true
			rows = append(rows, store.SessionRow{ID: d.ID, Watermark: d.Watermark, Summary: ingest.SessionSummary{ToolCalls: 1}})
		}
		require.NoError(t, s.PutSessions(t.Context(), tenant, rows))
	}
	require.Len(t, seen, 10)
}

func TestMissingDatabaseIsCreated(t *testing.T) {
	cfg := config(t)
	dsn, err := url.Parse(cfg.DSN)
	require.NoError(t, err)
	name := strings.TrimPrefix(dsn.Path, "/") + "_new"
	dsn.Path = "/" + name
	admin := direct(t, cfg)
	cfg.DSN = dsn.String()
	s := open(t, cfg)
	t.Cleanup(func() { require.NoError(t, admin.Exec(context.Background(), "DROP DATABASE "+name+" SYNC")) })
	require.NoError(t, s.Append(t.Context(), tenant, calls("trace:a", 0, 1)))
	require.Len(t, eventsOf(t, s, "trace:a"), 1)
}

func TestNewerSchemasAreRefused(t *testing.T) {
	cfg := config(t)
	s := open(t, cfg)
	require.NoError(t, s.Close())
	require.NoError(t, direct(t, cfg).Exec(t.Context(), "INSERT INTO pave_schema (version_id, is_applied) VALUES (99, 1)"))
	_, err := clickhouse.Open(t.Context(), cfg)
	require.ErrorContains(t, err, "newer pave")

	db, err := sql.Open("sqlite", cfg.SpoolPath)
	require.NoError(t, err)
	_, err = db.Exec("PRAGMA user_version = 9")
	require.NoError(t, errors.Join(err, db.Close()))
	_, err = clickhouse.Open(t.Context(), cfg)
	require.ErrorContains(t, err, "newer pave (schema 9")
}

func TestBadConfiguration(t *testing.T) {
	_, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: "::", SpoolPath: t.TempDir() + "/spool.db"})
	require.ErrorContains(t, err, "ClickHouse DSN")
	_, err = clickhouse.Open(t.Context(), clickhouse.Config{DSN: "http://127.0.0.1:1/x", SpoolPath: t.TempDir() + "/none/spool.db"})
	require.ErrorContains(t, err, "open spool")
}

// TestCopiedInMidAppend opens what a power loss could leave: the files of the spool copied while it is written.
func TestCopiedInMidAppend(t *testing.T) {
	cfg, f := faulty(t)
	f.away = true
	s := open(t, cfg)
	const size = 25
	done := make(chan error, 1)
	copied := make(chan struct{})
	go func() {
		for i := 0; ; i++ {
			select {
			case <-copied:
				done <- nil
				return
			default:
			}
			if err := s.Append(context.WithoutCancel(t.Context()), tenant, calls("trace:a", i*size, size)); err != nil {
				done <- err
				return
			}
		}
	}()
	var copies []string
	for range 8 {
		before := s.Spool().Rows
		require.Eventually(t, func() bool { return s.Spool().Rows > before }, 10*time.Second, time.Millisecond)
		to := t.TempDir() + "/spool.db"
		// The log first: a database file that is newer than its log is what a checkpoint leaves.
		for _, suffix := range []string{"-wal", ""} {
			data, err := os.ReadFile(cfg.SpoolPath + suffix)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(to+suffix, data, 0o600))
		}
		copies = append(copies, to)
	}
	close(copied)
	require.NoError(t, <-done)
	require.NoError(t, s.Close())
	for _, path := range copies {
		c := cfg
		c.SpoolPath = path
		s := open(t, c)
		rows := s.Spool().Rows
		require.Positive(t, rows)
		require.Zero(t, rows%size, "whole appends only")
		require.NoError(t, s.Append(t.Context(), tenant, calls("trace:b", 0, 1)))
		require.NoError(t, s.Close())
	}
}

func TestProductDoesNotLinkTheEngine(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "pave/ingest/store/clickhouse").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "purego")
	require.NotContains(t, string(out), "chtest")
}
