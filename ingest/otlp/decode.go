package otlp

import (
	"bytes"
	"fmt"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"pave/ingest"
	"pave/ingest/rawjson"
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

// unmarshal decodes a body. The JSON decoder takes snake case and names of enums and ignores unknown fields; it refuses
// null ids and a body of no bytes, which are nothing here.
func unmarshal(into unmarshaler, kind *message, body []byte, encoding Encoding) (err error) {
	if err := affordable(body, encoding, kind); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder failed: %v", p)
		}
	}()
	if encoding == Protobuf {
		return into.UnmarshalProto(body)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	err = into.UnmarshalJSON(body)
	if err != nil && bytes.Contains(body, []byte("null")) {
		if clean, ok := withoutNulls(body); ok {
			return into.UnmarshalJSON(clean)
		}
	}
	return err
}

// withoutNulls removes the members that are null, and reports whether there were any.
func withoutNulls(body []byte) (clean []byte, found bool) {
	w := nullWriter{s: rawjson.Scanner{Data: body, Limits: rawjson.Limits{Depth: maxJSONDepth, Tokens: 1 << 24}}}
	if w.value() != nil {
		return nil, false
	}
	return w.out, w.found
}

// maxJSONDepth bounds the nesting of a request that is searched for nulls.
const maxJSONDepth = 512

type nullWriter struct {
	s     rawjson.Scanner
	out   []byte
	found bool
}

func (w *nullWriter) value() error {
	c := w.s.Peek()
	if c != '{' && c != '[' {
		raw, err := w.s.Value()
		w.out = append(w.out, raw...)
		return err
	}
	if err := w.s.Open(c); err != nil {
		return err
	}
	w.out = append(w.out, c)
	for n := 0; ; {
		var key []byte
		var more bool
		var err error
		if c == '{' {
			key, more, err = w.s.Key()
		} else {
			more, err = w.s.Next()
		}
		if err != nil {
			return err
		}
		if !more {
			w.out = append(w.out, c+2) // } and ] stand two behind { and [
			return nil
		}
		if c == '{' && w.s.Peek() == 'n' {
			w.found = true
			if _, err := w.s.Value(); err != nil {
				return err
			}
			continue
		}
		if n++; n > 1 {
			w.out = append(w.out, ',')
		}
		if c == '{' {
			w.out = append(rawjson.AppendString(w.out, key), ':')
		}
		if err := w.value(); err != nil {
			return err
		}
	}
}

// Reader turns requests into events. The zero value reads the known dialects with the default limits.
type Reader struct {
	// Limits: Depth, Tokens, ToolName, ID.
	Limits ingest.Limits
	// Mapping names attributes of the user's own; nil is none.
	Mapping *Mapping
	// Own is the installation whose own telemetry is left out, because it is here already: the value of the resource
	// attribute pave.installation. "" leaves nothing out.
	Own string
}

// Traces maps the body of one trace request.
func (rd Reader) Traces(body []byte, encoding Encoding) ([]ingest.Event, Stats, error) {
	req := ptraceotlp.NewExportRequest()
	if err := unmarshal(req, traceRequest, body, encoding); err != nil {
		return nil, Stats{}, err
	}
	events, stats := rd.MapTraces(req.Traces())
	return events, stats, nil
}

// Logs maps the body of one log request.
func (rd Reader) Logs(body []byte, encoding Encoding) ([]ingest.Event, Stats, error) {
	req := plogotlp.NewExportRequest()
	if err := unmarshal(req, logRequest, body, encoding); err != nil {
		return nil, Stats{}, err
	}
	events, stats := rd.MapLogs(req.Logs())
	return events, stats, nil
}
