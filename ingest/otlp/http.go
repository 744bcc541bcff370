package otlp

import (
	"bytes"
	"fmt"
	"io"
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
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"pave/flows"
	"pave/ingest"
)

// Traces serves POST /v1/traces.
func (h *Handler) Traces() http.Handler { return h.serve(SignalTraces, partialTraces) }

// Logs serves POST /v1/logs.
func (h *Handler) Logs() http.Handler { return h.serve(SignalLogs, partialLogs) }

func partialTraces(s Stats, message string) marshaler {
	r := ptraceotlp.NewExportResponse()
	r.PartialSuccess().SetRejectedSpans(int64(s.Rejected))
	r.PartialSuccess().SetErrorMessage(message)
	return r
}

func partialLogs(s Stats, message string) marshaler {
	r := plogotlp.NewExportResponse()
	r.PartialSuccess().SetRejectedLogRecords(int64(s.Rejected))
	r.PartialSuccess().SetErrorMessage(message)
	return r
}

// Metrics serves POST /v1/metrics: taken and dropped, so that clients which send all signals to one place do not fail.
func (h *Handler) Metrics() http.Handler { return h.serve(SignalMetrics, nil) }

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

// serve builds the handler of one signal. Partial makes the response when there is something to say of a success.
func (h *Handler) serve(signal Signal, partial func(Stats, string) marshaler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		encoding, err := encodingOf(req)
		sender := h.opts.Sender(req)
		if err == nil {
			err = h.admit(sender.Key)
		}
		if err != nil {
			h.fail(w, req, encoding, err)
			return
		}
		body := buffers.Get().(*bytes.Buffer)
		defer func() {
			if body.Cap() <= maxPooled {
				body.Reset()
				buffers.Put(body)
			}
		}()
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				// Not retryable: the same request would panic again.
				h.opts.Log.ErrorContext(req.Context(), "otlp handler panic", "signal", signal, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				h.bury(sender.Tenant, signal, encoding, fmt.Sprintf("panic: %v", p), body.Bytes())
				h.fail(w, req, encoding, flows.NewError(flows.CodeInternal, "the request could not be handled"))
			}
		}()
		held := h.opts.InFlight.Hold()
		defer held.Release()
		if err := h.read(req, body, held); err != nil {
			h.fail(w, req, encoding, err)
			return
		}
		stats, err := h.take(req.Context(), sender.Tenant, signal, encoding, body.Bytes(), held)
		h.charge(sender.Key, stats.Total, int64(body.Len()))
		if err != nil {
			h.fail(w, req, encoding, err)
			return
		}
		var response marshaler = fullSuccess{}
		if message := remark(stats, body.Bytes()); message != "" {
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

// read reads the body into the buffer.
func (h *Handler) read(req *http.Request, body *bytes.Buffer, held *ingest.Held) error {
	limits := h.opts.Limits
	switch strings.ToLower(req.Header.Get("Content-Encoding")) {
	case "", "identity": // the protocol's limit is that of the message, compressed or not
		limits.Body = limits.Inflated
	}
	plain, err := ingest.Inflate(req.Body, req.Header.Get("Content-Encoding"), limits)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }() // what was read is what counts
	_, err = body.ReadFrom(&heldReader{r: plain, held: held})
	if err != nil && flows.CodeOf(err) == flows.CodeInternal { // the connection, not the content
		err = &flows.Error{Code: flows.CodeInvalid, Message: "the request body could not be read", Err: err}
	}
	return err
}

// heldReader takes what it reads out of the bytes that may be in flight.
type heldReader struct {
	r    io.Reader
	held *ingest.Held
}

func (h *heldReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if refused := h.held.Add(int64(n)); refused != nil {
		return n, refused
	}
	return n, err
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

func (h *Handler) fail(w http.ResponseWriter, req *http.Request, encoding Encoding, err error) {
	f := h.failure(req.Context(), err)
	switch f.status {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(max(f.retry, time.Second).Seconds()))))
	}
	// Messages may quote the body.
	message := strings.ToValidUTF8(f.message, "\uFFFD")
	h.answer(w, encoding, f.status, rpcError{&rpcstatus.Status{Code: int32(f.code), Message: message}})
}
