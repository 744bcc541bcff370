package transcript

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"pave/ingest"
)

// told is what a file tells, compactly: sessions as "id", runs as "run:<id>", then in order calls as
// "tool args -> result status error", users as "user: text".
func told(sessions []*ingest.Session) (out []string) {
	for _, s := range sessions {
		out = append(out, s.ID)
		for _, r := range s.Runs {
			if r.ID != "" {
				out = append(out, "run:"+r.ID)
			}
			users := r.Users
			for i := range len(r.Calls) + 1 {
				for len(users) > 0 && users[0].Before == i {
					out, users = append(out, "user: "+users[0].Text), users[1:]
				}
				if i < len(r.Calls) {
					c := r.Calls[i]
					id := ""
					if c.CallID != "" {
						id = " #" + c.CallID
					}
					out = append(out, strings.TrimSpace(fmt.Sprintf("%d %s%s %s -> %s %s %s", c.Turn, c.Tool, id, c.Args, c.Result, c.Status, c.Error)))
				}
			}
		}
	}
	return out
}

func models(sessions []*ingest.Session) (out []string) {
	for _, s := range sessions {
		for _, r := range s.Runs {
			for _, l := range r.LLM {
				out = append(out, fmt.Sprintf("%s %d %d %d", l.Model, l.InputTokens, l.OutputTokens, l.CachedTokens))
			}
		}
	}
	return out
}

// formatCase is a file and what it tells.
type formatCase struct {
	name, file, text string
	format           Format
	want             []string
	models           []string
	rejected         []string // parts of the messages
	filtered         int
}

func checkFormat(t *testing.T, c formatCase) {
	t.Helper()
	path := write(t, t.TempDir(), c.file, c.text)
	events, report := load(t, Options{}, path)
	require.Equal(t, c.format, report.Files[0].Format, "detected")
	sessions := ingest.AssembleAll("t", slices.Clone(events), ingest.AssembleOptions{})
	require.Equal(t, c.want, told(sessions))
	if c.models != nil {
		require.Equal(t, c.models, models(sessions))
	}
	require.Len(t, report.Rejected, len(c.rejected), "%v", report.Rejected)
	for i, part := range c.rejected {
		require.Contains(t, report.Rejected[i].Error(), part)
	}
	require.Equal(t, c.filtered, report.Filtered)
	forced, _ := load(t, Options{Format: c.format}, path)
	require.Equal(t, events, forced, "by its name")
	for i := range events {
		line := ingest.AppendRecord(nil, &events[i])
		for e, err := range ingest.DecodeRecords(bytes.NewReader(line), ingest.DecodeOptions{}) {
			require.NoError(t, err)
			require.Equal(t, events[i], e, "an event survives the wire")
		}
	}
	twice := ingest.AssembleAll("t", append(events, forced...), ingest.AssembleOptions{})
	require.Equal(t, sessions, twice, "importing twice adds nothing")
}

