package executor

import (
	"pave/flows"
	"pave/flows/value"
)

// alternative is a tool that may run in place of a step's own: its fallback, or a candidate of its decision.
type alternative struct {
	tp   *toolPlan
	name string
	what string // in messages
	at   string // pointer to where the step names it
	// Issue types of what is wrong with it.
	unknownTarget, typeMismatch, missingRequired, outputMissing string
}

// alternatives lists the tools that may run in a step's place, and reports candidates that are not there.
func (c *compiler) alternatives(sp *stepPlan) []alternative {
	var out []alternative
	if sp.fallback != nil {
		out = append(out, alternative{sp.fallback, sp.fallbackName, "fallback tool", stepPointer(sp.at, "on_error"),
			IssueFallbackUnknownTarget, IssueFallbackTypeMismatch, IssueFallbackMissingRequired, IssueFallbackOutputMissing})
	}
	at := stepPointer(sp.at, "decision_candidates")
	for _, name := range sp.step.DecisionCandidates {
		tp := sp.candidates[name]
		switch {
		case name == sp.step.ToolName:
		case tp == nil:
			c.report(SeverityError, IssueMissingTool, sp.at, name, "", at, "candidate tool '%s' is not registered", name)
		default:
			out = append(out, alternative{tp, name, "candidate tool", at, IssueUnknownTargetKey, IssueTypeMismatch, IssueMissingRequiredInput, IssueUnknownOutputKey})
		}
	}
	return out
}

// checkAlternativeInputs repeats the input checks against the alternative's schema. What is missing from the context
// has been reported for the step's own tool.
func (c *compiler) checkAlternativeInputs(sp *stepPlan, a alternative) {
	entries := sp.step.InputMapping
	if len(entries) == 0 {
		c.checkWholeContext(sp, a.tp, a.missingRequired)
		return
	}
	for i, entry := range entries {
		pointer := stepPointer(sp.at, "input_mapping", entry.Target)
		target, declared := fieldOf(a.tp.in, entry.Target)
		if !declared {
			c.report(SeverityError, a.unknownTarget, sp.at, a.name, entry.Target, pointer, "%s '%s' has no input '%s'", a.what, a.name, entry.Target)
			continue
		}
		if target == nil {
			continue
		}
		v := entry.Value
		if v.Kind == flows.MapOptional {
			v = *v.Inner
		}
		switch v.Kind {
		case flows.MapLiteral, flows.MapConst, flows.MapExpr:
			c.checkSource(place{sp.at, a.name, pointer}, &sp.mapping, i, target, a.typeMismatch)
		default:
			if s, state := c.known.source(v); state != sourceMissing {
				c.checkType(sp.at, a.name, v.Ref, entry.Target, pointer, s, target.Schema, a.typeMismatch)
			}
		}
	}
	for _, f := range fields(a.tp.in) {
		if f.Required && !mapsTo(entries, f.Name) {
			c.report(SeverityError, a.missingRequired, sp.at, a.name, f.Name, a.at, "%s '%s' requires input '%s', which the step does not map", a.what, a.name, f.Name)
		}
	}
}

// checkAlternativeOutputs reports where the alternative's outputs cannot stand for those of the step's own tool.
func (c *compiler) checkAlternativeOutputs(sp *stepPlan, a alternative) {
	own, other := sp.callee.out, a.tp.out
	if own == nil || other == nil {
		return
	}
	for _, entry := range sp.step.OutputMapping {
		if s, _ := other.At(value.Pointer{entry.OutputKey}); s == nil {
			c.report(SeverityError, a.outputMissing, sp.at, a.name, entry.OutputKey, a.at, "output_mapping needs '%s', which %s '%s' does not produce", entry.OutputKey, a.what, a.name)
		}
	}
	for _, f := range own.Fields() {
		field, ok := other.Field(f.Name)
		if !ok {
			if sp.step.OutputMapping == nil {
				c.report(SeverityWarning, IssueFallbackOutputShape, sp.at, a.name, f.Name, a.at, "%s '%s' does not produce '%s'", a.what, a.name, f.Name)
			}
			continue
		}
		m, reason := fit(field.Schema, f.Schema)
		if m == fitsNot {
			c.report(SeverityWarning, IssueFallbackOutputType, sp.at, a.name, f.Name, a.at, "'%s' of %s '%s' has another type: %s", f.Name, a.what, a.name, reason)
			continue
		}
		if (f.Required || sp.callee.fills(f.Name)) && !field.Required && !a.tp.fills(f.Name) {
			c.report(SeverityWarning, IssueUnprovenValue, sp.at, a.name, f.Name, a.at, "%s '%s' may not produce '%s'", a.what, a.name, f.Name)
		} else if m == mayFit {
			c.report(SeverityWarning, IssueUnprovenValue, sp.at, a.name, f.Name, a.at, "'%s' of %s '%s' may not stand for that of '%s': %s", f.Name, a.what, a.name, sp.name, reason)
		} else if reason := unproven(field.Schema, f.Schema, "", maxProofDepth); reason != "" {
			c.report(SeverityWarning, IssueUnprovenValue, sp.at, a.name, f.Name, a.at, "'%s' of %s '%s' may not stand for that of '%s': its value%s", f.Name, a.what, a.name, sp.name, reason)
		}
	}
}
