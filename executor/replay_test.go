package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

func TestReplay(t *testing.T) {
	b := newBench(t)
	answer, calls := "x", 0
	b.tool("look", "", "", func(context.Context, map[string]any) (any, error) {
		calls++
		return map[string]any{"v": answer, "n": 1.0}, nil
	})
	b.tool("use", "", "", echo)
	plan := b.plan("on_context_collision: overwrite\nsteps:\n\t- {tool_name: look}\n\t- {tool_name: use, input_mapping: {v: v}}\n")
	engine := executor.New(b.opts)
	recorded := engine.Run(context.Background(), plan, executor.RunInput{Input: map[string]any{"in": 1.0}})
	report, err := engine.Replay(context.Background(), plan, recorded, executor.ReplayOptions{})
	require.NoError(t, err)
	assert.True(t, report.Match)
	assert.Empty(t, report.Diffs)
	assert.Equal(t, 2, calls)

	answer = "y"
	report, err = engine.Replay(context.Background(), plan, recorded, executor.ReplayOptions{})
	require.NoError(t, err)
	assert.False(t, report.Match)
	assert.Equal(t, []executor.StepDiff{
		{StepIndex: 0, ToolName: "look", Field: "outputs.v", Expected: "x", Actual: "y"},
		{StepIndex: 1, ToolName: "use", Field: "outputs.v", Expected: "x", Actual: "y"},
		{StepIndex: -1, ToolName: "f", Field: "final_output.v", Expected: "x", Actual: "y"}}, report.Diffs)
	report, err = engine.Replay(context.Background(), plan, recorded, executor.ReplayOptions{SkipCompare: true})
	require.NoError(t, err)
	assert.Empty(t, report.Diffs)

	report, err = engine.Replay(context.Background(), plan, recorded, executor.ReplayOptions{ReuseBefore: 1})
	require.NoError(t, err)
	assert.True(t, report.Match, "%v", report.Diffs)
	assert.Equal(t, 4, calls, "the recorded output stands in for the call")

	longer := *recorded
	longer.ExecutionLog = append(longer.ExecutionLog[:2:2], executor.StepRecord{StepIndex: 2, ToolName: "ghost", Success: true})
	report, err = engine.Replay(context.Background(), plan, &longer, executor.ReplayOptions{ReuseBefore: 1})
	require.NoError(t, err)
	assert.Equal(t, []executor.StepDiff{{StepIndex: 2, ToolName: "ghost", Field: "record", Expected: "present"}}, report.Diffs)
	shorter := *recorded
	shorter.ExecutionLog = shorter.ExecutionLog[:1]
	report, err = engine.Replay(context.Background(), plan, &shorter, executor.ReplayOptions{ReuseBefore: 1})
	require.NoError(t, err)
	assert.Equal(t, []executor.StepDiff{{StepIndex: 1, ToolName: "use", Field: "record", Actual: "present"}}, report.Diffs)

	shorter.FlowVersion = "2.0.0"
	_, err = engine.Replay(context.Background(), plan, &shorter, executor.ReplayOptions{})
	assert.Equal(t, flows.CodeConflict, flows.CodeOf(err))
	b.tools["use"].Safety = nil
	unknown := b.plan("steps:\n\t- {tool_name: use}\n")
	_, err = engine.Replay(context.Background(), unknown, recorded, executor.ReplayOptions{})
	assert.Equal(t, flows.CodeForbidden, flows.CodeOf(err))
	assert.Contains(t, err.Error(), "use")
	_, err = engine.Replay(context.Background(), unknown, recorded, executor.ReplayOptions{Force: true})
	assert.NoError(t, err)
}

