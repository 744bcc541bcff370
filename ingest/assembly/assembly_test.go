package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/ingest"
	"pave/ingest/store"
	"pave/ingest/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func open(t *testing.T) store.Store {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// recorder stores through the real recorder, at a clock that the test moves.
func recorder(t *testing.T, s store.Store, now *time.Time, committed func(string, []ingest.Event)) func(events ...ingest.Event) {
	r := ingest.NewRecorder(s, ingest.RecorderOptions{Now: func() time.Time { return *now }, Committed: committed, Limits: ingest.Limits{Linger: time.Nanosecond}})
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return func(events ...ingest.Event) {
		_, err := r.Record(t.Context(), "t", events)
		require.NoError(t, err)
	}
}

func toolCall(trace, span, session, tool string, second int) ingest.Event {
	return ingest.Event{Kind: ingest.KindToolCall, TraceID: trace, SpanID: span, SessionID: session, Source: "otlp/genai", OriginKind: ingest.OriginAgent,
		Start: t0.Add(time.Duration(second) * time.Second), Duration: time.Second,
		Call: &ingest.ToolCall{Tool: tool, Args: json.RawMessage(`{"n":1}`), Result: json.RawMessage(`[1]`), Status: ingest.StatusOK}}
}

func summaries(t *testing.T, s store.Store) map[string]ingest.SessionSummary {
	page, err := s.Sessions(t.Context(), "t", store.SessionFilter{Limit: 1000})
	require.NoError(t, err)
	out := make(map[string]ingest.SessionSummary)
	for _, sum := range page.Items {
		out[sum.ID] = sum
	}
	return out
}

