package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"pave/api/gen"
	"pave/flows"
	"pave/governance"
	"pave/ingest"
)

// maxRejected bounds how many rejected records a receipt lists; all are counted.
const maxRejected = 100

// mountRaw adds the operations tagged raw, which stream their bodies or serve bytes.
func (s *Server) mountRaw() {
	s.echo.POST("/api/v1/tool-calls", s.recordToolCalls)
	s.echo.POST("/v1/traces", echo.WrapHandler(s.deps.OTLP.Traces))
	s.echo.POST("/v1/logs", echo.WrapHandler(s.deps.OTLP.Logs))
	s.echo.POST("/v1/metrics", echo.WrapHandler(s.deps.OTLP.Metrics))
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		s.echo.Add(method, mcpPath, s.serveMCP)
	}
	s.echo.GET("/metrics", echo.WrapHandler(s.metrics.handler()))
	s.echo.GET("/api/v1/me", s.me)
	s.echo.POST("/api/v1/ui-session", s.signIn)
	s.echo.DELETE("/api/v1/ui-session", s.signOut)
	s.echo.GET("/docs", s.serveDocs)
	s.echo.GET("/api/v1/audit-events/export", s.exportAudit)
	s.echo.GET("/openapi.yaml", func(c echo.Context) error { return c.Blob(http.StatusOK, "application/yaml", openapiYAML) })
	s.echo.GET("/openapi.json", func(c echo.Context) error { return c.JSONBlob(http.StatusOK, s.contract.json) })
}

// exportAudit streams the audit log. An error after the first line cuts the answer, which a verification then finds.
func (s *Server) exportAudit(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderContentType, "application/x-ndjson")
	c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="audit.ndjson"`)
	return s.deps.Admin.ExportAudit(c.Request().Context(), actorFrom(c.Request().Context()), c.Response())
}

// recordToolCalls decodes records one by one, makes the good ones durable together and answers what became of each.
func (s *Server) recordToolCalls(c echo.Context) error {
	ctx := c.Request().Context()
	tenant, key := actorFrom(ctx).Tenant, actorFrom(ctx).Key
	if err := s.deps.Recorder.Room(); err != nil {
		return storeError(err)
	}
	if rates := s.deps.Rates; rates != nil {
		if err := rates.Admit(key); err != nil {
			return err
		}
		counted := &countedReader{r: c.Request().Body}
		c.Request().Body = counted
		defer func() { rates.Charge(key, counted.records, counted.bytes) }()
	}
	held := s.opts.InFlight.Hold()
	defer held.Release()
	events, rejected, err := s.readRecords(c.Request().Body, held)
	if err != nil {
		return err
	}
	if counted, ok := c.Request().Body.(*countedReader); ok {
		counted.records = len(events) + len(rejected)
	}
	if len(events) == 0 && len(rejected) > 0 {
		s.metrics.ingested(0, 0, len(rejected))
		return nothingAccepted(rejected)
	}
	receipt, err := s.deps.Recorder.Record(ctx, tenant, events)
	if err != nil {
		return storeError(err)
	}
	s.metrics.ingested(receipt.Accepted, receipt.Duplicates, len(rejected))
	for _, bad := range rejected {
		s.deps.Losses.Add(Loss{Via: intakes["recordToolCalls"], Reason: string(bad.Code)}, 1, time.Now())
	}
	out := gen.IngestReceipt{Accepted: receipt.Accepted, Duplicates: receipt.Duplicates, RejectedCount: len(rejected),
		Rejected: list(rejected[:min(len(rejected), maxRejected)], rejectedRecord)}
	for _, w := range receipt.Warnings {
		out.Warnings = append(out.Warnings, gen.IngestWarning{Code: gen.IngestWarningCode(w.Code), Count: w.Count, Detail: w.Message})
	}
	if c.QueryParam("assemble") == "true" {
		// The records are durable by now: a store that cannot assemble yet must not read like a refusal of them.
		if out.SessionsAssembled, err = s.deps.Sessions.Assemble(ctx, tenant); err != nil {
			s.log.WarnContext(ctx, "recorded, not assembled", "error", err)
			out.Warnings = append(out.Warnings, gen.IngestWarning{Code: "not_assembled", Count: out.Accepted,
				Detail: "the records are durable, but their sessions are not assembled yet; that happens by itself when the event store answers again"})
		}
	}
	return c.JSON(http.StatusOK, out)
}

// readRecords decodes a body of records, the bad ones aside. The good ones count against the memory for requests.
func (s *Server) readRecords(body io.Reader, held *ingest.Held) (events []ingest.Event, rejected []ingest.RecordError, err error) {
	for event, err := range ingest.DecodeRecords(body, ingest.DecodeOptions{Limits: s.opts.Limits, Origin: ingest.OriginAgent}) {
		if bad := new(ingest.RecordError); errors.As(err, &bad) {
			rejected = append(rejected, *bad)
			continue
		}
		if err == nil {
			err = held.Add(ingest.Size(event))
		}
		if err != nil {
			return nil, nil, err
		}
		events = append(events, event)
	}
	return events, rejected, nil
}

// countedReader counts what a key sends.
type countedReader struct {
	r       io.ReadCloser
	bytes   int64
	records int
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.bytes += int64(n)
	return n, err
}

func (c *countedReader) Close() error { return c.r.Close() }

func rejectedRecord(e ingest.RecordError) gen.RejectedRecord {
	return gen.RejectedRecord{Index: e.Index, Line: e.Line, Code: string(e.Code), Pointer: e.Pointer, Detail: e.Message}
}

// nothingAccepted answers a request without one good record as an error.
func nothingAccepted(rejected []ingest.RecordError) error {
	details := list(rejected[:min(len(rejected), maxDetails)], func(e ingest.RecordError) flows.ErrorDetail {
		return flows.ErrorDetail{Pointer: fmt.Sprintf("/%d%s", e.Index, e.Pointer), Code: string(e.Code), Detail: e.Message}
	})
	return flows.NewError(rejected[0].Code, fmt.Sprintf("none of the %d records can be taken; the first: %s", len(rejected), rejected[0].Message), details...)
}

// patient are the operations that work in line: a flow runs, a pass mines, sessions are assembled.
var patient = []string{"runFlow", "replayRun", "decideRunApproval", "resumeRun", "cancelRun", "startMiningRun", "recordToolCalls", "pollWorkerPool"}

// patience extends the write deadline of operations that work in line.
func (s *Server) patience(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if op := s.operation(c); op != nil && slices.Contains(patient, op.id) {
			// In-process callers have no connection and need no deadline.
			// The read limit was for the request; past it the server would end the request's context under the work.
			limits, until := http.NewResponseController(c.Response()), time.Now().Add(longWrite)
			_, _ = limits.SetWriteDeadline(until), limits.SetReadDeadline(until)
		}
		return next(c)
	}
}

// ActorOf is the authenticated caller of a request that reached a mounted handler.
func ActorOf(r *http.Request) governance.Actor { return actorFrom(r.Context()) }
