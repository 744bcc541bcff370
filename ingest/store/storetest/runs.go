package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

func run(id, flow, version, status string, n int) store.Run {
	return store.Run{
		ID: id, Flow: flow, Version: version, Status: status, Caller: "key:demo", Start: At(n), Duration: time.Duration(n) * time.Millisecond,
		Steps: 3, StepsDone: 2, Result: json.RawMessage(`{"run" : 1, "text":"<&>"}`),
		LLMCallsAvoided: 0.5, TokensAvoided: 1000.25, CostAvoidedUSD: 0.125, LatencyAvoided: time.Duration(n),
	}
}

func testRuns(t *testing.T, s suite) {
	list := func(t *testing.T, st store.Store, filter store.RunFilter) []store.Run {
		t.Helper()
		page, err := st.Runs(t.Context(), tenant, filter)
		require.NoError(t, err)
		require.Empty(t, page.Next)
		return page.Items
	}
	s.each(t, map[string]func(*testing.T, store.Store){
		"put, replace, list, filter": func(t *testing.T, st store.Store) {
			a, b, c := run("r1", "refund", "1", "succeeded", 1), run("r2", "refund", "2", "failed", 2), run("r3", "track", "1", "succeeded", 3)
			b.ErrorCode, b.Result = "CW-E302", nil
			for _, r := range []store.Run{b, c, a} {
				require.NoError(t, st.PutRun(t.Context(), tenant, r))
			}
			require.NoError(t, st.PutRun(t.Context(), "other", run("r1", "refund", "1", "failed", 9)))
			require.Equal(t, []store.Run{c, b, a}, list(t, st, store.RunFilter{}))
			require.Equal(t, []store.Run{b, a}, list(t, st, store.RunFilter{Flow: "refund"}))
			require.Equal(t, []store.Run{c, a}, list(t, st, store.RunFilter{Status: "succeeded"}))
			require.Equal(t, []store.Run{a}, list(t, st, store.RunFilter{Flow: "refund", Status: "succeeded"}))
			require.Equal(t, []store.Run{b}, list(t, st, store.RunFilter{ID: "r2"}))
			require.Empty(t, list(t, st, store.RunFilter{ID: "unknown"}))
			a.Status, a.Start, a.Result = "handed_back", At(7), json.RawMessage(`[]`)
			require.NoError(t, st.PutRun(t.Context(), tenant, a))
			require.Equal(t, []store.Run{a, c, b}, list(t, st, store.RunFilter{}))
		},
		"pages": func(t *testing.T, st store.Store) {
			var want []string
			for i := range 23 {
				id := fmt.Sprintf("r%02d", i)
				require.NoError(t, st.PutRun(t.Context(), tenant, run(id, "f", "1", "succeeded", 100-i/2)))
				want = append(want, id)
			}
			var got []string
			filter := store.RunFilter{Limit: 5}
			for n := 0; ; n++ {
				page, err := st.Runs(t.Context(), tenant, filter)
				require.NoError(t, err)
				for _, r := range page.Items {
					got = append(got, r.ID)
				}
				if filter.Cursor = page.Next; filter.Cursor == "" {
					break
				}
				require.NoError(t, st.PutRun(t.Context(), tenant, run(fmt.Sprintf("n%d", n), "f", "1", "succeeded", 200+n)))
			}
			require.Equal(t, want, got)
			for _, bad := range badCursors {
				_, err := st.Runs(t.Context(), tenant, store.RunFilter{Cursor: bad})
				require.ErrorIs(t, err, store.ErrCursor, "%q", bad)
			}
		},
		"sums are exact": func(t *testing.T, st store.Store) {
			for i, status := range []string{"succeeded", "succeeded", "failed", "handed_back", "cancelled", "denied"} {
				require.NoError(t, st.PutRun(t.Context(), tenant, run(fmt.Sprint("a", i), "refund", "1", status, 10+i)))
			}
			require.NoError(t, st.PutRun(t.Context(), tenant, run("b", "refund", "2", "succeeded", 10)))
			require.NoError(t, st.PutRun(t.Context(), tenant, run("c", "track", "1", "failed", 20)))
			require.NoError(t, st.PutRun(t.Context(), tenant, run("a0", "refund", "1", "succeeded", 10))) // replaced, not added
			require.NoError(t, st.PutRun(t.Context(), "other", run("a0", "refund", "1", "succeeded", 10)))
			one := store.RunStat{
				Flow: "refund", Version: "1", Runs: 6, Succeeded: 2, Failed: 1, HandedBack: 1, Denied: 1, StepsDone: 12,
				SumDuration: 75 * time.Millisecond, LLMCallsAvoided: 3, TokensAvoided: 6001.5, CostAvoidedUSD: 0.75, LatencyAvoided: 75,
			}
			two := store.RunStat{
				Flow: "refund", Version: "2", Runs: 1, Succeeded: 1, StepsDone: 2, SumDuration: 10 * time.Millisecond,
				LLMCallsAvoided: 0.5, TokensAvoided: 1000.25, CostAvoidedUSD: 0.125, LatencyAvoided: 10,
			}
			three := store.RunStat{
				Flow: "track", Version: "1", Runs: 1, Failed: 1, StepsDone: 2, SumDuration: 20 * time.Millisecond,
				LLMCallsAvoided: 0.5, TokensAvoided: 1000.25, CostAvoidedUSD: 0.125, LatencyAvoided: 20,
			}
			stats, err := st.RunStats(t.Context(), tenant, time.Time{}, time.Time{})
			require.NoError(t, err)
			require.Equal(t, []store.RunStat{one, two, three}, stats)
			stats, err = st.RunStats(t.Context(), tenant, At(20), time.Time{})
			require.NoError(t, err)
			require.Equal(t, []store.RunStat{three}, stats)
			stats, err = st.RunStats(t.Context(), tenant, At(10), At(11))
			require.NoError(t, err)
			require.Len(t, stats, 2)
			require.EqualValues(t, 1, stats[0].Runs)
			stats, err = st.RunStats(t.Context(), tenant, time.Time{}, At(10))
			require.NoError(t, err)
			require.Empty(t, stats)
		},
	})
}