// TestReplayFollowsDecisions: also those within flows that steps call.
func TestReplayFollowsDecisions(t *testing.T) {
	b := newBench(t)
	b.tool("s", "", "", returns(map[string]any{"v": "s"}))
	b.tool("l", "", "", returns(map[string]any{"v": "l"}))
	n := 0
	b.opts.Decider = deciderFunc(func(context.Context, executor.DecisionRequest) (string, error) {
		n++
		return []string{"s", "l"}[n%2], nil
	})
	const step = "steps:\n\t- {tool_name: s, decision_candidates: [s, l], output_as: a}\n"
	set := flowSet{"in": b.named("in", step)}
	plan, _ := b.composed(set, step+"\t- {flow_name: in, input_mapping: {k: {$const: 1}}, output_as: b}\n\t- {flow_name: in, for_each: {$const: [1, 2, 3]}, as: x, input_mapping: {k: x}, output_as: c}\n")
	engine := executor.New(b.opts)
	recorded := engine.Run(context.Background(), plan, executor.RunInput{})
	require.True(t, recorded.Success, "%+v", recorded.ExecutionLog)
	require.Equal(t, 5, n)
	report, err := engine.Replay(context.Background(), plan, recorded, executor.ReplayOptions{})
	require.NoError(t, err)
	assert.True(t, report.Match, "%v", report.Diffs)
	assert.Equal(t, 5, n, "nobody is asked again")
}

func TestExplain(t *testing.T) {
	b := newBench(t)
	b.tool("user", `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`, `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`, echo)
	flow := b.flow("input_schema: {type: object, properties: {id: {type: string}}, required: [id]}\nsteps:\n\t- {tool_name: user, guard: 'id != \"\"', input_mapping: {id: id}, output_as: u}\n" +
		"\t- {tool_name: user, for_each: {$const: [a]}, as: x, input_mapping: {id: {$expr: 'x'}, a: /u/nope, b: {$const: [1]}, c: {$optional: id}}, on_error: skip, output_mapping: {n: name}}\nreturns: {r: n}\n")
	plan, found := executor.Compile(flow, b.tools, executor.CompileOptions{})
	require.NotNil(t, plan)
	got, err := json.Marshal(executor.Explain(plan, found).Steps[1])
	require.NoError(t, err)
	assert.JSONEq(t, `{"step_index":1,"level":1,"calls":"tool user","for_each":{"target":"x","source":"literal([\"a\"])"},
		"inputs":[{"target":"id","source":"expr(x)"},{"target":"a","source":"context/u/nope (UNRESOLVED)"},{"target":"b","source":"literal([1])"},{"target":"c","source":"optional context['id']"}],
		"input_shape":[{"name":"id","type":"string","required":true}],"output_shape":[{"name":"name","type":"string","required":true}],
		"merges":"'name' as 'n'","on_error":"skip","unresolved":["/u/nope"],"side_effects":"none","requires_approval":false}`, string(got))
	e := executor.Explain(plan, found)
	assert.Equal(t, "partial", e.DeterminismLevel, "a guard may hand the run back")
	assert.Equal(t, []executor.Shape{{Name: "id", Type: "string", Required: true}}, e.Input)
	assert.Equal(t, []executor.InputSource{{Target: "r", Source: "context['n']"}}, e.Output)
	assert.Len(t, e.Warnings, len(found))

	flow = b.flow("input_schema: {type: object, properties: {id: {type: string}}, required: [id]}\nsteps:\n\t- {tool_name: user, input_mapping: {id: id, no_arguments: {$optional: u}}, output_as: u}\n")
	plan, found = executor.Compile(flow, b.tools, executor.CompileOptions{})
	require.NotNil(t, plan, "%v", found)
	assert.Equal(t, []executor.InputSource{{Target: "id", Source: "context['id']"}}, executor.Explain(plan, found).Steps[0].Inputs, "what is never given is no input")
}

