package httpbind

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pave/executor"
	"pave/flows"
)

// Kernel runs capability steps over HTTP: POST <kernel>/invoke with {capability_id, inputs, run_id, step_id,
// idempotency_key, deadline}, answered by {"outputs": {...}} or {"error": {"class", "message"}}. It reaches kernels as
// the Invoker reaches tools. It is safe for concurrent use.
type Kernel struct {
	invoker *Invoker
	routes  []route // longest prefix first
}

type route struct {
	prefix string
	tool   *flows.Tool
}

var _ executor.Kernel = (*Kernel)(nil)

// NewKernel builds a Kernel from prefixes of capability ids to the base URLs of kernels; "" is every id.
func NewKernel(invoker *Invoker, urls map[string]string) *Kernel {
	k := &Kernel{invoker: invoker}
	for _, prefix := range slices.Sorted(maps.Keys(urls)) {
		k.routes = append(k.routes, route{prefix, &flows.Tool{Name: "kernel", Binding: &flows.Binding{Kind: "http", Method: "POST", URL: strings.TrimSuffix(urls[prefix], "/") + "/invoke"}}})
	}
	slices.SortStableFunc(k.routes, func(a, b route) int { return len(b.prefix) - len(a.prefix) })
	return k
}

// InvokeCapability implements executor.Kernel.
func (k *Kernel) InvokeCapability(ctx context.Context, c executor.CapabilityCall) (map[string]any, error) {
	i := slices.IndexFunc(k.routes, func(r route) bool { return strings.HasPrefix(c.CapabilityID, r.prefix) })
	if i < 0 {
		return nil, &executor.ToolError{Class: executor.ClassOther, Code: "unknown_capability", NotSent: true, Message: fmt.Sprintf("no kernel is configured for capability '%s'", c.CapabilityID)}
	}
	body := map[string]any{"capability_id": c.CapabilityID, "inputs": c.Inputs, "run_id": c.RunID, "step_id": c.StepID, "idempotency_key": c.IdempotencyKey, "deadline": nil}
	if !c.Deadline.IsZero() {
		body["deadline"] = c.Deadline.UTC().Format(time.RFC3339Nano)
	}
	answer, err := k.invoker.Invoke(ctx, k.routes[i].tool, body, executor.CallInfo{RunID: c.RunID, Path: strings.TrimPrefix(c.IdempotencyKey, c.RunID+"-"), StepID: c.StepID, Attempt: 1})
	if err != nil {
		return nil, err
	}
	doc, _ := answer.(map[string]any)
	if failed, ok := doc["error"].(map[string]any); ok {
		class, _ := failed["class"].(string)
		if !executor.ValidClass(class) {
			class = executor.ClassOther
		}
		return nil, &executor.ToolError{Class: class, Message: fmt.Sprint(failed["message"])}
	}
	outputs, ok := doc["outputs"].(map[string]any)
	if !ok {
		return nil, &executor.ToolError{Class: executor.ClassOther, Code: "invalid_answer", Message: fmt.Sprintf("the kernel of capability '%s' answered with neither outputs nor an error", c.CapabilityID)}
	}
	return outputs, nil
}
