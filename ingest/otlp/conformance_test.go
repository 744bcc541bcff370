package otlp

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/deadletter"
)

const goodIDs = `"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"00f067aa0ba902b7"`

// jsonSpan is a trace request with one tool call and further members of the span.
func jsonSpan(ids, more string) string {
	return `{"resourceSpans":[{"scopeSpans":[{"spans":[{` + ids + `,"name":"execute_tool a","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.name","value":{"stringValue":"a"}}` + more + `]}]}`
}

// TestConformance is the table of what a receiver must do, by the numbers of its rows. Rows that other tests hold: 16
// TestDeepAndLongValues, 17 and 18 TestRefusals and TestBodyLimits, 19 TestGRPCSizes, 23 TestRecorderErrors and
// TestGRPCErrors, 25 TestRepeatedLogIsOneCall and TestInvariance, 27 and 28 (keys, browsers) the API's, 29
// TestChunkedBody, 30 and 31 (ports, timeouts) the service's.
//
// Deliberate differences from the collector's receiver: 10 null ids are read as absent, 13 an empty JSON body succeeds, 14
// spans without ids are rejected one by one, 18 a body that is too large is 413, 26 a panic is answered.
func TestConformance(t *testing.T) {
	good := jsonSpan(goodIDs, "") + `]}]}`
	protobuf := func() []byte {
		req := ptraceotlp.NewExportRequest()
		require.NoError(t, req.UnmarshalJSON([]byte(good)))
		body, err := req.MarshalProto()
		require.NoError(t, err)
		return body
	}()
	attr := func(value string) string {
		return jsonSpan(goodIDs, `,{"key":"gen_ai.tool.call.arguments","value":`+value+`}`) + `]}]}`
	}
	for _, c := range []struct {
		row         int
		name        string
		method      string
		path        string
		contentType string
		body        string
		status      int
		calls       int
		args        string
		answer      string
	}{
		{row: 1, name: "metrics are taken", path: "/v1/metrics", contentType: typeJSON, body: `{"resourceMetrics":[]}`, status: 200},
		{row: 1, name: "metrics in protobuf", path: "/v1/metrics", contentType: typeProto, body: "\x0a\x00", status: 200},
		{row: 2, name: "protobuf with parameters", contentType: typeProto + "; charset=utf-8", body: string(protobuf), status: 200, calls: 1},
		{row: 3, name: "json", contentType: typeJSON, body: good, status: 200, calls: 1, answer: "{}"},
		{row: 4, name: "other type", contentType: "text/plain", body: good, status: 415},
		{row: 4, name: "no type", body: good, status: 415},
		{row: 4, name: "get", method: "GET", contentType: typeJSON, status: 405},
		{row: 4, name: "put", method: "PUT", contentType: typeJSON, body: good, status: 405},
		{row: 4, name: "other path", path: "/v1/spans", contentType: typeJSON, body: good, status: 404},
		{row: 5, name: "ids in capitals", contentType: typeJSON, body: jsonSpan(`"traceId":"0AF7651916CD43DD8448EB211C80319C","spanId":"00F067AA0BA902B7"`, "") + `]}]}`, status: 200, calls: 1},
		{row: 5, name: "base64 ids", contentType: typeJSON, body: jsonSpan(`"traceId":"AAAAAAAAAAAAAAAAAAAAAQ==","spanId":"AAAAAAAAAAE="`, "") + `]}]}`, status: 400},
		{row: 6, name: "integers as text", contentType: typeJSON, body: attr(`{"kvlistValue":{"values":[{"key":"n","value":{"intValue":"9007199254740993"}}]}}`), status: 200, calls: 1, args: `{"n":9007199254740993}`},
		{row: 6, name: "integers as numbers", contentType: typeJSON, body: attr(`{"kvlistValue":{"values":[{"key":"n","value":{"intValue":9007199254740993}}]}}`), status: 200, calls: 1, args: `{"n":9007199254740993}`},
		{row: 7, name: "names of enums are read", contentType: typeJSON, body: strings.Replace(good, `"name":`, `"kind":"SPAN_KIND_CLIENT","name":`, 1), status: 200, calls: 1},
		{row: 8, name: "unknown fields", contentType: typeJSON, body: strings.Replace(good, `"name":`, `"futureField":{"x":[1]},"name":`, 1), status: 200, calls: 1},
		{row: 8, name: "unknown fields in protobuf", contentType: typeProto, body: string(protobuf) + "\xfa\x3f\x03abc", status: 200, calls: 1},
		{row: 9, name: "snake case is read", contentType: typeJSON, body: strings.NewReplacer("resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "traceId", "trace_id", "spanId", "span_id", "stringValue", "string_value").Replace(good), status: 200, calls: 1},
		{row: 10, name: "null attributes", contentType: typeJSON, body: `{"resourceSpans":[{"scopeSpans":[{"spans":[{` + goodIDs + `,"name":"x","attributes":null}]}]}]}`, status: 200},
		{row: 10, name: "null parent", contentType: typeJSON, body: strings.Replace(good, `"name":`, `"parentSpanId":null,"name":`, 1), status: 200, calls: 1},
		{row: 11, name: "fields of before 1.0", contentType: typeJSON, body: `{"resourceSpans":[{"instrumentationLibrarySpans":[]}]}`, status: 200, answer: "update the exporter"},
		{row: 12, name: "the last of two attributes", contentType: typeJSON, body: jsonSpan(goodIDs, `,{"key":"gen_ai.tool.call.arguments","value":{"stringValue":"{\"x\":1}"}},{"key":"gen_ai.tool.call.arguments","value":{"stringValue":"{\"x\":2}"}}`) + `]}]}`, status: 200, calls: 1, args: `{"x":2}`},
		{row: 12, name: "no number and no value", contentType: typeJSON, body: attr(`{"arrayValue":{"values":[{"doubleValue":"NaN"},{}]}}`), status: 200, calls: 1, args: `{"input":["NaN",null]}`},
		{row: 13, name: "empty protobuf", contentType: typeProto, status: 200},
		{row: 13, name: "empty object", contentType: typeJSON, body: "{}", status: 200},
		{row: 13, name: "empty json", contentType: typeJSON, body: " \n", status: 200},
		{row: 14, name: "zero ids", contentType: typeJSON, body: jsonSpan(`"traceId":"00000000000000000000000000000000","spanId":"0000000000000000"`, "") + `]}]}`, status: 200, answer: `"rejectedSpans":"1"`},
		{row: 15, name: "invalid UTF-8", contentType: typeProto, body: strings.Replace(string(protobuf), "execute_tool a", "execute_tool \xff", 1), status: 200, calls: 1},
		{row: 21, name: "bad json", contentType: typeJSON, body: `{"resourceSpans":7}`, status: 400, answer: `"code":3`},
		{row: 21, name: "bad protobuf", contentType: typeProto, body: "\xff\xff", status: 400},
	} {
		t.Run(fmt.Sprintf("%02d %s", c.row, c.name), func(t *testing.T) {
			rec := &sinkRecorder{}
			url := serve(t, rec, Options{})
			method, path := c.method, c.path
			if method == "" {
				method = http.MethodPost
			}
			if path == "" {
				path = "/v1/traces"
			}
			a := send(t, method, url+path, c.contentType, "", []byte(c.body))
			require.Equal(t, c.status, a.status, string(a.body))
			require.Equal(t, c.calls, countCalls(rec.events))
			if c.args != "" {
				require.Equal(t, c.args, string(rec.events[0].Call.Args))
			}
			require.Contains(t, string(a.body), c.answer)
			if c.status == 400 {
				require.Equal(t, c.contentType, a.header.Get("Content-Type"), "in the encoding of the request")
				require.Equal(t, int32(3), problem(t, a).Code)
			}
		})
	}
}

// Row 24: an answer is given after the recorder's, which is after the commit.
func TestAcknowledgedAfterRecording(t *testing.T) {
	slow := &slowRecorder{started: make(chan struct{}), finish: make(chan struct{})}
	url := serve(t, slow, Options{})
	answered := make(chan int, 1)
	body := capture(t, "genai-semconv-manual/proto/01-traces.binpb")
	go func() { answered <- send(t, http.MethodPost, url+"/v1/traces", typeProto, "", body).status }()
	<-slow.started
	select {
	case <-answered:
		t.Fatal("answered before the events were recorded")
	case <-time.After(20 * time.Millisecond):
	}
	close(slow.finish)
	require.Equal(t, 200, <-answered)
}

// Row 31: bytes in flight are bounded, over all requests.
func TestBytesInFlightAreBounded(t *testing.T) {
	body := capture(t, "genai-semconv-manual/proto/01-traces.binpb")
	slow := &slowRecorder{started: make(chan struct{}), finish: make(chan struct{})}
	url := serve(t, slow, Options{InFlight: ingest.NewInFlight(int64(len(body)) * 3 / 2)})
	first := make(chan int, 1)
	go func() { first <- send(t, http.MethodPost, url+"/v1/traces", typeProto, "", body).status }()
	<-slow.started
	second := send(t, http.MethodPost, url+"/v1/traces", typeProto, "", body)
	require.Equal(t, 503, second.status)
	require.Equal(t, "1", second.header.Get("Retry-After"))
	close(slow.finish)
	require.Equal(t, 200, <-first)
	go func() { first <- send(t, http.MethodPost, url+"/v1/traces", typeProto, "", body).status }()
	<-slow.started
	require.Equal(t, 200, <-first, "what was held is given back")
}

// Row 26 and dead letters: what cannot be read is kept, what panics is answered, and both can be taken again.
func TestDeadLetters(t *testing.T) {
	letters, err := deadletter.Open(t.TempDir(), []byte("key"), deadletter.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, letters.Close()) })
	rec := &sinkRecorder{}
	url := serve(t, rec, Options{DeadLetters: letters})
	for _, c := range []struct{ contentType, body string }{{typeJSON, `{"resourceSpans":7}`}, {typeProto, "\xff\xff"}, {typeJSON, "{"}} {
		require.Equal(t, 400, send(t, http.MethodPost, url+"/v1/traces", c.contentType, "", []byte(c.body)).status)
	}
	require.Equal(t, 413, send(t, http.MethodPost, serve(t, rec, Options{DeadLetters: letters, Limits: ingest.Limits{Inflated: 3}})+"/v1/logs", typeJSON, "", []byte("{    }")).status)
	ids := letters.IDs()
	require.Len(t, ids, 3, "what is too large is not kept")
	l, err := letters.Get(ids[1])
	require.NoError(t, err)
	require.Equal(t, []string{"traces", "protobuf", "default", "\xff\xff"}, []string{l.Signal, l.Encoding, l.Tenant, string(l.Body)})
	require.NotEmpty(t, l.Reason)

	rec.panics = true
	good := capture(t, "genai-semconv-manual/json/01-traces.json")
	require.Equal(t, 500, send(t, http.MethodPost, url+"/v1/traces", typeJSON, "", good).status)
	rec.panics = false
	require.Len(t, letters.IDs(), 4)
	h := New(rec, Options{})
	for i, id := range letters.IDs() {
		l, err := letters.Get(id)
		require.NoError(t, err)
		stats, err := h.Replay(t.Context(), l)
		if i < 3 {
			require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 12, stats.Total)
		require.NoError(t, letters.Delete(id))
	}
	require.Equal(t, 8, countCalls(rec.events))
	require.Len(t, letters.IDs(), 3)
}

