package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"pave/cmd/pave/internal/output"
	"pave/flows"
	"pave/flows/value"
)

// sources know who gives what of a flow's context.
type sources struct {
	flow   *flows.Flow
	given  map[string]stepOutput
	inputs map[string]json.RawMessage // properties of the input schema; nil when there is none in the flow
	open   []int                      // steps whose outputs go into the context under their own names
}

// stepOutput is what a step puts under a key: its whole output, or what a pointer leads to.
type stepOutput struct {
	step    int
	pointer string
}

func sourcesOf(flow *flows.Flow) *sources {
	f := &sources{flow: flow, given: make(map[string]stepOutput)}
	give := func(key string, o stepOutput) {
		if _, drawn := f.given[key]; !drawn { // steps of which one runs may give the same
			f.given[key] = o
		}
	}
	for i := range flow.Steps {
		s := &flow.Steps[i]
		switch {
		case s.OutputAs != "":
			give(s.OutputAs, stepOutput{i, ""})
		case s.OutputMapping == nil:
			f.open = append(f.open, i)
		}
		for _, m := range s.OutputMapping {
			give(m.ContextKey, stepOutput{i, "/" + value.Escape(m.OutputKey)})
		}
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(flow.InputSchema, &schema) == nil {
		f.inputs = schema.Properties
	}
	return f
}

// origin says in words where a value comes from that is mapped before the step at.
func (f *sources) origin(at int, m flows.MappingValue) string {
	switch m.Kind {
	case flows.MapKey:
		return f.place(at, m.Ref, m.Ref, "")
	case flows.MapPointer:
		first, rest, below := strings.Cut(strings.TrimPrefix(m.Ref, "/"), "/")
		if below {
			rest = "/" + rest
		}
		return f.place(at, m.Ref, value.Unescape(first), rest)
	case flows.MapLiteral, flows.MapConst:
		return "constant " + output.Short(string(value.Encode(m.Literal)), 60)
	case flows.MapExpr:
		return "expression " + output.Short(m.Ref, 80)
	case flows.MapOptional:
		return f.origin(at, *m.Inner) + ", where present"
	}
	return "?"
}

// place says who gives a key of the context and what is below it. A key that no step is said to give, and that is no
// property of the input, is an output of a step that puts all of its outputs there; with several of them it may be of any.
func (f *sources) place(at int, ref, key, below string) string {
	o, known := f.given[key]
	if !known && f.inputs != nil && f.inputs[key] == nil {
		open := 0
		for open < len(f.open) && f.open[open] < at {
			open++
		}
		switch open {
		case 0:
		case 1:
			o, known = stepOutput{f.open[0], "/" + value.Escape(key)}, true
		default:
			return "an output of the steps before, " + ref
		}
	}
	if !known {
		return "input " + ref
	}
	path := o.pointer + below
	if path == "" {
		path = ", whole output"
	} else {
		path = " " + path
	}
	return fmt.Sprintf("step %d (%s)%s", o.step+1, f.flow.Steps[o.step].Name(), path)
}
