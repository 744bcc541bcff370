package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

func upper(_ context.Context, in map[string]any) (any, error) {
	s := in["s"].(string)
	if s == "bad" {
		return nil, errors.New("bad element")
	}
	return map[string]any{"u": strings.ToUpper(s)}, nil
}

func TestForEachCollects(t *testing.T) {
	b := newBench(t)
	in, out := `{"type":"object","properties":{"s":{"type":"string"}},"required":["s"]}`, `{"type":"object","properties":{"u":{"type":"string"},"v":{"type":"string"}},"required":["u"],"x-absent":"omit"}`
	b.tool("up", in, out, upper)
	xs := map[string]any{"xs": []any{"a", "b"}, "x": "outer"}
	const head = "steps:\n\t- {tool_name: up, for_each: xs, as: x, max_concurrency: 2, input_mapping: {s: x}, "
	for more, want := range map[string]map[string]any{
		"output_as: r":           {"r": []any{map[string]any{"u": "A"}, map[string]any{"u": "B"}}},
		"output_mapping: {}":     {},
		"output_mapping: {o: u}": {"o": []any{"A", "B"}},
		"on_error: fail":         {"u": []any{"A", "B"}, "v": []any{nil, nil}},
	} {
		r := b.run(head+more+"}\n", xs)
		require.True(t, r.Success, "%s: %+v", more, r.ExecutionLog)
		want["xs"], want["x"] = xs["xs"], "outer"
		assert.Equal(t, want, r.FinalOutput, more)
		rec := r.ExecutionLog[0]
		assert.Equal(t, map[string]any{"elements": []any{map[string]any{"s": "a"}, map[string]any{"s": "b"}}}, rec.Inputs)
		require.Len(t, rec.Elements, 2)
		assert.Equal(t, map[string]any{"s": "b"}, rec.Elements[1].Inputs)
		assert.Equal(t, map[string]any{"u": "B"}, rec.Elements[1].Outputs)
		assert.True(t, rec.Elements[1].Success)
	}
	r := b.run(head+"on_error: fail}\n", map[string]any{"xs": []any{}})
	assert.Equal(t, map[string]any{"xs": []any{}, "u": []any{}, "v": []any{}}, r.FinalOutput, "an empty list collects empty lists")
	r = b.run(head+"output_mapping: {o: v}}\n", xs)
	assert.Equal(t, "CW-E041", cw(r.ExecutionLog[0]))
}

// A failed step has not been sent only when no call for any of its elements was; the mark survives the JSON form.
func TestForEachStepIsSentWithItsFirstElement(t *testing.T) {
	in, out := `{"type":"object","properties":{"s":{"type":"string"}},"required":["s"]}`, `{"type":"object","properties":{"u":{"type":"string"}},"required":["u"]}`
	unsent := &executor.ToolError{Class: executor.ClassOther, Code: "pool_full", Message: "full", NotSent: true}
	for _, c := range []struct {
		xs       []any
		elements []bool
		step     bool
	}{
		{[]any{"full", "a"}, []bool{true}, true},
		{[]any{"a", "full"}, []bool{false, true}, false},
		{[]any{"bad"}, []bool{false}, false},
	} {
		b := newBench(t)
		b.tool("up", in, out, func(ctx context.Context, in map[string]any) (any, error) {
			if in["s"] == "full" {
				return nil, unsent
			}
			return upper(ctx, in)
		})
		r := b.run("steps:\n\t- {tool_name: up, for_each: xs, as: x, max_concurrency: 1, input_mapping: {s: x}, output_as: r}\n", map[string]any{"xs": c.xs})
		raw, err := executor.EncodeResult(r)
		require.NoError(t, err)
		r, err = executor.DecodeResult(raw)
		require.NoError(t, err)
		rec := r.ExecutionLog[0]
		require.False(t, rec.Success)
		assert.Equal(t, c.step, rec.NotSent, "%v", c.xs)
		var elements []bool
		for i := range rec.Elements {
			elements = append(elements, rec.Elements[i].NotSent)
		}
		assert.Equal(t, c.elements, elements, "%v", c.xs)
	}
}

