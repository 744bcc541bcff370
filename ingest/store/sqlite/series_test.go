package sqlite

import (
	"database/sql"
	"io/fs"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"pave/ingest/store"
)

// Sums of parts of days are read from an index that has all of them; lists of sessions come sorted from theirs.
func TestSessionIndexes(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "events.db"), Options{})
	plan := func(query string, args ...any) (text string) {
		rows, err := s.read.Query("EXPLAIN QUERY PLAN "+query, args...)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var id, parent, unused int
			var detail string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
			text += detail + "\n"
		}
		require.NoError(t, rows.Err())
		return text
	}
	require.Contains(t, plan(sessionDayColumns+headOf, spanOf(time.Unix(1, 0), time.Time{}).args(tenant)...),
		"COVERING INDEX sessions_start (tenant=? AND start>? AND start<?)")
	require.Contains(t, plan(runDayColumns+headOf, spanOf(time.Unix(1, 0), time.Time{}).args(tenant)...), "INDEX runs_start (tenant=? AND start>? AND start<?)")
	list := plan("SELECT session, summary FROM sessions WHERE tenant = "+tenantID+" ORDER BY start DESC, session LIMIT 50", tenant)
	require.Contains(t, list, "INDEX sessions_start")
	require.NotContains(t, list, "TEMP B-TREE")
}

func TestSpans(t *testing.T) {
	at := func(ns int64) time.Time { return time.Unix(0, ns) }
	noon := dayNanos / 2
	for name, c := range map[string]struct {
		from, to time.Time
		want     span
	}{
		"open":             {time.Time{}, time.Time{}, span{first: store.NoDay, end: math.MaxInt64}},
		"whole days":       {at(dayNanos), at(3 * dayNanos), span{first: 1, end: 3, headFrom: dayNanos, headTo: dayNanos, tailFrom: 3 * dayNanos, tailTo: 3 * dayNanos}},
		"parts":            {at(noon), at(3*dayNanos + 1), span{first: 1, end: 3, headFrom: noon, headTo: dayNanos, tailFrom: 3 * dayNanos, tailTo: 3*dayNanos + 1}},
		"before 1970":      {at(-noon), at(noon), span{first: 0, end: 0, headFrom: -noon, tailTo: noon}},
		"within a day":     {at(1), at(2), span{first: 1, headFrom: 1, headTo: 2}},
		"backwards":        {at(2), at(1), span{first: 1, headFrom: 2, headTo: 1}},
		"from":             {at(noon), time.Time{}, span{first: 1, end: math.MaxInt64, headFrom: noon, headTo: dayNanos}},
		"to":               {time.Time{}, at(noon), span{first: store.NoDay + 1, end: 0, tailTo: noon}},
		"beyond the years": {time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC), span{first: -106752, end: 106751, headFrom: noTime + 1, headTo: noTime + 1, tailFrom: 106751 * dayNanos, tailTo: math.MaxInt64}},
	} {
		require.Equal(t, c.want, spanOf(c.from, c.to), name)
	}
}

// Days of what was stored before they were kept are there, and go on.
func TestDaysOfAnOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	files, err := fs.Sub(migrations, "migrations")
	require.NoError(t, err)
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), 4)
	require.NoError(t, err)
	exec := func(query string, args ...any) {
		_, err := db.ExecContext(t.Context(), query, args...)
		require.NoError(t, err, query)
	}
	exec("INSERT INTO tenants (id, name) VALUES (1, ?)", tenant)
	for i, start := range []int64{-1, 0, dayNanos - 1, dayNanos, noTime} {
		exec("INSERT INTO sessions VALUES (?, 1, ?, ?, 10, x'', x'', x'')", i+1, start, i+1)
		exec("INSERT INTO runs VALUES (1, ?, 'f', '1', 'succeeded', 'c', ?, 5, 3, 2, '', 1.5, 100, 0.25, 7, NULL)", i, start)
	}
	require.NoError(t, db.Close())
	s := openAt(t, path, Options{})
	days, err := s.SessionDays(t.Context(), tenant, time.Time{}, time.Time{})
	require.NoError(t, err)
	require.Equal(t, []store.SessionDay{{Day: -1, Sessions: 1, ToolCalls: 1, LLMCalls: 10}, {Day: 0, Sessions: 2, ToolCalls: 5, LLMCalls: 20},
		{Day: 1, Sessions: 1, ToolCalls: 4, LLMCalls: 10}}, days)
	require.NoError(t, s.PutRun(t.Context(), tenant, store.Run{ID: "new", Flow: "f", Version: "1", Status: "failed", Start: time.Unix(0, dayNanos), StepsDone: 1}))
	runs, err := s.RunDays(t.Context(), tenant, time.Time{}, time.Time{})
	require.NoError(t, err)
	day := func(day, n int64) store.RunDay {
		return store.RunDay{Day: day, RunStat: store.RunStat{Flow: "f", Version: "1", Runs: n, Succeeded: n, StepsDone: 2 * n, SumDuration: time.Duration(5 * n),
			LLMCallsAvoided: 1.5 * float64(n), TokensAvoided: 100 * float64(n), CostAvoidedUSD: 0.25 * float64(n), LatencyAvoided: time.Duration(7 * n)}}
	}
	last := day(1, 1)
	last.Runs, last.Failed, last.StepsDone = 2, 1, 3
	require.Equal(t, []store.RunDay{day(-1, 1), day(0, 2), last}, runs)
	stats, err := s.RunStats(t.Context(), tenant, time.Time{}, time.Time{})
	require.NoError(t, err)
	require.EqualValues(t, 6, stats[0].Runs, "with the one that has no start")
}
