package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

// flowSet finds flows by name and "name@version".
type flowSet map[string]*flows.Flow

func (s flowSet) Flow(name, version string) (*flows.Flow, bool) {
	if version != "" {
		name += "@" + version
	}
	f, ok := s[name]
	return f, ok
}

// named is a flow file with another name.
func (b *bench) named(name, text string) *flows.Flow {
	f := *b.flow(text)
	f.Name = name
	return &f
}

func (b *bench) composed(set flowSet, text string) (*executor.Plan, []executor.Diagnostic) {
	return executor.Compile(b.flow(text), b.tools, executor.CompileOptions{Flows: set})
}

func (b *bench) runComposed(set flowSet, text string, in executor.RunInput) *executor.RunResult {
	b.t.Helper()
	plan, found := b.composed(set, text)
	require.NotNil(b.t, plan, "%v", found)
	return executor.New(b.opts).Run(context.Background(), plan, in)
}

func TestSubflowVersionsAndIdentity(t *testing.T) {
	b := newBench(t)
	var calls []string
	b.opts.Invoker = invokerFunc(func(_ context.Context, tool *flows.Tool, _ map[string]any, c executor.CallInfo) (any, error) {
		calls = append(calls, fmt.Sprintf("%s %s %s %d", tool.Name, c.RunID, c.Path, c.StepIndex))
		return map[string]any{"v": tool.Name}, nil
	})
	b.tool("old", "", "", nil)
	b.tool("new", "", "", nil)
	set := flowSet{"in": b.named("in", "steps:\n\t- {tool_name: new}\n"), "in@0.1.0": b.named("in", "steps:\n\t- {tool_name: old}\n")}
	set["in@0.1.0"].Version = "0.1.0"
	var events []string
	r := b.runComposed(set, "steps:\n\t- {flow_name: in, output_as: a}\n\t- {flow_name: in@0.1.0, output_as: b}\n", executor.RunInput{RunID: "R", OnEvent: func(e executor.Event) {
		events = append(events, fmt.Sprintf("%s:%s", e.Kind, e.FlowName))
	}})
	require.True(t, r.Success, "%+v", r.ExecutionLog)
	assert.Equal(t, map[string]any{"a": map[string]any{"v": "new"}, "b": map[string]any{"v": "old", "a": map[string]any{"v": "new"}}}, r.FinalOutput)
	assert.Equal(t, []string{"new R 0/0 0", "old R 1/0 0"}, calls, "paths tell the calls of inner runs apart")
	assert.Equal(t, "in", *r.ExecutionLog[1].FlowName)
	assert.Equal(t, "in", r.ExecutionLog[1].ToolName)
	assert.NotEqual(t, r.TraceID, r.ExecutionLog[0].SubResult.TraceID)
	inner := "step_start:f flow_start:in step_start:in step_end:in flow_end:in step_end:f"
	assert.Equal(t, "flow_start:f "+inner+" "+inner+" flow_end:f", strings.Join(events, " "))
}

type invokerFunc func(context.Context, *flows.Tool, map[string]any, executor.CallInfo) (any, error)

func (f invokerFunc) Invoke(ctx context.Context, tool *flows.Tool, in map[string]any, c executor.CallInfo) (any, error) {
	return f(ctx, tool, in, c)
}

func TestSubflowRetryAndRescue(t *testing.T) {
	b := newBench(t)
	n := 0
	b.tool("flaky", "", "", func(context.Context, map[string]any) (any, error) {
		if n++; n < 3 {
			return nil, &executor.ToolError{Class: executor.ClassIO, Message: "down"}
		}
		return map[string]any{"n": int64(n)}, nil
	})
	b.tool("bad", "", "", fails(errors.New("no")))
	b.tool("spare", "", "", echo)
	set := flowSet{"in": b.named("in", "steps:\n\t- {tool_name: flaky}\n"), "bad": b.named("bad", "steps:\n\t- {tool_name: bad}\n"),
		"shut": b.named("shut", "status: disabled\nsteps: []\n"), "guarded": b.named("guarded", "steps:\n\t- {tool_name: bad, guard: '1 == 2'}\n")}
	r := b.runComposed(set, "steps:\n\t- {flow_name: in, retry: {max_retries: 2, backoff_seconds: 0, retryable_errors: [io]}}\n", executor.RunInput{})
	require.True(t, r.Success)
	assert.Equal(t, 2, r.ExecutionLog[0].RetryCount)
	assert.Equal(t, []string{"Sub-flow 'in' failed.", "Sub-flow 'in' failed."}, r.ExecutionLog[0].RetryErrors)
	assert.Equal(t, map[string]any{"n": int64(3)}, r.FinalOutput)

	r = b.runComposed(set, "steps:\n\t- {flow_name: bad, on_error: skip}\n\t- {flow_name: bad, on_error: 'fallback:spare', input_mapping: {k: {$const: 1}}}\n", executor.RunInput{})
	require.True(t, r.Success)
	assert.True(t, r.ExecutionLog[0].Skipped)
	assert.False(t, r.ExecutionLog[0].SubResult.Success)
	assert.True(t, r.ExecutionLog[1].FallbackUsed)
	assert.Equal(t, map[string]any{"k": int64(1)}, r.FinalOutput)

	r = b.runComposed(set, "steps:\n\t- {flow_name: shut}\n", executor.RunInput{})
	assert.Contains(t, code(r.ExecutionLog[0]), "CW-E006 Sub-flow 'shut' was refused: CW-E011 Flow 'shut' has status 'disabled'")
	assert.Nil(t, r.ExecutionLog[0].SubResult)

	r = b.runComposed(set, "steps:\n\t- {flow_name: guarded}\n", executor.RunInput{})
	assert.Equal(t, "CW-E006 Sub-flow 'guarded' was handed back: guard is false: 1 == 2", code(r.ExecutionLog[0]))
}

