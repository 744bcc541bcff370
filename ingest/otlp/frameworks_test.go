package otlp

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"pave/ingest"
)

// What real clients of these frameworks send, cut down to what matters.

// Mastra: generation > step > inference, with the tools below the step that asked for them.
func TestMastraStepsAreTheModelCalls(t *testing.T) {
	step := func(output string) attrs {
		return attrs{"mastra.span.type": "model_step", "gen_ai.operation.name": "agent_step", "mastra.metadata.sessionId": "s",
			"mastra.model_step.input": `[{"role":"system","content":"x"},{"role":"user","content":"refund o-1"}]`, "mastra.model_step.output": output}
	}
	inference := attrs{"mastra.span.type": "model_inference", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": int64(10),
		"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":""}]}]`}
	find := tool("find", "c1", `{"q":1}`)
	find["mastra.span.type"] = "tool_call"
	s := sessionsOf(t, tracesOf(
		spanSpec{id: 1, name: "invoke_agent bot", from: 0, to: 100, attrs: attrs{"mastra.span.type": "agent_run", "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot"}},
		spanSpec{id: 2, parent: 1, name: "model_generation m", from: 1, to: 99, attrs: attrs{"mastra.span.type": "model_generation", "gen_ai.operation.name": "model_generation"}},
		spanSpec{id: 3, parent: 2, name: "agent_step bot", from: 2, to: 40, attrs: step(`{"text":"","toolCalls":[{"toolCallId":"c1","toolName":"find","args":{"q":1}}]}`)},
		spanSpec{id: 4, parent: 3, name: "chat m", from: 3, to: 10, attrs: inference},
		spanSpec{id: 5, parent: 3, name: "execute_tool find", from: 20, to: 30, attrs: find},
		spanSpec{id: 6, parent: 2, name: "agent_step bot", from: 50, to: 90, attrs: step(`{"text":"done","toolCalls":[]}`)},
		spanSpec{id: 7, parent: 6, name: "chat m", from: 51, to: 89, attrs: inference},
	))["s"]
	require.Equal(t, []string{`find {"q":1} ok`}, callsOf(s))
	models := s.Runs[0].LLM
	require.Len(t, models, 2)
	require.Equal(t, ingest.LLMCall{Model: "m", Count: 1, InputTokens: 10, OutputTokens: -1, CachedTokens: -1}, models[0].LLMCall)
	require.Equal(t, []time.Duration{7 * time.Millisecond, 40 * time.Millisecond}, []time.Duration{models[0].Duration, models[1].Duration}, "a step's tools are not its model's time")
	require.Equal(t, "refund o-1", s.Runs[0].Users[0].Text)

	// Older versions: the generation is the one model call that has tokens, the steps say nothing.
	s = sessionsOf(t, tracesOf(
		spanSpec{id: 1, name: "chat m", from: 0, to: 50, attrs: attrs{"mastra.span.type": "model_generation", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "mastra.metadata.sessionId": "s"}},
		spanSpec{id: 2, parent: 1, name: "step: 0", from: 1, to: 49, attrs: attrs{"mastra.span.type": "model_step"}},
		spanSpec{id: 3, parent: 2, name: "execute_tool find", from: 20, to: 30, attrs: find},
	))["s"]
	require.Len(t, s.Runs[0].LLM, 1)
}

// ADK: the tools run inside the span of the model call that asked for them.
func TestModelTimeEndsWhereItsToolsStart(t *testing.T) {
	s := sessionsOf(t, tracesOf(
		spanSpec{id: 1, name: "call_llm", from: 5, to: 50, attrs: attrs{"gcp.vertex.agent.session_id": "s", "gcp.vertex.agent.invocation_id": "i"}},
		spanSpec{id: 3, parent: 1, name: "execute_tool b", from: 25, to: 30, attrs: tool("b", "c2", "")},
		spanSpec{id: 2, parent: 1, name: "execute_tool a", from: 20, to: 30, attrs: tool("a", "c1", "")},
	))["s"]
	require.Equal(t, 15*time.Millisecond, s.Runs[0].LLM[0].Duration)
}

// ADK in JavaScript: the span of a tool that threw has a name and nothing else.
func TestToolThatThrewInADK(t *testing.T) {
	td := tracesOf(
		spanSpec{id: 1, name: "invoke_agent bot", from: 0, to: 99, attrs: attrs{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot", "gen_ai.conversation.id": "s"}},
		spanSpec{id: 2, parent: 1, name: "call_llm", from: 5, to: 50, attrs: attrs{"gcp.vertex.agent.session_id": "s", "gcp.vertex.agent.invocation_id": "i"}},
		spanSpec{id: 3, parent: 2, name: "execute_tool refund", from: 20, to: 30},
		spanSpec{id: 4, parent: 2, name: "execute_tool (merged)", from: 40, to: 41})
	td.ResourceSpans().At(0).ScopeSpans().At(0).Scope().SetName("gcp.vertex.agent")
	s := sessionsOf(t, td)["s"]
	require.Equal(t, []string{"refund  error"}, callsOf(s))
	require.Equal(t, "the tool threw an error", s.Runs[0].Calls[0].Error)
	require.Equal(t, "bot", s.Runs[0].Agent)
}

// Semantic Kernel: what was said is in span events, as JSON of OpenAI's form, or whole messages in events of their kinds.
func TestMessagesInEventsOfSemanticKernel(t *testing.T) {
	add := func(s ptrace.Span, name, attribute, text string) {
		e := s.Events().AppendEmpty()
		e.SetName(name)
		e.Attributes().PutStr(attribute, text)
	}
	operation := attrs{"gen_ai.operation.name": "chat.completions", "gen_ai.request.model": "m"}
	for name, fill := range map[string]func(ptrace.Span){
		"lists": func(s ptrace.Span) {
			add(s, "gen_ai.content.prompt", "gen_ai.prompt", `[{"role":"system","content":"x"},{"role":"user","content":"hi"}]`)
			add(s, "gen_ai.content.completion", "gen_ai.completion", `[{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"Shop-find","arguments":"{}"}}],"finish_reason":"tool_calls"}]`)
		},
		"events": func(s ptrace.Span) {
			add(s, "gen_ai.user.message", "gen_ai.event.content", `{"role":"user","content":"hi"}`)
			add(s, "gen_ai.choice", "gen_ai.event.content", `{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"Shop-find","arguments":"{}"}}]}}`)
		},
	} {
		events := withoutTold(mapOne(t, "chat.completions m", operation, fill))
		require.Len(t, events, 2, name)
		require.Equal(t, "hi", events[0].User.Text, name)
		require.Equal(t, `{"tool_call_ids":["c1"]}`, string(events[1].Metadata), name)
	}
}

// LangGraph in Python through OpenInference: the node named "agent" is of kind AGENT each time it runs, beside the tools.
func TestLangGraphNodesAreOneRun(t *testing.T) {
	node := attrs{"openinference.span.kind": "AGENT", "session.id": "s", "metadata": `{"thread_id":"s","langgraph_node":"agent"}`}
	model := func(id string) attrs {
		return attrs{"openinference.span.kind": "LLM", "session.id": "s", "llm.output_messages.0.message.tool_calls.0.tool_call.id": id}
	}
	find := attrs{"openinference.span.kind": "TOOL", "tool.name": "find", "session.id": "s", "input.value": "Paris"}
	s := sessionsOf(t, tracesOf(
		spanSpec{id: 1, name: "LangGraph", from: 0, to: 100, attrs: attrs{"openinference.span.kind": "CHAIN", "session.id": "s"}},
		spanSpec{id: 2, parent: 1, name: "agent", from: 1, to: 10, attrs: node},
		spanSpec{id: 3, parent: 2, name: "ChatModel", from: 2, to: 9, attrs: model("c1")},
		spanSpec{id: 4, parent: 1, name: "find", from: 11, to: 20, attrs: find},
		spanSpec{id: 5, parent: 1, name: "agent", from: 21, to: 30, attrs: node},
		spanSpec{id: 6, parent: 5, name: "ChatModel", from: 22, to: 29, attrs: model("c2")},
		spanSpec{id: 7, parent: 1, name: "find", from: 31, to: 40, attrs: find},
	))["s"]
	require.Len(t, s.Runs, 1)
	require.Len(t, s.Runs[0].LLM, 2)
	require.Equal(t, []int32{1, 2}, []int32{s.Runs[0].Calls[0].Turn, s.Runs[0].Calls[1].Turn})
}

// Strands with the newest conventions: question and answer are two events of one name.
func TestMessagesInEventsOfOneName(t *testing.T) {
	events := withoutTold(mapOne(t, "chat", attrs{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "strands-agents"}, func(s ptrace.Span) {
		for name, text := range map[string]string{
			"gen_ai.input.messages":  `[{"role":"user","parts":[{"type":"text","content":"hi"}]}]`,
			"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"find","arguments":{}}]}]`,
		} {
			e := s.Events().AppendEmpty()
			e.SetName(detailsEvent)
			e.Attributes().PutStr(name, text)
		}
	}))
	require.Len(t, events, 2)
	require.Equal(t, "hi", events[0].User.Text)
	require.Equal(t, `{"tool_call_ids":["c1"]}`, string(events[1].Metadata))
}

