package otlp

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// record is a span or log record with its known attributes sorted by key. One is reused for many spans.
type record struct {
	limits  *ingest.Limits
	mapping *Mapping
	name    string // of the span
	scope   string // name of the instrumentation scope
	all     pcommon.Map
	events  ptrace.SpanEventSlice
	span    ptrace.Span
	isSpan  bool
	attrs   [numKeys]pcommon.Value
	has     [numKeys]bool
	set     []key
	mended  int // texts that were not valid UTF-8
}

func (r *record) readSpan(s ptrace.Span) {
	r.span, r.isSpan, r.name, r.events = s, true, s.Name(), s.Events()
	r.readAttributes(s.Attributes())
}

func (r *record) readAttributes(m pcommon.Map) {
	for _, k := range r.set {
		r.has[k] = false
	}
	r.set, r.all = r.set[:0], m
	for name, v := range m.All() {
		if k, ok := keyOf[name]; ok && v.Type() != pcommon.ValueTypeEmpty {
			if !r.has[k] {
				r.set = append(r.set, k)
			}
			r.attrs[k], r.has[k] = v, true // the last one wins
		}
	}
}

// text makes s valid UTF-8.
func (r *record) text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	r.mended++
	return strings.ToValidUTF8(s, "\uFFFD")
}

// str returns the first of the keys that has text, numbers as text; "" when none has.
func (r *record) str(keys ...key) string {
	for _, k := range keys {
		if !r.has[k] {
			continue
		}
		switch v := r.attrs[k]; v.Type() {
		case pcommon.ValueTypeStr:
			if s := v.Str(); s != "" {
				return r.text(s)
			}
		case pcommon.ValueTypeInt:
			return strconv.FormatInt(v.Int(), 10)
		case pcommon.ValueTypeBool:
			return strconv.FormatBool(v.Bool())
		}
	}
	return ""
}

// integer returns the first of the keys that holds a number, also one as text.
func (r *record) integer(keys ...key) (int64, bool) {
	for _, k := range keys {
		if !r.has[k] {
			continue
		}
		switch v := r.attrs[k]; v.Type() {
		case pcommon.ValueTypeInt:
			return v.Int(), true
		case pcommon.ValueTypeDouble:
			return int64(v.Double()), true
		case pcommon.ValueTypeStr:
			if n, err := strconv.ParseInt(v.Str(), 10, 64); err == nil {
				return n, true
			}
		}
	}
	return 0, false
}

func (r *record) float(keys ...key) (float64, bool) {
	for _, k := range keys {
		if !r.has[k] {
			continue
		}
		switch v := r.attrs[k]; v.Type() {
		case pcommon.ValueTypeInt:
			return float64(v.Int()), true
		case pcommon.ValueTypeDouble:
			return v.Double(), true
		case pcommon.ValueTypeStr:
			if n, err := strconv.ParseFloat(v.Str(), 64); err == nil {
				return n, true
			}
		}
	}
	return 0, false
}

// tokens is a count of tokens, -1 when it is not known.
func (r *record) tokens(keys ...key) int64 {
	if n, ok := r.integer(keys...); ok && n >= 0 {
		return n
	}
	return -1
}

// json returns the first of the keys that is there as JSON: text that holds a JSON object, array or string is taken
// for it, other text is a string; nil when none is there.
func (r *record) json(keys ...key) []byte {
	for _, k := range keys {
		if r.has[k] {
			return r.value(r.attrs[k])
		}
	}
	return nil
}

func (r *record) value(v pcommon.Value) []byte {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return jsonText(r.text(v.Str()))
	case pcommon.ValueTypeEmpty:
		return nil
	}
	w := valueWriter{r: r, nodes: r.limits.Tokens}
	w.value(v, r.limits.Depth)
	return w.dst
}

