package observer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pave/flows/value"
)

// form is a derivation with places of a chunk's path table. It is written down as Derived.
type form struct {
	kind DerivedForm
	// All but FormSelect: a place for each hole; texts has the text before each and, for templates, after the last; for
	// FormJoin and FormSplit what is between the elements is after it.
	holes []source
	texts []string
	// FormSelect: holes has the list, and the argument that its field is compared with; or constants has the value for it; or
	// asks is set, and the caller says it. take is also what FormLast, FormColumn, FormJoin and FormMember take of an element
	// or member.
	field, take string
	asks        bool
	// FormPart: the delimiters, and whether it is the last of the first one that counts.
	after, before string
	last          bool
	// FormBuilt: the value with the number of a part in place of each leaf. A hole is that of a part, unless constants has it;
	// of FormSelect, too.
	shape     any
	constants map[int]any
}

// derivedTable numbers the forms of a chunk from 1.
type derivedTable struct {
	ids   map[string]uint32
	forms []form
}

func newDerivedTable() *derivedTable {
	return &derivedTable{ids: map[string]uint32{}, forms: make([]form, 1)}
}

func (t *derivedTable) id(f form) uint32 {
	key := []byte(f.kind)
	for _, h := range f.holes {
		key = binary.AppendVarint(append(key, 0), int64(h.step))
		key = binary.AppendVarint(key, int64(h.path))
		key = append(key, h.arg...)
	}
	for _, text := range append(f.texts, f.field, f.take, f.after, f.before) {
		key = append(append(key, 1), text...)
	}
	if f.last {
		key = append(key, 2)
	}
	if f.asks {
		key = append(key, 5)
	}
	if f.kind == FormBuilt {
		key = append(append(key, 3), value.Encode(f.shape)...)
	}
	if len(f.constants) > 0 {
		for i := range f.holes {
			if v, ok := f.constants[i]; ok {
				key = append(append(append(key, 4), value.Encode(int64(i))...), value.Encode(v)...)
			}
		}
	}
	id, ok := t.ids[string(key)]
	if !ok {
		id = uint32(len(t.forms))
		t.ids[string(key)] = id
		t.forms = append(t.forms, f)
	}
	return id
}

// rank orders derivations: the plain ones first, of templates those with fewer holes.
func (t *derivedTable) rank(id uint32) int {
	if id == 0 {
		return 0
	}
	f := &t.forms[id]
	switch f.kind {
	case FormText, FormNumber, FormDecimal, FormLower, FormUpper, FormTrim:
		return 1
	case FormSelect, FormPart, FormBuilt, FormLast, FormMember:
		return 2 + len(f.constants)
	}
	return 2 + len(f.holes)
}

// byWord reports whether a form tells an element of a list by what is always the same.
func (t *derivedTable) byWord(id uint32) bool {
	return id > 0 && t.forms[id].kind == FormSelect && len(t.forms[id].constants) > 0
}

// write puts a form down with pointers.
func (t *derivedTable) write(id uint32, paths *pathTable) *Derived {
	f := &t.forms[id]
	out := &Derived{Form: f.kind}
	place := func(s source) Part {
		if s.arg != "" {
			return Part{Place: true, Step: s.step, Arg: s.arg}
		}
		return Part{Place: true, Step: s.step, Pointer: paths.pointer(s.path, false)}
	}
	if f.kind == FormSelect {
		out.Step, out.List, out.Field, out.Take = f.holes[0].step, paths.pointer(f.holes[0].path, false), f.field, f.take
		if v, ok := f.constants[1]; ok {
			out.Parts = []Part{{Value: v}}
		} else if out.Asks = f.asks; !f.asks {
			out.Parts = []Part{place(f.holes[1])}
		}
		return out
	}
	out.After, out.Before, out.Last, out.Shape, out.Take, out.Asks = f.after, f.before, f.last, f.shape, f.take, f.asks
	for i, h := range f.holes {
		if v, ok := f.constants[i]; ok {
			out.Parts = append(out.Parts, Part{Value: v})
			continue
		}
		if i < len(f.texts) && f.texts[i] != "" {
			out.Parts = append(out.Parts, Part{Text: f.texts[i]})
		}
		out.Parts = append(out.Parts, place(h))
	}
	if n := len(f.holes); n < len(f.texts) && f.texts[n] != "" {
		out.Parts = append(out.Parts, Part{Text: f.texts[n]})
	}
	return out
}

