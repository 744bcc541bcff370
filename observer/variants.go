package observer

import (
	"cmp"
	"maps"
	"math/bits"
	"reflect"
	"slices"
	"strings"

	"pave/flows/value"
)

// option is one way to explain an argument. held has the records in which it gives what was recorded, and those
// without the argument where nothing would be given.
type option struct {
	kind     SourceKind // "" leaves the argument out
	copy     candidate  // SourceOutput, SourceArg
	only     bool       // SourceOutput: only where the list has this one element
	constant any        // SourceConst
	given    bool       // callers give the value where they know it, and the source is for the others
	asked    bool       // SourceDerived: callers say which element the value is of
	held     bitset
}

// variant is one flow for a path: a source for every argument, chosen jointly.
type variant struct {
	flow    *DataFlow
	partial bool   // chosen for a part of the records
	fit     bitset // records in which every mapping held and every input was knowable before the first step
}

func (d *decision) holding(a argument, holds func(*argRecord) bool) bitset {
	held := newBitset(len(d.records))
	for _, p := range a.in {
		if holds(p.arg) {
			held.add(p.record)
		}
	}
	return held
}

// copyOption holds, too, where neither the argument nor its source is there.
func (d *decision) copyOption(a argument, c candidate) option {
	o := option{kind: SourceOutput, copy: c, held: d.holding(a, func(r *argRecord) bool { return slices.Contains(r.sources, c.source) })}
	switch {
	case c.source.derived > 0:
		o.kind = SourceDerived
	case c.source.arg != "":
		o.kind = SourceArg
	}
	for i, absent := range d.absent(a) {
		for ; absent != 0; absent &= absent - 1 {
			r := 64*i + bits.TrailingZeros64(absent)
			if _, ok := d.records[r].at(c.source); !ok && c.source.derived == 0 {
				o.held.add(r)
			}
		}
	}
	return o
}

// absent are the records without the argument.
func (d *decision) absent(a argument) bitset {
	absent := fullBitset(len(d.records))
	for _, p := range a.in {
		absent[p.record/64] &^= 1 << (p.record % 64)
	}
	if d.having(a.step) < len(d.records) {
		absent.drop(d.without)
	}
	return absent
}

func (d *decision) constOption(a argument, constant any) option {
	return option{kind: SourceConst, constant: constant, held: d.holding(a, func(r *argRecord) bool { return value.Equal(r.value, constant) })}
}

// others are the ways to explain an argument beside the trusted source: an input where callers knew the value, and
// leaving it out.
func (d *decision) others(x *explanation) []option {
	absent := d.absent(x.argument)
	var out []option
	if absent.count() > 0 {
		out = append(out, option{held: absent})
	}
	if x.step > 0 {
		out = append(out, d.guesses(x)...)
		if !x.sure {
			out = append(out, d.onlyElements(x)...)
		}
	}
	known := d.holding(x.argument, func(r *argRecord) bool { return r.origin.known() })
	if known.count() > 0 {
		known.join(absent)
		out = append(out, option{kind: SourceInput, held: known})
	}
	if x.step > 0 {
		out = append(out, d.givenOptions(x, known)...)
		out = append(out, d.askedOptions(x)...)
	}
	return out
}

// maxGuesses is how many copies, and how many constants, are considered for an argument that none explains alone.
const maxGuesses = 8

// guesses are sources that explain a part of the occurrences. Where mappings must be exact only the caller's decisions
// are among them: a flag, for which there is one flow with each value.
func (d *decision) guesses(x *explanation) []option {
	var out []option
	if d.options.Exactness < 0 {
		for _, c := range x.part[:min(len(x.part), maxGuesses)] {
			out = append(out, d.copyOption(x.argument, c))
		}
	}
	for _, v := range d.constants(x.argument) {
		if d.options.Exactness < 0 || uninformative(v) {
			out = append(out, d.constOption(x.argument, v))
		}
	}
	return out
}

