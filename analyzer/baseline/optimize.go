package baseline

import (
	"fmt"
	"slices"

	"pave/flows"
	"pave/flows/value"
)

// Codes of Optimization.
const (
	CodePassthrough    = "CW001"
	CodeParallelizable = "CW002"
	CodeDeadStep       = "CW003"
	CodeCacheable      = "CW004"
)

// Optimization is advice about one step of a flow.
type Optimization struct {
	Code, Title string
	StepIndex   int
	ToolName    string
	Message     string
}

// RecordedStep is what a recorded run did in one step.
type RecordedStep struct {
	Success bool
	Outputs any
}

// SuggestOptimizations reads a linear flow; a DAG flow gets no advice. tools may be nil: then nothing is said about parallel and
// dead steps. runs are the steps of recorded runs; two of them are needed to call a step cacheable. Advice comes by code,
// then step. Only what a mapping spells as a string counts as read, so that a pointer into an output is not seen.
func SuggestOptimizations(flow *flows.Flow, tools []*flows.Tool, runs [][]RecordedStep) ([]Optimization, error) {
	if flow.Type == flows.TypeDAGFlow {
		return nil, nil
	}
	var out []Optimization
	for i := range flow.Steps {
		if step := &flow.Steps[i]; len(step.InputMapping) == 0 {
			out = append(out, Optimization{CodePassthrough, "wasteful-passthrough", i, step.ToolName,
				fmt.Sprintf("Step %d ('%s') uses an empty input_mapping. Consider an explicit mapping so the data flow is visible to readers.", i, toolOf(step))})
		}
	}
	if tools != nil {
		unread, err := unreadOutputs(flow, tools)
		if err != nil {
			return nil, err
		}
		out = append(out, unread...)
	}
	return append(out, constantSteps(flow, runs)...), nil
}

// unreadOutputs finds neighbours that are independent of each other, and steps that nobody reads.
func unreadOutputs(flow *flows.Flow, tools []*flows.Tool) ([]Optimization, error) {
	outputs, inputs := map[string][]string{}, map[string][]string{}
	for _, t := range tools {
		fields, err := fieldsOf(t.OutputSchema)
		if err != nil {
			return nil, invalid("tool '%s': output schema: %v", t.Name, err)
		}
		outputs[t.Name] = fieldNames(fields)
		if fields, err = fieldsOf(t.InputSchema); err != nil {
			return nil, invalid("tool '%s': input schema: %v", t.Name, err)
		}
		inputs[t.Name] = fieldNames(fields)
	}
	reads := func(step *flows.Step) []string {
		if len(step.InputMapping) == 0 {
			return inputs[step.ToolName] // of the whole context
		}
		return sources(step)
	}
	var parallel, dead []Optimization
	for i := range max(0, len(flow.Steps)-1) {
		step, next := &flow.Steps[i], &flow.Steps[i+1]
		produced := outputs[step.ToolName]
		if len(produced) == 0 {
			continue
		}
		_, known := inputs[next.ToolName]
		if r := reads(next); known && len(r) > 0 && disjoint(produced, r) {
			parallel = append(parallel, Optimization{CodeParallelizable, "parallelizable-pair", i, step.ToolName,
				fmt.Sprintf("Steps %d ('%s') and %d ('%s') have disjoint output/input fields; they're DAG-eligible (promote to DAGFlow for parallel execution).",
					i, step.ToolName, i+1, toolOf(next))})
		}
		var later []string
		for k := range flow.Steps[i+1:] {
			later = append(later, reads(&flow.Steps[i+1+k])...)
		}
		if disjoint(produced, later) {
			dead = append(dead, Optimization{CodeDeadStep, "dead-step", i, step.ToolName,
				fmt.Sprintf("Step %d ('%s') outputs %s but no downstream step reads them. Remove the step or wire it into a downstream input_mapping.",
					i, step.ToolName, listText(slices.Sorted(slices.Values(produced))))})
		}
	}
	return append(parallel, dead...), nil
}

// toolOf is how the reference writes a step's tool, also of a step that runs a flow.
func toolOf(step *flows.Step) string {
	if step.ToolName == "" {
		return "None"
	}
	return step.ToolName
}

func sources(step *flows.Step) []string {
	var out []string
	for _, m := range step.InputMapping {
		if m.Value.Kind == flows.MapKey || m.Value.Kind == flows.MapPointer {
			out = append(out, m.Value.Ref)
		}
	}
	return out
}

func disjoint(a, b []string) bool {
	return !slices.ContainsFunc(a, func(name string) bool { return slices.Contains(b, name) })
}

// constantSteps finds the steps that returned the same in every run.
func constantSteps(flow *flows.Flow, runs [][]RecordedStep) []Optimization {
	if len(runs) < 2 {
		return nil
	}
	var out []Optimization
	for i := range flow.Steps {
		same := !slices.ContainsFunc(runs, func(run []RecordedStep) bool {
			return i >= len(run) || !run[i].Success || !value.Equal(run[i].Outputs, runs[0][i].Outputs)
		})
		if same {
			name := flow.Steps[i].ToolName
			out = append(out, Optimization{CodeCacheable, "cacheable-step", i, name,
				fmt.Sprintf("Step %d ('%s') returned identical output across all %d observed traces — candidate for caching.", i, name, len(runs))})
		}
	}
	return out
}
