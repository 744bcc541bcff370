package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"

	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/ingest"
)

// root is the repository's root: the folder with go.mod.
func root(t testing.TB) string {
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, parent, dir, "no go.mod above")
		dir = parent
	}
}

// recorded is a path of the recorded data, or skips the test.
func recorded(t testing.TB, path ...string) string {
	full := filepath.Join(append([]string{root(t), "..", "shared", "data"}, path...)...)
	if _, err := os.Stat(full); err != nil {
		t.Skipf("recorded data not present: %v", err)
	}
	return full
}

// load imports paths and returns the events.
func load(t testing.TB, opts Options, paths ...string) ([]ingest.Event, *Report) {
	t.Helper()
	var events []ingest.Event
	report, err := Import(t.Context(), paths, opts, func(batch []ingest.Event) error {
		require.LessOrEqual(t, len(batch), batchEvents)
		events = append(events, batch...)
		return nil
	})
	require.NoError(t, err)
	return events, report
}

// lines decodes a JSONL file.
func lines[T any](t testing.TB, path string) (out []T) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var v T
		require.NoError(t, json.Unmarshal(sc.Bytes(), &v))
		out = append(out, v)
	}
	require.NoError(t, sc.Err())
	return out
}

type recordedCall struct {
	SessionID string `json:"session_id"`
	Seq, Turn int
	Tool      string
	Args      any
	Result    any
	Error     *string
	Context   string
}

func TestRecordedSessions(t *testing.T) {
	totals := make(map[string]map[string]sessionTotal)
	for _, total := range lines[sessionTotal](t, recorded(t, "calls", "sessions.jsonl")) {
		if totals[total.File] == nil {
			totals[total.File] = make(map[string]sessionTotal)
		}
		totals[total.File][total.SessionID] = total
	}
	for file, sessions := range totals {
		t.Run(file, func(t *testing.T) {
			path := recorded(t, "calls", file+".jsonl")
			calls := lines[recordedCall](t, path)
			events, report := load(t, Options{}, path)
			require.Empty(t, report.Rejected)
			require.Equal(t, []FileReport{{Path: filepath.Clean(path), Format: Records, ToolCalls: len(calls)}}, report.Files)
			require.Equal(t, len(calls), report.ToolCalls)

			want := make(map[string][]recordedCall)
			for _, c := range calls {
				want[c.SessionID] = append(want[c.SessionID], c)
			}
			require.Len(t, want, len(sessions))
			got := ingest.AssembleAll("t", events, ingest.AssembleOptions{})
			require.Len(t, got, len(want))
			var modelCalls, wantModelCalls int64
			var cost, wantCost float64
			for _, total := range sessions {
				wantModelCalls += int64(total.LLMCalls)
				if total.AgentCost != nil {
					wantCost += *total.AgentCost
				}
			}
			for _, s := range got {
				require.Len(t, s.Runs, 1)
				checkRecorded(t, want[s.ID], &s.Runs[0])
				for _, step := range s.Runs[0].LLM {
					modelCalls += int64(step.Count)
					cost += step.CostUSD
				}
			}
			require.Equal(t, wantModelCalls, modelCalls)
			require.InDelta(t, wantCost, cost, 1e-6)

			again, _ := load(t, Options{}, path, path)
			require.Equal(t, events, again, "one file is read once, and always to the same events")
			twice := ingest.AssembleAll("t", append(again, events...), ingest.AssembleOptions{})
			require.Equal(t, got, twice, "importing twice adds nothing")
		})
	}
}

