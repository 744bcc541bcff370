package local

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
)

var builtins = map[string]Func{
	"passthrough":  passthrough,
	"json_pluck":   pluck,
	"json_set":     set,
	"assert_equal": assertEqual,
}

// Builtins are the definitions of the tools that every Registry has. What the list tools do to the world is what their
// flow does, so that their safety is unknown.
func Builtins() []*flows.Tool {
	list := func(name, description, more string) *flows.Tool {
		cacheable := false
		return &flows.Tool{Name: name, Description: description, Cacheable: &cacheable, Binding: &flows.Binding{Kind: Kind, Local: name}, Origin: flows.ToolDeclared,
			InputSchema: flows.RawSchema(`{"type":"object","properties":{"flow":{"type":"string","description":"name of an active flow"},"items":{"type":"array"},` +
				`"item_key":{"type":"string","default":"item","description":"input of the flow that takes the element"}` + more + `},"required":["flow","items"]}`),
			OutputSchema: flows.RawSchema(`{"type":"object","properties":{"items":{"type":"array"}},"required":["items"]}`)}
	}
	define := func(name, description, in, out string) *flows.Tool {
		safety := flows.DefaultSafety()
		safety.Source = "declared"
		return &flows.Tool{Name: name, Description: description, InputSchema: flows.RawSchema(in), OutputSchema: flows.RawSchema(out),
			Safety: &safety, Binding: &flows.Binding{Kind: Kind, Local: name}, Origin: flows.ToolDeclared}
	}
	return []*flows.Tool{
		define("passthrough", "Returns its input.",
			`{"type":"object","additionalProperties":true}`, `{"type":"object","additionalProperties":true}`),
		define("json_pluck", "Returns the value that a JSON pointer leads to.",
			`{"type":"object","properties":{"document":{},"pointer":{"type":"string"}},"required":["document","pointer"]}`,
			`{"type":"object","properties":{"result":{}},"required":["result"]}`),
		define("json_set", "Returns a copy of a document with one value set; the pointer's parent must exist, and - appends to a list.",
			`{"type":"object","properties":{"document":{},"pointer":{"type":"string"},"value":{}},"required":["document","pointer","value"]}`,
			`{"type":"object","properties":{"result":{}},"required":["result"]}`),
		define("assert_equal", "Fails unless actual and expected are the same JSON value.",
			`{"type":"object","properties":{"actual":{},"expected":{}},"required":["actual","expected"]}`,
			`{"type":"object","properties":{"equal":{"type":"boolean"}},"required":["equal"]}`),
		list("map_list", "Runs a flow once for each element and lists its outputs.", ""),
		list("filter_list", "Keeps the elements for which a flow says so.",
			`,"keep_key":{"type":"string","default":"keep","description":"boolean in the flow's output"}`),
	}
}

// contractError is a builtin's refusal of its arguments or of what it found.
func contractError(code, format string, args ...any) error {
	return &executor.ToolError{Class: executor.ClassValidation, Code: code, Message: fmt.Sprintf(format, args...)}
}

func passthrough(_ context.Context, input map[string]any) (any, error) { return input, nil }

func pointerOf(input map[string]any) (value.Pointer, error) {
	text, _ := input["pointer"].(string)
	p, err := value.ParsePointer(text)
	if err != nil {
		return nil, contractError("invalid_pointer", "%v", err)
	}
	return p, nil
}

func pluck(_ context.Context, input map[string]any) (any, error) {
	p, err := pointerOf(input)
	if err != nil {
		return nil, err
	}
	v, ok := p.Get(input["document"])
	if !ok {
		return nil, contractError("pointer_not_found", "the document has nothing at '%s'", p)
	}
	return map[string]any{"result": v}, nil
}

func set(_ context.Context, input map[string]any) (any, error) {
	p, err := pointerOf(input)
	if err != nil {
		return nil, err
	}
	out, ok := replace(input["document"], p, input["value"])
	if !ok {
		return nil, contractError("pointer_not_found", "the document has no place for '%s'", p)
	}
	return map[string]any{"result": out}, nil
}

// replace returns doc with v at p. Only the containers on the way are copied.
func replace(doc any, p value.Pointer, v any) (any, bool) {
	if len(p) == 0 {
		return v, true
	}
	switch doc := doc.(type) {
	case map[string]any:
		child, exists := doc[p[0]]
		if !exists && len(p) > 1 {
			return nil, false
		}
		next, ok := replace(child, p[1:], v)
		if !ok {
			return nil, false
		}
		out := maps.Clone(doc)
		out[p[0]] = next
		return out, true
	case []any:
		if p[0] == "-" && len(p) == 1 {
			return append(slices.Clip(doc), v), true
		}
		i, ok := value.Index(p[0])
		if !ok || i >= len(doc) {
			return nil, false
		}
		next, ok := replace(doc[i], p[1:], v)
		if !ok {
			return nil, false
		}
		out := slices.Clone(doc)
		out[i] = next
		return out, true
	}
	return nil, false
}

func assertEqual(_ context.Context, input map[string]any) (any, error) {
	if !value.Equal(input["actual"], input["expected"]) {
		return nil, contractError("assertion_failed", "expected %s, got %s", value.Encode(input["expected"]), value.Encode(input["actual"]))
	}
	return map[string]any{"equal": true}, nil
}
