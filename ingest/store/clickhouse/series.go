package clickhouse

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"pave/ingest/store"
)

// dayOf is the day of a start, rounded down.
const dayOf = `toInt64(floor(toUnixTimestamp64Nano(started) / 86400000000000))`

const inRange = `has_start AND ({timed:UInt8} = 0
    OR toUnixTimestamp64Nano(started) >= {from:Int64} AND toUnixTimestamp64Nano(started) < {to:Int64})`

const sessionDaysSQL = `
SELECT ` + dayOf + ` AS day, toInt64(count()), sum(tool_calls), sum(llm_calls)
FROM sessions FINAL
WHERE tenant = {tenant:String} AND removed = 0 AND ` + inRange + `
GROUP BY day ORDER BY day`

const runDaysSQL = `
SELECT
    ` + dayOf + ` AS day, flow, flow_version, toInt64(count()), toInt64(countIf(status = 'succeeded')), toInt64(countIf(status = 'failed')),
    toInt64(countIf(status = 'handed_back')), toInt64(countIf(status = 'denied')), sum(steps_done), sum(duration), sum(llm_calls_avoided), sum(tokens_avoided),
    sum(cost_avoided_usd), sum(latency_avoided)
FROM runs FINAL
WHERE tenant = {tenant:String} AND ` + inRange + `
GROUP BY day, flow, flow_version ORDER BY day, flow, flow_version`

// SessionDays sums sessions by day. See store.Series.
func (s *Store) SessionDays(ctx context.Context, tenant string, from, to time.Time) ([]store.SessionDay, error) {
	if err := s.current(ctx); err != nil {
		return nil, err
	}
	var days []store.SessionDay
	err := s.query(ctx, "sum sessions by day", sessionDaysSQL, append(timeArgs(from, to), arg("tenant", tenant)), func(rows driver.Rows) error {
		var d store.SessionDay
		err := rows.Scan(&d.Day, &d.Sessions, &d.ToolCalls, &d.LLMCalls)
		days = append(days, d)
		return err
	})
	return days, err
}

// RunDays sums finished runs by day. See store.Series.
func (s *Store) RunDays(ctx context.Context, tenant string, from, to time.Time) ([]store.RunDay, error) {
	if err := s.current(ctx); err != nil {
		return nil, err
	}
	var days []store.RunDay
	err := s.query(ctx, "sum runs by day", runDaysSQL, append(timeArgs(from, to), arg("tenant", tenant)), func(rows driver.Rows) error {
		var d store.RunDay
		var duration, latency int64
		err := rows.Scan(&d.Day, &d.Flow, &d.Version, &d.Runs, &d.Succeeded, &d.Failed, &d.HandedBack, &d.Denied, &d.StepsDone, &duration,
			&d.LLMCallsAvoided, &d.TokensAvoided, &d.CostAvoidedUSD, &latency)
		d.SumDuration, d.LatencyAvoided = time.Duration(duration), time.Duration(latency)
		days = append(days, d)
		return err
	})
	return days, err
}