func checkRecorded(t *testing.T, want []recordedCall, run *ingest.AgentRun) {
	require.Len(t, run.Calls, len(want))
	users := 0
	for i, w := range want {
		c := run.Calls[i]
		require.Equal(t, []any{w.Tool, w.Turn}, []any{c.Tool, int(c.Turn)})
		require.JSONEq(t, toJSON(t, w.Args), string(c.Args))
		if c.Result != nil {
			require.JSONEq(t, toJSON(t, w.Result), string(c.Result))
		} else {
			require.Nil(t, w.Result)
		}
		require.Equal(t, w.Error != nil, c.Flags&ingest.FlagError != 0)
		if w.Context != "" {
			require.Equal(t, ingest.UserTurn{Before: i, Text: w.Context}, run.Users[users])
			users++
		}
		newStretch := i == 0 || w.Context != "" || w.Turn-want[i-1].Turn > 1
		require.Equal(t, newStretch, c.Flags&ingest.FlagBreak != 0, "%s call %d", w.SessionID, i)
		require.Equal(t, !newStretch && w.Turn == want[i-1].Turn, c.Flags&ingest.FlagParallel != 0)
	}
	require.Len(t, run.Users, users)
}

func toJSON(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func TestTauBench(t *testing.T) {
	type normalised struct {
		recordedCall
		CallID string `json:"call_id"`
	}
	want := make(map[string][]normalised) // "2/0" for task 2, trial 0
	all := lines[normalised](t, recorded(t, "transcripts", "tau-bench", "airline-gpt4o.normalised.jsonl"))
	require.Len(t, all, 803)
	for _, c := range all {
		var task, trial int
		_, err := fmt.Sscanf(c.SessionID, "tau-airline-gpt4o/task%d/trial%d", &task, &trial)
		require.NoError(t, err)
		key := fmt.Sprintf("gpt-4o-airline/task%d/trial%d", task, trial)
		want[key] = append(want[key], c)
	}
	path := recorded(t, "transcripts", "tau-bench", "gpt-4o-airline.json")
	events, report := load(t, Options{}, path)
	require.Empty(t, report.Rejected)
	require.Equal(t, TauBench, report.Files[0].Format)
	require.Equal(t, 803, report.ToolCalls)
	sessions := ingest.AssembleAll("t", events, ingest.AssembleOptions{})
	require.Len(t, sessions, 148)
	withCalls := 0
	for _, s := range sessions {
		require.Zero(t, s.Conflicts)
		calls := Normalised(s)
		require.Len(t, calls, len(want[s.ID]), s.ID)
		if len(calls) > 0 {
			withCalls++
		}
		for i, w := range want[s.ID] {
			c := calls[i]
			require.Equal(t, []any{w.Seq, w.Tool, w.CallID}, []any{c.Seq, c.Tool, *c.CallID})
			require.JSONEq(t, toJSON(t, w.Args), string(c.Args))
			require.JSONEq(t, toJSON(t, w.Result), string(c.Result))
			require.Equal(t, w.Error, c.Error)
		}
	}
	require.Equal(t, 136, withCalls)
	require.Equal(t, int64(len(sessions[0].Runs[0].LLM)), int64(5), "task 1, trial 0 has five assistant messages")
}

// write makes a file in a temporary folder and returns its path.
func write(t testing.TB, dir, name, text string) string {
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

const oneCall = `{"tool":"find","session_id":"s1","args":{"q":1},"result":"ok"}` + "\n"

func TestBadLinesAreReportedWithTheirNumber(t *testing.T) {
	path := write(t, t.TempDir(), "calls.jsonl", oneCall+"\n{\"tool\":7}\nnot json\n"+oneCall)
	events, report := load(t, Options{}, path)
	require.Len(t, events, 2)
	require.Equal(t, 2, report.RejectedCount)
	require.Equal(t, path+":3 at /tool: must be a string", report.Rejected[0].Error())
	require.Equal(t, 4, report.Rejected[1].Line)
	require.Equal(t, 2, report.Files[0].Rejected)
	require.NotEqual(t, events[0].Identity, events[1].Identity, "equal lines are two calls")
}

func TestManyBadLines(t *testing.T) {
	path := write(t, t.TempDir(), "calls.jsonl", oneCall+strings.Repeat("{}\n", 500))
	_, report := load(t, Options{}, path)
	require.Equal(t, 500, report.RejectedCount)
	require.Len(t, report.Rejected, MaxListed)
}

func TestCompressedFiles(t *testing.T) {
	dir := t.TempDir()
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, _ = w.Write([]byte(oneCall))
	require.NoError(t, w.Close())
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	defer z.Close()
	write(t, dir, "a.jsonl.gz", gz.String())
	write(t, dir, "b.jsonl.zst", string(z.EncodeAll([]byte(oneCall), nil)))
	write(t, dir, "c.jsonl.gz", gz.String()[:gz.Len()/2])
	events, report := load(t, Options{}, dir)
	require.Len(t, events, 2)
	require.Equal(t, 1, report.RejectedCount)
	require.Contains(t, report.Rejected[0].Message, "cannot be decompressed")
	require.Equal(t, filepath.Join(dir, "c.jsonl.gz"), report.Rejected[0].File)
}

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.jsonl", "a.json", "sub/c.ndjson.gz", "requests.json", "sessions.jsonl", "readme.md", "sub/requests.json"} {
		write(t, dir, name, oneCall)
	}
	names := func(paths ...string) (out []string) {
		files, err := Expand(paths)
		require.NoError(t, err)
		for _, f := range files {
			rel, err := filepath.Rel(dir, f.path)
			require.NoError(t, err)
			out = append(out, rel)
		}
		return out
	}
	require.Equal(t, []string{"a.json", "b.jsonl", "sub/c.ndjson.gz"}, names(dir))
	require.Equal(t, []string{"b.jsonl"}, names(filepath.Join(dir, "*.jsonl")))
	require.Equal(t, []string{"readme.md", "a.json"}, names(filepath.Join(dir, "readme.md"), filepath.Join(dir, "a.json"), filepath.Join(dir, "./a.json")))
	_, err := Expand([]string{filepath.Join(dir, "missing")})
	require.Equal(t, flows.CodeNotFound, flows.CodeOf(err))
}

