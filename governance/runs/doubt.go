package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/store"
)

// doubt marks the step at which a run stopped when what it calls may have happened all the same, and must not be done
// twice on that ground: a model that is told to go on there would do so.
func (c *Continuation) doubt(a *governance.Admission, result *executor.RunResult) {
	if c == nil || c.Next == nil {
		return
	}
	flow := a.Version.Flow
	for i := range result.ExecutionLog {
		rec := &result.ExecutionLog[i]
		at := rec.StepIndex
		if at >= 0 && at < len(flow.Steps) && stepName(flow, at) == c.Next.Step && !rec.Success && !rec.NotSent && !repeatable(a, &flow.Steps[at]) {
			c.Next.MayHaveHappened = true
		}
	}
}

// knownTools is a flow with what is known now of the tools that its steps call, for a run that is read back.
func knownTools(r *store.Reader, tenant string, flow *flows.Flow) (*governance.Admission, error) {
	a := &governance.Admission{Version: governance.FlowVersion{Flow: flow}, Tools: map[string]*flows.Tool{}}
	for i := range flow.Steps {
		for _, name := range toolsOf(&flow.Steps[i]) {
			row, err := r.Tool(tenant, name, false)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			tool := new(flows.Tool)
			if err := json.Unmarshal(row.Body, tool); err != nil {
				return nil, fmt.Errorf("tool %s: %w", name, err)
			}
			a.Tools[name] = tool
		}
	}
	return a, nil
}

// toolsOf are the tools that a step may call itself.
func toolsOf(step *flows.Step) []string {
	names := slices.Clone(step.DecisionCandidates)
	if step.ToolName != "" {
		names = append(names, step.ToolName)
	}
	if fallback, ok := strings.CutPrefix(step.OnError, "fallback:"); ok {
		names = append(names, fallback)
	}
	return names
}
