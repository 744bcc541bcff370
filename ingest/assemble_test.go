package ingest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// t0 is the zero of the tests' clock; at is milliseconds after it.
var t0 = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func at(ms float64) time.Time { return t0.Add(time.Duration(ms * float64(time.Millisecond))) }

// trace builds the events of one trace.
type trace struct {
	id     string
	events []Event
}

func (tr *trace) add(kind Kind, span, parent string, from, to float64, change func(*Event)) *trace {
	e := Event{Kind: kind, TraceID: tr.id, SpanID: span, ParentSpanID: parent, Source: "otlp/genai", OriginKind: OriginAgent,
		Start: at(from), Duration: time.Duration((to - from) * float64(time.Millisecond)), Received: t0}
	switch kind {
	case KindToolCall:
		e.Call = &ToolCall{Tool: "t", Args: json.RawMessage(`{}`), Status: StatusOK}
	case KindLLMCall:
		e.LLM = &LLMCall{Model: "m", Count: 1, InputTokens: 10, OutputTokens: 2, CachedTokens: -1}
	}
	if change != nil {
		change(&e)
	}
	tr.events = append(tr.events, e)
	return tr
}

func (tr *trace) tool(span, parent, tool, callID string, from, to float64) *trace {
	return tr.add(KindToolCall, span, parent, from, to, func(e *Event) {
		e.Call.Tool, e.Call.CallID, e.Call.Args = tool, callID, json.RawMessage(fmt.Sprintf(`{"span":%q}`, span))
	})
}

func (tr *trace) chat(span, parent string, from, to float64, callIDs ...string) *trace {
	return tr.add(KindLLMCall, span, parent, from, to, func(e *Event) {
		if len(callIDs) > 0 {
			ids, _ := json.Marshal(callIDs)
			e.Metadata = json.RawMessage(`{"tool_call_ids":` + string(ids) + `}`)
		}
	})
}

func (tr *trace) agent(span, parent, name, session string, from, to float64) *trace {
	return tr.add(KindSpan, span, parent, from, to, func(e *Event) { e.RunID, e.Agent, e.SessionID = span, name, session })
}

// assemble gives the sessions by id.
func assemble(events []Event) map[string]*Session {
	out := make(map[string]*Session)
	for _, s := range AssembleAll("t", append([]Event(nil), events...), AssembleOptions{}) {
		out[s.ID] = s
	}
	return out
}

// shape renders runs as "tool/turn/flags" lists, for comparison by eye.
func shape(s *Session) (out [][]string) {
	for _, r := range s.Runs {
		var calls []string
		for i, c := range r.Calls {
			text := fmt.Sprintf("%s/%d", c.Tool, c.Turn)
			for _, f := range []struct {
				flag CallFlag
				name string
			}{{FlagBreak, "break"}, {FlagError, "error"}, {FlagRepeat, "repeat"}, {FlagParallel, "parallel"}, {FlagNotAgent, "not-agent"}, {FlagRequested, "requested"}} {
				if c.Flags&f.flag != 0 {
					text += " " + f.name
				}
			}
			if c.Seq != i {
				text += fmt.Sprintf(" seq %d", c.Seq)
			}
			calls = append(calls, text)
		}
		out = append(out, calls)
	}
	return out
}

func decodeSession(t *testing.T, body string) *Session {
	events, rejected := decodeAll(t, body, DecodeOptions{})
	require.Empty(t, rejected)
	sessions := AssembleAll("t", events, AssembleOptions{})
	require.Len(t, sessions, 1)
	return sessions[0]
}

