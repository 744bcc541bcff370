package schema

import (
	"encoding/json"
	"slices"
	"strings"

	"pave/flows/value"
)

// nearness says how much a value that fits a schema has to change.
type nearness uint8

const (
	lax    nearness = iota // it is converted
	strict                 // an integer that stands for a number
	exact                  // it stays as it is
)

// best returns what the best fitting alternative makes of v: of objects the alternative that knows more of its keys,
// else the one that has to change less, else the first. When none fits, the violations of each are reported under its
// label; null goes without saying, and the only other alternative needs no label.
func (p *pass) best(n *node, v any, root bool) any {
	if v == nil && slices.ContainsFunc(n.alternatives, (*node).onlyNull) {
		return nil
	}
	var result any
	var found []Violation
	known, nearest, fits := -1, lax, false
	for _, m := range n.alternatives {
		q := pass{absent: p.absent}
		out := q.apply(m, v, root || len(m.types) == 0)
		if q.found != nil {
			found = append(found, q.labelled(n, m)...)
			continue
		}
		keys, near := m.keysIn(v), m.nearness(v)
		if keys < 0 && near == exact {
			return out
		}
		better := near > nearest
		if known >= 0 && keys >= 0 && known != keys {
			better = keys > known
		}
		if !fits || better {
			result, known, nearest, fits = out, keys, near, true
		}
	}
	if !fits {
		p.found = append(p.found, found...)
	}
	return result
}

// labelled are the violations of one alternative of n as n reports them.
func (p *pass) labelled(n, alternative *node) []Violation {
	others := len(n.alternatives)
	if slices.ContainsFunc(n.alternatives, (*node).onlyNull) {
		others--
	}
	switch {
	case alternative.onlyNull() && others > 0:
		return nil
	case others > 1:
		label := alternative.label()
		for i := range p.found {
			p.found[i] = p.found[i].under(label)
		}
	}
	return p.found
}

// under moves a violation below a token.
func (v Violation) under(token string) Violation {
	if v.Loc == whole {
		v.Loc = token
	} else {
		v.Loc = token + "." + v.Loc
	}
	return v
}

// flatten collects the alternatives of n, those of nested alternatives in their place, each once.
func (n *node) flatten(out []*node, depth int) []*node {
	n = n.deref()
	members := n.union
	if len(n.types) > 1 && !n.hasEnum {
		members = make([]*node, len(n.types))
		for i, k := range n.types {
			m := *n
			m.types = []kind{k}
			members[i] = &m
		}
	}
	if len(members) == 0 || depth == 0 {
		if !slices.ContainsFunc(out, n.same) {
			out = append(out, n)
		}
		return out
	}
	for _, m := range members {
		out = m.flatten(out, depth-1)
	}
	return out
}

// same reports whether two alternatives are one: the same node, or the same type without any condition.
func (n *node) same(other *node) bool {
	plain := func(n *node) bool {
		return len(n.types) == 1 && n.types[0] != kindArray && n.types[0] != kindObject && !n.hasEnum && !n.constrained()
	}
	return n == other || plain(n) && plain(other) && n.types[0] == other.types[0]
}

// constrained reports whether a text or number has conditions beside its type.
func (n *node) constrained() bool {
	switch n.types[0] {
	case kindString:
		return n.minLen > 0 || n.maxLen != nil || n.pattern != nil
	case kindInteger, kindNumber:
		return n.min != nil || n.max != nil
	}
	return false
}

// isModel reports whether n is an object with declared properties.
func (n *node) isModel() bool {
	return n.props != nil && (len(n.types) == 0 || n.types[0] == kindObject)
}

