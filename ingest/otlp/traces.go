// Package otlp receives OpenTelemetry traces and logs over HTTP and gRPC and turns what agents' instrumentations write into
// events. Each way of telling tool calls in spans is a dialect, one file each.
package otlp

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// Stats counts what became of spans or log records.
type Stats struct {
	Total    int
	Events   int
	Filtered int // neither calls nor needed by any
	Rejected int // not usable, such as spans without ids
	Mended   int // texts that were not valid UTF-8
	// Reason says why the first one was rejected.
	Reason string
	// Reasons counts the rejected by code: no_id, tool_name, too_long. nil when none was.
	Reasons map[string]int
}

// refusal is why a record cannot be used; the zero value is that it can.
type refusal struct{ code, text string }

func (s *Stats) reject(why refusal) {
	s.Rejected++
	if s.Reason == "" {
		s.Reason = why.text
	}
	if s.Reasons == nil {
		s.Reasons = make(map[string]int)
	}
	s.Reasons[why.code]++
}

// MapTraces turns spans into events: tool calls, model calls, user messages, and spans that only link or name them.
// Spans of no dialect are kept as links when their scope has others, or when they name a session; the rest is counted
// as filtered.
func (rd Reader) MapTraces(td ptrace.Traces) ([]ingest.Event, Stats) {
	m := newMapper(rd)
	m.events = make([]ingest.Event, 0, td.SpanCount()+td.SpanCount()/8)
	for i := range td.ResourceSpans().Len() {
		rs := td.ResourceSpans().At(i)
		if rd.own(rs.Resource()) {
			for j := range rs.ScopeSpans().Len() {
				m.stats.Total += rs.ScopeSpans().At(j).Spans().Len()
				m.stats.Filtered += rs.ScopeSpans().At(j).Spans().Len()
			}
			continue
		}
		m.resource(rs.Resource())
		first := len(m.events)
		for j := range rs.ScopeSpans().Len() {
			m.r.scope = rs.ScopeSpans().At(j).Scope().Name()
			m.scope(rs.ScopeSpans().At(j).Spans())
		}
		m.resourceSession(first)
	}
	m.dropTold()
	m.stats.Events, m.stats.Mended = len(m.events), m.r.mended
	return m.events, m.stats
}

// attrInstallation names the pave that a resource's spans are from; package governance/runs/telemetry sets it.
const attrInstallation = "pave.installation"

func (rd Reader) own(res pcommon.Resource) bool {
	if rd.Own == "" {
		return false
	}
	v, ok := res.Attributes().Get(attrInstallation)
	return ok && v.AsString() == rd.Own
}

// mapper turns one request into events.
type mapper struct {
	flow    string // the flow run that the span at hand worked for, "" for none
	r       record
	limits  ingest.Limits
	events  []ingest.Event
	stats   Stats
	service json.RawMessage   // metadata of events without an agent's name
	session string            // that the resource names
	logged  map[[2]string]int // trace and span of a model call -> its place in calls
	calls   []logged
	trace   pcommon.TraceID
	traceID string
}

func newMapper(rd Reader) *mapper {
	m := &mapper{limits: rd.Limits.WithDefaults()}
	m.r.limits, m.r.mapping = &m.limits, rd.Mapping
	return m
}

func (m *mapper) resource(res pcommon.Resource) {
	m.r.readAttributes(res.Attributes())
	m.session, _ = m.r.session()
	m.service = nil
	// SDKs name a service that has no name "unknown_service:<program>".
	if v, ok := res.Attributes().Get("service.name"); ok && v.AsString() != "" && !strings.HasPrefix(v.AsString(), "unknown_service") {
		m.service = append(rawjson.AppendString([]byte(`{"`+ingest.MetaService+`":`), m.r.text(v.AsString())), '}')
	}
}

// scope maps the spans of one instrumentation scope. Spans that no dialect knows are kept only beside known ones.
func (m *mapper) scope(spans ptrace.SpanSlice) {
	var unknown []ingest.Event
	known := false
	for i := range spans.Len() {
		m.stats.Total++
		e, rejected := m.header(spans.At(i))
		if rejected != (refusal{}) {
			m.stats.reject(rejected)
			continue
		}
		m.r.readSpan(spans.At(i))
		if m.flow == "" && m.r.has[kPaveRun] { // a collector on the way may drop the trace state
			m.flow = flowRun("pave=" + m.r.str(kPaveRun))
		}
		var weak bool
		e.SessionID, weak = m.r.session()
		if weak {
			e.Metadata = m.weakSession()
		}
		if reason := m.span(&e); reason != (refusal{}) {
			m.stats.reject(reason)
			continue
		}
		switch {
		case e.Kind != 0:
			known = true
		case e.SessionID != "":
			e.Kind = ingest.KindSpan
			m.events = append(m.events, e)
		default:
			e.Kind = ingest.KindSpan
			unknown = append(unknown, e)
		}
	}
	if known {
		m.events = append(m.events, unknown...)
	} else {
		m.stats.Filtered += len(unknown)
	}
}

