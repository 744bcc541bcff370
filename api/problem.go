package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"pave/api/gen"
	"pave/flows"
	"pave/ingest"
)

// statusClientGone is logged, never seen: the client has closed the connection.
const statusClientGone = 499

// problemType is the URI of a code.
func problemType(code flows.Code) string { return "urn:pave:problem:" + string(code) }

// problemOf turns any error into what the client sees. The text of an unknown error is not shown.
func problemOf(err error, requestID string) gen.Problem {
	code, detail := flows.CodeInternal, "the service failed; its log has the cause under this request id"
	var details []gen.ProblemError
	if e := new(flows.Error); errors.As(err, &e) {
		code, detail = e.Code, e.Message
		for _, d := range e.Details {
			details = append(details, gen.ProblemError{Pointer: d.Pointer, Code: d.Code, Detail: d.Detail})
		}
	}
	return gen.Problem{
		Type: problemType(code), Title: answers[code].title, Status: StatusOf(code),
		Detail: detail, Instance: requestID, Code: string(code), Errors: details,
	}
}

// domainError maps the errors of the framework and of the network to the one taxonomy.
func domainError(err error) error {
	if e := new(flows.Error); errors.As(err, &e) {
		return err
	}
	if he := new(echo.HTTPError); errors.As(err, &he) {
		text, _ := he.Message.(string)
		switch he.Code {
		case http.StatusNotFound:
			return flows.NewError(flows.CodeNotFound, "there is nothing at this path; /openapi.yaml lists what there is")
		case http.StatusMethodNotAllowed:
			return flows.NewError(flows.CodeMethod, "this path does not take this method; /openapi.yaml lists what it takes")
		case http.StatusUnsupportedMediaType:
			return flows.NewError(flows.CodeUnsupportedMedia, "send the body with a Content-Type that /openapi.yaml names for this operation")
		case http.StatusBadRequest:
			return flows.NewError(flows.CodeInvalid, text)
		}
	}
	return err
}

// handleError is the server's only error exit.
func (s *Server) handleError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	err = domainError(err)
	ctx := c.Request().Context()
	id := c.Response().Header().Get(echo.HeaderXRequestID)
	p := problemOf(err, id)
	switch {
	case p.Code == string(flows.CodeInternal) && errors.Is(ctx.Err(), context.Canceled):
		p.Status = statusClientGone
	case p.Code == string(flows.CodeInternal):
		s.log.ErrorContext(ctx, "request failed", "request_id", id, "path", c.Path(), "error", err, "cause", cause(err))
	case p.Status == http.StatusServiceUnavailable && cause(err) != nil && s.warned.due(time.Now()):
		s.log.WarnContext(ctx, "request cannot be served now", "request_id", id, "path", c.Path(), "error", err, "cause", cause(err))
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		c.Response().Header().Set("Retry-After", retryAfter(err))
	}
	if p.Status == http.StatusUnauthorized {
		c.Response().Header().Set("WWW-Authenticate", `Bearer realm="pave"`)
	}
	var write error
	if strings.HasPrefix(c.Request().URL.Path, "/v1/") {
		write = writeRPCStatus(c, p)
	} else {
		write = writeProblem(c, p)
	}
	if write != nil {
		s.log.DebugContext(ctx, "answer not delivered", "request_id", id, "error", write)
	}
}

// cause is what an error of the taxonomy wraps and does not show, nil when it wraps nothing.
func cause(err error) error {
	for {
		switch e := err.(type) { //nolint:errorlint // one layer after the other
		case *flows.Error:
			err = e.Err
		case *ingest.RetryError:
			err = e.Err
		default:
			return err
		}
	}
}

// pace lets one message through a second: while a store is away, every request has the same.
type pace struct{ last atomic.Int64 }

func (p *pace) due(now time.Time) bool {
	last := p.last.Load()
	return now.UnixMilli()-last >= time.Second.Milliseconds() && p.last.CompareAndSwap(last, now.UnixMilli())
}

// retryAfter is the hint of the error in whole seconds, one without it.
func retryAfter(err error) string {
	after, ok := ingest.RetryAfter(err)
	if !ok || after < time.Second {
		after = time.Second
	}
	return strconv.Itoa(int(math.Ceil(after.Seconds())))
}

func writeProblem(c echo.Context, p gen.Problem) error {
	if c.Request().Method == http.MethodHead {
		return c.NoContent(p.Status)
	}
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return c.Blob(p.Status, "application/problem+json", body)
}

// writeRPCStatus answers an OTLP client in its own encoding.
func writeRPCStatus(c echo.Context, p gen.Problem) error {
	status := &rpcstatus.Status{Code: int32(rpcCode(p.Status)), Message: p.Code + ": " + p.Detail}
	if strings.HasPrefix(c.Request().Header.Get(echo.HeaderContentType), echo.MIMEApplicationJSON) {
		body, err := protojson.Marshal(status)
		if err != nil {
			return err
		}
		return c.Blob(p.Status, echo.MIMEApplicationJSON, body)
	}
	body, err := proto.Marshal(status)
	if err != nil {
		return err
	}
	return c.Blob(p.Status, "application/x-protobuf", body)
}

// rpcCode is the gRPC code that the OTLP specification pairs with an HTTP status.
func rpcCode(status int) codes.Code {
	switch status {
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return codes.Unimplemented
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return codes.Unavailable
	case http.StatusRequestEntityTooLarge:
		return codes.ResourceExhausted
	case http.StatusInternalServerError:
		return codes.Internal
	}
	return codes.InvalidArgument
}

// recovered turns a handler's panic into an internal error.
func (s *Server) recovered(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if r := recover(); r != nil {
				if r == http.ErrAbortHandler {
					panic(r)
				}
				s.log.ErrorContext(c.Request().Context(), "handler panicked", "path", c.Path(),
					slog.Any("panic", r), "stack", stack())
				err = flows.NewError(flows.CodeInternal, "the service failed; its log has the cause under this request id")
			}
		}()
		return next(c)
	}
}