func TestDetect(t *testing.T) {
	for head, want := range map[string]Format{
		`{"session_id":"s","tool":"a"`:            Records,
		`{"event":"llm_call"`:                     Records,
		` [ {"tool_name":"a"}`:                    Records,
		`[{"task_id":1,"info":{"tool":1},"traj":`: TauBench,
		`{"resourceSpans":[`:                      OTLPTraces,
		`{"resourceLogs":[`:                       OTLPLogs,
		`{"timestamp":"x","type":"session_meta"`:  Auto,
		``:                                        Auto,
		`plain text`:                              Auto,
	} {
		require.Equal(t, want, Detect("x.json", []byte(head)), head)
	}
	require.Equal(t, OTLPTraces, Detect("01-traces.binpb", nil))
	require.Equal(t, OTLPLogs, Detect("02-logs.binpb", nil))
	require.Equal(t, OTLP, Detect("03.binpb", nil))
}

func TestUnknownFormatIsReported(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", `{"x":1}`)
	write(t, dir, "b.jsonl", oneCall)
	write(t, dir, "empty.json", "")
	events, report := load(t, Options{}, dir)
	require.Len(t, events, 1)
	require.Equal(t, 1, report.RejectedCount)
	require.Equal(t, "the format of the file is not known; say it with --format ("+formatList()+")", report.Rejected[0].Message)
}

func TestEmitErrorEndsTheImport(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.jsonl", strings.Repeat(oneCall, 2*batchEvents))
	write(t, dir, "b.jsonl", oneCall)
	boom := flows.NewError(flows.CodeFull, "full")
	calls := 0
	_, err := Import(t.Context(), []string{dir}, Options{}, func([]ingest.Event) error { calls++; return boom })
	require.ErrorIs(t, err, boom)
	require.Equal(t, 1, calls)
}

func TestProgress(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.jsonl", strings.Repeat(oneCall, 3000))
	write(t, dir, "b.jsonl", oneCall)
	var last, lastTotal int64
	load(t, Options{Progress: func(done, total int64) {
		require.Greater(t, done, last)
		require.LessOrEqual(t, done, total)
		last, lastTotal = done, total
	}}, dir)
	require.Equal(t, int64(3001*len(oneCall)), last)
	require.Equal(t, last, lastTotal)
}

