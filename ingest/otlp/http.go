package otlp

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"pave/flows"
	"pave/ingest"
)

// Recorder makes events durable; *ingest.Recorder is one.
type Recorder interface {
	Record(ctx context.Context, tenant string, events []ingest.Event) (ingest.Receipt, error)
}

// Options configure a Handler; the zero value is ready to use.
type Options struct {
	// Limits: Body, Inflated, Ratio, Group, and those of MapTraces.
	Limits ingest.Limits
	// Tenant names the tenant of a request that was let in; nil is the default tenant.
	Tenant func(*http.Request) string
	// Observe is told of every request that was mapped, for metrics; nil is none.
	Observe func(signal string, stats Stats)
	// Log takes panics and internal errors; nil discards them.
	Log *slog.Logger
}

// Handler receives OTLP over HTTP, protobuf and JSON, plain, gzip or zstd. A success is answered after the events are
// durable. Errors are answered as google.rpc.Status in the encoding of the request, and retryable (429, 503) only when
// the same request may succeed later. Safe for concurrent use.
type Handler struct {
	rec  Recorder
	opts Options
}

// New returns a handler that records with rec.
func New(rec Recorder, opts Options) *Handler {
	opts.Limits = opts.Limits.WithDefaults()
	if opts.Tenant == nil {
		opts.Tenant = func(*http.Request) string { return ingest.DefaultTenant }
	}
	if opts.Observe == nil {
		opts.Observe = func(string, Stats) {}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Handler{rec: rec, opts: opts}
}

// Traces serves POST /v1/traces.
func (h *Handler) Traces() http.Handler {
	return h.signal("traces", Traces, func(s Stats, message string) marshaler {
		r := ptraceotlp.NewExportResponse()
		r.PartialSuccess().SetRejectedSpans(int64(s.Rejected))
		r.PartialSuccess().SetErrorMessage(message)
		return r
	})
}

// Logs serves POST /v1/logs.
func (h *Handler) Logs() http.Handler {
	return h.signal("logs", Logs, func(s Stats, message string) marshaler {
		r := plogotlp.NewExportResponse()
		r.PartialSuccess().SetRejectedLogRecords(int64(s.Rejected))
		r.PartialSuccess().SetErrorMessage(message)
		return r
	})
}

// Metrics serves POST /v1/metrics: taken and dropped, so that clients which send all signals to one place do not fail.
func (h *Handler) Metrics() http.Handler {
	discard := func([]byte, Encoding, ingest.Limits) ([]ingest.Event, Stats, error) { return nil, Stats{}, nil }
	return h.signal("metrics", discard, nil)
}

// Register mounts all signals at their standard paths.
func (h *Handler) Register(mux *http.ServeMux) {
	mux.Handle("/v1/traces", h.Traces())
	mux.Handle("/v1/logs", h.Logs())
	mux.Handle("/v1/metrics", h.Metrics())
}

type marshaler interface {
	MarshalProto() ([]byte, error)
	MarshalJSON() ([]byte, error)
}

// fullSuccess is the response of any signal with partial_success unset, as a full success must leave it; pdata's own
// response writes an empty one.
type fullSuccess struct{}

func (fullSuccess) MarshalProto() ([]byte, error) { return nil, nil }
func (fullSuccess) MarshalJSON() ([]byte, error)  { return []byte("{}"), nil }

// signal builds the handler of one signal. Partial makes the response when there is something to say of a success.
func (h *Handler) signal(name string, read func([]byte, Encoding, ingest.Limits) ([]ingest.Event, Stats, error),
	partial func(Stats, string) marshaler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		encoding, err := encodingOf(req)
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				// Not retryable: the same request would panic again.
				h.opts.Log.ErrorContext(req.Context(), "otlp handler panic", "signal", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				h.fail(w, req, encoding, flows.NewError(flows.CodeInternal, "the request could not be handled"))
			}
		}()
		if err != nil {
			h.fail(w, req, encoding, err)
			return
		}
		stats, message, err := h.take(req, name, encoding, read)
		if err != nil {
			h.fail(w, req, encoding, err)
			return
		}
		var response marshaler = fullSuccess{}
		if message != "" {
			response = partial(stats, message)
		}
		h.answer(w, encoding, http.StatusOK, response)
	})
}

// encodingOf checks method and content type. The encoding of the answer to an unknown content type is JSON.
func encodingOf(req *http.Request) (Encoding, error) {
	mediaType, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	encoding := JSON
	if mediaType == "application/x-protobuf" {
		encoding = Protobuf
	}
	switch {
	case req.Method != http.MethodPost:
		return encoding, flows.NewError(flows.CodeMethod, "send telemetry with POST")
	case encoding == JSON && mediaType != "application/json":
		return encoding, flows.NewError(flows.CodeUnsupportedMedia,
			fmt.Sprintf("content type %.60q is not supported; send application/x-protobuf or application/json", mediaType))
	}
	return encoding, nil
}

