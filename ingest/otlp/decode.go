package otlp

import (
	"fmt"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"pave/ingest"
)

// Encoding of a request body.
type Encoding uint8

const (
	Protobuf Encoding = iota
	JSON
)

// unmarshaler is a request of any signal.
type unmarshaler interface {
	UnmarshalProto([]byte) error
	UnmarshalJSON([]byte) error
}

// unmarshal decodes a body. The JSON decoder refuses null ids and a zero-byte body, takes snake case and names of
// enums, and ignores unknown fields.
func unmarshal(into unmarshaler, body []byte, encoding Encoding) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder failed: %v", p)
		}
	}()
	if encoding == JSON {
		return into.UnmarshalJSON(body)
	}
	return into.UnmarshalProto(body)
}

// Traces maps the body of one trace request.
func Traces(body []byte, encoding Encoding, limits ingest.Limits) ([]ingest.Event, Stats, error) {
	req := ptraceotlp.NewExportRequest()
	if err := unmarshal(req, body, encoding); err != nil {
		return nil, Stats{}, err
	}
	events, stats := MapTraces(req.Traces(), limits)
	return events, stats, nil
}

// Logs maps the body of one log request.
func Logs(body []byte, encoding Encoding, limits ingest.Limits) ([]ingest.Event, Stats, error) {
	req := plogotlp.NewExportRequest()
	if err := unmarshal(req, body, encoding); err != nil {
		return nil, Stats{}, err
	}
	events, stats := MapLogs(req.Logs(), limits)
	return events, stats, nil
}
