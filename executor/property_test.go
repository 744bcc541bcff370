package executor_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
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
	items *shape
}

// sources lists keys and pointers into a value under a context key.
func sources(path value.Pointer, s shape) []source {
	v := flows.Pointer(path.String())
	if len(path) == 1 {
		v = flows.Key(path[0])
	}
	out := []source{{v, s.kind, s.items}}
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
			fitting = append(fitting, source{value: flows.Const(f.shape.draw(t)), kind: f.shape.kind})
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

// asExpression writes a key or pointer as an expression.
func asExpression(v flows.MappingValue) flows.MappingValue {
	path := value.Pointer{v.Ref}
	if v.Kind == flows.MapPointer {
		path, _ = value.ParsePointer(v.Ref)
	}
	text := path[0]
	for _, token := range path[1:] {
		if _, isIndex := value.Index(token); isIndex {
			text += "[" + token + "]"
		} else {
			text += fmt.Sprintf("[%q]", token)
		}
	}
	return flows.MappingValue{Kind: flows.MapExpr, Ref: text}
}

// cleanWorld draws a flow and tools that answer as their schemas say.
type cleanWorld struct {
	*bench
	rt    *rapid.T
	flow  *flows.Flow
	known []source
}

func (w *cleanWorld) add(path value.Pointer, s shape) {
	for _, src := range sources(path, s) {
		if identifier.MatchString(path[0]) && rapid.IntRange(0, 5).Draw(w.rt, "expression") == 0 {
			src.value = asExpression(src.value)
		}
		w.known = append(w.known, src)
	}
}

var identifier = regexp.MustCompile(`^[a-z0-9]+$`)

// conformingTool registers a tool that gives an answer that fits its schema, another for each call.
func (w *cleanWorld) conformingTool(name string, in []field, out shape) {
	answers := []map[string]any{drawObject(w.rt, out.fields), drawObject(w.rt, out.fields)}
	var n atomic.Int64
	fail := rapid.IntRange(0, 4).Draw(w.rt, "tool fails") == 0
	w.tool(name, string(value.Encode(shape{kind: "object", fields: in}.schema())), string(value.Encode(out.schema())), func(context.Context, map[string]any) (any, error) {
		if fail && !strings.HasPrefix(name, "spare") {
			return nil, errors.New("the tool fails")
		}
		return answers[n.Add(1)%2], nil
	})
}

func (w *cleanWorld) step(i int) {
	rt := w.rt
	in, out := drawFields(rt, 1, 2), shape{kind: "object", fields: drawFields(rt, 2, 3)}
	name, key := fmt.Sprintf("tool%d", i), fmt.Sprintf("out%d", i)
	w.conformingTool(name, in, out)
	step := flows.Step{ToolName: name}
	if w.flow.Type == flows.TypeDAGFlow {
		step.StepID = name
		for d := range i {
			if rapid.IntRange(0, 3).Draw(rt, "waits") > 0 {
				step.DependsOn = append(step.DependsOn, fmt.Sprintf("tool%d", d))
			}
		}
	}
	switch rapid.IntRange(0, 4).Draw(rt, "on_error") {
	case 0:
		step.OnError = "skip"
	case 1:
		spareIn, spareOut := in, out
		if rapid.IntRange(0, 3).Draw(rt, "other spare") == 0 {
			spareIn, spareOut = drawFields(rt, 1, 2), shape{kind: "object", fields: drawFields(rt, 2, 3)}
		}
		step.OnError = "fallback:spare" + name
		w.conformingTool("spare"+name, spareIn, spareOut)
	}
	result := out
	inner := w.known
	lists := slices.DeleteFunc(slices.Clone(w.known), func(s source) bool { return s.kind != "array" })
	each := len(lists) > 0 && rapid.IntRange(0, 2).Draw(rt, "for_each") == 0
	if each {
		list := rapid.SampledFrom(lists).Draw(rt, "list")
		step.ForEach, step.As = &list.value, "element"
		inner = append(slices.Clone(inner), sources(value.Pointer{"element"}, *list.items)...)
		result = shape{kind: "array", items: &out}
	}
	step.InputMapping = drawMapping(rt, in, inner)
	if rapid.IntRange(0, 5).Draw(rt, "whole context") == 0 {
		step.InputMapping = nil
	}
	switch rapid.IntRange(0, 3).Draw(rt, "merge") {
	case 0: // every output under its own key
		for _, f := range out.fields {
			w.add(value.Pointer{f.name}, listOf(f.shape, each))
		}
	case 1: // renamed
		step.OutputMapping = []flows.OutputEntry{}
		for _, f := range out.fields {
			step.OutputMapping = append(step.OutputMapping, flows.OutputEntry{ContextKey: key + f.name, OutputKey: f.name})
			w.add(value.Pointer{key + f.name}, listOf(f.shape, each))
		}
	default:
		step.OutputAs = key
		w.add(value.Pointer{key}, result)
	}
	w.flow.Steps = append(w.flow.Steps, step)
}

func listOf(s shape, each bool) shape {
	if each {
		return shape{kind: "array", items: &s}
	}
	return s
}

// TestCleanFlowsHaveNoMappingOrSchemaErrors: a flow, linear or a DAG, with for_each, expressions and fallbacks, that
// compiles without errors and warnings never fails with a mapping or schema error when its input and its tools' answers
// fit their schemas.
func TestCleanFlowsHaveNoMappingOrSchemaErrors(t *testing.T) {
	clean, checked := map[string]int{}, 0
	rapid.Check(t, func(rt *rapid.T) {
		input := drawFields(rt, 2, 4)
		w := &cleanWorld{bench: newBench(t), rt: rt, flow: &flows.Flow{Type: rapid.SampledFrom([]string{flows.TypeFlow, flows.TypeDAGFlow}).Draw(rt, "type"), Name: "f",
			Version: "1.0.0", OnContextCollision: flows.CollisionError, InputSchema: value.Encode(shape{kind: "object", fields: input}.schema())}}
		for _, f := range input {
			w.add(value.Pointer{f.name}, f.shape)
		}
		for i := range rapid.IntRange(1, 3).Draw(rt, "steps") {
			w.step(i)
		}
		if rapid.Bool().Draw(rt, "returns") && len(w.known) > 0 {
			w.flow.Returns = flows.Mapping{{Target: "r", Value: rapid.SampledFrom(w.known).Draw(rt, "returned").value}}
		}
		checked++
		plan, found := executor.Compile(w.flow, w.tools, executor.CompileOptions{})
		if len(found) > 0 {
			return
		}
		require.NotNil(rt, plan)
		r := executor.New(w.opts).Run(context.Background(), plan, executor.RunInput{Input: drawObject(rt, input)})
		clean[r.Status]++
		for _, s := range w.flow.Steps {
			if s.ForEach != nil {
				clean["for_each"]++
			}
		}
		if last := r.ExecutionLog[len(r.ExecutionLog)-1]; slices.Contains([]string{"CW-E004", "CW-E005", "CW-E041"}, cw(last)) {
			for name, tool := range w.tools {
				rt.Logf("%s %s -> %s", name, tool.InputSchema, tool.OutputSchema)
			}
			rt.Fatalf("a clean flow failed: %s\nflow %+v\ninput %s", code(last), w.flow.Steps, value.Encode(r.InitialInput))
		}
	})
	t.Logf("of %d flows compiled clean: %v", checked, clean)
	require.Positive(t, clean[executor.StatusSucceeded])
}
