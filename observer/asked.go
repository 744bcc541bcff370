package observer

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"pave/flows/value"
)

// Which element of a result a call is for is often no choice of the model's: the user named it. Such an argument is a
// place of the element that has the name, and the name is an input of the flow, known before the first step although the
// value is not.

// Limits of the fields of one element that are looked for in what the user wrote, the elements that are compared, and the
// rules that are considered for one argument.
const (
	maxTold     = 16
	maxToldFrom = 64
	maxAsked    = 4
)

// told is a selection by what the user had written; key is that of a member, "" where it is an element.
type told struct {
	source
	key string
}

// toldBy reports whether what the user had written tells an argument by a selection.
func (a *argRecord) toldBy(s source) bool {
	return slices.ContainsFunc(a.told, func(t told) bool { return t.source == s })
}

// told are selections of the elements of results that an argument, with these copies, is a place of: each by a text of the
// element that the user had written and that no element with another value has.
func (x *examination) told(copies []source) (out []told) {
	m := x.view.miner
	for _, c := range copies {
		if c.arg != "" || c.derived > 0 || x.runsEach(c.step) {
			continue
		}
		out = append(out, x.toldKeys(c)...)
		element, take := m.paths.element(c.path)
		if element == 0 || take == "" {
			continue
		}
		list, index := m.paths.steps[element].parent, int(m.paths.steps[element].index)
		elements := x.elements(c.step, list)
		if index >= len(elements) || len(elements) > maxToldFrom {
			continue
		}
		object, _ := elements[index].(map[string]any)
		for _, field := range sortedKeys(object)[:min(len(object), maxTold)] {
			pointer := "/" + value.Escape(field)
			text, ok := object[field].(string)
			if pointer == take || !ok || len(text) < minConverted || !x.userWrote(text) || !tells(elements, field, text, take) {
				continue
			}
			s := source{step: c.step, derived: m.forms.id(form{kind: FormSelect, asks: true, holes: []source{{step: c.step, path: list}}, field: pointer, take: take})}
			if t := (told{source: s}); !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// tells reports whether all elements with a text in a field, in any case, have the same at a place.
func tells(elements []any, field, text, take string) bool {
	var first any
	found := false
	for _, e := range elements {
		object, _ := e.(map[string]any)
		other, ok := object[field].(string)
		if !ok || !strings.EqualFold(other, text) {
			continue
		}
		v, ok := value.Lookup(e, take)
		if !ok || found && !value.Equal(v, first) {
			return false
		}
		first, found = v, true
	}
	return found
}

// askedOptions are the selections by what users had written that would tell an argument of a step that changes nothing:
// of a change a flow is not to decide on the strength of a name.
func (d *decision) askedOptions(x *explanation) []option {
	if x.each || x.sure || d.options.Effects(d.tools[x.step]) {
		return nil
	}
	votes, keys := map[source]int{}, map[source]map[string]struct{}{}
	for _, p := range x.in {
		for i, t := range p.arg.told {
			if !slices.ContainsFunc(p.arg.told[:i], func(o told) bool { return o.source == t.source }) {
				votes[t.source]++
			}
			if keys[t.source] == nil {
				keys[t.source] = map[string]struct{}{}
			}
			keys[t.source][t.key] = struct{}{}
		}
	}
	// A key that is always the same names a field, not what is meant.
	maps.DeleteFunc(votes, func(s source, _ int) bool {
		f := &d.forms.forms[s.derived]
		return f.kind == FormMember && len(keys[s]) < minDistinct || x.distinct < smallSample && f.byPlace()
	})
	sources := slices.SortedFunc(maps.Keys(votes), func(a, b source) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a.step, b.step), strings.Compare(d.forms.forms[a.derived].field, d.forms.forms[b.derived].field),
			cmp.Compare(a.derived, b.derived))
	})
	var out []option
	for _, s := range sources[:min(len(sources), maxAsked)] {
		held := d.holding(x.argument, func(r *argRecord) bool { return r.toldBy(s) })
		if votes[s] >= minVotes && distinctIn(x.argument, held) >= minDistinct {
			out = append(out, option{kind: SourceDerived, copy: candidate{source: s, held: votes[s]}, asked: true, held: held})
		}
	}
	return out
}

// setAsked writes a selection down by what the caller is asked for.
func (d *decision) setAsked(flow *ArgFlow, x *explanation, o option) {
	s := o.copy.source
	flow.Kind, flow.Derived = SourceDerived, d.forms.write(s.derived, d.paths)
	flow.Step, flow.Pointer = flow.Derived.origin()
	flow.Evidence.Held = o.copy.held
	named := "element whose " + flow.Derived.Field
	if flow.Derived.Form == FormMember {
		named = "member whose key"
	}
	flow.Evidence.Note = fmt.Sprintf("Of the %s the caller names; users had written it in %d of %d occurrences. Without it the flow hands back.",
		named, o.copy.held, len(x.in))
	d.cite(&flow.Evidence, x.argument, func(r *argRecord) bool { return r.toldBy(s) })
}

// askedInputs names the inputs that selections of a flow ask for, one for each field of a list and for the keys of an object,
// and adds them.
type askedInputs map[string]string

func (known askedInputs) name(arg *ArgFlow, taken map[string]bool) (name string, added bool) {
	s := arg.Derived
	step, from, by := s.Step, s.List, s.Field
	if s.Form == FormMember {
		step, from, by = s.Parts[0].Step, s.Parts[0].Pointer, "/key"
	}
	key := fmt.Sprintf("%d %s %s %s", step, from, by, s.Form)
	if name, ok := known[key]; ok {
		return name, false
	}
	list, field := lastKey(from), lastKey(by)
	name = field
	if list != "" {
		name = strings.TrimSuffix(list, "s") + "_" + field
	}
	known[key] = freeName(taken, notOfNames.ReplaceAllString(name, "_"))
	return known[key], true
}

// notOfNames are the characters that names of inputs that expressions read do not have.
var notOfNames = regexp.MustCompile(`^[0-9]|[^A-Za-z0-9_]`)

// lastKey is the last name in a pointer, "" where there is none.
func lastKey(pointer string) string {
	tokens, _ := value.ParsePointer(pointer)
	for _, token := range slices.Backward(tokens) {
		if _, number := value.Index(token); !number {
			return token
		}
	}
	return ""
}