func TestForEachFailures(t *testing.T) {
	for _, limit := range []int{1, 3} {
		b := newBench(t)
		var mu sync.Mutex
		seen := map[string]int{}
		b.register("up", "", "", func(ctx context.Context, in map[string]any) (any, error) {
			mu.Lock()
			seen[in["s"].(string)]++
			mu.Unlock()
			return upper(ctx, in)
		}, false)
		b.tool("spare", "", "", returns(map[string]any{"u": "spare"}))
		xs := map[string]any{"xs": []any{"a", "bad", "c"}}
		run := func(more string) *executor.RunResult {
			return b.run(fmt.Sprintf("steps:\n\t- {tool_name: up, for_each: xs, as: x, max_concurrency: %d, input_mapping: {s: x}, output_as: r, %s}\n", limit, more), xs)
		}
		r := run("retry: {max_retries: 2, backoff_seconds: 0}")
		rec := r.ExecutionLog[0]
		assert.Equal(t, "CW-E006 Execution error in tool 'up' at step 0: bad element", code(rec))
		require.Len(t, rec.Elements, 2, "records end at the first element that failed")
		assert.Equal(t, 2, rec.Elements[1].RetryCount)
		assert.Equal(t, []string{"bad element", "bad element", "bad element"}, rec.Elements[1].RetryErrors)
		assert.Equal(t, map[string]any{"elements": []any{map[string]any{"s": "a"}, map[string]any{"s": "bad"}, map[string]any{"s": "c"}}}, rec.Inputs)
		assert.Equal(t, 3, seen["bad"])

		r = run("on_error: skip")
		require.True(t, r.Success)
		assert.True(t, r.ExecutionLog[0].Skipped)
		assert.Equal(t, xs, r.FinalOutput)

		r = run("on_error: 'fallback:spare'")
		require.True(t, r.Success)
		assert.Equal(t, []any{map[string]any{"u": "A"}, map[string]any{"u": "spare"}, map[string]any{"u": "C"}}, r.FinalOutput["r"])
		assert.True(t, r.ExecutionLog[0].Elements[1].FallbackUsed)
	}
	b := newBench(t)
	b.opts.Limits.MaxElements = 2
	b.tool("up", "", "", upper)
	for input, want := range map[string]any{"is no list": "text", "has 3 elements, above the limit of 2": []any{"a", "b", "c"}, "at step 0.": nil} {
		in := map[string]any{}
		if want != nil {
			in["xs"] = want
		}
		r := b.run("steps:\n\t- {tool_name: up, for_each: xs, as: x, input_mapping: {s: x}, on_error: skip}\n", in)
		assert.Equal(t, "CW-E005", cw(r.ExecutionLog[0]))
		assert.Contains(t, code(r.ExecutionLog[0]), input)
	}
}

// TestForEachSideBySide: elements that wait for each other can only end when both run at a time.
func TestForEachSideBySide(t *testing.T) {
	b := newBench(t)
	first, second := make(chan struct{}), make(chan struct{})
	var paths sync.Map
	b.opts.Invoker = invokerFunc(func(_ context.Context, _ *flows.Tool, in map[string]any, c executor.CallInfo) (any, error) {
		paths.Store(c.Path, true)
		if in["n"] == int64(0) {
			close(first)
			<-second
		} else {
			<-first
			close(second)
		}
		return in, nil
	})
	b.tool("t", "", "", nil)
	set := flowSet{"in": b.named("in", "steps:\n\t- {tool_name: t}\n")}
	r := b.runComposed(set, "steps:\n\t- {flow_name: in, for_each: xs, as: x, max_concurrency: 2, input_mapping: {n: x}, output_as: r}\n",
		executor.RunInput{Input: map[string]any{"xs": []any{int64(0), int64(1)}}})
	require.True(t, r.Success, "%+v", r.ExecutionLog)
	assert.Equal(t, []any{map[string]any{"n": int64(0)}, map[string]any{"n": int64(1)}}, r.FinalOutput["r"])
	for _, p := range []string{"0:0/0", "0:1/0"} {
		_, ok := paths.Load(p)
		assert.True(t, ok, p)
	}
	assert.Equal(t, "in", r.ExecutionLog[0].Elements[1].SubResult.FlowName)
}

func TestExpressions(t *testing.T) {
	b := newBench(t)
	b.tool("orders", "", `{"type":"object","properties":{"items":{"type":"array"}},"required":["items"]}`,
		returns(map[string]any{"items": []any{map[string]any{"id": "o1", "total": 12}, map[string]any{"id": "o2", "total": 30.5}}}))
	b.tool("t", "", "", echo)
	const orders = "steps:\n\t- {tool_name: orders, output_as: l}\n"
	r := b.run(orders+`
	- tool_name: t
		for_each: {$expr: "l.items.filter(i, i.total > 10)"}
		as: o
		input_mapping: {text: {$expr: "o.id + '/' + want"}, none: {$optional: {$expr: "o.nope.x"}}}
		output_as: r
returns: {n: {$expr: "size(r) * 2"}, first: {$expr: "r[0].text"}}
`, map[string]any{"want": "w"})
	require.True(t, r.Success, "%+v", r.ExecutionLog)
	assert.Equal(t, map[string]any{"n": int64(4), "first": "o1/w"}, r.FinalOutput)

	for expr, want := range map[string]string{
		"l.items[7].id":              "CW-E005 Input mapping of 'text' for tool 't' at step 1: expression 'l.items[7].id': index out of bounds: 7.",
		"l.items[0].total / (n - 1)": "division by zero.",
		"n + big":                    "beyond 64 bits.",
	} {
		r := b.run(orders+"\t- {tool_name: t, on_error: skip, input_mapping: {text: {$expr: '"+expr+"'}}}\n", map[string]any{"n": 1, "big": json.Number("123456789012345678901")})
		assert.Contains(t, code(r.ExecutionLog[1]), want)
		assert.Empty(t, r.ExecutionLog[1].Inputs)
	}
}

