package observer

import (
	"fmt"
	"slices"
	"strings"

	"pave/flows/value"
)

// Derivations of lists as a whole: the last element, how many there are, one place of each, all of them as one text, and
// back.

// hint is a derivation that many values have by coincidence: the last element of a list of one is the first, and a small
// number is the length of some list. It is a source where lists of different lengths show it.
type hint struct {
	source
	length int // of the list
}

// minLengths is the least number of lengths that lists must have for their last element to be told from one at a fixed
// place.
const minLengths = 2

// lasts are the lists of which a copy is the last element, or a place in it.
func (x *examination) lasts(copies []source) (out []hint) {
	m := x.view.miner
	for _, c := range copies {
		if c.arg != "" || x.runsEach(c.step) {
			continue
		}
		element, take := m.paths.element(c.path)
		result := x.result(c.step)
		if element == 0 || result.dropped > 0 { // others may have been there
			continue
		}
		at := m.paths.steps[element]
		next, ok := m.paths.ids[pathStep{parent: at.parent, index: at.index + 1}]
		if ok && slices.Contains(result.paths, next) {
			continue
		}
		id := m.forms.id(form{kind: FormLast, holes: []source{{step: c.step, path: at.parent}}, take: take})
		out = append(out, hint{source{step: c.step, derived: id}, int(at.index) + 1})
	}
	return out
}

// sizes are the lists of v elements that step k could see.
func (x *examination) sizes(k int, v any) (out []hint) {
	size, ok := v.(int64)
	if !ok || size < 0 || size > int64(x.view.miner.options.MaxLeaves) {
		return nil
	}
	for j := range k {
		if !x.sees(k, j) || x.runsEach(j) {
			continue
		}
		result := x.result(j)
		for n, node := range result.values {
			if list, ok := node.([]any); ok && int64(len(list)) == size && len(out) < maxMatches {
				id := x.view.miner.forms.id(form{kind: FormSize, holes: []source{{step: j, path: result.paths[n]}}})
				out = append(out, hint{source{step: j, derived: id}, len(list)})
			}
		}
	}
	return out
}

// believe makes sources of the hints that enough different lists show: the last element in lists that have others and
// differ in length, a length where it is as many different ones as computed values need.
func (d *decision) believe(a argument) {
	type seen struct {
		values  map[uint64]struct{} // of lists of several elements
		lengths map[int]struct{}
	}
	all := map[source]*seen{}
	for _, p := range a.in {
		for _, h := range p.arg.hints {
			s := all[h.source]
			if s == nil {
				s = &seen{map[uint64]struct{}{}, map[int]struct{}{}}
				all[h.source] = s
			}
			s.lengths[h.length] = struct{}{}
			if h.length > 1 {
				s.values[p.arg.hash] = struct{}{}
			}
		}
	}
	for _, p := range a.in {
		for _, h := range p.arg.hints {
			s, shown := all[h.source], false
			if d.forms.forms[h.derived].kind == FormSize {
				shown = len(s.lengths) >= minDerived
			} else {
				shown = len(s.values) >= minRepeated && len(s.lengths) >= minLengths
			}
			if shown && !slices.Contains(p.arg.sources, h.source) {
				p.arg.sources = append(p.arg.sources, h.source)
			}
		}
	}
}

// byPlace reports whether a form takes one element of a list by its place, which is what a model chooses.
func (f *form) byPlace() bool {
	tokens, _ := value.ParsePointer(f.take)
	return f.kind == FormLast || slices.ContainsFunc(tokens, func(token string) bool { _, number := value.Index(token); return number })
}

// separators are what is between the elements of a list that is one text: a fixed few, so that none tells of a value.
var separators = []string{", ", ",", "; ", ";", "|", "\n", " "}

// eachList calls fn with the lists that step k could see whose first element, or one place in it, begins as wanted: take is
// the place, elements has that of each.
func (x *examination) eachList(k int, begins func(first any) bool, fn func(list source, take string, elements []any)) {
	for j := range k {
		if !x.sees(k, j) || x.runsEach(j) {
			continue
		}
		result, lists := x.result(j), 0
		for n, node := range result.values {
			elements, ok := node.([]any)
			if !ok || len(elements) == 0 || len(elements) > maxElements {
				continue
			}
			if lists++; lists > maxLists {
				break
			}
			list := source{step: j, path: result.paths[n]}
			object, ok := elements[0].(map[string]any)
			if !ok {
				if begins(elements[0]) {
					fn(list, "", elements)
				}
				continue
			}
			for _, field := range sortedKeys(object) {
				if !begins(object[field]) {
					continue
				}
				if part, ok := column(elements, field); ok {
					fn(list, "/"+value.Escape(field), part)
				}
			}
		}
	}
}

// columns are the lists of which v has one place of each element.
func (x *examination) columns(k int, v []any) (out []source) {
	if len(v) == 0 {
		return nil
	}
	x.eachList(k, func(first any) bool { return value.Equal(first, v[0]) }, func(list source, take string, elements []any) {
		if take != "" && len(out) < maxMatches && slices.EqualFunc(elements, v, value.Equal) {
			out = append(out, x.derive(form{kind: FormColumn, holes: []source{list}, take: take}))
		}
	})
	return out
}

