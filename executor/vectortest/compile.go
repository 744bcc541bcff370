package vectortest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"pave/executor"
	"pave/flows"
	"pave/flows/schema"
	"pave/flows/value"
)

// runCompile compares the diagnostics of a flow, in order, errors and warnings apart.
func (v *Vector) runCompile(expect map[string]any) (Verdict, string, error) {
	w, err := v.world()
	if err != nil {
		return Fail, "", err
	}
	flow, _, err := flows.ParseFlow(v.Flow)
	if err != nil { // R5: a predicate that does not parse
		_, refused, err := v.load()
		if err != nil {
			return Fail, "", err
		}
		verdict, note := v.compare(expect, refused)
		return verdict, note, nil
	}
	_, diagnostics := executor.Compile(flow, w.tools, executor.CompileOptions{Schemas: w.schemas})
	actual := map[string]any{"success": !executor.HasErrors(diagnostics), "errors": []any{}, "warnings": []any{}}
	for _, d := range diagnostics {
		list := "warnings"
		if d.Severity == executor.SeverityError {
			list = "errors"
		}
		actual[list] = append(actual[list].([]any), issue(d.StepIndex, d.ToolName, d.FieldName, d.IssueType))
	}
	verdict, note := v.compareIssues(expect, actual)
	return verdict, note, nil
}

func issue(step int, tool, field, kind string) map[string]any {
	var name any
	if field != "" {
		name = field
	}
	return map[string]any{"step_index": int64(step), "tool_name": tool, "field_name": name, "issue_type": kind}
}

// compareIssues applies R15 where the lists differ: see compileRule.
func (v *Vector) compareIssues(expect, actual map[string]any) (Verdict, string) {
	diffs := differences(expect, actual)
	if len(diffs) == 0 {
		return Exact, ""
	}
	doc := v.flowDoc()
	rewritten := v.compileRule(doc, expect)
	if diffs := differences(sortedIssues(rewritten), sortedIssues(v.withoutUnproven(doc, rewritten, actual))); len(diffs) > 0 {
		return Fail, "after R15: " + strings.Join(diffs, "; ")
	}
	return Divergence, "R15"
}

// sortedIssues puts the lists in an order of their own: where issues that the reference does not have stand between its
// own is no contract.
func sortedIssues(result map[string]any) map[string]any {
	out := maps.Clone(result)
	for _, list := range []string{"errors", "warnings"} {
		out[list] = slices.SortedFunc(slices.Values(result[list].([]any)), func(a, b any) int {
			return strings.Compare(string(value.Canonical(a)), string(value.Canonical(b)))
		})
		// A source that goes to several inputs is unproven once.
		out[list] = slices.CompactFunc(out[list].([]any), func(a, b any) bool {
			return a.(map[string]any)["issue_type"] == executor.IssueUnprovenValue && value.Equal(a, b)
		})
	}
	return out
}

