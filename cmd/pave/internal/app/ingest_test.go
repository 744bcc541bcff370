package app

import (
	"context"
	"net"
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

	"pave/api/gen"
	"pave/governance"
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