// origin is the place that says most about where a derived value comes from.
func (d *Derived) origin() (step int, pointer string) {
	if d.Form == FormSelect {
		return d.Step, d.List + "/*" + d.Take
	}
	for _, p := range d.Parts {
		if !p.Place {
			continue
		}
		switch d.Form {
		case FormLast, FormColumn, FormJoin, FormMember:
			return p.Step, p.Pointer + "/*" + d.Take
		}
		return p.Step, p.Pointer
	}
	return 0, ""
}

// explain says for people how the value is made of what is at its place.
func (d *Derived) explain() string {
	switch d.Form {
	case FormText:
		return "The number there as a text."
	case FormNumber, FormDecimal:
		return "The text there as a number."
	case FormTemplate:
		var text strings.Builder
		for _, p := range d.Parts {
			if p.Place {
				text.WriteString("…")
			} else {
				text.WriteString(p.Text)
			}
		}
		return fmt.Sprintf("The text %q with values in it.", text.String())
	case FormSelect:
		if d.Asks {
			return fmt.Sprintf("Of the first element whose %s is what the caller says.", d.Field)
		}
		if p := d.Parts[0]; !p.Place {
			return fmt.Sprintf("Of the first element whose %s is %s.", d.Field, value.Encode(p.Value))
		}
		return fmt.Sprintf("Of the first element whose %s is what an earlier step was asked for.", d.Field)
	case FormPart:
		from, to := "from its start", "to its end"
		if d.After != "" {
			from = fmt.Sprintf("after the %s %q", map[bool]string{false: "first", true: "last"}[d.Last], d.After)
		}
		if d.Before != "" {
			to = fmt.Sprintf("to the next %q", d.Before)
		}
		return fmt.Sprintf("The part of the text there %s %s.", from, to)
	case FormBuilt:
		places := 0
		for _, p := range d.Parts {
			if p.Place {
				places++
			}
		}
		return fmt.Sprintf("Built of %d earlier values and constants (%d).", places, len(d.Parts)-places)
	}
	return d.explainListOrText()
}

// derivations lists how v could be computed from what step k could see: number and text turned into each other, an
// element of a list or a member of an object that an earlier argument names, texts around values, parts of texts, lists.
// Where v was there as it is, only the element and the member are looked for.
func (x *examination) derivations(k int, v any, hash uint64, copies []source) []source {
	out := x.selections(k, v, copies)
	out = append(out, x.members(k, copies)...)
	if len(copies) > 0 {
		return out
	}
	switch v := v.(type) {
	case int64:
		return append(out, x.converted(k, strconv.FormatInt(v, 10), FormNumber)...)
	case float64:
		return append(out, x.converted(k, strconv.FormatFloat(v, 'f', -1, 64), FormDecimal)...)
	case []any:
		return append(append(out, x.columns(k, v)...), x.splits(k, v)...)
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && strconv.FormatInt(n, 10) == v {
			out = append(out, x.converted(k, n, FormText)...)
		} else if f, err := strconv.ParseFloat(v, 64); err == nil && strconv.FormatFloat(f, 'f', -1, 64) == v {
			out = append(out, x.converted(k, f, FormText)...)
		}
		if len(out) == 0 {
			out = append(out, x.templates(k, v)...)
			out = append(out, x.cuts(k, v)...)
		}
		out = append(out, x.spelled(k, v)...)
		out = append(out, x.joins(k, v)...)
		out = append(out, x.onlyKeys(k, v, hash)...)
	}
	return out
}

// minConverted is the shortest number or text that tells something when it is found in the other form.
const minConverted = 3

func (x *examination) converted(k int, other any, kind DerivedForm) (out []source) {
	if len(scalarText(other)) < minConverted {
		return nil
	}
	m := x.view.miner
	hash := hashOf(m.seed, other)
	for j := range k {
		if !x.sees(k, j) {
			continue
		}
		result := x.result(j)
		result.find(other, hash, func(n int) bool {
			id := m.forms.id(form{kind: kind, holes: []source{{step: j, path: result.paths[n]}}})
			out = append(out, source{step: j, derived: id})
			return len(out) < maxMatches
		})
	}
	return out
}

