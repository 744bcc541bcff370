package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

// recount is what sums have to be, from the newest row of every session and run.
type recount struct {
	sessions map[string]ingest.SessionSummary
	runs     map[string]store.Run
}

func dayNumber(start time.Time) int64 {
	day := start.Unix() / 86400
	if start.Unix()%86400 < 0 {
		day--
	}
	return day
}

func in(start, from, to time.Time) bool {
	return !start.IsZero() && (from.IsZero() || !start.Before(from)) && (to.IsZero() || start.Before(to))
}

func (m *recount) sessionDays(from, to time.Time) []store.SessionDay {
	days := map[int64]store.SessionDay{}
	for _, sum := range m.sessions {
		if in(sum.Start, from, to) {
			d := days[dayNumber(sum.Start)]
			d.Day = dayNumber(sum.Start)
			d.Sessions, d.ToolCalls, d.LLMCalls = d.Sessions+1, d.ToolCalls+int64(sum.ToolCalls), d.LLMCalls+sum.LLM.Calls
			days[d.Day] = d
		}
	}
	return slices.SortedFunc(maps.Values(days), func(a, b store.SessionDay) int { return cmp.Compare(a.Day, b.Day) })
}

// runDays sums by day; with day given by one number for all it sums over all days.
func (m *recount) runDays(day func(store.Run) (int64, bool)) []store.RunDay {
	type key struct {
		day           int64
		flow, version string
	}
	days := map[key]store.RunDay{}
	for _, id := range slices.Sorted(maps.Keys(m.runs)) {
		r := m.runs[id]
		n, ok := day(r)
		if !ok {
			continue
		}
		k := key{n, r.Flow, r.Version}
		d := days[k]
		d.Day, d.Flow, d.Version = n, r.Flow, r.Version
		d.Runs++
		switch r.Status {
		case "succeeded":
			d.Succeeded++
		case "failed":
			d.Failed++
		case "handed_back":
			d.HandedBack++
		case "denied":
			d.Denied++
		}
		d.StepsDone += int64(r.StepsDone)
		d.SumDuration += r.Duration
		d.LLMCallsAvoided += r.LLMCallsAvoided
		d.TokensAvoided += r.TokensAvoided
		d.CostAvoidedUSD += r.CostAvoidedUSD
		d.LatencyAvoided += r.LatencyAvoided
		days[k] = d
	}
	return slices.SortedFunc(maps.Values(days), func(a, b store.RunDay) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.Version, b.Version))
	})
}

// check compares every sum over a range.
func (m *recount) check(t *testing.T, st store.Store, from, to time.Time) {
	t.Helper()
	said := fmt.Sprint(from, " to ", to)
	sessions, err := st.SessionDays(t.Context(), tenant, from, to)
	require.NoError(t, err)
	require.Equal(t, m.sessionDays(from, to), sessions, said)
	days, err := st.RunDays(t.Context(), tenant, from, to)
	require.NoError(t, err)
	require.Equal(t, m.runDays(func(r store.Run) (int64, bool) { return dayNumber(r.Start), in(r.Start, from, to) }), days, said)
	stats, err := st.RunStats(t.Context(), tenant, from, to)
	require.NoError(t, err)
	var all []store.RunStat
	for _, d := range m.runDays(func(r store.Run) (int64, bool) { return 0, in(r.Start, from, to) || from.IsZero() && to.IsZero() }) {
		all = append(all, d.RunStat)
	}
	require.Equal(t, all, stats, said)
}

// testSums puts, replaces and deletes sessions and runs at random, so that they move from day to day, and recounts.
func testSums(t *testing.T, s suite) {
	st := s.fresh(t)
	random := rand.New(rand.NewPCG(11, 13))
	m := &recount{sessions: map[string]ingest.SessionSummary{}, runs: map[string]store.Run{}}
	moment := func() time.Time {
		switch random.IntN(8) {
		case 0:
			return time.Time{}
		case 1: // a midnight
			return time.Unix(int64(random.IntN(5)-2)*86400, 0).UTC()
		case 2: // the last instant before one
			return time.Unix(int64(random.IntN(5)-2)*86400, -1).UTC()
		}
		return time.Unix(random.Int64N(4*86400)-2*86400, random.Int64N(1e9)).UTC()
	}
	for round := range 16 {
		var rows []store.SessionRow
		for range 1 + random.IntN(4) {
			id := fmt.Sprint("s", random.IntN(12))
			sum := ingest.SessionSummary{ID: id, Start: moment(), ToolCalls: random.IntN(3), LLM: ingest.LLMUsage{Calls: random.Int64N(3)}}
			rows = append(rows, store.SessionRow{ID: id, Summary: sum})
			if m.sessions[id] = sum; sum.ToolCalls == 0 && sum.LLM.Calls == 0 {
				delete(m.sessions, id)
			}
		}
		require.NoError(t, st.PutSessions(t.Context(), tenant, rows))
		require.NoError(t, st.PutSessions(t.Context(), "other", rows))
		for range 1 + random.IntN(3) {
			r := run(fmt.Sprint("r", random.IntN(20)), fmt.Sprint("flow", random.IntN(2)), fmt.Sprint(1+random.IntN(2)),
				[]string{"succeeded", "failed", "handed_back", "denied", "cancelled"}[random.IntN(5)], random.IntN(50))
			r.Start, r.StepsDone = moment(), random.IntN(4)
			r.CostAvoidedUSD = float64(random.IntN(64)) / 64 // sums of such are exact in any order
			m.runs[r.ID] = r
			require.NoError(t, st.PutRun(t.Context(), tenant, r))
		}
		if round%5 == 4 {
			id := fmt.Sprint("s", random.IntN(12))
			delete(m.sessions, id)
			_, err := st.Delete(t.Context(), tenant, []string{id})
			require.NoError(t, err)
		}
		m.check(t, st, time.Time{}, time.Time{})
		from := moment()
		m.check(t, st, from, moment())
		if !from.IsZero() {
			m.check(t, st, from, from.Add(time.Hour)) // mostly within one day
		}
	}
}
