package executor

import (
	"encoding/json"
	"slices"
	"strconv"

	"pave/flows"
	"pave/flows/schema"
	"pave/flows/value"
)

// checkStep reports what is wrong with one step and adds what it contributes to the context. The order of reports
// is that of the base system's compile_flow.
func (c *compiler) checkStep(sp *stepPlan) {
	c.current = sp
	defer func() { c.current = nil }()
	if sp.callee == nil {
		if sp.step.FlowName != "" {
			return // reported with the composition
		}
		c.stepError(sp, IssueMissingTool, "", []string{"tool_name"}, "tool '%s' is not registered; apply its tool file or correct the name", sp.name)
		return
	}
	c.checkGuard(sp)
	if r := sp.step.Retry; r != nil && r.MaxRetries > 0 && !safeToRetry(sp.callee.tool.Safety) {
		c.stepWarning(sp, IssueUnsafeRetry, "", []string{"retry"}, "tool '%s' is not known to be safe to retry; remove the retry or declare the tool idempotent", sp.name)
	}
	missingFallback := sp.onError == onErrorFallback && sp.fallback == nil
	if missingFallback {
		c.report(SeverityError, IssueMissingFallbackTool, sp.at, sp.fallbackName, "", stepPointer(sp.at, "on_error"),
			"fallback tool '%s' is not registered", sp.fallbackName)
	}
	outer := c.known
	c.enterElements(sp)
	if sp.guard != nil {
		c.known = c.known.behind(sp.guard)
	}
	c.programs(&sp.mapping, func(target string) place {
		return place{sp.at, sp.name, stepPointer(sp.at, "input_mapping", target)}
	})
	c.checkInputs(sp)
	for _, a := range c.alternatives(sp) {
		c.checkAlternativeInputs(sp, a)
		c.checkAlternativeOutputs(sp, a)
	}
	c.known = outer
	keys, rest := c.contributions(sp)
	c.checkSiblings(sp, keys)
	if c.flow.OnContextCollision != flows.CollisionOverwrite {
		for _, k := range keys {
			if _, exists := c.known.keys[k.key]; exists {
				c.report(SeverityWarning, IssueContextCollision, sp.at, sp.name, k.key, k.pointer,
					"context key '%s' exists already; rename it with output_mapping or output_as", k.key)
			}
		}
	}
	c.known = c.view.after(sp, keys, rest)
	c.checkBranches(sp)
}

// checkSiblings reports keys that a step of the same level writes too: such a run always fails.
func (c *compiler) checkSiblings(sp *stepPlan, keys []contributed) {
	for _, k := range keys {
		if other := c.view.sibling(sp, k.key); other != nil {
			c.report(SeverityError, IssueSiblingCollision, sp.at, sp.name, k.key, k.pointer,
				"step '%s' of the same level writes '%s' too; rename one with output_mapping or output_as, or let one depend on the other", other.step.StepID, k.key)
		}
	}
}

// checkBranches reports names that a branch's predicate cannot find in the context with the step's own outputs and
// those of the siblings before it.
func (c *compiler) checkBranches(sp *stepPlan) {
	for i := range sp.branches {
		if sp.branches[i].when == nil {
			continue
		}
		at := stepPointer(sp.at, "branches", strconv.Itoa(i), "predicate")
		for _, name := range sp.branches[i].when.Names() {
			if _, found := c.known.key(name); !found && !c.view.written(sp, name) {
				c.missing(sp.at, sp.name, name, name, at, nil, true)
			}
		}
	}
}

func (c *compiler) stepError(sp *stepPlan, issue, field string, at []string, format string, args ...any) {
	c.report(SeverityError, issue, sp.at, sp.name, field, stepPointer(sp.at, at...), format, args...)
}

func (c *compiler) stepWarning(sp *stepPlan, issue, field string, at []string, format string, args ...any) {
	c.report(SeverityWarning, issue, sp.at, sp.name, field, stepPointer(sp.at, at...), format, args...)
}

