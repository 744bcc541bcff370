package replay

import (
	"slices"
	"strings"

	"pave/flows/value"
	"pave/ingest"
)

// history answers what could be known before a call of a session: what the user had written, and every value in
// earlier arguments and results.
type history struct {
	users []saying
	texts []saying       // arguments and results as lower-case text
	nodes map[uint64]int // hash of a value -> the first call that has it as a node
}

// saying is a text and the position of the call that it stands before (users) or belongs to (texts).
type saying struct {
	at   int
	text string
}

func newHistory(s *ingest.Session) *history {
	h := &history{nodes: map[uint64]int{}}
	at := 0
	for r := range s.Runs {
		run := &s.Runs[r]
		for _, u := range run.Users {
			h.users = append(h.users, saying{at + u.Before, strings.ToLower(u.Text)})
		}
		for i := range run.Calls {
			c := &run.Calls[i]
			for _, raw := range [][]byte{c.Args, c.Result} {
				v := decode(raw)
				h.add(v, at)
				h.texts = append(h.texts, saying{at, strings.ToLower(string(value.Encode(v)))})
			}
			at++
		}
	}
	slices.SortStableFunc(h.users, func(a, b saying) int { return a.at - b.at })
	return h
}

func (h *history) add(v any, at int) {
	h.note(v, at)
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			h.add(e, at)
		}
	case map[string]any:
		for k, e := range v {
			h.note(k, at)
			h.add(e, at)
		}
	}
}

func (h *history) note(v any, at int) {
	hash := value.Hash(value.Key{}, v)
	if first, ok := h.nodes[hash]; !ok || at < first {
		h.nodes[hash] = at
	}
}

// returned reports whether v is a node or an object key of an argument or result before the call at this position.
func (h *history) returned(v any, before int) bool {
	first, ok := h.nodes[value.Hash(value.Key{}, v)]
	return ok && first < before
}

// written reports whether the user had written the scalar by the call at this position.
func (h *history) written(v any, before int) bool {
	text, ok := scalarText(v)
	if !ok {
		return false
	}
	text = strings.ToLower(text)
	for _, u := range h.users {
		if u.at > before {
			return false
		}
		if strings.Contains(u.text, text) {
			return true
		}
	}
	return false
}

// mentioned reports whether an argument or result before the call at this position has the scalar in its text.
func (h *history) mentioned(v any, before int) bool {
	text, ok := scalarText(v)
	if !ok {
		return false
	}
	text = strings.ToLower(text)
	for _, t := range h.texts {
		if t.at >= before {
			return false
		}
		if strings.Contains(t.text, text) {
			return true
		}
	}
	return false
}

// knowable reports whether a caller could give v before the call at this position: the user wrote it, or an earlier
// argument or result holds it. A list or object is knowable when it was returned as a whole or all of its parts are
// knowable.
func (h *history) knowable(v any, before int) bool {
	return h.returned(v, before) || h.written(v, before) || allParts(v, func(part any) bool { return h.knowable(part, before) })
}

// allParts reports whether v is a list or object with something in it and every part holds.
func allParts(v any, holds func(any) bool) bool {
	switch v := v.(type) {
	case []any:
		return len(v) > 0 && !slices.ContainsFunc(v, func(e any) bool { return !holds(e) })
	case map[string]any:
		for _, e := range v {
			if !holds(e) {
				return false
			}
		}
		return len(v) > 0
	}
	return false
}

// scalarText is a string or number as people write it. Booleans and null have no text that would say anything.
func scalarText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case nil, bool, []any, map[string]any:
		return "", false
	}
	return string(value.Canonical(v)), true
}

// freeText is the length above which a text is one that a model writes rather than a value.
const freeText = 24

// isFreeText reports whether v counts in the lenient figures only.
func isFreeText(v any) bool {
	s, ok := v.(string)
	return ok && len([]rune(s)) > freeText
}

// trivial reports whether a value says nothing: null, boolean, or empty.
func trivial(v any) bool {
	switch v := v.(type) {
	case nil, bool:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
