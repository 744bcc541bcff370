package baseline_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/analyzer/baseline"
	"pave/flows"
)

func parse(t testing.TB, lines ...string) []baseline.AgentEvent {
	t.Helper()
	events, err := baseline.ParseAgentTrace(strings.Join(lines, "\n"))
	require.NoError(t, err)
	return events
}

func TestParseAgentTrace(t *testing.T) {
	events := parse(t, "", `  {"session_id":1.5,"turn_id":"","tool":"a","args":{"y":1,"x":{"z":[2]}},"status":"error","outputs":{"b":1,"a":2},"latency_ms":3,"extra":{"k":1}}`, "",
		`{"event":"model_call","session_id":false,"input_tokens":12.9,"output_tokens":true,"latency_ms":"5"}`)
	require.Len(t, events, 2)
	assert.Equal(t, baseline.AgentEvent{SessionID: "1.5", Event: baseline.EventToolCall, Tool: "a", Args: map[string]any{"y": int64(1), "x": map[string]any{"z": []any{int64(2)}}},
		ArgNames: []string{"y", "x"}, ResultStatus: "error", OutputKeys: []string{"b", "a"}, LatencyMS: ptr(3.0), Metadata: map[string]any{"extra": map[string]any{"k": int64(1)}}}, events[0])
	assert.Equal(t, "False", events[1].SessionID)
	assert.Equal(t, ptr(int64(12)), events[1].InputTokens)
	assert.Nil(t, events[1].OutputTokens)
	assert.Nil(t, events[1].LatencyMS)

	// output_keys win over outputs, tool over tool_name.
	e := parse(t, `{"tool":"a","tool_name":"b","output_keys":["k",7],"outputs":{"x":1}}`)[0]
	assert.Equal(t, []string{"k", "7"}, e.OutputKeys)
	assert.Equal(t, "a", e.Tool)
}

func TestMalformedLines(t *testing.T) {
	for text, want := range map[string]int{
		"{":                                   1,
		"\n\n[]":                              3,
		`{"tool":"a"}` + "\r\n" + `7`:         2,
		`{"tool":"a"}` + "\u2028\u2028null":   3,
		`{"tool":"a"}` + "\n" + `{"tool":""}`: 2,
		`{"tool":5}`:                          1,
		`{"event":"model"}`:                   1,
		`{"event":null,"tool":"a"}`:           1,
		`{"tool":"a","args":[1]}`:             1,
		`{"tool":"a","inputs":null}`:          1,
		`{"tool":"a"} x`:                      1,
	} {
		_, err := baseline.ParseAgentTrace(text)
		var line *baseline.LineError
		require.True(t, errors.As(err, &line), "%q: %v", text, err)
		assert.Equal(t, want, line.Line, text)
		assert.ErrorIs(t, err, flows.CWTraceImport)
	}
}

func TestTimestamps(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-01T00:00:00Z":             "2026-01-01T00:00:00Z",
		"2026-01-01T00:00:00+00:00":        "2026-01-01T00:00:00Z",
		"2026-01-01 10:20:30.5+0230":       "2026-01-01T10:20:30.500000+02:30",
		"2026-01-01T10:20:30.1234567-05":   "2026-01-01T10:20:30.123456-05:00",
		"2026-01-01":                       "2026-01-01T00:00:00",
		"20260101T1020":                    "2026-01-01T10:20:00",
		"2026-02-30T00:00:00Z":             "",
		"yesterday":                        "",
		"2026-01-01Z":                      "",
		"2026-01-01T25:00:00":              "",
		"2026-01-01T00:00:00Z and the end": "",
	} {
		assert.Equal(t, want, parse(t, fmt.Sprintf(`{"tool":"a","timestamp":%q}`, text))[0].Timestamp, text)
	}
	assert.Empty(t, parse(t, `{"tool":"a","timestamp":5}`)[0].Timestamp)
}

// Two sessions of the loop list -> open, with a model call between, and one that goes another way.
func loopTrace(t testing.TB) []baseline.AgentEvent {
	return parse(t,
		`{"session_id":"s1","tool":"fs.list","args":{"dir":1},"output_keys":["files"]}`,
		`{"session_id":"s1","event":"model_call","input_tokens":100,"output_tokens":5}`,
		`{"session_id":"s1","event":"model_call","input_tokens":10}`,
		`{"session_id":"s1","tool":"fs.open","args":{"files":1,"mode":2}}`,
		`{"session_id":"s2","tool":"fs.list","args":{"dir":1,"all":1},"status":"error"}`,
		`{"session_id":"s2","event":"model_call","input_tokens":201,"output_tokens":8}`,
		`{"session_id":"s2","tool":"fs.open","args":{"files":1}}`,
		`{"session_id":"s3","tool":"fs.list","args":{"dir":1}}`,
		`{"session_id":"s3","tool":"fs.stat","args":{}}`,
		`{"session_id":"s3","tool":"fs.open","args":{}}`)
}

