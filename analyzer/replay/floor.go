package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// Floor chooses flows by how they did on the sessions that they were proposed from. The zero Floor takes everything.
type Floor struct {
	// MinExact is the share of an argument's predictions that must be right, 0..1, by the rule of succession
	// ((right + 1) / (predictions + 2)), so that a few windows prove little.
	MinExact float64
	// MinClean is the number of applications that a flow with side effects must show, without a window in which it would
	// have done harm: Plain of every flow, Derived where it derives values, Options where a later step takes an input
	// that callers may leave out. The zero value asks for none.
	MinClean Clean
}

// Clean are numbers of applications.
type Clean struct{ Plain, Derived, Options int }

// Takes reports whether a flow passes, given what a Scorer found for it.
func (fl Floor) Takes(f *Flow, o *FlowOutcome) bool {
	return len(low(fl.MinExact, o)) == 0 && fl.takes(f, o)
}

func (fl Floor) takes(f *Flow, o *FlowOutcome) bool {
	if fl.MinClean == (Clean{}) || !f.Effects() {
		return true
	}
	enough := fl.MinClean.Plain
	if f.derives() {
		enough = max(enough, fl.MinClean.Derived)
	}
	if f.lateOptions() {
		enough = max(enough, fl.MinClean.Options)
	}
	return o.Exact >= enough && o.DestructiveInexact == 0
}

// Effects reports whether a step may change something.
func (f *Flow) Effects() bool {
	return slices.ContainsFunc(f.steps, func(s step) bool { return s.effect })
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

// Asking is the flow with the arguments that are right too rarely as inputs. ok is false where there are none, and where
// that cannot be: the length of a list, and what differs from element to element, are no inputs.
func Asking(f *flows.Flow, compiled *Flow, o *FlowOutcome, minExact float64) (_ *flows.Flow, ok bool) {
	low := low(minExact, o)
	if len(low) == 0 {
		return nil, false
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
	withhold := compiled.Effects() // a run hands back before what its caller does not know
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
		if withhold && s.InputMapping[i].Value.Kind != flows.MapOptional {
			s.Guard = strings.TrimPrefix(s.Guard+" and "+name+" != None", " and ")
		}
		key := flows.Key(name)
		if s.InputMapping[i].Value.Kind == flows.MapOptional {
			s.InputMapping[i].Value = flows.MappingValue{Kind: flows.MapOptional, Inner: &key}
		} else {
			s.InputMapping[i].Value = key
		}
	}
	var err error
	out.InputSchema, err = withInputs(f.InputSchema, added, withhold)
	return &out, err == nil
}

// withInputs adds properties that take anything to an input schema, null when left out where they may be.
func withInputs(raw flows.RawSchema, names []string, nullable bool) (flows.RawSchema, error) {
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
		property := value.Members{}
		if nullable {
			property = value.Members{{Key: "default", Value: nil}}
		}
		properties = append(properties, value.Member{Key: name, Value: property})
	}
	root[i].Value = properties
	return flows.RawSchema(value.Encode(root)), nil
}
