package observer

import (
	"fmt"
	"slices"

	"pave/flows/value"
)

// setCopy writes a copy down with its evidence.
func (d *decision) setCopy(flow *ArgFlow, x *explanation, o option) {
	c := o.copy
	flow.Kind, flow.Step, flow.Pointer = SourceOutput, c.source.step, d.paths.pointer(c.source.path, false)
	switch {
	case c.source.derived > 0:
		flow.Kind, flow.Derived = SourceDerived, d.forms.write(c.source.derived, d.paths)
		flow.Step, flow.Pointer = flow.Derived.origin()
		flow.Evidence.Note = flow.Derived.explain()
		c.chance = d.chance(x.argument, c.source)
	case c.source.arg != "":
		flow.Kind, flow.Pointer = SourceArg, c.source.arg
	}
	flow.Evidence.Held, flow.Evidence.Chance = c.held, c.chance
	if x.ambiguous {
		flow.Evidence.Ambiguous = true
		flow.Evidence.Note = "Only one value was ever seen, so a constant would explain it as well; the names agree."
	} else if rival, ok := d.rival(x.argument, c, x.copies); ok {
		flow.Evidence.Ambiguous = true
		flow.Evidence.Note = d.describe(rival.source) + " had the same value every time."
	}
	d.cite(&flow.Evidence, x.argument, func(r *argRecord) bool { return slices.Contains(r.sources, c.source) })
}

// setOnly restricts a copy to lists of one element.
func (d *decision) setOnly(flow *ArgFlow, x *explanation, o option) {
	list, _ := d.paths.listOf(o.copy.source.path)
	pointer := d.paths.pointer(list, false)
	flow.Only = &pointer
	flow.Evidence.Held, flow.Evidence.Ambiguous = o.held.count(), false
	flow.Evidence.Note = fmt.Sprintf("Only where the list has one element, as in %d of %d occurrences; otherwise the flow hands back.",
		o.held.count(), len(x.in))
}

// rival finds another output that explains as much under another name: the data cannot tell the two apart.
func (d *decision) rival(a argument, chosen candidate, copies []candidate) (candidate, bool) {
	_, _, name := d.paths.shape(chosen.source.path)
	for _, c := range copies {
		_, _, last := d.paths.shape(c.source.path)
		if c.source != chosen.source && c.source.arg == "" && c.source.derived == 0 && chosen.source.derived == 0 && c.held == chosen.held && !sameName(last, name) && !sameName(last, a.name) {
			return c, true
		}
	}
	return candidate{}, false
}

// setConst writes a constant down with its evidence.
func (d *decision) setConst(flow *ArgFlow, x *explanation, constant any) {
	holds := func(r *argRecord) bool { return value.Equal(r.value, constant) }
	flow.Kind, flow.Value = SourceConst, constant
	for _, p := range x.in {
		if holds(p.arg) {
			flow.Evidence.Held++
		}
	}
	if x.ambiguous {
		flow.Evidence.Ambiguous = true
		flow.Evidence.Note = fmt.Sprintf("Only one value was ever seen; %s had it too.", d.describe(x.copies[0].source))
	}
	d.cite(&flow.Evidence, x.argument, holds)
}

// cite names sessions that support and that contradict.
func (d *decision) cite(e *Evidence, a argument, holds func(*argRecord) bool) {
	for _, p := range a.in {
		if holds(p.arg) {
			cite(&e.Supporting, d.records[p.record].session)
		} else {
			cite(&e.Contradicting, d.records[p.record].session)
		}
	}
}

// cite adds a session to those named for a statement, three at most.
func cite(to *[]string, session string) {
	if len(*to) < 3 && !slices.Contains(*to, session) {
		*to = append(*to, session)
	}
}

// describe names a source for people.
func (d *decision) describe(s source) string {
	tool := d.tools[s.step]
	if s.derived > 0 {
		return "a value derived from the result of step " + fmt.Sprint(s.step+1) + " (" + tool + ")"
	}
	switch pointer := d.paths.pointer(s.path, false); {
	case s.arg != "":
		return fmt.Sprintf("argument %s of step %d (%s)", s.arg, s.step+1, tool)
	case pointer == "":
		return fmt.Sprintf("the result of step %d (%s)", s.step+1, tool)
	default:
		return fmt.Sprintf("%s in the result of step %d (%s)", pointer, s.step+1, tool)
	}
}