func TestRun(t *testing.T) {
	s, now := open(t), t0
	record := recorder(t, s, &now, nil)
	a := New(s, Options{Batch: 2})
	record(toolCall("01", "a", "", "x", 0), toolCall("02", "b", "s2", "y", 1), toolCall("03", "c", "s3", "x", 2))
	n, err := a.Run(t.Context(), "t", t0.Add(-time.Minute))
	require.NoError(t, err)
	require.Zero(t, n, "none is quiet yet")
	n, err = a.Run(t.Context(), "t", t0.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Len(t, summaries(t, s), 3)
	require.Contains(t, summaries(t, s), "trace:01")

	// The trace's session id arrives late, in a span, with a model call and a copy of what is known.
	now = t0.Add(time.Hour)
	record(toolCall("01", "a", "", "x", 0),
		ingest.Event{Kind: ingest.KindSpan, TraceID: "01", SpanID: "root", SessionID: "s1", RunID: "root", Agent: "support", Source: "otlp/genai", OriginKind: ingest.OriginAgent},
		ingest.Event{Kind: ingest.KindLLMCall, TraceID: "01", SpanID: "m", Source: "otlp/genai", OriginKind: ingest.OriginAgent, Start: t0.Add(-2 * time.Second), Duration: time.Second,
			LLM: &ingest.LLMCall{Model: "m", Count: 1, InputTokens: 100, OutputTokens: 7, CachedTokens: -1, CostUSD: 0.5, HasCost: true}})
	n, err = a.Run(t.Context(), "t", time.Time{})
	require.NoError(t, err)
	require.Equal(t, 2, n, "the trace's session has moved")
	got := summaries(t, s)
	require.Len(t, got, 3)
	s1 := got["s1"]
	require.Empty(t, s1.Agents, "the call is not under the agent's span")
	s1.Agents = nil
	require.Equal(t, ingest.SessionSummary{ID: "s1", Start: t0.Add(-2 * time.Second), End: t0.Add(time.Second), ToolCalls: 1, Sources: []string{"otlp/genai"},
		LLM: ingest.LLMUsage{Calls: 1, InputTokens: 100, OutputTokens: 7, CallsWithTokens: 1, CostUSD: 0.5, CallsWithCost: 1, Duration: time.Second, CallsWithDuration: 1}},
		s1)
	n, err = a.Run(t.Context(), "t", time.Time{})
	require.NoError(t, err)
	require.Zero(t, n)

	var tools []string
	require.NoError(t, s.Sequences(t.Context(), "t", store.SequenceFilter{}, func(seq *ingest.Sequence) error {
		tools = append(tools, fmt.Sprintf("%s/%d: %d %v", seq.SessionID, seq.RunIndex, seq.Tools, seq.Flags))
		return nil
	}))
	require.Len(t, tools, 3)
}

func TestRunManyBatches(t *testing.T) {
	s, now := open(t), t0
	record := recorder(t, s, &now, nil)
	var events []ingest.Event
	for i := range 23 {
		events = append(events, toolCall(fmt.Sprintf("%02x", i), "a", fmt.Sprint("s", i), "x", i))
	}
	record(events...)
	a := New(s, Options{Batch: 5})
	n, err := a.Run(t.Context(), "t", time.Time{})
	require.NoError(t, err)
	require.Equal(t, 23, n)
	require.Len(t, summaries(t, s), 23)
}

// moving is a store whose sessions get an event while they are assembled, so that they never become clean.
type moving struct {
	store.Store
	record func(...ingest.Event)
	n      int
}

func (m *moving) PutSessions(ctx context.Context, tenant string, rows []store.SessionRow) error {
	for _, r := range rows {
		m.n++
		m.record(toolCall("ff", fmt.Sprint(m.n), r.ID, "x", m.n))
	}
	return m.Store.PutSessions(ctx, tenant, rows)
}

func TestRunEndsUnderTraffic(t *testing.T) {
	s, now := open(t), t0
	record := recorder(t, s, &now, nil)
	record(toolCall("01", "a", "s1", "x", 0), toolCall("02", "a", "s2", "x", 0), toolCall("03", "a", "s3", "x", 0))
	n, err := New(&moving{Store: s, record: record}, Options{Batch: 1}).Run(t.Context(), "t", time.Time{})
	require.NoError(t, err)
	require.Equal(t, 3, n, "each session once")
	dirty, err := s.Dirty(t.Context(), "t", time.Time{}, 10)
	require.NoError(t, err)
	require.Len(t, dirty, 3)
}

func TestEnded(t *testing.T) {
	s, now := open(t), t0
	a := New(s, Options{})
	record := recorder(t, s, &now, a.Committed)
	record(toolCall("01", "a", "s1", "x", 0), toolCall("02", "a", "s2", "x", 0),
		ingest.Event{Kind: ingest.KindSessionEnd, SessionID: "s2", Source: "json", OriginKind: ingest.OriginAgent})
	n, err := a.Ended(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Contains(t, summaries(t, s), "s2")
	require.Len(t, summaries(t, s), 1)
	n, err = a.Ended(t.Context(), "t")
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestEvery(t *testing.T) {
	s, now := open(t), time.Now()
	a := New(s, Options{})
	record := recorder(t, s, &now, a.Committed)
	record(toolCall("01", "a", "s1", "x", 0))
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		a.Every(ctx, "t", time.Millisecond, 0, func(err error) { t.Error(err) })
		close(stopped)
	}()
	require.Eventually(t, func() bool { return len(summaries(t, s)) == 1 }, 20*time.Second, 5*time.Millisecond)
	cancel()
	<-stopped
}

func TestLoader(t *testing.T) {
	s, now := open(t), t0
	record := recorder(t, s, &now, nil)
	record(toolCall("01", "a", "s1", "x", 0), toolCall("02", "a", "s2", "y", 0))
	stop := errors.New("stop")
	var got []string
	l := Loader{Store: s}
	require.NoError(t, l.Sessions(t.Context(), "t", []string{"s1", "missing", "s2"}, func(sess *ingest.Session) error {
		got = append(got, sess.ID+" "+sess.Runs[0].Calls[0].Tool+" "+string(sess.Runs[0].Calls[0].Args))
		return nil
	}))
	require.ElementsMatch(t, []string{`s1 x {"n":1}`, `s2 y {"n":1}`}, got)
	require.ErrorIs(t, l.Sessions(t.Context(), "t", []string{"s1"}, func(*ingest.Session) error { return stop }), stop)
}
