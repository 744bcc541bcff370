// Package telemetry exports finished flow runs as OpenTelemetry spans of the GenAI conventions over OTLP/HTTP: one span
// for the run and one below it for each call. Runs never wait for it: what does not fit its queue is dropped and counted.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"pave/governance/runs"
)

// ScopeName is the instrumentation scope of the spans, and ResourceInstallation the attribute of their resource that names
// the installation which ran the flows.
const (
	ScopeName            = "pave/runs"
	ResourceInstallation = "pave.installation"
)

// Bounds of what waits to be sent.
const (
	maxQueuedRuns  = 1024
	maxQueuedBytes = 16 << 20
	maxBatch       = 512
	batchEvery     = time.Second
	sendTimeout    = 10 * time.Second
)

// Options say where spans go.
type Options struct {
	// Endpoint is the URL of a receiver of OTLP/HTTP, such as http://127.0.0.1:4318/v1/traces.
	Endpoint string
	// Headers go with every request.
	Headers map[string]string
	// Values adds the redacted arguments and results of the calls, and the input and output of the run. Without it spans
	// tell names, times and codes only.
	Values bool
	// Installation is the value of ResourceInstallation.
	Installation string
	Version      string       // of pave
	Logger       *slog.Logger // nil discards
}

// Exporter sends finished runs. It is safe for concurrent use. Close it.
type Exporter struct {
	log     *slog.Logger
	values  bool
	client  sdktrace.SpanExporter
	batches sdktrace.SpanProcessor
	tracer  trace.Tracer

	mu     sync.RWMutex // Close takes it alone
	closed bool
	queue  chan *runs.Finished
	bytes  atomic.Int64 // of the queued results
	worked chan struct{}

	spans *prometheus.CounterVec
	lost  prometheus.Counter
}

var _ runs.Exporter = (*Exporter)(nil)

// New starts an exporter. Nothing is sent before a run has ended, and a receiver that is away is no error.
func New(ctx context.Context, o Options) (*Exporter, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	// Every option is given, because the SDK takes those that are not from variables that are meant for agents.
	headers := o.Headers
	if headers == nil {
		headers = map[string]string{}
	}
	client, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint), otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression), otlptracehttp.WithTimeout(sendTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: sendTimeout}))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	e := &Exporter{log: o.Logger, values: o.Values, client: client, queue: make(chan *runs.Finished, maxQueuedRuns), worked: make(chan struct{}),
		spans: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pave_telemetry_spans_total",
			Help: "Spans of flow runs for the telemetry endpoint, by what became of them."}, []string{"outcome"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{Name: "pave_telemetry_dropped_runs_total",
			Help: "Finished flow runs that were not exported because the queue had no room."})}
	e.spans.WithLabelValues("sent")
	e.spans.WithLabelValues("failed")
	e.batches = sdktrace.NewBatchSpanProcessor(&counted{next: client, spans: e.spans, log: o.Logger}, sdktrace.WithBlocking(),
		sdktrace.WithBatchTimeout(batchEvery), sdktrace.WithMaxExportBatchSize(maxBatch), sdktrace.WithMaxQueueSize(2*maxBatch),
		sdktrace.WithExportTimeout(2*sendTimeout))
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(e.batches), sdktrace.WithIDGenerator(givenIDs{}), sdktrace.WithSampler(all{}),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "pave"), attribute.String("service.version", o.Version),
			attribute.String(ResourceInstallation, o.Installation))),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{AttributeValueLengthLimit: -1, AttributeCountLimit: 64}))
	e.tracer = provider.Tracer(ScopeName, trace.WithInstrumentationVersion(o.Version))
	go e.work()
	return e, nil
}

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(ch chan<- *prometheus.Desc) { e.spans.Describe(ch); e.lost.Describe(ch) }

// Collect implements prometheus.Collector.
func (e *Exporter) Collect(ch chan<- prometheus.Metric) { e.spans.Collect(ch); e.lost.Collect(ch) }

// Export implements runs.Exporter: it takes a finished run, or counts it as dropped, and never waits.
func (e *Exporter) Export(run *runs.Finished) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	size := int64(len(run.Result))
	if e.closed || e.bytes.Add(size) > maxQueuedBytes {
		e.drop(size)
		return
	}
	select {
	case e.queue <- run:
	default:
		e.drop(size)
	}
}

func (e *Exporter) drop(size int64) {
	if !e.closed {
		e.bytes.Add(-size)
	}
	e.lost.Inc()
}

// work turns queued runs into spans until the queue is closed and empty.
func (e *Exporter) work() {
	defer close(e.worked)
	for run := range e.queue {
		if err := e.record(run); err != nil {
			e.log.Error("export a run", "run_id", run.ID, "error", err)
		}
		e.bytes.Add(-int64(len(run.Result)))
	}
}

// Close sends what is queued, as long as ctx lasts, and stops. Runs that come later are counted as dropped.
func (e *Exporter) Close(ctx context.Context) error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	close(e.queue)
	e.mu.Unlock()
	select {
	case <-e.worked:
	case <-ctx.Done():
	}
	err := e.batches.Shutdown(ctx)
	if err != nil { // what is on its way is cut, and what would follow fails at once
		err = e.client.Shutdown(context.Background())
	}
	<-e.worked
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	return nil
}

// counted counts what became of spans. A failure is told in the log, here and not through the SDK's global handler.
type counted struct {
	next  sdktrace.SpanExporter
	spans *prometheus.CounterVec
	log   *slog.Logger
}

// ExportSpans implements sdktrace.SpanExporter.
func (c *counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := c.next.ExportSpans(ctx, spans); err != nil {
		c.spans.WithLabelValues("failed").Add(float64(len(spans)))
		c.log.WarnContext(ctx, "spans of flow runs could not be exported", "spans", len(spans), "error", err)
		return nil
	}
	c.spans.WithLabelValues("sent").Add(float64(len(spans)))
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (c *counted) Shutdown(ctx context.Context) error { return c.next.Shutdown(ctx) }
