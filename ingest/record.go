package ingest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"pave/ingest/rawjson"
)

// Names of the record's events.
const (
	eventToolCall    = "tool_call"
	eventLLMCall     = "llm_call"
	eventUserMessage = "user_message"
	eventSessionEnd  = "session_end"
	eventSpan        = "span"
)

// AppendRecord appends the event's wire form, one line without the line end: what DecodeRecords reads back to an
// equal event. Received is the receiver's and not written; so is Origin, which follows from trace and session id.
func AppendRecord(dst []byte, e *Event) []byte {
	w := recordWriter{dst: append(dst, '{')}
	w.str("event", eventName(e.Kind))
	w.str("session_id", e.SessionID)
	if e.Call != nil {
		w.str("call_id", e.Call.CallID)
	}
	if e.HasSeq {
		w.int("seq", e.Seq)
	}
	if e.HasTurn {
		w.int("turn", int64(e.Turn))
	}
	switch {
	case e.Call != nil:
		w.call(e.Call)
	case e.LLM != nil:
		w.llm(e.LLM)
	case e.User != nil:
		w.str("text", e.User.Text)
	}
	if !e.Start.IsZero() {
		w.key("start")
		w.dst = append(e.Start.UTC().AppendFormat(append(w.dst, '"'), time.RFC3339Nano), '"')
	}
	if e.Duration != 0 {
		w.key("duration_ms")
		w.dst = appendMillis(w.dst, e.Duration)
	}
	w.str("agent", e.Agent)
	w.str("run_id", e.RunID)
	w.str("trace_id", e.TraceID)
	w.str("span_id", e.SpanID)
	w.str("parent_span_id", e.ParentSpanID)
	w.str("source", e.Source)
	if e.OriginKind != OriginAgent {
		w.str("origin_kind", string(e.OriginKind))
	}
	w.str("record_id", e.Identity)
	w.raw("metadata", e.Metadata)
	w.key("normalised")
	return append(w.dst, "true}"...)
}

func eventName(k Kind) string {
	switch k {
	case KindLLMCall:
		return eventLLMCall
	case KindUserMessage:
		return eventUserMessage
	case KindSessionEnd:
		return eventSessionEnd
	case KindSpan:
		return eventSpan
	}
	return eventToolCall
}

type recordWriter struct {
	dst []byte
}

func (w *recordWriter) key(name string) {
	if w.dst[len(w.dst)-1] != '{' {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(append(append(w.dst, '"'), name...), '"', ':')
}

func (w *recordWriter) str(name, v string) {
	if v != "" {
		w.key(name)
		w.dst = rawjson.AppendString(w.dst, v)
	}
}

func (w *recordWriter) int(name string, v int64) {
	w.key(name)
	w.dst = strconv.AppendInt(w.dst, v, 10)
}

// raw writes JSON on one line.
func (w *recordWriter) raw(name string, v json.RawMessage) {
	if v == nil {
		return
	}
	w.key(name)
	if bytes.ContainsAny(v, "\r\n") {
		var compact bytes.Buffer
		if json.Compact(&compact, v) == nil {
			v = compact.Bytes()
		}
	}
	w.dst = append(w.dst, v...)
}

func (w *recordWriter) call(c *ToolCall) {
	w.str("tool", c.Tool)
	w.raw("args", c.Args)
	w.raw("result", c.Result)
	w.str("status", string(c.Status))
	w.str("error", c.Error)
	if c.Truncated {
		w.key("truncated")
		w.dst = append(w.dst, "true"...)
	}
}

func (w *recordWriter) llm(l *LLMCall) {
	w.str("model", l.Model)
	if l.Count > 1 {
		w.int("count", int64(l.Count))
	}
	for _, n := range [...]struct {
		name string
		v    int64
	}{{"input_tokens", l.InputTokens}, {"output_tokens", l.OutputTokens}, {"cached_tokens", l.CachedTokens}} {
		if n.v >= 0 {
			w.int(n.name, n.v)
		}
	}
	if l.HasCost {
		w.key("cost_usd")
		w.dst = strconv.AppendFloat(w.dst, l.CostUSD, 'g', -1, 64)
	}
}

// appendMillis writes a duration as milliseconds with up to six decimals, exactly.
func appendMillis(dst []byte, d time.Duration) []byte {
	if d < 0 {
		dst, d = append(dst, '-'), -d
	}
	dst = strconv.AppendInt(dst, int64(d/time.Millisecond), 10)
	nanos := int64(d % time.Millisecond)
	if nanos == 0 {
		return dst
	}
	digits := strconv.AppendInt(nil, int64(time.Millisecond)+nanos, 10)[1:]
	return append(append(dst, '.'), bytes.TrimRight(digits, "0")...)
}
