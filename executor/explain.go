package executor

import (
	"fmt"
	"strings"

	"pave/flows"
	"pave/flows/schema"
	"pave/flows/value"
)

// Explanation says what a plan will do, without running it.
type Explanation struct {
	FlowName         string            `json:"flow_name"`
	FlowVersion      string            `json:"flow_version"`
	DeterminismLevel string            `json:"determinism_level"` // full, partial, none
	Input            []Shape           `json:"input"`
	Steps            []StepExplanation `json:"steps"` // in order of execution
	Output           []InputSource     `json:"output"`
	Warnings         []Diagnostic      `json:"warnings"`
}

// StepExplanation is one step of an Explanation. Level counts from 0; steps of one level run side by side.
type StepExplanation struct {
	StepIndex   int           `json:"step_index"`
	StepID      string        `json:"step_id,omitempty"`
	Level       int           `json:"level"`
	Calls       string        `json:"calls"` // "tool x", "flow x@1.0.0", "capability x"
	Condition   string        `json:"condition,omitempty"`
	ForEach     *InputSource  `json:"for_each,omitempty"`
	Inputs      []InputSource `json:"inputs"`
	InputShape  []Shape       `json:"input_shape"`
	OutputShape []Shape       `json:"output_shape"`
	Merges      string        `json:"merges"`
	OnError     string        `json:"on_error"`
	Unresolved  []string      `json:"unresolved"` // sources that nobody provides
	SideEffects string        `json:"side_effects"`
	Approval    bool          `json:"requires_approval"`
}

// InputSource says where one argument comes from: "context['k']", "context/a/0", "literal(v)", "expr(...)",
// "context (full)"; " (UNRESOLVED)" marks what nobody provides.
type InputSource struct {
	Target string `json:"target"`
	Source string `json:"source"`
}

// Shape is one field of a schema.
type Shape struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
}

// Explain describes a plan; found are the diagnostics of its compilation.
func Explain(p *Plan, found []Diagnostic) *Explanation {
	e := &Explanation{FlowName: p.flow.Name, FlowVersion: p.flow.Version, DeterminismLevel: DeterminismLevel(p.flow), Input: []Shape{}, Steps: []StepExplanation{}, Output: []InputSource{}, Warnings: []Diagnostic{}}
	if s, err := schema.Compile(p.InputSchema()); err == nil {
		e.Input = shapes(s)
	}
	missing := map[int][]string{} // by position in the flow
	for _, d := range found {
		if d.IssueType == IssueMissingMappingKey {
			missing[d.StepIndex] = append(missing[d.StepIndex], d.FieldName)
		}
		e.Warnings = append(e.Warnings, d)
	}
	for i := range p.steps {
		e.Steps = append(e.Steps, p.steps[i].explain(missing[p.steps[i].at]))
	}
	if p.flow.Returns == nil {
		e.Output = append(e.Output, InputSource{"*", "context (full)"})
	}
	for _, entry := range p.flow.Returns {
		e.Output = append(e.Output, InputSource{entry.Target, sourceText(entry.Value, missing[len(p.steps)])})
	}
	return e
}

func (sp *stepPlan) explain(missing []string) StepExplanation {
	s := StepExplanation{StepIndex: sp.index, StepID: sp.step.StepID, Level: sp.level, Calls: "tool " + sp.name, Condition: sp.step.Guard,
		Inputs: []InputSource{}, InputShape: []Shape{}, OutputShape: []Shape{}, OnError: sp.step.OnError, Unresolved: missing}
	if s.OnError == "" {
		s.OnError = "fail"
	}
	if s.Unresolved == nil {
		s.Unresolved = []string{}
	}
	switch {
	case sp.capability:
		s.Calls = "capability " + sp.step.CapabilityID
	case sp.sub != nil && sp.sub.plan != nil:
		s.Calls = "flow " + sp.sub.plan.flow.Name + "@" + sp.sub.plan.flow.Version
	}
	if sp.step.ForEach != nil {
		s.ForEach = &InputSource{sp.step.As, sourceText(*sp.step.ForEach, missing)}
	}
	if len(sp.step.InputMapping) == 0 {
		s.Inputs = append(s.Inputs, InputSource{"*", "context (full)"})
	}
	for _, entry := range sp.step.InputMapping {
		if entry.Value.NeverIn(sp.step.OutputAs) {
			continue
		}
		s.Inputs = append(s.Inputs, InputSource{entry.Target, sourceText(entry.Value, missing)})
	}
	if sp.callee != nil {
		s.InputShape, s.OutputShape = shapes(sp.callee.in), shapes(sp.callee.out)
		s.SideEffects = string(flows.Effects(sp.callee.tool.Safety))
		s.Approval = sp.callee.tool.Safety != nil && sp.callee.tool.Safety.RequiresApproval
	}
	switch {
	case sp.step.OutputAs != "":
		s.Merges = "its output under '" + sp.step.OutputAs + "'"
	case sp.step.OutputMapping == nil:
		s.Merges = "every output"
	case len(sp.step.OutputMapping) == 0:
		s.Merges = "nothing"
	default:
		var parts []string
		for _, entry := range sp.step.OutputMapping {
			parts = append(parts, fmt.Sprintf("'%s' as '%s'", entry.OutputKey, entry.ContextKey))
		}
		s.Merges = strings.Join(parts, ", ")
	}
	return s
}

func sourceText(v flows.MappingValue, missing []string) string {
	text := ""
	switch v.Kind {
	case flows.MapKey:
		text = "context['" + v.Ref + "']"
	case flows.MapPointer:
		text = "context" + v.Ref
	case flows.MapExpr:
		return "expr(" + v.Ref + ")"
	case flows.MapOptional:
		return "optional " + sourceText(*v.Inner, nil)
	default:
		return "literal(" + string(value.Encode(v.Literal)) + ")"
	}
	for _, m := range missing {
		if m == v.Ref {
			return text + " (UNRESOLVED)"
		}
	}
	return text
}

func shapes(s *schema.Schema) []Shape {
	out := []Shape{}
	for _, f := range fields(s) {
		out = append(out, Shape{f.Name, f.Type, f.Required})
	}
	return out
}

// DeterminismLevel is full, partial where a step decides, branches, may hand the run back or is guarded, and none
// where the flow says so.
func DeterminismLevel(f *flows.Flow) string {
	if f.Deterministic != nil && !*f.Deterministic {
		return "none"
	}
	if f.OnFailure == flows.OnFailureHandBack {
		return "partial"
	}
	for i := range f.Steps {
		if s := &f.Steps[i]; s.DecisionCandidates != nil || s.Branches != nil || s.Guard != "" {
			return "partial"
		}
	}
	return "full"
}
