package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"pave/api/gen"
	"pave/flows"
	"pave/governance"
	"pave/ingest"
	"pave/ingest/store"
)

// kept is a recorder that keeps what it gets.
type kept struct{ events []ingest.Event }

func (k *kept) Room() error { return nil }

func (k *kept) Record(_ context.Context, _ string, events []ingest.Event) (ingest.Receipt, error) {
	k.events = append(k.events, events...)
	return ingest.Receipt{Accepted: len(events)}, nil
}

// calm is a status without anything to say.
type calm struct{}

func (calm) Ready(context.Context) []string             { return nil }
func (calm) Stats(context.Context) (store.Stats, error) { return store.Stats{Events: 7}, nil }
func (calm) Retention() time.Duration                   { return 90 * 24 * time.Hour }

// bare is a server without a domain: enough for what happens before a handler calls it.
func bare(t *testing.T, change func(*Deps, *Options)) *Server {
	t.Helper()
	deps := Deps{Recorder: &kept{}, Status: calm{},
		OTLP: OTLP{Traces: http.NotFoundHandler(), Logs: http.NotFoundHandler(), Metrics: http.NotFoundHandler()}}
	opts := Options{NoAuth: true, LocalPrincipal: "local:tester", Version: "test"}
	if change != nil {
		change(&deps, &opts)
	}
	s, err := New(deps, opts)
	require.NoError(t, err)
	return s
}

func call(s http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func problem(t *testing.T, w *httptest.ResponseRecorder) gen.Problem {
	t.Helper()
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"), w.Body.String())
	var p gen.Problem
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
	require.Equal(t, w.Code, p.Status)
	require.Equal(t, "urn:pave:problem:"+p.Code, p.Type)
	require.NotEmpty(t, p.Title)
	require.NotEmpty(t, p.Detail)
	require.Equal(t, w.Header().Get("X-Request-Id"), p.Instance)
	return p
}

// Every code of the taxonomy has its HTTP status, exit status and title.
func TestEveryCodeHasAnAnswer(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../flows/errors.go", nil, 0)
	require.NoError(t, err)
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			code := flows.Code(strings.Trim(literal.Value, `"`))
			a, known := answers[code]
			require.True(t, known, "code %s has no answer", code)
			require.GreaterOrEqual(t, a.status, 400)
			require.Positive(t, a.exit)
			require.NotEmpty(t, a.title)
			codes++
		}
		return true
	})
	require.Equal(t, len(answers), codes)
}

