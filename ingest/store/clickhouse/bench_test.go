package clickhouse_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
	"pave/ingest/store/clickhouse"
	"pave/ingest/store/clickhouse/chtest"
	"pave/ingest/store/storetest"
)

// cpu is the time that this process has used.
func cpu(b testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// recorded are calls with recorded payloads, repeated to n; without the recordings, with made-up ones of 400 bytes.
func recorded(b testing.TB, n int) []ingest.Event {
	files, err := filepath.Glob("../../../../shared/data/calls/*.jsonl")
	require.NoError(b, err)
	var payloads []ingest.ToolCall
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(b, err)
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() && len(payloads) < 50_000 {
			var rec struct {
				Tool         string
				Args, Result json.RawMessage
			}
			if json.Unmarshal(lines.Bytes(), &rec) == nil && rec.Tool != "" {
				payloads = append(payloads, ingest.ToolCall{Tool: rec.Tool, Args: rec.Args, Result: rec.Result, Status: ingest.StatusOK})
			}
		}
		require.NoError(b, f.Close())
	}
	events := make([]ingest.Event, n)
	for i := range events {
		e := storetest.ToolCall(fmt.Sprintf("trace:%032x", i/20), "", i)
		e.TraceID, e.SpanID, e.ParentSpanID = fmt.Sprintf("%032x", i/20), fmt.Sprintf("%016x", i), fmt.Sprintf("%016x", i/20)
		if len(payloads) > 0 {
			call := payloads[i%len(payloads)]
			call.CallID = fmt.Sprintf("call_%016x", i)
			e.Call = &call
		} else {
			e.Call.Result = json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"%0380d"}`, i, i))
		}
		events[i] = e
	}
	return events
}

// served is a configuration for a server outside this process, so that CPU time is that of pave alone.
func served(b *testing.B) clickhouse.Config {
	if os.Getenv("PAVE_TEST_CLICKHOUSE_DSN") == "" {
		b.Skip("needs a server of its own process: start chtest/chserver and set PAVE_TEST_CLICKHOUSE_DSN")
	}
	server := chtest.Open(b)
	return clickhouse.Config{DSN: server.DSN, SpoolPath: filepath.Join(b.TempDir(), "spool.db")}
}

// BenchmarkIngest appends 1,000 events at a time and waits until the server has all of them.
func BenchmarkIngest(b *testing.B) {
	s := open(b, served(b))
	events := recorded(b, 100_000)
	raw := 0
	for _, e := range events {
		raw += len(e.Call.Args) + len(e.Call.Result)
	}
	rows := 0
	before := cpu(b)
	for b.Loop() {
		for at := 0; at < len(events); at += 1000 {
			require.NoError(b, s.Append(b.Context(), ingest.DefaultTenant, events[at:at+1000]))
		}
		_, err := s.Stats(b.Context(), "other") // waits for the shipper
		require.NoError(b, err)
		rows += len(events)
	}
	used := cpu(b) - before
	st, err := s.Stats(b.Context(), ingest.DefaultTenant)
	require.NoError(b, err)
	require.EqualValues(b, rows, st.Events)
	b.ReportMetric(float64(used.Nanoseconds())/float64(rows)/1000, "µs-cpu/row")
	b.ReportMetric(float64(rows)/used.Seconds(), "rows/cpu-s")
	b.ReportMetric(float64(raw)/float64(len(events)), "raw-B/row")
	b.ReportMetric(float64(st.Bytes)/float64(rows), "stored-B/row")
}

// BenchmarkAppend is the acknowledged path alone: the spool, no server.
func BenchmarkAppend(b *testing.B) {
	cfg := clickhouse.Config{DSN: "http://127.0.0.1:1/x", SpoolPath: filepath.Join(b.TempDir(), "spool.db")}
	cfg.Limits.RetryFirst = time.Hour
	s := open(b, cfg)
	events := recorded(b, 100_000)
	rows := 0
	before := cpu(b)
	for b.Loop() {
		at := rows % len(events)
		require.NoError(b, s.Append(b.Context(), ingest.DefaultTenant, events[at:at+1000]))
		rows += 1000
	}
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(rows)/1000, "µs-cpu/row")
	b.ReportMetric(float64(s.Spool().Bytes)/float64(rows), "spool-B/row")
}

// BenchmarkSequences reads one million calls of 31,250 sessions.
func BenchmarkSequences(b *testing.B) {
	s := open(b, served(b))
	const sessions, length = 31_250, 32
	rows := make([]store.SessionRow, sessions)
	for i := range rows {
		seq := store.NamedSequence{Start: storetest.At(i)}
		for k := range length {
			seq.Tools = append(seq.Tools, fmt.Sprintf("tool_%d", (i*7+k*k)%200))
			seq.Turns = append(seq.Turns, int32(k))
			seq.Flags = append(seq.Flags, ingest.CallFlag(k%3))
		}
		rows[i] = store.SessionRow{ID: fmt.Sprintf("session-%06d", i), Summary: ingest.SessionSummary{Start: storetest.At(i), ToolCalls: length}, Sequences: []store.NamedSequence{seq}}
	}
	put := cpu(b)
	for at := 0; at < sessions; at += 5000 {
		require.NoError(b, s.PutSessions(b.Context(), ingest.DefaultTenant, rows[at:min(at+5000, sessions)]))
	}
	put = cpu(b) - put
	calls := 0
	before := cpu(b)
	for b.Loop() {
		calls = 0
		require.NoError(b, s.Sequences(b.Context(), ingest.DefaultTenant, store.SequenceFilter{}, func(q *ingest.Sequence) error {
			calls += len(q.Tools)
			return nil
		}))
	}
	used := cpu(b) - before
	require.Equal(b, sessions*length, calls)
	b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/1M-calls")
	b.ReportMetric(put.Seconds(), "put-cpu-s/31k-sessions")
}

// BenchmarkAssemblyReads finds and reads 5,000 dirty sessions of 20 calls.
func BenchmarkAssemblyReads(b *testing.B) {
	s := open(b, served(b))
	events := recorded(b, 100_000)
	for at := 0; at < len(events); at += 1000 {
		require.NoError(b, s.Append(b.Context(), ingest.DefaultTenant, events[at:at+1000]))
	}
	before := cpu(b)
	for b.Loop() {
		list, err := s.Dirty(b.Context(), ingest.DefaultTenant, time.Time{}, 10_000)
		require.NoError(b, err)
		require.Len(b, list, 5000)
		var ids []string
		for _, d := range list {
			ids = append(ids, d.ID)
		}
		n := 0
		require.NoError(b, s.Events(b.Context(), ingest.DefaultTenant, ids, func(_ string, events []ingest.Event) error {
			n += len(events)
			return nil
		}))
		require.Equal(b, len(events), n)
	}
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N)/float64(len(events))/1000, "µs-cpu/event")
}
