//go:build linux && amd64

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/ingest/store/clickhouse/chtest/engine"
)

var (
	shared    *engine.Engine // one per process
	sharedDir string
	reason    error // why there is none
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pave-engine-")
	if err != nil {
		panic(err)
	}
	sharedDir = filepath.Join(dir, "data")
	shared, reason = engine.Open(sharedDir, 3)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if shared != nil {
			reason = shared.Close()
		}
		if err := errors.Join(reason, os.RemoveAll(dir)); err != nil && !errors.Is(err, engine.ErrNoLibrary) {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// ways runs a test over both ways to the engine: in process, and over HTTP on loopback.
func ways(t *testing.T, test func(*testing.T, clickhouse.Conn)) {
	if shared == nil {
		if os.Getenv("PAVE_REQUIRE_CLICKHOUSE") == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	server := httptest.NewServer(shared.Handler())
	defer server.Close()
	for name, opt := range map[string]*clickhouse.Options{
		"in process": {
			Addr:          []string{"embedded:0"},
			TransportFunc: func(*http.Transport) (http.RoundTripper, error) { return shared, nil },
		},
		"over HTTP": {Addr: []string{server.Listener.Addr().String()}},
	} {
		t.Run(name, func(t *testing.T) {
			opt.Protocol, opt.Auth.Database = clickhouse.HTTP, "default"
			conn, err := clickhouse.Open(opt)
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			test(t, conn)
		})
	}
}

func one[T any](t *testing.T, ctx context.Context, conn clickhouse.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, conn.QueryRow(ctx, sql, args...).Scan(&v))
	return v
}

func TestBatchOfManyTypes(t *testing.T) {
	ways(t, func(t *testing.T, conn clickhouse.Conn) {
		ctx := t.Context()
		require.NoError(t, conn.Exec(ctx, `CREATE TABLE many (n UInt32, at DateTime64(9, 'UTC'), tool LowCardinality(String), tags Array(String),
			attrs Map(String, String), maybe Nullable(Int64), id UUID, ok Bool, text String) ENGINE = MergeTree ORDER BY n`))
		defer func() { require.NoError(t, conn.Exec(ctx, "DROP TABLE many SYNC")) }()
		batch, err := conn.PrepareBatch(ctx, "INSERT INTO many (n, at, tool, tags, attrs, maybe, id, ok, text)")
		require.NoError(t, err)
		defer batch.Close()
		const rows = 20_000
		at := func(i int) time.Time { return time.Unix(1_700_000_000, int64(i)).UTC() }
		for i := range rows {
			var maybe *int64
			if v := int64(i); i%2 == 0 {
				maybe = &v
			}
			require.NoError(t, batch.Append(uint32(i), at(i), fmt.Sprint("tool", i%7), []string{"a", fmt.Sprint(i)}, map[string]string{"k": "v"},
				maybe, "7d444840-9dc0-11d1-b245-5ffdce74fad2", i%3 == 0, "nul \x00 and \xff"))
		}
		require.NoError(t, batch.Send())
		got, err := conn.Query(ctx, "SELECT n, at, tool, tags, attrs, maybe, toString(id), ok, text FROM many ORDER BY n")
		require.NoError(t, err)
		defer got.Close()
		for i := 0; got.Next(); i++ {
			var n uint32
			var when time.Time
			var tool, id, text string
			var tags []string
			var attrs map[string]string
			var maybe *int64
			var ok bool
			require.NoError(t, got.Scan(&n, &when, &tool, &tags, &attrs, &maybe, &id, &ok, &text))
			require.EqualValues(t, i, n)
			require.Equal(t, at(i), when)
			require.Equal(t, []any{fmt.Sprint("tool", i%7), []string{"a", fmt.Sprint(i)}, map[string]string{"k": "v"}}, []any{tool, tags, attrs})
			require.Equal(t, i%2 == 0, maybe != nil)
			require.Equal(t, []any{"7d444840-9dc0-11d1-b245-5ffdce74fad2", i%3 == 0, "nul \x00 and \xff"}, []any{id, ok, text})
		}
		require.NoError(t, got.Err())
		require.EqualValues(t, rows, one[uint64](t, ctx, conn, "SELECT count() FROM many"))
	})
}

func TestParametersAndSettings(t *testing.T) {
	ways(t, func(t *testing.T, conn clickhouse.Conn) {
		ctx := t.Context()
		hostile := "it's \\ x\ny\t\x00 \xff {a:b}"
		require.Equal(t, hostile, one[string](t, ctx, conn, "SELECT {a:String}", clickhouse.Named("a", hostile)))
		require.Equal(t, []string{hostile, ""}, one[[]string](t, ctx, conn, "SELECT {a:Array(String)}", clickhouse.Named("a", []string{hostile, ""})))
		sized := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_block_size": 777}))
		const setting = "SELECT toString(getSetting('max_block_size'))"
		usual := one[string](t, ctx, conn, setting)
		require.Equal(t, "777", one[string](t, sized, conn, setting))
		for range 5 { // every pooled connection
			require.Equal(t, usual, one[string](t, ctx, conn, setting), "a setting lives as long as its query")
		}
		bad := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"no such; DROP": 1}))
		require.ErrorContains(t, conn.Exec(bad, "SELECT 1"), "unknown setting")
	})
}

