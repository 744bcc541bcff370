package otlp

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/deadletter"
)

// dial serves h over gRPC and returns a client of it.
func dial(t *testing.T, h *Handler, opts GRPCOptions) *grpc.ClientConn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := h.GRPC(opts)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

func captured(t *testing.T) ptraceotlp.ExportRequest {
	req := ptraceotlp.NewExportRequest()
	require.NoError(t, req.UnmarshalProto(capture(t, "genai-semconv-manual/grpc/01-traces.binpb")))
	return req
}

func TestGRPC(t *testing.T) {
	rec := &sinkRecorder{}
	var observed []string
	conn := dial(t, New(rec, Options{Observe: func(signal string, _ Stats) { observed = append(observed, signal) }}), GRPCOptions{})
	ctx := t.Context()
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
		res, err := ptraceotlp.NewGRPCClient(conn).Export(ctx, captured(t), options...)
		require.NoError(t, err)
		require.Zero(t, res.PartialSuccess().RejectedSpans())
		require.Empty(t, res.PartialSuccess().ErrorMessage())
	}
	require.Equal(t, 16, countCalls(rec.events))
	require.Equal(t, []string{ingest.DefaultTenant, ingest.DefaultTenant}, rec.tenants)
	logs := plogotlp.NewExportRequest()
	require.NoError(t, logs.UnmarshalProto(capture(t, "codex-cli/02-logs.binpb")))
	_, err := plogotlp.NewGRPCClient(conn).Export(ctx, logs)
	require.NoError(t, err)
	require.Equal(t, 18, countCalls(rec.events))
	_, err = pmetricotlp.NewGRPCClient(conn).Export(ctx, pmetricotlp.NewExportRequest())
	require.NoError(t, err, "metrics are taken and dropped")
	require.Equal(t, []string{"traces", "traces", "logs", "metrics"}, observed)
}

func TestGRPCPartialSuccess(t *testing.T) {
	conn := dial(t, New(&sinkRecorder{}, Options{}), GRPCOptions{})
	td, ss := scope()
	spanOf(ss, 2, 1, "execute_tool a", tool("a", "", ""))
	spanOf(ss, 3, 1, "execute_tool a", tool("a", "", "")).SetTraceID(pcommon.TraceID{})
	res, err := ptraceotlp.NewGRPCClient(conn).Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(td))
	require.NoError(t, err)
	require.Equal(t, int64(1), res.PartialSuccess().RejectedSpans())
	require.Contains(t, res.PartialSuccess().ErrorMessage(), "no trace or span id")
}

func TestGRPCErrors(t *testing.T) {
	for name, c := range map[string]struct {
		rec   *sinkRecorder
		code  codes.Code
		retry time.Duration
	}{
		"full":   {&sinkRecorder{err: &flows.Error{Code: flows.CodeFull, Message: "full", Err: &ingest.RetryError{After: 7 * time.Second}}}, codes.Unavailable, 7 * time.Second},
		"rate":   {&sinkRecorder{err: flows.NewError(flows.CodeRateLimited, "slower")}, codes.Unavailable, time.Second},
		"broken": {&sinkRecorder{err: context.DeadlineExceeded}, codes.Internal, 0},
		"panic":  {&sinkRecorder{panics: true}, codes.Internal, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ptraceotlp.NewGRPCClient(dial(t, New(c.rec, Options{}), GRPCOptions{})).Export(t.Context(), captured(t))
			st := status.Convert(err)
			require.Equal(t, c.code, st.Code(), st.Message())
			var wait time.Duration
			for _, d := range st.Details() {
				if info, ok := d.(*errdetails.RetryInfo); ok {
					wait = info.RetryDelay.AsDuration()
				}
			}
			require.Equal(t, c.retry, wait)
		})
	}
}

// TestGRPCSizes: the limit counts after decompression too, and what is too large must not come again.
func TestGRPCSizes(t *testing.T) {
	req := captured(t)
	body, err := req.MarshalProto()
	require.NoError(t, err)
	for over, code := range map[int64]codes.Code{0: codes.OK, 1: codes.ResourceExhausted} {
		conn := dial(t, New(&sinkRecorder{}, Options{Limits: ingest.Limits{Inflated: int64(len(body)) - over}}), GRPCOptions{})
		for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
			_, err := ptraceotlp.NewGRPCClient(conn).Export(t.Context(), req, options...)
			require.Equal(t, code, status.Code(err), "%v", err)
			require.Empty(t, status.Convert(err).Details())
		}
	}
}

// keys lets the bearer of a key in.
type keys map[string]string

func (k keys) AuthorizeIngest(_ context.Context, header map[string][]string) (Sender, error) {
	for _, v := range header["authorization"] {
		tenant, ok := k[strings.TrimPrefix(v, "Bearer ")]
		switch {
		case ok && tenant == "":
			return Sender{}, flows.NewError(flows.CodeForbidden, "this key may not send telemetry")
		case ok:
			return Sender{Tenant: tenant, Key: v}, nil
		}
	}
	return Sender{}, flows.NewError(flows.CodeUnauthenticated, "send a key")
}

