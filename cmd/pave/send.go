package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/flows"
)

type sendCmd struct {
	Signal string `arg:"" enum:"traces,logs,metrics" help:"What the file holds: traces, logs or metrics."`
	File   string `arg:"" help:"An OTLP request: JSON where the name ends with .json, else protobuf."`
}

// Run sends a request of the OpenTelemetry protocol as an exporter would, and prints the answer.
func (c *sendCmd) Run(e *env) error {
	body, err := readFile("request", c.File)
	if err != nil {
		return err
	}
	return e.withClient(func(cl *client) error { return c.send(e, cl, body) })
}

// sent is what became of a request.
type sent struct {
	Status   int    `json:"status"`
	Rejected int64  `json:"rejected"`          // spans or log records that the receiver cannot use
	Message  string `json:"message,omitempty"` // why not, or a remark
}

func (c *sendCmd) send(e *env, cl *client, body []byte) error {
	media, isJSON := "application/x-protobuf", filepath.Ext(c.File) == ".json"
	if isJSON {
		media = "application/json"
	}
	post := map[string]func(context.Context, string, io.Reader, ...gen.RequestEditorFn) (*http.Response, error){
		"traces": cl.ExportTracesWithBody, "logs": cl.ExportLogsWithBody, "metrics": cl.ExportMetricsWithBody}[c.Signal]
	resp, err := post(e.ctx, media, bytes.NewReader(body))
	if err != nil {
		return requestError(err)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxInput))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return requestError(err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return sendError(resp.StatusCode, isJSON, answer)
	}
	result := sent{Status: resp.StatusCode}
	if result.Rejected, result.Message, err = c.partial(isJSON, answer); err != nil {
		return fmt.Errorf("the receiver's answer: %w", err)
	}
	return e.printValue(result, func(w io.Writer) error {
		if result.Rejected == 0 && result.Message == "" {
			_, err := fmt.Fprintf(w, "accepted (%d)\n", result.Status)
			return err
		}
		_, err := fmt.Fprintf(w, "accepted (%d), %d rejected: %s\n", result.Status, result.Rejected, output.Clean(result.Message))
		return err
	})
}

// partial reads what the receiver says of a request that it took, whose form is that of the request. It drops metrics
// without a word.
func (c *sendCmd) partial(isJSON bool, answer []byte) (rejected int64, message string, err error) {
	switch c.Signal {
	case "traces":
		r := ptraceotlp.NewExportResponse()
		if isJSON {
			err = r.UnmarshalJSON(answer)
		} else {
			err = r.UnmarshalProto(answer)
		}
		return r.PartialSuccess().RejectedSpans(), r.PartialSuccess().ErrorMessage(), err
	case "logs":
		r := plogotlp.NewExportResponse()
		if isJSON {
			err = r.UnmarshalJSON(answer)
		} else {
			err = r.UnmarshalProto(answer)
		}
		return r.PartialSuccess().RejectedLogRecords(), r.PartialSuccess().ErrorMessage(), err
	}
	return 0, "", nil
}

// sendError is the error of a request that was refused: the protocol answers a google.rpc.Status in the form of the request.
func sendError(status int, isJSON bool, answer []byte) error {
	text, said := string(answer), new(rpcstatus.Status)
	err := proto.Unmarshal(answer, said)
	if isJSON {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(answer, said)
	}
	if err == nil && said.Message != "" {
		text = said.Message
	}
	code := flows.CodeInvalid
	switch {
	case status == http.StatusUnauthorized:
		code = flows.CodeUnauthenticated
	case status == http.StatusForbidden:
		code = flows.CodeForbidden
	case status == http.StatusRequestEntityTooLarge:
		code = flows.CodeTooLarge
	case status == http.StatusTooManyRequests:
		code = flows.CodeRateLimited
	case status >= http.StatusInternalServerError:
		code = flows.CodeUnavailable
	}
	return flows.NewError(code, fmt.Sprintf("the receiver answered %d: %s", status, text))
}