// onlyElements are copies of an element of a list that are right whenever it is the only one: then there is nothing to
// choose.
func (d *decision) onlyElements(x *explanation) []option {
	var out []option
	for _, c := range x.part {
		if c.source.arg != "" || c.source.derived > 0 || len(out) == maxGuesses {
			continue
		}
		list, ok := d.paths.listOf(c.source.path)
		if !ok {
			continue
		}
		held, wrong := newBitset(len(d.records)), 0
		for _, p := range x.in {
			switch {
			case !d.single(p.record, c.source.step, list):
			case slices.Contains(p.arg.sources, c.source):
				held.add(p.record)
			default:
				wrong++
			}
		}
		n := held.count()
		if distinctIn(x.argument, held) >= minDistinct && d.options.accepted(n, n+wrong) && d.rightIn(d.options.MinSure, n, n+wrong) {
			out = append(out, option{kind: SourceOutput, copy: c, only: true, held: held})
		}
	}
	return out
}

// single reports whether a list in the result of a step has one element in a record.
func (d *decision) single(record, step int, list uint32) bool {
	first, ok := d.paths.ids[pathStep{parent: list, index: 0}]
	if !ok {
		return false
	}
	if _, ok = d.records[record].at(source{step: step, path: first}); !ok {
		return false
	}
	second, ok := d.paths.ids[pathStep{parent: list, index: 1}]
	if !ok {
		return true
	}
	_, more := d.records[record].at(source{step: step, path: second})
	return !more
}

func distinctIn(a argument, among bitset) int {
	seen := map[uint64]struct{}{}
	for _, p := range a.in {
		if among.has(p.record) {
			seen[p.arg.hash] = struct{}{}
		}
	}
	return len(seen)
}

// constants are the most frequent values of an argument, each of enough sessions and none personal.
func (d *decision) constants(a argument) []any {
	type tally struct {
		v        any
		hash     uint64
		n, order int
	}
	tallies := map[uint64]*tally{}
	for _, p := range a.in {
		t := tallies[p.arg.hash]
		if t == nil {
			t = &tally{v: p.arg.value, hash: p.arg.hash, order: len(tallies)}
			tallies[p.arg.hash] = t
		}
		t.n++
	}
	all := slices.SortedFunc(maps.Values(tallies), func(a, b *tally) int { return cmp.Or(b.n-a.n, a.order-b.order) })
	var out []any
	for _, t := range all {
		if len(out) < maxGuesses && d.mayBeConstant(a, t.hash, t.v) {
			out = append(out, t.v)
		}
	}
	return out
}

// render writes one option down as the explanation of its argument.
func (d *decision) render(x *explanation, o option) ArgFlow {
	flow := ArgFlow{Arg: x.name, Presence: float64(len(x.in)) / float64(d.having(x.step)),
		Evidence: Evidence{Present: len(x.in), Distinct: x.distinct}}
	switch o.kind {
	case SourceOutput, SourceArg, SourceDerived:
		if o.asked {
			d.setAsked(&flow, x, o)
			break
		}
		d.setCopy(&flow, x, o)
		if o.only {
			d.setOnly(&flow, x, o)
		}
	case SourceConst:
		d.setConst(&flow, x, o.constant)
	case SourceInput:
		d.setInput(&flow, x)
	case SourceChoice:
		d.setChoice(&flow, x)
	}
	if o.given {
		d.setGiven(&flow, x, o)
	}
	return flow
}

// How many flows one path can give, and how many sessions each must fit: without a demand for exactness, whatever helps
// once.
const (
	maxVariants    = 4
	maxUnfloored   = 10
	variantSupport = 3
)

// variants are the flows of the path. The first explains every argument over all occurrences, unless one is chosen by
// the model; the others choose the sources jointly for the occurrences that are left.
func (d *decision) variants(blocked bool) []variant {
	left := fullBitset(len(d.records))
	var out []variant
	if !blocked {
		first := make([]option, len(d.arguments))
		for i := range d.arguments {
			first[i] = d.arguments[i].first()
		}
		v := d.build(first, nil)
		v.flow.HeldOut = d.heldOut(first)
		left.drop(v.fit)
		out = append(out, v)
	}
	most, support := maxVariants, variantSupport
	if d.options.Exactness < 0 {
		most, support = maxUnfloored, 1
	}
	for len(out) < most {
		chosen, fit := d.joint(left)
		if d.sessions(fit) < support {
			break
		}
		v := d.build(chosen, fit)
		if !slices.ContainsFunc(out, func(o variant) bool { return sameFlow(o.flow, v.flow) }) {
			out = append(out, v)
		}
		left.drop(fit)
	}
	return out
}

