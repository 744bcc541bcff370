package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"pave/governance/loop"
)

// miningCollector reads how the mining loop stands when metrics are asked for.
type miningCollector struct{ status func() loop.Status }

func miningMetric(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("pave_mining_"+name, help, nil, nil)
}

var (
	miningRunning     = miningMetric("running", "1 while a pass runs.")
	miningPending     = miningMetric("pending_sessions", "Sessions assembled since the last pass began.")
	miningPasses      = miningMetric("passes_total", "Passes since the process began.")
	miningFailures    = miningMetric("pass_failures_total", "Passes that failed.")
	miningIncremental = miningMetric("incremental_passes_total", "Passes that counted only the days that had changed.")
	miningSeconds     = miningMetric("last_pass_seconds", "Duration of the last pass.")
	miningEnded       = miningMetric("last_pass_end_timestamp_seconds", "When the last pass ended.")
	miningCalls       = miningMetric("calls", "Agents' own tool calls that the last pass covers.")
	miningPatterns    = miningMetric("patterns", "Patterns that the last pass found.")
	miningBlocked     = miningMetric("blocked_paths", "Frequent paths that the last pass found blocked.")
)

// Describe implements prometheus.Collector.
func (*miningCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{miningRunning, miningPending, miningPasses, miningFailures, miningIncremental, miningSeconds,
		miningEnded, miningCalls, miningPatterns, miningBlocked} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *miningCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.status()
	running := 0.0
	if s.Running {
		running = 1
	}
	gauge := func(desc *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v)
	}
	total := func(desc *prometheus.Desc, n int) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n))
	}
	gauge(miningRunning, running)
	gauge(miningPending, float64(s.PendingSessions))
	total(miningPasses, s.Passes)
	total(miningFailures, s.Failures)
	total(miningIncremental, s.Incremental)
	if l := s.Last; l != nil {
		gauge(miningSeconds, l.Ended.Sub(l.Started).Seconds())
		gauge(miningEnded, float64(l.Ended.UnixMilli())/1000)
		gauge(miningCalls, float64(l.Calls))
		gauge(miningPatterns, float64(l.Patterns))
		gauge(miningBlocked, float64(l.Blocked))
	}
}
