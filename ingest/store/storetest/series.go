package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

func testSeries(t *testing.T, s suite) {
	day := func(n int, hour time.Duration) time.Time {
		return time.Unix(int64(n)*86400, 0).UTC().Add(hour * time.Hour)
	}
	s.each(t, map[string]func(*testing.T, store.Store){
		"sums by day": func(t *testing.T, st store.Store) {
			put := func(id string, start time.Time, calls int) {
				row := store.SessionRow{ID: id, Summary: ingest.SessionSummary{ID: id, Start: start, ToolCalls: calls, UserTurns: 1, LLM: ingest.LLMUsage{Calls: 2}}}
				require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{row}))
			}
			put("a", day(20000, 0), 3)
			put("b", day(20000, 23), 4)
			put("c", day(20002, 1), 5)
			put("c", day(20002, 1), 6) // replaced, not added
			put("d", day(-1, 12), 1)   // before 1970
			put("e", time.Time{}, 9)   // without a start
			days, err := st.SessionDays(t.Context(), tenant, time.Time{}, time.Time{})
			require.NoError(t, err)
			require.Equal(t, []store.SessionDay{{Day: -1, Sessions: 1, ToolCalls: 1, LLMCalls: 2}, {Day: 20000, Sessions: 2, ToolCalls: 7, LLMCalls: 4},
				{Day: 20002, Sessions: 1, ToolCalls: 6, LLMCalls: 2}}, days)
			days, err = st.SessionDays(t.Context(), tenant, day(20000, 1), day(20002, 1))
			require.NoError(t, err)
			require.Equal(t, []store.SessionDay{{Day: 20000, Sessions: 1, ToolCalls: 4, LLMCalls: 2}}, days)
			days, err = st.SessionDays(t.Context(), "other", time.Time{}, time.Time{})
			require.NoError(t, err)
			require.Empty(t, days)

			at := func(id, flow, status string, start time.Time) {
				r := run(id, flow, "1", status, 10)
				r.Start = start
				require.NoError(t, st.PutRun(t.Context(), tenant, r))
			}
			at("r1", "refund", "succeeded", day(20000, 5))
			at("r2", "refund", "failed", day(20000, 6))
			at("r3", "track", "succeeded", day(20000, 7))
			at("r4", "refund", "handed_back", day(20001, 0))
			runs, err := st.RunDays(t.Context(), tenant, time.Time{}, day(20001, 1))
			require.NoError(t, err)
			one := store.RunStat{Flow: "refund", Version: "1", Runs: 2, Succeeded: 1, Failed: 1, StepsDone: 4, SumDuration: 20 * time.Millisecond,
				LLMCallsAvoided: 1, TokensAvoided: 2000.5, CostAvoidedUSD: 0.25, LatencyAvoided: 20}
			require.Len(t, runs, 3)
			require.Equal(t, store.RunDay{Day: 20000, RunStat: one}, runs[0])
			require.Equal(t, "track", runs[1].Flow)
			require.EqualValues(t, 20001, runs[2].Day)
			require.EqualValues(t, 1, runs[2].HandedBack)
		},
	})
}