// joint assigns a source to every argument so that they hold together in as many of the records as it can find: it
// starts from each option once.
func (d *decision) joint(left bitset) (chosen []option, fit bitset) {
	fit = newBitset(len(d.records))
	best := 0
	for i := range d.arguments {
		for k := range d.arguments[i].options {
			o := &d.arguments[i].options[k]
			if left.both(o.held) <= best {
				continue
			}
			if c, f := d.assign(left, i, o); f.count() > best {
				chosen, fit, best = c, f, f.count()
			}
		}
	}
	return chosen, fit
}

// assign completes a first choice: the argument that is explained best comes next and narrows the records for the
// others.
func (d *decision) assign(left bitset, first int, o *option) (chosen []option, fit bitset) {
	fit = left.clone()
	fit.keep(o.held)
	chosen = make([]option, len(d.arguments))
	chosen[first] = *o
	var open []int
	for i := range d.arguments {
		if i != first {
			open = append(open, i)
		}
	}
	for len(open) > 0 {
		best, at, option := 0, 0, 0
		for n, i := range open {
			for k := range d.arguments[i].options {
				if held := fit.both(d.arguments[i].options[k].held); held > best {
					best, at, option = held, n, k
				}
			}
		}
		if best == 0 {
			return nil, newBitset(len(d.records))
		}
		i := open[at]
		chosen[i] = d.arguments[i].options[option]
		fit.keep(chosen[i].held)
		open = slices.Delete(open, at, at+1)
	}
	return chosen, fit
}

func (d *decision) sessions(fit bitset) int {
	seen := map[string]struct{}{}
	for r := range d.records {
		if fit.has(r) {
			seen[d.records[r].session] = struct{}{}
		}
	}
	return len(seen)
}

// build writes a flow down. Presence is that among the records of the variant, or of all when it is for all.
func (d *decision) build(chosen []option, among bitset) variant {
	v := variant{flow: &DataFlow{Sampled: len(d.records), Steps: make([]StepFlow, len(d.tools))}, partial: among != nil, fit: fullBitset(len(d.records))}
	mapped := fullBitset(len(d.records))
	for i := range d.arguments {
		x, o := &d.arguments[i], chosen[i]
		if o.kind == "" {
			v.fit.keep(o.held)
			mapped.keep(o.held)
			continue
		}
		flow := d.render(x, o)
		if x.each {
			v.flow.Steps[x.step].Each, flow = d.setEach(x, o)
		} else if among != nil {
			here := 0
			for _, p := range x.in {
				if among.has(p.record) {
					here++
				}
			}
			flow.Presence = float64(here) / float64(among.count())
		}
		v.flow.Steps[x.step].Args = append(v.flow.Steps[x.step].Args, flow)
		v.fit.keep(o.held)
		if o.kind != SourceInput && !o.asked {
			mapped.keep(o.held)
		}
	}
	v.flow.Inputs = d.inputs(v.flow)
	v.flow.Explained, v.flow.Applicable = mapped.count(), v.fit.count()
	return v
}

// sameFlow reports whether two flows of one path map alike.
func sameFlow(a, b *DataFlow) bool {
	for k := range a.Steps {
		if !slices.EqualFunc(a.Steps[k].Args, b.Steps[k].Args, sameSource) {
			return false
		}
	}
	return true
}

func sameSource(a, b ArgFlow) bool {
	return cmp.Or(strings.Compare(a.Arg, b.Arg), strings.Compare(string(a.Kind), string(b.Kind)), cmp.Compare(a.Step, b.Step),
		strings.Compare(a.Pointer, b.Pointer)) == 0 && value.Equal(a.Value, b.Value) && (a.Only == nil) == (b.Only == nil) && a.Given == b.Given && reflect.DeepEqual(a.Derived, b.Derived)
}
