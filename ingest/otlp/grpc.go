package otlp

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // clients send gzip
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/durationpb"

	"pave/flows"
	"pave/ingest"
)

// Authorizer lets a gRPC client in. Header is its metadata with keys in lower case; it returns who the client is, or a
// *flows.Error of CodeUnauthenticated or CodeForbidden. It is asked before a request is read and must be quick.
type Authorizer interface {
	AuthorizeIngest(ctx context.Context, header map[string][]string) (Sender, error)
}

// GRPCOptions configure a gRPC server; the zero value lets everyone in as the default tenant.
type GRPCOptions struct {
	Authorizer Authorizer
	// Requests bounds the requests that are being received and handled at once; one for each 4 MiB of Limits.InFlight, 64 at
	// most, when zero. A request may be as large as Limits.Inflated before anything can be said of it. More are asked to come
	// again.
	Requests int
	// Server are further options, such as credentials for TLS.
	Server []grpc.ServerOption
}

// GRPC is a server of the OTLP services over gRPC: traces and logs are recorded, metrics taken and dropped. Call Serve
// with a listener, and GracefulStop or Stop at the end.
func (h *Handler) GRPC(opts GRPCOptions) *grpc.Server {
	if opts.Requests == 0 {
		opts.Requests = int(max(1, min(64, h.opts.Limits.InFlight>>22)))
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
		grpc.ForceServerCodecV2(frames{}),
	}, opts.Server...)...)
	const services = "opentelemetry.proto.collector."
	server.RegisterService(h.service(services+"trace.v1.TraceService", SignalTraces, partialTraces), nil)
	server.RegisterService(h.service(services+"logs.v1.LogsService", SignalLogs, partialLogs), nil)
	server.RegisterService(h.service(services+"metrics.v1.MetricsService", SignalMetrics, nil), nil)
	return server
}

type senderKey struct{}

func senderOf(ctx context.Context) Sender {
	if s, ok := ctx.Value(senderKey{}).(Sender); ok {
		return s
	}
	return Sender{Tenant: ingest.DefaultTenant}
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
	sender := senderOf(ctx)
	if g.opts.Authorizer != nil {
		var err error
		if sender, err = g.opts.Authorizer.AuthorizeIngest(ctx, info.Header); err != nil {
			return nil, g.h.status(ctx, err)
		}
	}
	if err := g.h.admit(sender.Key); err != nil {
		return nil, g.h.status(ctx, err)
	}
	return context.WithValue(ctx, senderKey{}, sender), nil
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
	if f.code == codes.ResourceExhausted && f.retry > 0 { // clients surely send again after this one
		f.code = codes.Unavailable
	}
	st := status.New(f.code, strings.ToValidUTF8(f.message, "\uFFFD"))
	if f.retry > 0 {
		if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(f.retry)}); err == nil {
			st = detailed
		}
	}
	return st.Err()
}

// frame is a message as it came, or as it goes: requests are decoded only after it is known that they can be afforded, by
// what decodes them over HTTP.
type frame struct{ body []byte }

// frames is the codec of frames.
type frames struct{}

func (frames) Name() string { return "proto" }

func (frames) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("no frame but a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f.body)}, nil
}

func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("no frame but a %T", v)
	}
	f.body = data.Materialize()
	return nil
}

// service describes the one method of a signal's service.
func (h *Handler) service(name string, signal Signal, partial func(Stats, string) marshaler) *grpc.ServiceDesc {
	export := func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		request := new(frame)
		if err := decode(request); err != nil {
			return nil, err
		}
		info := &grpc.UnaryServerInfo{FullMethod: "/" + name + "/Export"}
		return intercept(ctx, request, info, func(ctx context.Context, _ any) (any, error) {
			answer, err := h.export(ctx, signal, request.body, partial)
			if err != nil {
				return nil, h.status(ctx, err)
			}
			return &frame{answer}, nil
		})
	}
	return &grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Export", Handler: export}}}
}

// export takes one request and answers it.
func (h *Handler) export(ctx context.Context, signal Signal, body []byte, partial func(Stats, string) marshaler) ([]byte, error) {
	size, held := int64(len(body)), h.opts.InFlight.Hold()
	defer held.Release()
	if err := held.Add(size); err != nil {
		return nil, err
	}
	sender := senderOf(ctx)
	stats, err := h.take(ctx, sender.Tenant, signal, Protobuf, body, held)
	h.charge(sender.Key, stats.Total, size)
	if err != nil {
		return nil, err
	}
	if message := remark(stats, nil); message != "" {
		return partial(stats, message).MarshalProto()
	}
	return nil, nil
}