func TestScoreCandidate(t *testing.T) {
	events := loopTrace(t)
	s, err := baseline.ScoreCandidate(events, []string{"fs.list", "fs.open"})
	require.NoError(t, err)
	// Two windows: one failed; each position's arguments agree in one of two; list is followed by open in two of three.
	// Medians: (110+201)/2 = 155.5 rounds to 156, (5+8)/2 = 6.5 to 6. No verb "open" is known.
	// 0.25*2/10 + 0.25*1/2 + 0.2*1/2 + 0.2*2/3 + 0.1*0.6 = 0.46833...
	assert.Equal(t, baseline.Score{Sequence: []string{"fs.list", "fs.open"}, Support: 2, Sessions: 2, SuccessRate: 0.5, ModelCallsRemoved: 2,
		InputTokensSaved: 156, OutputTokensSaved: 6, SchemaStability: 0.5, Determinism: 0.6667, SafetyLevel: baseline.SafetyUnknown,
		Recommendation: baseline.ReviewNeeded, Score: 0.4683, Warnings: []string{"Low support: seen only 2 time(s).", "Success rate 50% below 90%.",
			"Unstable argument shapes (stability 50%).", "Path is not consistently deterministic (67%).",
			"Side-effect safety is unknown; classify tools before promotion."}}, s)
	_, err = baseline.ScoreCandidate(events, nil)
	assert.ErrorContains(t, err, "at least one tool")

	none, err := baseline.ScoreCandidate(nil, []string{"get"})
	require.NoError(t, err)
	assert.Equal(t, 0.75, none.Score) // 0.25 + 0.2 + 0.2 + 0.1: nothing speaks against what never occurred
	assert.Equal(t, []string{"Low support: seen only 0 time(s)."}, none.Warnings)
}

func TestRank(t *testing.T) {
	scores := []baseline.Score{{Score: 0.5, Support: 1, Sequence: []string{"b"}}, {Score: 0.9, Support: 1}, {Score: 0.5, Support: 3}, {Score: 0.5, Support: 1, Sequence: []string{"a", "z"}}}
	baseline.Rank(scores)
	assert.Equal(t, []float64{0.9, 0.5, 0.5, 0.5}, []float64{scores[0].Score, scores[1].Score, scores[2].Score, scores[3].Score})
	assert.Equal(t, 3, scores[1].Support)
	assert.Equal(t, []string{"a", "z"}, scores[2].Sequence)
}

func TestClassifySafety(t *testing.T) {
	for names, want := range map[string]string{
		"github.list-issues fs.read": baseline.SafetyReadOnly,
		"GET_x":                      baseline.SafetyReadOnly,
		"get a.b.delete_all":         baseline.SafetySideEffecting,
		"update.get":                 baseline.SafetyReadOnly,
		"getter":                     baseline.SafetyUnknown,
		"":                           baseline.SafetyUnknown,
	} {
		assert.Equal(t, want, baseline.ClassifySafety(strings.Fields(names)), names)
	}
}

func TestDraftAndBacktest(t *testing.T) {
	events := loopTrace(t)
	s, err := baseline.ScoreCandidate(events, []string{"fs.list", "fs.open"})
	require.NoError(t, err)
	d := baseline.DraftFlow(events, s)
	assert.Equal(t, "draft__fs_list__fs_open", d.Flow.Name)
	assert.Equal(t, "Draft macro-flow mined from coding-agent traces: fs.list → fs.open (support 2, score 0.4683).", d.Flow.Description)
	assert.Equal(t, flows.Mapping{{Target: "files", Value: flows.Key("files")}}, d.Flow.Steps[1].InputMapping)
	assert.Equal(t, "Step 1 ('fs.open') argument 'mode' has no upstream producer; map it manually before promotion.", d.Warnings[len(d.Warnings)-1])
	assert.Equal(t, int64(324), *d.Flow.Governance.EstimatedTokenSavings)
	assert.Equal(t, 4, d.Flow.Governance.EstimatedModelCallsRemoved)

	// The second session's first call failed; nothing lacks a mapped argument.
	report := baseline.Backtest(d.Flow, events)
	assert.Equal(t, baseline.BacktestReport{FlowName: d.Flow.Name, ExamplesTested: 2, PassedInputShape: 2, ProducedExpectedOutput: 1,
		Mismatches: []baseline.Mismatch{{SessionID: "s2", StepIndex: 0, ToolName: "fs.list", Reason: "step reported an error status"}}}, report)

	d.Flow.Steps[1].InputMapping = flows.Mapping{{Target: "mode", Value: flows.Key("m")}, {Target: "files", Value: flows.Key("files")}, {Target: "at", Value: flows.Key("a")}}
	report = baseline.Backtest(d.Flow, events[:4])
	assert.Equal(t, 0, report.PassedInputShape)
	assert.Equal(t, "missing input field(s): at", report.Mismatches[0].Reason)
	assert.Zero(t, baseline.Backtest(&flows.Flow{}, events).ExamplesTested)
}

func FuzzParseAgentTrace(f *testing.F) {
	for _, seed := range []string{"", "{", `{"tool":"a"}`, `{"event":"model_call","input_tokens":1e400}`, "{\"tool\":\"a\",\"args\":{\"x\":1}}\r\n\u0085[]",
		`{"tool":"a","timestamp":"2026-01-01T00:00:00.5+02","output_keys":[null,{"a":1}],"session_id":99999999999999999999}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		events, err := baseline.ParseAgentTrace(text)
		var line *baseline.LineError
		if err != nil {
			require.True(t, errors.As(err, &line))
			require.Positive(t, line.Line)
			return
		}
		for _, e := range events {
			require.NotEmpty(t, e.SessionID)
			require.Len(t, e.ArgNames, len(e.Args))
		}
		calls := 0
		for _, trace := range baseline.Traces(events) {
			calls += len(trace.Steps)
			tools := make([]string, len(trace.Steps))
			for i, s := range trace.Steps {
				tools[i] = s.Tool
			}
			score, err := baseline.ScoreCandidate(events, tools)
			require.NoError(t, err)
			require.Positive(t, score.Support)
			require.True(t, score.Score >= 0 && score.Score <= 1)
			baseline.Backtest(baseline.DraftFlow(events, score).Flow, events)
		}
		require.LessOrEqual(t, calls, len(events))
	})
}
