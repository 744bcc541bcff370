package analyzer

import (
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
	"pave/observer"
)

// callArg is an argument of a call that callers give as an object.
type callArg struct {
	name     string
	required bool
}

// batchDraftOf turns a batch into a draft: the first step takes its arguments by their names, each later one those of an
// object, and a step that loops those of each object of a list. A run hands back before the first later step for which
// the caller gives none.
func batchDraftOf(p *observer.Pattern, tools *lookup, kinds []resultKind) *draft {
	var inputNames []string
	for _, in := range p.DataFlow.Inputs {
		inputNames = append(inputNames, in.Name)
	}
	d := &draft{inTurn: true}
	taken := map[string]bool{}
	for _, name := range inputNames {
		taken[name] = true
	}
	for k, key := range outputKeys(p.Tools, inputNames) {
		d.steps = append(d.steps, draftStep{tool: tools.tool(p.Tools[k]), key: key})
		taken[key] = true
	}
	b := &minedDraft{draft: d, pattern: p}
	for k := range d.steps {
		d.steps[k].wrapped = p.DataFlow.Steps[k].Each == nil && b.isWrapped(k, kinds[k])
		b.takeCalls(k, taken)
	}
	for k := range d.steps {
		d.mapNothing(k)
	}
	return d
}

// takeCalls maps the arguments of step k to what the caller gives for it.
func (b *minedDraft) takeCalls(k int, taken map[string]bool) {
	step, flow := &b.steps[k], &b.pattern.DataFlow.Steps[k]
	args := b.callArgs(k)
	if k == 0 && flow.Each == nil {
		for _, arg := range args {
			name := ""
			if i := slices.IndexFunc(flow.Args, func(a observer.ArgFlow) bool { return a.Arg == arg.name }); i >= 0 {
				name = flow.Args[i].Input
			} else {
				name = freeName(taken, arg.name)
			}
			b.input(draftInput{name: name, tool: step.tool, arg: arg.name, required: arg.required})
			step.mapArg(arg.name, arg.from(flows.Key(name)))
		}
		return
	}
	i := slices.IndexFunc(b.pattern.DataFlow.Inputs, func(in observer.Input) bool { return in.Calls && in.Step == k })
	name := b.pattern.DataFlow.Inputs[i].Name
	at := name
	if flow.Each != nil {
		list := flows.Key(name)
		step.as = freeName(taken, split(step.tool.tool.Name).noun+"_call")
		step.forEach, at = &list, step.as
	}
	if k > 0 {
		step.guard(name + " != None")
	}
	b.input(draftInput{name: name, tool: step.tool, call: args, origin: callsDescription(step.tool.tool.Name, k, flow.Each != nil), list: flow.Each != nil, required: k == 0, nullable: k > 0})
	for _, arg := range args {
		step.mapArg(arg.name, arg.from(flows.Pointer("/"+value.Escape(at)+"/"+value.Escape(arg.name))))
	}
}

// callsDescription tells a caller, which may be a model, what to give for a step.
func callsDescription(tool string, k int, list bool) string {
	out := "The arguments of the call of " + tool + "."
	if list {
		out = "One object of arguments for each call of " + tool + ", in order."
	}
	if k > 0 {
		out += " Leave it out if they are not known yet: the flow then stops before this step and gives back what was done."
	}
	return out
}

// from maps the argument, which is left out where the caller leaves it out, unless it is required.
func (a callArg) from(v flows.MappingValue) flows.MappingValue {
	if a.required {
		return v
	}
	return optional(v)
}

// callArgs are the arguments of a call of step k: those that agents pass and the tool knows, and what it requires.
func (b *minedDraft) callArgs(k int) []callArg {
	tool := b.steps[k].tool
	out := []callArg{}
	for _, a := range b.pattern.DataFlow.Steps[k].Args {
		if tool.in != nil {
			if at, _ := tool.in.At(value.Pointer{a.Arg}); at == nil {
				b.warn("%s does not declare the argument %s, which agents pass; it is left out", tool.tool.Name, a.Arg)
				continue
			}
		}
		out = append(out, callArg{a.Arg, a.Presence == 1 || tool.declared && isRequired(tool, a.Arg)})
	}
	if tool.in != nil && tool.declared {
		for _, f := range tool.in.Fields() {
			if f.Required && !slices.ContainsFunc(out, func(a callArg) bool { return a.name == f.Name }) {
				b.warn("%s requires %s, which the recorded calls do not pass; callers give it", tool.tool.Name, f.Name)
				out = append(out, callArg{f.Name, true})
			}
		}
	}
	slices.SortFunc(out, func(a, b callArg) int { return strings.Compare(a.name, b.name) })
	return out
}

// callSchema describes an object with arguments of a call.
func callSchema(tool *known, args []callArg) value.Members {
	properties, required := value.Members{}, []any{}
	for _, a := range args {
		property, description := argumentSchema(tool, a.name)
		if description != "" {
			property = append(property, value.Member{Key: "description", Value: description})
		}
		properties = append(properties, value.Member{Key: a.name, Value: property})
		if a.required {
			required = append(required, a.name)
		}
	}
	out := value.Members{{Key: "type", Value: "object"}, {Key: "properties", Value: properties}}
	if len(required) > 0 {
		out = append(out, value.Member{Key: "required", Value: required})
	}
	return append(out, value.Member{Key: "additionalProperties", Value: false})
}
