package analyzer

import (
	"fmt"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
	"pave/observer"
)

// mostlyPresent is the presence from which on an argument counts as always given; mostlyLeftOut that up to which a flow
// does without it where it could pass it every time.
const (
	mostlyPresent = 0.98
	mostlyLeftOut = 0.5
)

// oftenPresent is the same for an input of a later step of a flow that may change something: the few calls without it do
// not make it optional, since a run that lacks what its caller wanted to say would do something else.
const oftenPresent = 0.9

// refusal says why a pattern makes no candidate; nil where it makes one.
type refusal = *refused

type refused struct {
	why    string // a clause
	schema bool   // schemas contradict what was recorded
}

func refuse(format string, args ...any) refusal { return &refused{why: fmt.Sprintf(format, args...)} }

// refuseSchema is refuse for a mapping that schemas contradict.
func refuseSchema(format string, args ...any) refusal {
	return &refused{why: "the tools' schemas contradict what was recorded: " + fmt.Sprintf(format, args...), schema: true}
}

// draftOf turns a mined pattern into a draft and checks each mapping against the tools' schemas.
func draftOf(p *observer.Pattern, tools *lookup, kinds []resultKind) (*draft, refusal) {
	var inputNames []string
	for _, in := range p.DataFlow.Inputs {
		inputNames = append(inputNames, in.Name)
	}
	b := &minedDraft{draft: &draft{}, pattern: p}
	for k, key := range outputKeys(p.Tools, inputNames) {
		b.steps = append(b.steps, draftStep{tool: tools.tool(p.Tools[k]), key: key})
	}
	for k := range b.steps {
		b.steps[k].wrapped = p.DataFlow.Steps[k].Each == nil && b.isWrapped(k, kinds[k])
	}
	for k := range b.steps {
		if r := b.forEach(k); r != nil {
			return nil, r
		}
		for i := range p.DataFlow.Steps[k].Args {
			if r := b.argument(k, &p.DataFlow.Steps[k].Args[i]); r != nil {
				return nil, r
			}
		}
		b.requiredLeft(k)
		if r := b.setWhen(k); r != nil {
			return nil, r
		}
	}
	for k := range b.steps {
		slices.SortFunc(b.steps[k].mapping, func(x, y flows.MappingEntry) int { return strings.Compare(x.Target, y.Target) })
	}
	for k := range b.steps {
		b.mapNothing(k)
	}
	return b.draft, nil
}

type minedDraft struct {
	*draft
	pattern *observer.Pattern
}

// resultKind counts what the results of one step were in the examples.
type resultKind struct{ objects, others int }

// isWrapped: what was recorded decides; without records the schema does.
func (b *minedDraft) isWrapped(k int, kind resultKind) bool {
	if kind.objects+kind.others > 0 {
		return kind.others > kind.objects
	}
	out := b.steps[k].tool.out
	if out == nil {
		return false
	}
	fields := out.Fields()
	return len(fields) == 1 && fields[0].Name == wrapKey
}

// source is where an argument's value comes from once arguments of earlier steps are followed to their own source.
func (b *minedDraft) source(a *observer.ArgFlow) (*observer.ArgFlow, bool) {
	for range len(b.steps) + 1 {
		if a.Kind != observer.SourceArg || a.Given {
			return a, true
		}
		if a.Step < 0 || a.Step >= len(b.steps) {
			return nil, false
		}
		args := b.pattern.DataFlow.Steps[a.Step].Args
		i := slices.IndexFunc(args, func(o observer.ArgFlow) bool { return o.Arg == a.Pointer })
		if i < 0 {
			return nil, false
		}
		a = &args[i]
	}
	return nil, false
}

func (b *minedDraft) argument(k int, a *observer.ArgFlow) refusal {
	step := &b.steps[k]
	required := false
	if in := step.tool.in; in != nil {
		f, declared := in.Field(a.Arg)
		required = declared && f.Required
		if at, _ := in.At(value.Pointer{a.Arg}); at == nil {
			b.warn("%s does not declare the argument %s, which agents pass; it is left out", step.tool.tool.Name, a.Arg)
			return nil
		}
	}
	src, ok := b.source(a)
	if !ok {
		return refuse("argument %s of %s comes from an argument that is not part of the pattern", a.Arg, step.tool.tool.Name)
	}
	sometimes := a.Presence < mostlyPresent && !required
	if src.Given {
		return b.fromGiven(k, a.Arg, src, sometimes)
	}
	switch src.Kind {
	case observer.SourceInput:
		b.fromInput(k, a, src.Input, sometimes)
		return nil
	case observer.SourceConst:
		b.fromConst(k, a, src.Value, sometimes)
		return nil
	case observer.SourceOutput:
		return b.fromOutput(k, a, src, sometimes)
	case observer.SourceDerived:
		return b.fromDerived(k, a.Arg, src, sometimes)
	case observer.SourceElement:
		if src != a {
			return refuse("argument %s of %s comes from a step that runs once per element", a.Arg, step.tool.tool.Name)
		}
		return b.fromElement(k, a)
	}
	return refuse("argument %s of %s is chosen by the model", a.Arg, step.tool.tool.Name)
}

