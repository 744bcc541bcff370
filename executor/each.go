package executor

import (
	"fmt"
	"maps"
	"slices"

	"pave/flows"
	"pave/flows/schema"
	"pave/flows/value"
)

// each is the for_each of a step: where its list comes from, and the name of an element.
type each struct {
	source mapping // one entry
	as     string
	limit  int // elements at a time
}

// elementsKey holds the element inputs, and with output_as the element outputs, in the record of a for_each step.
const elementsKey = "elements"

// anySchema takes every value.
var anySchema, _ = schema.Compile(nil)

func newEach(s *flows.Step) *each {
	return &each{source: mapping{entries: flows.Mapping{{Target: "for_each", Value: *s.ForEach}}}, as: s.As, limit: max(1, s.MaxConcurrency)}
}

// enterElements checks where the elements of a step come from and adds the element to the context that its inputs are
// checked in.
func (c *compiler) enterElements(sp *stepPlan) {
	if sp.each == nil {
		return
	}
	at := place{sp.at, sp.name, stepPointer(sp.at, "for_each")}
	c.programs(&sp.each.source, func(string) place { return at })
	v := sp.each.source.entries[0].Value
	var list *schema.Schema
	switch v.Kind {
	case flows.MapExpr:
		list = sp.each.source.resultOf(0)
	case flows.MapKey, flows.MapPointer:
		list, _ = c.lookUp(at, v, false, nil)
	case flows.MapLiteral, flows.MapConst:
		list, _ = schema.Compile(constSchema(v.Literal))
	}
	anyList := schema.ArrayOf(nil)
	c.checkType(at.step, at.tool, v.Ref, "for_each", at.pointer, list, anyList, IssueTypeMismatch)
	inner := *c.known
	inner.keys = maps.Clone(c.known.keys)
	element := origin{certain: true}
	if list != nil {
		element.schema, _ = list.At(value.Pointer{"0"})
	}
	if element.schema == nil {
		element.schema = anySchema
	}
	inner.keys[sp.each.as] = element
	c.known = &inner
}

// collected is a contribution as a for_each step makes it: a list.
func collected(sp *stepPlan, o origin) origin {
	if sp.each != nil {
		o.schema = schema.ArrayOf(o.schema)
	}
	return o
}

// readyElements resolves the list and the inputs of every element.
func (v *visit) readyElements() *failure {
	sp, each := v.sp, v.sp.each
	found, present, f := each.source.value(0, v.values, sp.name, sp.index)
	if f != nil {
		return f
	}
	list, isList := found.([]any)
	if !isList && present {
		return failMapping(&flows.MappingError{Target: "for_each", Tool: sp.name, Step: sp.index, Reason: "the value is no list"})
	}
	if most := v.r.e.limits.MaxElements; len(list) > most {
		return failMapping(&flows.MappingError{Target: "for_each", Tool: sp.name, Step: sp.index, Reason: fmt.Sprintf("the list has %d elements, above the limit of %d", len(list), most)})
	}
	v.special().elements = make([]visit, len(list))
	v.rec.Elements = make([]StepRecord, len(list))
	inputs := make([]any, len(list))
	for i := range list {
		e := &v.elements[i]
		values := maps.Clone(v.values)
		values[each.as] = list[i]
		*e = visit{r: v.r, rare: &none, sp: sp, name: v.name, rec: &v.rec.Elements[i], values: values, element: i + 1, tool: v.tool, buffered: true}
		*e.rec = StepRecord{StepIndex: sp.index, StepID: sp.step.StepID, ToolName: v.rec.ToolName, FlowName: v.rec.FlowName, RetryErrors: noErrors}
		if f := e.resolve(); f != nil {
			v.rec.Elements = v.rec.Elements[:0]
			return f
		}
		inputs[i] = e.resolved
		if v.partial != nil {
			e.restoreStep(v.partial.Elements[i])
		}
	}
	v.resolved = map[string]any{elementsKey: inputs}
	v.rec.Inputs = v.resolved
	return nil
}

// executeElements runs the elements, side by side within the step's limit, and collects their outputs in order. The
// first element that fails, in order, fails the step; a fallback stands in for its element, a skip skips the step.
func (v *visit) executeElements() {
	parallel(len(v.elements), min(v.sp.each.limit, v.r.e.limits.MaxParallelSteps), func(i int) bool {
		e := &v.elements[i]
		if e.restored {
			return e.f.letsOn()
		}
		e.ran = true
		if v.fallbackApproval != nil || v.fallbackDenied != nil {
			e.special().fallbackApproval, e.special().fallbackDenied = v.fallbackApproval, v.fallbackDenied
		}
		e.started = v.r.e.now()
		e.executeOnce()
		e.finished = v.r.e.now()
		return e.f.letsOn()
	})
	v.sent = v.sent || slices.ContainsFunc(v.elements, func(e visit) bool { return e.sent })
	if waits(v.elements) {
		v.f = &failure{pending: true}
		return
	}
	inputs := make([]any, 0, len(v.elements))
	for i := range v.elements {
		e := &v.elements[i]
		if e.f == nil {
			e.rec.Outputs = e.outputs
		} else {
			e.fail(e.rec)
		}
		e.rec.Success = e.f == nil
		v.r.close(e)
		for k := range e.events {
			v.forward()(e.events[k])
		}
		inputs = append(inputs, e.rec.Inputs)
		v.size += e.size
		if e.f != nil {
			v.rec.Elements = v.rec.Elements[:i+1]
			for _, rest := range v.elements[i+1:] {
				inputs = append(inputs, rest.resolved)
			}
			v.rec.Inputs = map[string]any{elementsKey: inputs}
			v.f = e.f
			if e.skips {
				v.rec.skip()
				v.f.write(v.rec)
				v.f = nil
			}
			return
		}
	}
	v.rec.Inputs = map[string]any{elementsKey: inputs}
	v.outputs = v.collect()
}

// collect is what a for_each step makes of its elements' outputs: with output_as a list of them, else one list for
// each output key, with null where an element lacks it.
func (v *visit) collect() map[string]any {
	step := v.sp.step
	if step.OutputAs != "" {
		list := make([]any, len(v.elements))
		for i := range v.elements {
			list[i] = v.elements[i].outputs
		}
		return map[string]any{elementsKey: list}
	}
	out := map[string]any{}
	column := func(key string, complete bool) {
		list := make([]any, len(v.elements))
		for i := range v.elements {
			cell, ok := v.elements[i].outputs[key]
			if !ok && complete {
				return
			}
			list[i] = cell
		}
		out[key] = list
	}
	if step.OutputMapping != nil {
		for _, entry := range step.OutputMapping {
			column(entry.OutputKey, true) // one that is missing fails the merge
		}
		return out
	}
	if v.sp.callee != nil {
		for _, key := range v.sp.callee.outputs {
			column(key, false)
		}
	}
	for i := range v.elements {
		for key := range v.elements[i].outputs {
			if _, done := out[key]; !done {
				column(key, false)
			}
		}
	}
	return out
}
