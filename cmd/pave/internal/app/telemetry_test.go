package app

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"pave/api"
	"pave/api/gen"
	"pave/governance"
	"pave/governance/loop"
	"pave/ingest"
)

// collector receives OTLP over HTTP as any other receiver does.
type collector struct {
	url string

	mu      sync.Mutex
	headers http.Header
	text    strings.Builder // every request as JSON
	spans   []ptrace.Span
	scopes  map[string]int
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{scopes: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		raw, err := io.ReadAll(unzipped)
		req := ptraceotlp.NewExportRequest()
		if err != nil || req.UnmarshalProto(raw) != nil {
			t.Errorf("no trace request at %s", r.URL)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.headers = r.Header
		text, _ := req.MarshalJSON()
		c.text.Write(text)
		for i := range req.Traces().ResourceSpans().Len() {
			scopes := req.Traces().ResourceSpans().At(i).ScopeSpans()
			for j := range scopes.Len() {
				for k := range scopes.At(j).Spans().Len() {
					c.scopes[scopes.At(j).Scope().Name()]++
					c.spans = append(c.spans, scopes.At(j).Spans().At(k))
				}
			}
		}
		answer, _ := ptraceotlp.NewExportResponse().MarshalProto()
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(server.Close)
	c.url = server.URL + "/v1/traces"
	return c
}

// all is every received span by name; it fails where two have one name.
func (c *collector) all(t *testing.T) map[string]ptrace.Span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]ptrace.Span{}
	for _, s := range c.spans {
		require.NotContains(t, out, s.Name())
		out[s.Name()] = s
	}
	return out
}

func attribute(s ptrace.Span, key string) string {
	v, ok := s.Attributes().Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

const tracedTools = `kind: Tool
name: find_order
description: Finds.
input_schema: {type: object, properties: {order: {type: string}}, required: [order]}
output_schema: {type: object, properties: {ship: {type: string}}, required: [ship]}
safety: {side_effects: read, idempotent: true, source: declared}
binding: {kind: http, method: POST, url: "URL/find"}
---
kind: Tool
name: find_ship
description: Finds.
input_schema: {type: object, properties: {ship: {type: string}}, required: [ship]}
output_schema: {type: object, properties: {at: {type: string}}, required: [at]}
safety: {side_effects: read, idempotent: true, source: declared}
binding: {kind: http, method: POST, url: "URL/ship"}
`

const tracedFlow = `{"format_version":"1.1","type":"Flow","name":"where_is","version":"0.1.0","description":"Finds a ship.",
	"input_schema":{"type":"object","properties":{"order":{"type":"string"}},"required":["order"]},
	"steps":[{"tool_name":"find_order","input_mapping":{"order":"order"},"output_as":"found"},
		{"tool_name":"find_ship","input_mapping":{"ship":"/found/ship"},"output_as":"seen"}]}`

// desk answers the two tools and keeps the trace context of their calls, by path.
func desk(t *testing.T) (url string, parents func() map[string]string) {
	t.Helper()
	var mu sync.Mutex
	seen := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.URL.Path] = r.Header.Get("Traceparent")
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch body, _ := io.ReadAll(r.Body); {
		case r.URL.Path == "/find":
			_, _ = w.Write([]byte(`{"ship":"ship-of-` + string(body[len(`{"order":"`):len(body)-2]) + `"}`))
		case strings.Contains(string(body), "sunk"):
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = w.Write([]byte(`{"at":"harbour"}`))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() map[string]string {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// traced opens an installation with the flow where_is in service.
func traced(t *testing.T, telemetry TelemetryOptions) (a *App, c *gen.ClientWithResponses, parents func() map[string]string) {
	t.Helper()
	url, parents := desk(t)
	a = open(t, func(o *Options) {
		o.Solo, o.Telemetry, o.EgressAllow = true, telemetry, []string{strings.TrimPrefix(url, "http://")}
	})
	c, ctx := clientOf(t, a, ""), t.Context()
	tools, err := c.ApplyToolsWithBodyWithResponse(ctx, "application/yaml", strings.NewReader(strings.ReplaceAll(tracedTools, "URL", url)))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, tools.StatusCode(), string(tools.Body))
	made, err := c.SubmitProposalWithResponse(ctx, nil, gen.ProposalCreate{Flow: json.RawMessage(tracedFlow)})
	require.NoError(t, err)
	ok, err := c.ReviewProposalWithResponse(ctx, made.JSON201.ID, &gen.ReviewProposalParams{IfMatch: `"1"`}, gen.ReviewCreate{Verdict: gen.VerdictApprove, Digest: made.JSON201.Digest})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, ok.StatusCode(), string(ok.Body))
	done, err := c.PromoteProposalWithResponse(ctx, made.JSON201.ID, &gen.PromoteProposalParams{IfMatch: ok.HTTPResponse.Header.Get("ETag")}, gen.PromoteRequest{})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, done.StatusCode(), string(done.Body))
	return a, c, parents
}

