package executor_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
)

// shape is a type without bounds: what the static checks reason about.
type shape struct {
	kind     string
	nullable bool
	fields   []field // object
	items    *shape  // array
}

type field struct {
	name     string
	shape    shape
	required bool
}

func drawShape(t *rapid.T, depth int) shape {
	kinds := []string{"integer", "number", "string", "boolean", "object", "array"}
	if depth == 0 {
		kinds = kinds[:4]
	}
	s := shape{kind: rapid.SampledFrom(kinds).Draw(t, "kind"), nullable: rapid.IntRange(0, 4).Draw(t, "nullable") == 0}
	switch s.kind {
	case "object":
		s.fields = drawFields(t, depth-1, 3)
	case "array":
		items := drawShape(t, depth-1)
		s.items = &items
	}
	return s
}

func drawFields(t *rapid.T, depth, most int) []field {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"id", "name", "n", "tags", "deep", "a/b"}), 0, most, rapid.ID).Draw(t, "names")
	out := make([]field, len(names))
	for i, name := range names {
		out[i] = field{name, drawShape(t, depth), rapid.IntRange(0, 3).Draw(t, "required") > 0}
	}
	return out
}

func (s shape) schema() map[string]any {
	m := map[string]any{"type": s.kind}
	if s.nullable {
		m["type"] = []any{s.kind, "null"}
	}
	if s.kind == "array" {
		m["items"] = s.items.schema()
	}
	if s.kind == "object" {
		properties, required := map[string]any{}, []any{}
		for _, f := range s.fields {
			properties[f.name] = f.shape.schema()
			if f.required {
				required = append(required, f.name)
			}
		}
		m["properties"], m["required"] = properties, required
	}
	return m
}

func (s shape) draw(t *rapid.T) any {
	if s.nullable && rapid.Bool().Draw(t, "null") {
		return nil
	}
	switch s.kind {
	case "integer":
		return rapid.Int64().Draw(t, "integer")
	case "number":
		return rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
	case "boolean":
		return rapid.Bool().Draw(t, "boolean")
	case "string":
		return rapid.String().Draw(t, "string")
	case "array":
		out := make([]any, rapid.IntRange(0, 2).Draw(t, "length"))
		for i := range out {
			out[i] = s.items.draw(t)
		}
		return out
	}
	return drawObject(t, s.fields)
}

func drawObject(t *rapid.T, fields []field) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		if f.required || rapid.Bool().Draw(t, "present") {
			out[f.name] = f.shape.draw(t)
		}
	}
	if rapid.Bool().Draw(t, "extra") {
		out["undeclared"] = "dropped by validation"
	}
	return out
}

type source struct {
	value flows.MappingValue
	kind  string
}

// sources lists keys and pointers into a value under a context key.
func sources(path value.Pointer, s shape) []source {
	v := flows.Pointer(path.String())
	if len(path) == 1 {
		v = flows.Key(path[0])
	}
	out := []source{{v, s.kind}}
	for _, f := range s.fields {
		out = append(out, sources(append(slices.Clone(path), f.name), f.shape)...)
	}
	if s.items != nil {
		out = append(out, sources(append(slices.Clone(path), "0"), *s.items)...)
	}
	return out
}

func drawMapping(t *rapid.T, inputs []field, known []source) flows.Mapping {
	m := flows.Mapping{}
	for _, f := range inputs {
		if !f.required && rapid.Bool().Draw(t, "left out") {
			continue
		}
		fitting := slices.DeleteFunc(slices.Clone(known), func(s source) bool { return s.kind != f.shape.kind })
		if len(fitting) == 0 || rapid.IntRange(0, 9).Draw(t, "any source") == 0 {
			fitting = append(fitting, source{flows.Const(f.shape.draw(t)), f.shape.kind})
			fitting = append(fitting, known...)
		}
		v := rapid.SampledFrom(fitting).Draw(t, "source").value
		if rapid.IntRange(0, 3).Draw(t, "optional") == 0 {
			inner := v
			v = flows.MappingValue{Kind: flows.MapOptional, Inner: &inner}
		}
		m = append(m, flows.MappingEntry{Target: f.name, Value: v})
	}
	return m
}

// TestCleanFlowsHaveNoMappingOrSchemaErrors: a flow that compiles without errors and warnings never fails with a
// mapping or schema error when its input and its tools' answers fit their schemas.
func TestCleanFlowsHaveNoMappingOrSchemaErrors(t *testing.T) {
	clean, checked := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		input := drawFields(rt, 2, 4)
		flow := &flows.Flow{Type: flows.TypeFlow, Name: "f", Version: "1.0.0", OnContextCollision: flows.CollisionError,
			InputSchema: value.Encode(shape{kind: "object", fields: input}.schema())}
		var known []source
		for _, f := range input {
			known = append(known, sources(value.Pointer{f.name}, f.shape)...)
		}
		for i := range rapid.IntRange(1, 3).Draw(rt, "steps") {
			in, out := drawFields(rt, 1, 2), shape{kind: "object", fields: drawFields(rt, 2, 3)}
			name, key := fmt.Sprintf("tool%d", i), fmt.Sprintf("out%d", i)
			answer := drawObject(rt, out.fields)
			b.tool(name, string(value.Encode(shape{kind: "object", fields: in}.schema())), string(value.Encode(out.schema())), returns(answer))
			step := flows.Step{ToolName: name, InputMapping: drawMapping(rt, in, known)}
			if rapid.IntRange(0, 5).Draw(rt, "whole context") == 0 {
				step.InputMapping = nil
			}
			switch rapid.IntRange(0, 3).Draw(rt, "merge") {
			case 0: // every output under its own key
				for _, f := range out.fields {
					known = append(known, sources(value.Pointer{f.name}, f.shape)...)
				}
			case 1: // renamed
				step.OutputMapping = []flows.OutputEntry{}
				for _, f := range out.fields {
					step.OutputMapping = append(step.OutputMapping, flows.OutputEntry{ContextKey: key + f.name, OutputKey: f.name})
					known = append(known, sources(value.Pointer{key + f.name}, f.shape)...)
				}
			default:
				step.OutputAs = key
				known = append(known, sources(value.Pointer{key}, out)...)
			}
			flow.Steps = append(flow.Steps, step)
		}
		if rapid.Bool().Draw(rt, "returns") && len(known) > 0 {
			flow.Returns = flows.Mapping{{Target: "r", Value: rapid.SampledFrom(known).Draw(rt, "returned").value}}
		}
		checked++
		plan, found := executor.Compile(flow, b.tools, executor.CompileOptions{})
		require.NotNil(rt, plan)
		if len(found) > 0 {
			return
		}
		clean++
		r := executor.New(b.opts).Run(context.Background(), plan, executor.RunInput{Input: drawObject(rt, input)})
		if !r.Success {
			last := r.ExecutionLog[len(r.ExecutionLog)-1]
			rt.Fatalf("a clean flow failed: %s\nflow %+v\ninput %s", code(last), flow.Steps, value.Encode(r.InitialInput))
		}
	})
	t.Logf("%d of %d flows compiled clean", clean, checked)
	require.Positive(t, clean)
}