func TestFormats(t *testing.T) {
	mcpFile := fileSession("mcp.jsonl", []byte(`{"ts":"2026-11-30T09:00:00Z","direction":"client","message":{"jsonrpc":"2.0","id":0,"method":"initialize"}}`))
	for _, c := range []formatCase{
		{name: "chat completions", file: "a.json", format: Chat, text: `{"id":"conv-1","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"},
{"role":"assistant","content":null,"model":"m","usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}},"tool_calls":[{"id":"c1","type":"function","function":{"name":"a","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"b","arguments":"not json"}}]},
{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"two"}]},{"role":"tool","tool_call_id":"c1","content":"{\"r\":1}"},
{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"a","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"again"},{"role":"assistant","content":"done"}]}`,
			want:   []string{"conv-1", "user: hi", `1 a #c1 {"x":1} -> {"r":1} ok`, `1 b #c2 {"input":"not json"} -> "two" ok`, `2 a #c1 {} -> "again" ok`},
			models: []string{"m 10 2 4", " -1 -1 -1", " -1 -1 -1"}},
		{name: "chat, one a line", file: "a.jsonl", format: Chat, text: `{"messages":[{"role":"user","content":"x"},{"role":"assistant","function_call":{"name":"a","arguments":"{}"}},{"role":"function","name":"a","content":"1"}],"task_id":3,"trial":1}` + "\n" +
			`{"messages":[{"role":"assistant","tool_calls":[{"id":"c"}]}]}` + "\n" + `{"messages":7}` + "\n",
			want: []string{"a/task3/trial1", "user: x", "1 a {} -> 1 ok"}, rejected: []string{"a.jsonl:2: not a conversation: a tool call has no name", "no list of messages"}},
		{name: "anthropic", file: "a.jsonl", format: Chat, text: `{"session_id":"s","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","usage":{"input_tokens":3,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":1},"content":[{"type":"text","text":"ok"},{"type":"tool_use","id":"t1","name":"a","input":{"x":1}},{"type":"tool_use","id":"t2","name":"b","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"bad","is_error":true},{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"[1]"}]},{"type":"tool_result","tool_use_id":"gone","content":"x"}]},` +
			`{"role":"assistant","content":[{"type":"server_tool_use","id":"t3","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"t3","content":[{"type":"web_search_result","url":"u"}]},{"type":"mcp_tool_use","id":"t4","name":"m","input":{}},{"type":"mcp_tool_result","tool_use_id":"t4","is_error":false,"content":[{"type":"text","text":"done"}]}]}]}`,
			want:   []string{"s", "user: hi", `1 a #t1 {"x":1} -> [1] ok`, `1 b #t2 {} -> "bad" error bad`, `2 web_search #t3 {"query":"q"} -> [{"type":"web_search_result","url":"u"}] ok`, `2 m #t4 {} -> "done" ok`},
			models: []string{" 10 1 5", " -1 -1 -1"}},
		{name: "responses", file: "a.jsonl", format: Responses, text: `{"object":"response","id":"r1","model":"m","input":"hi","output":[{"type":"reasoning","id":"x"},{"type":"function_call","id":"fc_1","call_id":"c1","name":"a","arguments":"{\"x\":1}"},{"type":"function_call","id":"fc_2","call_id":"c2","name":"b","arguments":"{}"}],"usage":{"input_tokens":9,"output_tokens":3,"input_tokens_details":{"cached_tokens":1}}}` + "\n" +
			`{"object":"response","id":"r2","previous_response_id":"r1","input":[{"type":"function_call_output","call_id":"c1","output":"one"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]}],"output":[{"type":"mcp_call","id":"m1","name":"find","arguments":"{\"q\":1}","output":"{\"r\":1}","error":null},{"type":"mcp_call","id":"m2","name":"find","arguments":"{}","output":null,"error":"no"},{"type":"web_search_call","id":"w","status":"completed","action":{"query":"q"}},{"type":"custom_tool_call","call_id":"c9","name":"patch","input":"raw"}]}`,
			want:   []string{"r1", "user: hi", `1 a #c1 {"x":1} -> "one" ok`, `1 b #c2 {} -> "two" ok`, `2 find #m1 {"q":1} -> {"r":1} ok`, `2 find #m2 {} ->  error no`, `2 web_search #w {"query":"q"} ->  ok`, `2 patch #c9 {"input":"raw"} ->  unknown`},
			models: []string{"m 9 3 1", " -1 -1 -1"}},
		{name: "claude code", file: "sess.jsonl", format: ClaudeCode, text: strings.Join([]string{
			`{"type":"summary","summary":"x","leafUuid":"l"}`,
			`{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"S","isSidechain":false,"timestamp":"2026-11-30T09:00:00Z","message":{"role":"user","content":"fix it"}}`,
			`{"type":"user","uuid":"u2","sessionId":"S","isMeta":true,"message":{"role":"user","content":"caveat"}}`,
			`{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"S","timestamp":"2026-11-30T09:00:01Z","message":{"id":"m1","role":"assistant","model":"c","content":[{"type":"text","text":"ok"}],"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`{"type":"assistant","uuid":"a2","parentUuid":"a1","sessionId":"S","timestamp":"2026-11-30T09:00:02Z","message":{"id":"m1","role":"assistant","model":"c","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}],"usage":{"input_tokens":1,"output_tokens":5}}}`,
			`{"type":"assistant","uuid":"a3","parentUuid":"a2","sessionId":"S","timestamp":"2026-11-30T09:00:02Z","message":{"id":"m1","role":"assistant","model":"c","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}],"usage":{"input_tokens":1,"output_tokens":9}}}`,
			`{"type":"assistant","uuid":"a4","parentUuid":"a3","sessionId":"S","timestamp":"2026-11-30T09:00:02Z","message":{"id":"m1","role":"assistant","model":"c","content":[{"type":"tool_use","id":"t2","name":"Task","input":{"p":1}}],"usage":{"input_tokens":1,"output_tokens":9}}}`,
			`{"type":"user","uuid":"s1","parentUuid":null,"sessionId":"S","isSidechain":true,"timestamp":"2026-11-30T09:00:03Z","message":{"role":"user","content":"sub task"}}`,
			`{"type":"assistant","uuid":"s2","parentUuid":"s1","sessionId":"S","isSidechain":true,"timestamp":"2026-11-30T09:00:04Z","message":{"id":"m2","role":"assistant","content":[{"type":"tool_use","id":"t3","name":"Read","input":{"f":"x"}}]}}`,
			`{"type":"user","uuid":"s3","parentUuid":"s2","sessionId":"S","isSidechain":true,"timestamp":"2026-11-30T09:00:05Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t3","content":"body"}]}}`,
			`{"type":"user","uuid":"u3","parentUuid":"a4","sessionId":"S","timestamp":"2026-11-30T09:00:06Z","toolUseResult":{"stdout":"x"},"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x","is_error":true}]}}`,
			`{"type":"assistant","uuid":"a5","sessionId":"S","timestamp":"2026-11-30T09:00:09Z","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}`, // a replay
			`{"type":"user","uuid":"u3","sessionId":"S","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}}`,
			`{"type":"progress","uuid":"p"}`, `{broken`}, "\n"),
			want:   []string{"S", "run:main", "user: fix it", `1 Bash #t1 {"command":"ls"} -> "x" error x`, `1 Task #t2 {"p":1} ->  unknown`, "run:sidechain:s1", "user: sub task", `1 Read #t3 {"f":"x"} -> "body" ok`},
			models: []string{"c 1 9 -1", " -1 -1 -1"}, rejected: []string{"sess.jsonl:15"}},
		{name: "codex, older", file: "rollout.jsonl", format: Codex, text: strings.Join([]string{
			`{"timestamp":"2026-11-30T09:00:00Z","type":"session_meta","payload":{"id":"S"}}`,
			`{"timestamp":"2026-11-30T09:00:01Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>x"}]}}`,
			`{"timestamp":"2026-11-30T09:00:02Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}}`,
			`{"timestamp":"2026-11-30T09:00:03Z","type":"turn_context","payload":{"model":"m"}}`,
			`{"timestamp":"2026-11-30T09:00:04Z","type":"response_item","payload":{"type":"local_shell_call","call_id":"c1","action":{"command":["ls"]}}}`,
			`{"timestamp":"2026-11-30T09:00:05Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":{"content":"out","success":true}}}`,
			`{"timestamp":"2026-11-30T09:00:05Z","type":"event_msg","payload":{"type":"exec_command_end","call_id":"c1","exit_code":2,"duration":{"secs":1,"nanos":500000000}}}`,
			`{"timestamp":"2026-11-30T09:00:06Z","type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"input_tokens":5,"cached_input_tokens":1,"output_tokens":2}}}}`}, "\n"),
			want: []string{"S", "user: go", `1 local_shell #c1 {"command":["ls"]} -> "out" error exit code 2`}, models: []string{"m 5 2 1"}},
		{name: "gemini cli", file: "chat.jsonl", format: GeminiCLI, text: strings.Join([]string{
			`{"sessionId":"old","projectHash":"h","startTime":"2026-11-30T09:00:00Z"}`,
			`{"id":"1","timestamp":"2026-11-30T09:00:01Z","type":"user","content":[{"text":"hi"}]}`,
			`{"id":"2","timestamp":"2026-11-30T09:00:02Z","type":"gemini","content":"","model":"g"}`,
			`{"$set":{"sessionId":"S"}}`,
			`{"id":"2","timestamp":"2026-11-30T09:00:02Z","type":"gemini","content":"","model":"g","tokens":{"input":7,"output":3,"cached":2},"toolCalls":[{"id":"a__1","name":"a","args":{"x":1},"status":"success","result":[{"functionResponse":{"id":"a__1","name":"a","response":{"output":"{\"r\":1}"}}}]},{"id":"b__1","name":"b","args":{},"status":"error","result":[{"functionResponse":{"response":{"error":"no"}}}]},{"id":"c__1","name":"c","args":{},"status":"executing"}]}`,
			`{"id":"3","type":"user","content":[{"functionResponse":{"id":"a__1","name":"a","response":{"output":"x"}}}]}`,
			`{"id":"4","type":"info","content":"i"}`}, "\n"),
			want: []string{"S", "user: hi", `1 a #a__1 {"x":1} -> {"r":1} ok`, `1 b #b__1 {} -> {"error":"no"} error no`, `1 c #c__1 {} ->  unknown`}, models: []string{"g 7 3 2"}},
		{name: "gemini cli, one object", file: "chat.json", format: GeminiCLI, text: `{"sessionId":"S","startTime":"x","messages":[{"id":"1","type":"user","content":"hi"},{"id":"2","type":"gemini","toolCalls":[{"id":"a__1","name":"a","args":{},"status":"cancelled"}]}]}`,
			want: []string{"S", "user: hi", "1 a #a__1 {} ->  error cancelled"}},
		{name: "langsmith", file: "runs.jsonl", format: LangSmith, text: strings.Join([]string{
			`{"id":"AAAA-1","trace_id":"ffff-0","run_type":"tool","name":"a","parent_run_id":"aaaa-0","session_id":"project","inputs":{"input":"{'city': 'Paris', 'ok': True}"},"outputs":{"output":{"content":"[1]","tool_call_id":"c1"}},"error":null,"start_time":"2026-11-30T09:00:01.5","end_time":"2026-11-30T09:00:02"}`,
			`{"id":"aaaa-2","trace_id":"ffff-0","run_type":"tool","name":"b","parent_run_id":"aaaa-0","inputs":{"q":1},"outputs":null,"error":"boom","dotted_order":"20261130T090000000000Zaaaa.20261130T090003000000Zaaaa-2"}`,
			`{"id":"aaaa-3","trace_id":"ffff-0","run_type":"llm","name":"m","parent_run_id":"aaaa-0","start_time":"2026-11-30T09:00:01","prompt_tokens":5,"completion_tokens":2,"total_cost":"0.25","extra":{"metadata":{"ls_model_name":"gpt"}}}`,
			`{"id":"aaaa-0","trace_id":"ffff-0","run_type":"chain","name":"agent","start_time":"2026-11-30T09:00:00","extra":{"metadata":{"thread_id":"T"}}}`,
			`{"id":"x"}`}, "\n"),
			want: []string{"T", `1 a #c1 {"city":"Paris","ok":true} -> [1] ok`, `1 b {"q":1} ->  error boom`}, models: []string{"gpt 5 2 -1"}, rejected: []string{"run_type"}},
		{name: "langfuse", file: "export.json", format: Langfuse, text: `{"traces":[{"id":"t1","sessionId":"S"}],"observations":[
{"id":"o2","traceId":"t1","type":"TOOL","name":"a","startTime":"2026-11-30T09:00:02Z","endTime":"2026-11-30T09:00:03Z","input":"{\"q\":1}","output":{"r":1}},
{"id":"o1","traceId":"t1","type":"GENERATION","name":"m","model":"gpt","startTime":"2026-11-30T09:00:01Z","usageDetails":{"input":4,"output":2},"calculatedTotalCost":0.5},
{"id":"o3","traceId":"t1","type":"TOOL","name":"b","startTime":"2026-11-30T09:00:04Z","input":"bare","output":null,"level":"ERROR","statusMessage":"no"},
{"id":"o4","traceId":"t1","type":"SPAN","name":"step","startTime":"2026-11-30T09:00:00Z","input":{}}]}`,
			want: []string{"S", `1 a {"q":1} -> {"r":1} ok`, `1 b {"input":"bare"} ->  error no`}, models: []string{"gpt 4 2 -1"}},
		{name: "langfuse, older", file: "old.jsonl", format: Langfuse, text: `{"id":"o1","traceId":"t1","type":"GENERATION","name":"m","startTime":"2026-11-30T09:00:01Z"}` + "\n" +
			`{"id":"o2","traceId":"t1","type":"SPAN","name":"agent","startTime":"2026-11-30T09:00:00Z","input":{}}` + "\n" + `{"id":"o3","traceId":"t1","parentObservationId":"o2","type":"SPAN","name":"a","startTime":"2026-11-30T09:00:02Z","input":{"q":1},"output":"x"}`,
			want: []string{"trace:t1", `1 a {"q":1} -> "x" ok`}},
		{name: "mcp", file: "mcp.jsonl", format: MCP, text: strings.Join([]string{
			`{"ts":"2026-11-30T09:00:00Z","direction":"client","message":{"jsonrpc":"2.0","id":0,"method":"initialize"}}`,
			`{"ts":"2026-11-30T09:00:01Z","direction":"client","message":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\",\"arguments\":{\"x\":1}}}"}`,
			`{"direction":"server","message":{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}}`,
			`{"direction":"client","message":{"jsonrpc":"2.0","id":1,"result":{"content":"not the answer"}}}`,
			`{"direction":"client","message":{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"b"}}}`,
			`{"direction":"server","message":{"jsonrpc":"2.0","method":"notifications/progress"}}`,
			`{"ts":"2026-11-30T09:00:03Z","direction":"server","message":[{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"bad"}},{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"t"}],"structuredContent":{"r":1}}}]}`,
			`{"direction":"client","message":{"jsonrpc":"2.0","id":0,"method":"initialize"}}`,
			`{"direction":"client","message":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"c","arguments":{}}}}`,
			`{"direction":"server","message":{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"no"}],"isError":true}}}`,
			`{"direction":"client","session_id":"H","message":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"d"}}}`,
			`{"x":1}`}, "\n"),
			want: []string{mcpFile, `1 a {"x":1} -> {"r":1} ok`, `2 b {} ->  error bad`, mcpFile + "#1", `1 c {} -> "no" error no`, "H", `1 d {} ->  unknown`}, rejected: []string{"no JSON-RPC message"}},
		{name: "swe-agent text", file: "run.traj", format: SWEAgent, text: `{"environment":"e","trajectory":[{"action":"edit 1:1\nx\nend_of_edit","observation":"done","execution_time":0.5},{"action":"submit\n","observation":null},{"action":""}],"history":[{"role":"user","content":"i"}],"info":{}}`,
			want: []string{"run", `1 edit {"input":"1:1\nx\nend_of_edit"} -> "done" ok`, `2 submit {} ->  unknown`}},
		{name: "tau2-bench", file: "sim.json", format: Tau2Bench, text: `{"timestamp":"x","tasks":[{"id":"1"}],"simulations":[{"id":"S1","task_id":"1","trial":0,"messages":[{"role":"assistant","content":"hello"},{"role":"user","content":"hi","tool_calls":null},{"role":"user","content":null,"tool_calls":[{"id":"u1","name":"toggle","arguments":{},"requestor":"user"}]},{"role":"tool","id":"u1","content":"on","requestor":"user","error":false},
{"role":"assistant","content":null,"tool_calls":[{"id":"c1","name":"a","arguments":{"x":1},"requestor":"assistant"}]},{"role":"tool","id":"c1","content":"Error: no","requestor":"assistant","error":true}]},{"id":"S2","ticks":[]},{"task_id":"2"}]}`,
			want: []string{"S1", "user: hi", `2 a #c1 {"x":1} -> "Error: no" error Error: no`}, rejected: []string{"voice run", "has no id"}, filtered: 2},
		{name: "toolbench", file: "q.json", format: ToolBench, text: `{"win":true,"tree":{},"answer_generation":{"train_messages":[[{"role":"user","content":"x"}],[{"role":"user","content":"ask"},{"role":"assistant","function_call":{"name":"a","arguments":"{}"}},{"role":"function","name":"a","content":"{\"error\":\"down\",\"response\":\"\"}"},{"role":"user","content":"again","valid":false},{"role":"assistant","function_call":{"name":"Finish","arguments":"{}"}}]]}}`,
			want: []string{"q", "user: ask", `1 a {} -> {"error":"down","response":""} error down`, `2 Finish {} ->  unknown`}},
		{name: "atif", file: "t.json", format: ATIF, text: `{"schema_version":"ATIF-v1.4","session_id":"S","agent":{"name":"bot","version":"1","model_name":"m"},"steps":[{"step_id":1,"source":"user","message":"go"},{"step_id":2,"timestamp":"2026-11-30T09:00:00Z","source":"agent","message":"","tool_calls":[{"tool_call_id":"c1","function_name":"a","arguments":{"x":1}},{"tool_call_id":"c2","function_name":"b","arguments":{}}],"observation":{"results":[{"source_call_id":"c2","content":"two"},{"source_call_id":"c1","content":"one"}]},"metrics":{"prompt_tokens":8,"completion_tokens":3,"cached_tokens":2,"cost_usd":0.1}}]}`,
			want: []string{"S", "user: go", `1 a #c1 {"x":1} -> "one" ok`, `1 b #c2 {} -> "two" ok`}, models: []string{"m 8 3 2"}},
		{name: "intermediate steps", file: "results.csv", format: Steps, text: "query,full_response,error\n" +
			`q1,"{'input': 'book it', 'output': 'ok', 'intermediate_steps': [(AgentAction(tool='calendar.search', tool_input={'q': ""it's"", 'n': 1.5, 'x': None}, log='I should\n'), 'Event {""id"": 1}'), (AgentAction(tool='made_up', tool_input='raw', log=''), 'made_up is not a valid tool, try one of [a].')]}",` + "\n" +
			"q2,,timeout\n" + `q3,"[(AgentAction(tool='broken', ","x"` + "\n",
			want:     []string{"results/row1", "user: book it", `1 calendar.search {"q":"it's","n":1.5,"x":null} -> "Event {\"id\": 1}" ok`, `2 made_up {"input":"raw"} -> "made_up is not a valid tool, try one of [a]." error made_up is not a valid tool, try one of [a].`},
			rejected: []string{"results.csv:3: not a conversation: row 2 holds no steps", "row 3: not a Python value"}},
		{name: "chainweaver", file: "cw.jsonl", format: ChainWeaver, text: `{"session_id":"","turn_id":1,"event":"tool_call","tool_name":"a","inputs":{"x":1},"outputs":{"r":1},"result_status":"ok","latency_ms":5,"output_keys":["r"]}` + "\n" +
			`{"trace_id":"tr1","tool":"b","inputs":{"x":1},"outputs":{}}` + "\n" + `{"session_id":"","event":"model_call","turn_id":1,"model":"m"}`,
			want: []string{"__default__", `1 a {"x":1} -> {"r":1} ok`, "tr1", `1 b {"x":1} -> {} ok`}, models: []string{"m -1 -1 -1"}},
	} {
		t.Run(c.name, func(t *testing.T) { checkFormat(t, c) })
	}
}

func TestDetectFormats(t *testing.T) {
	for head, want := range map[string]Format{
		`[{"role":"user","content":"x"}`:                                         Chat,
		`{"type":"function_call","call_id":"c"`:                                  Responses,
		`[{"type":"message","role":"user"`:                                       Responses,
		`{"type":"file-history-snapshot","messageId":"m"`:                        ClaudeCode,
		`{"runs":[{"id":"1","run_type":"tool"`:                                   LangSmith,
		`[{"id":"1","traceId":"t","type":"TOOL"`:                                 Langfuse,
		`{"jsonrpc":"2.0","id":1`:                                                MCP,
		`{"resourceMetrics":[`:                                                   OTLP,
		`{"tool":"a","session_id":"s","inputs":{}`:                               ChainWeaver,
		`{"tool":"a","session_id":"s","args":{"messages":[]},"metadata":{"x":1}`: Records,
	} {
		require.Equal(t, want, Detect("x.json", []byte(head)), head)
	}
	require.Equal(t, SWEAgent, Detect("x.traj", nil))
	require.Equal(t, Steps, Detect("x.csv", nil))
	for _, f := range Formats() {
		require.NotNil(t, readers[f], f)
	}
	require.Len(t, readers, len(Formats()))
}

// TestRecordedCodexRollout: three calls, of which the last exited with 1; the events beside them are not counted.
func TestRecordedCodexRollout(t *testing.T) {
	events, report := load(t, Options{}, recorded(t, "transcripts", "codex-rollout.jsonl"))
	require.Empty(t, report.Rejected)
	sessions := ingest.AssembleAll("t", events, ingest.AssembleOptions{})
	require.Len(t, sessions, 1)
	require.Equal(t, "01a22bc0-eb92-76c2-9bd4-64567dcfe7b1", sessions[0].ID)
	run := sessions[0].Runs[0]
	require.Equal(t, []ingest.UserTurn{{Before: 0, Text: "refund my order"}}, run.Users)
	var got []string
	for _, c := range run.Calls {
		got = append(got, fmt.Sprintf("%d %s %s %s %s %s", c.Turn, c.Tool, c.CallID, c.Args, c.Status, c.Error))
	}
	require.Equal(t, []string{`1 exec_command call_1 {"cmd":"ls"} ok `, `1 exec_command call_2 {"cmd":"cat orders.json"} ok `, `2 exec_command call_3 {"cmd":"cat missing.json"} error exit code 1`}, got)
	require.Equal(t, []string{"gpt-5 11 7 3", "gpt-5 11 7 3", "gpt-5 11 7 3"}, models(sessions))
}

func TestRecordedToolBench(t *testing.T) {
	want := lines[recordedCall](t, recorded(t, "transcripts", "toolbench", "toolbench-examples.normalised.jsonl"))
	events, report := load(t, Options{}, recorded(t, "transcripts", "toolbench", "G2_52_ChatGPT_DFS.json"))
	require.Empty(t, report.Rejected)
	sessions := ingest.AssembleAll("t", events, ingest.AssembleOptions{})
	require.Len(t, sessions, 1)
	calls, n := Normalised(sessions[0]), 0
	for _, w := range want {
		if !strings.Contains(w.SessionID, "G2_answer/52_") {
			continue
		}
		c := calls[n]
		n++
		require.Equal(t, []any{w.Seq, w.Tool, w.Error != nil}, []any{c.Seq, c.Tool, c.Error != nil})
		require.JSONEq(t, toJSON(t, w.Args), string(c.Args))
		if w.Result != nil {
			require.JSONEq(t, toJSON(t, w.Result), string(c.Result))
		}
	}
	require.Len(t, calls, n)
	require.Equal(t, 3, n)
}

// TestRecordedSWEAgent: eleven calls with ids that repeat over turns.
func TestRecordedSWEAgent(t *testing.T) {
	events, report := load(t, Options{}, recorded(t, "transcripts", "swe-agent", "marshmallow-1867.function_calling.traj"))
	require.Empty(t, report.Rejected)
	sessions := ingest.AssembleAll("t", events, ingest.AssembleOptions{})
	require.Len(t, sessions, 1)
	require.Zero(t, sessions[0].Conflicts)
	var tools []string
	for _, c := range sessions[0].Runs[0].Calls {
		tools = append(tools, c.Tool)
		require.NotNil(t, c.Result)
		require.Positive(t, c.Duration)
	}
	require.Equal(t, []string{"create", "edit", "bash", "bash", "find_file", "open", "edit", "edit", "bash", "bash", "submit"}, tools)
}

// TestOTLPFiles: lines of all signals, a cut last line, and protobuf messages behind their lengths.
func TestOTLPFiles(t *testing.T) {
	dir := filepath.Join(root(t), "testdata", "otlp", "genai-semconv-manual")
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return b
	}
	traces, logs := ptraceotlp.NewExportRequest(), plogotlp.NewExportRequest()
	require.NoError(t, traces.UnmarshalProto(read("proto/01-traces.binpb")))
	require.NoError(t, logs.UnmarshalProto(read("proto/02-logs.binpb")))
	traceLine, err := traces.MarshalJSON()
	require.NoError(t, err)
	logLine, err := logs.MarshalJSON()
	require.NoError(t, err)
	mixed := bytes.Join([][]byte{traceLine, []byte(`{"resourceMetrics":[]}`), logLine, traceLine[:200]}, []byte("\n"))
	tmp := t.TempDir()
	events, report := load(t, Options{}, write(t, tmp, "otel.json", string(mixed)))
	require.Equal(t, 1, report.RejectedCount, "a rotated file may end in a part of a line")
	require.Equal(t, 8, executed(events))

	var framed []byte
	for _, body := range [][]byte{read("proto/01-traces.binpb"), read("proto/02-logs.binpb")} {
		framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(body))), body...)
	}
	again, report := load(t, Options{}, write(t, tmp, "otel.pb", string(framed)))
	require.Empty(t, report.Rejected)
	require.Equal(t, 8, executed(again))
	_, report = load(t, Options{}, write(t, tmp, "cut.pb", string(framed[:len(framed)-5])))
	require.Equal(t, 1, report.RejectedCount)
	require.Positive(t, report.ToolCalls, "what stands before the cut is taken")
}

