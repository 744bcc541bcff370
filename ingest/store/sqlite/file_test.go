package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
	"pave/ingest/store/storetest"
)

const tenant = ingest.DefaultTenant

func openAt(t *testing.T, path string, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func eventsOf(t *testing.T, s *Store, id string) []ingest.Event {
	t.Helper()
	var got []ingest.Event
	require.NoError(t, s.Events(t.Context(), tenant, []string{id}, func(_ string, events []ingest.Event) error {
		got = events
		return nil
	}))
	return got
}

// batchEvents is large enough for two blocks: a batch is whole over all its rows, not only inside one.
const batchEvents = blockEvents + 50

// numbered is batch n: one origin of its own, and one that all batches share.
func numbered(n int) []ingest.Event {
	events := make([]ingest.Event, 0, batchEvents)
	for i := range batchEvents {
		origin := "trace:shared"
		if i%2 == 0 {
			origin = fmt.Sprintf("trace:%d", n)
		}
		events = append(events, storetest.ToolCall(origin, "", n*batchEvents+i))
	}
	return events
}

// wholeBatches checks that the file holds the batches 0 to k-1, each whole, and nothing else, and returns k.
func wholeBatches(t *testing.T, path string) int {
	t.Helper()
	s, err := Open(t.Context(), path, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var shared []ingest.Event
	k := 0
	for ; ; k++ {
		own := eventsOf(t, s, fmt.Sprintf("trace:%d", k))
		if own == nil {
			break
		}
		var want []ingest.Event
		for _, e := range numbered(k) {
			if e.Origin == "trace:shared" {
				shared = append(shared, e)
			} else {
				want = append(want, e)
			}
		}
		require.Equal(t, want, own)
	}
	require.Equal(t, shared, eventsOf(t, s, "trace:shared"))
	stats, err := s.Stats(t.Context(), tenant)
	require.NoError(t, err)
	require.EqualValues(t, k*batchEvents, stats.Events)
	require.EqualValues(t, k*batchEvents, stats.ToolCallRows)
	var dirty int64
	if k > 0 {
		dirty = int64(k + 1)
	}
	require.Equal(t, dirty, stats.DirtySessions)
	var verdict string
	require.NoError(t, s.read.QueryRow("PRAGMA integrity_check").Scan(&verdict))
	require.Equal(t, "ok", verdict)
	// It goes on from there.
	require.NoError(t, s.Append(t.Context(), tenant, numbered(k)))
	require.Len(t, eventsOf(t, s, fmt.Sprintf("trace:%d", k)), batchEvents/2)
	return k
}

// copyFiles copies a database as a crash would leave it; tail is how much of the write-ahead log, -1 for all.
func copyFiles(t *testing.T, path string, tail int) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		if suffix != "" && tail >= 0 {
			data = data[:min(tail, len(data))]
		}
		require.NoError(t, os.WriteFile(to+suffix, data, 0o600))
	}
	return to
}

func TestCopyInMidAppendHoldsWholeBatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	// Without checkpoints the database does not change, so the two files can be copied one after the other.
	s := openAt(t, path, Options{CheckpointPages: 1 << 30})
	var acknowledged atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := s.Append(context.WithoutCancel(ctx), tenant, numbered(n)); err != nil {
				done <- err
				return
			}
			acknowledged.Add(1)
		}
		done <- nil
	}()
	type snapshot struct {
		path  string
		least int64
	}
	var copies []snapshot
	for len(copies) < 4 {
		require.Empty(t, done, "the writer has stopped")
		before := acknowledged.Load()
		if before < int64(2*len(copies)) {
			time.Sleep(time.Millisecond)
			continue
		}
		copies = append(copies, snapshot{copyFiles(t, path, -1), before})
	}
	stop()
	require.NoError(t, <-done)
	for _, c := range copies {
		require.GreaterOrEqual(t, wholeBatches(t, c.path), int(c.least))
	}
	require.Equal(t, int(acknowledged.Load()), wholeBatches(t, copyFiles(t, path, -1)))
}

func TestTornLogHoldsWholeBatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := openAt(t, path, Options{CheckpointPages: 1 << 30})
	var ends []int
	for n := range 4 {
		require.NoError(t, s.Append(t.Context(), tenant, numbered(n)))
		log, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		ends = append(ends, int(log.Size()))
	}
	random := rand.New(rand.NewPCG(7, 7))
	for range 12 {
		cut := ends[0] + random.IntN(ends[3]-ends[0])
		want := 0
		for _, end := range ends {
			if cut >= end {
				want++
			}
		}
		require.Equal(t, want, wholeBatches(t, copyFiles(t, path, cut)), "cut at %d of %v", cut, ends)
	}
}

func TestLogIsMovedIntoTheDatabaseOnClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := openAt(t, path, Options{})
	require.NoError(t, s.Append(t.Context(), tenant, numbered(0)))
	require.NoError(t, s.Close())
	require.NoFileExists(t, path+"-wal")
	require.Equal(t, 1, wholeBatches(t, path))
}

func TestFullDisk(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "events.db"), Options{})
	first := storetest.ToolCall("trace:a", "", 1)
	require.NoError(t, s.Append(t.Context(), tenant, []ingest.Event{first}))
	var pages int
	require.NoError(t, s.w.conn.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages))
	limit := func(n int) {
		_, err := s.w.conn.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", n))
		require.NoError(t, err)
	}
	limit(pages + 2)
	rows := make([]store.SessionRow, 5000)
	for i := range rows {
		rows[i] = store.SessionRow{ID: fmt.Sprint("s", i), Summary: ingest.SessionSummary{ToolCalls: 1}}
	}
	for range 3 {
		require.ErrorIs(t, s.Append(t.Context(), tenant, numbered(0)), store.ErrFull)
		require.ErrorIs(t, s.PutSessions(t.Context(), tenant, rows), store.ErrFull)
	}
	require.Equal(t, []ingest.Event{first}, eventsOf(t, s, "trace:a"), "reads go on")
	stats, err := s.Stats(t.Context(), tenant)
	require.NoError(t, err)
	require.EqualValues(t, 1, stats.Events)
	require.EqualValues(t, 0, stats.Sessions)
	limit(1 << 30)
	require.NoError(t, s.Append(t.Context(), tenant, numbered(0)), "it works again without a restart")
	require.NoError(t, s.PutSessions(t.Context(), tenant, rows))
	require.Len(t, eventsOf(t, s, "trace:0"), batchEvents/2)
}

// A disk that refuses to write costs nothing that was kept; callers are told to come back, and can.
func TestFailingDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := openAt(t, path, Options{})
	first := storetest.ToolCall("trace:a", "", 1)
	require.NoError(t, s.Append(t.Context(), tenant, []ingest.Event{first}))
	info, err := os.Stat(path + "-wal")
	require.NoError(t, err)
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(info.Size()), Max: was.Max}))
	failed := s.Append(t.Context(), tenant, numbered(0))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))
	require.ErrorIs(t, failed, store.ErrUnavailable)
	require.ErrorContains(t, failed, "disk I/O error")
	require.NoError(t, s.Append(t.Context(), tenant, numbered(0)), "it works again without a restart")
	require.Equal(t, []ingest.Event{first}, eventsOf(t, s, "trace:a"))
	require.Len(t, eventsOf(t, s, "trace:0"), batchEvents/2)
}

