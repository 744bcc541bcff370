package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"pave/flows/value"
)

// pass is one walk over a value. found is what does not fit; locations are relative to the value at hand and grow on
// the way back, so that a value that fits costs none.
type pass struct {
	absent absent
	found  []Violation
}

// absent says which absent optional properties without a default become null.
type absent uint8

const (
	absentNullable absent = iota // those whose type allows null
	absentNull                   // all
	absentStays                  // none
)

// whole stands for the location of the value at hand itself until the walk ends; no key is likely to be the same.
const whole = "\x00"

// violations are what a walk over a whole value has found.
func (p *pass) violations() []Violation {
	for i := range p.found {
		if loc := &p.found[i].Loc; *loc == whole {
			*loc = "$"
		}
	}
	return p.found
}

func (p *pass) violate(kind, message string) { p.violateAt(whole, kind, message) }

func (p *pass) violateAt(loc, kind, message string) {
	p.found = append(p.found, Violation{Loc: loc, Type: kind, Message: message})
}

// below applies n to the part of the current value under token.
func (p *pass) below(n *node, v any, token string) any {
	before := len(p.found)
	out := p.apply(n, v, false)
	for i := before; i < len(p.found); i++ {
		p.found[i] = p.found[i].under(token)
	}
	return out
}

// apply returns v as n wants it.
func (p *pass) apply(n *node, v any, root bool) any {
	n = n.deref()
	switch {
	case n.never:
		p.violate("never", "nothing is allowed here")
		return nil
	case n.hasEnum:
		return p.enum(n, v)
	case len(n.alternatives) > 0:
		return p.best(n, v, root && len(n.union) == 0)
	}
	before := len(p.found)
	if len(n.types) == 0 {
		v = p.untyped(n, v, root)
	} else {
		v = p.coerce(n, n.types[0], v, root)
	}
	if len(p.found) == before {
		p.bounds(n, v)
	}
	return v
}

// untyped applies the object and array keywords of a schema without a type to values of those types.
func (p *pass) untyped(n *node, v any, root bool) any {
	switch v := v.(type) {
	case map[string]any:
		if n.props != nil || n.extras != extrasDrop {
			return p.object(n, v)
		}
	case []any:
		if n.items != nil {
			return p.array(n, v)
		}
	}
	if root && len(n.props) > 0 {
		if _, ok := v.(map[string]any); !ok {
			p.violate("model_type", "must be an object")
		}
	}
	return v
}

func (p *pass) enum(n *node, v any) any {
	for _, e := range n.enum {
		if value.Equal(e, v) {
			return e
		}
	}
	// As in the base system true stands for 1 and false for 0, both ways.
	if asNumber, ok := boolNumber(v); ok {
		for _, e := range n.enum {
			if value.Equal(e, asNumber) {
				return e
			}
		}
	}
	for _, e := range n.enum {
		if asNumber, ok := boolNumber(e); ok && value.Equal(asNumber, v) {
			return e
		}
	}
	if _, isHuge := v.(json.Number); isHuge && slices.ContainsFunc(n.enum, func(e any) bool { return isExactly(kindInteger, e) }) {
		p.violate("int_parsing_size", "must be one of a few integers: it is too large")
		return nil
	}
	allowed := make([]string, len(n.enum))
	for i, e := range n.enum {
		allowed[i] = string(value.Encode(e))
	}
	p.violate("literal_error", "must be one of "+strings.Join(allowed, ", "))
	return nil
}

func boolNumber(v any) (int64, bool) {
	b, ok := v.(bool)
	if b {
		return 1, ok
	}
	return 0, ok
}

func (p *pass) object(n *node, v map[string]any) any {
	out := make(map[string]any, max(len(n.props), len(v)))
	known := 0
	for _, prop := range n.props {
		given, ok := v[prop.name]
		switch {
		case ok:
			known++
			out[prop.name] = p.below(prop.node, given, prop.name)
		case prop.required:
			p.violateAt(prop.name, "missing", "is required")
		case prop.hasDefault:
			out[prop.name] = prop.dflt
		case p.absent == absentNull, p.absent == absentNullable && prop.node.nullable():
			out[prop.name] = nil
		}
	}
	if n.extras == extrasDrop || known == len(v) {
		return out
	}
	var extra []string
	for key := range v {
		if _, declared := n.index[key]; !declared {
			extra = append(extra, key)
		}
	}
	slices.Sort(extra)
	for _, key := range extra {
		switch n.extras {
		case extrasKeep:
			out[key] = v[key]
		case extrasSchema:
			out[key] = p.below(n.extra, v[key], key)
		case extrasForbid:
			p.violateAt(key, "extra_forbidden", "is not a known property")
		}
	}
	return out
}

func (p *pass) array(n *node, v []any) any {
	if n.items == nil {
		return v
	}
	out := make([]any, len(v))
	for i := range v {
		out[i] = p.below(n.items, v[i], strconv.Itoa(i))
	}
	return out
}

// bounds checks the coerced value.
func (p *pass) bounds(n *node, v any) {
	switch v := v.(type) {
	case string:
		if n.minLen == 0 && n.maxLen == nil && n.pattern == nil {
			return // lengths cost a walk
		}
		if length := utf8.RuneCountInString(v); length < n.minLen {
			p.violate("string_too_short", fmt.Sprintf("must have at least %d characters", n.minLen))
		} else if n.maxLen != nil && length > *n.maxLen {
			p.violate("string_too_long", fmt.Sprintf("must have at most %d characters", *n.maxLen))
		} else if n.pattern != nil && !n.pattern.MatchString(v) {
			p.violate("string_pattern_mismatch", "must match "+n.pattern.String())
		}
	case []any:
		if len(v) < n.minItems {
			p.violate("too_short", fmt.Sprintf("must have at least %d items", n.minItems))
		} else if n.maxItems != nil && len(v) > *n.maxItems {
			p.violate("too_long", fmt.Sprintf("must have at most %d items", *n.maxItems))
		}
	case int64, float64, json.Number:
		if b := n.min; b != nil {
			if order := compareNumbers(v, b.limit); order < 0 && !b.exclusive {
				p.violate("greater_than_equal", "must be at least "+string(value.Encode(b.limit)))
			} else if order <= 0 && b.exclusive {
				p.violate("greater_than", "must be more than "+string(value.Encode(b.limit)))
			}
		}
		if b := n.max; b != nil {
			if order := compareNumbers(v, b.limit); order > 0 && !b.exclusive {
				p.violate("less_than_equal", "must be at most "+string(value.Encode(b.limit)))
			} else if order >= 0 && b.exclusive {
				p.violate("less_than", "must be less than "+string(value.Encode(b.limit)))
			}
		}
	}
}
