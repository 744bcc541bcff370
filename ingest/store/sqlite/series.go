package sqlite

import (
	"context"
	"database/sql"
	"math"
	"time"

	"pave/ingest/store"
)

// dayNanos is a day in nanoseconds.
const dayNanos = int64(24 * time.Hour)

// dayOf is the day of a start in nanoseconds, rounded down.
const dayOf = `((start - (start % 86400000000000 + 86400000000000) % 86400000000000) / 86400000000000)`

func floorDay(ns int64) int64 {
	day := ns / dayNanos
	if ns%dayNanos < 0 {
		day--
	}
	return day
}

// dayStart is the first instant of a day, in nanoseconds; days at the ends of what these can hold begin or end there.
func dayStart(day int64) int64 {
	switch {
	case day > math.MaxInt64/dayNanos:
		return math.MaxInt64
	case day < math.MinInt64/dayNanos:
		return noTime + 1
	}
	return day * dayNanos
}

// span is a time range as sums read it: whole days as triggers have summed them, the parts of days at its ends from the rows.
type span struct {
	first, end       int64 // days of [first, end) are whole
	headFrom, headTo int64 // starts of [from, to) before them, in nanoseconds
	tailFrom, tailTo int64 // and after
}

// spanOf splits [from, to); zero leaves a side open. What has no start is only in a range that is open at both sides.
func spanOf(from, to time.Time) span {
	s := span{first: store.NoDay, end: math.MaxInt64}
	if from.IsZero() && to.IsZero() {
		return s
	}
	s.first++
	a, b := nanos(from), nanos(to)
	if !from.IsZero() {
		if s.first = floorDay(a); dayStart(s.first) < a {
			s.first++
		}
		s.headFrom, s.headTo = a, dayStart(s.first)
	}
	if !to.IsZero() {
		s.end = floorDay(b)
		s.tailFrom, s.tailTo = dayStart(s.end), b
	}
	if s.end < s.first { // within one day
		s.headFrom, s.headTo, s.tailFrom, s.tailTo = a, b, 0, 0
	}
	return s
}

// timed leaves out what has no start.
func (s span) timed() span {
	s.first = max(s.first, store.NoDay+1)
	return s
}

func (s span) args(tenant string) []any {
	return []any{sql.Named("tenant", tenant), sql.Named("first", s.first), sql.Named("end", s.end), sql.Named("head_from", s.headFrom),
		sql.Named("head_to", s.headTo), sql.Named("tail_from", s.tailFrom), sql.Named("tail_to", s.tailTo)}
}

const (
	ofTenant  = ` WHERE tenant = (SELECT id FROM tenants WHERE name = :tenant)`
	wholeDays = ofTenant + ` AND day >= :first AND day < :end`
	headOf    = ofTenant + ` AND start >= :head_from AND start < :head_to`
	tailOf    = ofTenant + ` AND start >= :tail_from AND start < :tail_to`

	sessionDayColumns = `SELECT ` + dayOf + ` AS day, count(*), sum(tool_calls), sum(llm_calls) FROM sessions`
	sessionDaysSQL    = `SELECT day, sessions, tool_calls, llm_calls FROM session_days` + wholeDays + ` AND sessions > 0
		UNION ALL ` + sessionDayColumns + headOf + ` GROUP BY 1 UNION ALL ` + sessionDayColumns + tailOf + ` GROUP BY 1 ORDER BY 1`

	runDayColumns = `SELECT ` + dayOf + ` AS day, flow, version, count(*), sum(status = 'succeeded'), sum(status = 'failed'),
		sum(status = 'handed_back'), sum(status = 'denied'), sum(steps_done), sum(duration), sum(llm_calls_avoided), sum(tokens_avoided), sum(cost_avoided_usd),
		sum(latency_avoided) FROM runs`
	runDaysSQL = `SELECT day, flow, version, runs, succeeded, failed, handed_back, denied, steps_done, duration, llm_calls_avoided, tokens_avoided,
		cost_avoided_usd, latency_avoided FROM run_days` + wholeDays + `
		UNION ALL ` + runDayColumns + headOf + ` GROUP BY 1, 2, 3 UNION ALL ` + runDayColumns + tailOf + ` GROUP BY 1, 2, 3`
	runStatsSQL = `SELECT flow, version, sum(runs), sum(succeeded), sum(failed), sum(handed_back), sum(denied), sum(steps_done), sum(duration),
		sum(llm_calls_avoided), sum(tokens_avoided), sum(cost_avoided_usd), sum(latency_avoided) FROM (` + runDaysSQL + `)
		GROUP BY flow, version ORDER BY flow, version`
)

// SessionDays sums sessions by day; see store.Series.
func (s *Store) SessionDays(ctx context.Context, tenant string, from, to time.Time) ([]store.SessionDay, error) {
	var days []store.SessionDay
	err := s.sums(ctx, "sessions", sessionDaysSQL, spanOf(from, to).timed().args(tenant), func(rows *sql.Rows) error {
		var d store.SessionDay
		err := rows.Scan(&d.Day, &d.Sessions, &d.ToolCalls, &d.LLMCalls)
		days = append(days, d)
		return err
	})
	return days, err
}

// RunDays sums finished runs by day; see store.Series.
func (s *Store) RunDays(ctx context.Context, tenant string, from, to time.Time) ([]store.RunDay, error) {
	var days []store.RunDay
	err := s.sums(ctx, "runs", runDaysSQL+" ORDER BY 1, 2, 3", spanOf(from, to).timed().args(tenant), func(rows *sql.Rows) error {
		var d store.RunDay
		err := scanStat(rows, &d.RunStat, &d.Day)
		days = append(days, d)
		return err
	})
	return days, err
}

// RunStats sums finished runs; see store.Store.
func (s *Store) RunStats(ctx context.Context, tenant string, from, to time.Time) ([]store.RunStat, error) {
	var stats []store.RunStat
	err := s.sums(ctx, "runs", runStatsSQL, spanOf(from, to).args(tenant), func(rows *sql.Rows) error {
		var r store.RunStat
		err := scanStat(rows, &r)
		stats = append(stats, r)
		return err
	})
	return stats, err
}

func scanStat(rows *sql.Rows, r *store.RunStat, before ...any) error {
	return rows.Scan(append(before, &r.Flow, &r.Version, &r.Runs, &r.Succeeded, &r.Failed, &r.HandedBack, &r.Denied, &r.StepsDone, &r.SumDuration,
		&r.LLMCallsAvoided, &r.TokensAvoided, &r.CostAvoidedUSD, &r.LatencyAvoided)...)
}

// sums calls fn with each row of a query over sums.
func (s *Store) sums(ctx context.Context, what, query string, args []any, fn func(*sql.Rows) error) error {
	doing := "sum " + what + " of"
	rows, err := s.read.QueryContext(ctx, query, args...)
	if err != nil {
		return s.wrap(doing, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return s.wrap(doing, err)
		}
	}
	return s.wrap(doing, rows.Err())
}
