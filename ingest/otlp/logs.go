package otlp

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"pave/ingest"
)

// logDialect reads the log records of one kind of event of one sender.
type logDialect struct {
	name string // Event.Source is "otlp/" + name
	read func(r *record, at time.Time, e *ingest.Event) bool
}

// maxEventName bounds the bodies that may be an event's name.
const maxEventName = 64

// logDialects by the event's name.
var logDialects = map[string]logDialect{
	"codex.tool_result":       {"codex", codexTool},
	"codex.sse_event":         {"codex", codexModel},
	"codex.user_prompt":       {"codex", logPrompt},
	"claude_code.tool_result": {"claude-code", claudeTool},
	"tool_result":             {"claude-code", claudeTool},
	"claude_code.api_request": {"claude-code", claudeModel},
	"api_request":             {"claude-code", claudeModel},
	"claude_code.user_prompt": {"claude-code", logPrompt},
	"user_prompt":             {"claude-code", logPrompt},
	"gemini_cli.tool_call":    {"gemini-cli", geminiTool},
	"gemini_cli.api_response": {"gemini-cli", geminiModel},
	"gemini_cli.user_prompt":  {"gemini-cli", logPrompt},
}

// MapLogs turns log records into events. GenAI log events that name a session are kept as links of their span's trace;
// records of no dialect are counted as filtered.
func (rd Reader) MapLogs(ld plog.Logs) ([]ingest.Event, Stats) {
	m := newMapper(rd)
	for i := range ld.ResourceLogs().Len() {
		rl := ld.ResourceLogs().At(i)
		m.resource(rl.Resource())
		first := len(m.events)
		for j := range rl.ScopeLogs().Len() {
			records := rl.ScopeLogs().At(j).LogRecords()
			for k := range records.Len() {
				m.stats.Total++
				m.logRecord(records.At(k))
			}
		}
		m.loggedMessages()
		m.resourceSession(first)
	}
	m.dropTold()
	m.stats.Events, m.stats.Mended = len(m.events), m.r.mended
	return m.events, m.stats
}

func (m *mapper) logRecord(lr plog.LogRecord) {
	r := &m.r
	r.isSpan, r.name = false, lr.EventName()
	r.readAttributes(lr.Attributes())
	name := r.str(kEventName)
	if name == "" {
		name = r.text(lr.EventName())
	}
	if name == "" && lr.Body().Type() == pcommon.ValueTypeStr && len(lr.Body().Str()) <= maxEventName {
		name = r.text(lr.Body().Str()) // some relays keep the name only there
	}
	e := ingest.Event{OriginKind: ingest.OriginAgent}
	var weak bool
	if e.SessionID, weak = r.session(); weak {
		e.Metadata = m.weakSession()
	}
	// A log record is not its span: it hangs below it.
	if !lr.TraceID().IsEmpty() {
		e.TraceID = m.trace16(lr.TraceID())
		if !lr.SpanID().IsEmpty() {
			e.ParentSpanID = lr.SpanID().String()
		}
	}
	switch {
	case e.TraceID != "":
		e.Origin = "trace:" + e.TraceID
	case cmp.Or(e.SessionID, m.session) != "":
		e.Origin = "session:" + cmp.Or(e.SessionID, m.session)
	default:
		m.stats.Filtered++ // nothing says what it belongs to
		return
	}
	m.logMessages(lr, name, &e)
	d, known := logDialects[name]
	var own *CallMapping
	if r.mapping != nil {
		own = r.mapping.mapped(r)
	}
	switch {
	case own != nil:
		own.call(r, &e)
		e.Start = logTime(r, lr)
		e.Identity = ingest.DeriveIdentity("log", e.Origin, e.SessionID, e.Call.Tool, e.Call.CallID, strconv.FormatInt(e.Start.UnixNano(), 10))
	case known && d.read(r, logTime(r, lr), &e):
		e.Source = "otlp/" + d.name
	case strings.HasPrefix(name, "gen_ai.") && e.SessionID != "" && e.TraceID != "":
		e.Kind, e.Source = ingest.KindSpan, "otlp/genai-log"
	default:
		m.stats.Filtered++
		return
	}
	if e.Identity == "" {
		e.Identity = ingest.DeriveIdentity("log", name, e.SessionID, e.TraceID, e.ParentSpanID, strconv.FormatInt(e.Start.UnixNano(), 10))
	}
	if reason := m.append(e); reason != (refusal{}) {
		m.stats.reject(reason)
	}
}

// logTime is when the record was written: its time, the sender's text of it, or when it was observed.
func logTime(r *record, lr plog.LogRecord) time.Time {
	if t := timeOf(lr.Timestamp()); !t.IsZero() {
		return t
	}
	if t, err := time.Parse(time.RFC3339Nano, r.str(kLogTimestamp)); err == nil && t.Year() >= 1970 && t.Year() < 2262 {
		return t.UTC()
	}
	return timeOf(lr.ObservedTimestamp())
}

// logTool fills a call from a record that is written when the call is over.
func logTool(r *record, at time.Time, e *ingest.Event, c ingest.ToolCall) bool {
	if c.Tool == "" {
		return false
	}
	e.Kind, e.Call, e.Start = ingest.KindToolCall, &c, at
	if ms, ok := r.float(kLogDuration); ok && ms > 0 && ms < 1e12 {
		e.Duration = time.Duration(ms * float64(time.Millisecond))
		e.Start = at.Add(-e.Duration)
	}
	if c.Status == ingest.StatusError && c.Error == "" {
		c.Error = r.str(kLogError, kErrorType, kLogErrorType)
	}
	seq, ok := r.integer(kLogResultSeq, kLogSequence)
	if ok {
		e.Seq, e.HasSeq = seq, true
	}
	// Call ids repeat over turns; the place in the session does not.
	e.Identity = ingest.DeriveIdentity("log", e.Origin, e.SessionID, c.Tool, c.CallID, strconv.FormatInt(seq, 10), strconv.FormatInt(at.UnixNano(), 10))
	return true
}

// success reads a flag that may be text.
func success(r *record) ingest.Status {
	switch r.str(kLogSuccess) {
	case "true":
		return ingest.StatusOK
	case "false":
		return ingest.StatusError
	}
	return ingest.StatusUnknown
}

// logModel fills a model call from a record that is written when the call is over.
func logModel(r *record, at time.Time, e *ingest.Event, l ingest.LLMCall) bool {
	e.Kind, e.LLM, e.Start = ingest.KindLLMCall, &l, at
	if ms, ok := r.float(kLogDuration); ok && ms > 0 && ms < 1e12 {
		e.Duration = time.Duration(ms * float64(time.Millisecond))
		e.Start = at.Add(-e.Duration)
	}
	e.Identity = ingest.DeriveIdentity("log model", e.Origin, e.SessionID, strconv.FormatInt(at.UnixNano(), 10))
	return true
}

// logPrompt reads the user's message, whose text may be held back.
func logPrompt(r *record, at time.Time, e *ingest.Event) bool {
	e.Kind, e.User, e.Start = ingest.KindUserMessage, &ingest.UserMessage{Text: r.prompt(kLogPrompt)}, at
	return true
}

// prompt is the user's text, "" where it is held back.
func (r *record) prompt(k key) string {
	text := r.str(k)
	if text == "[REDACTED]" || text == "<REDACTED>" {
		return ""
	}
	return text
}
