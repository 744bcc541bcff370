package executor_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

// FuzzCompileThenRun: whatever flow file is read is compiled or refused, and what has a plan runs to a result, twice the
// same, also from each of its checkpoints. Seeds are the flows of the golden vectors.
func FuzzCompileThenRun(f *testing.F) {
	for _, group := range []string{"additions", "dag", "composition", "mapping"} {
		data, err := os.ReadFile(filepath.Join("..", "testdata", "vectors", group+".json"))
		require.NoError(f, err)
		var file struct {
			Vectors []struct{ Flow json.RawMessage }
		}
		require.NoError(f, json.Unmarshal(data, &file))
		for i := 0; i < len(file.Vectors); i += 3 {
			if len(file.Vectors[i].Flow) > 0 {
				f.Add([]byte(file.Vectors[i].Flow))
			}
		}
	}
	b := newBench(&testing.T{})
	b.pureTools()
	for _, name := range []string{"a", "b", "t", "sink", "echo", "double", "get_order"} {
		b.tool(name, "", "", echo)
	}
	sub := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "inner", Version: "1.0.0", Steps: []flows.Step{{ToolName: "echo", OutputAs: "o"}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		flow, _, err := flows.ParseFlow(data)
		if err != nil {
			return
		}
		for _, s := range flow.Steps {
			if s.Retry != nil && s.Retry.MaxRetries > 3 {
				return // a run may try as often as its flow says
			}
		}
		plan, found := executor.Compile(flow, b.tools, executor.CompileOptions{Flows: flowSet{"inner": sub}, MaxSteps: 50})
		if plan == nil {
			require.True(t, executor.HasErrors(found), "no plan without an error")
			return
		}
		executor.Explain(plan, found)
		kept := newKeeper()
		opts := b.opts
		opts.Checkpoints = kept
		input := map[string]any{"n": int64(3), "x": 1.5, "xs": []any{"a", nil, map[string]any{"id": "o"}}, "number": int64(2)}
		want, r := trace(t, opts, plan, input)
		again, _ := trace(t, b.opts, plan, input)
		require.Equal(t, want, again)
		data, err = executor.EncodeResult(r)
		require.NoError(t, err)
		back, err := executor.DecodeResult(data)
		require.NoError(t, err)
		require.Equal(t, masked(t, r), masked(t, back))
		for _, raw := range kept.every {
			var c executor.Checkpoint
			require.NoError(t, json.Unmarshal(raw, &c))
			resumed, err := executor.New(b.opts).Resume(context.Background(), plan, &c, executor.RunInput{DynamicParams: secret})
			require.NoError(t, err)
			require.Equal(t, masked(t, executor.Redact(r, secret)), masked(t, executor.Redact(resumed, secret)))
		}
	})
}

// FuzzCheckpoint: a checkpoint that is damaged is refused or resumed, never a panic.
func FuzzCheckpoint(f *testing.F) {
	b := newBench(&testing.T{})
	b.pureTools()
	flow := &flows.Flow{Type: flows.TypeFlow, Name: "f", Version: "1.0.0", Steps: []flows.Step{
		{ToolName: "inc", InputMapping: flows.Mapping{{Target: "x", Value: flows.Key("n")}}, OutputAs: "a"},
		{ToolName: "inc", InputMapping: flows.Mapping{{Target: "x", Value: flows.Pointer("/a/y")}}, OutputAs: "b"}}}
	plan, _ := executor.Compile(flow, b.tools, executor.CompileOptions{})
	kept := newKeeper()
	opts := b.opts
	opts.Checkpoints = kept
	executor.New(opts).Run(context.Background(), plan, executor.RunInput{Input: map[string]any{"n": int64(1)}})
	for _, raw := range kept.every {
		f.Add(raw)
	}
	f.Add([]byte(`{"snapshot_version":"1","flow_name":"f","flow_version":"1.0.0","level":{"0":{"done":true,"record":null},"1":{}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c executor.Checkpoint
		if json.Unmarshal(data, &c) != nil {
			return
		}
		if r, err := executor.New(b.opts).Resume(context.Background(), plan, &c, executor.RunInput{}); err == nil {
			require.NotEmpty(t, r.Status)
		}
	})
}
