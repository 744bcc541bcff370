package store

import "time"

// CallerRow counts the runs of one caller.
type CallerRow struct {
	Caller                   string
	Runs, Succeeded, DryRuns int64
}

// RunsByCaller counts the runs that started in [from, to), by caller; zero leaves a side open.
func (r *Reader) RunsByCaller(tenant string, from, to time.Time) ([]CallerRow, error) {
	return collect(r, func(s scanner) (c CallerRow, err error) {
		err = s.Scan(&c.Caller, &c.Runs, &c.Succeeded, &c.DryRuns)
		return c, err
	}, `SELECT caller, sum(dry_run = 0), sum(dry_run = 0 AND state = 'succeeded'), sum(dry_run) FROM runs
		WHERE tenant = ? AND started_at >= ? AND (? = 0 OR started_at < ?) GROUP BY caller`, tenant, micros(from), micros(to), micros(to))
}

// AuditByActor counts the audit events in [from, to), by actor, without those that only say that a flow was run or called; zero
// leaves a side open.
func (r *Reader) AuditByActor(tenant string, from, to time.Time) (map[string]int64, error) {
	out := map[string]int64{}
	err := each(r, func(s scanner) (c CallerRow, err error) {
		err = s.Scan(&c.Caller, &c.Runs)
		return c, err
	}, func(c CallerRow) error { out[c.Caller] = c.Runs; return nil }, `SELECT actor, count(*) FROM audit_events
		WHERE tenant = ? AND at >= ? AND (? = 0 OR at < ?) AND action NOT IN ('run.start', 'mcp.call') GROUP BY actor`, tenant, micros(from), micros(to), micros(to))
	return out, err
}
