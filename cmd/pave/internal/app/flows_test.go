package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
	"pave/flows"
)

const builtinTools = `
kind: Tool
name: passthrough
description: Returns its input.
input_schema: {type: object, additionalProperties: true}
output_schema: {type: object, additionalProperties: true}
safety: {side_effects: none}
binding: {kind: local}
---
kind: Tool
name: assert_equal
input_schema: {type: object, properties: {actual: {}, expected: {}}, required: [actual, expected]}
output_schema: {type: object, properties: {equal: {type: boolean}}, required: [equal]}
safety: {side_effects: none}
binding: {kind: local}
`

const checkFlow = `{"format_version":"1.1","type":"DAGFlow","name":"check_both","version":"0.1.0","description":"Compares.","capability_id":"demo.check",
	"input_schema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]},
	"steps":[{"step_id":"copy","tool_name":"passthrough","output_as":"copied"},
		{"step_id":"same","tool_name":"assert_equal","depends_on":["copy"],"input_mapping":{"actual":"/copied/a","expected":"b"},"output_as":"result"}],
	"returns":{"equal":"/result/equal"}}`

// activate brings the flow into service as two people do.
func activate(t *testing.T, a *App, doc string) *gen.FlowVersion {
	t.Helper()
	c := clientOf(t, a, "")
	tools, err := c.ApplyToolsWithBodyWithResponse(t.Context(), "application/yaml", strings.NewReader(payTools))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, tools.StatusCode(), string(tools.Body))
	made, err := c.SubmitProposalWithResponse(t.Context(), nil, gen.ProposalCreate{Flow: json.RawMessage(doc)})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, made.StatusCode(), string(made.Body))
	p := made.JSON201
	require.Equal(t, "/api/v1/proposals/"+p.ID, made.HTTPResponse.Header.Get("Location"))
	require.Equal(t, []any{gen.ProposalStateProposed, "local:tester"}, []any{p.State, p.Author})
	again, err := c.SubmitProposalWithResponse(t.Context(), nil, gen.ProposalCreate{Flow: json.RawMessage(doc)})
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, again.StatusCode())

	secret, _ := newKey(t, a, "person:reviewer", time.Time{}, "review", "promote", "read")
	reviewer := clientOf(t, a, secret) // the scopes of one key must be enough for each operation
	reviewed, err := reviewer.ReviewProposalWithResponse(t.Context(), p.ID, &gen.ReviewProposalParams{IfMatch: made.HTTPResponse.Header.Get("ETag")},
		gen.ReviewCreate{Verdict: gen.VerdictApprove, Digest: p.Digest})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, reviewed.StatusCode(), string(reviewed.Body))
	done, err := reviewer.PromoteProposalWithResponse(t.Context(), p.ID, &gen.PromoteProposalParams{IfMatch: reviewed.HTTPResponse.Header.Get("ETag")}, gen.PromoteRequest{})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, done.StatusCode(), string(done.Body))
	return done.JSON200
}

func TestSubmittedFlowIsDescribedToOthers(t *testing.T) {
	a := open(t, nil)
	v := activate(t, a, checkFlow)
	c := clientOf(t, a, "")
	ctx := t.Context()

	export, err := c.ExportFlowWithResponse(ctx, v.Name, v.Version, &gen.ExportFlowParams{For: gen.ExportFlowParamsForMcp})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, export.StatusCode(), string(export.Body))
	var tool struct{ Name, Description string }
	require.NoError(t, json.Unmarshal(export.Body, &tool))
	require.Equal(t, "check_both", tool.Name)
	require.Contains(t, tool.Description, "version=1.0.0; side_effects=none")
	bad, err := c.ExportFlowWithResponse(ctx, v.Name, v.Version, &gen.ExportFlowParams{For: gen.ExportFlowParamsForOpenai, As: "no dots.here"})
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, bad.StatusCode())

	capabilities, err := c.ListCapabilitiesWithResponse(ctx, &gen.ListCapabilitiesParams{})
	require.NoError(t, err)
	require.Len(t, capabilities.JSON200.Items, 1)
	item := capabilities.JSON200.Items[0]
	require.Equal(t, []any{"demo.check", gen.CapabilityKindFlow, "check_both", true}, []any{item.ID, item.Kind, item.Name, item.Safety.ReadOnly})
	require.Contains(t, string(item.InputSchema), `"required":["a","b"]`)

	schema, err := c.GetFlowSchemaWithResponse(ctx)
	require.NoError(t, err)
	require.JSONEq(t, string(flows.FormatSchema()), string(schema.Body))

	for format, want := range map[string]struct{ kind, text string }{
		"":        {"text/plain; charset=utf-8", "[passthrough] → [assert_equal]"},
		"mermaid": {"text/vnd.mermaid; charset=utf-8", "S_copy --> S_same"},
		"dot":     {"text/vnd.graphviz; charset=utf-8", "S_copy -> S_same;"},
		"svg":     {"image/svg+xml", "check_both@1.0.0"},
	} {
		drawn, err := c.GetFlowDiagramWithResponse(ctx, v.Name, v.Version, &gen.GetFlowDiagramParams{Format: gen.GetFlowDiagramParamsFormat(format)})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, drawn.StatusCode(), string(drawn.Body))
		require.Equal(t, want.kind, drawn.HTTPResponse.Header.Get("Content-Type"))
		require.Contains(t, string(drawn.Body), want.text)
	}
}

