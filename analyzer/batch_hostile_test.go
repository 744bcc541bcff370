package analyzer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
	"pave/observer"
)

// kept keeps what each tool was called with.
type kept struct{ calls []map[string]any }

func (e *kept) Invoke(_ context.Context, _ *flows.Tool, input map[string]any, _ executor.CallInfo) (any, error) {
	e.calls = append(e.calls, input)
	return map[string]any{"ok": true}, nil
}

// TestBatchOddArguments: whatever arguments are called, the flow that is written down and read again passes each under its own
// name.
func TestBatchOddArguments(t *testing.T) {
	odd := []string{"None", "and", "in", "not", "true", "a.b", "a/b", "b", "a~b", "x:", "été", "$expr", "$ref", "?", "opt?", "a b", `q"t`, "second_call", "second", "_", "0"}
	args := slices.Clone(odd)
	for i := range 300 {
		args = append(args, "arg"+strconv.Itoa(i))
	}
	properties := value.Members{}
	for _, name := range args {
		properties = append(properties, value.Member{Key: name, Value: value.Members{{Key: "type", Value: "string"}}})
	}
	in := flows.RawSchema(value.Encode(value.Members{{Key: "type", Value: "object"}, {Key: "properties", Value: properties}}))
	first, second := *tool("a.second", "", object("ok:boolean"), flows.EffectRead), *tool("b/second", "", object("ok:boolean"), flows.EffectRead)
	first.InputSchema, second.InputSchema = in, in

	p := observer.Pattern{Tools: []string{"a.second", "b/second"}, Occurrences: 9, Sessions: 9, Success: 1, Batch: &observer.Batch{Examined: 9, Several: 9, Whole: 9}}
	p.DataFlow = &observer.DataFlow{Sampled: 9, Explained: 9, Steps: make([]observer.StepFlow, 2)}
	for _, name := range args {
		p.DataFlow.Steps[0].Args = append(p.DataFlow.Steps[0].Args, observer.ArgFlow{Arg: name, Presence: 1, Kind: observer.SourceInput, Input: name})
		p.DataFlow.Steps[1].Args = append(p.DataFlow.Steps[1].Args, observer.ArgFlow{Arg: name, Presence: 1, Kind: observer.SourceInput, Input: "second_call_2", Pointer: "/" + value.Escape(name)})
		p.DataFlow.Inputs = append(p.DataFlow.Inputs, observer.Input{Name: name, Arg: name, Required: true})
	}
	p.DataFlow.Inputs = append(p.DataFlow.Inputs, observer.Input{Name: "second_call_2", Step: 1, Calls: true})
	candidates, dropped := minedOnly(t, p, nil, &first, &second)
	require.Empty(t, dropped)
	require.Len(t, candidates, 1)

	text, err := flows.EncodeFlow(candidates[0].Flow, flows.FormatJSON)
	require.NoError(t, err)
	flow, _, err := flows.ParseFlow(text)
	require.NoError(t, err)
	plan, found := executor.Compile(flow, executor.Tools{"a.second": &first, "b/second": &second}, executor.CompileOptions{})
	require.NotNil(t, plan, "%v", found)
	input, call := map[string]any{}, map[string]any{}
	want := []map[string]any{{}, {}}
	for i, name := range args {
		input[name], want[0][name] = fmt.Sprint("one ", i), fmt.Sprint("one ", i)
		call[name], want[1][name] = fmt.Sprint("two ", i), fmt.Sprint("two ", i)
	}
	input["second_call_2"] = call
	e := &kept{}
	result := executor.New(executor.Options{Invoker: e, Now: time.Now, NewID: func() string { return "1" }}).Run(t.Context(), plan, executor.RunInput{Input: input})
	require.True(t, result.Success, "%+v", result)
	require.Equal(t, want, e.calls)
}