func executed(events []ingest.Event) (n int) {
	for i := range events {
		if events[i].Call != nil && events[i].Call.Status != ingest.StatusRequested {
			n++
		}
	}
	return n
}

// A log that has grown completes what was imported before.
func TestGrownFile(t *testing.T) {
	head := `{"type":"assistant","uuid":"a1","sessionId":"S","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}` + "\n"
	tail := `{"type":"user","uuid":"u1","sessionId":"S","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}}` + "\n"
	dir := t.TempDir()
	first, _ := load(t, Options{}, write(t, dir, "s.jsonl", head))
	second, _ := load(t, Options{}, write(t, dir, "s.jsonl", head+tail))
	sessions := ingest.AssembleAll("t", append(first, second...), ingest.AssembleOptions{})
	require.Equal(t, []string{"S", "run:main", `1 Bash #t1 {"command":"ls"} -> "x" ok`}, told(sessions))
	require.Len(t, sessions[0].Runs[0].LLM, 1)
}

// Calls that never get a result do not hold the file in memory.
func TestUnansweredCallsAreGivenAway(t *testing.T) {
	s := &sink{report: &Report{Files: []FileReport{{}}}, opts: Options{Limits: ingest.DefaultLimits()}, ctx: t.Context()}
	n := 0
	s.emit = func(batch []ingest.Event) error { n += len(batch); return nil }
	d := s.session(&input{}, "s", "file/x")
	for i := range 3 * maxHeld {
		d.answer(unknownUsage(), timeOf(nil))
		d.call(fmt.Sprint(i), "a", nil, timeOf(nil))
		require.NoError(t, d.settle())
		require.LessOrEqual(t, len(d.events), maxHeld+2)
	}
	require.NoError(t, d.finish())
	require.NoError(t, s.flush())
	require.Equal(t, 6*maxHeld, n)
}
