package replay

import (
	"fmt"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// group lays a for_each step over the neighbouring calls of its tool and returns how many it takes: one for each
// element of the list, or all there are where these are fewer.
func (w *walk) group(k int) int {
	s := &w.flow.steps[k]
	there := 0
	for _, c := range w.calls[w.pos:] {
		if c.tool != s.tool {
			break
		}
		there++
	}
	list, state := w.source(s.forEach, nil, "")
	if state == sourceInput {
		return w.listInput(k, there)
	}
	elements, _ := list.([]any)
	n := min(there, len(elements))
	if state != sourceFound || n == 0 {
		w.judge(k, "", false)
		for i := range there {
			w.compare(k, &w.calls[w.pos+i], nil)
		}
		return there
	}
	w.judge(k, "", there >= len(elements))
	w.m.Extra += len(elements) - n
	if s.effect {
		w.m.Effects += len(elements) - n
	}
	for i := range n {
		w.compare(k, &w.calls[w.pos+i], elements[i])
	}
	return n
}

// listInput handles a list that the caller gives: the recorded arguments that take the element are the list.
func (w *walk) listInput(k, there int) int {
	s := &w.flow.steps[k]
	var list []any
	for i := range there {
		var element any
		for _, e := range s.mapping {
			if v, ok := w.calls[w.pos+i].args[e.Target]; ok && e.Value.Kind == flows.MapKey && e.Value.Ref == s.element {
				element = v
			}
		}
		list = append(list, element)
	}
	w.bind(k, w.inputName(s.forEach), list, true)
	for i := range there {
		w.compare(k, &w.calls[w.pos+i], list[i])
	}
	return there
}

// compare checks the arguments that step k passes against those recorded.
func (w *walk) compare(k int, c *call, element any) {
	s := &w.flow.steps[k]
	if c.args == nil {
		w.m.Exact = false
	}
	if s.free {
		for name, v := range c.args {
			w.bind(k, fmt.Sprintf("%d/%s", k, name), v, true)
		}
		return
	}
	if len(s.mapping) == 0 {
		w.compareAll(k, c)
		return
	}
	for name := range c.args {
		if !slices.ContainsFunc(s.mapping, func(e flows.MappingEntry) bool { return e.Target == name }) {
			w.m.Exact = false
		}
	}
	for i := range s.mapping {
		e := &s.mapping[i]
		recorded, present := c.args[e.Target]
		w.compareOne(pending{k, e, recorded, present, element}, false)
	}
}

// compareAll is the empty mapping: the whole context, of which the tool takes what it knows.
func (w *walk) compareAll(k int, c *call) {
	for name, recorded := range c.args {
		if v, ok := w.context[name]; ok {
			w.judge(k, name, value.Equal(v, recorded))
			continue
		}
		if v, ok := w.inputs[name]; ok && w.pos > 0 {
			w.judge(k, name, value.Equal(v, recorded))
			continue
		}
		if w.pos > 0 {
			w.m.Exact = false // nothing in the context has this name
			continue
		}
		w.bind(k, name, recorded, true)
	}
}

// compareOne checks one argument. last: no more inputs will be told.
func (w *walk) compareOne(p pending, last bool) {
	v, state := w.source(&p.entry.Value, p.element, w.flow.steps[p.step].element)
	switch state {
	case sourceInput:
		if name := w.inputName(&p.entry.Value); name != "" {
			w.bind(p.step, name, p.recorded, p.present)
			if !p.present && p.entry.Value.Kind != flows.MapOptional {
				w.m.Exact = false
			}
			return
		}
		if !last {
			w.waiting = append(w.waiting, p)
			return
		}
		w.judge(p.step, p.entry.Target, false)
	case sourceTold, sourceFound:
		w.judge(p.step, p.entry.Target, p.present && value.Equal(v, p.recorded))
	case sourceLeftOut:
		if p.present || p.entry.Value.Kind != flows.MapOptional {
			w.judge(p.step, p.entry.Target, false)
		}
	case sourceMissing:
		w.judge(p.step, p.entry.Target, false)
	}
}

// judge notes whether an argument is what the flow would pass. Arguments of the first call are no predictions: the
// caller decides on them when it starts the flow.
func (w *walk) judge(k int, arg string, right bool) {
	w.m.Exact = w.m.Exact && right
	if w.pos == 0 && arg != "" {
		return
	}
	w.m.Predicted++
	if right {
		w.m.Correct++
	}
	w.m.arguments = append(w.m.arguments, verdict{k, arg, right})
}

// bind learns an input from the argument that takes it.
func (w *walk) bind(k int, name string, v any, present bool) {
	if !present {
		w.absent[name] = true
		return
	}
	w.inputs[name] = v
	if w.pos > 0 {
		w.late[name] = true
	}
}

// sourceState says what a mapping source gives.
type sourceState uint8

const (
	sourceFound   sourceState = iota // a value of the context, or a constant
	sourceTold                       // an input that an earlier argument told
	sourceInput                      // an input that nothing told yet
	sourceLeftOut                    // optional, and not there
	sourceMissing                    // not there, or not computable
)

// source resolves a mapping value. element is that of a for_each step, under the key as.
func (w *walk) source(v *flows.MappingValue, element any, as string) (any, sourceState) {
	switch v.Kind {
	case flows.MapLiteral, flows.MapConst:
		return v.Literal, sourceFound
	case flows.MapKey:
		return w.lookup(v.Ref, "", element, as)
	case flows.MapPointer:
		root, rest, _ := strings.Cut(strings.TrimPrefix(v.Ref, "/"), "/")
		if len(v.Ref) > len(root)+1 {
			rest = "/" + rest
		}
		return w.lookup(value.Unescape(root), rest, element, as)
	case flows.MapOptional:
		out, state := w.source(v.Inner, element, as)
		if state == sourceMissing {
			state = sourceLeftOut
		}
		return out, state
	}
	return nil, sourceMissing
}

// lookup reads a key, and a pointer into its value.
func (w *walk) lookup(key, pointer string, element any, as string) (any, sourceState) {
	found := func(root any, state sourceState) (any, sourceState) {
		v, ok := value.Lookup(root, pointer)
		if !ok {
			return nil, sourceMissing
		}
		return v, state
	}
	if as != "" && key == as {
		return found(element, sourceFound)
	}
	if v, ok := w.context[key]; ok {
		return found(v, sourceFound)
	}
	if v, ok := w.inputs[key]; ok {
		return found(v, sourceTold)
	}
	switch {
	case w.absent[key]:
		return nil, sourceLeftOut
	case w.flow.declared != nil && !w.flow.declared[key]:
		return nil, sourceMissing
	}
	return nil, sourceInput
}

// inputName is the input that a mapping value copies as a whole, "" when it derives something from it.
func (w *walk) inputName(v *flows.MappingValue) string {
	switch {
	case v.Kind == flows.MapOptional:
		return w.inputName(v.Inner)
	case v.Kind == flows.MapKey:
		return v.Ref
	case v.Kind == flows.MapPointer && strings.Count(v.Ref, "/") == 1:
		return value.Unescape(v.Ref[1:])
	}
	return ""
}

// settle compares the arguments that waited for inputs.
func (w *walk) settle() {
	for _, p := range w.waiting {
		w.compareOne(p, true)
	}
	w.waiting = nil
}
