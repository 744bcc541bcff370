// Package local calls tools that live in pave's own process: Go functions registered by name, and the builtins.
package local

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"pave/executor"
	"pave/flows"
)

// Kind is the binding kind of in-process tools.
const Kind = "local"

// Func is an in-process tool. The input is the call's own copy; the result is any value that encodes as JSON and is
// copied before anyone else sees it. Errors that are *executor.ToolError choose their retry class.
type Func func(ctx context.Context, input map[string]any) (any, error)

// Registry holds in-process tools by name. It is safe for concurrent use.
type Registry struct {
	mu    sync.RWMutex
	funcs map[string]entry
}

type entry struct {
	fn      Func
	preview Func // nil: none
	prompt  bool
}

var (
	_ executor.PromptInvoker = (*Registry)(nil)
	_ executor.Previewer     = (*Registry)(nil)
)

// New returns a Registry with the builtins.
func New() *Registry {
	r := &Registry{funcs: map[string]entry{}}
	for name, fn := range builtins {
		r.funcs[name] = entry{fn: fn, prompt: true}
	}
	r.RunFlows(nil)
	return r
}

// Register adds or replaces a tool. prompt promises that the tool returns soon after its context ends, in
// exchange for calls without a goroutine of their own; a tool that breaks the promise delays its run.
func (r *Registry) Register(name string, fn Func, prompt bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.funcs[name] = entry{fn: fn, prompt: prompt}
}

// RegisterPreview gives a registered tool the function that a dry run calls in its place; it must have no side effects.
func (r *Registry) RegisterPreview(name string, preview Func) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.funcs[name]
	e.preview = preview
	r.funcs[name] = e
}

// Previews implements executor.Previewer.
func (r *Registry) Previews(tool *flows.Tool) bool {
	e, _ := r.lookup(tool)
	return e.preview != nil
}

// Preview implements executor.Previewer.
func (r *Registry) Preview(ctx context.Context, tool *flows.Tool, input map[string]any, _ executor.CallInfo) (any, error) {
	e, _ := r.lookup(tool)
	if e.preview == nil {
		return nil, &executor.ToolError{Class: executor.ClassOther, Code: string(flows.CodeUnbound), Message: fmt.Sprintf("in-process tool '%s' has no preview", nameOf(tool))}
	}
	return e.preview(ctx, input)
}

// Invoke implements executor.Invoker. The binding's local field names the tool, the tool's own name where it is empty.
func (r *Registry) Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, _ executor.CallInfo) (any, error) {
	e, ok := r.lookup(tool)
	if !ok {
		return nil, &executor.ToolError{Class: executor.ClassOther, Code: string(flows.CodeUnbound),
			Message: fmt.Sprintf("no in-process tool '%s' is registered (registered: %s)", nameOf(tool), strings.Join(r.Names(), ", "))}
	}
	return e.fn(ctx, input)
}

// Prompt implements executor.PromptInvoker.
func (r *Registry) Prompt(tool *flows.Tool) bool {
	e, ok := r.lookup(tool)
	return !ok || e.prompt
}

// Names lists the registered tools in order.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.funcs))
}

func (r *Registry) lookup(tool *flows.Tool) (entry, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.funcs[nameOf(tool)]
	return e, ok
}

func nameOf(tool *flows.Tool) string {
	if tool.Binding != nil && tool.Binding.Local != "" {
		return tool.Binding.Local
	}
	return tool.Name
}
