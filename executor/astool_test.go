package executor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

func TestAsTool(t *testing.T) {
	b := newBench(t)
	const text = `{"type":"object","properties":{"s":{"type":"string"}}}`
	b.tool("in", valueInt, text, returns(map[string]any{"s": "x"}))
	b.tool("out", text, valueInt, returns(map[string]any{"value": 7})).Safety = &flows.SafetyContract{SideEffects: flows.EffectWrite}
	plan := b.plan("steps:\n\t- {tool_name: in}\n\t- {tool_name: out}\n")
	tool, err := executor.AsTool(plan, flows.Tool{})
	require.NoError(t, err)
	assert.Equal(t, "f", tool.Name)
	assert.Equal(t, "d", tool.Description)
	assert.JSONEq(t, valueInt, string(tool.InputSchema))
	assert.JSONEq(t, valueInt, string(tool.OutputSchema))
	assert.Equal(t, flows.EffectWrite, tool.Safety.SideEffects)

	tool, err = executor.AsTool(plan, flows.Tool{Name: "n", OutputSchema: flows.RawSchema(text), Safety: &flows.SafetyContract{SideEffects: flows.EffectRead}})
	require.NoError(t, err)
	assert.Equal(t, "n", tool.Name)
	assert.JSONEq(t, text, string(tool.OutputSchema))
	assert.Equal(t, flows.EffectRead, tool.Safety.SideEffects)

	sinks, _ := b.dagPlan("steps:\n\t- {step_id: A, tool_name: in, output_as: a}\n\t- {step_id: B, tool_name: in, output_as: b}\n")
	for _, plan := range []*executor.Plan{sinks, b.plan("steps: []\n")} {
		_, err = executor.AsTool(plan, flows.Tool{})
		assert.ErrorIs(t, err, flows.CWToolDefinition)
		assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
	}
}

func TestFlowInvoker(t *testing.T) {
	b := newBench(t)
	b.tool("ok", "", "", returns(map[string]any{"v": 1}))
	b.tool("bad", "", "", fails(errors.New("no")))
	plans := map[string]*executor.Plan{"good": b.plan("steps:\n\t- {tool_name: ok}\n"), "worse": b.plan("steps:\n\t- {tool_name: ok}\n\t- {tool_name: bad}\n")}
	invoker := &executor.FlowInvoker{Engine: executor.New(b.opts), Plan: func(_ context.Context, name string) (*executor.Plan, error) {
		if p, ok := plans[name]; ok {
			return p, nil
		}
		return nil, errors.New("no such flow")
	}}
	call := func(name string) (any, error) {
		return invoker.Invoke(context.Background(), &flows.Tool{Name: "t", Binding: &flows.Binding{Kind: executor.KindFlow, Tool: name}}, nil, executor.CallInfo{RunID: "r"})
	}
	out, err := call("good")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"v": int64(1)}, out)
	_, err = call("worse")
	assert.EqualError(t, err, "flow 'worse' failed at step 1: Execution error in tool 'bad' at step 1: no")
	_, err = call("ghost")
	assert.EqualError(t, err, "no such flow")
}