// SDKs call a service without a name "unknown_service:<program>": that names no agent.
func TestUnknownServiceNamesNoAgent(t *testing.T) {
	td := tracesOf(spanSpec{id: 2, parent: 1, name: "execute_tool find", attrs: tool("find", "c1", "")})
	td.ResourceSpans().At(0).Resource().Attributes().PutStr("service.name", "unknown_service:node")
	events, _ := Reader{}.MapTraces(td)
	require.Nil(t, events[0].Metadata)
}

// A scripted model answers so fast that several turns begin in one millisecond of a coarse clock: the calls follow the
// model calls that asked for them, not each other's places in different answers.
func TestTurnsOfOneMillisecond(t *testing.T) {
	chat := func(ids ...string) attrs {
		var parts []string
		for _, id := range ids {
			parts = append(parts, `{"type":"tool_call","id":"`+id+`","name":"x"}`)
		}
		return attrs{"gen_ai.operation.name": "chat", "session.id": "s", "gen_ai.output.messages": `[{"role":"assistant","parts":[` + strings.Join(parts, ",") + `]}]`}
	}
	s := sessionsOf(t, tracesOf(
		spanSpec{id: 1, name: "chat", from: 7, to: 7, attrs: chat("c1", "c2")},
		spanSpec{id: 3, name: "execute_tool b", from: 7, to: 7, attrs: tool("b", "c2", "")},
		spanSpec{id: 2, name: "execute_tool a", from: 7, to: 7, attrs: tool("a", "c1", "")},
		spanSpec{id: 4, name: "chat", from: 7, to: 7, attrs: chat("c3")},
		spanSpec{id: 5, name: "execute_tool c", from: 7, to: 7, attrs: tool("c", "c3", "")},
	))["s"]
	require.Equal(t, []string{"a  ok", "b  ok", "c  ok"}, callsOf(s))
	require.Equal(t, []int32{1, 1, 2}, []int32{s.Runs[0].Calls[0].Turn, s.Runs[0].Calls[1].Turn, s.Runs[0].Calls[2].Turn})
}