// compileRule is what R15 makes of expected diagnostics: without an input schema what is missing is an undeclared
// input; unconstrained types fit everything; literals are checked; values that may be absent or null where the
// target takes no null are unproven.
func (v *Vector) compileRule(f *flowDoc, expect map[string]any) map[string]any {
	errs, warnings := []any{}, slices.Clone(expect["warnings"].([]any))
	inputs := map[string]bool{}
	for _, e := range expect["errors"].([]any) {
		entry := e.(map[string]any)
		kind, _ := entry["issue_type"].(string)
		key, _ := entry["field_name"].(string)
		index := int(entry["step_index"].(int64))
		switch {
		case f.InputSchemaRef == "" && f.reads(index, kind, key):
			if root := rootOf(key); !inputs[root] {
				inputs[root] = true // from here on it is an input
				entry = maps.Clone(entry)
				entry["issue_type"] = executor.IssueUndeclaredInput
				warnings = append(warnings, entry)
			}
		case kind == executor.IssueTypeMismatch && v.unconstrained(f, entry):
		case v.open(f, index, kind), kind == executor.IssueOutputSchemaGap && inputs[key]:
		default:
			errs = append(errs, e)
		}
	}
	for i, step := range f.Steps {
		tool := v.tool(step.ToolName)
		if tool == nil {
			continue
		}
		if len(step.InputMapping) == 0 {
			errs = append(errs, v.refusedKeys(f, i, tool, errs)...)
			if fallback := v.tool(strings.TrimPrefix(step.OnError, "fallback:")); fallback != nil {
				errs = append(errs, v.refusedKeys(f, i, fallback, errs)...)
			}
		}
		for target, raw := range step.InputMapping {
			want := property(tool.InputSchema, target)
			literal, err := value.Decode(raw)
			source, isText := literal.(string)
			mismatch := func(e any) bool { return value.Equal(e, issue(i, step.ToolName, target, executor.IssueTypeMismatch)) }
			switch {
			case err != nil || want == nil && !(isText && v.impossible(f, source)):
			case !isText:
				if !takes(want, literal) {
					errs = append(errs, issue(i, step.ToolName, target, executor.IssueTypeMismatch))
				}
				if fallback := v.tool(strings.TrimPrefix(step.OnError, "fallback:")); fallback != nil {
					if want := property(fallback.InputSchema, target); want != nil && !takes(want, literal) {
						errs = append(errs, issue(i, fallback.Name, target, executor.IssueFallbackTypeMismatch))
					}
				}
			case v.impossible(f, source):
				errs = append(errs, issue(i, step.ToolName, source, executor.IssueMissingMappingKey))
			case v.unproven(f, source, want) && !slices.ContainsFunc(errs, mismatch): // which says it already
				warnings = append(warnings, issue(i, step.ToolName, source, executor.IssueUnprovenValue))
			}
		}
	}
	errs = append(v.topologyErrors(f), append(errs, v.siblingErrors(f)...)...)
	return map[string]any{"success": len(errs) == 0, "errors": errs, "warnings": warnings}
}

// refusedKeys are the keys of a whole context that a tool without other inputs than its own refuses. A tool that lacks
// inputs is reported for that alone.
func (v *Vector) refusedKeys(f *flowDoc, step int, tool *toolSpec, errs []any) []any {
	doc, _ := decoded(tool.InputSchema).(map[string]any)
	lacks := slices.ContainsFunc(errs, func(e any) bool {
		entry := e.(map[string]any)
		kind := entry["issue_type"]
		return entry["step_index"] == int64(step) && entry["tool_name"] == tool.Name &&
			(kind == executor.IssueMissingRequiredInput || kind == executor.IssueFallbackMissingRequired)
	})
	if doc["additionalProperties"] != false || lacks {
		return nil
	}
	known := map[string]bool{}
	var input struct{ Properties map[string]any }
	_ = json.Unmarshal(v.Schemas[f.InputSchemaRef], &input)
	for key := range input.Properties {
		known[key] = true
	}
	for i := range f.Steps {
		if f.runsBefore(i, step) {
			for _, key := range v.writes(&f.Steps[i]) {
				known[key] = true
			}
		}
	}
	var out []any
	for _, key := range sortedKeys(known) {
		if property(tool.InputSchema, key) == nil {
			out = append(out, issue(step, tool.Name, key, executor.IssueUnknownTargetKey))
		}
	}
	return out
}

// runsBefore reports whether a step's outputs are in the context of another: those of all earlier steps, in a DAG of
// those that it depends on.
func (f *flowDoc) runsBefore(earlier, step int) bool {
	if f.Type != flows.TypeDAGFlow {
		return earlier < step
	}
	seen := map[string]bool{}
	var depends func(on []string) bool
	depends = func(on []string) bool {
		for _, id := range on {
			if id == f.Steps[earlier].StepID {
				return true
			}
			if seen[id] {
				continue
			}
			seen[id] = true
			for i := range f.Steps {
				if f.Steps[i].StepID == id && depends(f.Steps[i].DependsOn) {
					return true
				}
			}
		}
		return false
	}
	return depends(f.Steps[step].DependsOn)
}