// jsonText reads text that may be JSON. Bare numbers and words stay text: they are ids more often.
func jsonText(text string) []byte {
	trimmed := strings.TrimSpace(text)
	if trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[' || trimmed[0] == '"') {
		if raw := []byte(trimmed); rawjson.Valid(raw, rawjson.Limits{}) == nil {
			return raw
		}
	}
	return rawjson.Quote(text)
}

// valueWriter writes attribute values as JSON. What is nested too deep or goes on too long is left out as null.
type valueWriter struct {
	r     *record
	dst   []byte
	nodes int
}

func (w *valueWriter) value(v pcommon.Value, depth int) {
	if w.nodes--; w.nodes < 0 {
		w.dst = append(w.dst, "null"...)
		return
	}
	switch v.Type() {
	case pcommon.ValueTypeStr:
		w.dst = rawjson.AppendString(w.dst, v.Str())
	case pcommon.ValueTypeInt:
		w.dst = strconv.AppendInt(w.dst, v.Int(), 10)
	case pcommon.ValueTypeDouble:
		w.double(v.Double())
	case pcommon.ValueTypeBool:
		w.dst = strconv.AppendBool(w.dst, v.Bool())
	case pcommon.ValueTypeBytes:
		w.dst = rawjson.AppendString(w.dst, v.AsString()) // base64
	case pcommon.ValueTypeMap:
		w.container('{', '}', depth, func(inner int) {
			first := true
			for k, item := range v.Map().All() {
				if !first {
					w.dst = append(w.dst, ',')
				}
				first = false
				w.dst = append(rawjson.AppendString(w.dst, k), ':')
				w.value(item, inner)
			}
		})
	case pcommon.ValueTypeSlice:
		w.container('[', ']', depth, func(inner int) {
			for i := range v.Slice().Len() {
				if i > 0 {
					w.dst = append(w.dst, ',')
				}
				w.value(v.Slice().At(i), inner)
			}
		})
	default:
		w.dst = append(w.dst, "null"...)
	}
}

func (w *valueWriter) container(open, closing byte, depth int, body func(inner int)) {
	if depth <= 1 {
		w.dst = append(w.dst, "null"...)
		return
	}
	w.dst = append(w.dst, open)
	body(depth - 1)
	w.dst = append(w.dst, closing)
}

// double writes a number as JSON has it; NaN and infinities, which JSON has not, as text.
func (w *valueWriter) double(f float64) {
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if f != f || strings.HasSuffix(text, "Inf") {
		w.dst = rawjson.AppendString(w.dst, text)
		return
	}
	w.dst = append(w.dst, text...)
}

// event returns the last span event of the name.
func (r *record) event(name string) (ptrace.SpanEvent, bool) {
	if r.isSpan {
		for i := r.events.Len() - 1; i >= 0; i-- {
			if e := r.events.At(i); e.Name() == name {
				return e, true
			}
		}
	}
	return ptrace.SpanEvent{}, false
}

// eventText returns a text attribute of the last span event of the name.
func (r *record) eventText(event, attribute string) string {
	if e, ok := r.event(event); ok {
		if v, ok := e.Attributes().Get(attribute); ok {
			return r.text(v.AsString())
		}
	}
	return ""
}

// session is the session that the record itself names, "" for none. It is weak when it is only that of a transport.
func (r *record) session() (id string, weak bool) {
	if r.mapping != nil {
		if id := r.named(r.mapping.Sessions); id != "" {
			return id, false
		}
	}
	best := kMCPSession
	for _, k := range r.set {
		if k >= kSessionFirst && k < best && r.str(k) != "" {
			best = k
		}
	}
	if best < kMCPSession {
		return r.str(best), false
	}
	if r.has[kOIMetadata] { // OpenInference carries the thread in a JSON text
		meta := r.json(kOIMetadata)
		for _, name := range []string{"thread_id", "conversation_id", "session_id"} {
			if id := rawjson.Text(rawjson.Get(meta, name)); id != "" {
				return id, false
			}
		}
	}
	id = r.str(kMCPSession)
	return id, id != ""
}