func TestDamageIsReportedAndContained(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "events.db"), Options{})
	for n := range 3 {
		require.NoError(t, s.Append(t.Context(), tenant, []ingest.Event{storetest.ToolCall(fmt.Sprint("trace:", n), "", n)}))
	}
	for _, spoil := range []string{
		"UPDATE blocks SET payload = substr(payload, 1, length(payload) - 3) || x'000000' WHERE id = 2",
		"UPDATE blocks SET head = x'' WHERE id = 2",
		"DELETE FROM blocks WHERE id = 2",
	} {
		_, err := s.w.conn.ExecContext(t.Context(), spoil)
		require.NoError(t, err)
		err = s.Events(t.Context(), tenant, []string{"trace:1"}, func(string, []ingest.Event) error { return nil })
		require.ErrorIs(t, err, errDamaged, spoil)
		require.ErrorContains(t, err, `session "trace:1": block 2`)
		require.Len(t, eventsOf(t, s, "trace:0"), 1)
		require.Len(t, eventsOf(t, s, "trace:2"), 1)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	t.Run("a newer schema", func(t *testing.T) {
		path := filepath.Join(dir, "newer.db")
		s := openAt(t, path, Options{})
		_, err := s.w.conn.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)")
		require.NoError(t, err)
		require.NoError(t, s.Close())
		_, err = Open(t.Context(), path, Options{})
		require.ErrorContains(t, err, "schema has version 99 and this program knows versions up to 7")
		require.ErrorContains(t, err, path)
	})
	t.Run("another file", func(t *testing.T) {
		path := filepath.Join(dir, "text.db")
		require.NoError(t, os.WriteFile(path, []byte("this is not a database, whatever its name says; it is long enough to look"), 0o600))
		_, err := Open(t.Context(), path, Options{})
		require.ErrorContains(t, err, "not a database")
	})
	t.Run("a missing folder", func(t *testing.T) {
		_, err := Open(t.Context(), filepath.Join(dir, "missing", "events.db"), Options{})
		require.Error(t, err)
	})
}

func TestOpenTakesAnyFileName(t *testing.T) {
	for _, name := range []string{"plain.db", "a b.db", "what?.db", "100%.db", "a#b&c=d.db", "%41.db", "ünï.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := openAt(t, path, Options{})
		require.NoError(t, s.Append(t.Context(), tenant, []ingest.Event{storetest.Span("trace:a", "", 1)}))
		require.FileExists(t, path)
		require.NoError(t, s.Close())
	}
}

func TestSettings(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "events.db"), Options{})
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "query_only": "0"} {
		var got string
		require.NoError(t, s.w.conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
		require.Equal(t, want, got, pragma)
	}
	_, err := s.read.ExecContext(t.Context(), "DELETE FROM names")
	require.ErrorContains(t, err, "readonly")
}

// Reads from inside the callbacks of others, and writes too, wait for nothing.
func TestCallbacksMayCallTheStore(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "events.db"), Options{Readers: 3})
	require.NoError(t, s.Append(t.Context(), tenant, []ingest.Event{storetest.ToolCall("trace:a", "", 1)}))
	row := store.SessionRow{ID: "trace:a", Summary: ingest.SessionSummary{ToolCalls: 1}, Sequences: []store.NamedSequence{{}}}
	require.NoError(t, s.PutSessions(t.Context(), tenant, []store.SessionRow{row}))
	calls := 0
	require.NoError(t, s.Events(t.Context(), tenant, []string{"trace:a"}, func(string, []ingest.Event) error {
		return s.Sequences(t.Context(), tenant, store.SequenceFilter{}, func(*ingest.Sequence) error {
			calls++
			if _, err := s.ToolNames(t.Context(), tenant); err != nil {
				return err
			}
			return s.PutSessions(t.Context(), tenant, []store.SessionRow{row})
		})
	}))
	require.Equal(t, 1, calls)
}

func TestContextEndsReadsAndWaits(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "events.db"), Options{})
	require.NoError(t, s.Append(t.Context(), tenant, numbered(0)))
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Events(ctx, tenant, []string{"trace:0", "trace:shared"}, func(string, []ingest.Event) error {
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	<-s.w.turn // someone else writes
	ctx, cancel = context.WithCancel(t.Context())
	wrote := make(chan error)
	go func() { wrote <- s.Append(ctx, tenant, numbered(1)) }()
	cancel()
	require.ErrorIs(t, <-wrote, context.Canceled)
	s.w.turn <- struct{}{}
	require.Empty(t, eventsOf(t, s, "trace:1"))
}
