package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"pave/flows"
	"pave/ingest/rawjson"
)

// field is a member that the record defines.
type field uint8

const (
	fEvent field = iota
	fSession
	fSeq
	fTurn
	fStart
	fDuration
	fAgent
	fRun
	fTrace
	fSpan
	fParent
	fSource
	fOriginKind
	fRecordID
	fMetadata
	fNormalised
	// The fields from here on belong to one kind; on another kind they are metadata.
	fTool
	fCallID
	fArgs
	fResult
	fStatus
	fError
	fTruncated
	fContext
	fModel
	fCount
	fInput
	fOutput
	fCached
	fCost
	fText
	numFields
)

// fieldOf knows the record's members and the accepted aliases.
var fieldOf = map[string]field{
	"event": fEvent, "session_id": fSession, "seq": fSeq, "turn": fTurn, "turn_id": fTurn, "start": fStart,
	"timestamp": fStart, "duration_ms": fDuration, "latency_ms": fDuration, "agent": fAgent, "run_id": fRun,
	"trace_id": fTrace, "span_id": fSpan, "parent_span_id": fParent, "source": fSource,
	"origin_kind": fOriginKind, "record_id": fRecordID, "metadata": fMetadata, "normalised": fNormalised,
	"tool": fTool, "tool_name": fTool, "call_id": fCallID, "args": fArgs, "inputs": fArgs, "result": fResult,
	"outputs": fResult, "status": fStatus, "result_status": fStatus, "error": fError, "truncated": fTruncated,
	"context": fContext, "model": fModel, "count": fCount, "input_tokens": fInput, "output_tokens": fOutput,
	"cached_tokens": fCached, "cost_usd": fCost, "text": fText,
}

// member is a key as it came, with its raw value.
type member struct {
	key, raw []byte
}

// recordParser reads one record. Errors are kept in err; the first one wins.
type recordParser struct {
	opts    *DecodeOptions
	raw     []byte
	known   [numFields]member
	unknown []member
	event   Event
	context string
	err     *RecordError
}

func (p *recordParser) parse() *RecordError {
	if err := p.members(); err != nil {
		return p.syntaxError(err)
	}
	kind, ok := p.kind()
	if !ok {
		return p.err
	}
	e := &p.event
	e.Kind = kind
	p.header(e)
	switch kind {
	case KindToolCall:
		e.Call = p.toolCall()
	case KindLLMCall:
		e.LLM = p.llmCall()
	case KindUserMessage:
		text := p.str(fText, p.opts.Limits.Record)
		e.User = &UserMessage{Text: cutText(text, p.opts.Limits.Text)}
	}
	e.Metadata = p.metadata()
	return p.err
}

// members splits the record.
func (p *recordParser) members() error {
	s := rawjson.Scanner{Data: p.raw, Limits: rawjson.Limits{Depth: p.opts.Limits.Depth, Tokens: p.opts.Limits.Tokens}}
	if err := s.Open('{'); err != nil {
		return err
	}
	for {
		key, more, err := s.Key()
		if err != nil {
			return err
		}
		if !more {
			return s.End()
		}
		raw, err := s.Value()
		if err != nil {
			return err
		}
		if f, ok := fieldOf[string(key)]; ok {
			p.known[f] = member{key, raw}
		} else {
			p.unknown = append(p.unknown, member{key, raw})
		}
	}
}

func (p *recordParser) syntaxError(err error) *RecordError {
	re := &RecordError{Code: flows.CodeInvalid, Message: err.Error()}
	var e *rawjson.Error
	if errors.As(err, &e) {
		if e.IsLimit {
			re.Code = flows.CodeTooLarge
		}
		if rawjson.Kind(p.raw) != '{' {
			re.Message = "a record is a JSON object: " + re.Message
			return re
		}
		re.Pointer = rawjson.PointerAt(p.raw, e.Offset)
	}
	return re
}