func TestAssembleRecords(t *testing.T) {
	s := decodeSession(t, `
{"event":"user_message","session_id":"s","turn":1,"text":"hi"}
{"event":"llm_call","session_id":"s","turn":1,"model":"m"}
{"tool":"a","session_id":"s","turn":1,"seq":0,"args":{"x":1},"result":1}
{"tool":"a","session_id":"s","turn":2,"seq":1,"args":{"x":1.0},"result":1}
{"tool":"b","session_id":"s","turn":3,"seq":2,"error":"no"}
{"tool":"c","session_id":"s","turn":3,"seq":3}
{"tool":"d","session_id":"s","turn":5,"seq":4}
{"event":"user_message","session_id":"s","turn":6,"text":"more"}
{"tool":"e","session_id":"s","turn":6,"seq":5,"origin_kind":"flow_call"}
{"tool":"f","session_id":"s","turn":7,"seq":6}
{"tool":"f","session_id":"s","turn":8,"seq":7}
{"event":"user_message","session_id":"s","turn":9,"text":"bye"}
{"event":"session_end","session_id":"s"}`)
	require.Equal(t, [][]string{{"a/1 break", "a/2 repeat", "b/3 error", "c/3 parallel", "d/5 break", "e/6 break not-agent", "f/7 break", "f/8"}}, shape(s))
	require.Equal(t, []UserTurn{{0, "hi"}, {5, "more"}, {8, "bye"}}, s.Runs[0].Users)
	require.Equal(t, int32(1), s.Runs[0].LLM[0].Turn)
	require.True(t, s.Ended)
}

func TestAssembleArrivalOrderWithoutAnything(t *testing.T) {
	s := decodeSession(t, `
{"tool":"a","session_id":"s"}
{"event":"user_message","session_id":"s","text":"x"}
{"tool":"b","session_id":"s"}
{"tool":"c","session_id":"s"}`)
	require.Equal(t, [][]string{{"a/1 break", "b/2 break", "c/3"}}, shape(s))
	require.Equal(t, []UserTurn{{1, "x"}}, s.Runs[0].Users)
}

func TestAssembleTotals(t *testing.T) {
	s := decodeSession(t, `
{"event":"llm_call","session_id":"s","count":11,"cost_usd":0.5}
{"tool":"a","session_id":"s","turn":2}
{"event":"llm_call","session_id":"s","model":"m"}
{"tool":"b","session_id":"s","turn":3}`)
	require.Equal(t, [][]string{{"a/2 break", "b/3"}}, shape(s))
	require.Len(t, s.Runs[0].LLM, 2)
	require.Equal(t, []int32{-1, 3}, []int32{s.Runs[0].LLM[0].Turn, s.Runs[0].LLM[1].Turn})
	require.Equal(t, int32(11), s.Runs[0].LLM[0].Count)
}

func TestAssembleGap(t *testing.T) {
	minute := 60_000.0
	tr := (&trace{id: "1"}).tool("a", "", "a", "", 0, 1*minute).tool("b", "", "b", "", 31*minute, 32*minute).tool("c", "", "c", "", 62*minute+1, 63*minute)
	require.Equal(t, [][]string{{"a/1 break", "b/2", "c/3 break"}}, shape(assemble(tr.events)["trace:1"]))
}

func TestAssembleSessionOfSpans(t *testing.T) {
	late := (&trace{id: "1"}).tool("a", "root", "a", "", 1, 2).agent("root", "", "support", "s1", 0, 9)
	sessions := assemble(late.events)
	require.Len(t, sessions, 1)
	require.Equal(t, [][]string{{"a/1 break"}}, shape(sessions["s1"]))
	require.Equal(t, "support", sessions["s1"].Runs[0].Agent)
	require.Equal(t, "root", sessions["s1"].Runs[0].ID)

	none := (&trace{id: "2"}).tool("a", "", "a", "", 1, 2)
	require.Contains(t, assemble(none.events), "trace:2")

	two := (&trace{id: "3"}).agent("r1", "", "x", "s1", 0, 10).agent("r2", "", "y", "s2", 20, 30).
		tool("a", "r1", "a", "", 25, 26). // time says s2, the parent s1
		tool("b", "r2", "b", "", 21, 22).
		tool("c", "gone", "c", "", 27, 28). // nothing but time
		tool("d", "gone", "d", "", -5, -4)
	sessions = assemble(two.events)
	require.Len(t, sessions, 2)
	require.Equal(t, [][]string{{"d/1 break", "a/2"}}, shape(sessions["s1"]))
	require.Equal(t, [][]string{{"b/1 break", "c/2"}}, shape(sessions["s2"]))

	joined := append((&trace{id: "4"}).agent("r", "", "x", "s1", 0, 10).tool("a", "r", "a", "", 1, 2).events,
		(&trace{id: "5"}).agent("q", "", "x", "s1", 20, 30).tool("b", "q", "b", "", 21, 22).events...)
	require.Equal(t, [][]string{{"a/1 break"}, {"b/1 break"}}, shape(assemble(joined)["s1"]))

	cycle := (&trace{id: "6"}).tool("a", "b", "a", "", 1, 2).tool("b", "a", "b", "", 3, 4)
	require.Equal(t, [][]string{{"a/1 break", "b/2"}}, shape(assemble(cycle.events)["trace:6"]))
}

