package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// Floor chooses flows, and mappings in them, by how they did on the sessions that they were proposed from. The zero
// Floor takes everything.
type Floor struct {
	// MinExact is the share of an argument's predictions that must be right, 0..1, by the rule of succession
	// ((right + 1) / (predictions + 2)), so that a few windows prove little.
	MinExact float64
	// Demote turns arguments below it into inputs of the flow; otherwise such flows are left out.
	Demote bool
	// MinClean is the number of windows, all of them applications, that a flow with side effects must show: three where
	// no step after the first takes an argument that could be wrong, Derived where the flow derives all of them, Inputs
	// where some are inputs that callers may not know. The zero value asks for none.
	MinClean Clean
}

// Clean are numbers of windows without a fault.
type Clean struct{ Derived, Inputs int }

// Choose returns the flows that pass, in their order, given what a Scorer found for each of them. Chosen flows are
// shared where they did not change.
func (fl Floor) Choose(proposed []*flows.Flow, compiled []*Flow, outcomes []FlowOutcome) []*flows.Flow {
	var out []*flows.Flow
	for i, f := range proposed {
		if !fl.takes(compiled[i], &outcomes[i]) {
			continue
		}
		low := fl.low(&outcomes[i])
		if len(low) > 0 && !fl.Demote {
			continue
		}
		demoted, ok := demote(f, compiled[i], low)
		if ok {
			out = append(out, demoted)
		}
	}
	return out
}

func (fl Floor) takes(f *Flow, o *FlowOutcome) bool {
	if fl.MinClean == (Clean{}) || !slices.ContainsFunc(f.steps, func(s step) bool { return s.effect }) {
		return true
	}
	enough := minSessions
	if f.derives() {
		enough = max(enough, fl.MinClean.Derived)
	}
	if f.lateOptions() {
		enough = max(enough, fl.MinClean.Inputs)
	}
	return o.Exact >= enough && o.DestructiveInexact == 0
}

// derives reports whether a step after the first takes anything but inputs.
func (f *Flow) derives() bool {
	for k := range f.steps {
		s := &f.steps[k]
		if s.forEach != nil && !f.isInput(s.forEach) {
			return true
		}
		if k > 0 && slices.ContainsFunc(s.mapping, func(e flows.MappingEntry) bool {
			return !f.isInput(&e.Value) && !(e.Value.Kind == flows.MapKey && e.Value.Ref == s.element)
		}) {
			return true
		}
	}
	return false
}

// isInput reports whether a mapping value is an input as it is.
func (f *Flow) isInput(v *flows.MappingValue) bool {
	for v.Kind == flows.MapOptional {
		v = v.Inner
	}
	return v.Kind == flows.MapKey && f.declared[v.Ref]
}

// lateOptions reports whether a step after the first takes an input that may be left out without ending the run.
func (f *Flow) lateOptions() bool {
	known := map[string]bool{}
	for k := range f.steps {
		for i := range f.steps[k].mapping {
			v := &f.steps[k].mapping[i].Value
			if v.Kind == flows.MapOptional && f.isInput(v) && k > 0 && !known[v.Inner.Ref] {
				return true
			}
			for _, name := range f.reads(v) {
				known[name] = true
			}
		}
	}
	return false
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

// low lists the arguments that are right too rarely, in order.
func (fl Floor) low(o *FlowOutcome) []Argument {
	var out []Argument
	for at, r := range o.Arguments {
		if float64(r.Right+1) < fl.MinExact*float64(r.Of+2) {
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

// demote returns the flow with these arguments as inputs. ok is false where that cannot be: the length of a list, and
// what differs from element to element, are no inputs.
func demote(f *flows.Flow, compiled *Flow, low []Argument) (_ *flows.Flow, ok bool) {
	if len(low) == 0 {
		return f, true
	}
	out := *f
	out.Steps = slices.Clone(f.Steps)
	taken := map[string]bool{}
	for name := range compiled.declared {
		taken[name] = true
	}
	for i := range out.Steps {
		taken[out.Steps[i].OutputAs] = true
	}
	var added []string
	for _, a := range low {
		s := &out.Steps[compiled.order[a.Step]]
		i := slices.IndexFunc(s.InputMapping, func(e flows.MappingEntry) bool { return e.Target == a.Arg })
		if a.Arg == "" || s.ForEach != nil || i < 0 {
			return nil, false
		}
		name := a.Arg
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s_%d", a.Arg, n)
		}
		taken[name] = true
		added = append(added, name)
		s.InputMapping = slices.Clone(s.InputMapping)
		key := flows.Key(name)
		if s.InputMapping[i].Value.Kind == flows.MapOptional {
			s.InputMapping[i].Value = flows.MappingValue{Kind: flows.MapOptional, Inner: &key}
		} else {
			s.InputMapping[i].Value = key
		}
	}
	var err error
	out.InputSchema, err = withInputs(f.InputSchema, added)
	return &out, err == nil
}

// withInputs adds properties that take anything to an input schema.
func withInputs(raw flows.RawSchema, names []string) (flows.RawSchema, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	doc, err := value.DecodeOrdered(json.RawMessage(raw), value.Limits{})
	if err != nil {
		return nil, err
	}
	root, _ := doc.(value.Members)
	root = slices.Clone(root)
	i := slices.IndexFunc(root, func(m value.Member) bool { return m.Key == "properties" })
	if i < 0 {
		root = append(root, value.Member{Key: "properties", Value: value.Members{}})
		i = len(root) - 1
	}
	properties, _ := root[i].Value.(value.Members)
	properties = slices.Clone(properties)
	for _, name := range names {
		properties = append(properties, value.Member{Key: name, Value: value.Members{}})
	}
	root[i].Value = properties
	return flows.RawSchema(value.Encode(root)), nil
}
