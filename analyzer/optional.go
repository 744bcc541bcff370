package analyzer

import (
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
	"pave/observer"
)

// setWhen makes a step optional: it runs where the guard holds.
func (b *minedDraft) setWhen(k int) refusal {
	g := b.pattern.DataFlow.Steps[k].When
	switch {
	case g == nil:
		return nil
	case k == 0 || k == len(b.steps)-1:
		return refuse("%s is optional at the end of the path, where no step comes after it", b.steps[k].tool.tool.Name)
	}
	b.steps[k].when = b.predicateOf(&b.steps[k-1], g)
	return nil
}

// predicateOf writes a guard as a branch's predicate. A place that the schema does not promise is looked for first.
func (b *minedDraft) predicateOf(from *draftStep, g *observer.Guard) string {
	place := from.subscripts(g.Pointer)
	test, negated := place, "not "+place
	switch g.Test {
	case observer.GuardEquals:
		test, negated = place+" == "+string(value.Encode(g.Value)), place+" != "+string(value.Encode(g.Value))
	case observer.GuardAtLeast:
		test, negated = place+" >= "+string(value.Encode(g.Value)), place+" < "+string(value.Encode(g.Value))
	}
	there := from.there(g.Pointer)
	switch {
	case there == "" && g.Not:
		return negated
	case there == "":
		return test
	case g.Not:
		return "not (" + there + " and " + test + ")"
	}
	return there + " and " + test
}

// there is the condition that a place of the step's result is there; "" where the schema proves it.
func (s *draftStep) there(pointer string) string {
	if _, proven, _ := s.schemaAt(pointer); proven || pointer == "" {
		return ""
	}
	var terms []string
	tokens, _ := value.ParsePointer(pointer)
	for i, token := range tokens {
		parent := s.subscripts(tokens[:i].String())
		if i > 0 {
			terms = append(terms, parent)
		}
		terms = append(terms, string(value.Encode(token))+" in "+parent)
	}
	return strings.Join(terms, " and ")
}

// branch makes the flow a DAG in which the step before an optional one chooses: to it, or past it to a copy of the step
// after it. What a branch does not choose is left out, so the two copies stand for one step, and those after them wait for
// either. The copy comes last, so that the other steps have the places that they have in the evidence.
func (d *draft) branch(f *flows.Flow, k int) {
	f.Type = flows.TypeDAGFlow
	taken := map[string]bool{}
	for i := range f.Steps {
		f.Steps[i].StepID = d.steps[i].key
		taken[d.steps[i].key] = true
		if i > 0 {
			f.Steps[i].DependsOn = []string{d.steps[i-1].key}
		}
	}
	past := f.Steps[k+1]
	past.StepID = freeName(taken, past.StepID+"_directly")
	past.DependsOn = []string{d.steps[k-1].key}
	f.Steps[k-1].Branches = []flows.Branch{{TargetStepID: d.steps[k].key, Predicate: d.steps[k].when}}
	f.Steps[k-1].DefaultNext = past.StepID
	if k+2 < len(f.Steps) {
		f.Steps[k+2].DependsOn = append(f.Steps[k+2].DependsOn, past.StepID)
	}
	f.Steps = append(f.Steps, past)
}

// optionalStep is the step that runs where a guard holds, -1 when there is none.
func (d *draft) optionalStep() int {
	return slices.IndexFunc(d.steps, func(s draftStep) bool { return s.when != "" })
}