// checkGuard reports names that the guard cannot find.
func (c *compiler) checkGuard(sp *stepPlan) {
	if sp.guard == nil {
		return
	}
	for _, name := range sp.guard.Names() {
		if o, found := c.known.key(name); !found {
			c.missing(sp.at, sp.name, name, name, stepPointer(sp.at, "guard"), nil, true)
		} else if !o.certain {
			c.stepWarning(sp, IssueUnprovenValue, name, []string{"guard"}, "'%s' may be absent when the guard is checked", name)
		}
	}
}

// checkInputs checks a step's mapping against its tool's input schema, entry by entry, then what is required.
func (c *compiler) checkInputs(sp *stepPlan) {
	in := sp.callee.in
	entries := sp.step.InputMapping
	if len(entries) == 0 {
		c.checkWholeContext(sp, sp.callee, IssueMissingRequiredInput)
		return
	}
	for i, entry := range entries {
		at := []string{"input_mapping", entry.Target}
		target, declared := fieldOf(in, entry.Target)
		if !declared && !c.leftOut(sp, &entry.Value) {
			c.stepError(sp, IssueUnknownTargetKey, entry.Target, at, "tool '%s' has no input '%s'", sp.name, entry.Target)
		}
		c.checkSource(place{sp.at, sp.name, stepPointer(sp.at, at...)}, &sp.mapping, i, target, IssueTypeMismatch)
		if entry.Value.Kind == flows.MapOptional && target != nil && target.Required {
			c.stepWarning(sp, IssueUnprovenValue, entry.Target, at, "input '%s' is required by tool '%s' but left out when its source is absent", entry.Target, sp.name)
		}
		if v := entry.Value; v.Kind == flows.MapKey && v.Ref != entry.Target {
			if _, exists := c.known.keys[entry.Target]; exists {
				c.stepWarning(sp, IssueShadowedKey, entry.Target, at, "the context has a key '%s' too; the input is taken from '%s'", entry.Target, v.Ref)
			}
		}
	}
	for _, f := range fields(in) {
		if f.Required && !mapsTo(entries, f.Name) {
			c.stepError(sp, IssueMissingRequiredInput, f.Name, []string{"input_mapping"}, "tool '%s' requires input '%s'; map it", sp.name, f.Name)
		}
	}
}

// leftOut reports whether a mapping value is never there, so that it does not matter whether its target is: the optional
// output of the step itself, where nothing else gives its key.
func (c *compiler) leftOut(sp *stepPlan, v *flows.MappingValue) bool {
	if !v.NeverIn(sp.step.OutputAs) || !c.known.declared {
		return false
	}
	_, found := c.known.key(sp.step.OutputAs)
	return !found
}

// checkWholeContext checks a step that gets the whole context as its input.
func (c *compiler) checkWholeContext(sp *stepPlan, tp *toolPlan, missingIssue string) {
	at := stepPointer(sp.at, "input_mapping")
	incomplete := false
	for _, f := range fields(tp.in) {
		if _, found := c.known.key(f.Name); found || !f.Required {
			if !found {
				c.unrelated(place{sp.at, tp.tool.Name, at}, f.Name)
			}
			continue
		}
		if !c.known.declared {
			c.missing(sp.at, tp.tool.Name, f.Name, f.Name, at, &f, true)
			continue
		}
		incomplete = true
		c.report(SeverityError, missingIssue, sp.at, tp.tool.Name, f.Name, at, "tool '%s' requires input '%s', which the context does not hold", tp.tool.Name, f.Name)
	}
	if incomplete {
		return // a whole context that lacks inputs was not meant for this tool; its types say nothing
	}
	for _, f := range fields(tp.in) {
		o, found := c.known.key(f.Name)
		if !found {
			continue
		}
		if !o.certain && f.Required {
			c.report(SeverityWarning, IssueUnprovenValue, sp.at, tp.tool.Name, f.Name, at, "context key '%s', which tool '%s' requires, may be absent", f.Name, tp.tool.Name)
		}
		c.checkType(sp.at, tp.tool.Name, f.Name, f.Name, at, o.schema, f.Schema, "")
	}
	if tp.in == nil || !readObject(tp.tool.InputSchema).forbidsExtras() {
		return
	}
	for _, key := range sortedKeys(c.known.keys) {
		if _, declared := tp.in.Field(key); !declared {
			c.report(SeverityError, IssueUnknownTargetKey, sp.at, tp.tool.Name, key, at, "tool '%s' gets the whole context but refuses key '%s'; map its inputs", tp.tool.Name, key)
		}
	}
}