func TestErrorsOfTheServerItselfAreProblems(t *testing.T) {
	s := bare(t, nil)
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		code               flows.Code
		pointer            string
	}{
		{"GET", "/nothing/here", "", nil, 404, flows.CodeNotFound, ""},
		{"GET", "/api/v1//flows", "", nil, 404, flows.CodeNotFound, ""},
		{"GET", "/api/v1/flows/", "", nil, 404, flows.CodeNotFound, ""},
		{"GET", "/API/v1/flows", "", nil, 404, flows.CodeNotFound, ""},
		{"PATCH", "/api/v1/flows", "", nil, 405, flows.CodeMethod, ""},
		{"POST", "/api/v1/flows", "{}", []string{"X-HTTP-Method-Override", "GET"}, 405, flows.CodeMethod, ""},
		{"GET", "/api/v1/runs?limit=-1", "", nil, 400, flows.CodeInvalid, "limit"},
		{"GET", "/api/v1/runs?limit=501", "", nil, 400, flows.CodeInvalid, "limit"},
		{"GET", "/api/v1/runs?limit=ten", "", nil, 400, flows.CodeInvalid, "limit"},
		{"GET", "/api/v1/runs?status=fine", "", nil, 400, flows.CodeInvalid, "status"},
		{"GET", "/api/v1/runs?status=failed;drop", "", nil, 400, flows.CodeInvalid, ""},
		{"GET", "/api/v1/runs?phase=failed", "", nil, 400, flows.CodeInvalid, "phase"},
		{"GET", "/api/v1/sessions?from=yesterday", "", nil, 400, flows.CodeInvalid, "from"},
		{"GET", "/api/v1/tools/..%2f..%2fetc", "", nil, 400, flows.CodeInvalid, "name"},
		{"POST", "/api/v1/flows/f/runs", `{"input":`, nil, 400, flows.CodeInvalid, ""},
		{"POST", "/api/v1/flows/f/runs", `{"input":{}}{}`, nil, 400, flows.CodeInvalid, ""},
		{"POST", "/api/v1/flows/f/runs", `{"input":{},"input":{}}`, nil, 400, flows.CodeInvalid, ""},
		{"POST", "/api/v1/flows/f/runs", `{"input":[1]}`, nil, 400, flows.CodeInvalid, "/input"},
		{"POST", "/api/v1/flows/f/runs", `{"input":{},"inputs":{}}`, nil, 400, flows.CodeInvalid, ""},
		{"POST", "/api/v1/flows/f/runs", `{}`, nil, 400, flows.CodeInvalid, ""},
		{"POST", "/api/v1/flows/f/runs", ``, nil, 400, flows.CodeInvalid, ""},
		{"POST", "/api/v1/flows/f/runs", strings.Repeat(`{"input":`, 70) + "1" + strings.Repeat("}", 70), nil, 400, flows.CodeInvalid, ""},
		{"POST", "/api/v1/flows/f/runs", `input=1`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, flows.CodeUnsupportedMedia, ""},
		{"POST", "/api/v1/proposals/p/reviews", `{"verdict":"approve","digest":"d"}`, nil, 428, flows.CodePrecondition, ""},
		{"POST", "/api/v1/proposals/p/reviews", `{"verdict":"approve","digest":"d"}`, []string{"If-Match", "*"}, 428, flows.CodePrecondition, ""},
		{"POST", "/api/v1/proposals/p/reviews", `{"verdict":"approve","digest":"d"}`, []string{"If-Match", `"x"`}, 412, flows.CodeStale, ""},
		{"POST", "/api/v1/proposals/p/reviews", `{"verdict":"maybe","digest":"d"}`, []string{"If-Match", `"1"`}, 400, flows.CodeInvalid, "/verdict"},
		{"POST", "/api/v1/api-keys", `{"principal":"person:a","scopes":["root"]}`, nil, 400, flows.CodeInvalid, "/scopes/0"},
		{"POST", "/api/v1/tool-calls", `[{"tool":"a"}]`, []string{"Content-Encoding", "br"}, 415, flows.CodeUnsupportedMedia, ""},
		{"POST", "/api/v1/tool-calls", `not gzip`, []string{"Content-Encoding", "gzip"}, 400, flows.CodeInvalid, ""},
		{"POST", "/api/v1/tool-calls", `[{"tool":7}]`, nil, 400, flows.CodeInvalid, "/0/tool"},
		{"POST", "/api/v1/mining-runs", `{}`, []string{"Sec-Fetch-Site", "cross-site"}, 403, flows.CodeForbidden, ""},
		{"POST", "/api/v1/mining-runs", `{}`, []string{"Pave-As", "root"}, 400, flows.CodeInvalid, ""},
	} {
		w := call(s, c.method, c.path, c.body, c.headers...)
		require.Equal(t, c.status, w.Code, "%s %s %s: %s", c.method, c.path, c.body, w.Body)
		p := problem(t, w)
		require.Equal(t, string(c.code), p.Code)
		if c.pointer != "" {
			require.NotEmpty(t, p.Errors, "%s %s", c.method, c.path)
			require.Equal(t, c.pointer, p.Errors[0].Pointer)
			require.NotEmpty(t, p.Errors[0].Detail)
		}
	}
}

// A panic of a handler is an internal error without its text; the service goes on.
func TestPanicIsAnInternalError(t *testing.T) {
	s := bare(t, nil) // without a domain every read panics
	w := call(s, "GET", "/api/v1/flows", "")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Equal(t, "internal", problem(t, w).Code)
	require.NotContains(t, w.Body.String(), "nil pointer")
	require.Equal(t, http.StatusOK, call(s, "GET", "/healthz", "").Code)
}