func TestRecordsWithoutSession(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "calls.jsonl", `{"tool":"a"}`+"\n"+`{"tool":"b"}`)
	events, _ := load(t, Options{}, path)
	sessions := ingest.AssembleAll("t", events, ingest.AssembleOptions{})
	require.Len(t, sessions, 1, "the file is the session")
	require.Len(t, sessions[0].Runs[0].Calls, 2)
	require.True(t, strings.HasPrefix(sessions[0].ID, "file:calls.jsonl:"))
}

func TestEventsSurviveTheWire(t *testing.T) {
	path := write(t, t.TempDir(), "calls.jsonl", `{"tool":"a","session_id":"s","turn":2,"context":"hi","result":"{\"x\":[1]}","dataset":"d"}`+"\n"+oneCall)
	events, _ := load(t, Options{}, path)
	var body []byte
	for i := range events {
		body = append(ingest.AppendRecord(body, &events[i]), '\n')
	}
	var got []ingest.Event
	for e, err := range ingest.DecodeRecords(bytes.NewReader(body), ingest.DecodeOptions{}) {
		require.NoError(t, err)
		got = append(got, e)
	}
	require.Equal(t, events, got)
}

func TestWriteNormalised(t *testing.T) {
	path := write(t, t.TempDir(), "calls.jsonl", `{"tool":"a","session_id":"s","turn":2,"call_id":"c1","args":{"q":"<x>"},"error":"no","agent":"bot","start":"2026-11-30T09:00:00Z","duration_ms":1.5}`+"\n"+oneCall)
	events, _ := load(t, Options{}, path)
	var out bytes.Buffer
	require.NoError(t, WriteNormalised(&out, ingest.AssembleAll("t", events, ingest.AssembleOptions{})))
	require.Equal(t, `{"session_id":"s","seq":0,"turn":2,"tool":"a","args":{"q":"<x>"},"result":null,"call_id":"c1","status":"error","error":"no","start":"2026-11-30T09:00:00Z","duration_ms":1.5,"agent":"bot","source":"file/jsonl"}
{"session_id":"s1","seq":0,"turn":1,"tool":"find","args":{"q":1},"result":"ok","call_id":null,"status":"ok","error":null,"start":null,"duration_ms":null,"agent":"","source":"file/jsonl"}
`, out.String())
}

func TestTauBenchForms(t *testing.T) {
	run := func(messages string) string { return `{"task_id":"t1","trial":3,"traj":[` + messages + `]}` }
	ask := `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"a","arguments":"{\"x\":1}"}},{"id":"c2","function":{"name":"b","arguments":"not json"}}]}`
	path := write(t, t.TempDir(), "x.json", "[\n"+
		run(`{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"hi"}]},`+ask+
			`,{"role":"tool","tool_call_id":"c2","content":"Error: no"},{"role":"tool","tool_call_id":"c1","content":"{\"y\":2}"},{"role":"tool","tool_call_id":"zz","content":"stray"},{"role":"assistant","content":"done"}`)+",\n"+
		`{"trial":1}`+",\n"+`{"task_id":2,"traj":"x"}`+",\n"+run(`{"role":"assistant","tool_calls":[{"id":"c","function":{"arguments":"{}"}}]}`)+"\n]")
	events, report := load(t, Options{}, path)
	require.Equal(t, 3, report.RejectedCount)
	require.Equal(t, 4, report.Rejected[1].Line)
	s := ingest.AssembleAll("t", events, ingest.AssembleOptions{})
	require.Len(t, s, 1)
	require.Equal(t, "x/taskt1/trial3", s[0].ID)
	r := s[0].Runs[0]
	require.Equal(t, []ingest.UserTurn{{Before: 0, Text: "hi"}}, r.Users)
	require.Len(t, r.LLM, 2)
	require.Equal(t, `{"y":2}`, string(r.Calls[0].Result))
	require.Equal(t, `{"input":"not json"}`, string(r.Calls[1].Args))
	require.Equal(t, "Error: no", r.Calls[1].Error)
	require.NotZero(t, r.Calls[1].Flags&ingest.FlagParallel)
}

