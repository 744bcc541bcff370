package observer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"pave/flows/value"
)

// Limits of parts of texts.
const (
	maxCutText = 4096 // bytes of the text that a part is taken from
	maxCuts    = 24   // ways to cut out one value
	maxAfter   = 3    // tokens of a delimiter before the value
	maxBefore  = 2    // and after it
)

// cuts reads v as a part of a text that step k could see, or of an earlier argument: what is after one delimiter and before
// another, which are letters or digits as a whole, or single other characters, next to the value.
func (x *examination) cuts(k int, v string) (out []source) {
	if len(v) < minHole || len(v) > maxTemplate {
		return nil
	}
	look := func(text string, place source) {
		if len(text) <= len(v) || len(text) > maxCutText || len(out) >= maxCuts {
			return
		}
		at := strings.Index(text, v)
		if at < 0 || !standsApart(text, at, len(v)) {
			return
		}
		for _, f := range delimited(text, at, v) {
			f.holes = []source{place}
			if len(out) < maxCuts {
				out = append(out, source{step: place.step, derived: x.view.miner.forms.id(f)})
			}
		}
	}
	x.earlierTexts(k, look)
	return out
}

// earlierTexts calls fn with the texts that step k could see and those that are arguments of earlier steps.
func (x *examination) earlierTexts(k int, fn func(text string, place source)) {
	for j := range k {
		c := x.call(j)
		for _, arg := range c.names {
			if text, ok := c.args[arg].(string); ok && !x.runsEach(j) {
				fn(text, source{step: j, arg: arg})
			}
		}
		if !x.sees(k, j) {
			continue
		}
		result := x.result(j)
		for n, node := range result.values {
			if text, ok := node.(string); ok {
				fn(text, source{step: j, path: result.paths[n]})
			}
		}
	}
}

// delimited lists the pairs of delimiters that cut v out of a text, short ones first.
func delimited(text string, at int, v string) (out []form) {
	afters, befores := []string{""}, []string{""}
	if at > 0 {
		afters = tokensBack(text[:at], maxAfter)
	}
	if end := at + len(v); end < len(text) {
		befores = tokensOn(text[end:], maxBefore)
	}
	for _, after := range afters {
		for _, before := range befores {
			for _, last := range []bool{false, true} {
				if last && after == "" {
					continue
				}
				f := form{kind: FormPart, after: after, before: before, last: last}
				if part, ok := f.cut(text); ok && part == v {
					out = append(out, f)
					break // the last is the first where both are right
				}
			}
		}
	}
	return out
}

// cut is the part of a text that a form says; ok is false where the delimiter before it is not there.
func (f *form) cut(text string) (part string, ok bool) {
	if f.after != "" {
		pieces := strings.Split(text, f.after)
		if len(pieces) < 2 {
			return "", false
		}
		if text = pieces[1]; f.last {
			text = pieces[len(pieces)-1]
		}
	}
	if f.before != "" {
		text, _, _ = strings.Cut(text, f.before)
	}
	return text, true
}

// class tells letters from digits from all else.
func class(r rune) int {
	switch {
	case r >= '0' && r <= '9':
		return 1
	case isWordRune(r):
		return 2
	}
	return 0
}

// standsApart reports whether the n bytes at a place are no part of a longer word or number.
func standsApart(text string, at, n int) bool {
	first, _ := utf8.DecodeRuneInString(text[at:])
	last, _ := utf8.DecodeLastRuneInString(text[:at+n])
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, _ := utf8.DecodeRuneInString(text[at+n:])
	apart := func(in, out rune) bool { return class(out) == 0 || class(in) != class(out) }
	return (at == 0 || apart(first, before)) && (at+n == len(text) || apart(last, after))
}

// tokensBack are the last 1 to n tokens of a text.
func tokensBack(text string, n int) (out []string) {
	from := len(text)
	for len(out) < n && from > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:from])
		from -= size
		for kind := class(r); kind > 0 && from > 0; from -= size {
			if r, size = utf8.DecodeLastRuneInString(text[:from]); class(r) != kind {
				break
			}
		}
		out = append(out, text[from:])
	}
	return out
}

// tokensOn are the first 1 to n tokens of a text.
func tokensOn(text string, n int) (out []string) {
	to := 0
	for len(out) < n && to < len(text) {
		r, size := utf8.DecodeRuneInString(text[to:])
		to += size
		for kind := class(r); kind > 0 && to < len(text); to += size {
			if r, size = utf8.DecodeRuneInString(text[to:]); class(r) != kind {
				break
			}
		}
		out = append(out, text[:to])
	}
	return out
}

// reveals reports whether a form has a fixed text or value that looks personal or secret, or is that of too few sessions or
// agents to be in a flow.
func (d *decision) reveals(a argument, s source) bool {
	if s.derived == 0 {
		return false
	}
	f := &d.forms.forms[s.derived]
	for _, text := range append([]string{f.after, f.before}, f.texts...) {
		if text != "" && d.personal("", hashOf(d.seed, text), text) {
			return true
		}
	}
	if !d.forms.byWord(s.derived) {
		return false
	}
	word := f.constants[1]
	tokens, _ := value.ParsePointer(f.field)
	return d.personal(tokens[len(tokens)-1], hashOf(d.seed, word), word) ||
		!d.widely(a, func(r *argRecord) bool { return slices.Contains(r.sources, s) })
}