func (p *recordParser) kind() (Kind, bool) {
	switch name := p.str(fEvent, 64); name {
	case "", eventToolCall:
		return KindToolCall, p.err == nil
	case eventLLMCall, "model_call":
		return KindLLMCall, true
	case eventUserMessage:
		return KindUserMessage, true
	case eventSessionEnd:
		return KindSessionEnd, true
	case eventSpan:
		return KindSpan, true
	default:
		p.fail(fEvent, fmt.Sprintf("unknown event %.40q; use tool_call, llm_call, user_message or session_end", name))
		return 0, false
	}
}

func (p *recordParser) header(e *Event) {
	id := p.opts.Limits.ID
	e.SessionID, e.RunID, e.Agent = p.id(fSession, id), p.id(fRun, id), p.str(fAgent, id)
	e.TraceID, e.SpanID = strings.ToLower(p.str(fTrace, id)), strings.ToLower(p.str(fSpan, id))
	e.ParentSpanID = strings.ToLower(p.str(fParent, id))
	if e.Source = p.str(fSource, id); e.Source == "" {
		e.Source = p.opts.Source
	}
	e.OriginKind = p.originKind()
	e.Identity = p.id(fRecordID, id)
	e.Origin = originOf(e)
	e.Seq, e.HasSeq = p.int(fSeq, math.MinInt64, math.MaxInt64)
	if key := p.known[fTurn].key; string(key) == "turn_id" && rawjson.Kind(p.known[fTurn].raw) != '0' {
		// A free-form turn id is no index.
		p.unknown = append(p.unknown, p.known[fTurn])
		p.known[fTurn] = member{}
	}
	turn, has := p.int(fTurn, 0, math.MaxInt32)
	e.Turn, e.HasTurn = int32(turn), has
	e.Start = p.time(fStart)
	if ms, ok := p.float(fDuration); ok {
		if ms < 0 || ms > float64(math.MaxInt64/int64(time.Millisecond)) {
			p.fail(fDuration, "a duration in milliseconds is 0 or more and below 300 years")
		}
		e.Duration = time.Duration(math.Round(ms * float64(time.Millisecond)))
	}
}

func (p *recordParser) originKind() OriginKind {
	if p.opts.Origin != "" {
		return p.opts.Origin
	}
	switch k := OriginKind(p.str(fOriginKind, 64)); k {
	case "":
		return OriginAgent
	case OriginAgent, OriginFlow, OriginFlowCall:
		return k
	}
	p.fail(fOriginKind, "origin_kind is agent, flow or flow_call")
	return OriginAgent
}

func (p *recordParser) toolCall() *ToolCall {
	c := &ToolCall{Tool: p.str(fTool, p.opts.Limits.Record), CallID: p.id(fCallID, p.opts.Limits.ID), Truncated: p.bool(fTruncated)}
	if reason := ToolNameProblem(c.Tool, p.opts.Limits.ToolName); reason != "" {
		p.fail(fTool, reason)
	}
	c.Args, c.Result = p.known[fArgs].raw, p.known[fResult].raw
	if !p.bool(fNormalised) {
		c.Args, c.Result = NormaliseArgs(c.Args), NormaliseResult(c.Result)
	}
	failed := false
	c.Error, failed = errorText(p.known[fError].raw, p.opts.Limits.Text)
	c.Status = p.status(failed, c.Result != nil)
	if c.Status == StatusError && rawjson.Kind(c.Result) == 'n' {
		c.Result = nil // a failed call has no result; null says so
	}
	if p.opts.Context && rawjson.Kind(p.known[fContext].raw) == '"' {
		p.context = cutText(rawjson.Text(p.known[fContext].raw), p.opts.Limits.Text)
		p.known[fContext] = member{}
	}
	return c
}

// ToolNameProblem says what is wrong with an observed tool's name, "" when nothing is. Observed names are freer than
// names of tools in flows.
func ToolNameProblem(name string, limit int) string {
	switch {
	case name == "":
		return "a tool call needs the name of its tool"
	case len(name) > limit:
		return fmt.Sprintf("a tool's name has at most %d bytes", limit)
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return "a tool's name has no control characters"
	}
	return ""
}

