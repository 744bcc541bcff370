package replay

import (
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// Floor chooses flows by how they did on the sessions that they were proposed from. The zero Floor takes everything.
//
// A flow that may change something passes where its caller gives every call, and none of its windows showed harm: what
// agents choose differently once in thirty times, a share does not find out, nor do a few clean windows.
type Floor struct {
	// MinExact is the share of each argument's predictions that must be right, 0..1.
	MinExact float64 `json:"min_exact"`
}

// minPredictions is how many predictions of an argument tell something.
const minPredictions = 15

// Takes reports whether a flow passes, given what a Scorer found for it.
func (fl Floor) Takes(f *Flow, o *FlowOutcome) bool {
	if fl == (Floor{}) {
		return true
	}
	for _, r := range o.Arguments {
		if r.Of < minPredictions || float64(r.Right) < fl.MinExact*float64(r.Of) {
			return false
		}
	}
	return !f.effects() || f.given() && o.DestructiveInexact == 0
}

// effects reports whether a step may change something.
func (f *Flow) effects() bool {
	return slices.ContainsFunc(f.steps, func(s step) bool { return s.effect })
}

// given reports whether callers give every call: where they cannot know a part of one they leave it out, and the run hands
// back.
func (f *Flow) given() bool {
	for k := range f.steps {
		s := &f.steps[k]
		switch {
		case s.given != "":
		case k > 0 || s.forEach != nil || slices.ContainsFunc(s.mapping, func(e flows.MappingEntry) bool { return !f.isInput(&e.Value) && !e.Value.NeverIn(s.as) }):
			return false
		}
	}
	return true
}

// isInput reports whether a mapping value is an input as it is.
func (f *Flow) isInput(v *flows.MappingValue) bool {
	for v.Kind == flows.MapOptional {
		v = v.Inner
	}
	return v.Kind == flows.MapKey && f.declared[v.Ref]
}

// firstReader is the first step that reads an input, 0 when none does.
func (f *Flow) firstReader(name string) int {
	return max(0, slices.IndexFunc(f.steps, func(s step) bool {
		return s.forEach != nil && slices.Contains(f.reads(s.forEach), name) ||
			s.guard != nil && slices.Contains(s.guard.Names(), name) ||
			slices.ContainsFunc(s.mapping, func(e flows.MappingEntry) bool { return slices.Contains(f.reads(&e.Value), name) })
	}))
}

// reads lists the context keys that a mapping value reads.
func (f *Flow) reads(v *flows.MappingValue) []string {
	switch v.Kind {
	case flows.MapKey:
		return []string{v.Ref}
	case flows.MapPointer:
		root, _, _ := strings.Cut(strings.TrimPrefix(v.Ref, "/"), "/")
		return []string{value.Unescape(root)}
	case flows.MapOptional:
		return f.reads(v.Inner)
	case flows.MapExpr:
		return f.derived[v.Ref].names
	}
	return nil
}
