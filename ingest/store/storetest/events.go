package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"pave/ingest"
)

// At is the nth second of the suite's clock, with nanoseconds that must survive.
func At(n int) time.Time {
	return time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC).Add(time.Duration(n)*time.Second + time.Duration(n%1000)*time.Nanosecond)
}

// header is the part that all kinds share; n tells events apart and is their arrival second.
func header(kind ingest.Kind, origin, session string, n int) ingest.Event {
	return ingest.Event{
		Kind:       kind,
		Origin:     origin,
		SessionID:  session,
		Source:     "json",
		OriginKind: ingest.OriginAgent,
		Start:      At(n).Add(-time.Millisecond),
		Received:   At(n),
		Identity:   fmt.Sprintf("%s/%d", origin, n),
	}
}

// ToolCall is a plain call of tool-<n mod 5>; session may be "".
func ToolCall(origin, session string, n int) ingest.Event {
	e := header(ingest.KindToolCall, origin, session, n)
	e.Call = &ingest.ToolCall{
		Tool:   fmt.Sprintf("tool-%d", n%5),
		CallID: fmt.Sprintf("call_%d", n),
		Args:   json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
		Result: json.RawMessage(fmt.Sprintf(`{"ok":true,"n":%d}`, n)),
		Status: ingest.StatusOK,
	}
	return e
}

// LLMCall is a plain model call with known tokens.
func LLMCall(origin, session string, n int) ingest.Event {
	e := header(ingest.KindLLMCall, origin, session, n)
	e.LLM = &ingest.LLMCall{Model: "m-1", Count: 1, InputTokens: int64(100 + n), OutputTokens: int64(n), CachedTokens: -1}
	return e
}

// UserMessage is a plain turn of the user.
func UserMessage(origin, session string, n int) ingest.Event {
	e := header(ingest.KindUserMessage, origin, session, n)
	e.User = &ingest.UserMessage{Text: fmt.Sprintf("please do %d", n)}
	return e
}

// Span is structure without a call.
func Span(origin, session string, n int) ingest.Event {
	return header(ingest.KindSpan, origin, session, n)
}

// Kinds is one event of every kind with every field set, and of every kind with as little as is allowed.
func Kinds(origin string) []ingest.Event {
	full := func(kind ingest.Kind, n int) ingest.Event {
		e := header(kind, origin, "", n)
		e.TraceID, e.SpanID, e.ParentSpanID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "53995c3f42cd8ad8"
		e.RunID, e.Agent, e.Source = "run-1", "support", "otlp/genai"
		e.OriginKind = ingest.OriginFlowCall
		e.Seq, e.HasSeq = int64(n), true
		e.Turn, e.HasTurn = int32(n), true
		e.Duration = 1234567 * time.Nanosecond
		e.Metadata = json.RawMessage(`{"k": [1, 2.50, null]}`)
		return e
	}
	call := full(ingest.KindToolCall, 1)
	call.Call = &ingest.ToolCall{
		Tool: "crm.lookup", CallID: "call_0", Args: json.RawMessage(`{"id" : 1}`), Result: json.RawMessage(`"text"`),
		Status: ingest.StatusError, Error: "timeout: no answer", Truncated: true,
	}
	llm := full(ingest.KindLLMCall, 2)
	llm.LLM = &ingest.LLMCall{
		Model: "m-large", Count: 7, InputTokens: 1000, OutputTokens: 0, CachedTokens: 900, CostUSD: 0.1, HasCost: true,
	}
	user := full(ingest.KindUserMessage, 3)
	user.User = &ingest.UserMessage{Text: "where is my order?\nthanks"}
	events := []ingest.Event{call, llm, user, full(ingest.KindSessionEnd, 4), full(ingest.KindSpan, 5)}
	for kind := ingest.KindToolCall; kind <= ingest.KindSpan; kind++ {
		e := ingest.Event{Kind: kind, Origin: origin, Received: At(6)}
		switch kind {
		case ingest.KindToolCall:
			e.Call = &ingest.ToolCall{}
		case ingest.KindLLMCall:
			e.LLM = &ingest.LLMCall{}
		case ingest.KindUserMessage:
			e.User = &ingest.UserMessage{}
		}
		events = append(events, e)
	}
	// Zero and absent are not the same.
	zero := ToolCall(origin, "", 7)
	zero.HasSeq, zero.HasTurn = true, true
	events = append(events, zero)
	return events
}