func TestAssembleOrderTies(t *testing.T) {
	tr := (&trace{id: "1"}).tool("x1", "", "second", "call_2", 10, 12).tool("x2", "", "first", "call_1", 10, 14).
		chat("m", "", 10, 10, "call_1", "call_2").tool("x3", "", "third", "call_3", 10, 11)
	require.Equal(t, [][]string{{"first/1 break", "second/1 parallel", "third/1 parallel"}}, shape(assemble(tr.events)["trace:1"]))
	seq := (&trace{id: "1"})
	for i, tool := range []string{"c", "a", "b"} {
		seq.add(KindToolCall, "s"+tool, "", float64(i), float64(i)+0.5, func(e *Event) {
			e.Call.Tool, e.HasSeq, e.Seq = tool, true, int64(tool[0])
		})
	}
	seq.tool("x", "", "other", "", 0.5, 0.6)
	require.Equal(t, [][]string{{"a/1 break", "other/2", "b/3", "c/4"}}, shape(assemble(seq.events)["trace:1"]))
}

func TestAssembleTurns(t *testing.T) {
	counted := (&trace{id: "1"}).chat("m1", "", 0, 5).tool("a", "", "a", "", 6, 7).tool("b", "", "b", "", 8, 9).
		chat("m2", "", 10, 15).tool("c", "", "c", "", 16, 17).
		chat("m3", "", 20, 25). // a text answer
		chat("m4", "", 30, 35).tool("d", "", "d", "", 36, 37)
	s := assemble(counted.events)["trace:1"]
	require.Equal(t, [][]string{{"a/1 break", "b/1 parallel", "c/2", "d/4 break"}}, shape(s))
	require.Equal(t, []int32{1, 2, 3, 4}, []int32{s.Runs[0].LLM[0].Turn, s.Runs[0].LLM[1].Turn, s.Runs[0].LLM[2].Turn, s.Runs[0].LLM[3].Turn})

	unasked := (&trace{id: "1"}).chat("m1", "", 0, 5, "c1", "c2").tool("a", "", "a", "c1", 6, 7.5).tool("b", "", "b", "c2", 6, 7.2).
		tool("c", "", "c", "c3", 9, 10.2).tool("d", "", "d", "c4", 11, 12)
	require.Equal(t, [][]string{{"a/1 break", "b/1 parallel", "c/2", "d/3"}}, shape(assemble(unasked.events)["trace:1"]),
		"calls that no recorded model call asked for are turns of their own; equal starts by position")

	overlap := (&trace{id: "1"}).tool("a", "", "a", "", 0, 5.5).tool("b", "", "b", "", 3, 4).tool("c", "", "c", "", 5, 6).tool("d", "", "d", "", 6.1, 7)
	require.Equal(t, [][]string{{"a/1 break", "b/1 parallel", "c/2", "d/3"}}, shape(assemble(overlap.events)["trace:1"]),
		"c may have started at 5.9: its clock is cut to milliseconds")
}

