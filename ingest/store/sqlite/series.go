package sqlite

import (
	"context"
	"time"

	"pave/ingest/store"
)

// dayOf is the day of a start in nanoseconds, rounded down.
const dayOf = `((start - (start % 86400000000000 + 86400000000000) % 86400000000000) / 86400000000000)`

// SessionDays sums sessions by day; see store.Series.
func (s *Store) SessionDays(ctx context.Context, tenant string, from, to time.Time) ([]store.SessionDay, error) {
	where, args := timeRange(store.SequenceFilter{From: from, To: to})
	rows, err := s.read.QueryContext(ctx, `SELECT `+dayOf+` AS day, count(*), sum(tool_calls), sum(llm_calls) FROM sessions WHERE tenant = `+tenantID+
		where+` AND start <> ? GROUP BY day ORDER BY day`, append(append([]any{tenant}, args...), int64(noTime))...)
	if err != nil {
		return nil, s.wrap("sum sessions of", err)
	}
	defer rows.Close()
	var days []store.SessionDay
	for rows.Next() {
		var d store.SessionDay
		if err := rows.Scan(&d.Day, &d.Sessions, &d.ToolCalls, &d.LLMCalls); err != nil {
			return nil, s.wrap("sum sessions of", err)
		}
		days = append(days, d)
	}
	return days, s.wrap("sum sessions of", rows.Err())
}

// RunDays sums finished runs by day; see store.Series.
func (s *Store) RunDays(ctx context.Context, tenant string, from, to time.Time) ([]store.RunDay, error) {
	where, args := timeRange(store.SequenceFilter{From: from, To: to})
	rows, err := s.read.QueryContext(ctx, `SELECT `+dayOf+` AS day, flow, version, count(*), sum(status = 'succeeded'), sum(status = 'failed'),
		sum(status = 'handed_back'), sum(steps_done), sum(duration), sum(llm_calls_avoided), sum(tokens_avoided), sum(cost_avoided_usd),
		sum(latency_avoided) FROM runs WHERE tenant = `+tenantID+where+` AND start <> ? GROUP BY day, flow, version ORDER BY day, flow, version`,
		append(append([]any{tenant}, args...), int64(noTime))...)
	if err != nil {
		return nil, s.wrap("sum runs of", err)
	}
	defer rows.Close()
	var days []store.RunDay
	for rows.Next() {
		var d store.RunDay
		if err := rows.Scan(&d.Day, &d.Flow, &d.Version, &d.Runs, &d.Succeeded, &d.Failed, &d.HandedBack, &d.StepsDone, &d.SumDuration,
			&d.LLMCallsAvoided, &d.TokensAvoided, &d.CostAvoidedUSD, &d.LatencyAvoided); err != nil {
			return nil, s.wrap("sum runs of", err)
		}
		days = append(days, d)
	}
	return days, s.wrap("sum runs of", rows.Err())
}
