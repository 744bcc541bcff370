package sqlite_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
	"pave/ingest/store/sqlite"
	"pave/ingest/store/storetest"
)

// recordedSessions reads the recorded calls, as sessions of events with the ids of spans.
func recordedSessions(tb testing.TB) [][]ingest.Event {
	dir, err := os.Getwd()
	require.NoError(tb, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		require.NotEqual(tb, dir, filepath.Dir(dir), "no go.mod above")
		dir = filepath.Dir(dir)
	}
	var sessions [][]ingest.Event
	for _, name := range []string{"tau-airline", "tau-retail", "tau-telecom", "workbench", "bfcl-multiturn", "api-bank"} {
		file, err := os.Open(filepath.Join(dir, "..", "shared", "data", "calls", name+".jsonl"))
		if err != nil {
			tb.Skip("recorded data not present: ", err)
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<24)
		last := ""
		for lines.Scan() {
			var call struct {
				SessionID, Tool, Error string
				Session                string `json:"session_id"`
				Turn                   int32
				Args, Result           json.RawMessage
			}
			_ = json.Unmarshal(lines.Bytes(), &call) // an error that is not a string does not matter here
			if call.Session != last {
				sessions = append(sessions, nil)
				last = call.Session
			}
			at := &sessions[len(sessions)-1]
			*at = append(*at, ingest.Event{
				Kind: ingest.KindToolCall, Agent: name, Source: "otlp/genai", OriginKind: ingest.OriginAgent, Turn: call.Turn, HasTurn: true,
				Duration: 1234 * time.Microsecond,
				Call:     &ingest.ToolCall{Tool: call.Tool, CallID: fmt.Sprintf("call_%d", len(*at)), Args: call.Args, Result: call.Result, Status: ingest.StatusOK},
			})
		}
		require.NoError(tb, lines.Err())
	}
	return sessions
}

// traffic gives events of endless copies of the recorded sessions, so many sessions open at a time.
type traffic struct {
	recorded [][]ingest.Event
	open     []*openSession
	random   *rand.Rand
	next     int
	now      time.Time
}

type openSession struct {
	trace, id string
	rest      []ingest.Event
}

func newTraffic(tb testing.TB, open int) *traffic {
	t := &traffic{recorded: recordedSessions(tb), random: rand.New(rand.NewPCG(1, 2)), now: epoch}
	for range open {
		t.open = append(t.open, t.session())
	}
	return t
}

var epoch = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func (t *traffic) session() *openSession {
	s := &openSession{
		trace: fmt.Sprintf("%016x%016x", t.random.Uint64(), t.random.Uint64()),
		id:    fmt.Sprintf("session-%x", t.random.Uint64()),
		rest:  t.recorded[t.next%len(t.recorded)],
	}
	t.next++
	return s
}

func (t *traffic) batch(n int) []ingest.Event {
	events := make([]ingest.Event, n)
	for i := range events {
		at := t.random.IntN(len(t.open))
		s := t.open[at]
		e := s.rest[0]
		t.now = t.now.Add(time.Duration(t.random.IntN(2_000_000)))
		e.TraceID, e.SpanID, e.ParentSpanID = s.trace, fmt.Sprintf("%016x", t.random.Uint64()), fmt.Sprintf("%016x", t.random.Uint64())
		e.Origin, e.SessionID, e.Identity = "trace:"+s.trace, s.id, ingest.DeriveIdentity("span", e.TraceID, e.SpanID, "1")
		e.Start, e.Received = t.now.Add(-time.Second), t.now
		events[i] = e
		if s.rest = s.rest[1:]; len(s.rest) == 0 {
			t.open[at] = t.session()
		}
	}
	return events
}

// cpu is the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func openBench(tb testing.TB) *sqlite.Store {
	s, err := sqlite.Open(tb.Context(), filepath.Join(tb.TempDir(), "events.db"), sqlite.Options{})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

// BenchmarkAppend appends recorded calls, one batch an operation; sessions is how many are open at a time.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ sessions, batch int }{{1, 1000}, {50, 1000}, {500, 1000}, {500, 100}, {500, 10_000}} {
		b.Run(fmt.Sprintf("sessions=%d/batch=%d", c.sessions, c.batch), func(b *testing.B) {
			s, t := openBench(b), newTraffic(b, c.sessions)
			var used time.Duration
			events, payload := 0, 0
			for b.Loop() {
				b.StopTimer()
				batch := t.batch(c.batch)
				for i := range batch {
					payload += len(batch[i].Call.Args) + len(batch[i].Call.Result)
				}
				before := cpu()
				b.StartTimer()
				if err := s.Append(b.Context(), ingest.DefaultTenant, batch); err != nil {
					b.Fatal(err)
				}
				used += cpu() - before
				events += c.batch
			}
			stats, err := s.Stats(b.Context(), ingest.DefaultTenant)
			require.NoError(b, err)
			require.EqualValues(b, events, stats.Events)
			b.ReportMetric(float64(used.Microseconds())/float64(events), "cpu-µs/event")
			b.ReportMetric(float64(stats.Bytes)/float64(events), "stored-B/event")
			b.ReportMetric(float64(payload)/float64(events), "payload-B/event")
		})
	}
}