func runTraced(t *testing.T, c *gen.ClientWithResponses, order, parent string) *gen.Run {
	t.Helper()
	run, err := c.RunFlowWithResponse(t.Context(), "where_is", &gen.RunFlowParams{Traceparent: parent}, gen.RunRequest{Input: json.RawMessage(`{"order":"` + order + `"}`)})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, run.StatusCode(), string(run.Body))
	return run.JSON200
}

const (
	callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan  = "00f067aa0ba902b7"
)

func TestRunsAreExportedAsSpans(t *testing.T) {
	to := newCollector(t)
	t.Setenv("COLLECTOR_KEY", "collector-secret")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Agent=theirs") // it is for agents
	a, c, parents := traced(t, TelemetryOptions{Endpoint: to.url, Headers: []string{"Authorization=Bearer {{secret:COLLECTOR_KEY}}"}})
	run := runTraced(t, c, "o-1", "00-"+callerTrace+"-"+callerSpan+"-01")
	require.Equal(t, "succeeded", string(run.Status))
	require.NoError(t, a.Close()) // what is left is sent

	require.Equal(t, "Bearer collector-secret", to.headers.Get("Authorization"))
	require.Empty(t, to.headers.Get("X-Agent"))
	spans := to.all(t)
	require.Len(t, spans, 3)
	flow, first, second := spans["invoke_workflow where_is"], spans["execute_tool find_order"], spans["execute_tool find_ship"]
	require.Equal(t, map[string]int{"pave/runs": 3}, to.scopes)
	for _, s := range spans {
		require.Equal(t, callerTrace, s.TraceID().String())
		require.Equal(t, "pave="+run.ID, s.TraceState().AsRaw())
	}
	require.Equal(t, callerSpan, flow.ParentSpanID().String())
	require.Equal(t, flow.SpanID(), first.ParentSpanID())
	require.Equal(t, flow.SpanID(), second.ParentSpanID())
	require.Equal(t, []string{"invoke_workflow", "where_is", "1.0.0", run.ID, "succeeded"}, []string{attribute(flow, "gen_ai.operation.name"),
		attribute(flow, "gen_ai.workflow.name"), attribute(flow, "pave.flow.version"), attribute(flow, "pave.run.id"), attribute(flow, "pave.run.status")})
	require.Equal(t, []string{"execute_tool", "find_ship"}, []string{attribute(second, "gen_ai.operation.name"), attribute(second, "gen_ai.tool.name")})
	require.WithinDuration(t, run.StartedAt, flow.StartTimestamp().AsTime(), time.Millisecond)
	require.False(t, second.StartTimestamp().AsTime().Before(first.EndTimestamp().AsTime()), "the steps ran in their order")
	require.False(t, flow.EndTimestamp().AsTime().Before(second.EndTimestamp().AsTime()))
	// What tools export themselves hangs below their step.
	require.Equal(t, "00-"+callerTrace+"-"+first.SpanID().String()+"-01", parents()["/find"])
	require.Equal(t, "00-"+callerTrace+"-"+second.SpanID().String()+"-01", parents()["/ship"])
	for _, value := range []string{"o-1", "harbour"} {
		require.NotContains(t, to.text.String(), value, "values are not exported unless it is asked for")
	}
}

