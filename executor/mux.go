package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pave/flows"
)

// Mux sends every call to the Invoker of its tool's binding kind. It is immutable and safe for concurrent use.
type Mux struct{ kinds map[string]bound }

// bound is the Invoker of one kind with what else it is, nil where it is not.
type bound struct {
	Invoker
	prompt    PromptInvoker
	previewer Previewer
}

var (
	_ PromptInvoker = (*Mux)(nil)
	_ Previewer     = (*Mux)(nil)
)

// NewMux builds a Mux from binding kinds ("http", "local", ...) to their Invokers.
func NewMux(kinds map[string]Invoker) *Mux {
	m := &Mux{kinds: make(map[string]bound, len(kinds))}
	for kind, invoker := range kinds {
		b := bound{Invoker: invoker}
		b.prompt, _ = invoker.(PromptInvoker)
		b.previewer, _ = invoker.(Previewer)
		m.kinds[kind] = b
	}
	return m
}

// Invoke implements Invoker. A tool without a binding is a *ToolError with code unbound_tools.
func (m *Mux) Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, call CallInfo) (any, error) {
	if tool.Binding == nil {
		return nil, &ToolError{Class: ClassOther, Code: string(flows.CodeUnbound), NotSent: true,
			Message: fmt.Sprintf("tool '%s' has no binding: add one to its tool file and apply it", tool.Name)}
	}
	invoker, ok := m.kinds[tool.Binding.Kind]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(m.kinds)), ", ")
		return nil, &ToolError{Class: ClassOther, Code: string(flows.CodeUnbound), NotSent: true,
			Message: fmt.Sprintf("tool '%s' has a binding of kind %q, which is not available here (available: %s)", tool.Name, tool.Binding.Kind, known)}
	}
	return invoker.Invoke(ctx, tool, input, call)
}

// Prompt implements PromptInvoker by asking the tool's Invoker.
func (m *Mux) Prompt(tool *flows.Tool) bool {
	if tool.Binding == nil {
		return true
	}
	p := m.kinds[tool.Binding.Kind].prompt
	return p != nil && p.Prompt(tool)
}

// Previews implements Previewer by asking the tool's Invoker.
func (m *Mux) Previews(tool *flows.Tool) bool {
	p := m.previewer(tool)
	return p != nil && p.Previews(tool)
}

// Preview implements Previewer.
func (m *Mux) Preview(ctx context.Context, tool *flows.Tool, input map[string]any, call CallInfo) (any, error) {
	p := m.previewer(tool)
	if p == nil {
		return nil, &ToolError{Class: ClassOther, Code: string(flows.CodeUnbound), Message: fmt.Sprintf("tool '%s' has no preview", tool.Name)}
	}
	return p.Preview(ctx, tool, input, call)
}

func (m *Mux) previewer(tool *flows.Tool) Previewer {
	if tool.Binding == nil {
		return nil
	}
	return m.kinds[tool.Binding.Kind].previewer
}