// buffers of request bodies; the decoders copy what they keep.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooled keeps rare large bodies from staying in memory.
const maxPooled = 4 << 20

// take reads, maps and records one request.
func (h *Handler) take(req *http.Request, signal string, encoding Encoding,
	read func([]byte, Encoding, ingest.Limits) ([]ingest.Event, Stats, error)) (stats Stats, message string, err error) {
	plain, err := ingest.Inflate(req.Body, req.Header.Get("Content-Encoding"), h.opts.Limits)
	if err != nil {
		return stats, "", err
	}
	defer func() { _ = plain.Close() }()
	body := buffers.Get().(*bytes.Buffer)
	defer func() {
		if body.Cap() <= maxPooled {
			body.Reset()
			buffers.Put(body)
		}
	}()
	if _, err := body.ReadFrom(plain); err != nil {
		if flows.CodeOf(err) == flows.CodeInternal { // the connection, not the content
			err = &flows.Error{Code: flows.CodeInvalid, Message: "the request body could not be read", Err: err}
		}
		return stats, "", err
	}
	events, stats, err := read(body.Bytes(), encoding, h.opts.Limits)
	if err != nil {
		return stats, "", &flows.Error{Code: flows.CodeInvalid, Message: fmt.Sprintf("the body is not an OTLP %s request: %.300s", signal, err), Err: err}
	}
	h.opts.Observe(signal, stats)
	for first := 0; first < len(events); first += h.opts.Limits.Group {
		part := events[first:min(first+h.opts.Limits.Group, len(events))]
		// A part that fails fails the request; the parts before it are recognised when it is sent again.
		if _, err := h.rec.Record(req.Context(), h.opts.Tenant(req), part); err != nil {
			return stats, "", err
		}
	}
	return stats, remark(stats, body.Bytes()), nil
}

// remark says what of an accepted request was not used, "" when all was.
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

func (h *Handler) answer(w http.ResponseWriter, encoding Encoding, status int, m marshaler) {
	var body []byte
	var err error
	contentType := "application/x-protobuf"
	if encoding == JSON {
		contentType = "application/json"
		body, err = m.MarshalJSON()
	} else {
		body, err = m.MarshalProto()
	}
	if err != nil {
		h.opts.Log.Error("otlp answer", "error", err)
		status, body = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

// rpcError is a google.rpc.Status.
type rpcError struct{ *rpcstatus.Status }

func (e rpcError) MarshalProto() ([]byte, error) { return proto.Marshal(e.Status) }
func (e rpcError) MarshalJSON() ([]byte, error)  { return protojson.Marshal(e.Status) }

// failures maps stable codes to HTTP and gRPC ones.
var failures = map[flows.Code]struct {
	status int
	code   codes.Code
}{
	flows.CodeInvalid:          {http.StatusBadRequest, codes.InvalidArgument},
	flows.CodeTooLarge:         {http.StatusRequestEntityTooLarge, codes.ResourceExhausted},
	flows.CodeUnsupportedMedia: {http.StatusUnsupportedMediaType, codes.InvalidArgument},
	flows.CodeMethod:           {http.StatusMethodNotAllowed, codes.Unimplemented},
	flows.CodeRateLimited:      {http.StatusTooManyRequests, codes.ResourceExhausted},
	flows.CodeFull:             {http.StatusServiceUnavailable, codes.Unavailable},
	flows.CodeUnavailable:      {http.StatusServiceUnavailable, codes.Unavailable},
	flows.CodeUnauthenticated:  {http.StatusUnauthorized, codes.Unauthenticated},
	flows.CodeForbidden:        {http.StatusForbidden, codes.PermissionDenied},
}

func (h *Handler) fail(w http.ResponseWriter, req *http.Request, encoding Encoding, err error) {
	code := flows.CodeOf(err)
	f, known := failures[code]
	message := err.Error()
	if !known {
		f.status, f.code = http.StatusInternalServerError, codes.Internal
		if req.Context().Err() == nil {
			h.opts.Log.ErrorContext(req.Context(), "otlp request failed", "error", err)
		}
		if code == flows.CodeInternal {
			message = "internal error"
		}
	}
	switch f.status {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		after, ok := ingest.RetryAfter(err)
		if !ok {
			after = time.Second
		}
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(max(after, time.Second).Seconds()))))
	}
	// Messages may quote the body.
	message = strings.ToValidUTF8(message, "\uFFFD")
	h.answer(w, encoding, f.status, rpcError{&rpcstatus.Status{Code: int32(f.code), Message: message}})
}