func TestFailedRunsAndValuesAreExported(t *testing.T) {
	to := newCollector(t)
	a, c, _ := traced(t, TelemetryOptions{Endpoint: to.url, Values: true})
	run := runTraced(t, c, "sunk", "")
	require.NotEqual(t, "succeeded", string(run.Status))
	require.NoError(t, a.Close())
	spans := to.all(t)
	require.Len(t, spans, 3)
	flow, first, second := spans["invoke_workflow where_is"], spans["execute_tool find_order"], spans["execute_tool find_ship"]
	require.True(t, flow.ParentSpanID().IsEmpty())
	require.JSONEq(t, `{"order":"sunk"}`, attribute(first, "gen_ai.tool.call.arguments"))
	require.JSONEq(t, `{"ship":"ship-of-sunk"}`, attribute(first, "gen_ai.tool.call.result"))
	require.JSONEq(t, `{"order":"sunk"}`, attribute(flow, "pave.run.input"))
	require.Equal(t, ptrace.StatusCodeUnset, first.Status().Code())
	for _, failed := range []ptrace.Span{flow, second} {
		require.Equal(t, ptrace.StatusCodeError, failed.Status().Code(), failed.Name())
		require.Regexp(t, `^CW-E\d{3}$`, attribute(failed, "error.type"), failed.Name())
	}
	require.Empty(t, attribute(second, "gen_ai.tool.call.result"))
}

// TestOwnTelemetryComesBackWithoutEcho sends the spans of runs to the installation itself and to another one.
func TestOwnTelemetryComesBackWithoutEcho(t *testing.T) {
	other := open(t, nil)
	for name, to := range map[string]*App{"itself": nil, "another": other} {
		t.Run(name, func(t *testing.T) {
			var a *App
			target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if to == nil {
					to = a
				}
				to.receiver.Traces().ServeHTTP(w, r.WithContext(api.WithActor(r.Context(), to.localActor())))
			}))
			defer target.Close()
			var c *gen.ClientWithResponses
			a, c, _ = traced(t, TelemetryOptions{Endpoint: target.URL + "/v1/traces", Values: true})
			for range 6 {
				runTraced(t, c, "o-1", "")
			}
			// The calls of the runs are recorded by the runs themselves, in sessions of their own.
			require.NoError(t, a.telemetry.Close(t.Context()))
			_, err := to.assembler.Run(t.Context(), ingest.DefaultTenant, time.Time{})
			require.NoError(t, err)
			var sessions []string
			page, err := clientOf(t, to, "").ListSessionsWithResponse(t.Context(), nil)
			require.NoError(t, err)
			for _, s := range page.JSON200.Items {
				sessions = append(sessions, s.ID)
			}
			require.Len(t, sessions, 6)
			for _, id := range sessions {
				require.Equal(t, to == other, !strings.HasPrefix(id, "flow-run:"), id)
			}
			calls, err := clientOf(t, to, "").ListToolCallsWithResponse(t.Context(), nil)
			require.NoError(t, err)
			require.Len(t, calls.JSON200.Items, 12, "each call once")
			mined, err := loop.New(loop.Options{Queue: to.gate, Assembler: to.assembler, Events: to.events}).MineOnce(t.Context(), to.localActor(), governance.MiningRequest{MinSessions: 2})
			require.NoError(t, err)
			require.Zero(t, mined.Result.Calls, "what flows called is no walk of an agent")
			require.Equal(t, 12, mined.Result.FlowCalls)
			require.Empty(t, mined.Result.Patterns)
		})
	}
}

func TestTelemetrySettingsAreChecked(t *testing.T) {
	for name, o := range map[string]TelemetryOptions{
		"no endpoint": {Values: true}, "no URL": {Endpoint: "127.0.0.1:4318"}, "scheme": {Endpoint: "grpc://127.0.0.1:4317"},
		"user": {Endpoint: "http://me:key@127.0.0.1:4318"}, "header": {Endpoint: "http://127.0.0.1:1", Headers: []string{"no value"}},
		"header name": {Endpoint: "http://127.0.0.1:1", Headers: []string{"a b=c"}}, "line break": {Endpoint: "http://127.0.0.1:1", Headers: []string{"a=b\r\nc"}},
	} {
		require.Len(t, o.Check(), 1, name)
	}
	good := TelemetryOptions{Endpoint: "https://collector.example.com/v1/traces", Headers: []string{"Authorization=Bearer {{secret:K}}"}}
	require.Empty(t, good.Check())
	_, err := Open(t.Context(), Options{DataDir: t.TempDir(), Telemetry: good})
	require.ErrorContains(t, err, "secret K")
}