// BenchmarkEvents reads all sessions of 100,000 interleaved events in one call.
func BenchmarkEvents(b *testing.B) {
	s, t := openBench(b), newTraffic(b, 500)
	const events = 100_000
	for range events / 1000 {
		require.NoError(b, s.Append(b.Context(), ingest.DefaultTenant, t.batch(1000)))
	}
	dirty, err := s.Dirty(b.Context(), ingest.DefaultTenant, time.Time{}, 1_000_000)
	require.NoError(b, err)
	ids := make([]string, len(dirty))
	for i, d := range dirty {
		ids[i] = d.ID
	}
	before := cpu()
	for b.Loop() {
		read := 0
		require.NoError(b, s.Events(b.Context(), ingest.DefaultTenant, ids, func(_ string, events []ingest.Event) error {
			read += len(events)
			return nil
		}))
		require.Equal(b, events, read)
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(events*b.N), "cpu-µs/event")
}

// derived makes session rows of 11 calls each, as the recordings have on average.
func derived(sessions int) []store.SessionRow {
	rows := make([]store.SessionRow, sessions)
	for i := range rows {
		at := epoch.Add(time.Duration(i) * time.Second)
		seq := store.NamedSequence{Agent: "agent", Start: at}
		for k := range 11 {
			seq.Tools = append(seq.Tools, fmt.Sprintf("tool-%d", (i*7+k*k)%200))
			seq.Turns = append(seq.Turns, int32(k))
			seq.Flags = append(seq.Flags, 0)
		}
		id := fmt.Sprintf("session-%016x", uint64(i)*0x9e3779b97f4a7c15)
		rows[i] = store.SessionRow{ID: id, Sequences: []store.NamedSequence{seq}, Summary: ingest.SessionSummary{
			ID: id, Agents: []string{"agent"}, Start: at, End: at.Add(time.Minute), ToolCalls: 11, UserTurns: 2, Sources: []string{"otlp/genai"},
			LLM: ingest.LLMUsage{Calls: 12, InputTokens: 12_000, OutputTokens: 900, CallsWithTokens: 12},
		}}
	}
	return rows
}

// BenchmarkPutSessions puts 10,000 sessions at a time, the same ones again from the second time on.
func BenchmarkPutSessions(b *testing.B) {
	for _, kind := range []string{"new", "again"} {
		b.Run(kind, func(b *testing.B) {
			s, rows := openBench(b), derived(10_000)
			if kind == "again" {
				require.NoError(b, s.PutSessions(b.Context(), ingest.DefaultTenant, rows))
			}
			var used time.Duration
			round := 0
			for b.Loop() {
				if kind == "new" {
					round++
					for i := range rows {
						rows[i].ID = fmt.Sprintf("%d-%d", round, i*7919%len(rows))
					}
				}
				before := cpu()
				require.NoError(b, s.PutSessions(b.Context(), ingest.DefaultTenant, rows))
				used += cpu() - before
			}
			b.ReportMetric(float64(used.Microseconds())/float64(len(rows)*b.N), "cpu-µs/session")
		})
	}
}

// BenchmarkSequences scans a million calls.
func BenchmarkSequences(b *testing.B) {
	s := openBench(b)
	rows := derived(90_910)
	require.NoError(b, s.PutSessions(b.Context(), ingest.DefaultTenant, rows))
	before := cpu()
	for b.Loop() {
		calls := 0
		require.NoError(b, s.Sequences(b.Context(), ingest.DefaultTenant, store.SequenceFilter{}, func(q *ingest.Sequence) error {
			calls += len(q.Tools)
			return nil
		}))
		require.Equal(b, len(rows)*11, calls)
	}
	b.ReportMetric((cpu()-before).Seconds()/float64(b.N), "cpu-s/1M-calls")
}

// BenchmarkSessionDays is what reports by day take of ten million calls.
func BenchmarkSessionDays(b *testing.B) { storetest.BenchSeries(b, openBench(b)) }