// derive is the source of a form.
func (x *examination) derive(f form) source {
	return source{step: f.holes[0].step, derived: x.view.miner.forms.id(f)}
}

// joins are the lists of several elements that v has as one text.
func (x *examination) joins(k int, text string) (out []source) {
	if !strings.ContainsAny(text, ",;|\n ") {
		return nil
	}
	begins := func(first any) bool {
		part, ok := joinable(first)
		return ok && part != "" && len(part) < len(text) && strings.HasPrefix(text, part)
	}
	x.eachList(k, begins, func(list source, take string, elements []any) {
		for _, separator := range separators {
			if len(elements) > 1 && len(out) < maxMatches && isJoined(text, elements, separator) {
				out = append(out, x.derive(form{kind: FormJoin, holes: []source{list}, texts: []string{"", separator}, take: take}))
			}
		}
	})
	return out
}

// joinable is an element as it is in a text; ok is false for what has no one way to be written.
func joinable(v any) (text string, ok bool) {
	switch v.(type) {
	case string, int64:
		return scalarText(v), true
	}
	return "", false
}

// isJoined reports whether a text is the elements with a separator between them.
func isJoined(text string, elements []any, separator string) bool {
	for i, e := range elements {
		part, ok := joinable(e)
		if i > 0 {
			part = separator + part
		}
		if !ok || !strings.HasPrefix(text, part) {
			return false
		}
		text = text[len(part):]
	}
	return text == ""
}

// splits are the texts that v has the parts of, several.
func (x *examination) splits(k int, v []any) (out []source) {
	if len(v) < 2 || len(v) > maxElements {
		return nil
	}
	parts := make([]string, len(v))
	for i := range v {
		part, ok := v[i].(string)
		if !ok {
			return nil
		}
		parts[i] = part
	}
	for _, separator := range separators {
		if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(part, separator) }) {
			continue
		}
		text := strings.Join(parts, separator)
		for _, s := range x.sources(k, "", text, hashOf(x.view.miner.seed, text)) {
			if len(out) < maxMatches {
				out = append(out, x.derive(form{kind: FormSplit, holes: []source{s}, texts: []string{"", separator}}))
			}
		}
	}
	return out
}

// complete adds forms that were seen where they changed something to the occurrences in which they change nothing: a text
// that was in small letters already, a list of one element as a text. There a copy hides them.
func (d *decision) complete(a argument) {
	var found []source
	for _, p := range a.in {
		for _, s := range p.arg.sources {
			if s.derived > 0 && d.forms.forms[s.derived].mayKeep() && !slices.Contains(found, s) {
				found = append(found, s)
			}
		}
	}
	for _, s := range found {
		f := &d.forms.forms[s.derived]
		for _, p := range a.in {
			if !slices.Contains(p.arg.sources, s) && d.keeps(f, p) {
				p.arg.sources = append(p.arg.sources, s)
			}
		}
	}
}

// mayKeep reports whether there are values that a form does not change.
func (f *form) mayKeep() bool {
	switch f.kind {
	case FormLower, FormUpper, FormTrim, FormJoin, FormSplit:
		return true
	}
	return false
}

// keeps reports whether an occurrence has the value at the place of a form, and the form does not change it.
func (d *decision) keeps(f *form, p present) bool {
	from := f.holes[0]
	switch f.kind {
	case FormJoin:
		first, ok := d.paths.under(from.path, f.take)
		_, text := p.arg.value.(string)
		return ok && text && d.single(p.record, from.step, from.path) && slices.Contains(p.arg.sources, source{step: from.step, path: first})
	case FormSplit:
		list, _ := p.arg.value.([]any)
		if len(list) != 1 || len(p.arg.leaves) != 1 || !slices.Contains(p.arg.leaves[0].sources, from) {
			return false
		}
		text, ok := list[0].(string)
		return ok && !strings.Contains(text, f.texts[1])
	}
	text, ok := p.arg.value.(string)
	return ok && slices.Contains(p.arg.sources, from) && f.spell(text) == text
}

// under is the place in the first element of a list; ok is false where no value had it.
func (t *pathTable) under(list uint32, take string) (id uint32, ok bool) {
	if id, ok = t.ids[pathStep{parent: list, index: 0}]; !ok || take == "" {
		return id, ok
	}
	field, _ := value.ParsePointer(take)
	id, ok = t.ids[pathStep{parent: id, index: -1, key: field[0]}]
	return id, ok
}

// explainListOrText says for people how a value is made of a list, an object or a text.
func (d *Derived) explainListOrText() string {
	switch d.Form {
	case FormLast:
		return "Of the last element of a list, whatever its length."
	case FormSize:
		return "The number of elements of the list there."
	case FormColumn:
		return "One place of each element of a list."
	case FormJoin:
		return fmt.Sprintf("The elements of a list as one text, with %q between them.", d.Parts[1].Text)
	case FormSplit:
		return fmt.Sprintf("The parts of the text there that %q divides.", d.Parts[1].Text)
	case FormMember:
		return "Of the member whose key an earlier step was asked for."
	case FormOnlyKey:
		return "The key of the object there, which has one; otherwise the flow hands back."
	case FormLower:
		return "The text there in small letters."
	case FormUpper:
		return "The text there in capital letters."
	case FormTrim:
		return "The text there without the blanks around it."
	}
	return ""
}
