package otlp

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"google.golang.org/grpc/codes"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/deadletter"
)

// Recorder makes events durable; *ingest.Recorder is one.
type Recorder interface {
	Record(ctx context.Context, tenant string, events []ingest.Event) (ingest.Receipt, error)
}

// DeadLetters keeps requests that could not be read; *deadletter.Store is one. It is safe for concurrent use.
type DeadLetters interface {
	Add(deadletter.Letter) (kept bool, err error)
}

// Signal is a kind of telemetry.
type Signal string

// Signals. Metrics are taken and dropped.
const (
	SignalTraces  Signal = "traces"
	SignalLogs    Signal = "logs"
	SignalMetrics Signal = "metrics"
)

// Sender is who sent a request.
type Sender struct {
	Tenant string
	Key    string // the API key by its public name, "" when none was needed
}

// Options configure a Handler; the zero value is ready to use.
type Options struct {
	// Limits: Body, Inflated, Ratio, Group, and those of Reader.
	Limits ingest.Limits
	// Mapping names attributes of the user's own; nil is none.
	Mapping *Mapping
	// Own is the installation whose own telemetry is left out, see Reader.
	Own string
	// InFlight bounds the bytes of requests that are in memory at once, with other ways in; nil is a bound of its own of
	// Limits.InFlight. What does not fit is asked to come again.
	InFlight *ingest.InFlight
	// Sender names who sent an HTTP request that was let in; nil is the default tenant without a key.
	Sender func(*http.Request) Sender
	// Room refuses requests before they are read, such as when no more can be stored; nil refuses none.
	Room func() error
	// Rates hold keys to their rates; nil is no limit.
	Rates *ingest.RateLimiter
	// Observe is told of every request that was mapped, for metrics; nil is none.
	Observe func(signal string, stats Stats)
	// DeadLetters takes bodies that could not be read; nil drops them.
	DeadLetters DeadLetters
	// Log takes panics and internal errors; nil discards them.
	Log *slog.Logger
}

// Handler receives OTLP over HTTP, protobuf and JSON, plain, gzip or zstd, and over gRPC. A success is answered after the
// events are durable. Errors are answered as google.rpc.Status in the encoding of the request, and retryable (429,
// 503) only when the same request may succeed later. Safe for concurrent use.
type Handler struct {
	rec      Recorder
	opts     Options
	reader   Reader
	decoding chan struct{} // holds one for each request that is being decoded: that takes far more memory than its body
}

