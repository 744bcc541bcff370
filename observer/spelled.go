package observer

import (
	"fmt"
	"slices"
	"strings"

	"pave/flows/value"
)

// Earlier texts in another case or without blanks around them, and the keys of objects.

// spelled are the texts that step k could see, and earlier arguments, that are v but for the case of their ASCII letters or
// the blanks around them.
func (x *examination) spelled(k int, v string) (out []source) {
	if len(v) < minConverted || len(v) > maxTemplate {
		return nil
	}
	look := func(text string, place source) {
		if len(text) < len(v) || text == v || len(out) >= maxMatches || len(text) > maxCutText {
			return
		}
		kinds := []DerivedForm{FormLower, FormUpper}
		if len(text) > len(v) {
			kinds = []DerivedForm{FormTrim}
		} else if !strings.EqualFold(text, v) {
			return
		}
		for _, kind := range kinds {
			if f := (form{kind: kind, holes: []source{place}}); f.spell(text) == v {
				out = append(out, x.derive(f))
			}
		}
	}
	for j := range k {
		c := x.call(j)
		for _, arg := range c.names {
			if text, ok := c.args[arg].(string); ok && !x.runsEach(j) {
				look(text, source{step: j, arg: arg})
			}
		}
		if !x.sees(k, j) {
			continue
		}
		result := x.result(j)
		for n, node := range result.values {
			if text, ok := node.(string); ok {
				look(text, source{step: j, path: result.paths[n]})
			}
		}
	}
	return out
}

// spell is a text as FormLower, FormUpper and FormTrim give it, as the functions of expressions do.
func (f *form) spell(text string) string {
	from, to, by := 'A', 'Z', 'a'-'A'
	switch f.kind {
	case FormTrim:
		return strings.TrimSpace(text)
	case FormUpper:
		from, to, by = 'a', 'z', 'A'-'a'
	}
	return strings.Map(func(r rune) rune {
		if r >= from && r <= to {
			return r + by
		}
		return r
	}, text)
}

// maxMemberDepth bounds how many objects that a value lies in are looked at for a key that was named.
const maxMemberDepth = 8

// members are objects that hold a copy in the member whose key an earlier argument is.
func (x *examination) members(k int, copies []source) (out []source) {
	paths := x.view.miner.paths
	for _, c := range copies {
		if c.arg != "" || x.runsEach(c.step) {
			continue
		}
		take := ""
		for id, depth := c.path, 0; id != 0 && depth < maxMemberDepth; id, depth = paths.steps[id].parent, depth+1 {
			at := paths.steps[id]
			if at.index >= 0 {
				take = fmt.Sprintf("/%d%s", at.index, take)
				continue
			}
			if len(at.key) >= minConverted {
				out = append(out, x.namedKey(k, at, form{kind: FormMember, holes: []source{{step: c.step, path: at.parent}, {}}, take: take})...)
			}
			take = "/" + value.Escape(at.key) + take
		}
		if len(out) >= maxMatches {
			break
		}
	}
	return out
}

// namedKey makes a form of a member for each earlier argument that is its key.
func (x *examination) namedKey(k int, at pathStep, f form) (out []source) {
	for j := range k {
		c := x.call(j)
		for _, arg := range c.names {
			if text, ok := c.args[arg].(string); ok && text == at.key && !x.runsEach(j) {
				f.holes = []source{f.holes[0], {step: j, arg: arg}}
				out = append(out, x.derive(f))
			}
		}
	}
	return out
}

// onlyKeys are objects that step k could see whose one key v is.
func (x *examination) onlyKeys(k int, v string, hash uint64) (out []source) {
	if len(v) < minConverted {
		return nil
	}
	for j := range k {
		if !x.sees(k, j) || x.runsEach(j) || !slices.Contains(x.result(j).keys, hash) {
			continue
		}
		result := x.result(j)
		for n, node := range result.values {
			object, _ := node.(map[string]any)
			if _, ok := object[v]; ok && len(object) == 1 && len(out) < maxMatches {
				out = append(out, x.derive(form{kind: FormOnlyKey, holes: []source{{step: j, path: result.paths[n]}}}))
			}
		}
	}
	return out
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
