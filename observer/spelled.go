package observer

import "strings"

// Earlier texts in another case or without blanks around them.

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
	x.earlierTexts(k, look)
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