func TestRunsTeachAndAreMeasured(t *testing.T) {
	a := open(t, nil)
	v := activate(t, a, checkFlow)
	c := clientOf(t, a, "")
	ctx := t.Context()
	run := func(input string) *gen.Run {
		resp, err := c.RunFlowWithResponse(ctx, v.Name, &gen.RunFlowParams{}, gen.RunRequest{Input: json.RawMessage(input)})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode(), string(resp.Body))
		return resp.JSON200
	}
	good, bad := run(`{"a":1,"b":1}`), run(`{"a":1,"b":2}`)
	require.Equal(t, gen.RunStatusSucceeded, good.Status)
	require.Equal(t, gen.RunStatusFailed, bad.Status)

	drawn, err := c.GetRunDiagramWithResponse(ctx, bad.ID, &gen.GetRunDiagramParams{Format: "text"})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, drawn.StatusCode())
	require.Regexp(t, `(?m)^\[passthrough\] +✓`, string(drawn.Body))
	require.Regexp(t, `(?m)^\[assert_equal\] +✗.*CW-E006`, string(drawn.Body))

	lesson, err := c.GetRunLessonWithResponse(ctx, bad.ID)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, lesson.StatusCode(), string(lesson.Body))
	var l map[string]any
	require.NoError(t, json.Unmarshal(lesson.Body, &l))
	require.Equal(t, []any{false, "assert_equal", 1.0, "workflow"}, []any{l["succeeded"], l["failing_tool"], l["failing_step_index"], l["scope"]})

	profile, err := c.GetFlowProfileWithResponse(ctx, v.Name, &gen.GetFlowProfileParams{Version: v.Version})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, profile.StatusCode(), string(profile.Body))
	p := profile.JSON200
	require.Equal(t, []int{2, 1, 2}, []int{p.Runs, p.Failed, len(p.Steps)})
	require.Equal(t, []any{"assert_equal", 2, 1}, []any{p.Steps[1].ToolName, p.Steps[1].Records, p.Steps[1].Failed})

	for name, status := range map[string]func() (int, error){
		"lesson": func() (int, error) { r, err := c.GetRunLessonWithResponse(ctx, "none"); return r.StatusCode(), err },
		"diagram": func() (int, error) {
			r, err := c.GetRunDiagramWithResponse(ctx, "none", nil)
			return r.StatusCode(), err
		},
		"profile": func() (int, error) {
			r, err := c.GetFlowProfileWithResponse(ctx, "none", nil)
			return r.StatusCode(), err
		},
		"drawing": func() (int, error) {
			r, err := c.GetFlowDiagramWithResponse(ctx, "none", "1.0.0", nil)
			return r.StatusCode(), err
		},
	} {
		got, err := status()
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, got, name)
	}
}

