package executor

import (
	"context"
	"fmt"

	"pave/flows"
)

// KindFlow is the binding kind of tools that are flows; the binding's Tool is the flow's name.
const KindFlow = "flow"

// AsTool is the definition of a flow as a tool: its name and description, its input schema or else that of its first
// step, its output schema or else that of its last step (of a DAG: its only sink), and its safety. Fields that
// overrides sets win. A flow without steps, and one whose schema would be a called flow's or that of several sinks,
// needs overrides; the error is a *flows.Error that wraps flows.CWToolDefinition.
func AsTool(p *Plan, overrides flows.Tool) (*flows.Tool, error) {
	flow := p.flow
	refuse := func(format string, args ...any) error {
		err := flows.NewError(flows.CodeInvalid, fmt.Sprintf("flow '%s' is no tool: ", flow.Name)+fmt.Sprintf(format, args...))
		err.Err = flows.CWToolDefinition
		return err
	}
	if len(p.steps) == 0 {
		return nil, refuse("it has no steps")
	}
	tool := overrides
	if tool.Name == "" {
		tool.Name = flow.Name
	}
	if tool.Description == "" {
		tool.Description = flow.Description
	}
	if tool.InputSchema == nil {
		tool.InputSchema = p.inputRaw
	}
	if tool.InputSchema == nil {
		first := p.steps[0].primary
		if first == nil {
			return nil, refuse("its first step calls no known tool, so that it needs an input schema")
		}
		tool.InputSchema = first.tool.InputSchema
	}
	if tool.OutputSchema == nil {
		tool.OutputSchema = p.outputRaw
	}
	if tool.OutputSchema == nil {
		last, err := p.sink()
		if err != nil {
			return nil, refuse("%v", err)
		}
		tool.OutputSchema = last.tool.OutputSchema
	}
	if tool.Safety == nil {
		tool.Safety = p.Safety()
	}
	if tool.Binding == nil {
		tool.Binding = &flows.Binding{Kind: KindFlow, Tool: flow.Name}
	}
	return &tool, nil
}

// sink is the tool of the step that no other waits for.
func (p *Plan) sink() (*toolPlan, error) {
	last := &p.steps[len(p.steps)-1]
	if p.dag() {
		for i := range p.steps[:len(p.steps)-1] {
			if len(p.steps[i].dependents) == 0 {
				return nil, fmt.Errorf("steps '%s' and '%s' both end it, so that it needs an output schema", p.steps[i].step.StepID, last.step.StepID)
			}
		}
	}
	if last.primary == nil {
		return nil, fmt.Errorf("its last step calls no known tool, so that it needs an output schema")
	}
	return last.primary, nil
}

// FlowInvoker reaches tools of KindFlow by running the flow's active version.
type FlowInvoker struct {
	Engine *Engine
	// Plan finds the plan of a flow's active version.
	Plan func(ctx context.Context, name string) (*Plan, error)
}

var _ Invoker = (*FlowInvoker)(nil)

// Invoke implements Invoker: the flow's final output, or a *ToolError with the message and index of the step that
// failed (-1: none did).
func (f *FlowInvoker) Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, call CallInfo) (any, error) {
	name := tool.Name
	if tool.Binding != nil && tool.Binding.Tool != "" {
		name = tool.Binding.Tool
	}
	plan, err := f.Plan(ctx, name)
	if err != nil {
		return nil, &ToolError{Class: ClassOther, Message: err.Error()}
	}
	result := f.Engine.Run(ctx, plan, RunInput{Input: input, RunID: fmt.Sprintf("%s/%d", call.RunID, call.StepIndex)})
	if result.Success {
		return result.FinalOutput, nil
	}
	index, reason := -1, result.Status
	for i := range result.ExecutionLog {
		if rec := &result.ExecutionLog[i]; !rec.Success {
			index, reason = rec.StepIndex, *rec.ErrorMessage
			break
		}
	}
	return nil, &ToolError{Class: ClassOther, Type: flows.CWFlowExecution.Class, Message: fmt.Sprintf("flow '%s' failed at step %d: %s", name, index, reason)}
}
