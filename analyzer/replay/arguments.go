package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// group lays a for_each step over the neighbouring calls of its tool and returns how many it takes: one for each
// element of the list, or all there are where these are fewer.
func (w *walk) group(k int) int {
	s := &w.flow.steps[k]
	there := w.adjacent(k)
	if s.given != "" {
		return w.listInput(k, there)
	}
	list, state := w.source(s.forEach, nil, "")
	if state == sourceInput && w.inputName(s.forEach) != "" {
		n := w.listInput(k, there)
		for i := range n {
			w.compare(k, &w.calls[w.pos+i], w.inputs[w.inputName(s.forEach)].([]any)[i])
		}
		return n
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

// adjacent counts the neighbouring calls of step k's tool from here.
func (w *walk) adjacent(k int) int {
	n := 0
	for _, c := range w.calls[w.pos:] {
		if c.tool != w.flow.steps[k].tool {
			break
		}
		n++
	}
	return n
}

// listInput handles a list that the caller gives: the recorded arguments that take the element are the list, as far as
// the caller could give them, and none failed. What comes after them is not the loop's own. A call is in the list even if the caller could
// not give it where it is the first: the tools fit, and no known input makes an application of it. 0: no call fits.
func (w *walk) listInput(k, there int) int {
	s := &w.flow.steps[k]
	var list []any
	for i := range there {
		if i > 0 && w.calls[w.pos+i].failed {
			break
		}
		v, known := w.listed(k, &w.calls[w.pos+i])
		if known || i == 0 && v != nil {
			list = append(list, v)
		}
		if !known {
			break
		}
	}
	w.inputs[w.inputName(s.forEach)] = list
	w.late[w.inputName(s.forEach)] = k // also in the first step: the caller gives all elements at once
	return len(list)
}

// listed is the element that a caller gives for a call of a for_each step over an input, nil when there is none; known
// reports whether the caller could give it.
func (w *walk) listed(k int, c *call) (v any, known bool) {
	s := &w.flow.steps[k]
	if s.given != "" {
		if object := w.object(k, s.element, c); object != nil {
			return object, true
		}
		return nil, false
	}
	for _, e := range s.mapping {
		if v, ok := c.args[e.Target]; ok && e.Value.Kind == flows.MapKey && e.Value.Ref == s.element {
			w.given[Argument{k, e.Target}] = true
			return v, w.givenAtStart(v)
		}
	}
	return nil, false
}

// compare checks the arguments that step k passes against those recorded.
func (w *walk) compare(k int, c *call, element any) {
	s := &w.flow.steps[k]
	if c.args == nil {
		w.fault(k, "", Unmapped)
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
			w.fault(k, name, Unmapped)
			w.refused = w.refused || w.pos == 0 && w.flow.declared != nil
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
		if w.pos > 0 && !w.flow.declared[name] {
			w.fault(k, name, Unmapped) // nothing in the context has this name
			continue
		}
		w.bind(k, name, recorded, true)
	}
}

// compareOne checks one argument. last: no more inputs will be told.
func (w *walk) compareOne(p pending, last bool) {
	if w.given[Argument{p.step, p.entry.Target}] {
		return
	}
	v, state := w.source(&p.entry.Value, p.element, w.flow.steps[p.step].element)
	switch state {
	case sourceInput:
		if name := w.inputName(&p.entry.Value); name != "" {
			w.bind(p.step, name, p.recorded, p.present)
			if !p.present && p.entry.Value.Kind != flows.MapOptional {
				w.fault(p.step, p.entry.Target, Wrong)
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
	if !right {
		w.fault(k, arg, Wrong)
	}
	if w.pos == 0 && arg != "" {
		return
	}
	w.m.Predicted++
	if right {
		w.m.Correct++
	}
	w.m.arguments = append(w.m.arguments, verdict{k, arg, right})
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
	case flows.MapExpr:
		return w.derive(v.Ref, element, as)
	}
	return nil, sourceMissing
}

// derive evaluates an expression; sourceInput while an input that it reads was not told.
func (w *walk) derive(source string, element any, as string) (any, sourceState) {
	d := w.flow.derived[source]
	if w.untold(d.names, as) != nil {
		return nil, sourceInput
	}
	v, err := d.program.Eval(w.everything(element, as))
	if err != nil {
		return nil, sourceMissing
	}
	return v, sourceFound
}

// untold lists the inputs among keys that no argument has told yet.
func (w *walk) untold(names []string, as string) []string {
	var out []string
	for _, name := range names {
		if _, state := w.lookup(name, "", nil, as); state == sourceInput {
			out = append(out, name)
		}
	}
	return out
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

// settle compares the arguments that waited for inputs. An input that only expressions read is looked for among the
// values that the caller could give: it is the one that makes the recorded argument, if there is one.
func (w *walk) settle() {
	for _, p := range w.waiting {
		w.guess(p)
		w.compareOne(p, true)
	}
	w.waiting = nil
}

// maxGuesses bounds the values that are tried for an input.
const maxGuesses = 500

func (w *walk) guess(p pending) {
	v := &p.entry.Value
	for v.Kind == flows.MapOptional {
		v = v.Inner
	}
	as := w.flow.steps[p.step].element
	untold := w.untold(w.flow.derived[v.Ref].names, as)
	if v.Kind != flows.MapExpr || len(untold) != 1 || !p.present {
		return
	}
	name, left := untold[0], maxGuesses
	for _, key := range slices.Sorted(maps.Keys(w.context)) {
		eachScalar(w.context[key], func(candidate any) bool {
			if left--; left < 0 {
				return false
			}
			w.inputs[name] = candidate
			got, state := w.derive(v.Ref, p.element, as)
			if state == sourceFound && value.Equal(got, p.recorded) && w.givenAtStart(candidate) {
				w.late[name] = p.step
				return false
			}
			delete(w.inputs, name)
			return true
		})
		if _, found := w.inputs[name]; found {
			return
		}
	}
}

// eachScalar calls fn with the scalars inside v, in order, until it returns false.
func eachScalar(v any, fn func(any) bool) bool {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if !eachScalar(e, fn) {
				return false
			}
		}
		return true
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !eachScalar(v[k], fn) {
				return false
			}
		}
		return true
	}
	return fn(v)
}
