package telemetry_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/executor"
	"pave/governance/runs"
	"pave/governance/runs/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

// finished is a run of one call, padded to about so many bytes.
func finished(t *testing.T, id string, bytes int) *runs.Finished {
	t.Helper()
	result, err := executor.EncodeResult(&executor.RunResult{FlowName: "f", Success: true, Status: executor.StatusSucceeded,
		TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", InitialInput: map[string]any{"pad": strings.Repeat("x", bytes)},
		ExecutionLog: []executor.StepRecord{{ToolName: "a", Success: true, StartedAt: start, EndedAt: start.Add(time.Second)}}})
	require.NoError(t, err)
	return &runs.Finished{ID: id, Flow: "f", Version: "1.0.0", State: executor.StatusSucceeded, Started: start, Ended: start.Add(time.Second), Result: result}
}

// counters are the values of the metrics, by name and outcome.
func counters(t *testing.T, e *telemetry.Exporter) map[string]int {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(e))
	families, err := registry.Gather()
	require.NoError(t, err)
	out := map[string]int{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			out[name] = int(m.GetCounter().GetValue())
		}
	}
	return out
}

const (
	sentSpans   = "pave_telemetry_spans_total sent"
	failedSpans = "pave_telemetry_spans_total failed"
	lostRuns    = "pave_telemetry_dropped_runs_total"
)

// TestRunsDoNotWaitForTheReceiver exports to a receiver that takes requests and never answers: the queue fills, the rest
// is dropped and counted, and the end of the process cuts what is on its way.
func TestRunsDoNotWaitForTheReceiver(t *testing.T) {
	release := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-release
	}))
	defer receiver.Close()
	defer close(release)
	e, err := telemetry.New(t.Context(), telemetry.Options{Endpoint: receiver.URL, Values: true})
	require.NoError(t, err)
	const sent, size = 200, 1 << 20
	run := finished(t, "r", size)
	for range sent {
		e.Export(run)
	}
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, e.Close(expired))
	e.Export(run) // one that ends late
	require.NoError(t, e.Close(t.Context()), "closing again does nothing")

	// 16 MiB of results wait; what the worker took meanwhile made room for some more, and the late one is lost in any case.
	lost := counters(t, e)[lostRuns]
	require.Greater(t, lost, 1)
	require.LessOrEqual(t, lost, sent-15+1)
}

func TestTheQueueHoldsSoManyRuns(t *testing.T) {
	release, busy := make(chan struct{}), make(chan struct{}, 1000)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		busy <- struct{}{}
		<-release
	}))
	defer receiver.Close()
	e, err := telemetry.New(t.Context(), telemetry.Options{Endpoint: receiver.URL})
	require.NoError(t, err)
	const sent = 6000
	run := finished(t, "r", 0)
	for range 256 { // a batch of their spans is on its way
		e.Export(run)
	}
	<-busy
	for range sent {
		e.Export(run)
	}
	close(release)
	require.NoError(t, e.Close(t.Context()))
	// 1,024 runs wait in the queue, and behind the batch up to 1,024 spans of those that the worker took meanwhile.
	got := counters(t, e)
	require.Equal(t, sent+256, got[lostRuns]+got[sentSpans]/2, "each run is sent whole or counted as lost")
	require.GreaterOrEqual(t, got[sentSpans]/2, 256+1024)
	require.LessOrEqual(t, got[sentSpans]/2, 256+1024+512+2)
	require.Zero(t, got[failedSpans])
}

func TestRefusedSpansAreCounted(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer receiver.Close()
	e, err := telemetry.New(t.Context(), telemetry.Options{Endpoint: receiver.URL})
	require.NoError(t, err)
	e.Export(finished(t, "r", 0))
	broken := finished(t, "r2", 0)
	broken.Result = json.RawMessage(`{`)
	e.Export(broken)
	unknown := finished(t, "r3", 0)
	unknown.Result, unknown.ErrorCode, unknown.TraceID = nil, "unavailable", "not a trace id"
	e.Export(unknown)
	require.NoError(t, e.Close(t.Context()))
	got := counters(t, e)
	require.Equal(t, map[string]int{failedSpans: 3, sentSpans: 0, lostRuns: 0}, got)
}