func TestGRPCAuthorization(t *testing.T) {
	rec := &sinkRecorder{}
	client := ptraceotlp.NewGRPCClient(dial(t, New(rec, Options{}), GRPCOptions{Authorizer: keys{"good": "acme", "reader": ""}}))
	for key, code := range map[string]codes.Code{"": codes.Unauthenticated, "Bearer wrong": codes.Unauthenticated, "Bearer reader": codes.PermissionDenied, "Bearer good": codes.OK} {
		ctx := t.Context()
		if key != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "Authorization", key)
		}
		_, err := client.Export(ctx, captured(t))
		require.Equal(t, code, status.Code(err), "%q: %v", key, err)
	}
	require.Equal(t, []string{"acme"}, rec.tenants)
}

// slowRecorder answers when it is told to.
type slowRecorder struct{ started, finish chan struct{} }

func (s *slowRecorder) Record(context.Context, string, []ingest.Event) (ingest.Receipt, error) {
	s.started <- struct{}{}
	<-s.finish
	return ingest.Receipt{}, nil
}

func TestGRPCRequestsAreBounded(t *testing.T) {
	slow := &slowRecorder{started: make(chan struct{}), finish: make(chan struct{})}
	h := New(slow, Options{})
	conn := dial(t, h, GRPCOptions{Requests: 1})
	done := make(chan error, 1)
	req := captured(t)
	go func() { _, err := ptraceotlp.NewGRPCClient(conn).Export(t.Context(), req); done <- err }()
	<-slow.started
	other, err := grpc.NewClient(conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	_, err = ptraceotlp.NewGRPCClient(other).Export(t.Context(), req)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Len(t, status.Convert(err).Details(), 1)
	close(slow.finish)
	require.NoError(t, <-done)
}

// A message that is no OTLP is the sender's mistake and a dead letter, as over HTTP.
func TestGRPCUndecodable(t *testing.T) {
	letters, err := deadletter.Open(t.TempDir(), []byte("key"), deadletter.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, letters.Close()) })
	conn := dial(t, New(&sinkRecorder{}, Options{DeadLetters: letters}), GRPCOptions{})
	// A request of another service that has a text where traces have a message.
	err = conn.Invoke(t.Context(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export", wrapperspb.String("no OTLP"), &emptypb.Empty{})
	require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
	require.Len(t, letters.IDs(), 1)

	// Before anything is decoded: a small message that would be large in memory, and one beside too many others.
	many := bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nil), 5_000_000)
	big := New(&sinkRecorder{}, Options{})
	_, err = big.export(t.Context(), SignalTraces, many, partialTraces)
	require.Equal(t, flows.CodeTooLarge, flows.CodeOf(err))
	shared := ingest.NewInFlight(10)
	other := shared.Hold()
	require.NoError(t, other.Add(1))
	full := New(&sinkRecorder{}, Options{InFlight: shared})
	_, err = full.export(t.Context(), SignalTraces, make([]byte, 10), partialTraces)
	require.Equal(t, flows.CodeFull, flows.CodeOf(err))
	other.Release()
	_, err = full.export(t.Context(), SignalTraces, make([]byte, 11), partialTraces)
	require.Equal(t, flows.CodeInvalid, flows.CodeOf(err), "alone it is read")
}

// Rates hold a key over both transports, and clients are told when to come again.
func TestRatesOfAKey(t *testing.T) {
	limiter := ingest.NewRateLimiter(ingest.Rates{}, map[string]ingest.Rates{"k1": {Records: 0.1}}, nil) // a burst of one record
	h := New(&sinkRecorder{}, Options{Rates: limiter, Sender: func(r *http.Request) Sender { return Sender{Tenant: "t", Key: r.Header.Get("x-key")} }})
	mux := http.NewServeMux()
	h.Register(mux)
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	send := func(key string) *http.Response {
		body, err := captured(t).MarshalProto()
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/v1/traces", bytes.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", typeProto)
		req.Header.Set("x-key", key)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res
	}
	require.Equal(t, 200, send("k1").StatusCode)
	again := send("k1")
	require.Equal(t, 429, again.StatusCode)
	require.NotEmpty(t, again.Header.Get("Retry-After"))
	require.Equal(t, 200, send("k2").StatusCode)

	conn := dial(t, h, GRPCOptions{Authorizer: keys{"k1": "t"}})
	call := func(key string) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", key)
		_, err := ptraceotlp.NewGRPCClient(conn).Export(ctx, captured(t))
		return err
	}
	err := call("k1")
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.NotEmpty(t, status.Convert(err).Details())
}
