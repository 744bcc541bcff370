package clickhouse

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"pave/ingest/store"
)

// PutRun makes a finished run durable in the spool. See store.Store.
func (s *Store) PutRun(ctx context.Context, tenant string, run store.Run) error {
	if s.closed.Load() {
		return errClosed
	}
	if err := s.spool.add(ctx, runEntry, tenant, []chunk{{body: encodeRun(&run), rows: 1}}); err != nil {
		return err
	}
	signal(s.ship.more)
	return nil
}

const runsSQL = `
SELECT
    id, flow, flow_version, status, caller, has_start, toUnixTimestamp64Nano(started), duration, steps, steps_done, error_code, result,
    llm_calls_avoided, tokens_avoided, cost_avoided_usd, latency_avoided
FROM runs FINAL
WHERE tenant = {tenant:String} AND id IN (
    SELECT id FROM runs FINAL
    WHERE tenant = {tenant:String}
      AND ({id:String} = '' OR id = {id:String})
      AND ({flow:String} = '' OR flow = {flow:String})
      AND ({status:String} = '' OR status = {status:String})
      AND ({paged:UInt8} = 0
           OR has_start < {after_known:UInt8}
           OR has_start = {after_known:UInt8} AND (toUnixTimestamp64Nano(started) < {after:Int64}
                                                   OR toUnixTimestamp64Nano(started) = {after:Int64} AND id > {after_id:String}))
    ORDER BY has_start DESC, started DESC, id
    LIMIT {limit:Int64})
ORDER BY has_start DESC, started DESC, id`

// Runs lists finished runs. See store.Store.
func (s *Store) Runs(ctx context.Context, tenant string, filter store.RunFilter) (store.Page[store.Run], error) {
	var page store.Page[store.Run]
	limit := or(filter.Limit, store.DefaultLimit)
	args, err := cursorArgs(filter.Cursor)
	if err != nil {
		return page, err
	}
	if err := s.current(ctx); err != nil {
		return page, err
	}
	args = append(args, arg("tenant", tenant), arg("id", filter.ID), arg("flow", filter.Flow), arg("status", filter.Status), arg("limit", int64(limit)+1))
	err = s.query(ctx, "list runs", runsSQL, args, func(rows driver.Rows) error {
		run, err := scanRun(rows)
		page.Items = append(page.Items, run)
		return err
	})
	if err != nil {
		return store.Page[store.Run]{}, err
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		last := page.Items[limit-1]
		page.Next = store.Position{Start: last.Start, ID: last.ID}.Cursor()
	}
	return page, nil
}

func scanRun(rows driver.Rows) (store.Run, error) {
	var run store.Run
	var known uint8
	var start, duration, steps, done, latency int64
	var result string
	err := rows.Scan(
		&run.ID, &run.Flow, &run.Version, &run.Status, &run.Caller, &known, &start, &duration, &steps, &done, &run.ErrorCode, &result,
		&run.LLMCallsAvoided, &run.TokensAvoided, &run.CostAvoidedUSD, &latency)
	run.Start, run.Duration, run.LatencyAvoided = instant(known == 1, start), time.Duration(duration), time.Duration(latency)
	run.Steps, run.StepsDone, run.Result = int(steps), int(done), raw(result)
	return run, err
}

const runStatsSQL = `
SELECT
    flow, flow_version, toInt64(count()), toInt64(countIf(status = 'succeeded')), toInt64(countIf(status = 'failed')),
    toInt64(countIf(status = 'handed_back')), toInt64(countIf(status = 'denied')), sum(steps_done), sum(duration), sum(llm_calls_avoided), sum(tokens_avoided),
    sum(cost_avoided_usd), sum(latency_avoided)
FROM runs FINAL
WHERE tenant = {tenant:String}
  AND ({timed:UInt8} = 0 OR has_start AND toUnixTimestamp64Nano(started) >= {from:Int64} AND toUnixTimestamp64Nano(started) < {to:Int64})
GROUP BY flow, flow_version
ORDER BY flow, flow_version`

// RunStats sums finished runs. See store.Store.
func (s *Store) RunStats(ctx context.Context, tenant string, from, to time.Time) ([]store.RunStat, error) {
	if err := s.current(ctx); err != nil {
		return nil, err
	}
	var stats []store.RunStat
	args := append(timeArgs(from, to), arg("tenant", tenant))
	err := s.query(ctx, "sum runs", runStatsSQL, args, func(rows driver.Rows) error {
		var st store.RunStat
		var duration, latency int64
		err := rows.Scan(&st.Flow, &st.Version, &st.Runs, &st.Succeeded, &st.Failed, &st.HandedBack, &st.Denied, &st.StepsDone, &duration,
			&st.LLMCallsAvoided, &st.TokensAvoided, &st.CostAvoidedUSD, &latency)
		st.SumDuration, st.LatencyAvoided = time.Duration(duration), time.Duration(latency)
		stats = append(stats, st)
		return err
	})
	return stats, err
}
