package replay

import (
	"maps"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// bind learns an input from the argument that takes it.
func (w *walk) bind(k int, name string, v any, present bool) {
	if !present {
		w.absent[name] = true
		return
	}
	w.inputs[name] = v
	if w.pos > 0 {
		w.late[name] = k
	}
}

// object is what a caller gives as the object of step k's arguments under a key for a call: all of them. nil: there is
// one that the caller could not know or that the object has no place for, or one is missing.
func (w *walk) object(k int, key string, c *call) map[string]any {
	s := &w.flow.steps[k]
	if c.args == nil {
		return nil
	}
	out := map[string]any{}
	for i := range s.mapping {
		e := &s.mapping[i]
		if e.Value.NeverIn(s.as) {
			continue
		}
		v := &e.Value
		for v.Kind == flows.MapOptional {
			v = v.Inner
		}
		field, ok := strings.CutPrefix(v.Ref, "/"+value.Escape(key)+"/")
		if v.Kind != flows.MapPointer || !ok {
			return nil
		}
		switch recorded, present := c.args[e.Target]; {
		case present && w.givenAtStart(recorded):
			out[value.Unescape(field)] = recorded
		case present || e.Value.Kind != flows.MapOptional:
			return nil
		}
	}
	if len(out) < len(c.args) {
		return nil
	}
	return out
}

// tell settles the inputs that callers may leave out and that step k is the first to take: where the next call has a
// value that the caller could give, it is given, and is no prediction; where the flow finds the recorded value by
// itself, or the caller could not know it, the input is left out.
func (w *walk) tell(k int) {
	s, c := &w.flow.steps[k], &w.calls[w.pos]
	if s.given != "" {
		if w.open(s.given) {
			w.tellCalls(k)
		}
		return
	}
	for i := range s.mapping {
		e := &s.mapping[i]
		recorded, present := c.args[e.Target]
		if name := w.inputName(&e.Value); name != "" {
			if w.open(name) {
				w.leaveOut(name)
				if present && w.givenAtStart(recorded) {
					w.give(name, recorded, k, e.Target)
				}
			}
			continue
		}
		if name := w.openIn(e); name != "" {
			w.leaveOut(name)
			w.find(name, pending{k, e, recorded, present, nil})
		}
	}
}

// tellCalls settles what a step takes whole calls from, where the caller may leave it out.
func (w *walk) tellCalls(k int) {
	s := &w.flow.steps[k]
	w.leaveOut(s.given)
	if s.forEach != nil {
		if w.listInput(k, w.adjacent(k)) == 0 {
			w.leaveOut(s.given)
			delete(w.late, s.given)
		}
		return
	}
	object := w.object(k, s.given, &w.calls[w.pos])
	if object == nil {
		return
	}
	if w.inputs[s.given] = object; len(object) > 0 {
		w.late[s.given] = k
	}
	for _, e := range s.mapping {
		w.given[Argument{k, e.Target}] = true
	}
}

// open reports whether the caller may leave an input out and nothing has told it yet.
func (w *walk) open(name string) bool {
	_, told := w.inputs[name]
	return w.flow.nullable[name] && !told
}

// openIn is the one open input that an expression reads, "" when there is none or are several.
func (w *walk) openIn(e *flows.MappingEntry) string {
	v := &e.Value
	for v.Kind == flows.MapOptional {
		v = v.Inner
	}
	if v.Kind != flows.MapExpr {
		return ""
	}
	name := ""
	for _, n := range w.flow.derived[v.Ref].names {
		if !w.open(n) {
			continue
		}
		if name != "" {
			return ""
		}
		name = n
	}
	return name
}

func (w *walk) leaveOut(name string) { w.inputs[name] = nil }

func (w *walk) give(name string, v any, k int, arg string) {
	w.inputs[name], w.late[name], w.given[Argument{k, arg}] = v, k, true
}

// find looks for a value of an input that makes an expression give the recorded argument, unless it does without:
// the argument itself, or a value in the results so far, which the caller could know from elsewhere.
func (w *walk) find(name string, p pending) {
	makes := func(v any) bool {
		w.inputs[name] = v
		got, state := w.source(&p.entry.Value, nil, "")
		return state == sourceFound && value.Equal(got, p.recorded)
	}
	if !p.present || makes(nil) {
		w.leaveOut(name)
		return
	}
	tried := maxGuesses
	try := func(v any) bool {
		if tried--; tried < 0 {
			return false
		}
		if v != nil && makes(v) && w.givenAtStart(v) {
			w.give(name, v, p.step, p.entry.Target)
			return false
		}
		return true
	}
	w.leaveOut(name)
	if !try(p.recorded) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(w.context)) {
		if !eachScalar(w.context[key], try) {
			break
		}
	}
	if !w.given[Argument{p.step, p.entry.Target}] {
		w.leaveOut(name)
	}
}
