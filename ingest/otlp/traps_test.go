package otlp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"pave/ingest"
)

// spanSpec is a span of a trap: times in milliseconds, ids as small numbers.
type spanSpec struct {
	trace, id, parent byte
	name              string
	from, to          int64
	attrs             attrs
	kind              ptrace.SpanKind
}

func tracesOf(specs ...spanSpec) ptrace.Traces {
	td, ss := scope()
	for _, p := range specs {
		s := spanOf(ss, p.id, p.parent, p.name, p.attrs)
		s.SetTraceID(pcommon.TraceID{max(p.trace, 1)})
		s.SetStartTimestamp(pcommon.Timestamp(p.from * 1e6))
		s.SetEndTimestamp(pcommon.Timestamp(p.to * 1e6))
		s.SetKind(p.kind)
	}
	return td
}

func sessionsOf(t *testing.T, requests ...ptrace.Traces) map[string]*ingest.Session {
	t.Helper()
	var events []ingest.Event
	for _, td := range requests {
		mapped, stats := Reader{}.MapTraces(td)
		require.Zero(t, stats.Rejected, stats.Reason)
		events = append(events, mapped...)
	}
	out := make(map[string]*ingest.Session)
	for _, s := range ingest.AssembleAll("t", events, ingest.AssembleOptions{}) {
		out[s.ID] = s
	}
	return out
}

// Spans of a run of pave are known by its id where a collector dropped the trace state.
func TestRunsAreKnownWithoutTraceState(t *testing.T) {
	td := tracesOf(spanSpec{id: 1, name: "execute_tool find", from: 1, to: 2, attrs: attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "pave.run.id": "run-7"}},
		spanSpec{id: 2, name: "execute_tool read", from: 3, to: 4, attrs: attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read"}})
	events, stats := Reader{}.MapTraces(td)
	require.Zero(t, stats.Rejected)
	require.Len(t, events, 2)
	require.Equal(t, []any{ingest.OriginFlow, "run-7"}, []any{events[0].OriginKind, events[0].RunID})
	require.Equal(t, []any{ingest.OriginAgent, ""}, []any{events[1].OriginKind, events[1].RunID})
}

// callsOf lists a session's calls as "tool args status".
func callsOf(s *ingest.Session) (out []string) {
	for _, r := range s.Runs {
		for _, c := range r.Calls {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Tool, c.Args, c.Status)))
		}
	}
	return out
}

func tool(name, id, args string) attrs {
	a := attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
	if id != "" {
		a["gen_ai.tool.call.id"] = id
	}
	if args != "" {
		a["gen_ai.tool.call.arguments"] = args
	}
	return a
}

// Trap 4: the session is on another span of the trace, which arrives later, in another request.
func TestSessionOfALaterRequest(t *testing.T) {
	first := tracesOf(spanSpec{id: 3, parent: 2, name: "execute_tool a", from: 10, to: 20, attrs: tool("a", "c1", `{}`)})
	later := tracesOf(
		spanSpec{id: 2, parent: 1, name: "step 1", from: 5, to: 30, attrs: attrs{"gen_ai.operation.name": "agent_step", "ai.settings.context.sessionId": "sess"}},
		spanSpec{id: 1, name: "invoke_agent", from: 0, to: 40, attrs: attrs{"gen_ai.operation.name": "invoke_agent"}})
	require.Equal(t, []string{"a {} ok"}, callsOf(sessionsOf(t, first, later)["sess"]))
	require.Equal(t, []string{"a {} ok"}, callsOf(sessionsOf(t, later, first)["sess"]))
}

