package store

import (
	"context"
	"time"
)

// Series are sums by UTC day, for reports. Days count from 1970-01-01; what has no start is in no day. The time filter
// is on starts, [from, to), zero leaves a side open.
type Series interface {
	// SessionDays sums the assembled sessions of each day that has some, in order.
	SessionDays(ctx context.Context, tenant string, from, to time.Time) ([]SessionDay, error)
	// RunDays sums the finished runs of each day, flow and version, ordered by these.
	RunDays(ctx context.Context, tenant string, from, to time.Time) ([]RunDay, error)
}

// SessionDay sums the sessions that started on one day.
type SessionDay struct {
	Day                           int64
	Sessions, ToolCalls, LLMCalls int64
}

// RunDay sums the runs of one flow version that started on one day.
type RunDay struct {
	Day int64
	RunStat
}
