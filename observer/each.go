package observer

import (
	"fmt"
	"slices"

	"pave/flows/value"
)

// Limits of the lists that are considered as a source of a step's elements.
const (
	maxLists    = 64
	maxElements = 256
)

// list examines the i-th argument of a step that runs once per element: its values in all calls, as one list.
func (x *examination) list(k, i int) *argRecord {
	first := x.call(k)
	name := first.names[i]
	a := &argRecord{name: name, origin: originTrivial}
	var all []any
	for _, at := range x.at[k] {
		c := x.view.call(x.run, at)
		v := c.args[name]
		all = append(all, v)
		a.varies = a.varies || c.hashes[i] != first.hashes[i]
	}
	a.value, a.hash = all, hashOf(x.view.miner.seed, all)
	if k == 0 {
		a.origin = originFirst // the caller starts with the list
	}
	for n, v := range all {
		if o, p := x.elementOrigin(k, n, v); o > a.origin {
			a.origin, a.inner = o, p
		}
	}
	for j := range k {
		if x.sees(k, j) && !x.runsEach(j) {
			x.lists(j, func(s source, elements []any) {
				if len(elements) < len(all) || !slices.EqualFunc(all, elements[:len(all)], value.Equal) {
					return
				}
				a.begins = append(a.begins, s)
				if len(elements) == len(all) {
					a.sources = append(a.sources, s)
				}
			})
		}
	}
	return a
}

// elementOrigin finds out whether the caller knew the n-th element. In the first step the first element is the
// caller's, the others must have been known like the values of later steps.
func (x *examination) elementOrigin(k, n int, v any) (origin, place) {
	if k == 0 && n == 0 {
		return originFirst, place{}
	}
	return x.origin(k, v)
}

// lists calls fn with the lists in the result of step j: of their elements, and of each place in elements that are
// objects.
func (x *examination) lists(j int, fn func(s source, elements []any)) {
	result := x.result(j)
	seen := 0
	for n, v := range result.values {
		elements, ok := v.([]any)
		if !ok || len(elements) == 0 || len(elements) > maxElements {
			continue
		}
		if seen++; seen > maxLists {
			return
		}
		s := source{step: j, path: result.paths[n], each: true}
		fn(s, elements)
		object, ok := elements[0].(map[string]any)
		if !ok {
			continue
		}
		for _, field := range sortedKeys(object) {
			if part, ok := column(elements, field); ok {
				s.sub = "/" + value.Escape(field)
				fn(s, part)
			}
		}
	}
}

// column is one field of all elements; ok is false where one lacks it.
func column(elements []any, field string) (out []any, ok bool) {
	for _, e := range elements {
		object, _ := e.(map[string]any)
		v, ok := object[field]
		if !ok {
			return nil, false
		}
		out = append(out, v)
	}
	return out, true
}

// elementwise makes the one argument that differs from call to call the list of its values. ok is false where none or
// several do.
func elementwise(arguments []argument) (out []argument, ok bool) {
	varying := -1
	for i := range arguments {
		if !slices.ContainsFunc(arguments[i].in, func(p present) bool { return p.arg.list.varies }) {
			continue
		}
		if varying >= 0 {
			return nil, false
		}
		varying = i
	}
	if varying < 0 {
		return nil, false
	}
	a := &arguments[varying]
	a.each = true
	for i := range a.in {
		a.in[i].arg = a.in[i].arg.list
	}
	return arguments, true
}

// explainEach finds the list that the values of an argument come from, one for each call of its step.
func (d *decision) explainEach(a argument) explanation {
	x := explanation{argument: a, distinct: distinct(a)}
	votes, begins := map[source]int{}, map[source]int{}
	for _, p := range a.in {
		for _, s := range p.arg.begins {
			begins[s]++
		}
		for _, s := range p.arg.sources {
			votes[s]++
		}
	}
	for s, held := range votes {
		if held >= minVotes {
			x.part = append(x.part, candidate{source: s, held: held, begins: begins[s]})
		}
	}
	slices.SortFunc(x.part, func(p, q candidate) int { return d.prefer(a, p, q) })
	x.known = d.knowledge(a)
	for _, c := range x.part {
		x.bestCopy = max(x.bestCopy, float64(c.held)/float64(len(a.in)))
	}
	for n, c := range x.part {
		sure := x.distinct >= minDistinct && d.rightIn(d.options.MinSure, c.begins, len(a.in)) && d.rightIn(minWholeLists, c.held, len(a.in))
		if sure && !x.sure {
			x.sure = true
			x.options = slices.Insert(x.options, 0, d.copyOption(a, c))
		} else if d.options.Exactness < 0 && n < maxGuesses {
			x.options = append(x.options, d.copyOption(a, c))
		}
	}
	known := d.holding(a, func(r *argRecord) bool { return r.origin.known() })
	if known.count() > 0 {
		x.options = append(x.options, option{kind: SourceInput, held: known})
	}
	return x
}

// minWholeLists is the share of occurrences in which agents must have used a list to its end.
const minWholeLists = 0.6

// setEach writes down where the list of a step comes from.
func (d *decision) setEach(x *explanation, o option) (*EachFlow, ArgFlow) {
	each := &EachFlow{Kind: o.kind, Evidence: Evidence{Present: len(x.in), Distinct: x.distinct}}
	arg := ArgFlow{Arg: x.name, Kind: SourceElement, Presence: 1}
	switch o.kind {
	case SourceOutput:
		c := o.copy
		each.Step, each.Pointer = c.source.step, d.paths.pointer(c.source.path, false)
		arg.Pointer = c.source.sub
		each.Evidence.Held, each.Fewer = c.held, c.begins-c.held
		d.cite(&each.Evidence, x.argument, func(r *argRecord) bool { return slices.Contains(r.sources, c.source) })
		if each.Fewer > 0 {
			each.Evidence.Note = fmt.Sprintf("In %d of %d occurrences agents stopped before the end of the list; the flow would make more calls.", each.Fewer, len(x.in))
		}
	case SourceInput:
		each.Evidence.Held = o.held.count()
		d.cite(&each.Evidence, x.argument, func(r *argRecord) bool { return r.origin.known() })
	}
	arg.Evidence = each.Evidence
	return each, arg
}