// forEach sets the list of a step that runs once per element.
func (b *minedDraft) forEach(k int) refusal {
	each := b.pattern.DataFlow.Steps[k].Each
	if each == nil {
		return nil
	}
	step := &b.steps[k]
	i := slices.IndexFunc(b.pattern.DataFlow.Steps[k].Args, func(a observer.ArgFlow) bool { return a.Kind == observer.SourceElement })
	if i < 0 {
		return refuse("%s runs once per element of a list, but takes nothing from the element", step.tool.tool.Name)
	}
	element := b.pattern.DataFlow.Steps[k].Args[i]
	taken := map[string]bool{}
	for _, in := range b.pattern.DataFlow.Inputs {
		taken[in.Name] = true
	}
	for j := range b.steps {
		taken[b.steps[j].key] = true
	}
	step.as = freeName(taken, element.Arg)
	if element.Pointer != "" {
		step.as = freeName(taken, split(step.tool.tool.Name).noun+"_element")
	}
	var list flows.MappingValue
	switch each.Kind {
	case observer.SourceInput:
		list = flows.Key(each.Input)
		b.input(draftInput{name: each.Input, tool: step.tool, arg: element.Arg, origin: b.origin(each.Input), required: true, list: true})
	case observer.SourceOutput:
		if each.Step < 0 || each.Step >= k {
			return refuse("the list of %s comes from a step that is not before it", step.tool.tool.Name)
		}
		from := &b.steps[each.Step]
		if _, _, impossible := from.schemaAt(each.Pointer); impossible && from.tool.declared {
			return refuseSchema("%s declares no output at %q, whose elements %s takes", from.tool.tool.Name, each.Pointer, step.tool.tool.Name)
		}
		list = from.output(each.Pointer)
		from.used = append(from.used, each.Pointer)
	default:
		return refuse("the list of %s has no source", step.tool.tool.Name)
	}
	step.forEach = &list
	if each.Fewer > 0 {
		b.warn("agents stopped before the end of the list in %d of %d occurrences: the flow then makes more calls of %s",
			each.Fewer, each.Evidence.Present, step.tool.tool.Name)
	}
	return nil
}

// fromElement maps the element of the step's list, or a place in it.
func (b *minedDraft) fromElement(k int, a *observer.ArgFlow) refusal {
	step := &b.steps[k]
	if step.forEach == nil {
		return refuse("argument %s of %s is an element of no list", a.Arg, step.tool.tool.Name)
	}
	if a.Pointer == "" {
		step.mapArg(a.Arg, flows.Key(step.as))
		return nil
	}
	step.mapArg(a.Arg, flows.Pointer("/"+value.Escape(step.as)+a.Pointer))
	return nil
}

// origin describes where callers had an input from.
func (b *minedDraft) origin(input string) string {
	for _, in := range b.pattern.DataFlow.Inputs {
		if in.Name == input {
			return describeOrigin(in.Origin)
		}
	}
	return ""
}

func (b *minedDraft) fromInput(k int, a *observer.ArgFlow, name string, sometimes bool) {
	step := &b.steps[k]
	wanted := !slices.ContainsFunc(b.pattern.DataFlow.Inputs, func(in observer.Input) bool { return in.Name == name && !in.Required })
	risky := k > 0 && flows.Exceeds(b.effects(), flows.EffectRead)
	need := !sometimes && (wanted || isRequired(step.tool, a.Arg)) || risky && a.Presence >= oftenPresent
	// A flow that may change something waits for what the caller knows: without it it hands back before the step.
	withheld := need && risky && step.forEach == nil && nameable(name)
	if withheld && !slices.ContainsFunc(b.inputs, func(in draftInput) bool { return in.name == name }) {
		step.guard(name + " != None")
	}
	b.input(draftInput{name: name, tool: step.tool, arg: a.Arg, origin: b.origin(name), required: need, nullable: withheld})
	if need {
		step.mapArg(a.Arg, flows.Key(name))
	} else {
		step.mapArg(a.Arg, optional(flows.Key(name)))
	}
}