// The log says why a store cannot be used, once a second, and the answer does not.
func TestCauseOfAnUnavailableStoreIsLogged(t *testing.T) {
	var log bytes.Buffer
	s := bare(t, func(d *Deps, o *Options) {
		d.Recorder, o.Logger = failing{}, slog.New(slog.NewJSONHandler(&log, nil))
	})
	for range 3 {
		w := call(s, "POST", "/api/v1/tool-calls", `[{"tool":"a","session_id":"s"}]`)
		require.Equal(t, 503, w.Code)
		require.NotContains(t, w.Body.String(), "sector 7")
	}
	require.Equal(t, 1, strings.Count(log.String(), "disk I/O error at sector 7"), log.String())
}

// talking is a recorder that logs what it does for a request.
type talking struct{ log *slog.Logger }

func (talking) Room() error { return nil }

func (r talking) Record(ctx context.Context, _ string, _ []ingest.Event) (ingest.Receipt, error) {
	r.log.With("part", "recorder").InfoContext(ctx, "said inside")
	r.log.InfoContext(ctx, "said by itself", "request_id", "another")
	return ingest.Receipt{}, nil
}

// All that is logged on behalf of a request has the id that its answer tells.
func TestLogLinesHaveTheRequestID(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(LogHandler(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	s := bare(t, func(d *Deps, o *Options) { d.Recorder, o.Logger = talking{log}, log })
	w := call(s, "POST", "/api/v1/tool-calls", `[{"tool":"a","session_id":"s"}]`)
	require.Equal(t, 200, w.Code, w.Body.String())
	log.Info("said outside")
	got := map[string]any{}
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, strings.Count(line, `"request_id"`), 1, line)
		var entry map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		got[entry["msg"].(string)] = entry["request_id"]
	}
	id := w.Header().Get("X-Request-Id")
	require.NotEmpty(t, id)
	require.Equal(t, map[string]any{"request": id, "said inside": id, "said by itself": "another", "said outside": nil}, got)
}

// What is in memory of all requests is bounded: a request that does not fit beside others comes again, and alone it fits.
func TestRecordedBytesInFlightAreBounded(t *testing.T) {
	shared := ingest.NewInFlight(2000)
	s := bare(t, func(_ *Deps, o *Options) { o.InFlight = shared })
	record := func(size int) *httptest.ResponseRecorder {
		return call(s, "POST", "/api/v1/tool-calls", `[{"tool":"a","session_id":"s","args":{"x":"`+strings.Repeat("x", size)+`"}}]`)
	}
	other := shared.Hold()
	require.NoError(t, other.Add(1000))
	require.Equal(t, 200, record(100).Code)
	refused := record(1000)
	require.Equal(t, []any{503, "1"}, []any{refused.Code, refused.Header().Get("Retry-After")}, refused.Body.String())
	require.Equal(t, "full", problem(t, refused).Code)
	require.Equal(t, 200, record(100).Code, "what was refused is given back")
	other.Release()
	require.Equal(t, 200, record(5000).Code)
}

// failing is a recorder whose store is away.
type failing struct{}

func (failing) Room() error { return nil }

func (failing) Record(context.Context, string, []ingest.Event) (ingest.Receipt, error) {
	away := fmt.Errorf("%w: disk I/O error at sector 7", store.ErrUnavailable)
	return ingest.Receipt{}, &flows.Error{Code: flows.CodeUnavailable, Message: "later", Err: &ingest.RetryError{After: time.Second, Err: away}}
}

func TestNoAuthIsForLoopbackNamesOnly(t *testing.T) {
	s := bare(t, nil)
	r := httptest.NewRequest("GET", "http://evil.example/metrics", nil)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.Equal(t, http.StatusUnauthorized, w.Code)
	for _, host := range []string{"localhost:8318", "127.0.0.1", "[::1]:80"} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, host)
		require.Contains(t, w.Body.String(), "pave_store_events 7")
	}
}

// Errors before the OTLP receiver are google.rpc.Status in the request's encoding.
func TestOTLPErrorsSpeakTheProtocol(t *testing.T) {
	s := bare(t, func(_ *Deps, o *Options) { o.NoAuth = false })
	w := call(s, "POST", "/v1/traces", "{}")
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var status struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &status))
	require.Equal(t, 16, status.Code) // UNAUTHENTICATED
	require.Contains(t, status.Message, "unauthenticated")

	w = call(s, "POST", "/v1/traces", "x", "Content-Type", "application/x-protobuf")
	require.Equal(t, http.StatusUnauthorized, w.Code)
	var binary rpcstatus.Status
	require.NoError(t, proto.Unmarshal(w.Body.Bytes(), &binary))
	require.EqualValues(t, 16, binary.Code)
}

