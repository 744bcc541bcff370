package api

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics is the service's own registry; nothing is registered globally.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	records  *prometheus.CounterVec
}

// heapLive is the heap as the last collection left it, which tells growth from garbage.
var heapLive = regexp.MustCompile(`^/gc/heap/live:bytes$`)

func newMetrics(status Status, mining Mining) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pave_http_requests_total", Help: "Requests by operation and status."}, []string{"operation", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pave_http_request_seconds", Help: "Time to answer by operation.",
			Buckets: []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10}}, []string{"operation"}),
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pave_ingest_records_total", Help: "Records of the JSON API by outcome."}, []string{"outcome"}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.records,
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: heapLive})),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if status != nil {
		m.registry.MustRegister(&storeCollector{status: status})
	}
	if mining != nil {
		m.registry.MustRegister(&miningCollector{status: mining.Status})
	}
	return m
}

func (m *metrics) request(operation string, status int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(operation).Observe(took.Seconds())
}

func (m *metrics) ingested(accepted, duplicates, rejected int) {
	m.records.WithLabelValues("accepted").Add(float64(accepted))
	m.records.WithLabelValues("duplicate").Add(float64(duplicates))
	m.records.WithLabelValues("rejected").Add(float64(rejected))
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// storeCollector reads the event store's counts when metrics are asked for.
type storeCollector struct{ status Status }

// collectTimeout bounds how long a scrape may wait for the event store.
const collectTimeout = 5 * time.Second

func storeGauge(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("pave_store_"+name, help, nil, nil)
}

var (
	gaugeEvents   = storeGauge("events", "Stored events, copies included.")
	gaugeCalls    = storeGauge("tool_calls", "Tool calls in assembled sessions.")
	gaugeSessions = storeGauge("sessions", "Assembled sessions.")
	gaugeDirty    = storeGauge("dirty_sessions", "Sessions that wait for assembly.")
	gaugeSpool    = storeGauge("spool_rows", "Acknowledged events that the engine does not have yet.")
	gaugeRuns     = storeGauge("runs", "Finished flow runs.")
)

// Describe implements prometheus.Collector.
func (*storeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{gaugeEvents, gaugeCalls, gaugeSessions, gaugeDirty, gaugeSpool, gaugeRuns} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *storeCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	stats, err := s.status.Stats(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(gaugeEvents, err)
		return
	}
	for desc, n := range map[*prometheus.Desc]int64{gaugeEvents: stats.Events, gaugeCalls: stats.ToolCalls,
		gaugeSessions: stats.Sessions, gaugeDirty: stats.DirtySessions, gaugeSpool: stats.SpoolRows, gaugeRuns: stats.Runs} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n))
	}
}
