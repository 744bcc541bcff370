package vectortest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"pave/executor"
	"pave/flows/value"
)

// withoutUnproven is what was reported without the warnings about unproven values that are not expected by name but
// have a reason: their source is not of one declared, required, plain type.
func (v *Vector) withoutUnproven(f *flowDoc, expect, actual map[string]any) map[string]any {
	want := expect["warnings"].([]any)
	inferred := map[string]bool{}
	for _, w := range want {
		if entry := w.(map[string]any); entry["issue_type"] == executor.IssueUndeclaredInput {
			inferred[rootOf(entry["field_name"])] = true
		}
	}
	kept := []any{}
	for _, w := range actual["warnings"].([]any) {
		entry := w.(map[string]any)
		expected := slices.ContainsFunc(want, func(e any) bool { return value.Equal(e, w) })
		source, _ := entry["field_name"].(string)
		switch {
		case expected:
		case entry["issue_type"] == executor.IssueUnprovenValue && !v.certain(f, entry["step_index"].(int64), source):
			continue
		case entry["issue_type"] == executor.IssueContextCollision && inferred[source], entry["issue_type"] == executor.IssueShadowedKey && inferred[source]:
			continue // with an input that the flow does not declare
		}
		kept = append(kept, w)
	}
	out := maps.Clone(actual)
	out["warnings"] = kept
	return out
}

// certain reports whether every place that a step's source can come from declares one required, plain type, the same.
func (v *Vector) certain(f *flowDoc, step int64, source string) bool {
	var places []json.RawMessage
	if raw, ok := v.Schemas[f.InputSchemaRef]; ok {
		places = append(places, raw)
	}
	for i := range f.Steps {
		if tool := v.tool(f.Steps[i].ToolName); tool != nil && int(step) < len(f.Steps) && f.runsBefore(i, int(step)) || tool != nil && int(step) >= len(f.Steps) {
			if f.Steps[i].OnError == "skip" && property(tool.OutputSchema, source) != nil {
				return false
			}
			places = append(places, tool.OutputSchema)
		}
	}
	types := map[string]bool{}
	for _, raw := range places {
		doc, _ := decoded(raw).(map[string]any)
		property, _ := decoded(property(raw, source)).(map[string]any)
		if property == nil {
			continue
		}
		plain, isOne := property["type"].(string)
		required, _ := doc["required"].([]any)
		if !isOne || plain == "array" || plain == "object" || !slices.Contains(required, any(source)) {
			return false
		}
		types[plain] = true
	}
	return len(types) == 1 && v.targetsTake(f, int(step), source, types)
}

// targetsTake reports whether every input that a step fills from a source, a whole context included, takes the source's
// plain type as it is: an enum, a bound or several types leave it to the value.
func (v *Vector) targetsTake(f *flowDoc, step int, source string, types map[string]bool) bool {
	if step >= len(f.Steps) {
		return true
	}
	targets := []string{source}
	if mapping := f.Steps[step].InputMapping; len(mapping) > 0 {
		targets = nil
		for target, raw := range mapping {
			if decoded(raw) == source {
				targets = append(targets, target)
			}
		}
	}
	for _, name := range []string{f.Steps[step].ToolName, strings.TrimPrefix(f.Steps[step].OnError, "fallback:")} {
		tool := v.tool(name)
		if tool == nil {
			continue
		}
		for _, target := range targets {
			want, _ := decoded(property(tool.InputSchema, target)).(map[string]any)
			plain, isOne := want["type"].(string)
			if len(want) > 0 && (!isOne || len(want) > 1 || !types[plain] && !(plain == "number" && types["integer"])) {
				return false
			}
		}
	}
	return true
}
