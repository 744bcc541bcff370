package transcript

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/otlp"
	"pave/ingest/rawjson"
)

func (s *sink) otlpTraces(in *input) error { return s.otlp(in, OTLPTraces) }
func (s *sink) otlpLogs(in *input) error   { return s.otlp(in, OTLPLogs) }

// otlpMixed imports a file whose name does not say the signal: JSON does, and of protobuf it is tried.
func (s *sink) otlpMixed(in *input) error { return s.otlp(in, OTLP) }

// otlp imports OTLP request bodies: JSON objects, one or many, of any signal; one protobuf message; or, as the
// collector's file exporter writes them, many, each behind its length in four bytes. Metrics are passed over.
func (s *sink) otlp(in *input, format Format) error {
	head, _ := in.r.Peek(5)
	if strings.HasSuffix(in.name, ".json") || strings.HasSuffix(in.name, ".jsonl") || len(head) > 0 && head[0] == '{' {
		return s.otlpJSON(in, format)
	}
	if len(head) == 5 && head[0] < 0x0A && head[4] == 0x0A { // a message begins with its first field
		return s.otlpFramed(in, format)
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

// otlpFramed reads messages that each stand behind their length. A file that was cut ends in a part of one.
func (s *sink) otlpFramed(in *input, format Format) error {
	for index := 0; ; index++ {
		var length [4]byte
		if _, err := io.ReadFull(in.r, length[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n := int64(binary.BigEndian.Uint32(length[:]))
		if n > s.opts.Limits.Inflated {
			return fmt.Errorf("message %d is larger than %d bytes", index, s.opts.Limits.Inflated)
		}
		body, err := io.ReadAll(io.LimitReader(in.r, n))
		if err == nil && int64(len(body)) < n {
			err = fmt.Errorf("message %d is cut: %w", index, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return err
		}
		if err := s.otlpRequest(in, format, body, otlp.Protobuf, index, 1); err != nil {
			return err
		}
	}
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
		if hasKey(raw, "resourceMetrics") || hasKey(raw, "resource_metrics") || hasKey(raw, "resourceProfiles") {
			s.report.Filtered++
			continue
		}
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
	reader := otlp.Reader{Limits: s.opts.Limits, Mapping: s.opts.Mapping}
	read := reader.Traces
	if signal == OTLPLogs {
		read = reader.Logs
	}
	events, stats, err := read(body, encoding)
	if signal == OTLP && len(events) == 0 { // both signals decode; only one makes sense
		if more, logStats, logErr := reader.Logs(body, encoding); logErr == nil && (len(more) > 0 || err != nil) {
			events, stats, err = more, logStats, nil
		}
	}
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