func isRequired(tool *known, arg string) bool {
	if tool.in == nil {
		return false
	}
	f, ok := tool.in.Field(arg)
	return ok && f.Required
}

func describeOrigin(origin string) string {
	switch origin {
	case "user text":
		return "callers had it from the user's words"
	case "earlier result":
		return "callers had it from an earlier result"
	case "first step":
		return "callers chose it before the first step"
	}
	return ""
}

// passed decides about an argument that agents pass only sometimes, by what they do more often, and says so.
func (b *minedDraft) passed(k int, a *observer.ArgFlow, what string) bool {
	passes, done := a.Presence > mostlyLeftOut, "is left out"
	if passes {
		done = "is always passed"
	}
	b.warn("agents pass %s = %s to %s only in %.0f %% of the calls; it %s", a.Arg, what, b.steps[k].tool.tool.Name, 100*a.Presence, done)
	return passes
}

func (b *minedDraft) fromConst(k int, a *observer.ArgFlow, v any, sometimes bool) {
	step, arg := &b.steps[k], a.Arg
	name := step.tool.tool.Name
	if sometimes && !b.passed(k, a, short(v)) {
		return
	}
	if step.tool.in != nil {
		if f, ok := step.tool.in.Field(arg); ok {
			if _, violations := f.Schema.Apply(v); len(violations) > 0 {
				b.warn("the constant %s does not fit argument %s of %s; it became an input", short(v), arg, name)
				step.mapArg(arg, flows.Key(b.newInput(step.tool, arg)))
				return
			}
		}
	}
	step.mapArg(arg, flows.Const(v))
}

// fromOutput maps a copy of an earlier result. Where schemas contradict it, the value would have to be an input that
// only an inner result can tell: a choice, so there is no flow.
func (b *minedDraft) fromOutput(k int, a, src *observer.ArgFlow, sometimes bool) refusal {
	step := &b.steps[k]
	proven, r := b.copyable(k, a.Arg, src)
	if r != nil {
		return r
	}
	from := &b.steps[src.Step]
	v := from.output(src.Pointer)
	switch {
	case sometimes && !proven:
		v = optional(v)
	case sometimes && !b.passed(k, a, "a value of "+from.tool.tool.Name):
		return nil
	}
	from.used = append(from.used, src.Pointer)
	step.mapArg(a.Arg, v)
	if a.Only != nil {
		step.guard(onlyElement(from.subscripts(*a.Only)))
	}
	return nil
}

// copyable checks a copy of an earlier result against the schemas. proven: the source is always there.
func (b *minedDraft) copyable(k int, arg string, src *observer.ArgFlow) (proven bool, _ refusal) {
	step := &b.steps[k]
	if src.Step < 0 || src.Step >= k {
		return false, refuse("argument %s of %s comes from a step that is not before it", arg, step.tool.tool.Name)
	}
	from := &b.steps[src.Step]
	at, proven, impossible := from.schemaAt(src.Pointer)
	if impossible && from.tool.declared {
		return false, refuseSchema("%s declares no output at %q, which argument %s of %s was copied from", from.tool.tool.Name, src.Pointer, arg, step.tool.tool.Name)
	}
	if step.tool.in != nil && at != nil {
		if f, ok := step.tool.in.Field(arg); ok {
			if reason := contradicts(at, f.Schema, from.tool.declared && step.tool.declared); reason != "" {
				return false, refuseSchema("output %q of %s does not fit argument %s of %s: %s", src.Pointer, from.tool.tool.Name, arg, step.tool.tool.Name, reason)
			}
		}
	}
	return proven, nil
}

// onlyElement is the predicate that a list has exactly one element: predicates know no length, but a list equals that of
// its first element.
func onlyElement(list string) string { return fmt.Sprintf("%s and %s == [%s[0]]", list, list, list) }

// requiredLeft makes inputs of arguments that the tool requires but no recorded call of the pattern has.
func (b *minedDraft) requiredLeft(k int) {
	step := &b.steps[k]
	if step.tool.in == nil || !step.tool.declared {
		return
	}
	for _, f := range step.tool.in.Fields() {
		mapped := slices.ContainsFunc(step.mapping, func(e flows.MappingEntry) bool { return e.Target == f.Name })
		if !f.Required || mapped {
			continue
		}
		b.warn("%s requires %s, which the recorded calls do not pass; it became an input", step.tool.tool.Name, f.Name)
		step.mapArg(f.Name, flows.Key(b.newInput(step.tool, f.Name)))
	}
}

// short shows a value in a sentence.
func short(v any) string {
	const most = 40
	text := []rune(string(value.Encode(v)))
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}