func TestForEachAndExpressionDiagnostics(t *testing.T) {
	b := newBench(t)
	b.tool("up", `{"type":"object","properties":{"s":{"type":"string"},"k":{"type":"integer"}},"required":["s"]}`, `{"type":"object","properties":{"u":{"type":"string"}},"required":["u"]}`, upper)
	const head = "input_schema: {type: object, properties: {xs: {type: array, items: {type: object, properties: {s: {type: string}}, required: [s]}}, n: {type: integer}, opt: {type: string}}, required: [xs, n]}\nsteps:\n"
	for _, tc := range []struct {
		flow string
		want []string
	}{
		{"\t- {tool_name: up, for_each: xs, as: x, input_mapping: {s: /x/s}, output_as: r}\n\t- {tool_name: up, for_each: r, as: y, input_mapping: {s: /y/u}, output_mapping: {z: u}}\nreturns: {z: z}\n" +
			"output_schema: {type: object, properties: {z: {type: array, items: {type: string}}}, required: [z]}\n", nil},
		{"\t- {tool_name: up, for_each: n, as: x, input_mapping: {s: {$const: a}}, output_as: r}\n", []string{"error type_mismatch /steps/0/for_each for_each"}},
		{"\t- {tool_name: up, for_each: nope, as: x, input_mapping: {s: {$const: a}}, output_as: r}\n", []string{"error missing_mapping_key /steps/0/for_each nope"}},
		{"\t- {tool_name: up, for_each: xs, as: x, input_mapping: {s: x}, output_as: r}\n", []string{"error type_mismatch /steps/0/input_mapping/s s"}},
		{"\t- {tool_name: up, for_each: xs, as: x, input_mapping: {s: /x/nope}, output_as: r}\n", []string{"error missing_mapping_key /steps/0/input_mapping/s /x/nope"}},
		{"\t- {tool_name: up, for_each: xs, as: x, input_mapping: {s: /x/s}, output_as: r}\n\t- {tool_name: up, input_mapping: {s: x}, output_as: q}\n", []string{"error missing_mapping_key /steps/1/input_mapping/s x"}},
		{"\t- {tool_name: up, input_mapping: {s: {$expr: 'string(n)'}, k: {$expr: 'size(xs)'}}, output_as: r}\n", nil},
		{"\t- {tool_name: up, input_mapping: {s: {$expr: 'n'}}, output_as: r}\n", []string{"error type_mismatch /steps/0/input_mapping/s s"}},
		{"\t- {tool_name: up, input_mapping: {s: {$expr: 'xs[0].s'}}, output_as: r}\n", []string{"warning unproven_value /steps/0/input_mapping/s xs[0].s"}},
		{"\t- {tool_name: up, input_mapping: {s: {$expr: 'opt'}}, output_as: r}\n", []string{"warning unproven_value /steps/0/input_mapping/s opt"}},
		{"\t- {tool_name: up, input_mapping: {s: {$const: a}, k: {$optional: {$expr: 'size(opt)'}}}, output_as: r}\n", nil},
		{"\t- {tool_name: up, input_mapping: {s: {$expr: 'nope + \"x\"'}}, output_as: r}\n", []string{"error missing_mapping_key /steps/0/input_mapping/s nope", "warning unproven_value /steps/0/input_mapping/s nope + \"x\""}},
		{"\t- {tool_name: up, input_mapping: {s: {$expr: 'xs[0].z'}}, output_as: r}\n", []string{"error expression_error /steps/0/input_mapping/s xs[0].z"}},
	} {
		_, found := executor.Compile(b.flow(head+tc.flow), b.tools, executor.CompileOptions{})
		var got []string
		for _, d := range found {
			got = append(got, fmt.Sprintf("%s %s %s %s", d.Severity, d.IssueType, d.Pointer, d.FieldName))
		}
		assert.Equal(t, tc.want, got, tc.flow)
	}
}