// checkSource checks one mapping value of a step, or of returns, against the field that it fills (nil: unknown).
func (c *compiler) checkSource(at place, m *mapping, i int, field *schema.Field, typeIssue string) {
	v, target := m.entries[i].Value, m.entries[i].Target
	optional := v.Kind == flows.MapOptional
	if optional {
		v = *v.Inner
	}
	var want *schema.Schema
	if field != nil {
		want = field.Schema
	}
	switch v.Kind {
	case flows.MapExpr: // names and failures were reported when it was compiled
		c.checkType(at.step, at.tool, v.Ref, target, at.pointer, m.resultOf(i), want, typeIssue)
		return
	case flows.MapLiteral, flows.MapConst:
		if want == nil {
			return
		}
		if _, violations := want.Apply(v.Literal); len(violations) > 0 {
			c.report(SeverityError, typeIssue, at.step, at.tool, target, at.pointer, "the literal does not fit '%s': %s", target, describeViolations(violations))
		}
		return
	}
	if s, ok := c.lookUp(at, v, optional, fieldAt(v, field)); ok {
		c.checkType(at.step, at.tool, v.Ref, target, at.pointer, s, want, typeIssue)
	}
}

// lookUp finds the schema of a key or pointer and reports what is wrong with it; ok is false when nothing can be said
// of its type.
func (c *compiler) lookUp(at place, v flows.MappingValue, optional bool, field *schema.Field) (s *schema.Schema, ok bool) {
	s, state := c.known.source(v)
	switch {
	case state == sourceMissing:
		if !optional || !c.known.declared {
			c.missing(at.step, at.tool, v.Ref, rootKey(v), at.pointer, field, !optional)
		} else {
			c.unrelated(at, rootKey(v))
		}
		return nil, false
	case state == sourceImpossible && !optional:
		c.report(SeverityError, IssueMissingMappingKey, at.step, at.tool, v.Ref, at.pointer, "nothing can be at '%s': the schema of '%s' does not allow it", v.Ref, rootKey(v))
		return nil, false
	case state == sourceUnproven && !optional:
		c.report(SeverityWarning, IssueUnprovenValue, at.step, at.tool, v.Ref, at.pointer, "'%s' may be absent at run time; use $optional or a required property", v.Ref)
	}
	return s, true
}

// unrelated reports a key that a step may find although it does not depend on the step that writes it.
func (c *compiler) unrelated(at place, key string) {
	if c.current != nil && c.view.written(c.current, key) {
		c.report(SeverityWarning, IssueUnprovenValue, at.step, at.tool, key, at.pointer, "'%s' is written by a step that this one does not depend on", key)
	}
}

// checkType reports a value that is not taken where it goes: as the issue where its type is another one, as unproven
// where it depends on the run, or where issue is "" because nobody chose to take it from there.
func (c *compiler) checkType(step int, tool, source, target, pointer string, from, to *schema.Schema, issue string) {
	if m, reason := fit(from, to); m == fitsNot && issue != "" {
		c.report(SeverityError, issue, step, tool, target, pointer, "'%s' does not fit '%s': %s", source, target, reason)
	} else if m != fitsIn {
		c.report(SeverityWarning, IssueUnprovenValue, step, tool, source, pointer, "'%s' may not fit '%s' at run time: %s", source, target, reason)
	} else if reason := unproven(from, to, "", maxProofDepth); reason != "" {
		c.report(SeverityWarning, IssueUnprovenValue, step, tool, source, pointer, "'%s' may not fit '%s' at run time: its value%s", source, target, reason)
	}
}