func testStats(t *testing.T, s suite) {
	s.each(t, map[string]func(*testing.T, store.Store){
		"what is stored is counted": func(t *testing.T, st store.Store) {
			stats, err := st.Stats(t.Context(), tenant)
			require.NoError(t, err)
			stats.Bytes = 0
			require.Equal(t, store.Stats{}, stats)
			put(t, st, ToolCall("trace:a", "", 1), ToolCall("trace:a", "", 1), LLMCall("trace:a", "", 2), UserMessage("trace:b", "", 3))
			put(t, st, ToolCall("trace:b", "", 4))
			require.NoError(t, st.Append(t.Context(), "other", []ingest.Event{ToolCall("trace:a", "", 1)}))
			require.Equal(t, []string{"trace:a", "trace:b"}, dirtyIDs(t, st))
			stats, err = st.Stats(t.Context(), tenant)
			require.NoError(t, err)
			stats.Bytes, stats.SpoolRows = 0, 0
			require.Equal(t, store.Stats{Events: 5, ToolCallRows: 3, DirtySessions: 2}, stats)
			marks := dirtyOf(t, st, tenant)
			a := row("trace:a", marks["trace:a"], 1, "x", "y")
			a.Summary.LLM.Calls = 4
			require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{a, row("s", 0, 1, "z")}))
			require.NoError(t, st.PutRun(t.Context(), tenant, run("r", "f", "1", "succeeded", 1)))
			stats, err = st.Stats(t.Context(), tenant)
			require.NoError(t, err)
			stats.Bytes, stats.SpoolRows = 0, 0
			require.Equal(t, store.Stats{Events: 5, ToolCallRows: 3, Sessions: 2, ToolCalls: 3, LLMCalls: 4, Runs: 1, DirtySessions: 1}, stats)
			require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{{ID: "s"}, row("trace:a", 0, 1, "x")}))
			stats, err = st.Stats(t.Context(), tenant)
			require.NoError(t, err)
			require.EqualValues(t, 1, stats.Sessions)
			require.EqualValues(t, 1, stats.ToolCalls)
			require.EqualValues(t, 0, stats.LLMCalls)
		},
	})
}