// selections are elements of lists that hold v and have a field equal to an argument of an earlier step, or to a word that
// may always be the same, and no element before them has.
func (x *examination) selections(k int, v any, copies []source) (out []source) {
	m := x.view.miner
	for _, c := range copies {
		if c.arg != "" || x.runsEach(c.step) {
			continue
		}
		element, take := m.paths.element(c.path)
		if element == 0 || take == "" {
			continue
		}
		list, index := m.paths.steps[element].parent, int(m.paths.steps[element].index)
		elements := x.elements(c.step, list)
		if index >= len(elements) {
			continue
		}
		object, ok := elements[index].(map[string]any)
		if !ok {
			continue
		}
		for _, field := range sortedKeys(object) {
			pointer := "/" + value.Escape(field)
			if pointer == take {
				continue
			}
			f := form{kind: FormSelect, holes: []source{{step: c.step, path: list}, {}}, field: pointer, take: take}
			if text, ok := object[field].(string); ok && len(text) >= minConverted {
				out = append(out, x.named(k, f, text, elements[:index], field)...)
			}
			if word := object[field]; isWord(word) && len(out) < maxMatches && !anyWith(elements[:index], field, word) {
				f.constants = map[int]any{1: word}
				out = append(out, source{step: c.step, derived: m.forms.id(f)})
			}
		}
	}
	return out
}

// maxWord is the longest text that an element may be told by in all occurrences, in bytes.
const maxWord = 40

// isWord reports whether an element may be told by a value that is always the same: a kind, a state, a mark.
func isWord(v any) bool {
	text, ok := v.(string)
	return ok && len(text) >= minConverted && len(text) <= maxWord || v == true
}

// named makes selections by a field that has this text, for each earlier argument that says it, where no element before has.
func (x *examination) named(k int, f form, text string, before []any, field string) (out []source) {
	m := x.view.miner
	hash := hashOf(m.seed, text)
	for j := range k {
		c := x.call(j)
		for i, arg := range c.names {
			if x.runsEach(j) || c.hashes[i] != hash || !value.Equal(c.args[arg], text) || anyWith(before, field, text) {
				continue
			}
			f.holes = []source{f.holes[0], {step: j, arg: arg}}
			out = append(out, source{step: f.holes[0].step, derived: m.forms.id(f)})
		}
	}
	return out
}

// anyWith reports whether an element has the value in its field.
func anyWith(elements []any, field string, v any) bool {
	return slices.ContainsFunc(elements, func(e any) bool {
		object, _ := e.(map[string]any)
		other, ok := object[field]
		return ok && value.Equal(other, v)
	})
}

// elements are those of a list in the result of a step, nil where it is none.
func (x *examination) elements(step int, list uint32) []any {
	result := x.result(step)
	at := slices.Index(result.paths, list)
	if at < 0 {
		return nil
	}
	elements, _ := result.values[at].([]any)
	return elements
}

// Limits of templates.
const (
	minHole     = 4   // bytes of a value that is looked for in a text
	maxTemplate = 200 // bytes of the text
	maxReadings = 8   // ways to read one text
)

// hole is a value found in a text.
type hole struct {
	at, length int
	from       source
}

// templates reads a text as fixed text around values of the results that step k could see.
func (x *examination) templates(k int, text string) (out []source) {
	if len(text) < minHole+1 || len(text) > maxTemplate {
		return nil
	}
	var holes []hole
	for j := range k {
		if !x.sees(k, j) {
			continue
		}
		result := x.result(j)
		for n, v := range result.values {
			part := scalarText(v)
			if len(part) < minHole || len(part) >= len(text) {
				continue
			}
			if at := strings.Index(text, part); at >= 0 {
				holes = append(holes, hole{at, len(part), source{step: j, path: result.paths[n]}})
			}
		}
	}
	slices.SortStableFunc(holes, func(a, b hole) int { return cmp.Compare(b.length, a.length) })
	add := func(chosen ...hole) {
		if len(out) == maxReadings {
			return
		}
		slices.SortFunc(chosen, func(a, b hole) int { return cmp.Compare(a.at, b.at) })
		f := form{kind: FormTemplate}
		end := 0
		for _, h := range chosen {
			f.texts, f.holes, end = append(f.texts, text[end:h.at]), append(f.holes, h.from), h.at+h.length
		}
		f.texts = append(f.texts, text[end:])
		out = append(out, source{step: chosen[0].from.step, derived: x.view.miner.forms.id(f)})
	}
	for i, h := range holes {
		add(h)
		for _, other := range holes[i+1:] {
			if other.at >= h.at+h.length || other.at+other.length <= h.at {
				add(h, other)
			}
		}
	}
	return out
}
