package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/predicate"
	"pave/flows/value"
)

// Asking is the flow with the arguments that are right too rarely as inputs. ok is false where there are none, and where
// that cannot be: the length of a list, and what differs from element to element, are no inputs.
func Asking(f *flows.Flow, compiled *Flow, o *FlowOutcome, minExact float64) (_ *flows.Flow, ok bool) {
	return asking(f, compiled, low(minExact, o))
}

func asking(f *flows.Flow, compiled *Flow, low []Argument) (_ *flows.Flow, ok bool) {
	if len(low) == 0 {
		return nil, false
	}
	out := *f
	out.Steps = slices.Clone(f.Steps)
	taken := takenKeys(f, compiled)
	var added []string
	withhold := compiled.effects() // a run hands back before what its caller does not know
	for _, a := range low {
		s := &out.Steps[compiled.order[a.Step]]
		i := slices.IndexFunc(s.InputMapping, func(e flows.MappingEntry) bool { return e.Target == a.Arg })
		if a.Arg == "" || s.ForEach != nil || i < 0 {
			return nil, false
		}
		name := unique(taken, a.Arg)
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

// Cautious is the flow whose caller gives the arguments of later steps with side effects, as one object for each step; a
// run hands back before the first of these steps whose object is not given. ok is false where there is no such step, and
// where that cannot be: of a step for each element, and of one that takes the whole context.
func Cautious(f *flows.Flow, compiled *Flow) (_ *flows.Flow, ok bool) {
	out := *f
	out.Steps = slices.Clone(f.Steps)
	taken := takenKeys(f, compiled)
	var objects value.Members
	given := false
	for k, i := range compiled.order {
		s := &out.Steps[i]
		if k == 0 && s.ForEach == nil {
			s.InputMapping = slices.Clone(s.InputMapping)
			for n := range s.InputMapping { // what the caller decides on when it starts the flow
				if e := &s.InputMapping[n]; !compiled.isInput(&e.Value) {
					name := unique(taken, e.Target)
					e.Value = flows.Key(name)
					objects = append(objects, value.Member{Key: name, Value: value.Members{}})
				}
			}
			continue
		}
		if !compiled.steps[k].effect {
			continue
		}
		given = true
		if s.ForEach != nil || len(s.InputMapping) == 0 {
			return nil, false
		}
		name := unique(taken, leaf(s.ToolName))
		var object value.Members
		s.InputMapping, object = fromObject(f, compiled, s.InputMapping, name)
		s.Guard = name + " != None"
		objects = append(objects, value.Member{Key: name, Value: orNull(object)})
	}
	if !given {
		return nil, false
	}
	return &out, setInputs(&out, compiled, objects)
}

// fromObject takes every argument of a mapping from the object under a key, and describes the object.
func fromObject(f *flows.Flow, compiled *Flow, mapping flows.Mapping, key string) (flows.Mapping, value.Members) {
	out := slices.Clone(mapping)
	properties, required := value.Members{}, []any{}
	for i := range out {
		e := &out[i]
		v := flows.Pointer("/" + value.Escape(key) + "/" + value.Escape(e.Target))
		property := value.Members{}
		if of := e.Value; compiled.isInput(&of) {
			for of.Kind == flows.MapOptional {
				of = *of.Inner
			}
			property = withoutDefault(propertyOf(f.InputSchema, of.Ref))
		}
		properties = append(properties, value.Member{Key: e.Target, Value: property})
		if e.Value.Kind == flows.MapOptional {
			inner := v
			v = flows.MappingValue{Kind: flows.MapOptional, Inner: &inner}
		} else {
			required = append(required, e.Target)
		}
		e.Value = v
	}
	object := value.Members{{Key: "type", Value: "object"}, {Key: "properties", Value: properties}}
	if len(required) > 0 {
		object = append(object, value.Member{Key: "required", Value: required})
	}
	return out, append(object, value.Member{Key: "additionalProperties", Value: false})
}

// orNull is the schema of an input that is null when the caller leaves it out.
func orNull(schema value.Members) value.Members {
	return value.Members{{Key: "anyOf", Value: []any{schema, value.Members{{Key: "type", Value: "null"}}}}, {Key: "default", Value: nil}}
}

func propertyOf(raw flows.RawSchema, name string) value.Members {
	doc, err := value.DecodeOrdered(json.RawMessage(raw), value.Limits{})
	if err != nil {
		return nil
	}
	root, _ := doc.(value.Members)
	properties, _ := root.Get("properties")
	all, _ := properties.(value.Members)
	property, _ := all.Get(name)
	out, _ := property.(value.Members)
	return out
}

func withoutDefault(property value.Members) value.Members {
	return slices.DeleteFunc(slices.Clone(property), func(m value.Member) bool { return m.Key == "default" })
}

// setInputs adds inputs to the input schema of a flow and takes away those that nothing reads.
func setInputs(f *flows.Flow, compiled *Flow, added value.Members) bool {
	doc, err := value.DecodeOrdered(json.RawMessage(f.InputSchema), value.Limits{})
	if err != nil {
		return false
	}
	root, _ := doc.(value.Members)
	read := map[string]bool{}
	for i := range f.Steps {
		s := &f.Steps[i]
		for k := range s.InputMapping {
			for _, name := range compiled.reads(&s.InputMapping[k].Value) {
				read[name] = true
			}
		}
		if s.ForEach != nil {
			for _, name := range compiled.reads(s.ForEach) {
				read[name] = true
			}
		}
		if s.Guard != "" {
			if p, err := predicate.Parse(s.Guard); err == nil {
				for _, name := range p.Names() {
					read[name] = true
				}
			}
		}
	}
	properties, _ := root.Get("properties")
	all, _ := properties.(value.Members)
	all = slices.DeleteFunc(slices.Clone(all), func(m value.Member) bool { return !read[m.Key] })
	all = append(all, added...)
	var required []any
	old, _ := root.Get("required")
	names, _ := old.([]any)
	for _, name := range names {
		if s, _ := name.(string); read[s] {
			required = append(required, s)
		}
	}
	for _, m := range added {
		if _, nullable := m.Value.(value.Members).Get("default"); !nullable {
			required = append(required, m.Key)
		}
	}
	root = slices.DeleteFunc(slices.Clone(root), func(m value.Member) bool { return m.Key == "properties" || m.Key == "required" })
	root = append(root, value.Member{Key: "properties", Value: all})
	if len(required) > 0 {
		root = append(root, value.Member{Key: "required", Value: required})
	}
	f.InputSchema = flows.RawSchema(value.Encode(root))
	return true
}

func takenKeys(f *flows.Flow, compiled *Flow) map[string]bool {
	taken := map[string]bool{}
	for name := range compiled.declared {
		taken[name] = true
	}
	for i := range f.Steps {
		taken[f.Steps[i].OutputAs] = true
	}
	return taken
}

func unique(taken map[string]bool, name string) string {
	out := name
	for n := 2; taken[out]; n++ {
		out = fmt.Sprintf("%s_%d", name, n)
	}
	taken[out] = true
	return out
}

// leaf is the last dotted part of a tool's name as a name of a key.
func leaf(tool string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, tool[strings.LastIndexByte(tool, '.')+1:])
}