// A turn counter that begins anew is that of an agent that was started again: its calls come after the others, not among them.
func TestAssembleTurnsThatBeginAnew(t *testing.T) {
	type placed struct {
		tool         string
		turn         int32
		second, long int // start and duration
	}
	calls := func(all ...placed) []Event {
		var events []Event
		for i, c := range all {
			e := Event{Kind: KindToolCall, SessionID: "s", Source: "json", OriginKind: OriginAgent, Turn: c.turn, HasTurn: true, Received: t0,
				Start: at(1000 * float64(c.second)), Duration: time.Duration(c.long) * time.Second,
				Call: &ToolCall{Tool: c.tool, CallID: fmt.Sprint("c", i), Args: json.RawMessage(`{}`), Status: StatusOK}}
			if c.tool == "" {
				e.Kind, e.Call, e.User = KindUserMessage, nil, &UserMessage{Text: fmt.Sprint("message ", i)}
			}
			events = append(events, e)
		}
		return events
	}
	for name, c := range map[string]struct {
		events []Event
		want   []string
	}{
		"started again": {calls(placed{"a", 0, 1, 1}, placed{"b", 1, 3, 1}, placed{"c", 0, 100, 1}, placed{"d", 1, 102, 1}),
			[]string{"a/0 break", "b/1", "c/3 break", "d/4"}},
		"twice, with messages": {calls(placed{"", 0, 0, 0}, placed{"a", 0, 1, 1}, placed{"b", 1, 3, 1}, placed{"", 0, 99, 0}, placed{"c", 0, 100, 1}, placed{"d", 1, 102, 1},
			placed{"e", 0, 200, 1}, placed{"f", 0, 201, 1}), []string{"a/0 break", "b/1", "c/3 break", "d/4", "e/6 break", "f/6 parallel"}},
		"too soon to be told from a clock that is ahead": {calls(placed{"a", 0, 1, 1}, placed{"b", 1, 3, 1}, placed{"c", 0, 63, 1}, placed{"d", 1, 65, 1}),
			[]string{"a/0 break", "c/0 parallel", "b/1", "d/1 parallel"}},
		"of a clock that is an hour ahead": {calls(placed{"a", 0, 1, 1}, placed{"b", 2, 5, 1}, placed{"x", 1, 3603, 1}, placed{"y", 3, 3607, 1}),
			[]string{"a/0 break", "x/1 break", "b/2", "y/3 break"}},
		"a late call of the last turn": {calls(placed{"a", 0, 1, 1}, placed{"b", 1, 3, 1}, placed{"c", 1, 300, 1}), []string{"a/0 break", "b/1", "c/1 parallel"}},
		"beyond counting": {calls(placed{"a", 0, 1, 1}, placed{"b", math.MaxInt32, 3, 1}, placed{"c", 0, 100, 1}),
			[]string{"a/0 break", "c/0 parallel", "b/2147483647 break"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, [][]string{c.want}, shape(assemble(c.events)["s"]))
			slices.Reverse(c.events)
			require.Equal(t, [][]string{c.want}, shape(assemble(c.events)["s"]), "whatever order they come in")
		})
	}
}

func TestAssembleNestedAgent(t *testing.T) {
	tr := (&trace{id: "1"}).agent("outer", "", "boss", "s", 0, 100).tool("a", "outer", "a", "", 1, 2).
		tool("delegate", "outer", "ask_expert", "", 10, 50).agent("inner", "delegate", "expert", "", 11, 49).
		chat("m", "inner", 12, 13).tool("x", "inner", "x", "", 20, 30).tool("b", "outer", "b", "", 60, 61)
	s := assemble(tr.events)["s"]
	require.Equal(t, [][]string{{"a/1 break", "ask_expert/2", "b/3"}, {"x/1 break"}}, shape(s))
	require.Equal(t, []string{"boss", "expert"}, []string{s.Runs[0].Agent, s.Runs[1].Agent})
	require.Equal(t, s.Runs[0].Calls[1].Identity, s.Runs[1].ParentCall)
	require.Empty(t, s.Runs[0].ParentCall)
	require.Len(t, s.Runs[1].LLM, 1)
}