func TestErrors(t *testing.T) {
	ways(t, func(t *testing.T, conn clickhouse.Conn) {
		ctx := t.Context()
		var refused *clickhouse.Exception
		require.ErrorAs(t, conn.Exec(ctx, "SELECT * FROM no_such_table"), &refused)
		require.EqualValues(t, 60, refused.Code)
		require.Error(t, conn.QueryRow(ctx, "SELEKT 1").Err())

		rows, err := conn.Query(ctx, "SELECT throwIf(number = 3000000), number FROM numbers(5000000) SETTINGS max_block_size = 65536, max_threads = 1")
		require.NoError(t, err)
		n := 0
		for rows.Next() {
			n++
		}
		require.Error(t, rows.Err(), "a result that fails after its first block is not complete")
		require.Less(t, n, 5_000_000)
		require.Error(t, errors.Join(rows.Err(), rows.Close()))
		require.EqualValues(t, 1, one[uint8](t, ctx, conn, "SELECT 1"))
	})
}

func TestCancelledQueriesGiveTheirConnectionBack(t *testing.T) {
	ways(t, func(t *testing.T, conn clickhouse.Conn) {
		for range 6 { // twice the pool
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			rows, err := conn.Query(ctx, "SELECT sleepEachRow(0.02) FROM numbers(50) SETTINGS max_block_size = 1")
			if err == nil {
				for rows.Next() {
				}
				err = errors.Join(rows.Err(), rows.Close())
			}
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
			early, cancel := context.WithCancel(t.Context())
			rows, err = conn.Query(early, "SELECT number FROM numbers(100000000)")
			require.NoError(t, err)
			require.True(t, rows.Next())
			cancel()
			require.NoError(t, ignoreCancelled(rows.Close()))
		}
		require.EqualValues(t, 1, one[uint8](t, t.Context(), conn, "SELECT 1"))
	})
}

func ignoreCancelled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func TestManyAtOnce(t *testing.T) {
	ways(t, func(t *testing.T, conn clickhouse.Conn) {
		var group sync.WaitGroup
		failed := make(chan error, 8*20)
		for g := range 8 {
			group.Go(func() {
				for i := range 20 {
					var n int64
					err := conn.QueryRow(t.Context(), "SELECT {a:Int64} + {b:Int64}", clickhouse.Named("a", g), clickhouse.Named("b", i)).Scan(&n)
					if err == nil && n != int64(g+i) {
						err = fmt.Errorf("%d + %d = %d", g, i, n)
					}
					failed <- err
				}
			})
		}
		group.Wait()
		close(failed)
		for err := range failed {
			require.NoError(t, err)
		}
	})
}

// TestGoKeepsItsSignals would hang if the library's handler for SIGSEGV were in place.
func TestGoKeepsItsSignals(t *testing.T) {
	ways(t, func(t *testing.T, conn clickhouse.Conn) {
		require.EqualValues(t, 1, one[uint8](t, t.Context(), conn, "SELECT 1"))
		var nothing *struct{ field int }
		require.PanicsWithError(t, "runtime error: invalid memory address or nil pointer dereference", func() { nothing.field = 1 })
	})
}

// TestOneProcessPerDirectory: the lock is taken before the engine is asked, whose own reason goes to standard error.
func TestOneProcessPerDirectory(t *testing.T) {
	if shared == nil {
		t.Skip(reason)
	}
	_, err := engine.Open(sharedDir, 1)
	require.ErrorContains(t, err, "in use")
}

func TestMissingLibrary(t *testing.T) {
	t.Setenv("PAVE_CHDB_LIB", filepath.Join(t.TempDir(), "none.so"))
	_, err := engine.Library()
	require.ErrorIs(t, err, engine.ErrNoLibrary)
	require.ErrorContains(t, err, "PAVE_CHDB_LIB")
	t.Setenv("PAVE_CHDB_LIB", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err = engine.Library()
	require.ErrorIs(t, err, engine.ErrNoLibrary)
	require.ErrorContains(t, err, "chtest/fetch", "the message says what would help")
}