func TestAttest(t *testing.T) {
	b := newBench(t)
	n := 0
	b.tool("same", valueInt, valueInt, echo)
	b.tool("odd", valueInt, "", func(_ context.Context, in map[string]any) (any, error) {
		n++
		return map[string]any{"n": n}, nil
	})
	const schema = "input_schema: {type: object, properties: {value: {type: integer, minimum: 3, maximum: 9}, s: {type: string, minLength: 2}, l: {type: array, items: {enum: [a, b]}}}, required: [value, s]}\n"
	engine := executor.New(b.opts)
	plan := b.plan(schema + "steps:\n\t- {tool_name: same, input_mapping: {value: value}, output_as: o}\n")
	a, err := engine.Attest(context.Background(), plan, executor.AttestOptions{N: 20, Repeats: 2, Seed: 7, Inputs: []map[string]any{{"value": 3, "s": "given"}}})
	require.NoError(t, err)
	assert.True(t, a.ObservedDeterministic, "%+v", a.Divergences)
	assert.Equal(t, 20, a.Inputs)
	again, err := engine.Attest(context.Background(), plan, executor.AttestOptions{N: 20, Repeats: 2, Seed: 7, Inputs: []map[string]any{{"value": 3, "s": "given"}}})
	require.NoError(t, err)
	assert.Equal(t, a.AggregateFingerprint, again.AggregateFingerprint, "the same seed makes the same inputs")
	other, err := engine.Attest(context.Background(), plan, executor.AttestOptions{N: 20, Repeats: 2, Seed: 8})
	require.NoError(t, err)
	assert.NotEqual(t, a.AggregateFingerprint, other.AggregateFingerprint)

	a, err = engine.Attest(context.Background(), b.plan(schema+"steps:\n\t- {tool_name: same, input_mapping: {value: value}, output_as: o}\n\t- {tool_name: odd, input_mapping: {value: value}}\n"), executor.AttestOptions{N: 2})
	require.NoError(t, err)
	assert.False(t, a.ObservedDeterministic)
	require.Len(t, a.Divergences, 2)
	assert.Equal(t, 1, a.Divergences[0].DivergingStep)
	assert.Contains(t, a.Divergences[0].ErrorMessage, "runs differ in outputs.n: 1, then 2")

	for _, tc := range []struct {
		flow string
		o    executor.AttestOptions
		code flows.Code
	}{
		{"input_schema_ref: 'm:In'\nsteps: []\n", executor.AttestOptions{}, flows.CodeInvalid},
		{schema + "steps: []\n", executor.AttestOptions{Repeats: 1}, flows.CodeInvalid},
	} {
		_, err := engine.Attest(context.Background(), b.plan(tc.flow), tc.o)
		assert.Equal(t, tc.code, flows.CodeOf(err))
	}
	b.tools["same"].Safety = nil
	_, err = engine.Attest(context.Background(), b.plan(schema+"steps:\n\t- {tool_name: same}\n"), executor.AttestOptions{})
	assert.Equal(t, flows.CodeForbidden, flows.CodeOf(err))
}

func TestStream(t *testing.T) {
	b := newBench(t)
	b.tool("t", "", "", echo)
	plan := b.plan("on_context_collision: overwrite\nsteps:\n\t- {tool_name: t}\n\t- {tool_name: t}\n")
	engine := executor.New(b.opts)
	events, result := engine.Stream(context.Background(), plan, executor.RunInput{}, 0)
	var got []string
	for ev := range events {
		got = append(got, fmt.Sprintf("%s %d", ev.Kind, ev.StepIndex))
	}
	assert.Equal(t, []string{"flow_start 0", "step_start 0", "step_end 0", "step_start 1", "step_end 1", "flow_end 0"}, got)
	assert.True(t, result().Success)

	// A listener that goes away ends the run, which does not wait for it.
	b.tool("waits", "", "", func(ctx context.Context, _ map[string]any) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	plan = b.plan("on_context_collision: overwrite\nsteps:\n\t- {tool_name: t}\n\t- {tool_name: waits}\n")
	ctx, cancel := context.WithCancel(context.Background())
	events, result = engine.Stream(ctx, plan, executor.RunInput{}, 1)
	<-events
	cancel()
	assert.Equal(t, executor.StatusCancelled, result().Status)
	for range events {
	}
}
