package app

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"pave/api"
	"pave/api/gen"
	"pave/governance"
	"pave/ingest"
	"pave/ingest/deadletter"
)

// toolRequest is a trace request with one tool call of the session.
func toolRequest(t *testing.T, attributes map[string]any) ptraceotlp.ExportRequest {
	td := ptrace.NewTraces()
	s := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{2})
	s.SetName("x")
	require.NoError(t, s.Attributes().FromRaw(attributes))
	return ptraceotlp.NewExportRequestFromTraces(td)
}

// Telemetry over gRPC needs a key with the scope, and is read, kept and redacted as ingest.yaml says.
func TestGRPCWithOwnSettings(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ingestFile), []byte("calls:\n- name: acme\n  when: {acme.kind: tool}\n  tool: [acme.tool]\n  arguments: [acme.in]\nsessions: [acme.chat]\ncapture:\n- tool: payroll_*\n"), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close()) // free for the server
	a := open(t, func(o *Options) { o.DataDir = dir })
	key, _ := newKey(t, a, "service:agent", time.Time{}, gen.Scope(governance.ScopeIngest))
	reader, _ := newKey(t, a, "service:reader", time.Time{}, gen.Scope(governance.ScopeRead))
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- a.Serve(ctx, ServeOptions{Listen: "127.0.0.1:0", GRPCListen: address, Ready: func(addr string) { ready <- addr }})
	}()
	<-ready
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	export := func(key string, attributes map[string]any) codes.Code {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key)
		_, err := ptraceotlp.NewGRPCClient(conn).Export(ctx, toolRequest(t, attributes), grpc.WaitForReady(true))
		return grpcstatus.Code(err)
	}
	find := map[string]any{"acme.kind": "tool", "acme.tool": "find", "acme.in": `{"q":1,"api_key":"hunter2canary"}`, "acme.chat": "s1"}
	require.Equal(t, codes.Unauthenticated, export("wrong", find))
	require.Equal(t, codes.PermissionDenied, export(reader, find))
	require.Equal(t, codes.OK, export(key, find))
	require.NoError(t, conn.Close())
	_, err = a.assembler.Run(t.Context(), "default", time.Time{})
	require.NoError(t, err)
	session, err := clientOf(t, a, "").GetSessionWithResponse(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, 200, session.StatusCode(), string(session.Body))
	require.Contains(t, string(session.Body), `"q":1`)
	require.NotContains(t, string(session.Body), "hunter2canary")
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			require.False(t, strings.Contains(string(raw), "hunter2canary"), path)
		}
		return err
	}))
}

func TestWrongIngestSettingsAreToldAtStart(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ingestFile), []byte("captures: []"), 0o600))
	_, err := Open(t.Context(), Options{DataDir: dir})
	require.ErrorContains(t, err, "captures")
}

// A gRPC address that is taken is no reason not to serve, and without keys only loopback is served.
func TestGRPCListener(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	a := open(t, func(o *Options) { o.NoAuth = true })
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, a.Serve(ctx, ServeOptions{Listen: "127.0.0.1:0", GRPCListen: taken.Addr().String(), Ready: func(string) { stop() }}))
	b := open(t, func(o *Options) { o.NoAuth = true })
	require.ErrorContains(t, b.Serve(t.Context(), ServeOptions{Listen: "127.0.0.1:0", GRPCListen: "0.0.0.0:0"}), "loopback")
}

// Requests that could not be read are listed, taken again and dropped over the API, by who administers.
func TestDeadLettersOverTheAPI(t *testing.T) {
	a := open(t, nil)
	cl := clientOf(t, a, "")
	send := func(body string) int {
		r := httptest.NewRequest(http.MethodPost, "/v1/traces", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r.WithContext(api.WithActor(r.Context(), a.localActor())))
		return w.Code
	}
	require.Equal(t, http.StatusBadRequest, send(`{"resourceSpans": 7}`))
	good, err := toolRequest(t, map[string]any{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "session.id": "s"}).MarshalProto()
	require.NoError(t, err)
	// As if an older version could not read it.
	_, err = a.dead.store.Add(deadletter.Letter{Received: time.Now(), Tenant: ingest.DefaultTenant, Signal: "traces", Encoding: "protobuf", Reason: "old", Body: good})
	require.NoError(t, err)
	_, err = a.dead.store.Add(deadletter.Letter{Received: time.Now(), Tenant: "other", Signal: "traces", Encoding: "protobuf", Reason: "not ours", Body: good})
	require.NoError(t, err)

	page, err := cl.ListDeadLettersWithResponse(t.Context(), &gen.ListDeadLettersParams{Limit: 1})
	require.NoError(t, err)
	require.Len(t, page.JSON200.Items, 1)
	broken := page.JSON200.Items[0]
	require.Equal(t, []any{"traces", "json", 20}, []any{broken.Signal, broken.Encoding, broken.Bytes})
	require.NotEmpty(t, broken.Reason)
	page, err = cl.ListDeadLettersWithResponse(t.Context(), &gen.ListDeadLettersParams{Cursor: page.JSON200.NextCursor})
	require.NoError(t, err)
	require.Len(t, page.JSON200.Items, 1, "another tenant's are not shown")
	readable := page.JSON200.Items[0]

	again, err := cl.RetryDeadLetterWithResponse(t.Context(), readable.ID)
	require.NoError(t, err)
	require.Equal(t, gen.DeadLetterRetry{Records: 1, Events: 1}, *again.JSON200)
	again, err = cl.RetryDeadLetterWithResponse(t.Context(), readable.ID)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, again.StatusCode())
	again, err = cl.RetryDeadLetterWithResponse(t.Context(), broken.ID)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, again.StatusCode())
	dropped, err := cl.DeleteDeadLetterWithResponse(t.Context(), broken.ID)
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, dropped.StatusCode())
	for _, id := range a.dead.store.IDs() { // the other tenant's
		gone, err := cl.DeleteDeadLetterWithResponse(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, gone.StatusCode())
	}
}

// A key that sends more than ingest.yaml lets it is told when to come again, also by the JSON API.
func TestRatesOfTheJSONAPI(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ingestFile), []byte("rates:\n  default: {records: 0.1}\n"), 0o600))
	a := open(t, func(o *Options) { o.DataDir = dir })
	one, _ := newKey(t, a, "service:one", time.Time{}, gen.Scope(governance.ScopeIngest))
	two, _ := newKey(t, a, "service:two", time.Time{}, gen.Scope(governance.ScopeIngest))
	send := func(key string) *gen.RecordToolCallsResponse {
		resp, err := clientOf(t, a, key).RecordToolCallsWithBodyWithResponse(t.Context(), nil, "application/x-ndjson",
			strings.NewReader(`{"tool":"a","session_id":"s","call_id":"1"}`+"\n"+`{"tool":"b","session_id":"s","call_id":"2"}`))
		require.NoError(t, err)
		return resp
	}
	require.Equal(t, http.StatusOK, send(one).StatusCode())
	again := send(one)
	require.Equal(t, http.StatusTooManyRequests, again.StatusCode())
	require.NotEmpty(t, again.HTTPResponse.Header.Get("Retry-After"))
	require.Equal(t, http.StatusOK, send(two).StatusCode())
}
