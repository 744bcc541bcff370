package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"unicode/utf8"

	"pave/flows"
	"pave/ingest/rawjson"
)

// DecodeOptions select how records are read. The zero value reads a request body of unknown form with the default
// limits.
type DecodeOptions struct {
	// Form of the stream; Auto takes arrays, NDJSON and single objects.
	Form rawjson.Form
	// Limits: Record, Depth, Tokens, ToolName, ID, and Batch unless NoBatchLimit.
	Limits       Limits
	NoBatchLimit bool
	// Source is set on events whose record has none; "" means "json".
	Source string
	// Context reads the member "context" of a tool call as the user's text before it, and gives that as an event of
	// its own, as recorded-session files have it.
	Context bool
	// Origin overrides the record's origin_kind when set: a public endpoint takes agents' calls only.
	Origin OriginKind
}

// RecordError says why one record was not taken. The records around it are not touched.
type RecordError struct {
	File    string     // "" when there is none
	Index   int        // of the record in its batch or file, from 0
	Line    int        // of the record's first byte, from 1
	Code    flows.Code // invalid, too_large
	Pointer string     // JSON pointer into the record, "" for the whole
	Message string     // says what to change
}

func (e *RecordError) Error() string {
	where := fmt.Sprintf("record %d", e.Index)
	if e.File != "" {
		where = fmt.Sprintf("%s:%d", e.File, e.Line)
	} else if e.Line > 1 {
		where += fmt.Sprintf(" (line %d)", e.Line)
	}
	if e.Pointer != "" {
		where += " at " + e.Pointer
	}
	return where + ": " + e.Message
}

// DecodeRecords reads a JSON array of records, NDJSON, or single objects, streaming, one record in memory at a time.
// The sequence gives an event, or the *RecordError of a record that was not taken and goes on, or ends with what the
// reader returned (a *flows.Error when a limit of the body was passed, or more records than Limits.Batch came).
//
// Text that is not valid UTF-8 is mended with U+FFFD. Arguments and results stay raw JSON; text that holds a JSON
// object or array is replaced by it, once; arguments that are no object become {"input": value}. Members that the
// record does not define go to Metadata. Identity is set only from record_id, Origin only from trace and session id:
// Identify completes both.
func DecodeRecords(r io.Reader, opts DecodeOptions) iter.Seq2[Event, error] {
	opts.Limits = opts.Limits.WithDefaults()
	if opts.Source == "" {
		opts.Source = "json"
	}
	return func(yield func(Event, error) bool) {
		stream := rawjson.NewStream(r, opts.Form, opts.Limits.Record)
		for index := 0; ; index++ {
			raw, line, err := stream.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if index >= opts.Limits.Batch && !opts.NoBatchLimit {
				yield(Event{}, flows.NewError(flows.CodeTooLarge, fmt.Sprintf(
					"the request has more than %d records; send smaller batches", opts.Limits.Batch)))
				return
			}
			var broken *RecordError
			if err != nil {
				if broken = streamError(err, &opts.Limits); broken == nil {
					yield(Event{}, err)
					return
				}
			}
			var p recordParser
			if broken == nil {
				p = recordParser{opts: &opts, raw: sanitise(raw)}
				broken = p.parse()
			}
			if broken != nil {
				broken.Index, broken.Line = index, line
				if !yield(Event{}, broken) {
					return
				}
				continue
			}
			if p.context != "" && !yield(p.contextEvent(), nil) {
				return
			}
			if !yield(p.event, nil) {
				return
			}
		}
	}
}

// streamError is the RecordError of an error that concerns one record or the end of a broken stream, nil otherwise.
func streamError(err error, limits *Limits) *RecordError {
	var e *rawjson.Error
	switch {
	case errors.Is(err, rawjson.ErrRecordTooLarge):
		return &RecordError{Code: flows.CodeTooLarge, Message: fmt.Sprintf("the record is larger than %d bytes", limits.Record)}
	case errors.As(err, &e):
		return &RecordError{Code: flows.CodeInvalid, Message: e.Msg + "; nothing behind it was read"}
	}
	return nil
}

// sanitise copies the record, which the event will own, and mends its text.
func sanitise(raw []byte) []byte {
	if utf8.Valid(raw) {
		return slices.Clone(raw)
	}
	return bytes.ToValidUTF8(raw, []byte("\uFFFD"))
}

// NormaliseArgs gives arguments the form that pave keeps: a JSON object. Text that holds JSON is replaced by it, and
// what is no object then becomes {"input": value}. Null and nothing are nil: not captured.
func NormaliseArgs(raw []byte) []byte {
	if rawjson.Kind(raw) == '"' {
		raw = parseText(raw)
	}
	switch rawjson.Kind(raw) {
	case '{':
		return raw
	case 0, 'n':
		return nil
	}
	return slices.Concat([]byte(`{"input":`), raw, []byte("}"))
}

// NormaliseResult replaces text that holds a JSON object or array by it. Other text stays text.
func NormaliseResult(raw []byte) []byte {
	if rawjson.Kind(raw) == '"' {
		return parseText(raw)
	}
	return raw
}

// parseText returns the container that the JSON string holds, else the string.
func parseText(raw []byte) []byte {
	if i := bytes.IndexAny(raw, "{["); i < 0 {
		return raw
	}
	if inner, ok := rawjson.Contained(rawjson.Text(raw), rawjson.Limits{}); ok {
		return inner
	}
	return raw
}
