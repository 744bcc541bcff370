package local

import (
	"context"
	"fmt"

	"pave/executor"
	"pave/flows"
)

// RunFlow runs the active version of a flow to its end and returns its final output. A flow that does not succeed is an
// error.
type RunFlow func(ctx context.Context, flow string, input map[string]any) (map[string]any, error)

// Names of the arguments under which list tools hand an element to their flow, and find its verdict.
const (
	defaultItemKey = "item"
	defaultKeepKey = "keep"
)

// maxDepth bounds list tools whose flows call list tools.
const maxDepth = 10

type depthKey struct{}

// RunFlows gives the list tools what they run flows with; without it they fail. A step with for_each does the same as
// they do with checked mappings and records of its own: they are for flows that came with them.
func (r *Registry) RunFlows(run RunFlow) {
	lists := &listTools{run: run}
	r.Register("map_list", lists.mapList, false)
	r.Register("filter_list", lists.filterList, false)
}

type listTools struct{ run RunFlow }

// mapList runs the flow once per element, one after the other, and lists the outputs in the same order.
func (l *listTools) mapList(ctx context.Context, input map[string]any) (any, error) {
	out := []any{}
	err := l.each(ctx, input, func(_, output any) error {
		out = append(out, output)
		return nil
	})
	return map[string]any{"items": out}, err
}

// filterList keeps the elements for which the flow's output says so.
func (l *listTools) filterList(ctx context.Context, input map[string]any) (any, error) {
	key := textOr(input["keep_key"], defaultKeepKey)
	out := []any{}
	err := l.each(ctx, input, func(item, output any) error {
		keep, ok := output.(map[string]any)[key].(bool)
		if !ok {
			return contractError("no_verdict", "the flow's output has no boolean '%s'", key)
		}
		if keep {
			out = append(out, item)
		}
		return nil
	})
	return map[string]any{"items": out}, err
}

func (l *listTools) each(ctx context.Context, input map[string]any, take func(item, output any) error) error {
	if l.run == nil {
		return &executor.ToolError{Class: executor.ClassOther, Code: string(flows.CodeUnbound), Message: "no flows can be run here"}
	}
	depth, _ := ctx.Value(depthKey{}).(int)
	if depth >= maxDepth {
		return contractError("too_deep", "flows call list tools more than %d levels deep", maxDepth)
	}
	ctx = context.WithValue(ctx, depthKey{}, depth+1)
	flow, _ := input["flow"].(string)
	items, _ := input["items"].([]any)
	for i, item := range items {
		if err := ctx.Err(); err != nil {
			return err
		}
		output, err := l.run(ctx, flow, map[string]any{textOr(input["item_key"], defaultItemKey): item})
		if err == nil {
			err = take(item, output)
		}
		if err != nil {
			return fmt.Errorf("flow '%s' on item %d: %w", flow, i, err)
		}
	}
	return nil
}

func textOr(v any, otherwise string) string {
	if s, ok := v.(string); ok && s != "" {
		return s
	}
	return otherwise
}
