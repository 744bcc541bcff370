package otlp

import (
	"fmt"
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

// attrs are attributes as pcommon.Map.FromRaw takes them.
type attrs = map[string]any

// spanOf makes a span of trace 1 and the id's bytes.
func spanOf(ss ptrace.ScopeSpans, id, parent byte, name string, a attrs) ptrace.Span {
	s := ss.Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{id})
	if parent > 0 {
		s.SetParentSpanID(pcommon.SpanID{parent})
	}
	s.SetName(name)
	s.SetStartTimestamp(1_000_000_000)
	s.SetEndTimestamp(1_005_000_000)
	if err := s.Attributes().FromRaw(a); err != nil {
		panic(err)
	}
	return s
}

func scope() (ptrace.Traces, ptrace.ScopeSpans) {
	td := ptrace.NewTraces()
	return td, td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
}

func mapOne(t *testing.T, name string, a attrs, change func(ptrace.Span)) []ingest.Event {
	td, ss := scope()
	s := spanOf(ss, 2, 1, name, a)
	if change != nil {
		change(s)
	}
	events, stats := Reader{}.MapTraces(td)
	require.Zero(t, stats.Rejected, stats.Reason)
	return events
}

// TestToolDialects takes one tool span of each dialect, as the mapping table has them.
func TestToolDialects(t *testing.T) {
	failed := func(message string) func(ptrace.Span) {
		return func(s ptrace.Span) { s.Status().SetCode(ptrace.StatusCodeError); s.Status().SetMessage(message) }
	}
	exception := func(s ptrace.Span) {
		e := s.Events().AppendEmpty()
		e.SetName("exception")
		e.Attributes().PutStr("exception.message", "boom")
	}
	type want struct {
		tool, id, args, result, status, err, session, agent, source string
	}
	for name, c := range map[string]struct {
		span   string
		attrs  attrs
		change func(ptrace.Span)
		want   want
	}{
		"genai": {"execute_tool find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1",
			"gen_ai.tool.call.arguments": `{"n": 9007199254740993}`, "gen_ai.tool.call.result": attrs{"rows": []any{int64(1), true, nil, 2.5, "x"}}}, nil,
			want{"find", "c1", `{"n": 9007199254740993}`, `{"rows":[1,true,null,2.5,"x"]}`, "ok", "", "", "", "otlp/genai"}},
		"genai error": {"execute_tool find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "error.type": "timeout"}, nil,
			want{"find", "", "", "", "error", "timeout", "", "", "otlp/genai"}},
		"text result stays text": {"execute_tool find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.result": "007"}, nil,
			want{"find", "", "", `"007"`, "ok", "", "", "", "otlp/genai"}},
		"serialised string result": {"execute_tool find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.result": `"sunny"`}, nil,
			want{"find", "", "", `"sunny"`, "ok", "", "", "", "otlp/genai"}},
		"pydantic-ai v2": {"running tool", attrs{"gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1", "tool_arguments": `{"q":1}`, "tool_response": "[1]", "agent_name": "bot"}, nil,
			want{"find", "c1", `{"q":1}`, `[1]`, "ok", "", "", "bot", "otlp/pydantic-ai"}},
		"adk": {"execute_tool find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gcp.vertex.agent.tool_call_args": `{"q":1}`, "gcp.vertex.agent.tool_response": `{"r":2}`}, nil,
			want{"find", "", `{"q":1}`, `{"r":2}`, "ok", "", "", "", "otlp/adk"}},
		"langsmith": {"find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "langsmith.span.kind": "tool", "gen_ai.prompt": `{"q":1}`, "gen_ai.completion": `{"r":2}`, "langsmith.metadata.thread_id": "th", "langsmith.trace.session_name": "project"}, exception,
			want{"find", "", `{"q":1}`, `{"r":2}`, "error", "boom", "th", "", "otlp/langsmith"}},
		"spring": {"execute_tool find", attrs{"spring.ai.kind": "tool_call", "gen_ai.operation.name": "execute_tool", "spring.ai.tool.definition.name": "find", "spring.ai.tool.call.arguments": `{"q":1}`, "spring.ai.tool.call.result": "ok", "spring.ai.tool.call.id": "c1"}, nil,
			want{"find", "c1", `{"q":1}`, `"ok"`, "ok", "", "", "", "otlp/spring-ai"}},
		"mastra": {"execute_tool find", attrs{"mastra.span.type": "tool_call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "mastra.metadata.threadId": "th", "error.type": "unknown", "error.message": "no"}, failed("no"),
			want{"find", "", "", "", "error", "no", "th", "", "otlp/mastra"}},
		"openinference": {"find", attrs{"openinference.span.kind": "TOOL", "input.value": "Paris", "output.value": `{"t":21}`, "metadata": `{"thread_id":"th"}`, "tool.agent_role": "clerk"}, nil,
			want{"find", "", `{"input":"Paris"}`, `{"t":21}`, "ok", "", "th", "clerk", "otlp/openinference"}},
		"langchain result": {"find", attrs{"openinference.span.kind": "TOOL", "tool.name": "find2", "output.value": `{"output":{"lc":1,"kwargs":{"content":"{\"r\":1}","tool_call_id":"c"}}}`}, nil,
			want{"find2", "", "", `{"r":1}`, "ok", "", "", "", "otlp/openinference"}},
		"vercel 6": {"ai.toolCall", attrs{"ai.operationId": "ai.toolCall", "ai.toolCall.name": "find", "ai.toolCall.id": "c1", "ai.toolCall.args": `{"q":1}`, "ai.telemetry.metadata.chatId": "ch", "ai.telemetry.functionId": "fn"}, failed("no"),
			want{"find", "c1", `{"q":1}`, "", "error", "no", "ch", "fn", "otlp/vercel"}},
		"langfuse": {"find", attrs{"langfuse.observation.type": "tool", "langfuse.observation.input": `{"q":1}`, "langfuse.observation.level": "ERROR", "langfuse.observation.status_message": "no", "langfuse.session.id": "old"}, nil,
			want{"find", "", `{"q":1}`, "", "error", "no", "old", "", "otlp/langfuse"}},
		"traceloop decorator": {"find.tool", attrs{"traceloop.span.kind": "tool", "traceloop.entity.name": "find", "traceloop.entity.input": `{"args":[],"kwargs":{"q":1}}`, "traceloop.entity.output": `{"r":1}`, "traceloop.association.properties.session_id": "as"}, nil,
			want{"find", "", `{"q":1}`, `{"r":1}`, "ok", "", "as", "", "otlp/traceloop"}},
		"traceloop mcp": {"find.tool", attrs{"traceloop.span.kind": "tool", "traceloop.entity.name": "find", "traceloop.entity.input": `{"tool_name":"find","arguments":{"q":1}}`, "traceloop.entity.output": `{"result":"no","is_error":true}`}, nil,
			want{"find", "", `{"q":1}`, `"no"`, "error", "", "", "", "otlp/traceloop"}},
		"mcp by name": {"tools/call find", attrs{"mcp.method.name": "tools/call", "gen_ai.tool.call.result": `{"content":[{"type":"text","text":"no"}],"isError":true}`, "mcp.session.id": "transport"}, nil,
			want{"find", "", "", `"no"`, "error", "", "transport", "", "otlp/mcp"}},
		"mcp server": {"tools/call find", attrs{"mcp.method.name": "tools/call", "gen_ai.tool.name": "find", "gen_ai.operation.name": "execute_tool"}, func(s ptrace.Span) { s.SetKind(ptrace.SpanKindServer) },
			want{"find", "", "", "", "ok", "", "", "", "otlp/mcp-server"}},
		"strands content": {"execute_tool find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.status": "error"}, func(s ptrace.Span) {
			for event, kv := range map[string][2]string{"gen_ai.tool.message": {"content", `{"q":1}`}, "gen_ai.choice": {"message", `[{"text":"Error: no"}]`}} {
				e := s.Events().AppendEmpty()
				e.SetName(event)
				e.Attributes().PutStr(kv[0], kv[1])
			}
		}, want{"find", "", `{"q":1}`, `"Error: no"`, "error", "", "", "", "otlp/genai"}},
		// Rows of the mapping table that have quirks of their own.
		"openllmetry python langchain": {"execute_tool find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "traceloop.span.kind": "tool", "traceloop.entity.name": "find",
			"gen_ai.tool.call.arguments": `{"input_str":"{'q': 1}","inputs":{"q":1},"tags":[],"metadata":{},"kwargs":{"tool_call_id":"c9"}}`, "traceloop.entity.output": `{"output":{"type":"tool","content":"[1]","tool_call_id":"c9","status":"error"}}`}, nil,
			want{"find", "", `{"q":1}`, `[1]`, "error", "", "", "", "otlp/genai"}},
		"openinference langgraph": {"find", attrs{"openinference.span.kind": "TOOL", "tool.name": "find", "input.value": "Paris", "output.value": `{"type":"tool","data":{"content":"{\"r\":1}","tool_call_id":"c9","status":"error"}}`}, nil,
			want{"find", "", `{"input":"Paris"}`, `{"r":1}`, "error", "", "", "", "otlp/openinference"}},
		"openinference llama-index": {"FunctionTool.acall", attrs{"openinference.span.kind": "TOOL", "tool.name": "find", "input.value": `{"kwargs":{"q":1}}`, "tool.parameters": `{"type":"object","properties":{}}`,
			"output.value": `{"blocks":[{"text":"{'r': 1}"}],"tool_name":"find","raw_input":{"args":[],"kwargs":{"q":1}},"raw_output":{"r":1},"is_error":false}`}, nil,
			want{"find", "", `{"q":1}`, `{"r":1}`, "ok", "", "", "", "otlp/openinference"}},
		"adk without content": {"execute_tool find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gcp.vertex.agent.tool_call_args": `{}`, "gcp.vertex.agent.tool_response": `{}`}, nil,
			want{"find", "", "", "", "ok", "", "", "", "otlp/adk"}},
		"adk, no response yet": {"execute_tool find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "<not specified>", "gcp.vertex.agent.tool_call_args": `{"q":1}`, "gcp.vertex.agent.tool_response": `{"result":"<not specified>"}`}, nil,
			want{"find", "", `{"q":1}`, "", "ok", "", "", "", "otlp/adk"}},
		"openllmetry python langchain, text": {"find.tool", attrs{"traceloop.span.kind": "tool", "traceloop.entity.name": "find", "traceloop.entity.input": `{"input_str":"{'q': 1, 'ok': True, 'n': None}","tags":[],"metadata":{},"inputs":null,"kwargs":{}}`, "traceloop.entity.output": `{"output":"sunny","kwargs":{"name":"find"}}`}, nil,
			want{"find", "", `{"q":1,"ok":true,"n":null}`, `"sunny"`, "ok", "", "", "", "otlp/traceloop"}},
		"openinference python langchain, older": {"find", attrs{"openinference.span.kind": "TOOL", "tool.name": "find", "input.value": `{'q': "it's", 'p': (1, 2)}`, "output.value": `{'r': 1}`}, nil,
			want{"find", "", `{"q":"it's","p":[1,2]}`, `{"r":1}`, "ok", "", "", "", "otlp/openinference"}},
		"openinference by hand": {"find", attrs{"openinference.span.kind": "tool", "input.value": `{"q":1}`}, nil,
			want{"find", "", `{"q":1}`, "", "ok", "", "", "", "otlp/openinference"}},
		"langfuse by hand": {"find", attrs{"langfuse.observation.type": "TOOL", "langfuse.observation.input": `{"q":1}`}, nil,
			want{"find", "", `{"q":1}`, "", "ok", "", "", "", "otlp/langfuse"}},
		"text that begins as a dict": {"find", attrs{"openinference.span.kind": "TOOL", "tool.name": "find", "input.value": `{city} is nice}`, "output.value": "[ERROR] no"}, nil,
			want{"find", "", `{"input":"{city} is nice}"}`, `"[ERROR] no"`, "ok", "", "", "", "otlp/openinference"}},
		"langsmith run of python langchain": {"find", attrs{"langsmith.span.kind": "tool", "gen_ai.prompt": `{"input":"{'q': 1}"}`, "gen_ai.completion": `{"output":"x"}`}, nil,
			want{"find", "", `{"q":1}`, `"x"`, "ok", "", "", "", "otlp/langsmith"}},
		"genai before operations": {"execute_tool find", attrs{"gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": `{"q":1}`}, nil,
			want{"find", "c1", `{"q":1}`, "", "ok", "", "", "", "otlp/genai"}},
		"mcp with an operation": {"tools/call find", attrs{"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.arguments": `{"q":1}`, "gen_ai.tool.call.result": `{"content":[{"type":"text","text":"no"}],"isError":true}`}, nil,
			want{"find", "", `{"q":1}`, `"no"`, "error", "", "", "", "otlp/mcp"}},
		"openllmetry python mcp": {"find.tool", attrs{"gen_ai.tool.name": "find", "traceloop.span.kind": "tool", "traceloop.entity.name": "find", "gen_ai.tool.call.arguments": `{"q":1}`, "gen_ai.tool.call.result": `[{"type":"text","text":"no"}]`, "error.type": "tool_error"}, failed("no"),
			want{"find", "", `{"q":1}`, `"no"`, "error", "no", "", "", "otlp/traceloop"}},
		"decorator with one positional object": {"find.tool", attrs{"traceloop.span.kind": "tool", "traceloop.entity.name": "find", "traceloop.entity.input": `{"args":[{"q":1}],"kwargs":{}}`}, nil,
			want{"find", "", `{"q":1}`, "", "ok", "", "", "", "otlp/traceloop"}},
		"decorator with one positional text": {"find.tool", attrs{"traceloop.span.kind": "tool", "traceloop.entity.name": "find", "traceloop.entity.input": `{"args":["Paris"],"kwargs":{}}`}, nil,
			want{"find", "", `{"input":"Paris"}`, "", "ok", "", "", "", "otlp/traceloop"}},
		"decorator with several": {"find.tool", attrs{"traceloop.span.kind": "tool", "traceloop.entity.name": "find", "traceloop.entity.input": `{"args":[1,2],"kwargs":{}}`}, nil,
			want{"find", "", `{"input":[1,2]}`, "", "ok", "", "", "", "otlp/traceloop"}},
		"pydantic-ai v3 failed validation": {"execute_tool find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": `{"q":"x"}`, "gen_ai.agent.name": "bot", "gen_ai.conversation.id": "conv", "pydantic_ai.tool.failure_stage": "validation"}, nil,
			want{"find", "c1", `{"q":"x"}`, "", "error", "validation", "conv", "bot", "otlp/pydantic-ai"}},
		"pydantic-ai before operations": {"running tool: find", attrs{"gen_ai.tool.name": "find", "tool_arguments": `{"q":1}`, "tool_response": "x"}, nil,
			want{"find", "", `{"q":1}`, `"x"`, "ok", "", "", "", "otlp/pydantic-ai"}},
		"langsmith run of langchain": {"find", attrs{"langsmith.span.kind": "tool", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.prompt": `{"input":"{\"q\":1}"}`,
			"gen_ai.completion": `{"output":{"lc":1,"type":"constructor","kwargs":{"content":"[2]","tool_call_id":"c1","status":"error"}}}`, "langsmith.metadata.session_id": "s1", "langsmith.trace.session_id": "project"}, nil,
			want{"find", "", `{"q":1}`, `[2]`, "error", "", "s1", "", "otlp/langsmith"}},
		"langsmith by kind only": {"find", attrs{"langsmith.span.kind": "tool", "gen_ai.prompt": `{"input":"Paris"}`, "gen_ai.completion": `{"outputs":"sunny"}`}, nil,
			want{"find", "", `{"input":"Paris"}`, `"sunny"`, "ok", "", "", "", "otlp/langsmith"}},
		"mastra by type only": {"execute_tool find", attrs{"mastra.span.type": "tool_call", "gen_ai.tool.call.arguments": `{"q":1}`, "mastra.metadata.sessionId": "s1"}, nil,
			want{"find", "", `{"q":1}`, "", "ok", "", "s1", "", "otlp/mastra"}},
		"agent framework": {"execute_tool find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1", "gen_ai.tool.type": "FunctionTool", "gen_ai.agent.id": "a1"}, nil,
			want{"find", "c1", "", "", "ok", "", "", "", "otlp/genai"}},
		"semantic kernel": {"execute_tool Shop-find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "Shop-find", "gen_ai.tool.call.arguments": `{"q":1}`}, exception,
			want{"Shop-find", "", `{"q":1}`, "", "error", "boom", "", "", "otlp/genai"}},
		"crewai": {"find.run", attrs{"openinference.span.kind": "TOOL", "tool.name": "find", "input.value": `{"q":1}`, "output.value": "ok", "tool.agent_role": "clerk", "tool.run_attempts": int64(1)}, nil,
			want{"find", "", `{"q":1}`, `"ok"`, "ok", "", "", "clerk", "otlp/openinference"}},
		"llamaindex": {"FunctionTool.acall", attrs{"openinference.span.kind": "TOOL", "tool.name": "find", "tool.parameters": `{"type":"object","properties":{"q":{}}}`, "input.value": `{"kwargs":{"q":1}}`, "session.id": "s1"}, exception,
			want{"find", "", `{"q":1}`, "", "error", "boom", "s1", "", "otlp/openinference"}},
		"values in tool.parameters": {"find", attrs{"openinference.span.kind": "TOOL", "tool.name": "find", "tool.id": "c1", "tool.parameters": `{"q":1}`}, nil,
			want{"find", "c1", `{"q":1}`, "", "ok", "", "", "", "otlp/openinference"}},
		"schema in tool.parameters": {"find", attrs{"openinference.span.kind": "TOOL", "tool.name": "find", "tool.parameters": `{"type":"object","properties":{}}`}, nil,
			want{"find", "", "", "", "ok", "", "", "", "otlp/openinference"}},
		"langchain python result": {"find", attrs{"openinference.span.kind": "TOOL", "output.value": `{"type":"tool","content":"{\"r\":1}","tool_call_id":"c1","status":"success"}`}, nil,
			want{"find", "", "", `{"r":1}`, "ok", "", "", "", "otlp/openinference"}},
		"strands latest": {"execute_tool find", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.provider.name": "strands-agents", "gen_ai.tool.call.id": "c1", "gen_ai.tool.status": "success"}, func(s ptrace.Span) {
			e := s.Events().AppendEmpty()
			e.SetName("gen_ai.client.inference.operation.details")
			e.Attributes().PutStr("gen_ai.input.messages", `[{"role":"tool","parts":[{"type":"tool_call","name":"find","id":"c1","arguments":{"q":1}}]}]`)
			e.Attributes().PutStr("gen_ai.output.messages", `[{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":[{"text":"done"}]}]}]`)
		}, want{"find", "c1", `{"q":1}`, `"done"`, "ok", "", "", "", "otlp/strands"}},
		"mcp json-rpc error": {"tools/call find", attrs{"mcp.method.name": "tools/call", "gen_ai.tool.name": "find", "gen_ai.tool.call.arguments": `{"q":1}`, "jsonrpc.request.id": "7", "rpc.response.status_code": "-32602"}, nil,
			want{"find", "", `{"q":1}`, "", "error", "", "", "", "otlp/mcp"}},
		"gemini span": {"tool_call", attrs{"gen_ai.operation.name": "tool_call", "gen_ai.tool.name": "find", "gen_ai.tool.call_id": "find__c1", "gen_ai.agent.name": "gemini-cli", "gen_ai.conversation.id": "s1",
			"gen_ai.input.messages":  `{"callId":"find__c1","name":"find","args":{"q":1},"isClientInitiated":false}`,
			"gen_ai.output.messages": `{"status":"error","request":{},"response":{"callId":"find__c1","responseParts":[{"functionResponse":{"id":"find__c1","name":"find","response":{"error":"no"}}}],"error":{"message":"no"}}}`}, nil,
			want{"find", "find__c1", `{"q":1}`, `{"error":"no"}`, "error", "no", "s1", "gemini-cli", "otlp/gemini-cli-span"}},
		"gemini span, ok": {"tool_call", attrs{"gen_ai.operation.name": "tool_call", "gen_ai.tool.name": "find", "gen_ai.tool.call_id": "find__c1",
			"gen_ai.output.messages": `{"status":"success","response":{"responseParts":[{"functionResponse":{"response":{"output":"[1]"}}}]}}`}, nil,
			want{"find", "find__c1", "", `[1]`, "ok", "", "", "", "otlp/gemini-cli-span"}},
		"claude code span": {"claude_code.tool", attrs{"tool_name": "Bash", "tool_use_id": "toolu_1", "success": "false", "error": "exit 1", "session.id": "s1", "tool_input": `{"command":"ls"}`}, func(s ptrace.Span) {
			e := s.Events().AppendEmpty()
			e.SetName("tool.output")
			e.Attributes().PutStr("output", "no such file")
		}, want{"Bash", "toolu_1", `{"command":"ls"}`, `"no such file"`, "error", "exit 1", "s1", "", "otlp/claude-code-span"}},
	} {
		t.Run(name, func(t *testing.T) {
			events := mapOne(t, c.span, c.attrs, c.change)
			require.Len(t, events, 1)
			e := events[0]
			require.Equal(t, c.want, want{e.Call.Tool, e.Call.CallID, string(e.Call.Args), string(e.Call.Result), string(e.Call.Status), e.Call.Error, e.SessionID, e.Agent, e.Source})
			require.Equal(t, []string{"01000000000000000000000000000000", "0200000000000000", "0100000000000000", "trace:01000000000000000000000000000000"},
				[]string{e.TraceID, e.SpanID, e.ParentSpanID, e.Origin})
			require.Equal(t, 5*time.Millisecond, e.Duration)
		})
	}
}

