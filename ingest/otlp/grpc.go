package otlp

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // clients send gzip
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/durationpb"

	"pave/flows"
	"pave/ingest"
)

// Authorizer lets a gRPC client in. Header is its metadata with keys in lower case; it returns the client's tenant, or a
// *flows.Error of CodeUnauthenticated or CodeForbidden. It is asked before a request is read and must be quick.
type Authorizer interface {
	AuthorizeIngest(ctx context.Context, header map[string][]string) (tenant string, err error)
}

// GRPCOptions configure a gRPC server; the zero value lets everyone in as the default tenant.
type GRPCOptions struct {
	Authorizer Authorizer
	// Requests bounds the requests that are being received and handled at once, 64 when zero: a request may be as large
	// as Limits.Inflated before anything can be said of it. More are asked to come again.
	Requests int
	// Server are further options, such as credentials for TLS.
	Server []grpc.ServerOption
}

// GRPC is a server of the OTLP services over gRPC: traces and logs are recorded, metrics taken and dropped. Call Serve
// with a listener, and GracefulStop or Stop at the end.
func (h *Handler) GRPC(opts GRPCOptions) *grpc.Server {
	if opts.Requests == 0 {
		opts.Requests = 64
	}
	gate := &gate{h: h, opts: opts}
	server := grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(int(h.opts.Limits.Inflated)), // compressed and after decompression
		grpc.MaxHeaderListSize(64 << 10),
		grpc.MaxConcurrentStreams(uint32(opts.Requests)),
		grpc.ConnectionTimeout(5 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 10 * time.Minute, Time: time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.InTapHandle(gate.tap),
		grpc.StatsHandler(gate),
		grpc.ChainUnaryInterceptor(gate.recovered),
	}, opts.Server...)...)
	ptraceotlp.RegisterGRPCServer(server, &traceService{h: h})
	plogotlp.RegisterGRPCServer(server, &logService{h: h})
	pmetricotlp.RegisterGRPCServer(server, &metricService{})
	return server
}

type tenantKey struct{}

func tenantOf(ctx context.Context) string {
	if tenant, ok := ctx.Value(tenantKey{}).(string); ok {
		return tenant
	}
	return ingest.DefaultTenant
}

// gate lets requests in and counts them.
type gate struct {
	h    *Handler
	opts GRPCOptions
	open atomic.Int64
}

// tap runs before a request is read.
func (g *gate) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if g.open.Load() >= int64(g.opts.Requests) {
		return nil, g.h.status(ctx, flows.NewError(flows.CodeFull, "too many requests are being received at once; send the request again later"))
	}
	if g.opts.Authorizer == nil {
		return ctx, nil
	}
	tenant, err := g.opts.Authorizer.AuthorizeIngest(ctx, info.Header)
	if err != nil {
		return nil, g.h.status(ctx, err)
	}
	return context.WithValue(ctx, tenantKey{}, tenant), nil
}

func (g *gate) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (g *gate) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (g *gate) HandleConn(context.Context, stats.ConnStats)                       {}

// HandleRPC counts requests from their beginning to their end, whatever becomes of them.
func (g *gate) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.Begin:
		g.open.Add(1)
	case *stats.End:
		g.open.Add(-1)
	}
}

// recovered answers a panic; it is not retryable, as the same request would panic again.
func (g *gate) recovered(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (res any, err error) {
	defer func() {
		if p := recover(); p != nil {
			g.h.opts.Log.ErrorContext(ctx, "otlp service panic", "method", info.FullMethod, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			res, err = nil, g.h.status(ctx, flows.NewError(flows.CodeInternal, "the request could not be handled"))
		}
	}()
	return next(ctx, req)
}

// status is the error as a client is told, with the time to wait where the same request may succeed later.
func (h *Handler) status(ctx context.Context, err error) error {
	f := h.failure(ctx, err)
	st := status.New(f.code, strings.ToValidUTF8(f.message, "\uFFFD"))
	if f.retry > 0 {
		if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(f.retry)}); err == nil {
			st = detailed
		}
	}
	return st.Err()
}

type traceService struct {
	ptraceotlp.UnimplementedGRPCServer
	h *Handler
}

func (s *traceService) Export(ctx context.Context, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	res := ptraceotlp.NewExportResponse()
	events, mapped := s.h.reader.MapTraces(req.Traces())
	if err := s.h.record(ctx, tenantOf(ctx), SignalTraces, events, mapped); err != nil {
		return res, s.h.status(ctx, err)
	}
	if message := remark(mapped, nil); message != "" {
		res.PartialSuccess().SetRejectedSpans(int64(mapped.Rejected))
		res.PartialSuccess().SetErrorMessage(message)
	}
	return res, nil
}

type logService struct {
	plogotlp.UnimplementedGRPCServer
	h *Handler
}

func (s *logService) Export(ctx context.Context, req plogotlp.ExportRequest) (plogotlp.ExportResponse, error) {
	res := plogotlp.NewExportResponse()
	events, mapped := s.h.reader.MapLogs(req.Logs())
	if err := s.h.record(ctx, tenantOf(ctx), SignalLogs, events, mapped); err != nil {
		return res, s.h.status(ctx, err)
	}
	if message := remark(mapped, nil); message != "" {
		res.PartialSuccess().SetRejectedLogRecords(int64(mapped.Rejected))
		res.PartialSuccess().SetErrorMessage(message)
	}
	return res, nil
}

type metricService struct {
	pmetricotlp.UnimplementedGRPCServer
}

func (*metricService) Export(context.Context, pmetricotlp.ExportRequest) (pmetricotlp.ExportResponse, error) {
	return pmetricotlp.NewExportResponse(), nil
}