func TestCompileReportsWhatDoesNotFit(t *testing.T) {
	a := open(t, nil)
	activate(t, a, checkFlow)
	c := clientOf(t, a, "")
	compile := func(media, doc string) *gen.CompileFlowResponse {
		resp, err := c.CompileFlowWithBodyWithResponse(t.Context(), media, strings.NewReader(doc))
		require.NoError(t, err)
		return resp
	}
	good := compile("application/json", checkFlow)
	require.Equal(t, http.StatusOK, good.StatusCode(), string(good.Body))
	require.True(t, good.JSON200.Ok)
	require.Contains(t, string(good.JSON200.InputSchema), `"a"`)

	bad := compile("application/yaml", "type: Flow\nname: f\ndescription: d\nsurprise: 1\nsteps:\n  - {tool_name: absent, on_error: 'fallback:gone'}\n")
	require.Equal(t, http.StatusOK, bad.StatusCode(), string(bad.Body))
	require.False(t, bad.JSON200.Ok)
	found := map[string]gen.Diagnostic{}
	for _, d := range bad.JSON200.Diagnostics {
		found[d.Code] = d
	}
	require.Equal(t, "/surprise", found["file_warning"].Pointer)
	require.Equal(t, []any{gen.DiagnosticSeverityError, "/steps/0/tool_name", "absent"},
		[]any{found["missing_tool"].Severity, found["missing_tool"].Pointer, found["missing_tool"].ToolName})

	unreadable := compile("application/yaml", "type: Chain\n")
	require.Equal(t, http.StatusBadRequest, unreadable.StatusCode())
	require.Contains(t, string(unreadable.Body), "/type")
	require.Equal(t, http.StatusUnsupportedMediaType, compile("text/plain", "x").StatusCode())
}

// A stream gives the events in order and then the run; a run that does not start is a problem as ever.
func TestRunStream(t *testing.T) {
	a := open(t, nil)
	v := activate(t, a, checkFlow)
	c := clientOf(t, a, "")
	resp, err := c.RunFlow(t.Context(), v.Name, &gen.RunFlowParams{Stream: true}, gen.RunRequest{Input: json.RawMessage(`{"a":1,"b":1}`)})
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "application/x-ndjson", resp.Header.Get("Content-Type"))
	var kinds []string
	var last gen.RunEvent
	for d := json.NewDecoder(resp.Body); d.More(); {
		last = gen.RunEvent{}
		require.NoError(t, d.Decode(&last))
		kinds = append(kinds, string(last.Kind))
	}
	require.Equal(t, []string{"flow_start", "step_start", "step_end", "step_start", "step_end", "flow_end", "run"}, kinds)
	require.Equal(t, gen.RunStatusSucceeded, last.Run.Status)
	kept, err := c.GetRunWithResponse(t.Context(), last.Run.ID)
	require.NoError(t, err)
	require.Equal(t, 2, kept.JSON200.StepsDone)

	none, err := c.RunFlowWithResponse(t.Context(), "none", &gen.RunFlowParams{Stream: true}, gen.RunRequest{Input: json.RawMessage(`{}`)})
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, none.StatusCode())
}

func TestExplainAndReplay(t *testing.T) {
	a := open(t, nil)
	v := activate(t, a, checkFlow)
	c := clientOf(t, a, "")
	ctx := t.Context()
	explained, err := c.ExplainFlowWithResponse(ctx, v.Name, v.Version)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, explained.StatusCode(), string(explained.Body))
	var x struct {
		Steps []struct {
			Calls  string
			Level  int
			Inputs []struct{ Target, Source string }
		}
	}
	require.NoError(t, json.Unmarshal(explained.Body, &x))
	require.Equal(t, []any{"tool assert_equal", 1, "context/copied/a"}, []any{x.Steps[1].Calls, x.Steps[1].Level, x.Steps[1].Inputs[0].Source})

	run, err := c.RunFlowWithResponse(ctx, v.Name, &gen.RunFlowParams{}, gen.RunRequest{Input: json.RawMessage(`{"a":1,"b":2}`)})
	require.NoError(t, err)
	for _, body := range []gen.ReplayRequest{{}, {Mode: gen.ReplayRequestModeVerify}, {Mode: gen.ReplayRequestModeReuse, FromStep: 1}} {
		replayed, err := c.ReplayRunWithResponse(ctx, run.JSON200.ID, body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, replayed.StatusCode(), string(replayed.Body))
		require.True(t, replayed.JSON200.Match, "a failed run replays as one that fails alike: %s", replayed.Body)
	}
	runs, err := c.ListRunsWithResponse(ctx, &gen.ListRunsParams{})
	require.NoError(t, err)
	require.Len(t, runs.JSON200.Items, 1, "replays are not runs")

	// A tool that may change something is not called again.
	changed := strings.Replace(builtinTools, "safety: {side_effects: none}", "safety: {side_effects: write}", 1)
	applied, err := c.ApplyToolsWithBodyWithResponse(ctx, "application/yaml", strings.NewReader(changed))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, applied.StatusCode())
	refused, err := c.ReplayRunWithResponse(ctx, run.JSON200.ID, gen.ReplayRequest{})
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, refused.StatusCode())
	require.Contains(t, string(refused.Body), "passthrough")
	none, err := c.ReplayRunWithResponse(ctx, "none", gen.ReplayRequest{})
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, none.StatusCode())
}
