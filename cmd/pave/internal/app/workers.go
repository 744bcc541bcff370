package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"pave/executor/bind/worker"
)

// workerMetrics reads the pools when metrics are asked for.
type workerMetrics struct{ pools *worker.Pools }

var (
	queueAge = prometheus.NewDesc("pave_worker_queue_age_seconds", "How long the oldest call of a worker pool has waited.", []string{"tenant", "pool"}, nil)
	queued   = prometheus.NewDesc("pave_worker_queued_calls", "Calls that wait for a worker.", []string{"tenant", "pool"}, nil)
	leased   = prometheus.NewDesc("pave_worker_leased_calls", "Calls that workers have.", []string{"tenant", "pool"}, nil)
	waiting  = prometheus.NewDesc("pave_worker_waiting", "Workers that wait for a call.", []string{"tenant", "pool"}, nil)
	given    = prometheus.NewDesc("pave_worker_given_total", "Calls given to workers.", []string{"tenant", "pool"}, nil)
	expired  = prometheus.NewDesc("pave_worker_expired_leases_total", "Leases that ran out because a worker went silent.", []string{"tenant", "pool"}, nil)
	rejected = prometheus.NewDesc("pave_worker_rejected_total", "Calls refused because a pool was full.", []string{"tenant", "pool"}, nil)
)

// Describe implements prometheus.Collector.
func (m *workerMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queueAge, queued, leased, waiting, given, expired, rejected} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *workerMetrics) Collect(out chan<- prometheus.Metric) {
	for _, p := range m.pools.Stats() {
		send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
			out <- prometheus.MustNewConstMetric(d, kind, v, p.Scope, p.Pool)
		}
		send(queueAge, prometheus.GaugeValue, p.Oldest.Seconds())
		send(queued, prometheus.GaugeValue, float64(p.Queued))
		send(leased, prometheus.GaugeValue, float64(p.Leased))
		send(waiting, prometheus.GaugeValue, float64(p.Waiting))
		send(given, prometheus.CounterValue, float64(p.Given))
		send(expired, prometheus.CounterValue, float64(p.Expired))
		send(rejected, prometheus.CounterValue, float64(p.Rejected))
	}
}