// The older conventions as log records, as OpenTelemetry's own instrumentations of model clients write them: a record for each
// message that a call was given, all again at the next call, and one for its answer.
func TestMessagesInLogRecords(t *testing.T) {
	body := func(role, more string) string { return `{"role":"` + role + `"` + more + `}` }
	user, asks := body("user", `,"content":"refund it"`), body("assistant", `,"tool_calls":[{"id":"c1","type":"function","function":{"name":"find","arguments":"{\"q\":1}"}}]`)
	var events []ingest.Event
	for span, records := range map[byte][][2]string{
		2: {{"gen_ai.system.message", body("system", `,"content":"x"`)}, {"gen_ai.user.message", user}, {"gen_ai.choice", `{"index":0,"finish_reason":"tool_calls","message":` + asks + `}`}},
		3: {{"gen_ai.system.message", body("system", `,"content":"x"`)}, {"gen_ai.user.message", user}, {"gen_ai.assistant.message", asks}, {"gen_ai.tool.message", `{"id":"c1","content":"[1]"}`},
			{"gen_ai.choice", `{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"done"}}`}},
	} {
		ld := plog.NewLogs()
		scope := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty()
		for _, r := range records {
			lr := scope.LogRecords().AppendEmpty()
			lr.SetEventName(r[0])
			lr.SetTraceID(pcommon.TraceID{1})
			lr.SetSpanID(pcommon.SpanID{span})
			lr.SetTimestamp(pcommon.Timestamp(int64(span) * 1e9))
			lr.Body().SetStr(r[1])
		}
		mapped, _ := Reader{}.MapLogs(ld)
		events = append(events, mapped...)
	}
	chat := func(id byte) spanSpec {
		return spanSpec{id: id, parent: 1, name: "chat m", from: int64(id) * 1000, to: int64(id)*1000 + 5, attrs: attrs{"gen_ai.operation.name": "chat"}}
	}
	spans, _ := Reader{}.MapTraces(tracesOf(chat(2), chat(3)))
	sessions := ingest.AssembleAll("t", append(events, spans...), ingest.AssembleOptions{})
	require.Len(t, sessions, 1)
	require.Equal(t, []string{`find {"q":1} requested`}, callsOf(sessions[0]))
	require.Equal(t, "[1]", string(sessions[0].Runs[0].Calls[0].Result))
	require.Equal(t, []ingest.UserTurn{{Before: 0, Text: "refund it"}}, sessions[0].Runs[0].Users, "what is told again is no new turn")
	require.Len(t, sessions[0].Runs[0].LLM, 2)
}