func (p *recordParser) status(failed, hasResult bool) Status {
	switch word := strings.ToLower(p.str(fStatus, 64)); word {
	case "":
	case "ok", "success", "succeeded", "completed":
		return StatusOK
	case "error", "failed", "failure", "timeout":
		return StatusError
	case "unknown":
		return StatusUnknown
	case "requested":
		return StatusRequested
	default:
		p.fail(fStatus, fmt.Sprintf("unknown status %.40q; use ok, error, unknown or requested", word))
	}
	switch {
	case failed:
		return StatusError
	case hasResult:
		return StatusOK
	}
	return StatusUnknown
}

// errorText reads an error member of any form: text, an object with a message, or anything but null and false.
func errorText(raw []byte, limit int) (text string, failed bool) {
	switch rawjson.Kind(raw) {
	case 0, 'n', 'f':
		return "", false
	case '"':
		text = rawjson.Text(raw)
		return cutText(text, limit), text != ""
	case '{':
		if text = rawjson.Text(rawjson.Get(raw, "message")); text != "" {
			return cutText(text, limit), true
		}
	case 't':
		return "", true
	}
	return cutText(string(raw), limit), true
}

func (p *recordParser) llmCall() *LLMCall {
	l := &LLMCall{Model: p.str(fModel, p.opts.Limits.ID), Count: 1, InputTokens: -1, OutputTokens: -1, CachedTokens: -1}
	if n, ok := p.int(fCount, 1, math.MaxInt32); ok {
		l.Count = int32(n)
	}
	for f, v := range map[field]*int64{fInput: &l.InputTokens, fOutput: &l.OutputTokens, fCached: &l.CachedTokens} {
		if n, ok := p.int(f, 0, math.MaxInt64); ok {
			*v = n
		}
	}
	if l.CostUSD, l.HasCost = p.float(fCost); l.CostUSD < 0 {
		p.fail(fCost, "a cost is 0 or more")
	}
	return l
}

// usedFields are the fields of each kind beside the common ones.
func usedFields(k Kind) (from, to field) {
	switch k {
	case KindToolCall:
		return fTool, fTruncated
	case KindLLMCall:
		return fModel, fCost
	case KindUserMessage:
		return fText, fText
	}
	return numFields, numFields
}

// metadata joins the metadata member with the members that the record's kind does not define.
func (p *recordParser) metadata() json.RawMessage {
	from, to := usedFields(p.event.Kind)
	rest := p.unknown
	for f := fTool; f < numFields; f++ {
		if m := p.known[f]; m.key != nil && (f < from || f > to) {
			rest = append(rest, m)
		}
	}
	own := p.known[fMetadata]
	switch rawjson.Kind(own.raw) {
	case 0, 'n':
		own.raw = nil
	case '{':
		if len(bytes.Trim(own.raw, "{} \t\r\n")) == 0 {
			own.raw = nil
		}
	default:
		rest, own.raw = append(rest, own), nil
	}
	if len(rest) == 0 {
		return own.raw
	}
	out := []byte{'{'}
	if own.raw != nil {
		out = slices.Concat(bytes.TrimSpace(own.raw[:len(own.raw)-1]), []byte{','})
	}
	for i, m := range rest {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(rawjson.AppendString(out, m.key), ':'), m.raw...)
	}
	return append(out, '}')
}

// contextEvent is the user's message before the tool call.
func (p *recordParser) contextEvent() Event {
	e := p.event
	e.Kind, e.Call, e.User = KindUserMessage, nil, &UserMessage{Text: p.context}
	e.SpanID, e.Metadata, e.Duration = "", nil, 0
	e.HasSeq, e.Seq = false, 0
	if e.Identity != "" {
		e.Identity += "/context"
	}
	return e
}

func (p *recordParser) fail(f field, msg string) {
	if p.err == nil {
		key := string(p.known[f].key)
		if key == "" && f == fTool {
			key = "tool"
		}
		p.err = &RecordError{Code: flows.CodeInvalid, Pointer: "/" + key, Message: msg}
	}
}