// rootOf is the context key that a source reads.
func rootOf(source any) string {
	text, _ := source.(string)
	root, _, _ := strings.Cut(strings.TrimPrefix(text, "/"), "/")
	return root
}

// reads reports whether an issue is about a key that a step reads from the context.
func (f *flowDoc) reads(step int, kind, key string) bool {
	whole := step < len(f.Steps) && len(f.Steps[step].InputMapping) == 0
	return kind == executor.IssueMissingMappingKey || whole && key != "" &&
		(kind == executor.IssueMissingRequiredInput || kind == executor.IssueFallbackMissingRequired)
}

// open reports whether an issue is about a key that a tool may give although it does not declare it: such a value is
// unproven, not missing.
func (v *Vector) open(f *flowDoc, step int, kind string) bool {
	switch kind {
	case executor.IssueMissingMappingKey, executor.IssueMissingRequiredInput, executor.IssueFallbackMissingRequired, executor.IssueOutputSchemaGap, executor.IssueUnknownOutputKey:
	default:
		return false
	}
	own := kind == executor.IssueUnknownOutputKey
	for i := range f.Steps {
		if own && i != step || !own && step < len(f.Steps) && !f.runsBefore(i, step) {
			continue
		}
		tool := v.tool(f.Steps[i].ToolName)
		if tool == nil || f.Steps[i].OutputMapping != nil && !own {
			continue
		}
		if doc, _ := decoded(tool.OutputSchema).(map[string]any); doc["additionalProperties"] == true {
			return true
		}
	}
	return false
}

// topologyErrors are the errors of the steps' order, which come before all others.
func (v *Vector) topologyErrors(f *flowDoc) []any {
	ids := map[string]bool{}
	for _, s := range f.Steps {
		ids[s.StepID] = true
	}
	for i, s := range f.Steps {
		for _, d := range s.DependsOn {
			if !ids[d] {
				return []any{issue(i, s.ToolName, "unknown_dependency", executor.IssueTopologyError)}
			}
		}
	}
	if f.Type != flows.TypeDAGFlow || len(f.layers()) > 0 || len(f.Steps) == 0 {
		return nil
	}
	return []any{issue(0, f.Steps[0].ToolName, "cycle", executor.IssueTopologyError)}
}

// siblingErrors are keys that two steps of one level write.
func (v *Vector) siblingErrors(f *flowDoc) []any {
	var out []any
	for _, layer := range f.layers() {
		for n, i := range layer {
			for _, key := range v.writes(&f.Steps[i]) {
				if slices.ContainsFunc(layer[:n], func(j int) bool { return slices.Contains(v.writes(&f.Steps[j]), key) }) {
					out = append(out, issue(i, f.Steps[i].ToolName, key, executor.IssueSiblingCollision))
				}
			}
		}
	}
	return out
}

// writes are the keys that a step merges, as far as its tool declares them.
func (v *Vector) writes(s *stepDoc) []string {
	if s.OutputMapping != nil {
		return sortedKeys(s.OutputMapping)
	}
	tool := v.tool(s.ToolName)
	if tool == nil {
		return nil
	}
	var doc struct{ Properties map[string]any }
	_ = json.Unmarshal(tool.OutputSchema, &doc)
	return sortedKeys(doc.Properties)
}

// layers sorts the steps of a DAG into levels, nil when they depend on each other in a circle.
func (f *flowDoc) layers() [][]int {
	if f.Type != flows.TypeDAGFlow {
		return nil
	}
	done := map[string]bool{}
	var layers [][]int
	for placed := 0; placed < len(f.Steps); {
		var layer []int
		for i, s := range f.Steps {
			if !done[s.StepID] && !slices.ContainsFunc(s.DependsOn, func(d string) bool { return !done[d] }) {
				layer = append(layer, i)
			}
		}
		if layer == nil {
			return nil
		}
		for _, i := range layer {
			done[f.Steps[i].StepID] = true
		}
		placed += len(layer)
		layers = append(layers, layer)
	}
	return layers
}

