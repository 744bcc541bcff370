package schema

import (
	"math"
	"slices"
)

// Accept is Apply for values that nobody changes: one that already is as the schema wants it comes back itself, without
// a copy. So the result may share parts with v.
func (s *Schema) Accept(v any) (any, []Violation) {
	if s.full == nil && s.root.leaves(v, s.absent) {
		return v, nil
	}
	return s.Apply(v)
}

// leaves reports that a pass would find nothing wrong with v and change nothing in it. It may be false where it would
// not, too: of unions it knows only scalars, of enums and of extra properties with a schema nothing.
func (n *node) leaves(v any, absent absent) bool {
	n = n.deref()
	switch {
	case n.never || n.hasEnum:
		return false
	case len(n.alternatives) > 0:
		return n.unionLeaves(v, absent)
	case len(n.types) > 0 && !n.types[0].leaves(v):
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		return n.objectLeaves(v, absent)
	case []any:
		if n.items != nil && slices.ContainsFunc(v, func(e any) bool { return !n.items.leaves(e, absent) }) {
			return false
		}
	}
	if len(n.types) == 0 && len(n.props) > 0 {
		return false // whether it may be no object depends on where it stands
	}
	var p pass
	p.bounds(n, v)
	return p.found == nil
}

// leaves reports whether coercion to the kind gives v itself, but for what is in objects and lists.
func (k kind) leaves(v any) bool {
	if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return false
	}
	return isExactly(k, v)
}

// unionLeaves follows best: of the alternatives for a scalar the first that fits it exactly decides.
func (n *node) unionLeaves(v any, absent absent) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	for _, m := range n.alternatives {
		if m.nearness(v) == exact {
			return m.leaves(v, absent)
		}
	}
	return false
}

func (n *node) objectLeaves(v map[string]any, absent absent) bool {
	known := 0
	for i := range n.props {
		prop := &n.props[i]
		given, ok := v[prop.name]
		switch {
		case ok && prop.node.leaves(given, absent):
			known++
		case ok, prop.required, prop.hasDefault, absent == absentNull, absent == absentNullable && prop.node.nullable():
			return false
		}
	}
	return known == len(v) || n.extras == extrasKeep || n.props == nil && n.extras == extrasDrop && len(n.types) == 0
}