// header reads ids and times.
func (m *mapper) header(s ptrace.Span) (e ingest.Event, rejected refusal) {
	if s.TraceID().IsEmpty() || s.SpanID().IsEmpty() {
		return e, refusal{"no_id", "a span has no trace or span id"}
	}
	e = ingest.Event{TraceID: m.trace16(s.TraceID()), SpanID: s.SpanID().String(), OriginKind: ingest.OriginAgent, Source: "otlp"}
	if p := s.ParentSpanID(); !p.IsEmpty() {
		e.ParentSpanID = p.String()
	}
	e.Origin = "trace:" + e.TraceID
	if m.flow = ""; s.TraceState().AsRaw() != "" {
		m.flow = flowRun(s.TraceState().AsRaw())
	}
	e.Start = timeOf(s.StartTimestamp())
	if end := timeOf(s.EndTimestamp()); end.After(e.Start) && !e.Start.IsZero() {
		e.Duration = end.Sub(e.Start)
	}
	return e, refusal{}
}

// flowRun is the run that a W3C tracestate names: pave passes it on to the tools of a run, whose spans carry it back.
func flowRun(state string) string {
	for member := range strings.SplitSeq(state, ",") {
		if key, run, ok := strings.Cut(strings.TrimSpace(member), "="); ok && key == "pave" && len(run) <= 128 {
			return run
		}
	}
	return ""
}

// trace16 is the trace id as hex, the same string for the spans of one trace.
func (m *mapper) trace16(id pcommon.TraceID) string {
	if m.traceID == "" || id != m.trace {
		m.trace, m.traceID = id, id.String()
	}
	return m.traceID
}

// timeOf is zero for no time, and for times that do not fit 64 bits of nanoseconds.
func timeOf(ts pcommon.Timestamp) time.Time {
	if ts == 0 || ts > math.MaxInt64 {
		return time.Time{}
	}
	return ts.AsTime()
}

// span reads the span in the first dialect that knows it and appends its events; e.Kind stays 0 when none does. It
// returns why the span cannot be used.
func (m *mapper) span(e *ingest.Event) (rejected refusal) {
	if m.r.mapping != nil {
		if own := m.r.mapping.mapped(&m.r); own != nil {
			own.call(&m.r, e)
			return m.append(*e)
		}
	}
	var d *dialect
	is := roleNone
	for _, d = range dialects {
		if is = d.role(&m.r); is != roleNone {
			break
		}
	}
	if is == roleNone {
		return refusal{}
	}
	e.Source = "otlp/" + d.name
	switch is {
	case roleTool:
		e.Kind, e.Call = ingest.KindToolCall, &ingest.ToolCall{}
		e.RunID = m.r.str(kAgentRun)
		d.tool(&m.r, e)
		if m.r.has[kMCPMethod] {
			e.Source = ingest.SourceMCP
			if m.r.span.Kind() == ptrace.SpanKindServer {
				e.Source += "-server"
			}
		}
	case roleModel:
		e.Kind = ingest.KindLLMCall
		return m.model(d, e)
	case roleAgent:
		e.Kind = ingest.KindSpan
		if d.agent != nil {
			d.agent(&m.r, e)
		}
		if e.RunID == "" {
			e.RunID = e.SpanID
		}
	default:
		e.Kind = ingest.KindSpan
		if d.link != nil {
			d.link(&m.r, e)
		}
		if d.said != nil {
			if text, ok := d.said(&m.r); ok {
				m.user(e, text)
			}
		}
	}
	return m.append(*e)
}

// model appends a model call and, before it, the user's message that it answers; behind it the tool calls that its
// messages tell of.
func (m *mapper) model(d *dialect, e *ingest.Event) (rejected refusal) {
	call := modelCall{LLMCall: ingest.LLMCall{Count: 1, InputTokens: -1, OutputTokens: -1, CachedTokens: -1}}
	if d.model != nil {
		d.model(&m.r, &call)
	} else {
		genAIModel(&m.r, &call)
	}
	e.Agent, e.RunID, e.Identity = m.r.str(kAgentName), call.run, call.request
	if call.hasUser {
		if rejected := m.user(e, call.user); rejected != (refusal{}) {
			return rejected
		}
	}
	e.LLM = &call.LLMCall
	if call.asked != nil {
		e.Metadata = m.modelMetadata(e.Metadata, call.asked.ids())
	}
	if rejected := m.append(*e); rejected != (refusal{}) {
		return rejected
	}
	m.told(e, &call)
	return refusal{}
}