func FuzzImporter(f *testing.F) {
	for format, seed := range map[Format]string{
		Chat:       `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"a","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"}]}]}]}`,
		Responses:  `{"output":[{"type":"mcp_call","id":"m","name":"a","arguments":"{}","output":"x"},{"type":"function_call","call_id":"c","name":"b"}],"previous_response_id":"r"}`,
		ClaudeCode: `{"type":"assistant","uuid":"u","sessionId":"s","isSidechain":true,"message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"a","input":{}}]}}`,
		Codex:      `{"type":"response_item","timestamp":"2026-11-30T09:00:00Z","ordinal":1,"payload":{"type":"function_call","call_id":"c","name":"a","arguments":"{}"}}`,
		GeminiCLI:  `{"id":"1","type":"gemini","toolCalls":[{"id":"c","name":"a","args":{},"status":"success","result":[{"functionResponse":{"response":{"output":"x"}}}]}]}`,
		LangSmith:  `{"id":"1","run_type":"tool","name":"a","trace_id":"t","inputs":{"input":"{'a': 1}"},"dotted_order":"20261130T090000000000Zx"}`,
		Langfuse:   `{"traces":[{"id":"t","sessionId":"s"}],"observations":[{"id":"o","traceId":"t","type":"TOOL","name":"a","input":"x"}]}`,
		MCP:        `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}},{"jsonrpc":"2.0","id":1,"result":{"content":[]}}]`,
		SWEAgent:   `{"trajectory":[{"action":"ls -l","observation":"x","execution_time":0.1}],"history":[]}`,
		Tau2Bench:  `{"tasks":[],"simulations":[{"id":"s","messages":[{"role":"assistant","tool_calls":[{"id":"c","name":"a","arguments":{}}]},{"role":"tool","id":"c","content":"x","error":true}]}]}`,
		ToolBench:  `{"answer_generation":{"train_messages":[[{"role":"assistant","function_call":{"name":"a","arguments":"{}"}}]]}}`,
		ATIF:       `{"steps":[{"source":"agent","tool_calls":[{"tool_call_id":"c","function_name":"a"}],"observation":{"results":[{"source_call_id":"c","content":"x"}]}}]}`,
		Steps:      "a\n\"[(AgentAction(tool='a', tool_input='x', log=''), 'y')]\"\n",
		OTLP:       "\x00\x00\x00\x02\x0a\x00",
	} {
		f.Add(string(format), []byte(seed))
	}
	for _, seed := range []string{oneCall, `[{"task_id":1,"traj":[{"role":"user","content":"x"}]}]`, `{"resourceSpans":[]}`, "{\"tool\":\"a\"", `[{"task_id":1,"traj":[{"role":"assistant","tool_calls":[{}]}]`} {
		for _, format := range append(Formats(), Auto) {
			f.Add(string(format), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, format string, data []byte) {
		s := &sink{ctx: t.Context(), opts: Options{Format: Format(format), Limits: ingest.Limits{Record: 1 << 16, Inflated: 1 << 20}.WithDefaults()}, report: &Report{}, sidecars: map[string]sidecar{".": {}}}
		var events []ingest.Event
		s.emit = func(batch []ingest.Event) error { events = append(events, batch...); return nil }
		if err := s.read("x", bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		if len(events) != s.report.Events {
			t.Fatalf("%d events, %d reported", len(events), s.report.Events)
		}
		for i := range events {
			if events[i].Origin == "" {
				t.Fatalf("event without origin: %+v", events[i])
			}
		}
		for _, session := range ingest.AssembleAll("t", events, ingest.AssembleOptions{}) {
			Normalised(session)
		}
	})
}