// Claude Code with spans and log records at once: a request to the model, and the user's prompt, are told by both; a subagent
// has an id and the main agent none.
func TestClaudeSubagentsAndRequests(t *testing.T) {
	in := func(more attrs) attrs { more["session.id"] = "s"; return more }
	td := tracesOf(
		spanSpec{id: 1, name: "claude_code.interaction", from: 1000, to: 9000, attrs: in(attrs{"user_prompt": "fix it"})},
		spanSpec{id: 2, parent: 1, name: "claude_code.llm_request", from: 1001, to: 2000, attrs: in(attrs{"model": "m", "request_id": "req_1", "input_tokens": int64(5), "output_tokens": int64(1)})},
		spanSpec{id: 3, parent: 1, name: "claude_code.tool", from: 2001, to: 8000, attrs: in(attrs{"tool_name": "Agent", "tool_use_id": "t1", "subagent_type": "explore"})},
		spanSpec{id: 4, parent: 3, name: "claude_code.llm_request", from: 2100, to: 3000, attrs: in(attrs{"model": "m", "request_id": "req_2", "agent_id": "a1"})},
		spanSpec{id: 5, parent: 3, name: "claude_code.tool", from: 3001, to: 4000, attrs: in(attrs{"tool_name": "Bash", "tool_use_id": "t2", "agent_id": "a1", "full_command": "ls"})},
		spanSpec{id: 6, parent: 1, name: "claude_code.tool", from: 8100, to: 8200, attrs: in(attrs{"tool_name": "Read", "tool_use_id": "t3"})})
	events, _ := Reader{}.MapTraces(td)
	for i, a := range []attrs{
		{"event.name": "user_prompt", "prompt": "fix it", "event.timestamp": "1970-01-01T00:00:01.000Z"},
		{"event.name": "api_request", "model": "m", "request_id": "req_1", "cost_usd": "0.5", "duration_ms": "999", "event.timestamp": "1970-01-01T00:00:02.001Z"},
		{"event.name": "api_request", "model": "m", "request_id": "req_2", "cost_usd": "0.25", "duration_ms": "900", "event.timestamp": "1970-01-01T00:00:03.001Z"},
		{"event.name": "tool_result", "tool_name": "Bash", "tool_use_id": "t2", "agent_id": "a1", "success": "true", "event.timestamp": "1970-01-01T00:00:04.001Z", "event.sequence": int64(7)},
	} {
		ld := logOf("", in(a))
		lr := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
		lr.SetTraceID(pcommon.TraceID{1})
		lr.SetSpanID(pcommon.SpanID{1}) // whatever span was current
		logs, _ := Reader{}.MapLogs(ld)
		require.Len(t, logs, 1, i)
		events = append(events, logs...)
	}
	for range 2 {
		sessions := ingest.AssembleAll("t", slices.Clone(events), ingest.AssembleOptions{})
		require.Len(t, sessions, 1)
		runs := sessions[0].Runs
		require.Len(t, runs, 2)
		require.Equal(t, []string{"main", "a1"}, []string{runs[0].ID, runs[1].ID})
		require.Equal(t, []string{"Agent  unknown", "Read  unknown", `Bash {"command":"ls"} ok`}, callsOf(sessions[0]))
		require.Equal(t, runs[0].Calls[0].Identity, runs[1].ParentCall)
		require.Equal(t, []ingest.UserTurn{{Before: 0, Text: "fix it"}}, runs[0].Users)
		require.Empty(t, runs[1].Users)
		require.Len(t, runs[0].LLM, 1)
		require.Equal(t, ingest.LLMCall{Model: "m", Count: 1, InputTokens: 5, OutputTokens: 1, CachedTokens: -1, CostUSD: 0.5, HasCost: true}, runs[0].LLM[0].LLMCall)
		require.Len(t, runs[1].LLM, 1)
		require.Equal(t, 0.25, runs[1].LLM[0].CostUSD)
		slices.Reverse(events)
	}
}
