package observer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pave/flows/value"
)

// knowledge sums up how callers could know the values of an argument before the first step.
type knowledge struct {
	knowable bool // in enough of the occurrences
	trivial  bool // every value is one of little information
	classes  [originClasses]int
	inner    map[place]int
}

func (d *decision) knowledge(a argument) knowledge {
	k := knowledge{trivial: true, inner: map[place]int{}}
	for _, p := range a.in {
		o := p.arg.origin
		k.classes[o]++
		if o == originInner {
			k.inner[p.arg.inner]++
		}
		k.trivial = k.trivial && uninformative(p.arg.value)
	}
	k.knowable = unknownShare(a, d.having(a.step)) <= 1-d.options.MinKnowable
	return k
}

// unknownShare is the share of all occurrences in which callers could not know the argument.
func unknownShare(a argument, records int) float64 {
	unknown := 0
	for _, p := range a.in {
		if !p.arg.origin.known() {
			unknown++
		}
	}
	return float64(unknown) / float64(records)
}

func (d *decision) setInput(flow *ArgFlow, x *explanation) {
	a, k := x.argument, x.known
	flow.Kind = SourceInput
	known := func(r *argRecord) bool { return r.origin.known() }
	for _, n := range k.classes[:originNowhere] {
		flow.Evidence.Held += n
	}
	d.cite(&flow.Evidence, a, known)
	if missed := len(a.in) - flow.Evidence.Held; missed > 0 {
		flow.Evidence.Note = fmt.Sprintf("In %d of %d occurrences the value could not be known before the flow.", missed, len(a.in))
	}
}

// setGiven says how often callers knew the value, and how often the source was right where they did not.
func (d *decision) setGiven(flow *ArgFlow, x *explanation, o option) {
	known, explained := 0, map[*argRecord]bool{}
	for _, p := range x.in {
		if p.arg.origin.known() {
			known++
		}
		explained[p.arg] = o.held.has(p.record)
	}
	e := &flow.Evidence
	e.Held, e.Ambiguous, e.Supporting, e.Contradicting = 0, false, nil, nil
	for _, holds := range explained {
		if holds {
			e.Held++
		}
	}
	e.Note = fmt.Sprintf("Callers knew the value in %d of %d occurrences; where they did not, this source had it in %d of %d.",
		known, len(x.in), e.Held-known, len(x.in)-known)
	flow.Given = true
	d.cite(e, x.argument, func(r *argRecord) bool { return explained[r] })
}

// setChoice says what the model chose from. Held is how often callers knew the value all the same.
func (d *decision) setChoice(flow *ArgFlow, x *explanation) {
	a, k := x.argument, x.known
	flow.Kind = SourceChoice
	d.cite(&flow.Evidence, a, func(r *argRecord) bool { return !r.origin.known() })
	unknown := k.classes[originInner] + k.classes[originNowhere]
	flow.Evidence.Held = len(a.in) - unknown
	if x.always > 0 {
		flow.Evidence.Note = fmt.Sprintf("its value is the same in %d of %d occurrences, and no flow may hold it: it looks personal or secret, or is that of few sessions or of one agent", x.always, len(a.in))
		return
	}
	if len(k.inner) == 0 {
		flow.Evidence.Note = fmt.Sprintf("the model made its value up after the first step in %d of %d occurrences", unknown, len(a.in)) + d.nearest(x)
		return
	}
	top := slices.MinFunc(slices.Collect(maps.Keys(k.inner)), func(x, y place) int {
		return cmp.Or(cmp.Compare(k.inner[y], k.inner[x]), cmp.Compare(y.step, x.step), cmp.Compare(x.path, y.path))
	})
	flow.Step, flow.Pointer = top.step, top.path
	where := top.path
	if where == "" {
		where = "the values"
	}
	flow.Evidence.Note = fmt.Sprintf("the model chooses its value from %s of the result of step %d (%s) in %d of %d occurrences",
		where, top.step+1, d.tools[top.step], k.classes[originInner], len(a.in)) + d.nearest(x)
}

// nearest names the source that explains a choice most often, "" where none does.
func (d *decision) nearest(x *explanation) string {
	if x.each || len(x.part) == 0 {
		return ""
	}
	best := x.part[0]
	return fmt.Sprintf("; the nearest source, %s, had it in %d", d.describe(best.source), best.held)
}

// originNames say where callers had an input's value from, by class.
var originNames = [originNowhere]string{
	originTrivial: "the caller's decision", originText: "user text", originEarlier: "earlier result",
	originFirst: "first step", originWritten: "written by the caller",
}

// inputs names the inputs of the flow in the order of their first use.
func (d *decision) inputs(flow *DataFlow) []Input {
	var out []Input
	taken, asked := map[string]bool{}, askedInputs{}
	for k := range flow.Steps {
		each := flow.Steps[k].Each
		for i := range flow.Steps[k].Args {
			arg := &flow.Steps[k].Args[i]
			if arg.Kind == SourceElement && each.Kind == SourceInput {
				a := d.argument(k, arg.Arg)
				each.Input = freeName(taken, plural(arg.Arg))
				in := Input{Name: each.Input, Step: k, Arg: arg.Arg, List: true, Origin: mainOrigin(a), Required: true}
				d.examples(&in, a)
				out = append(out, in)
			}
			if arg.Derived != nil && arg.Derived.Asks {
				name, added := asked.name(arg, taken)
				if arg.Input = name; added {
					out = append(out, Input{Name: name, Step: k, Arg: arg.Arg, Origin: originNames[originText]})
				}
				continue
			}
			if arg.Kind != SourceInput && !arg.Given {
				continue
			}
			a := d.argument(k, arg.Arg)
			arg.Input = freeName(taken, arg.Arg)
			in := Input{Name: arg.Input, Step: k, Arg: arg.Arg, Origin: mainOrigin(a), Required: arg.Presence >= mostly && !arg.Given}
			d.examples(&in, a)
			out = append(out, in)
		}
	}
	return out
}

// argument finds an argument of a step.
func (d *decision) argument(k int, name string) argument {
	for i := range d.arguments {
		if x := &d.arguments[i]; x.step == k && x.name == name {
			return x.argument
		}
	}
	return argument{}
}

// plural is the name of a list of what the name stands for.
func plural(name string) string {
	if strings.HasSuffix(name, "s") {
		return name + "_list"
	}
	return name + "s"
}

func freeName(taken map[string]bool, name string) string {
	free := name
	for n := 2; taken[free]; n++ {
		free = fmt.Sprintf("%s_%d", name, n)
	}
	taken[free] = true
	return free
}

// mainOrigin is the class that most values of an input belong to.
func mainOrigin(a argument) string {
	var classes [originNowhere]int
	for _, p := range a.in {
		if p.arg.origin.known() {
			classes[p.arg.origin]++
		}
	}
	best := originFirst
	for o := range originNowhere {
		if classes[o] > classes[best] {
			best = o
		}
	}
	return originNames[best]
}

// examples are the first few different values that are short and not personal.
func (d *decision) examples(in *Input, a argument) {
	const most, longest = 3, 80
	for _, p := range a.in {
		v := p.arg.value
		if len(in.Examples) == most {
			break
		}
		if isPersonal(a.name, v) || len(value.Encode(v)) > longest || slices.ContainsFunc(in.Examples, func(e any) bool { return value.Equal(e, v) }) {
			continue
		}
		in.Examples, in.ExampleSessions = append(in.Examples, v), append(in.ExampleSessions, d.records[p.record].session)
	}
}