func TestNotCalls(t *testing.T) {
	for name, a := range map[string]attrs{
		"execute_tool (merged)":            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"},
		"execute_tool":                     {"gen_ai.operation.name": "execute_tool"},
		"execute_tool (merged tools)":      {"gen_ai.tool.name": "(merged tools)", "session.id": "s"},
		"find":                             {"gen_ai.tool.name": "find", "session.id": "s"},
		"chat with us":                     {"session.id": "s"},
		"step 1":                           {"gen_ai.operation.name": "agent_step"},
		"chain":                            {"openinference.span.kind": "CHAIN"},
		"tools/list":                       {"mcp.method.name": "tools/list"},
		"ai.embed":                         {"ai.operationId": "ai.embed"},
		"running 2 tools":                  {"session.id": "s"},
		"running tools":                    {"gen_ai.agent.name": "bot", "gen_ai.tool.name": "a", "tool_response": "x", "gen_ai.operation.name": "run_tools"},
		"chunk: 'tool-call'":               {"mastra.span.type": "model_chunk", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"},
		"model_generation":                 {"mastra.span.type": "model_generation", "gen_ai.operation.name": "model_generation"},
		"L._prepare_chat_with_tools":       {"openinference.span.kind": "LLM"},
		"claude_code.tool.execution":       {"tool_name": "Bash", "tool_use_id": "toolu_1"},
		"claude_code.tool.blocked_on_user": {"tool_name": "Bash", "tool_use_id": "toolu_1"},
		"claude_code.interaction":          {"session.id": "s"},
		"schedule_tool_calls":              {"gen_ai.operation.name": "schedule_tool_calls", "gen_ai.input.messages": `[{"name":"find"}]`},
		"llm_call":                         {"gen_ai.operation.name": "llm_call"},
		"executor.process x":               {"gen_ai.operation.name": "executor.process", "executor.id": "x"},
		"spring.ai.chat.client":            {"spring.ai.kind": "chat_client"},
		"execute_event_loop_cycle":         {"gen_ai.provider.name": "strands-agents", "session.id": "s"},
		"running output function":          {"session.id": "s", "gen_ai.tool.name": "final_result"},
		"openinference guardrail":          {"openinference.span.kind": "GUARDRAIL"},
		"traceloop workflow":               {"traceloop.span.kind": "workflow", "traceloop.entity.name": "w"},
	} {
		events := mapOne(t, name, a, nil)
		require.Len(t, events, 1, name)
		require.Equal(t, ingest.KindSpan, events[0].Kind, name)
	}
}

func TestModelDialects(t *testing.T) {
	messages := `[{"role":"system","parts":[{"type":"text","content":"s"}]},{"role":"user","parts":[{"type":"text","content":"where is it?"}]}]`
	for name, c := range map[string]struct {
		attrs attrs
		want  ingest.LLMCall
		user  string
		meta  string
	}{
		"genai": {attrs{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.model": "m-1", "gen_ai.usage.input_tokens": int64(10), "gen_ai.usage.output_tokens": int64(2), "gen_ai.usage.cache_read.input_tokens": int64(4),
			"gen_ai.input.messages": messages, "gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"a"},{"type":"text","content":"x"},{"type":"tool_call","id":"c2"}]}]`},
			ingest.LLMCall{Model: "m-1", Count: 1, InputTokens: 10, OutputTokens: 2, CachedTokens: 4}, "where is it?", `{"tool_call_ids":["c1","c2"]}`},
		"genai old tokens": {attrs{"gen_ai.operation.name": "text_completion", "gen_ai.usage.prompt_tokens": "10", "gen_ai.usage.completion_tokens": 2.0},
			ingest.LLMCall{Count: 1, InputTokens: 10, OutputTokens: 2, CachedTokens: -1}, "", ""},
		"openllmetry": {attrs{"llm.request.type": "chat", "gen_ai.request.model": "m", "gen_ai.completion.0.tool_calls.0.id": "c1"},
			ingest.LLMCall{Model: "m", Count: 1, InputTokens: -1, OutputTokens: -1, CachedTokens: -1}, "", `{"tool_call_ids":["c1"]}`},
		"semantic kernel": {attrs{"gen_ai.operation.name": "chat.completions", "gen_ai.system": "openai", "gen_ai.request.model": "m", "gen_ai.response.prompt_tokens": int64(10), "gen_ai.response.completion_tokens": int64(-1)},
			ingest.LLMCall{Model: "m", Count: 1, InputTokens: 10, OutputTokens: -1, CachedTokens: -1}, "", ""},
		"plain prompt and completion": {attrs{"gen_ai.operation.name": "chat", "gen_ai.prompt": `{"messages":[{"role":"user","content":"hi"}]}`, "gen_ai.completion": `{"choices":[{"message":{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"a","arguments":"{}"}}]}}]}`},
			ingest.LLMCall{Count: 1, InputTokens: -1, OutputTokens: -1, CachedTokens: -1}, "hi", `{"tool_call_ids":["c1"]}`},
		"pydantic-ai v2": {attrs{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "agent_name": "bot", "tool_arguments": "", "events": `[{"content":"be brief","role":"system","event.name":"gen_ai.system.message"},{"content":"hi","role":"user","event.name":"gen_ai.user.message"},
			{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"a","arguments":{"q":1}}}]},"event.name":"gen_ai.choice"}]`},
			ingest.LLMCall{Model: "m", Count: 1, InputTokens: -1, OutputTokens: -1, CachedTokens: -1}, "hi", `{"tool_call_ids":["c1"]}`},
		"pydantic-ai v2, tool's answer": {attrs{"gen_ai.operation.name": "chat", "tool_arguments": "", "events": `[{"content":"hi","role":"user","event.name":"gen_ai.user.message"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"a","arguments":{}}}],"event.name":"gen_ai.assistant.message"},
			{"content":"x","role":"tool","id":"c1","name":"a","event.name":"gen_ai.tool.message"},{"index":0,"message":{"role":"assistant","content":"done"},"event.name":"gen_ai.choice"}]`},
			ingest.LLMCall{Count: 1, InputTokens: -1, OutputTokens: -1, CachedTokens: -1}, "", ""},
		"langchain's messages": {attrs{"langsmith.span.kind": "llm", "gen_ai.prompt": `{"messages":[[{"lc":1,"type":"constructor","id":["langchain_core","messages","SystemMessage"],"kwargs":{"content":"s"}},{"lc":1,"type":"constructor","id":["langchain_core","messages","HumanMessage"],"kwargs":{"content":"hi"}}]]}`},
			ingest.LLMCall{Count: 1, InputTokens: -1, OutputTokens: -1, CachedTokens: -1}, "hi", ""},
		"tool results in the user's name": {attrs{"gen_ai.operation.name": "chat", "gen_ai.input.messages": `[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"x"}]}]`},
			ingest.LLMCall{Count: 1, InputTokens: -1, OutputTokens: -1, CachedTokens: -1}, "", ""},
		"openinference": {attrs{"openinference.span.kind": "LLM", "llm.model_name": "m", "llm.token_count.prompt": int64(10), "llm.token_count.completion": int64(2), "llm.cost.total": 0.5,
			"llm.input_messages.0.message.role": "system", "llm.input_messages.10.message.role": "user", "llm.input_messages.10.message.content": "hi", "llm.input_messages.9.message.role": "assistant",
			"llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1"},
			ingest.LLMCall{Model: "m", Count: 1, InputTokens: 10, OutputTokens: 2, CachedTokens: -1, CostUSD: 0.5, HasCost: true}, "hi", `{"tool_call_ids":["c1"]}`},
		"vercel": {attrs{"ai.operationId": "ai.streamText.doStream", "ai.model.id": "m", "ai.usage.inputTokens": int64(10), "ai.usage.outputTokens": int64(2), "ai.usage.cachedInputTokens": int64(0),
			"ai.prompt.messages": `[{"role":"user","content":[{"type":"text","text":"hi"}]}]`, "ai.response.toolCalls": `[{"toolCallId":"c1","toolName":"a"}]`},
			ingest.LLMCall{Model: "m", Count: 1, InputTokens: 10, OutputTokens: 2, CachedTokens: 0}, "hi", `{"tool_call_ids":["c1"]}`},
		"langfuse": {attrs{"langfuse.observation.type": "generation", "langfuse.observation.model.name": "m", "langfuse.observation.usage_details": `{"input":10,"output":2}`, "langfuse.observation.cost_details": `{"total":0.25}`, "langfuse.observation.input": `[{"role":"user","content":"hi"}]`},
			ingest.LLMCall{Model: "m", Count: 1, InputTokens: 10, OutputTokens: 2, CachedTokens: -1, CostUSD: 0.25, HasCost: true}, "hi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			events := withoutTold(mapOne(t, "x", c.attrs, nil))
			last := events[len(events)-1]
			require.Equal(t, c.want, *last.LLM)
			require.Equal(t, c.meta, string(last.Metadata))
			require.Len(t, events, map[bool]int{true: 2, false: 1}[c.user != ""])
			if c.user != "" {
				require.Equal(t, c.user, events[0].User.Text)
				require.Equal(t, last.SpanID, events[0].ParentSpanID, "the message belongs to the run of its model call")
				require.NotEmpty(t, events[0].Identity)
			}
		})
	}
}

// withoutTold leaves out the calls that messages tell of.
func withoutTold(events []ingest.Event) []ingest.Event {
	return slices.DeleteFunc(events, func(e ingest.Event) bool { return strings.HasSuffix(e.Source, ingest.SourceTold) })
}

func TestAgents(t *testing.T) {
	for name, c := range map[string]struct {
		attrs      attrs
		agent, run string
	}{
		"invoke_agent support": {attrs{"gen_ai.operation.name": "invoke_agent"}, "support", "0200000000000000"},
		"x":                    {attrs{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot", "gen_ai.agent.call.id": "run-1"}, "bot", "run-1"},
		"support_agent":        {attrs{"openinference.span.kind": "AGENT"}, "support_agent", "0200000000000000"},
		"ai.generateText":      {attrs{"ai.operationId": "ai.generateText", "ai.telemetry.functionId": "fn"}, "fn", "0200000000000000"},
		"lf":                   {attrs{"langfuse.observation.type": "agent"}, "lf", "0200000000000000"},
		"tl.agent":             {attrs{"traceloop.span.kind": "agent", "traceloop.entity.name": "planner"}, "planner", "0200000000000000"},
	} {
		e := mapOne(t, name, c.attrs, nil)[0]
		require.Equal(t, []string{c.agent, c.run}, []string{e.Agent, e.RunID}, name)
		require.Equal(t, ingest.KindSpan, e.Kind)
	}
}

func TestServiceNamesTheAgentAndResourceTheSession(t *testing.T) {
	td, ss := scope()
	res := td.ResourceSpans().At(0).Resource().Attributes()
	res.PutStr("service.name", `my "svc"`)
	res.PutStr("session.id", "s-res")
	tool := attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
	spanOf(ss, 2, 1, "execute_tool find", tool)
	events, _ := Reader{}.MapTraces(td)
	require.Equal(t, `{"service":"my \"svc\""}`, string(events[0].Metadata))
	require.Equal(t, "s-res", events[0].SessionID)
	require.Equal(t, `my "svc"`, ingest.AssembleAll("t", events, ingest.AssembleOptions{})[0].Runs[0].Agent)

	spanOf(ss, 1, 0, "invoke_agent", attrs{"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "own"})
	events, _ = Reader{}.MapTraces(td)
	require.Equal(t, []string{"", "own"}, []string{events[0].SessionID, events[1].SessionID}, "what a span names is nearer")
}

func TestFilteredAndRejected(t *testing.T) {
	td, ss := scope()
	for i := range 5 {
		spanOf(ss, byte(10+i), 1, "internal", attrs{"thread.id": int64(1)})
	}
	events, stats := Reader{}.MapTraces(td)
	require.Empty(t, events)
	require.Equal(t, Stats{Total: 5, Filtered: 5}, stats)

	tool := attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
	spanOf(ss, 20, 10, "execute_tool find", tool)
	spanOf(ss, 21, 10, "execute_tool find", tool).SetTraceID(pcommon.TraceID{})
	spanOf(ss, 22, 10, "execute_tool find", tool).SetSpanID(pcommon.SpanID{})
	spanOf(ss, 23, 10, "x", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": strings.Repeat("x", 129)})
	spanOf(ss, 24, 10, "x", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "bad\xff", "gen_ai.tool.call.arguments": "{\"a\":\"\xfe\"}"})
	events, stats = Reader{}.MapTraces(td)
	require.Equal(t, Stats{Total: 10, Events: 7, Rejected: 3, Mended: 3, Reason: "a span has no trace or span id", Reasons: map[string]int{"no_id": 2, "tool_name": 1}}, stats, "beside a call, its neighbours are links")
	last := events[1]
	require.Equal(t, []string{"bad\uFFFD", "{\"a\":\"\uFFFD\"}"}, []string{last.Call.Tool, string(last.Call.Args)})
}

func TestDeepAndLongValues(t *testing.T) {
	td, ss := scope()
	s := spanOf(ss, 2, 1, "x", attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"})
	v := s.Attributes().PutEmpty("gen_ai.tool.call.arguments")
	for range 200_000 {
		v = v.SetEmptySlice().AppendEmpty()
	}
	many := s.Attributes().PutEmptySlice("gen_ai.tool.call.result")
	for range 200_000 {
		many.AppendEmpty().SetInt(1)
	}
	events, _ := Reader{}.MapTraces(td)
	require.Equal(t, `{"input":`+strings.Repeat("[", 63)+"null"+strings.Repeat("]", 63)+"}", string(events[0].Call.Args))
	require.Equal(t, 99_999, strings.Count(string(events[0].Call.Result), "1"))
}

func logOf(name string, a attrs) plog.Logs {
	ld := plog.NewLogs()
	lr := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	if err := lr.Attributes().FromRaw(a); err != nil {
		panic(err)
	}
	lr.SetEventName(name)
	lr.SetObservedTimestamp(2_000_000_000)
	return ld
}

func TestLogDialects(t *testing.T) {
	events, _ := Reader{}.MapLogs(logOf("x.rs:12", attrs{"event.name": "codex.tool_result", "tool_name": "exec", "call_id": "c1", "arguments": `{"cmd":"ls"}`, "output": "a\nb",
		"success": "true", "duration_ms": "600", "tool_result_seq": int64(3), "conversation.id": "conv", "event.timestamp": "2026-11-30T09:19:54.477Z", "agent_name": "/root"}))
	require.Len(t, events, 1)
	e := events[0]
	require.Equal(t, ingest.ToolCall{Tool: "exec", CallID: "c1", Args: []byte(`{"cmd":"ls"}`), Result: []byte(`"a\nb"`), Status: ingest.StatusOK}, *e.Call)
	require.Equal(t, time.Date(2026, 11, 30, 9, 19, 53, 877e6, time.UTC), e.Start)
	require.Equal(t, []any{"conv", "session:conv", "/root", int64(3), 600 * time.Millisecond}, []any{e.SessionID, e.Origin, e.Agent, e.Seq, e.Duration})

	events, _ = Reader{}.MapLogs(logOf("claude_code.tool_result", attrs{"session.id": "s", "tool_name": "Bash", "tool_use_id": "tu", "tool_parameters": `{"command":"ls"}`, "success": "false", "error": "exit 1", "event.sequence": "7", "duration_ms": 12.5}))
	require.Equal(t, ingest.ToolCall{Tool: "Bash", CallID: "tu", Args: []byte(`{"command":"ls"}`), Status: ingest.StatusError, Error: "exit 1"}, *events[0].Call)
	require.Equal(t, int64(7), events[0].Seq)

	events, _ = Reader{}.MapLogs(logOf("", attrs{"event.name": "claude_code.api_request", "session.id": "s", "model": "m", "input_tokens": "10", "output_tokens": int64(2), "cache_read_tokens": "4", "cost_usd": "0.01"}))
	require.Equal(t, ingest.LLMCall{Model: "m", Count: 1, InputTokens: 14, OutputTokens: 2, CachedTokens: 4, CostUSD: 0.01, HasCost: true}, *events[0].LLM)

	events, _ = Reader{}.MapLogs(logOf("", attrs{"event.name": "gemini_cli.tool_call", "session.id": "s", "function_name": "ls", "function_args": "{\n \"p\": 1\n}", "success": true}))
	require.Equal(t, ingest.ToolCall{Tool: "ls", Args: []byte("{\n \"p\": 1\n}"), Status: ingest.StatusOK}, *events[0].Call)

	events, _ = Reader{}.MapLogs(logOf("", attrs{"event.name": "user_prompt", "session.id": "s", "prompt": "<REDACTED>"}))
	require.Equal(t, ingest.UserMessage{}, *events[0].User)

	events, stats := Reader{}.MapLogs(logOf("", attrs{"event.name": "codex.tool_result", "tool_name": "exec"}))
	require.Empty(t, events)
	require.Equal(t, 1, stats.Filtered, "it belongs to nothing")
	events, stats = Reader{}.MapLogs(logOf("other", attrs{"session.id": "s"}))
	require.Empty(t, events)
	require.Equal(t, 1, stats.Filtered)
}

// TestRepeatedLogIsOneCall: the same record sent twice is a copy, the same call id in another place is another call.
func TestRepeatedLogIsOneCall(t *testing.T) {
	record := func(seq int) []ingest.Event {
		events, _ := Reader{}.MapLogs(logOf("", attrs{"event.name": "codex.tool_result", "conversation.id": "s", "tool_name": "exec", "call_id": "call_0", "tool_result_seq": int64(seq),
			"arguments": `{}`, "success": "true", "event.timestamp": fmt.Sprintf("2026-11-30T09:19:5%d.000Z", seq)}))
		return events
	}
	sessions := ingest.AssembleAll("t", append(append(record(1), record(2)...), record(1)...), ingest.AssembleOptions{})
	require.Len(t, sessions, 1)
	require.Len(t, sessions[0].Runs[0].Calls, 2)
}