// user appends the user's message that a span tells of.
func (m *mapper) user(span *ingest.Event, text string) (rejected refusal) {
	e := *span
	e.Kind, e.User = ingest.KindUserMessage, &ingest.UserMessage{Text: text}
	e.ParentSpanID, e.SpanID, e.Duration = span.SpanID, "", 0
	e.Identity = ingest.DeriveIdentity("user", span.TraceID, span.SpanID)
	return m.append(e)
}

// modelMetadata notes the ids of the calls that a model call asked for.
func (m *mapper) modelMetadata(own json.RawMessage, ids []string) json.RawMessage {
	if len(ids) == 0 {
		return own
	}
	meta := []byte(`{"` + ingest.MetaToolCallIDs + `":[`)
	for i, id := range ids {
		if i > 0 {
			meta = append(meta, ',')
		}
		meta = rawjson.AppendString(meta, id)
	}
	meta = append(meta, ']')
	if own == nil {
		own = m.service
	}
	if own != nil {
		meta = append(append(meta, ','), own[1:len(own)-1]...)
	}
	return append(meta, '}')
}

// told appends the calls that the messages of a model call tell of: those that the answer asks for, and those whose
// results were given to it. They count only in sessions where no execution is seen. Those that cannot be stored are
// left out: the model call itself is good.
func (m *mapper) told(model *ingest.Event, call *modelCall) {
	add := func(a *asked, stage string, index int, at time.Time) {
		e := ingest.Event{Kind: ingest.KindToolCall, Origin: model.Origin, SessionID: model.SessionID, TraceID: model.TraceID, ParentSpanID: model.SpanID,
			Agent: model.Agent, Source: model.Source + ingest.SourceTold, OriginKind: ingest.OriginAgent, Start: at, Call: a.toolCall()}
		e.Identity = ingest.DeriveIdentity("told", model.Origin, model.SpanID, strconv.FormatInt(model.Start.UnixNano(), 10), stage, strconv.Itoa(index), a.id)
		_ = m.append(e)
	}
	// Between the model call that asked and the one that was given the result, whatever the clock's resolution.
	var asked, answered time.Time
	if !model.Start.IsZero() {
		asked, answered = model.Start.Add(1), model.Start.Add(-1)
	}
	if call.history != nil {
		for i := range call.history.answered {
			add(&call.history.answered[i], "answered", i, answered)
		}
	}
	if call.asked != nil {
		for i := range call.asked.calls {
			add(&call.asked.calls[i], "asked", i, asked)
		}
	}
}

// dropTold removes the calls that messages tell of and that were seen executed in the same trace: assembly would, and they
// need not be stored.
func (m *mapper) dropTold() {
	executed := ingest.ExecutedCalls(m.events)
	if len(executed) == 0 {
		return
	}
	m.events = slices.DeleteFunc(m.events, func(e ingest.Event) bool { return executed.Told(&e) })
}

// weakSession is the metadata of events whose session is that of a transport.
func (m *mapper) weakSession() json.RawMessage {
	meta := []byte(`{"` + ingest.MetaWeakSession + `":true`)
	if m.service != nil {
		meta = append(append(meta, ','), m.service[1:len(m.service)-1]...)
	}
	return append(meta, '}')
}

// append adds an event that keeps the limits.
func (m *mapper) append(e ingest.Event) (rejected refusal) {
	if m.flow != "" { // what a tool tells of a call that a flow run made
		e.OriginKind, e.RunID = ingest.OriginFlow, m.flow
	}
	if e.Call != nil {
		switch reason := ingest.ToolNameProblem(e.Call.Tool, m.limits.ToolName); {
		case reason != "":
			return refusal{"tool_name", reason}
		case len(e.Call.CallID) > m.limits.ID:
			return refusal{"too_long", fmt.Sprintf("a call id is longer than %d bytes", m.limits.ID)}
		}
	}
	for _, id := range [...]*string{&e.SessionID, &e.RunID, &e.Agent} {
		if len(*id) > m.limits.ID {
			return refusal{"too_long", fmt.Sprintf("a session id, run id or agent's name is longer than %d bytes", m.limits.ID)}
		}
	}
	if e.Metadata == nil && e.Agent == "" {
		e.Metadata = m.service
	}
	m.events = append(m.events, e)
	return refusal{}
}

// resourceSession gives the resource's session to its events when none of them names one itself.
func (m *mapper) resourceSession(first int) {
	if m.session == "" || len(m.session) > m.limits.ID {
		return
	}
	for i := first; i < len(m.events); i++ {
		if m.events[i].SessionID != "" {
			return
		}
	}
	for i := first; i < len(m.events); i++ {
		m.events[i].SessionID = m.session
	}
}
