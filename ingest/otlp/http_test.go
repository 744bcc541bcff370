package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"pave/flows"
	"pave/ingest"
)

// sinkRecorder keeps events, or answers with its error.
type sinkRecorder struct {
	mu      sync.Mutex
	events  []ingest.Event
	tenants []string
	batches []int
	err     error
	panics  bool
}

func (s *sinkRecorder) Record(_ context.Context, tenant string, events []ingest.Event) (ingest.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.panics {
		panic("boom")
	}
	if s.err != nil {
		return ingest.Receipt{}, s.err
	}
	s.events, s.tenants, s.batches = append(s.events, events...), append(s.tenants, tenant), append(s.batches, len(events))
	return ingest.Receipt{Accepted: len(events)}, nil
}

// serve starts a receiver over rec.
func serve(t *testing.T, rec Recorder, opts Options) string {
	mux := http.NewServeMux()
	New(rec, opts).Register(mux)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return srv.URL
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func post(t *testing.T, url, contentType, contentEncoding string, body []byte) answer {
	t.Helper()
	return send(t, http.MethodPost, url, contentType, contentEncoding, body)
}

func do(t *testing.T, req *http.Request, contentType, contentEncoding string) answer {
	t.Helper()
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if contentEncoding != "" {
		req.Header.Set("Content-Encoding", contentEncoding)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return answer{res.StatusCode, res.Header, out}
}

func capture(t testing.TB, name string) []byte {
	dir, err := os.Getwd()
	require.NoError(t, err)
	body, err := os.ReadFile(filepath.Join(dir, "..", "..", "testdata", "otlp", filepath.FromSlash(name)))
	require.NoError(t, err)
	return body
}

func gz(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func zst(b []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	defer w.Close()
	return w.EncodeAll(b, nil)
}

const (
	typeProto = "application/x-protobuf"
	typeJSON  = "application/json"
)

func plain(b []byte) []byte { return b }

func TestReceiveAllEncodings(t *testing.T) {
	protobuf, text := capture(t, "genai-semconv-manual/proto/01-traces.binpb"), capture(t, "genai-semconv-manual/json/01-traces.json")
	for name, c := range map[string]struct {
		contentType, encoding string
		body                  []byte
		pack                  func([]byte) []byte
	}{
		"protobuf": {typeProto, "", protobuf, plain}, "protobuf gzip": {typeProto, "gzip", protobuf, gz}, "protobuf zstd": {typeProto, "zstd", protobuf, zst},
		"json": {typeJSON + "; charset=utf-8", "identity", text, plain}, "json gzip": {typeJSON, "gzip", text, gz}, "json zstd": {typeJSON, "zstd", text, zst},
	} {
		t.Run(name, func(t *testing.T) {
			rec := &sinkRecorder{}
			url := serve(t, rec, Options{Sender: func(*http.Request) Sender { return Sender{Tenant: "acme"} }})
			a := post(t, url+"/v1/traces", c.contentType, c.encoding, c.pack(c.body))
			require.Equal(t, http.StatusOK, a.status, string(a.body))
			require.Equal(t, []string{"acme"}, rec.tenants)
			calls := 0
			for _, e := range rec.events {
				if e.Call != nil {
					calls++
				}
			}
			require.Equal(t, 8, calls)
			res := ptraceotlp.NewExportResponse()
			if strings.HasPrefix(c.contentType, typeJSON) {
				require.Equal(t, typeJSON, a.header.Get("Content-Type"))
				require.JSONEq(t, "{}", string(a.body), "partial success is not set")
				require.NoError(t, res.UnmarshalJSON(a.body))
			} else {
				require.Equal(t, typeProto, a.header.Get("Content-Type"))
				require.NoError(t, res.UnmarshalProto(a.body))
				require.Zero(t, res.PartialSuccess().RejectedSpans())
			}
		})
	}
}

// problem decodes a google.rpc.Status in the encoding of the request.
func problem(t *testing.T, a answer) *rpcstatus.Status {
	var s rpcstatus.Status
	if a.header.Get("Content-Type") == typeProto {
		require.NoError(t, proto.Unmarshal(a.body, &s))
	} else {
		require.Equal(t, typeJSON, a.header.Get("Content-Type"))
		require.NoError(t, protojson.Unmarshal(a.body, &s), string(a.body))
	}
	require.NotEmpty(t, s.Message)
	return &s
}

func TestRefusals(t *testing.T) {
	body := capture(t, "genai-semconv-manual/proto/01-traces.binpb")
	rec := &sinkRecorder{}
	url := serve(t, rec, Options{Limits: ingest.Limits{Body: 64 << 10, Inflated: 2 << 20, Ratio: 100}})
	zeros := bytes.Repeat([]byte{0}, 64<<20)
	for name, c := range map[string]struct {
		contentType, encoding string
		body                  []byte
		status                int
		code                  int32
	}{
		"other type":          {"text/plain", "", body, 415, 3},
		"no type":             {"", "", body, 415, 3},
		"other encoding":      {typeProto, "br", body, 415, 3},
		"not gzip":            {typeProto, "gzip", body, 400, 3},
		"cut gzip":            {typeProto, "gzip", gz(body)[:200], 400, 3},
		"not protobuf":        {typeProto, "", []byte("\xff\xff\xffgarbage"), 400, 3},
		"cut protobuf":        {typeProto, "", body[:len(body)-7], 400, 3},
		"protobuf as json":    {typeJSON, "", body, 400, 3},
		"json as protobuf":    {typeProto, "", []byte(`{"resourceSpans":[]}`), 400, 3},
		"base64 ids":          {typeJSON, "", []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"AAAAAAAAAAAAAAAAAAAAAQ=="}]}]}]}`), 400, 3},
		"gzip bomb":           {typeProto, "gzip", gz(zeros), 413, 8},
		"zstd bomb":           {typeProto, "zstd", zst(zeros), 413, 8},
		"nested gzip":         {typeProto, "gzip", gz(gz(zeros)), 400, 3},
		"empty spans":         {typeProto, "", wrapped(bytes.Repeat([]byte{2<<3 | 2, 0}, 800_000), 2, 1), 413, 8},
		"large plain body":    {typeProto, "", zeros[:2<<20+1], 413, 8},
		"large packed body":   {typeProto, "gzip", append(gz(body), bytes.Repeat(gz(body), 64)...), 413, 8},
		"many members of one": {typeProto, "gzip", bytes.Repeat(gz(zeros[:1<<20]), 16), 413, 8},
	} {
		t.Run(name, func(t *testing.T) {
			a := post(t, url+"/v1/traces", c.contentType, c.encoding, c.body)
			require.Equal(t, c.status, a.status, string(a.body))
			require.Equal(t, c.code, problem(t, a).Code)
			require.Empty(t, a.header.Get("Retry-After"))
			if strings.HasPrefix(c.contentType, typeProto) {
				require.Equal(t, typeProto, a.header.Get("Content-Type"))
			}
		})
	}
	require.Empty(t, rec.events)
	res, err := http.Get(url + "/v1/traces")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 405, res.StatusCode)
	require.Equal(t, "POST", res.Header.Get("Allow"))
}

func TestBodyLimits(t *testing.T) {
	body := capture(t, "genai-semconv-manual/proto/01-traces.binpb")
	for over, status := range map[int64]int{0: 200, 1: 413} {
		url := serve(t, &sinkRecorder{}, Options{Limits: ingest.Limits{Inflated: int64(len(body)) - over}})
		require.Equal(t, status, post(t, url+"/v1/traces", typeProto, "", body).status)
		require.Equal(t, status, post(t, url+"/v1/traces", typeProto, "gzip", gz(body)).status)
		url = serve(t, &sinkRecorder{}, Options{Limits: ingest.Limits{Body: int64(len(gz(body))) - over}})
		require.Equal(t, status, post(t, url+"/v1/traces", typeProto, "gzip", gz(body)).status)
	}
}

func TestEmptyAndOtherSignals(t *testing.T) {
	rec := &sinkRecorder{}
	url := serve(t, rec, Options{})
	for _, path := range []string{"/v1/traces", "/v1/logs", "/v1/metrics"} {
		require.Equal(t, 200, post(t, url+path, typeProto, "", nil).status, path)
		a := post(t, url+path, typeJSON, "", []byte("{}"))
		require.Equal(t, 200, a.status, path)
		require.JSONEq(t, "{}", string(a.body))
	}
	require.Equal(t, 404, post(t, url+"/v1/other", typeProto, "", nil).status)
	require.Empty(t, rec.events)
	a := post(t, url+"/v1/logs", typeProto, "", capture(t, "codex-cli/02-logs.binpb"))
	require.Equal(t, 200, a.status)
	require.NoError(t, plogotlp.NewExportResponse().UnmarshalProto(a.body))
	calls := 0
	for _, e := range rec.events {
		if e.Call != nil {
			calls++
		}
	}
	require.Equal(t, 2, calls)
}

func TestPartialSuccess(t *testing.T) {
	rec := &sinkRecorder{}
	url := serve(t, rec, Options{})
	span := func(trace string) string {
		return `{"traceId":"` + trace + `","spanId":"00f067aa0ba902b7","name":"execute_tool a","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.name","value":{"stringValue":"a"}}]}`
	}
	body := `{"resourceSpans":[{"scopeSpans":[{"spans":[` + span("0af7651916cd43dd8448eb211c80319c") + "," + span("00000000000000000000000000000000") + "," + span("") + `]}]}]}`
	a := post(t, url+"/v1/traces", typeJSON, "", []byte(body))
	require.Equal(t, 200, a.status)
	require.JSONEq(t, `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"2 of 3 entries cannot be used: a span has no trace or span id"}}`, string(a.body))
	require.Len(t, rec.events, 1)

	a = post(t, url+"/v1/traces", typeJSON, "", []byte(`{"resourceSpans":[{"instrumentationLibrarySpans":[{"spans":[]}]}]}`))
	require.Equal(t, 200, a.status)
	require.Contains(t, string(a.body), "update the exporter")
}

func TestRecorderErrors(t *testing.T) {
	body := capture(t, "genai-semconv-manual/proto/01-traces.binpb")
	for name, c := range map[string]struct {
		err    error
		status int
		code   int32
		retry  string
	}{
		"full":        {&flows.Error{Code: flows.CodeFull, Message: "full", Err: &ingest.RetryError{After: 1500 * time.Millisecond}}, 503, 14, "2"},
		"unavailable": {flows.NewError(flows.CodeUnavailable, "away"), 503, 14, "1"},
		"rate":        {flows.NewError(flows.CodeRateLimited, "slower"), 429, 8, "1"},
		"internal":    {errors.New("secret detail"), 500, 13, ""},
		"unknown":     {flows.NewError(flows.CodeConflict, "odd"), 500, 13, ""},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, &sinkRecorder{err: c.err}, Options{})
			a := post(t, url+"/v1/traces", typeProto, "", body)
			require.Equal(t, c.status, a.status)
			require.Equal(t, c.retry, a.header.Get("Retry-After"))
			status := problem(t, a)
			require.Equal(t, c.code, status.Code)
			require.NotContains(t, status.Message, "secret")
		})
	}
	url := serve(t, &sinkRecorder{panics: true}, Options{})
	a := post(t, url+"/v1/traces", typeJSON, "", capture(t, "genai-semconv-manual/json/01-traces.json"))
	require.Equal(t, 500, a.status, "a panic is an answer, and not a retryable one")
	require.Equal(t, int32(13), problem(t, a).Code)
}

func TestLargeRequestsAreRecordedInParts(t *testing.T) {
	rec := &sinkRecorder{}
	url := serve(t, rec, Options{Limits: ingest.Limits{Group: 5}})
	require.Equal(t, 200, post(t, url+"/v1/traces", typeProto, "", capture(t, "genai-semconv-manual/proto/01-traces.binpb")).status)
	require.Equal(t, []int{5, 5, 2}, rec.batches)
}

func TestChunkedBody(t *testing.T) {
	rec := &sinkRecorder{}
	url := serve(t, rec, Options{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/traces", io.MultiReader(bytes.NewReader(capture(t, "genai-semconv-manual/json/01-traces.json"))))
	require.NoError(t, err)
	req.Header.Set("Content-Type", typeJSON)
	require.Zero(t, req.ContentLength)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 200, res.StatusCode)
	require.NotEmpty(t, rec.events)
}

func fuzzMap(t *testing.T, data []byte, encoding Encoding) {
	rd := Reader{Limits: ingest.Limits{Depth: 16, Tokens: 1000}, Mapping: &Mapping{Sessions: []string{"x"}, Calls: []CallMapping{{Name: "own", When: map[string]string{"own": "*"}, Arguments: []string{"own"}}}}}
	for _, read := range []func([]byte, Encoding) ([]ingest.Event, Stats, error){rd.Traces, rd.Logs} {
		events, stats, err := read(data, encoding)
		if err != nil {
			continue
		}
		if len(events) != stats.Events {
			t.Fatalf("%d events, %d counted", len(events), stats.Events)
		}
		for i := range events {
			line := ingest.AppendRecord(nil, &events[i])
			if !json.Valid(line) {
				t.Fatalf("invalid event %q", line)
			}
		}
		ingest.AssembleAll("t", events, ingest.AssembleOptions{})
	}
}

// seeds are small requests, one of each dialect's shape: the fuzzer is slow on whole captures.
func seeds() (traces []ptraceotlp.ExportRequest, logs []plogotlp.ExportRequest) {
	for _, a := range []attrs{
		{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "a", "gen_ai.tool.call.arguments": `{"x":[1,"y"]}`, "gen_ai.tool.call.result": attrs{"r": []any{int64(1), 2.5, nil}}},
		{"gen_ai.operation.name": "chat", "gen_ai.input.messages": `[{"role":"user","parts":[{"content":"hi"}]}]`, "gen_ai.output.messages": `[{"parts":[{"type":"tool_call","id":"c"}]}]`},
		{"openinference.span.kind": "TOOL", "input.value": "x", "output.value": `{"output":{"lc":1,"kwargs":{"content":"{}"}}}`},
		{"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "user", "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c"},
		{"traceloop.span.kind": "tool", "traceloop.entity.input": `{"args":[],"kwargs":{"q":1}}`},
		{"gen_ai.operation.name": "invoke_agent", "session.id": "s"},
	} {
		td, ss := scope()
		s := spanOf(ss, 2, 1, "execute_tool a", a)
		e := s.Events().AppendEmpty()
		e.SetName("gen_ai.choice")
		e.Attributes().PutStr("message", `[{"toolUse":{"toolUseId":"c"}}]`)
		traces = append(traces, ptraceotlp.NewExportRequestFromTraces(td))
	}
	logs = append(logs, plogotlp.NewExportRequestFromLogs(logOf("codex.tool_result", attrs{"conversation.id": "s", "tool_name": "a", "arguments": "{}", "success": "true", "duration_ms": "5"})))
	return traces, logs
}

func FuzzOTLPProto(f *testing.F) {
	traces, logs := seeds()
	for _, r := range traces {
		body, err := r.MarshalProto()
		require.NoError(f, err)
		f.Add(body)
	}
	for _, r := range logs {
		body, err := r.MarshalProto()
		require.NoError(f, err)
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzzMap(t, data, Protobuf) })
}

func FuzzOTLPJSON(f *testing.F) {
	traces, logs := seeds()
	for _, r := range traces {
		body, err := r.MarshalJSON()
		require.NoError(f, err)
		f.Add(body)
	}
	for _, r := range logs {
		body, err := r.MarshalJSON()
		require.NoError(f, err)
		f.Add(body)
	}
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","parentSpanId":null}]}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzMap(t, data, JSON) })
}
