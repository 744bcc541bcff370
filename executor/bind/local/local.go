// Package local calls tools that live in pave's own process: Go functions registered by name, and the builtins.
package local

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
)

// Kind is the binding kind of in-process tools.
const Kind = "local"

// Func is an in-process tool. The input is the call's own copy; the result is any value that encodes as JSON and is
// copied before anyone else sees it. Errors that are *executor.ToolError choose their retry class.
type Func func(ctx context.Context, input map[string]any) (any, error)

// Registry holds in-process tools by name. It is safe for concurrent use.
type Registry struct {
	mu    sync.Mutex                       // of writers
	funcs atomic.Pointer[map[string]entry] // never changed, only replaced
}

type entry struct {
	fn      Func
	preview Func // nil: none
	prompt  bool
	reads   bool
}

// owned is the input that the tool gets: a copy of its own, unless it only reads.
func (e *entry) owned(input map[string]any) map[string]any {
	if e.reads {
		return input
	}
	return value.CloneObject(input)
}

var (
	_ executor.PromptInvoker = (*Registry)(nil)
	_ executor.Previewer     = (*Registry)(nil)
)

// New returns a Registry with the builtins.
func New() *Registry {
	r := &Registry{}
	r.funcs.Store(&map[string]entry{})
	for name, fn := range builtins {
		r.RegisterReader(name, fn, true)
	}
	r.RunFlows(nil)
	return r
}

// Register adds or replaces a tool. prompt promises that the tool returns soon after its context ends, in
// exchange for calls without a goroutine of their own; a tool that breaks the promise delays its run.
func (r *Registry) Register(name string, fn Func, prompt bool) {
	r.replace(name, func(entry) entry { return entry{fn: fn, prompt: prompt} })
}

// RegisterReader is Register for a tool that promises never to change its input, in exchange for calls without a copy
// of it. It may return the input, or parts of it.
func (r *Registry) RegisterReader(name string, fn Func, prompt bool) {
	r.replace(name, func(entry) entry { return entry{fn: fn, prompt: prompt, reads: true} })
}

func (r *Registry) replace(name string, with func(entry) entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	funcs := maps.Clone(*r.funcs.Load())
	funcs[name] = with(funcs[name])
	r.funcs.Store(&funcs)
}

// RegisterPreview gives a registered tool the function that a dry run calls in its place; it must have no side effects.
func (r *Registry) RegisterPreview(name string, preview Func) {
	r.replace(name, func(e entry) entry {
		e.preview = preview
		return e
	})
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
	return e.preview(ctx, e.owned(input))
}

// Invoke implements executor.Invoker. The binding's local field names the tool, the tool's own name where it is empty.
func (r *Registry) Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, _ executor.CallInfo) (any, error) {
	e, ok := r.lookup(tool)
	if !ok {
		return nil, &executor.ToolError{Class: executor.ClassOther, Code: string(flows.CodeUnbound), NotSent: true,
			Message: fmt.Sprintf("no in-process tool '%s' is registered (registered: %s)", nameOf(tool), strings.Join(r.Names(), ", "))}
	}
	return e.fn(ctx, e.owned(input))
}

// Prompt implements executor.PromptInvoker.
func (r *Registry) Prompt(tool *flows.Tool) bool {
	e, ok := r.lookup(tool)
	return !ok || e.prompt
}

// Names lists the registered tools in order.
func (r *Registry) Names() []string {
	return slices.Sorted(maps.Keys(*r.funcs.Load()))
}

func (r *Registry) lookup(tool *flows.Tool) (entry, bool) {
	e, ok := (*r.funcs.Load())[nameOf(tool)]
	return e, ok
}

func nameOf(tool *flows.Tool) string {
	if tool.Binding != nil && tool.Binding.Local != "" {
		return tool.Binding.Local
	}
	return tool.Name
}
