package replay

import (
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// Floor chooses flows by how they did on the sessions that they were proposed from. The zero Floor takes everything.
//
// A flow that may change something passes where its caller gives every call that may, and none of its windows showed
// harm: what agents choose differently once in thirty times, a share does not find out, nor do a few clean windows.
type Floor struct {
	// MinExact is the share of each argument's predictions that must be right, 0..1.
	MinExact float64
}

// Numbers that tell something.
const (
	minPredictions  = 15 // of an argument
	minApplications = 20 // of a flow that derives values before a change
)

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
	return !f.effects() || f.asksForChanges() && o.DestructiveInexact == 0 && (len(o.Arguments) == 0 || o.Exact >= minApplications)
}

// effects reports whether a step may change something.
func (f *Flow) effects() bool {
	return slices.ContainsFunc(f.steps, func(s step) bool { return s.effect })
}

// asksForChanges reports whether callers give the first call, every later one that may change something, and nothing
// else: where they cannot know a part of a call, they leave the call out, and the run hands back.
func (f *Flow) asksForChanges() bool {
	first := map[string]bool{} // inputs of the first call
	for k := range f.steps {
		s := &f.steps[k]
		if s.given != "" {
			continue
		}
		if s.effect && (k > 0 || s.forEach != nil) {
			return false
		}
		for i := range s.mapping {
			v := &s.mapping[i].Value
			if k == 0 && !f.isInput(v) {
				return false
			}
			for _, name := range f.reads(v) {
				if k == 0 {
					first[name] = true
				} else if f.declared[name] && !first[name] {
					return false
				}
			}
		}
	}
	return true
}

// isInput reports whether a mapping value is an input as it is.
func (f *Flow) isInput(v *flows.MappingValue) bool {
	for v.Kind == flows.MapOptional {
		v = v.Inner
	}
	if v.Kind == flows.MapPointer {
		root, rest, _ := strings.Cut(strings.TrimPrefix(v.Ref, "/"), "/")
		return rest != "" && f.objects[value.Unescape(root)]
	}
	return v.Kind == flows.MapKey && f.declared[v.Ref]
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

// low lists the arguments that are right too rarely, in order, by the rule of succession: a few windows prove little.
func low(minExact float64, o *FlowOutcome) []Argument {
	var out []Argument
	for at, r := range o.Arguments {
		if float64(r.Right+1) < minExact*float64(r.Of+2) {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, func(a, b Argument) int {
		if a.Step != b.Step {
			return a.Step - b.Step
		}
		if a.Arg < b.Arg {
			return -1
		}
		return 1
	})
	return out
}