// Trap 5: one session over several traces, and several sessions in one trace.
func TestTracesAreNotSessions(t *testing.T) {
	gemini := func(trace byte, from int64, name string) spanSpec {
		return spanSpec{trace: trace, id: 1, name: "tool_call", from: from, to: from + 5, attrs: attrs{"gen_ai.operation.name": "tool_call", "gen_ai.tool.name": name,
			"gen_ai.conversation.id": "conv", "gen_ai.output.messages": `{"status":"success"}`}}
	}
	require.Equal(t, []string{"a ok", "b ok", "c ok"}, compact(callsOf(sessionsOf(t, tracesOf(gemini(3, 30, "c"), gemini(1, 10, "a"), gemini(2, 20, "b")))["conv"])))
	two := sessionsOf(t, tracesOf(
		spanSpec{id: 1, name: "invoke_agent", from: 0, to: 9, attrs: attrs{"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "x"}},
		spanSpec{id: 2, parent: 1, name: "t", from: 1, to: 2, attrs: tool("a", "", "")},
		spanSpec{id: 3, name: "invoke_agent", from: 10, to: 19, attrs: attrs{"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "y"}},
		spanSpec{id: 4, parent: 3, name: "t", from: 11, to: 12, attrs: tool("b", "", "")}))
	require.Equal(t, []string{"a ok"}, compact(callsOf(two["x"])))
	require.Equal(t, []string{"b ok"}, compact(callsOf(two["y"])))
}

func compact(lines []string) []string {
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return lines
}

// Trap 6: calls of one turn that start in one millisecond keep the order in which the model asked for them.
func TestTiesFollowTheModel(t *testing.T) {
	chat := spanSpec{id: 2, parent: 1, name: "chat", from: 2, to: 10, attrs: attrs{"gen_ai.operation.name": "chat",
		"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"a","arguments":{}},{"type":"tool_call","id":"c2","name":"b","arguments":{}},{"type":"tool_call","id":"c3","name":"c","arguments":{}}]}]`}}
	calls := []spanSpec{
		{id: 5, parent: 1, name: "t", from: 10, to: 11, attrs: tool("c", "c3", "")},
		{id: 4, parent: 1, name: "t", from: 10, to: 11, attrs: tool("a", "c1", "")},
		{id: 3, parent: 1, name: "t", from: 10, to: 11, attrs: tool("b", "c2", "")},
	}
	for range 2 {
		slices.Reverse(calls)
		s := sessionsOf(t, tracesOf(append(calls, chat)...))
		require.Len(t, s, 1)
		for _, session := range s {
			require.Equal(t, []string{"a ok", "b ok", "c ok"}, compact(callsOf(session)))
			require.NotZero(t, session.Runs[0].Calls[1].Flags&ingest.FlagParallel)
		}
	}
}

// Trap 7: one Claude Code call is a span, two spans inside it and a log record.
func TestClaudeCodeSpanAndRecordAreOneCall(t *testing.T) {
	td := tracesOf(
		spanSpec{id: 1, name: "claude_code.interaction", from: 0, to: 50, attrs: attrs{"session.id": "s"}},
		spanSpec{id: 2, parent: 1, name: "claude_code.tool", from: 10, to: 30, attrs: attrs{"tool_name": "Bash", "tool_use_id": "toolu_1", "session.id": "s"}},
		spanSpec{id: 3, parent: 2, name: "claude_code.tool.blocked_on_user", from: 10, to: 12, attrs: attrs{"tool_name": "Bash", "session.id": "s"}},
		spanSpec{id: 4, parent: 2, name: "claude_code.tool.execution", from: 12, to: 30, attrs: attrs{"tool_name": "Bash", "session.id": "s", "success": "true"}})
	events, _ := Reader{}.MapTraces(td)
	logs, _ := Reader{}.MapLogs(logOf("claude_code.tool_result", attrs{"session.id": "s", "tool_name": "Bash", "tool_use_id": "toolu_1", "tool_parameters": `{"command":"ls"}`, "success": "true",
		"duration_ms": "20", "event.timestamp": "1970-01-01T00:00:00.030Z", "event.sequence": int64(4)}))
	for range 2 {
		sessions := ingest.AssembleAll("t", append(slices.Clone(events), logs...), ingest.AssembleOptions{})
		require.Len(t, sessions, 1)
		require.Equal(t, []string{`Bash {"command":"ls"} ok`}, callsOf(sessions[0]))
		slices.Reverse(events)
	}
}

// Claude Code: how a call ended is on the span of its execution, what it returned in an event of the call's span, and of its
// arguments the spans name only the command or file, the log all.
func TestClaudeSpansTellHowCallsEnded(t *testing.T) {
	td := tracesOf(
		spanSpec{id: 1, name: "claude_code.interaction", from: 1, to: 90, attrs: attrs{"session.id": "s"}},
		spanSpec{id: 2, parent: 1, name: "claude_code.tool", from: 10, to: 30, attrs: attrs{"tool_name": "Bash", "tool_use_id": "t1", "full_command": "ls", "session.id": "s"}},
		spanSpec{id: 3, parent: 2, name: "claude_code.tool.execution", from: 12, to: 30, attrs: attrs{"tool_use_id": "t1", "session.id": "s", "success": "false", "error": "ShellError"}},
		spanSpec{id: 4, parent: 1, name: "claude_code.tool", from: 40, to: 50, attrs: attrs{"tool_name": "Read", "tool_use_id": "t2", "file_path": "/a", "session.id": "s"}},
		spanSpec{id: 5, parent: 4, name: "claude_code.tool.execution", from: 42, to: 50, attrs: attrs{"tool_use_id": "t2", "session.id": "s", "success": true}},
		spanSpec{id: 6, parent: 1, name: "claude_code.tool", from: 60, to: 70, attrs: attrs{"tool_name": "Write", "tool_use_id": "t3", "session.id": "s"}})
	e := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(3).Events().AppendEmpty()
	e.SetName("tool.output")
	e.Attributes().PutStr("content", "hello")
	events, _ := Reader{}.MapTraces(td)
	for range 2 {
		s := ingest.AssembleAll("t", slices.Clone(events), ingest.AssembleOptions{})[0]
		require.Equal(t, []string{`Bash {"command":"ls"} error`, `Read {"file_path":"/a"} ok`, "Write  unknown"}, callsOf(s))
		require.Equal(t, "ShellError", s.Runs[0].Calls[0].Error)
		require.Equal(t, `"hello"`, string(s.Runs[0].Calls[1].Result))
		slices.Reverse(events)
	}
	logs, _ := Reader{}.MapLogs(logOf("claude_code.tool_result", attrs{"session.id": "s", "tool_name": "Bash", "tool_use_id": "t1", "tool_input": `{"command":"ls","timeout":5}`, "success": "false", "error": "ShellError",
		"duration_ms": "18", "event.timestamp": "1970-01-01T00:00:00.030Z", "event.sequence": int64(4)}))
	s := ingest.AssembleAll("t", append(events, logs...), ingest.AssembleOptions{})[0]
	require.Contains(t, callsOf(s), `Bash {"command":"ls","timeout":5} error`)
	require.Zero(t, s.Conflicts)
}

func TestClaudeLogDetails(t *testing.T) {
	log := func(name string, a attrs) ingest.Event {
		ld := logOf("", a)
		ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Body().SetStr(name)
		events, stats := Reader{}.MapLogs(ld)
		require.Len(t, events, 1, "%+v", stats)
		return events[0]
	}
	e := log("claude_code.tool_result", attrs{"session.id": "s", "tool_name": "mcp_tool", "tool_use_id": "t", "success": "true", "tool_parameters": `{"mcp_server_name":"shop","mcp_tool_name":"refund"}`})
	require.Equal(t, "mcp__shop__refund", e.Call.Tool)
	e = log("claude_code.api_request", attrs{"session.id": "s", "model": "m", "input_tokens": "10", "output_tokens": "2", "cache_read_tokens": "30", "cache_creation_tokens": "5"})
	require.Equal(t, ingest.LLMCall{Model: "m", Count: 1, InputTokens: 45, OutputTokens: 2, CachedTokens: 30}, *e.LLM)
}

// Gemini CLI: log record and span are one call, with the span's id and result and the record's status; the same tool
// with the same arguments twice is two calls.
func TestGeminiSpanAndRecordAreOneCall(t *testing.T) {
	span := func(trace byte, from int64, id string) spanSpec {
		return spanSpec{trace: trace, id: 7, name: "tool_call", from: from, to: from + 50, attrs: attrs{"gen_ai.operation.name": "tool_call", "gen_ai.tool.name": "refund", "gen_ai.tool.call_id": id,
			"gen_ai.conversation.id": "s", "gen_ai.input.messages": `{"callId":"` + id + `","name":"refund","args":{"order":"o-1"}}`,
			"gen_ai.output.messages": `{"status":"error","response":{"error":{"message":"gateway"},"responseParts":[{"functionResponse":{"response":{"error":"gateway"}}}]}}`}}
	}
	record := func(at string) plog.Logs {
		return logOf("", attrs{"event.name": "gemini_cli.tool_call", "session.id": "s", "function_name": "refund", "function_args": "{\n  \"order\": \"o-1\"\n}", "duration_ms": int64(48),
			"success": false, "error": "gateway", "error_type": "unknown", "event.timestamp": at})
	}
	events, _ := Reader{}.MapTraces(tracesOf(span(1, 1000, "refund__1"), span(2, 2000, "refund__2")))
	for _, at := range []string{"1970-01-01T00:00:01.049Z", "1970-01-01T00:00:02.049Z"} {
		logs, _ := Reader{}.MapLogs(record(at))
		events = append(events, logs...)
	}
	for range 2 {
		sessions := ingest.AssembleAll("t", events, ingest.AssembleOptions{})
		require.Len(t, sessions, 1)
		require.Equal(t, []string{`refund {"order":"o-1"} error`, `refund {"order":"o-1"} error`}, callsOf(sessions[0]))
		calls := sessions[0].Runs[0].Calls
		require.Equal(t, []string{"refund__1", "refund__2", "gateway"}, []string{calls[0].CallID, calls[1].CallID, calls[1].Error})
		require.JSONEq(t, `{"error":"gateway"}`, string(calls[0].Result))
		require.Zero(t, sessions[0].Conflicts)
		slices.Reverse(events)
	}
	only, _ := Reader{}.MapLogs(record("1970-01-01T00:00:01Z"))
	require.Equal(t, []string{`refund { "order": "o-1" } error`}, compact(callsOf(ingest.AssembleAll("t", only, ingest.AssembleOptions{})[0])))
}

// Trap 8: arguments as a JSON text, a pretty-printed one, an object, or not there.
func TestFormsOfArguments(t *testing.T) {
	for want, a := range map[string]any{
		`{"n":9007199254740993}`: attrs{"n": int64(9007199254740993)},
		`{"q":1}`:                `{"q":1}`,
		"{\n \"q\": 1\n}":        "{\n \"q\": 1\n}",
		`{"input":"bare"}`:       "bare",
		`{"input":[1,2]}`:        []any{int64(1), int64(2)},
	} {
		args := tool("a", "", "")
		args["gen_ai.tool.call.arguments"] = a
		events := mapOne(t, "x", args, nil)
		require.Equal(t, want, string(events[0].Call.Args))
	}
}

// Trap 10 and MCP: the client's and the server's span are the agent's call, whose clock counts.
func TestMCPTwins(t *testing.T) {
	mcp := attrs{"mcp.method.name": "tools/call", "gen_ai.tool.name": "find", "mcp.session.id": "transport", "gen_ai.tool.call.result": `{"content":[{"type":"text","text":"{\"r\":1}"}],"structuredContent":{"r":1}}`}
	specs := []spanSpec{
		{id: 1, name: "invoke_agent", from: 0, to: 99, attrs: attrs{"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "conv"}},
		{id: 2, parent: 1, name: "execute_tool mcp__shop__find", from: 10, to: 40, attrs: tool("mcp__shop__find", "c1", `{"q":1}`)},
		{id: 3, parent: 2, name: "tools/call find", from: 11, to: 39, attrs: mcp, kind: ptrace.SpanKindClient},
		{id: 4, parent: 3, name: "tools/call find", from: 3, to: 30, attrs: mcp, kind: ptrace.SpanKindServer}, // a clock that is behind
	}
	got := sessionsOf(t, tracesOf(specs...))
	require.Len(t, got, 1, "the transport's session is not the conversation")
	require.Equal(t, []string{`mcp__shop__find {"q":1} ok`}, callsOf(got["conv"]))
	call := got["conv"].Runs[0].Calls[0]
	require.Equal(t, []string{`{"r":1}`, "c1"}, []string{string(call.Result), call.CallID})
	require.Equal(t, int64(10), call.Start.UnixMilli())

	alone := sessionsOf(t, tracesOf(specs[2], specs[3]))
	require.Equal(t, []string{"find ok"}, compact(callsOf(alone["transport"])), "where nothing better is known, it is")
	late := sessionsOf(t, tracesOf(specs[2], specs[3]), tracesOf(specs[0], specs[1]))
	require.Len(t, late, 1)
	require.Equal(t, []string{`mcp__shop__find {"q":1} ok`}, callsOf(late["conv"]))
}

// Trap 13: flags with unknown bits and empty values are no problem.
func TestFlagsAndEmptyValues(t *testing.T) {
	events := mapOne(t, "execute_tool a", tool("a", "", ""), func(s ptrace.Span) {
		s.SetFlags(257)
		s.Attributes().PutEmpty("gen_ai.tool.call.arguments")
		s.Attributes().PutEmpty("session.id")
	})
	require.Nil(t, events[0].Call.Args)
	require.Empty(t, events[0].SessionID)
}

// chatOf is a model call with what it was given and what it answered.
func chatOf(id byte, from int64, input, output string) spanSpec {
	a := attrs{"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "s"}
	if input != "" {
		a["gen_ai.input.messages"] = input
	}
	if output != "" {
		a["gen_ai.output.messages"] = output
	}
	return spanSpec{id: id, parent: 1, name: "chat m", from: from, to: from + 5, attrs: a}
}

const (
	userSays = `{"role":"user","parts":[{"type":"text","content":"refund it"}]}`
	asksTwo  = `{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"find","arguments":{"q":1}},{"type":"tool_call","id":"c2","name":"find","arguments":{"q":2}}]}`
	twoGiven = `{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"[1]"}]},{"role":"tool","parts":[{"type":"tool_call_response","id":"c2","result":{"r":2}}]}`
	asksOne  = `{"role":"assistant","parts":[{"type":"tool_call","id":"c3","name":"refund","arguments":"{\"o\":1}"}]}`
)

// Rule 9: with no executed call in the session, the messages tell which were requested, each id once; with one, they
// tell nothing.
func TestCallsThatMessagesTellOf(t *testing.T) {
	specs := []spanSpec{
		chatOf(2, 10, "["+userSays+"]", "["+asksTwo+"]"),
		chatOf(3, 20, "["+userSays+","+asksTwo+","+twoGiven+"]", "["+asksOne+"]"),
		chatOf(4, 30, "["+userSays+","+asksTwo+","+twoGiven+","+asksOne+`,{"role":"tool","parts":[{"type":"tool_call_response","id":"c3","response":"done"}]}]`, `[{"role":"assistant","parts":[{"type":"text","content":"ok"}]}]`),
	}
	want := []string{`find {"q":1} requested`, `find {"q":2} requested`, `refund {"o":1} requested`}
	for range 2 {
		s := sessionsOf(t, tracesOf(specs...))["s"]
		require.Equal(t, want, callsOf(s))
		calls := s.Runs[0].Calls
		require.Equal(t, []string{"[1]", `{"r":2}`, `"done"`}, []string{string(calls[0].Result), string(calls[1].Result), string(calls[2].Result)})
		require.Equal(t, []int32{1, 1, 2}, []int32{calls[0].Turn, calls[1].Turn, calls[2].Turn})
		for _, c := range calls {
			require.NotZero(t, c.Flags&ingest.FlagRequested)
		}
		require.Len(t, s.Runs[0].LLM, 3)
		require.Equal(t, []ingest.UserTurn{{Before: 0, Text: "refund it"}}, s.Runs[0].Users)
		slices.Reverse(specs)
	}
	apart := sessionsOf(t, tracesOf(specs[2]), tracesOf(specs[0]), tracesOf(specs[1]), tracesOf(specs[0]))
	require.Equal(t, want, callsOf(apart["s"]), "over requests, and told twice")
	inputs := sessionsOf(t, tracesOf(chatOf(3, 20, "["+userSays+","+asksTwo+","+twoGiven+"]", "")))
	require.Equal(t, want[:2], callsOf(inputs["s"]), "from what the model was given alone")

	executed := spanSpec{id: 9, parent: 1, name: "execute_tool find", from: 16, to: 18, attrs: tool("find", "c1", "")}
	events, _ := Reader{}.MapTraces(tracesOf(append(specs, executed)...))
	require.Equal(t, 1+2*2, countCalls(events), "what is told of the executed call is not even stored")
	for _, s := range []map[string]*ingest.Session{sessionsOf(t, tracesOf(append(specs, executed)...)), sessionsOf(t, tracesOf(specs...), tracesOf(executed))} {
		require.Equal(t, []string{"find ok"}, compact(callsOf(s["s"])), "arguments that the tool's span lacks are not taken from messages")
	}
}

func countCalls(events []ingest.Event) (n int) {
	for i := range events {
		if events[i].Call != nil {
			n++
		}
	}
	return n
}

// TestMessagesOfAllForms: what model calls of other dialects tell.
func TestMessagesOfAllForms(t *testing.T) {
	toolCalls := `"tool_calls":[{"id":"c1","type":"function","function":{"name":"find","arguments":"{\"q\":1}"}}]`
	for name, a := range map[string]attrs{
		"openinference": {"openinference.span.kind": "LLM", "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
			"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "find", "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": `{"q":1}`},
		"openinference input": {"openinference.span.kind": "LLM", "llm.input_messages.1.message.role": "assistant", "llm.input_messages.1.message.tool_calls.0.tool_call.id": "c1",
			"llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "find", "llm.input_messages.1.message.tool_calls.0.tool_call.function.arguments": `{"q":1}`,
			"llm.input_messages.2.message.role": "tool", "llm.input_messages.2.message.tool_call_id": "c1", "llm.input_messages.2.message.content": "ok"},
		"openllmetry": {"llm.request.type": "chat", "gen_ai.completion.0.tool_calls.0.id": "c1", "gen_ai.completion.0.tool_calls.0.name": "find", "gen_ai.completion.0.tool_calls.0.arguments": `{"q":1}`},
		"vercel 5":    {"ai.operationId": "ai.generateText.doGenerate", "ai.response.toolCalls": `[{"toolCallType":"function","toolCallId":"c1","toolName":"find","args":"{\"q\":1}"}]`},
		"vercel 6":    {"ai.operationId": "ai.streamText.doStream", "ai.response.toolCalls": `[{"toolCallId":"c1","toolName":"find","input":"{\"q\":1}"}]`},
		"vercel prompt": {"ai.operationId": "ai.streamText.doStream", "ai.prompt.messages": `[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"tool-call","toolCallId":"c1","toolName":"find","input":{"q":1}}]},
			{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","toolName":"find","output":{"type":"json","value":{"r":1}}}]}]`},
		"langfuse":         {"langfuse.observation.type": "generation", "langfuse.observation.output": `{"role":"assistant",` + toolCalls + `}`},
		"langsmith openai": {"langsmith.span.kind": "llm", "gen_ai.completion": `{"choices":[{"message":{"role":"assistant",` + toolCalls + `}}]}`},
		"langsmith langchain": {"langsmith.span.kind": "llm", "gen_ai.completion": `{"generations":[[{"message":{"lc":1,"type":"constructor","id":["x","AIMessage"],"kwargs":{"content":"","tool_calls":[{"name":"find","args":{"q":1},"id":"c1","type":"tool_call"}],
			"additional_kwargs":{` + toolCalls + `}}}}]]}`},
		"anthropic": {"gen_ai.operation.name": "chat", "gen_ai.input.messages": `[{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"c1","name":"find","input":{"q":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"no","is_error":true}]}]`},
		"adk":       {"gcp.vertex.agent.invocation_id": "i", "gen_ai.operation.name": "generate_content", "gcp.vertex.agent.llm_response": `{"content":{"role":"model","parts":[{"function_call":{"id":"c1","name":"find","args":{"q":1}}}]}}`},
		"google":    {"gen_ai.operation.name": "generate_content", "gen_ai.output.messages": `[{"role":"model","parts":[{"functionCall":{"id":"c1","name":"find","args":{"q":1}}}]}]`},
		"bedrock":   {"gen_ai.operation.name": "chat", "gen_ai.input.messages": `[{"role":"assistant","content":[{"toolUse":{"toolUseId":"c1","name":"find","input":{"q":1}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"c1","status":"success","content":[{"json":{"r":1}}]}}]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			events := mapOne(t, "x", a, nil)
			sessions := ingest.AssembleAll("t", events, ingest.AssembleOptions{})
			require.Len(t, sessions, 1)
			require.Equal(t, []string{`find {"q":1} requested`}, callsOf(sessions[0]))
			require.Equal(t, "c1", sessions[0].Runs[0].Calls[0].CallID)
			for i := range events {
				require.NotEqual(t, ingest.KindUserMessage, events[i].Kind, "none of these ends with the user")
			}
		})
	}
}

func TestMessagesThatAreDeepOrBroken(t *testing.T) {
	deep := strings.Repeat(`{"content":[`, 5000) + strings.Repeat(`]}`, 5000)
	for _, output := range []string{deep, `{"tool_calls":7}`, `[{"toolUse":[]},{"function":{}},null]`, `[{"type":"tool_call"}]`} {
		events := mapOne(t, "x", attrs{"gen_ai.operation.name": "chat", "gen_ai.output.messages": output}, nil)
		require.Len(t, events, 1)
	}
}

// Events of the older log form tell of requested calls too.
func TestCallsThatLogEventsTellOf(t *testing.T) {
	ld := logOf("gen_ai.choice", nil)
	lr := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
	lr.SetTraceID(pcommon.TraceID{1})
	lr.SetSpanID(pcommon.SpanID{2})
	require.NoError(t, lr.Body().FromRaw(map[string]any{"index": int64(0), "finish_reason": "tool_calls", "message": map[string]any{"role": "assistant",
		"tool_calls": []any{map[string]any{"id": "c1", "type": "function", "function": map[string]any{"name": "find", "arguments": `{"q":1}`}}}}}))
	details := logOf("gen_ai.client.inference.operation.details", attrs{"gen_ai.output.messages": []any{map[string]any{"role": "assistant", "parts": []any{
		map[string]any{"type": "tool_call", "id": "c2", "name": "refund", "arguments": map[string]any{"o": int64(9007199254740993)}}}}}})
	lr = details.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
	lr.SetTraceID(pcommon.TraceID{1})
	lr.SetSpanID(pcommon.SpanID{3})
	events, _ := Reader{}.MapLogs(ld)
	more, _ := Reader{}.MapLogs(details)
	traces, _ := Reader{}.MapTraces(tracesOf(chatOf(2, 1990, "", ""), chatOf(3, 2010, "", "")))
	events = append(append(events, more...), traces...)
	sessions := ingest.AssembleAll("t", events, ingest.AssembleOptions{})
	require.Len(t, sessions, 1)
	require.ElementsMatch(t, []string{`find {"q":1} requested`, `refund {"o":9007199254740993} requested`}, callsOf(sessions[0]))
	raw, err := json.Marshal(sessions[0].Runs[0].Calls[0].Source)
	require.NoError(t, err)
	require.Contains(t, string(raw), ingest.SourceTold)
}