func TestToolCallsOfBothFormsAndCodecs(t *testing.T) {
	records := []string{`{"tool":"a","session_id":"s"}`, `{"tool":7}`, `{"tool":"b","session_id":"s","colour":"red"}`}
	gz := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := io.WriteString(z, s)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return b.String()
	}
	zs := func(s string) string {
		z, err := zstd.NewWriter(nil)
		require.NoError(t, err)
		return string(z.EncodeAll([]byte(s), nil))
	}
	plain := func(s string) string { return s }
	for name, encode := range map[string]func(string) string{"": plain, "gzip": gz, "zstd": zs} {
		for kind, body := range map[string]string{
			"application/json":     "[" + strings.Join(records, ",") + "]",
			"application/x-ndjson": strings.Join(records, "\n"),
		} {
			recorder := &kept{}
			s := bare(t, func(d *Deps, _ *Options) { d.Recorder = recorder })
			w := call(s, "POST", "/api/v1/tool-calls", encode(body), "Content-Type", kind, "Content-Encoding", name)
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			var receipt gen.IngestReceipt
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &receipt))
			require.Equal(t, 2, receipt.Accepted)
			require.Equal(t, 1, receipt.RejectedCount)
			require.Equal(t, 1, receipt.Rejected[0].Index)
			require.Equal(t, "/tool", receipt.Rejected[0].Pointer)
			require.Len(t, recorder.events, 2)
			require.JSONEq(t, `{"colour":"red"}`, string(recorder.events[1].Metadata))
		}
	}
}

// A decompression bomb is stopped by its ratio long before it is inflated.
func TestBombsAreTooLarge(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 70 {
		_, err := z.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	w := call(bare(t, nil), "POST", "/api/v1/tool-calls", bomb.String(), "Content-Encoding", "gzip")
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	require.Equal(t, "too_large", problem(t, w).Code)
}

func TestContractIsServed(t *testing.T) {
	s := bare(t, nil)
	w := call(s, "GET", "/openapi.yaml", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.True(t, strings.HasPrefix(w.Body.String(), "openapi: 3.1.0\n"))
	w = call(s, "GET", "/openapi.json", "")
	var doc struct {
		OpenAPI string         `json:"openapi"`
		Paths   map[string]any `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc))
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.Contains(t, doc.Paths, "/api/v1/flows/{name}/runs")
}

func TestDrainingIsNotReady(t *testing.T) {
	s := bare(t, nil)
	require.Equal(t, http.StatusOK, call(s, "GET", "/readyz", "").Code)
	s.Drain()
	w := call(s, "GET", "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "draining")
	require.Equal(t, http.StatusOK, call(s, "GET", "/healthz", "").Code)
}

// S12: the address of the connection counts, whatever a header claims.
func TestScenarioS12ForwardedAddressIsNotBelieved(t *testing.T) {
	s := bare(t, nil)
	r := httptest.NewRequest("GET", "/healthz", nil)
	r.RemoteAddr = "192.0.2.7:1234"
	r.Header.Set("X-Forwarded-For", "10.0.0.1")
	r.Header.Set("X-Real-Ip", "10.0.0.1")
	require.Equal(t, "192.0.2.7", s.echo.IPExtractor(r))
}

func TestTransportAnswersAsItsActor(t *testing.T) {
	s := bare(t, func(_ *Deps, o *Options) { o.NoAuth = false })
	actor := governance.Actor{Tenant: "default", Principal: "local:me", Scopes: []governance.Scope{governance.ScopeIngest}}
	inside := &http.Client{Transport: Transport(s, &actor)}
	resp, err := inside.Post("http://localhost/api/v1/tool-calls", "application/json", strings.NewReader(`[{"tool":"a"}]`))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	resp, err = inside.Get("http://localhost/metrics") // needs read
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}
