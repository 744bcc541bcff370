package local

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
)

func TestBuiltins(t *testing.T) {
	registry := New()
	tools := executor.Tools{}
	for _, tool := range Builtins() {
		tools[tool.Name] = tool
	}
	require.Len(t, tools, len(registry.Names()))
	engine := executor.New(executor.Options{Invoker: executor.NewMux(map[string]executor.Invoker{Kind: registry}),
		Now: func() time.Time { return time.Time{} }, NewID: func() string { return "id" }})
	cases := []struct{ tool, input, want, err string }{
		{"passthrough", `{"a":[1]}`, `{"a":[1]}`, ""},
		{"json_pluck", `{"document":{"a":[{"b":null}]},"pointer":"/a/0/b"}`, `{"result":null}`, ""},
		{"json_pluck", `{"document":[1],"pointer":""}`, `{"result":[1]}`, ""},
		{"json_pluck", `{"document":[1],"pointer":"/01"}`, "", "pointer_not_found"},
		{"json_pluck", `{"document":[1],"pointer":"a"}`, "", "invalid_pointer"},
		{"json_set", `{"document":{"a":[{"b":1},2]},"pointer":"/a/0/b","value":{"x":1}}`, `{"result":{"a":[{"b":{"x":1}},2]}}`, ""},
		{"json_set", `{"document":{},"pointer":"/new","value":1}`, `{"result":{"new":1}}`, ""},
		{"json_set", `{"document":[1],"pointer":"/-","value":2}`, `{"result":[1,2]}`, ""},
		{"json_set", `{"document":1,"pointer":"","value":2}`, `{"result":2}`, ""},
		{"json_set", `{"document":{},"pointer":"/no/parent","value":1}`, "", "pointer_not_found"},
		{"json_set", `{"document":[1],"pointer":"/1","value":1}`, "", "pointer_not_found"},
		{"json_set", `{"document":"s","pointer":"/a","value":1}`, "", "pointer_not_found"},
		{"assert_equal", `{"actual":{"a":1,"b":2.0},"expected":{"b":2,"a":1.0}}`, `{"equal":true}`, ""},
		{"assert_equal", `{"actual":"1","expected":1}`, "", "assertion_failed"},
	}
	for _, tc := range cases {
		flow := &flows.Flow{Type: flows.TypeFlow, Name: "f", Steps: []flows.Step{{ToolName: tc.tool, OutputAs: "out"}}}
		plan, found := executor.Compile(flow, tools, executor.CompileOptions{})
		require.NotNil(t, plan, "%v", found)
		input, err := value.Decode([]byte(tc.input))
		require.NoError(t, err)
		r := engine.Run(context.Background(), plan, executor.RunInput{Input: input.(map[string]any)})
		if tc.err != "" {
			require.False(t, r.Success, tc.input)
			assert.Contains(t, *r.ExecutionLog[0].ErrorMessage, "["+tc.err+"]")
			continue
		}
		require.True(t, r.Success, "%s: %+v", tc.input, r.ExecutionLog)
		got, err := json.Marshal(r.ExecutionLog[0].Outputs)
		require.NoError(t, err)
		assert.JSONEq(t, tc.want, string(got))
		assert.Equal(t, string(value.Encode(input)), string(value.Encode(map[string]any(r.ExecutionLog[0].Inputs))), "documents are not changed")
	}
}

func TestRegistry(t *testing.T) {
	r := New()
	boom := errors.New("boom")
	r.Register("slow", func(context.Context, map[string]any) (any, error) { return nil, boom }, false)
	bound := func(name string) *flows.Tool {
		return &flows.Tool{Name: "t", Binding: &flows.Binding{Kind: Kind, Local: name}}
	}
	_, err := r.Invoke(context.Background(), bound("slow"), nil, executor.CallInfo{})
	assert.ErrorIs(t, err, boom)
	assert.False(t, r.Prompt(bound("slow")))
	assert.True(t, r.Prompt(bound("json_set")))
	_, err = r.Invoke(context.Background(), bound(""), nil, executor.CallInfo{})
	var te *executor.ToolError
	require.ErrorAs(t, err, &te)
	assert.Equal(t, string(flows.CodeUnbound), te.Code)
	assert.Contains(t, te.Message, "assert_equal, filter_list, json_pluck, json_set, map_list, passthrough, slow")
}

// TestInputsOfTools: a tool may change its input, which is its own, down to what is nested in it; one that only reads
// gets the very map.
func TestInputsOfTools(t *testing.T) {
	r := New()
	spoil := func(_ context.Context, input map[string]any) (any, error) {
		input["list"].([]any)[0].(map[string]any)["x"] = "spoilt"
		input["new"] = true
		return input, nil
	}
	same := func(_ context.Context, input map[string]any) (any, error) { return input, nil }
	r.Register("spoils", spoil, true)
	r.RegisterPreview("spoils", spoil)
	r.RegisterReader("reads", same, true)
	bound := func(name string) *flows.Tool {
		return &flows.Tool{Name: name, Binding: &flows.Binding{Kind: Kind}}
	}
	input := func() map[string]any { return map[string]any{"list": []any{map[string]any{"x": int64(1)}}, "n": nil} }
	shared := input()
	for _, call := range []func(context.Context, *flows.Tool, map[string]any, executor.CallInfo) (any, error){r.Invoke, r.Preview} {
		got, err := call(context.Background(), bound("spoils"), shared, executor.CallInfo{})
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"list": []any{map[string]any{"x": "spoilt"}}, "n": nil, "new": true}, got)
		assert.Equal(t, input(), shared)
	}
	got, err := r.Invoke(context.Background(), bound("reads"), shared, executor.CallInfo{})
	require.NoError(t, err)
	got.(map[string]any)["seen"] = true
	assert.Contains(t, shared, "seen")
}