// New returns a handler that records with rec.
func New(rec Recorder, opts Options) *Handler {
	opts.Limits = opts.Limits.WithDefaults()
	if opts.InFlight == nil {
		opts.InFlight = ingest.NewInFlight(opts.Limits.InFlight)
	}
	if opts.Sender == nil {
		opts.Sender = func(*http.Request) Sender { return Sender{Tenant: ingest.DefaultTenant} }
	}
	if opts.Observe == nil {
		opts.Observe = func(string, Stats) {}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Handler{rec: rec, opts: opts, reader: Reader{Limits: opts.Limits, Mapping: opts.Mapping, Own: opts.Own},
		decoding: make(chan struct{}, 2*runtime.GOMAXPROCS(0))}
}

// admit lets a request of the key in, as far as there is room and its rates go.
func (h *Handler) admit(key string) error {
	if h.opts.Room != nil {
		if err := h.opts.Room(); err != nil {
			return err
		}
	}
	if h.opts.Rates == nil {
		return nil
	}
	return h.opts.Rates.Admit(key)
}

// charge takes what an admitted request held off the key's rates.
func (h *Handler) charge(key string, records int, bytes int64) {
	if h.opts.Rates != nil {
		h.opts.Rates.Charge(key, records, bytes)
	}
}

// decode maps the body of a request, of two at once for each processor: a large one must not hold up all others.
func (h *Handler) decode(signal Signal, encoding Encoding, body []byte) (events []ingest.Event, stats Stats, err error) {
	h.decoding <- struct{}{}
	defer func() { <-h.decoding }()
	switch signal {
	case SignalTraces:
		return h.reader.Traces(body, encoding)
	case SignalLogs:
		return h.reader.Logs(body, encoding)
	}
	return nil, stats, nil
}

// take maps and records the body of a request. A body that cannot be read becomes a dead letter.
func (h *Handler) take(ctx context.Context, tenant string, signal Signal, encoding Encoding, body []byte, held *ingest.Held) (stats Stats, err error) {
	events, stats, err := h.decode(signal, encoding, body)
	if err != nil && flows.CodeOf(err) == flows.CodeTooLarge {
		return stats, err // the sender can do something about it, and keeping it would cost what it was refused for
	}
	if err != nil {
		h.bury(tenant, signal, encoding, err.Error(), body)
		return stats, &flows.Error{Code: flows.CodeInvalid, Message: fmt.Sprintf("the body is not an OTLP %s request: %.300s", signal, err), Err: err}
	}
	if err := held.Add(ingest.Size(events...)); err != nil {
		return stats, err
	}
	return stats, h.record(ctx, tenant, signal, events, stats)
}

// record makes the events of a request durable, in parts that the recorder can commit at once. A part that fails fails
// the request; the parts before it are recognised when it is sent again.
func (h *Handler) record(ctx context.Context, tenant string, signal Signal, events []ingest.Event, stats Stats) error {
	h.opts.Observe(string(signal), stats)
	for first := 0; first < len(events); first += h.opts.Limits.Group {
		if _, err := h.rec.Record(ctx, tenant, events[first:min(first+h.opts.Limits.Group, len(events))]); err != nil {
			return err
		}
	}
	return nil
}

// Replay takes the body of a dead letter as if it were sent now, and says what became of its records.
func (h *Handler) Replay(ctx context.Context, l deadletter.Letter) (Stats, error) {
	encoding := Protobuf
	if l.Encoding == encodingJSON {
		encoding = JSON
	}
	signal := Signal(l.Signal)
	if signal != SignalTraces && signal != SignalLogs {
		return Stats{}, flows.NewError(flows.CodeInvalid, fmt.Sprintf("the letter still cannot be read: no signal %.40q", l.Signal))
	}
	events, stats, err := h.decode(signal, encoding, l.Body)
	if err != nil {
		return stats, &flows.Error{Code: flows.CodeInvalid, Message: fmt.Sprintf("the letter still cannot be read: %.300s", err), Err: err}
	}
	return stats, h.record(ctx, l.Tenant, signal, events, stats)
}

const (
	encodingProtobuf = "protobuf"
	encodingJSON     = "json"
)

// bury keeps a body that could not be read. An empty one says nothing.
func (h *Handler) bury(tenant string, signal Signal, encoding Encoding, reason string, body []byte) {
	if h.opts.DeadLetters == nil || len(body) == 0 {
		return
	}
	name := encodingProtobuf
	if encoding == JSON {
		name = encodingJSON
	}
	l := deadletter.Letter{Received: time.Now(), Tenant: tenant, Signal: string(signal), Encoding: name, Reason: fmt.Sprintf("%.300s", reason), Body: bytes.Clone(body)}
	if _, err := h.opts.DeadLetters.Add(l); err != nil {
		h.opts.Log.Error("dead letter", "signal", signal, "error", err)
	}
}

// remark says what of an accepted request was not used, "" when all was. body may be nil.
func remark(stats Stats, body []byte) string {
	switch {
	case stats.Rejected > 0:
		return fmt.Sprintf("%d of %d entries cannot be used: %s", stats.Rejected, stats.Total, stats.Reason)
	case stats.Mended > 0:
		return fmt.Sprintf("%d texts were not valid UTF-8 and were mended", stats.Mended)
	case stats.Total == 0 && bytes.Contains(body, []byte(`"instrumentationLibrarySpans"`)):
		return "instrumentationLibrarySpans is a form of OTLP from before 1.0 and was not read; update the exporter"
	}
	return ""
}

// failed is an error as clients are told.
type failed struct {
	status  int
	code    codes.Code
	message string
	retry   time.Duration // for what may succeed later
}

// failures maps stable codes to HTTP and gRPC ones.
var failures = map[flows.Code]failed{
	flows.CodeInvalid:          {status: http.StatusBadRequest, code: codes.InvalidArgument},
	flows.CodeTooLarge:         {status: http.StatusRequestEntityTooLarge, code: codes.ResourceExhausted},
	flows.CodeUnsupportedMedia: {status: http.StatusUnsupportedMediaType, code: codes.InvalidArgument},
	flows.CodeMethod:           {status: http.StatusMethodNotAllowed, code: codes.Unimplemented},
	flows.CodeRateLimited:      {status: http.StatusTooManyRequests, code: codes.ResourceExhausted},
	flows.CodeFull:             {status: http.StatusServiceUnavailable, code: codes.Unavailable},
	flows.CodeUnavailable:      {status: http.StatusServiceUnavailable, code: codes.Unavailable},
	flows.CodeUnauthenticated:  {status: http.StatusUnauthorized, code: codes.Unauthenticated},
	flows.CodeForbidden:        {status: http.StatusForbidden, code: codes.PermissionDenied},
}

// failure says how an error is answered.
func (h *Handler) failure(ctx context.Context, err error) failed {
	code := flows.CodeOf(err)
	f, known := failures[code]
	f.message = err.Error()
	if !known {
		f.status, f.code = http.StatusInternalServerError, codes.Internal
		if ctx.Err() == nil {
			h.opts.Log.ErrorContext(ctx, "otlp request failed", "error", err)
		}
		if code == flows.CodeInternal {
			f.message = "internal error"
		}
	}
	if f.status == http.StatusTooManyRequests || f.status == http.StatusServiceUnavailable {
		var ok bool
		if f.retry, ok = ingest.RetryAfter(err); !ok {
			f.retry = time.Second
		}
	}
	return f
}