func TestCancelledInASubflow(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(context.Background())
	b.tool("t", "", "", func(ctx context.Context, _ map[string]any) (any, error) { cancel(); return nil, ctx.Err() })
	plan, _ := b.composed(flowSet{"in": b.named("in", "steps:\n\t- {tool_name: t}\n")}, "steps:\n\t- {flow_name: in, on_error: skip}\n\t- {tool_name: t}\n")
	r := executor.New(b.opts).Run(ctx, plan, executor.RunInput{})
	assert.Equal(t, executor.StatusCancelled, r.Status)
	require.Len(t, r.ExecutionLog, 1)
	assert.Equal(t, "CW-E012", cw(r.ExecutionLog[0]))
	assert.Equal(t, executor.StatusCancelled, r.ExecutionLog[0].SubResult.Status)
}

func TestCompositionDiagnostics(t *testing.T) {
	b := newBench(t)
	b.tool("t", valueInt, `{"type":"object","properties":{"r":{"type":"integer"}},"required":["r"]}`, echo)
	b.tool("text", `{"type":"object","properties":{"s":{"type":"string"}},"required":["s"]}`, valueInt, echo)
	declared := "input_schema: {type: object, properties: {n: {type: integer}}, required: [n], additionalProperties: false}\n"
	set := flowSet{
		"typed":    b.named("typed", declared+"steps:\n\t- {tool_name: t, input_mapping: {value: n}, output_as: o}\nreturns: {r: /o/r}\n"),
		"open":     b.named("open", "steps:\n\t- {tool_name: t, input_mapping: {value: n}}\n"),
		"broken":   b.named("broken", declared+"steps:\n\t- {tool_name: ghost}\n"),
		"disabled": b.named("disabled", declared+"status: disabled\nsteps: []\n"),
		"f":        b.named("f", "steps: []\n"),
		"loop":     b.named("loop", "steps:\n\t- {flow_name: loop}\n"),
	}
	for _, tc := range []struct {
		flow string
		want []string
	}{
		{"\t- {flow_name: typed, input_mapping: {n: n}, output_as: o}\n\t- {tool_name: t, input_mapping: {value: /o/r}, output_as: p}\n", nil},
		{"\t- {flow_name: typed, input_mapping: {m: n}, output_as: o}\n\t- {tool_name: text, input_mapping: {s: /o/r}, output_as: p}\n\t- {tool_name: t, input_mapping: {value: /o/n}, output_as: q}\n", []string{
			"error unknown_target_key /steps/0/input_mapping/m m", "error missing_required_input /steps/0/input_mapping n",
			"error type_mismatch /steps/1/input_mapping/s s", "error missing_mapping_key /steps/2/input_mapping/value /o/n"}},
		{"\t- {flow_name: open, input_mapping: {n: n, m: n}}\n\t- {tool_name: t, input_mapping: {value: m}, output_as: p}\n", []string{
			"error unknown_target_key /steps/0/input_mapping/m m", "warning context_collision /steps/0 n"}},
		{"\t- {flow_name: broken, input_mapping: {n: n}, output_as: o}\n", []string{"error composition_error /steps/0/flow_name "}},
		{"\t- {flow_name: disabled, input_mapping: {n: n}, output_as: o}\n", []string{"error composition_error /steps/0/flow_name "}},
		{"\t- {tool_name: t, input_mapping: {value: n}, output_as: o}\n\t- {flow_name: ghost}\n", []string{"error composition_error /steps/1/flow_name unknown_flow"}},
		{"\t- {flow_name: f@1.0.0}\n", []string{"error composition_error /steps/0/flow_name unknown_flow"}},
		{"\t- {flow_name: f}\n", []string{"error composition_error /steps/0/flow_name cycle"}},
		{"\t- {flow_name: loop}\n", []string{"error composition_error /steps/0/flow_name cycle"}},
	} {
		_, found := b.composed(set, strings.Replace(declared, ", additionalProperties: false", "", 1)+"steps:\n"+tc.flow)
		var got []string
		for _, d := range found {
			got = append(got, fmt.Sprintf("%s %s %s %s", d.Severity, d.IssueType, d.Pointer, d.FieldName))
		}
		assert.Equal(t, tc.want, got, tc.flow)
	}
}

// TestDiamondsAreWalkedOnce: twenty levels of two calls each are a million ways.
func TestDiamondsAreWalkedOnce(t *testing.T) {
	b := newBench(t)
	set := flowSet{}
	for i := range 20 {
		body := "steps: []\n"
		if i > 0 {
			body = fmt.Sprintf("steps:\n\t- {flow_name: d%d}\n\t- {flow_name: d%d}\n", i-1, i-1)
		}
		set[fmt.Sprint("d", i)] = b.named(fmt.Sprint("d", i), body)
	}
	require.NoError(t, executor.CheckComposition(set["d19"], set, 19))
	err := executor.CheckComposition(set["d19"], set, 18)
	var ce *executor.CompositionError
	require.ErrorAs(t, err, &ce)
	assert.Equal(t, executor.CompositionTooDeep, ce.Reason)
	assert.True(t, strings.HasSuffix(ce.Detail, "-> d1 -> d0"), ce.Detail)
	plan, _ := executor.Compile(set["d19"], b.tools, executor.CompileOptions{Flows: set, MaxCompositionDepth: 19})
	assert.NotNil(t, plan)
}
