package transcript

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/otlp"
	"pave/ingest/rawjson"
)

// otlp imports OTLP request bodies: one protobuf message, or JSON objects, one or many, of either signal.
func (s *sink) otlp(in *input, format Format) error {
	if head, _ := in.r.Peek(1); strings.HasSuffix(in.name, ".json") || strings.HasSuffix(in.name, ".jsonl") || len(head) > 0 && head[0] == '{' {
		return s.otlpJSON(in, format)
	}
	body, err := io.ReadAll(io.LimitReader(in.r, s.opts.Limits.Inflated+1))
	if err != nil {
		return err
	}
	if int64(len(body)) > s.opts.Limits.Inflated {
		return fmt.Errorf("the request is larger than %d bytes", s.opts.Limits.Inflated)
	}
	return s.otlpRequest(in, format, body, otlp.Protobuf, 0, 1)
}

func (s *sink) otlpJSON(in *input, format Format) error {
	stream := rawjson.NewStream(in.r, rawjson.Auto, int(s.opts.Limits.Inflated))
	for index := 0; ; index++ {
		raw, line, err := stream.Next()
		var broken *rawjson.Error
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, rawjson.ErrRecordTooLarge), errors.As(err, &broken):
			s.reject(ingest.RecordError{File: in.path, Index: index, Line: line, Code: flows.CodeInvalid, Message: err.Error()})
			continue
		case err != nil:
			return err
		}
		signal := format
		if hasKey(raw, "resourceLogs") || hasKey(raw, "resource_logs") {
			signal = OTLPLogs
		} else if hasKey(raw, "resourceSpans") || hasKey(raw, "resource_spans") {
			signal = OTLPTraces
		}
		if err := s.otlpRequest(in, signal, raw, otlp.JSON, index, line); err != nil {
			return err
		}
	}
}

// otlpRequest maps one request; what is wrong with it is reported, and its good parts are taken.
func (s *sink) otlpRequest(in *input, signal Format, body []byte, encoding otlp.Encoding, index, line int) error {
	read := otlp.Traces
	if signal == OTLPLogs {
		read = otlp.Logs
	}
	events, stats, err := read(body, encoding, s.opts.Limits)
	where := ingest.RecordError{File: in.path, Index: index, Line: line, Code: flows.CodeInvalid}
	if err != nil {
		where.Message = fmt.Sprintf("not an OTLP %s request: %v", signal, err)
		s.reject(where)
		return nil
	}
	if stats.Rejected > 0 {
		where.Message = fmt.Sprintf("%d of %d %s entries cannot be used: %s", stats.Rejected, stats.Total, signal, stats.Reason)
		s.reject(where)
	}
	s.report.Filtered += stats.Filtered
	return s.add(events...)
}