// missing reports a source that nobody produces: an error when the flow declares its input, else an undeclared
// input of the flow.
func (c *compiler) missing(step int, tool, source, key, pointer string, field *schema.Field, required bool) {
	if c.known.declared {
		c.report(SeverityError, IssueMissingMappingKey, step, tool, source, pointer, "'%s' is neither an input of the flow nor an output of an earlier step", source)
		return
	}
	c.report(SeverityWarning, IssueUndeclaredInput, step, tool, source, pointer, "'%s' is taken as an input of the flow; declare it in input_schema", key)
	u := undeclared{key: key, required: required}
	if field != nil {
		u.raw = c.property(tool, field.Name)
	}
	c.inputs = append(c.inputs, u)
	o := origin{certain: required}
	if field != nil {
		o.schema = field.Schema
	}
	c.known.keys[key] = o
	c.view.input.keys[key] = o
}

// property is the schema of an input of a tool or flow as it is written.
func (c *compiler) property(name, field string) json.RawMessage {
	for _, key := range []string{name, calleeKey(name)} {
		if tp := c.compiled[key]; tp != nil {
			return readObject(tp.tool.InputSchema).Properties[field]
		}
	}
	return nil
}

// contributions are the keys that the step's merge adds, in order; rest is true when it may add others.
func (c *compiler) contributions(sp *stepPlan) (keys []contributed, rest bool) {
	out, step := sp.callee.out, sp.step
	certain := sp.onError != onErrorSkip
	switch {
	case step.OutputAs != "":
		return []contributed{{step.OutputAs, collected(sp, origin{out, certain}), stepPointer(sp.at, "output_as")}}, false
	case step.OutputMapping != nil:
		for _, entry := range step.OutputMapping {
			pointer := stepPointer(sp.at, "output_mapping", entry.ContextKey)
			o := origin{certain: certain}
			if out != nil {
				s, proven := out.At(value.Pointer{entry.OutputKey})
				if s == nil {
					c.report(SeverityError, IssueUnknownOutputKey, sp.at, sp.name, entry.OutputKey, pointer, "tool '%s' does not produce '%s'", sp.name, entry.OutputKey)
					continue
				}
				if !proven && !sp.callee.fills(entry.OutputKey) {
					c.report(SeverityWarning, IssueUnprovenValue, sp.at, sp.name, entry.OutputKey, pointer, "tool '%s' may not produce '%s', which output_mapping needs", sp.name, entry.OutputKey)
				}
				o.schema = s
			}
			keys = append(keys, contributed{entry.ContextKey, collected(sp, o), pointer})
		}
		return keys, false
	case out == nil:
		return nil, true
	}
	for _, f := range out.Fields() {
		o := origin{f.Schema, certain && (f.Required || sp.callee.fills(f.Name))}
		if sp.each != nil && !o.certain && certain {
			o = origin{certain: true} // a list with nulls where elements lack it
		}
		keys = append(keys, contributed{f.Name, collected(sp, o), stepPointer(sp.at)})
	}
	return keys, out.Admits("\x00")
}

// fills reports whether validation gives an absent output a value.
func (tp *toolPlan) fills(output string) bool {
	if len(tp.tool.OutputSchema) == 0 {
		return false
	}
	f, ok := tp.out.Field(output)
	return ok && (takesNull(f.Schema) && f.Schema.Type() != "any" || readObject(tp.tool.OutputSchema).hasDefault(output))
}

