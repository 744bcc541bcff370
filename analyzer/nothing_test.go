package analyzer

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/observer"
)

// TestCallsWithoutArguments: a later step that takes no arguments is called with none, whatever its tool's schema says; the
// context, which has a key of the same name as an argument of the tool, does not reach it.
func TestCallsWithoutArguments(t *testing.T) {
	for name, schema := range map[string]string{
		"no schema":                     "",
		"a schema that says nothing":    `{}`,
		"an object of anything":         `{"type":"object"}`,
		"no arguments, others dropped":  object(),
		"no arguments, others refused":  `{"type":"object","properties":{},"additionalProperties":false}`,
		"an argument that is left out":  object("room?"),
		"others kept":                   `{"type":"object","properties":{},"additionalProperties":true}`,
		"arguments that are not listed": `{"anyOf":[{"type":"object","properties":{"room":{"type":"string"}}},{"type":"object"}]}`,
	} {
		for kind, batch := range map[string]*observer.Batch{"path": nil, "batch": {Examined: 9, Several: 9, Whole: 9}} {
			t.Run(kind+" "+name, func(t *testing.T) {
				run(t, batch, tool("ping", schema, object("pong"), flows.EffectRead))
			})
		}
	}
}

// run mines room.find > ping and runs the flow; what the second tool was called with must be nothing.
func run(t *testing.T, batch *observer.Batch, bell *flows.Tool) {
	t.Helper()
	p := observer.Pattern{Tools: []string{"room.find", "ping"}, Occurrences: 40, Sessions: 30, Success: 1, Score: 36, Batch: batch,
		DataFlow: &observer.DataFlow{Sampled: 9, Explained: 9, Applicable: 9, Inputs: []observer.Input{{Name: "room", Arg: "room", Required: true}},
			Steps: []observer.StepFlow{{Args: []observer.ArgFlow{{Arg: "room", Presence: 1, Kind: observer.SourceInput, Input: "room"}}}, {}}}}
	input := map[string]any{"room": "r"}
	if batch != nil {
		p.DataFlow.Inputs = append(p.DataFlow.Inputs, observer.Input{Name: "ping_call", Step: 1, Calls: true})
		input["ping_call"] = map[string]any{}
	}
	candidates, dropped := minedOnly(t, p, nil, findRoom, bell)
	require.Empty(t, dropped)
	plan, found := executor.Compile(candidates[0].Flow, executor.Tools{"room.find": findRoom, "ping": bell}, executor.CompileOptions{})
	require.NotNil(t, plan, "%v", found)
	n, ids := &noted{}, 0
	engine := executor.New(executor.Options{Invoker: n, Now: time.Now, NewID: func() string { ids++; return strconv.Itoa(ids) },
		Limits: executor.Limits{MaxParallelSteps: 1}})
	result := engine.Run(t.Context(), plan, executor.RunInput{Input: input})
	require.True(t, result.Success, "%+v", result)
	assert.Equal(t, []map[string]any{{"tool": "room.find", "room": "r"}, {"tool": "ping"}}, n.calls)

	raw, err := flows.EncodeFlow(candidates[0].Flow, flows.FormatYAML)
	require.NoError(t, err)
	again, _, err := flows.ParseFlow(raw)
	require.NoError(t, err)
	assert.True(t, again.Steps[1].WithoutArguments(), "the file says so: %s", raw)
}