// TestMapping: a user's own attributes, on spans and on log records, without code.
func TestMapping(t *testing.T) {
	m := &Mapping{Sessions: []string{"acme.chat"}, Calls: []CallMapping{{Name: "acme", When: map[string]string{"acme.kind": "tool", "acme.tool": "*"}, Tool: []string{"acme.tool"}, CallID: []string{"acme.id"},
		Arguments: []string{"acme.in", "acme.input"}, Result: []string{"acme.out"}, Error: []string{"acme.error"}, Agent: []string{"acme.bot"}, Run: []string{"acme.run"}}}}
	require.NoError(t, m.Check())
	own := attrs{"acme.kind": "tool", "acme.tool": "find", "acme.id": int64(7), "acme.input": `{"q":1}`, "acme.out": attrs{"r": int64(1)}, "acme.chat": "s1", "acme.bot": "b", "acme.run": "r1", "session.id": "other"}
	td, ss := scope()
	spanOf(ss, 2, 1, "x", own)
	spanOf(ss, 3, 1, "execute_tool a", tool("a", "", ""))
	spanOf(ss, 4, 1, "y", attrs{"acme.kind": "tool", "acme.tool": "find", "acme.error": "boom"})
	events, _ := Reader{Mapping: m}.MapTraces(td)
	require.Len(t, events, 3)
	e := events[0]
	require.Equal(t, ingest.ToolCall{Tool: "find", CallID: "7", Args: []byte(`{"q":1}`), Result: []byte(`{"r":1}`), Status: ingest.StatusOK}, *e.Call)
	require.Equal(t, []string{"s1", "b", "r1", "otlp/acme"}, []string{e.SessionID, e.Agent, e.RunID, e.Source})
	require.Equal(t, "otlp/genai", events[1].Source, "known dialects go on")
	require.Equal(t, []string{"error", "boom"}, []string{string(events[2].Call.Status), events[2].Call.Error})
	logs, _ := Reader{Mapping: m}.MapLogs(logOf("x", own))
	require.Equal(t, []string{"find", "s1"}, []string{logs[0].Call.Tool, logs[0].SessionID})
	for _, bad := range []Mapping{{Calls: []CallMapping{{When: map[string]string{"a": "b"}}}}, {Calls: []CallMapping{{Name: "x"}}}} {
		require.Equal(t, flows.CodeInvalid, flows.CodeOf(bad.Check()))
	}
}

// send is post with a method.
func send(t *testing.T, method, url, contentType, contentEncoding string, body []byte) answer {
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	require.NoError(t, err)
	return do(t, req, contentType, contentEncoding)
}