// checkFlowOutput checks returns and the flow's output schema against the final context.
func (c *compiler) checkFlowOutput(plan *Plan) {
	end, name := len(c.flow.Steps), c.flow.Name
	available := c.known
	if c.flow.Returns != nil {
		available = &known{keys: map[string]origin{}, declared: true}
		at := func(target string) place {
			return place{end, name, value.Pointer{"returns", target}.String()}
		}
		c.programs(&plan.returns, at)
		for i, entry := range c.flow.Returns {
			c.checkSource(at(entry.Target), &plan.returns, i, nil, IssueOutputTypeMismatch)
			available.keys[entry.Target] = c.returned(entry.Value, plan.returns.resultOf(i))
		}
	}
	plan.final = available
	if plan.output.schema == nil {
		return
	}
	const pointer = "/output_schema"
	for _, f := range plan.output.schema.Fields() {
		o, found := available.key(f.Name)
		switch {
		case !found:
			c.report(SeverityError, IssueOutputSchemaGap, end, name, f.Name, pointer, "no step produces output '%s'", f.Name)
			continue
		case !o.certain && f.Required:
			c.report(SeverityWarning, IssueUnprovenValue, end, name, f.Name, pointer, "output '%s' may be absent at run time", f.Name)
		}
		c.checkType(end, name, f.Name, f.Name, pointer, o.schema, f.Schema, IssueOutputTypeMismatch)
	}
}

// returned is what an entry of returns puts into the output.
func (c *compiler) returned(v flows.MappingValue, result *schema.Schema) origin {
	switch v.Kind {
	case flows.MapOptional:
		o := c.returned(*v.Inner, result)
		o.certain = false
		return o
	case flows.MapExpr:
		return origin{result, true}
	case flows.MapKey, flows.MapPointer:
		s, _ := c.known.source(v)
		return origin{s, true} // an absent source fails returns itself
	}
	s, err := schema.Compile(constSchema(v.Literal))
	if err != nil {
		return origin{certain: true}
	}
	return origin{s, true}
}

func constSchema(v any) flows.RawSchema {
	return value.Encode(map[string]any{"const": v})
}

// undeclared is an input that the flow reads but does not declare.
type undeclared struct {
	key      string
	raw      json.RawMessage // the schema of the tool input that it fills, nil when unknown
	required bool
}

// inferredInput is the input schema that a flow without one turns out to have: what steps read and nobody
// produces, with the schemas of the tool inputs that it fills. nil when the flow declares its own.
func (c *compiler) inferredInput() flows.RawSchema {
	if c.known.declared {
		return nil
	}
	properties, required := map[string]any{}, []any{}
	for _, u := range c.inputs {
		property := any(map[string]any{})
		if s, err := value.Decode(u.raw); err == nil {
			property = s
		}
		properties[u.key] = property
		if u.required {
			required = append(required, u.key)
		}
	}
	return value.Encode(map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": true})
}

// rootKey is the context key that a source reads.
func rootKey(v flows.MappingValue) string {
	if v.Kind == flows.MapPointer {
		if p, err := value.ParsePointer(v.Ref); err == nil && len(p) > 0 {
			return p[0]
		}
	}
	return v.Ref
}

// fieldAt is the field that a source fills as a whole: a pointer into a value says nothing about the whole value.
func fieldAt(v flows.MappingValue, field *schema.Field) *schema.Field {
	if v.Kind == flows.MapPointer {
		return nil
	}
	return field
}

// fieldOf returns the input field of a target. Without an input schema every target is taken; field is nil then.
func fieldOf(in *schema.Schema, target string) (field *schema.Field, declared bool) {
	if in == nil {
		return nil, true
	}
	f, ok := in.Field(target)
	if !ok {
		return nil, false
	}
	return &f, true
}

func fields(s *schema.Schema) []schema.Field {
	if s == nil {
		return nil
	}
	return s.Fields()
}

func mapsTo(entries flows.Mapping, target string) bool {
	return slices.ContainsFunc(entries, func(e flows.MappingEntry) bool { return e.Target == target })
}