// What is below the call of a flow is the flow's, whatever mark its telemetry lost; one copy that knows of a flow is enough.
func TestAssembleCallsOfFlows(t *testing.T) {
	mark := func(tr *trace, kind OriginKind) *trace {
		tr.events[len(tr.events)-1].OriginKind = kind
		return tr
	}
	tr := (&trace{id: "1"}).agent("r", "", "boss", "s", 0, 100).tool("a", "r", "a", "", 1, 2)
	mark(tr.tool("f", "r", "mcp__pave__refund", "", 10, 50), OriginFlowCall)
	tr.add(KindSpan, "http", "f", 11, 49, nil).tool("mcp", "http", "refund", "", 12, 48).tool("x", "mcp", "x", "", 20, 30)
	for i := range tr.events { // the server's twin has the result
		if tr.events[i].SpanID == "mcp" {
			tr.events[i].Source, tr.events[i].Call.Result = SourceMCP+"-server", json.RawMessage(`{"done":true}`)
		}
	}
	tr.tool("b", "r", "b", "", 60, 61)
	s := assemble(tr.events)["s"]
	require.Equal(t, [][]string{{"a/1 break", "mcp__pave__refund/2 break not-agent", "x/2 break not-agent", "b/3 break"}}, shape(s))
	require.Equal(t, []OriginKind{OriginAgent, OriginFlowCall, OriginFlow, OriginAgent},
		[]OriginKind{s.Runs[0].Calls[0].Origin, s.Runs[0].Calls[1].Origin, s.Runs[0].Calls[2].Origin, s.Runs[0].Calls[3].Origin})
	require.JSONEq(t, `{"done":true}`, string(s.Runs[0].Calls[1].Result))

	known := call("s", "c1", `{"a":1}`)
	known.OriginKind = OriginFlow
	richer := call("s", "c1", `{"a":1}`)
	richer.Call.Result = json.RawMessage(`{}`)
	for _, events := range [][]Event{{known, richer}, {richer, known}} {
		require.Equal(t, [][]string{{"t/1 break not-agent"}}, shape(assemble(events)["s"]))
	}
}