// unconstrained reports whether an expected type mismatch is between types of which one says nothing.
func (v *Vector) unconstrained(f *flowDoc, entry map[string]any) bool {
	index, _ := entry["step_index"].(int64)
	target, _ := entry["field_name"].(string)
	tool := v.tool(entry["tool_name"])
	if tool == nil || int(index) >= len(f.Steps) {
		return false
	}
	var source string
	if json.Unmarshal(f.Steps[index].InputMapping[target], &source) != nil {
		return false
	}
	from, to := property(v.Schemas[f.InputSchemaRef], source), property(tool.InputSchema, target)
	open := func(raw json.RawMessage) bool { return string(value.Encode(decoded(raw))) == "{}" }
	plainObject := func(raw json.RawMessage) bool { return string(value.Encode(decoded(raw))) == `{"type":"object"}` }
	isObject := func(raw json.RawMessage) bool {
		m, _ := decoded(raw).(map[string]any)
		return m["type"] == "object"
	}
	return open(from) || open(to) || (plainObject(from) || plainObject(to)) && isObject(from) && isObject(to)
}

// impossible reports whether a pointer leads into an input that cannot be an object or a list.
func (v *Vector) impossible(f *flowDoc, source string) bool {
	p, err := value.ParsePointer(source)
	if err != nil || len(p) < 2 {
		return false
	}
	raw := property(v.Schemas[f.InputSchemaRef], p[0])
	if m, _ := decoded(raw).(map[string]any); m["type"] == "array" {
		_, isIndex := value.Index(p[1])
		return !isIndex
	}
	return raw != nil && !hasParts(decoded(raw))
}

// hasParts reports whether values of a schema may be objects or lists.
func hasParts(s any) bool {
	m, _ := s.(map[string]any)
	holds := func(list []any, is func(any) bool) bool { return slices.ContainsFunc(list, is) }
	isType := func(t any) bool { return t == "object" || t == "array" }
	switch t := m["type"].(type) {
	case string:
		return isType(t)
	case []any:
		return holds(t, isType)
	}
	if values, ok := m["enum"].([]any); ok {
		return holds(values, func(v any) bool {
			_, isObject := v.(map[string]any)
			_, isList := v.([]any)
			return isObject || isList
		})
	}
	if members, ok := m["anyOf"].([]any); ok {
		return holds(members, hasParts)
	}
	return true
}

// unproven reports whether an input of the flow may be null, or leads into an object that declares nothing.
func (v *Vector) unproven(f *flowDoc, source string, want json.RawMessage) bool {
	input := v.Schemas[f.InputSchemaRef]
	if p, err := value.ParsePointer(source); err == nil && len(p) > 1 {
		m, _ := decoded(property(input, p[0])).(map[string]any)
		return m != nil && m["type"] == "object" && m["properties"] == nil
	}
	from := property(input, source)
	m, _ := decoded(from).(map[string]any)
	if to, _ := decoded(want).(map[string]any); m["type"] == "object" && m["properties"] == nil && to["type"] == "object" {
		required, _ := to["required"].([]any)
		return len(required) > 0 // which the source does not promise
	}
	return len(m) > 0 && takes(from, nil) && !takes(want, nil)
}

func property(schema json.RawMessage, name string) json.RawMessage {
	var doc struct{ Properties map[string]json.RawMessage }
	if json.Unmarshal(schema, &doc) != nil {
		return nil
	}
	return doc.Properties[name]
}

func decoded(raw json.RawMessage) any {
	v, err := value.Decode(raw)
	if err != nil {
		return nil
	}
	return v
}

func takes(raw json.RawMessage, v any) bool {
	s, err := schema.Compile(raw)
	if err != nil {
		return false
	}
	_, violations := s.Apply(v)
	return len(violations) == 0
}
