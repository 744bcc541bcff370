package httpbind

import (
	"context"
	"fmt"
	"net/url"

	"pave/executor"
	"pave/flows"
)

// Decider asks an HTTP endpoint which of a step's candidate tools to call: POST <url> with {run_id, trace_id, flow_name,
// step_index, step_id, default_tool_name, candidates, context}, answered by {"tool": name}. It reaches the endpoint as
// the Invoker reaches tools; the engine's decision policy bounds how long that takes. It is safe for concurrent use.
type Decider struct {
	invoker *Invoker
	tool    *flows.Tool
}

var _ executor.Decider = (*Decider)(nil)

// NewDecider builds a Decider for one endpoint.
func NewDecider(invoker *Invoker, endpoint string) *Decider {
	return &Decider{invoker, &flows.Tool{Name: "decision endpoint", Binding: &flows.Binding{Kind: flows.BindHTTP, Method: "POST", URL: endpoint}}}
}

// Decide implements executor.Decider.
func (d *Decider) Decide(ctx context.Context, r executor.DecisionRequest) (string, error) {
	candidates := make([]any, len(r.Candidates))
	for i, name := range r.Candidates {
		candidates[i] = name
	}
	body := map[string]any{"run_id": r.RunID, "trace_id": r.TraceID, "flow_name": r.FlowName, "step_index": int64(r.StepIndex), "step_id": r.StepID,
		"default_tool_name": r.DefaultToolName, "candidates": candidates, "context": r.Context}
	answer, err := d.invoker.Invoke(ctx, d.tool, body, executor.CallInfo{})
	if err != nil {
		return "", err
	}
	doc, _ := answer.(map[string]any)
	tool, ok := doc["tool"].(string)
	if !ok {
		return "", &executor.ToolError{Class: executor.ClassOther, Code: "invalid_answer", Message: `the decision endpoint answered without {"tool": name}`}
	}
	return tool, nil
}

// CheckURL says what keeps a text from being the address of an endpoint that pave calls.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%q is not a URL such as https://host/path", text)
	case u.User != nil:
		return fmt.Errorf("the URL of %s must hold no password", u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%q must end with its path", text)
	}
	return nil
}
