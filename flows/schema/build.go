package schema

import "slices"

// ArrayOf is the schema of lists whose elements have a schema; nil takes any element.
func ArrayOf(items *Schema) *Schema {
	n := &node{types: []kind{kindArray}}
	out := &Schema{root: n}
	if items != nil {
		n.items, out.absent = items.root, items.absent
	}
	return out
}

// ObjectOf is the schema of objects with the fields, of which only Name, Required and Schema count; a nil Schema
// takes any value. open objects may have other keys too.
func ObjectOf(fields []Field, open bool) *Schema {
	n := &node{types: []kind{kindObject}, props: []property{}, index: make(map[string]int, len(fields))}
	if open {
		n.extras = extrasKeep
	}
	for i, f := range fields {
		p := property{name: f.Name, required: f.Required, node: &node{}}
		if f.Schema != nil {
			p.node = f.Schema.root
		}
		n.index[f.Name] = i
		n.props = append(n.props, p)
	}
	return &Schema{root: n}
}

// maxUnionDepth bounds the unions within unions that Kinds looks into.
const maxUnionDepth = 8

// Kinds lists the JSON types that a value can have ("null", "boolean", "integer", "number", "string", "array",
// "object"); nil is any.
func (s *Schema) Kinds() []string {
	kinds := s.root.members(maxUnionDepth)
	var out []string
	for _, k := range kinds {
		out = append(out, k.String())
	}
	return out
}

// members are the types of a node and of the members of its union, nil when it can have any.
func (n *node) members(depth int) []kind {
	n = n.deref()
	if depth == 0 || n.never || n.any() {
		return nil
	}
	if len(n.union) == 0 {
		return n.kinds()
	}
	var out []kind
	for _, m := range n.union {
		kinds := m.members(depth - 1)
		if kinds == nil {
			return nil
		}
		out = append(out, kinds...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Admits reports whether an object may have the key.
func (s *Schema) Admits(key string) bool {
	next, _ := s.root.deref().child(key)
	return next != nil
}

// DeclaresItems reports whether the schema says what the elements of a list are.
func (s *Schema) DeclaresItems() bool { return s.root.deref().items != nil }