// nearness says how much of v, which fits, n changes. An object becomes one of the declared properties; that is a
// conversion.
func (n *node) nearness(v any) nearness {
	n = n.deref()
	least := exact
	switch v := v.(type) {
	case []any:
		if n.items == nil {
			break
		}
		for _, e := range v {
			least = min(least, n.items.nearness(e))
		}
	case map[string]any:
		if n.isModel() {
			return lax
		}
		if n.extras != extrasSchema {
			break
		}
		for _, e := range v {
			least = min(least, n.extra.nearness(e))
		}
	}
	switch {
	case n.hasEnum:
		if !slices.ContainsFunc(n.enum, func(e any) bool { return value.Equal(e, v) }) {
			return lax
		}
	case len(n.alternatives) > 0:
		least = lax
		for _, m := range n.alternatives {
			least = max(least, m.nearness(v))
		}
	case len(n.types) == 1 && !isExactly(n.types[0], v):
		return lax
	case len(n.types) == 1 && n.types[0] == kindNumber:
		if _, isFloat := v.(float64); !isFloat {
			return strict
		}
	}
	return least
}

// keysIn counts the keys of v's objects that n declares or keeps, -1 where n declares no objects.
func (n *node) keysIn(v any) int {
	n = n.deref()
	count := -1
	add := func(more int) {
		if more >= 0 {
			count = max(count, 0) + more
		}
	}
	switch v := v.(type) {
	case []any:
		if n.items != nil {
			for _, e := range v {
				add(n.items.keysIn(e))
			}
		}
	case map[string]any:
		if !n.isModel() {
			break
		}
		add(0)
		for key, e := range v {
			if i, declared := n.index[key]; declared {
				add(1)
				add(n.props[i].node.keysIn(e))
			} else if n.extras == extrasKeep {
				add(1)
			}
		}
	}
	return count
}

func isExactly(k kind, v any) bool {
	switch v.(type) {
	case nil:
		return k == kindNull
	case bool:
		return k == kindBoolean
	case string:
		return k == kindString
	case int64, json.Number:
		return k == kindInteger || k == kindNumber
	case float64:
		return k == kindNumber
	case []any:
		return k == kindArray
	case map[string]any:
		return k == kindObject
	}
	return false
}

// maxLabelDepth bounds the labels of recursive schemas.
const maxLabelDepth = 8

// label names an alternative in the locations of violations, as the base system does: int, constrained-str,
// list[int], dict[str,any], literal['a',1], or an object's title.
func (n *node) label() string { return n.labelTo(maxLabelDepth) }

var kindLabels = [...]string{"none", "bool", "int", "float", "str", "list", "dict"}

func (n *node) labelTo(depth int) string {
	n = n.deref()
	inner := func(m *node) string {
		if m == nil || depth == 0 {
			return "any"
		}
		return m.labelTo(depth - 1)
	}
	switch {
	case n.hasEnum:
		return "literal[" + joined(n.enum, pythonText) + "]"
	case len(n.alternatives) > 0:
		return n.unionLabel(inner)
	case n.isModel() && n.title != "":
		return n.title
	case n.isModel():
		return "model"
	case len(n.types) == 0:
		return "any"
	}
	k := n.types[0]
	switch {
	case k == kindArray:
		return "list[" + inner(n.items) + "]"
	case k == kindObject:
		return "dict[str," + inner(n.extra) + "]"
	case n.constrained():
		return "constrained-" + kindLabels[k]
	}
	return kindLabels[k]
}

func (n *node) unionLabel(inner func(*node) string) string {
	others := slices.DeleteFunc(slices.Clone(n.alternatives), (*node).onlyNull)
	label := "none"
	switch {
	case len(others) == 1:
		label = inner(others[0])
	case len(others) > 1:
		label = "union[" + joined(others, inner) + "]"
	}
	if len(others) < len(n.alternatives) && len(others) > 0 {
		label = "nullable[" + label + "]"
	}
	return label
}

func joined[T any](list []T, text func(T) string) string {
	parts := make([]string, len(list))
	for i, e := range list {
		parts[i] = text(e)
	}
	return strings.Join(parts, ",")
}

// pythonText writes a member of an enum as the base system's labels do.
func pythonText(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		quote := "'"
		if strings.Contains(v, "'") && !strings.Contains(v, `"`) {
			quote = `"`
		}
		return quote + strings.NewReplacer(`\`, `\\`, quote, `\`+quote, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(v) + quote
	}
	return string(value.Encode(v))
}