func TestAssembleDuplicates(t *testing.T) {
	record := func(change func(*Event)) Event {
		e := call("s", "c1", `{"a":1}`)
		e.Call.Result = json.RawMessage(`{"r":1}`)
		change(&e)
		return e
	}
	poorer := record(func(e *Event) { e.Call.Result = nil })
	poorest := record(func(e *Event) { e.Call.Result, e.Call.Args = nil, nil })
	full := record(func(*Event) {})
	sameOther := record(func(e *Event) { e.Call.Result = json.RawMessage(`{"r":2}`) })
	reformatted := record(func(e *Event) {
		e.Call.Args, e.Call.Result = json.RawMessage(`{ "a" : 1.0 }`), json.RawMessage(`{"r":1}`)
	})
	for name, c := range map[string]struct {
		events    []Event
		result    string
		conflicts int
	}{
		"equal":               {[]Event{full, full, full}, `{"r":1}`, 0},
		"equal but the form":  {[]Event{full, reformatted}, `{"r":1}`, 0},
		"poorer then richer":  {[]Event{poorest, poorer, full}, `{"r":1}`, 2},
		"richer then poorer":  {[]Event{full, poorer}, `{"r":1}`, 1},
		"first of equal ones": {[]Event{full, sameOther}, `{"r":1}`, 1},
		"the other one first": {[]Event{poorer, sameOther, full, full}, `{"r":2}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := assemble(c.events)["s"]
			require.Len(t, s.Runs[0].Calls, 1)
			require.Equal(t, c.result, string(s.Runs[0].Calls[0].Result))
			require.Equal(t, c.conflicts, s.Conflicts)
		})
	}
}

func TestAssembleLogAndSpanOfOneCall(t *testing.T) {
	tr := (&trace{id: "1"}).agent("r", "", "x", "s", 0, 100)
	for i := range 2 { // call ids repeat over turns
		from := float64(i * 10)
		tr.chat(fmt.Sprint("m", i), "r", from, from+1).tool(fmt.Sprint("a", i), "r", "a", "call_0", from+2, from+3)
	}
	logs := make([]Event, 2)
	for i := range logs {
		logs[i] = Event{Kind: KindToolCall, TraceID: "9", SessionID: "s", Source: "otlp/log", OriginKind: OriginAgent, Start: at(float64(i*10) + 3),
			HasSeq: true, Seq: int64(i), Identity: fmt.Sprint("log", i),
			Call: &ToolCall{Tool: "a", CallID: "call_0", Result: json.RawMessage(fmt.Sprint(i)), Status: StatusOK}}
	}
	s := assemble(append(tr.events, logs...))["s"]
	require.Equal(t, [][]string{{"a/1 break", "a/2"}}, shape(s))
	for i, c := range s.Runs[0].Calls {
		require.Equal(t, fmt.Sprint(i), string(c.Result))
		require.Equal(t, fmt.Sprintf(`{"span":"a%d"}`, i), string(c.Args), "what only the other copy has completes the kept one")
	}
	require.Zero(t, s.Conflicts)
}

func TestAssembleTwins(t *testing.T) {
	tr := (&trace{id: "1"}).tool("exec", "", "mcp__orders__find", "call_1", 0, 10).
		add(KindToolCall, "client", "exec", 1, 9, func(e *Event) { e.Source, e.Call.Tool = "otlp/mcp", "find" }).
		add(KindSpan, "http", "client", 1.5, 8.5, nil).
		add(KindToolCall, "server", "http", 500, 505, func(e *Event) {
			e.Source, e.Call.Tool, e.Call.Args, e.Call.Result = "otlp/mcp-server", "find", json.RawMessage(`{"span":"exec"}`), json.RawMessage(`[1]`)
		}).
		tool("inner", "exec", "mcp__orders__find", "call_9", 20, 21) // an agent inside calls the tool itself
	s := assemble(tr.events)["trace:1"]
	require.Equal(t, [][]string{{"mcp__orders__find/1 break", "mcp__orders__find/2"}}, shape(s))
	c := s.Runs[0].Calls[0]
	require.Equal(t, at(0), c.Start, "the caller's clock counts")
	require.Equal(t, "call_1", c.CallID)
	require.Equal(t, `[1]`, string(c.Result))
}

// An agent that a tool of an unnamed one started is a run of its own, and the calls around it are not its.
func TestAssembleAgentBelowUnnamedOne(t *testing.T) {
	tr := (&trace{id: "1"}).chat("m1", "", 0, 1).tool("a", "", "a", "", 2, 3).tool("ask", "", "ask", "", 4, 20).
		agent("sub", "ask", "helper", "", 5, 19).chat("m2", "sub", 6, 7).tool("b", "sub", "b", "", 8, 9).tool("c", "", "c", "", 21, 22)
	s := assemble(tr.events)["trace:1"]
	require.Equal(t, [][]string{{"a/1 break", "ask/1 parallel", "c/1 parallel"}, {"b/1 break"}}, shape(s))
	require.Equal(t, []string{"", "sub"}, []string{s.Runs[0].ID, s.Runs[1].ID})
	require.Equal(t, s.Runs[0].Calls[1].Identity, s.Runs[1].ParentCall)
	require.Len(t, s.Runs[0].LLM, 1)
	require.Len(t, s.Runs[1].LLM, 1)
}

// Tools on a machine whose clock is behind, or ahead, come behind what asked for them, and in their order.
func TestAssembleSkewedClocks(t *testing.T) {
	for name, skew := range map[string]float64{"hour behind": -3_600_000, "a little behind": -12, "a little ahead": 12, "right": 0} {
		asked := (&trace{id: "1"}).agent("r", "", "x", "s", 0, 100).
			chat("m1", "r", 10, 20, "c1", "c2").chat("m2", "r", 50, 60, "c3").chat("m3", "r", 90, 95).
			tool("a", "r", "a", "c1", 21+skew, 29+skew).tool("b", "r", "b", "c2", 22+skew, 30+skew).tool("c", "r", "c", "c3", 61+skew, 70+skew)
		require.Equal(t, [][]string{{"a/1 break", "b/1 parallel", "c/2"}}, shape(assemble(asked.events)["s"]), name)
		if skew > 0 {
			continue // ahead, only ids tell
		}
		nested := (&trace{id: "1"}).agent("r", "", "x", "s", 0, 100).
			add(KindSpan, "s1", "r", 5, 49, nil).chat("m1", "s1", 10, 20).add(KindSpan, "s2", "r", 50, 89, nil).chat("m2", "s2", 51, 60).
			add(KindSpan, "t1", "s1", 20.5, 40, nil).tool("a", "t1", "a", "", 21+skew, 29+skew).tool("b", "t1", "b", "", 30+skew, 40+skew).
			add(KindSpan, "t2", "s2", 60.5, 80, nil).tool("c", "t2", "c", "", 61+skew, 70+skew)
		require.Equal(t, [][]string{{"a/1 break", "b/1 parallel", "c/2"}}, shape(assemble(nested.events)["s"]), name)
	}
	// An id that is used more often than it is known to have been asked for tells nothing of clocks.
	again := (&trace{id: "1"}).tool("a", "", "a", "call_0", 1, 2).chat("m1", "", 5, 6, "call_0").tool("b", "", "b", "call_0", 7, 8)
	require.Equal(t, [][]string{{"a/1 break", "b/2"}}, shape(assemble(again.events)["trace:1"]))
}

func TestAssembleNestedModelCalls(t *testing.T) {
	tr := (&trace{id: "1"}).add(KindLLMCall, "outer", "", 0, 5, func(e *Event) { e.LLM.InputTokens, e.LLM.Model = -1, "" }).chat("inner", "outer", 1, 4).tool("a", "", "a", "", 6, 7)
	s := assemble(tr.events)["trace:1"]
	require.Len(t, s.Runs[0].LLM, 1)
	require.Equal(t, LLMCall{Model: "m", Count: 1, InputTokens: 10, OutputTokens: 2, CachedTokens: -1}, s.Runs[0].LLM[0].LLMCall)
}

func TestAssembleRequestedCalls(t *testing.T) {
	requested := call("s", "c1", `{}`)
	requested.Call.Status = StatusRequested
	s := assemble([]Event{requested})["s"]
	require.Equal(t, [][]string{{"t/1 break requested"}}, shape(s))
	s = assemble([]Event{requested, call("s", "c2", `{}`)})["s"]
	require.Equal(t, [][]string{{"t/1 break"}}, shape(s))
}

// TestAssembleInvariance: whatever order spans come in, in whatever batches and copies, the sessions are the same.
func TestAssembleInvariance(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var events []Event
		for n := range rapid.IntRange(1, 3).Draw(rt, "traces") {
			tr := &trace{id: fmt.Sprint(n)}
			session := rapid.SampledFrom([]string{"", "s1", "s2"})
			spans := []string{""}
			for i := range rapid.IntRange(1, 12).Draw(rt, "spans") {
				span := fmt.Sprintf("%c", 'a'+i)
				parent := rapid.SampledFrom(append(spans, "gone")).Draw(rt, "parent")
				// Many ties, by a clock finer than a millisecond: for a coarser one arrival decides.
				from := float64(rapid.IntRange(0, 6).Draw(rt, "from")) + 0.25
				to := from + float64(rapid.IntRange(0, 3).Draw(rt, "long"))/2
				switch rapid.IntRange(0, 3).Draw(rt, "kind") {
				case 0:
					tr.agent(span, parent, "agent"+span, session.Draw(rt, "session"), from, to)
				case 1:
					tr.chat(span, parent, from, to, rapid.SliceOfN(rapid.SampledFrom([]string{"c1", "c2", "c3"}), 0, 3).Draw(rt, "ids")...)
				default:
					tr.tool(span, parent, rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "tool"), rapid.SampledFrom([]string{"", "", "c1", "c2"}).Draw(rt, "call"), from, to)
				}
				spans = append(spans, span)
			}
			events = append(events, tr.events...)
		}
		want := assemble(events)
		shuffled := append([]Event(nil), events...)
		for range rapid.IntRange(0, 5).Draw(rt, "copies") {
			shuffled = append(shuffled, shuffled[rapid.IntRange(0, len(events)-1).Draw(rt, "copy")])
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		require.Equal(rt, want, assemble(shuffled))
	})
}
