// Package schema turns a JSON Schema (2020-12) into one pass over a value that validates, coerces, fills
// defaults and drops unknown keys.
//
// The pass knows the keywords that tool schemas use: type, properties, required, additionalProperties, items,
// enum, const, anyOf, oneOf, local $ref, default, the bounds of numbers, strings and arrays, and pattern.
// Coercion is that of pydantic's lax mode. A schema that uses other asserting keywords is checked after the
// pass by a complete validator as well; around those keywords unknown keys are kept. format is an annotation.
// Nothing is ever loaded from outside the document.
//
// Objects: a schema with properties drops unknown keys unless additionalProperties says otherwise (true keeps
// them, false makes them extra_forbidden, a schema applies to them); an object schema without properties keeps
// everything. An absent optional property takes its default; without a default it becomes null where its type
// allows null, or in what a tool answered, and stays absent otherwise. The keyword "x-absent": "omit" at the root, which inferred schemas
// carry, leaves absent properties absent.
package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pave/flows/value"
)

// Schema is a compiled schema. It is immutable and safe for concurrent use.
type Schema struct {
	root   *node
	absent absent
	full   fullValidator // nil when the pass decides alone
}

// Violation is one way in which a value does not fit. Loc is the dotted path of keys and indexes, "$" for the
// whole value. Type is the error type of pydantic that says the same (int_parsing, missing, ...).
type Violation struct {
	Loc     string
	Type    string
	Message string
}

// Describe writes violations as one line for people: "loc: message; loc: message".
func Describe(violations []Violation) string {
	parts := make([]string, len(violations))
	for i, v := range violations {
		parts[i] = v.Loc + ": " + v.Message
	}
	return strings.Join(parts, "; ")
}

// Field is one property of an object schema.
type Field struct {
	Name     string
	Required bool
	// Type is the type's short form: "integer", "string|null", "array<string>", "object", "enum", "any".
	Type        string
	Description string
	Schema      *Schema
}

// NotNull is the schema without null: of the values that it takes, all but null.
func (s *Schema) NotNull() *Schema {
	n := s.root.deref()
	if !n.nullable() || n.hasEnum {
		return s
	}
	narrowed := *n
	narrowed.types = without(n.types, kindNull)
	narrowed.union = notOnlyNull(n.union)
	switch {
	case len(narrowed.types) > 0 || len(narrowed.union) > 1:
		narrowed.alternatives = notOnlyNull(n.alternatives)
		if len(narrowed.alternatives) < 2 {
			narrowed.alternatives = nil
		}
	case len(narrowed.union) == 1:
		narrowed = *narrowed.union[0].deref()
	default:
		narrowed.never = true
	}
	return &Schema{root: &narrowed, absent: s.absent, full: s.full}
}

func notOnlyNull(nodes []*node) []*node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return n.deref().onlyNull() })
}

func without(types []kind, one kind) []kind {
	return slices.DeleteFunc(slices.Clone(types), func(k kind) bool { return k == one })
}

// Compile reads a schema. An empty document stands for the schema that takes everything. Errors say which
// keyword is wrong.
func Compile(raw json.RawMessage) (*Schema, error) {
	if len(raw) == 0 {
		return &Schema{root: &node{}}, nil
	}
	doc, err := value.DecodeOrdered(raw, value.Limits{})
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	c := &compiler{doc: doc, refs: map[string]*node{}}
	root, err := c.node("", doc)
	if err == nil {
		err = c.checkRefs()
	}
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	c.unite()
	s := &Schema{root: root}
	if members, ok := doc.(value.Members); ok {
		if mode, _ := members.Get("x-absent"); mode == "omit" {
			s.absent = absentStays
		}
	}
	if c.foreign {
		if s.full, err = compileFull(doc); err != nil {
			return nil, fmt.Errorf("schema: %w", err)
		}
	}
	return s, nil
}

// Apply validates and coerces v and returns the result, a new value; v is not changed. Violations are in
// declaration order, extra keys after the declared ones. When there are violations the value is nil.
func (s *Schema) Apply(v any) (any, []Violation) { return s.apply(v, s.absent) }

// Complete is Apply to what a tool answered: every absent optional property without a default becomes null, so that
// each declared key is there. Where absent properties stay absent, they do here too.
func (s *Schema) Complete(v any) (any, []Violation) { return s.apply(v, max(s.absent, absentNull)) }

func (s *Schema) apply(v any, absent absent) (any, []Violation) {
	if s.full != nil {
		// The complete validator must see neither injected nulls nor, of course, uncoerced values.
		bare := pass{absent: absentStays}
		out := bare.apply(s.root, v, true)
		if bare.found == nil {
			bare.found = s.full(out)
		}
		if bare.found != nil {
			return nil, bare.violations()
		}
	}
	p := pass{absent: absent}
	out := p.apply(s.root, v, true)
	if p.found != nil {
		return nil, p.violations()
	}
	return out, nil
}

// IsObject reports whether the schema declares an object.
func (s *Schema) IsObject() bool {
	n := s.root.deref()
	return n.props != nil || len(n.types) == 1 && n.types[0] == kindObject
}

// DropsUnknown reports whether undeclared keys of an object disappear, as opposed to being kept or refused.
func (s *Schema) DropsUnknown() bool { return s.root.deref().extras == extrasDrop && s.IsObject() }

// Fields lists the properties in declaration order.
func (s *Schema) Fields() []Field {
	n := s.root.deref()
	out := make([]Field, len(n.props))
	for i, p := range n.props {
		out[i] = s.field(p)
	}
	return out
}

// Field returns the property with the name.
func (s *Schema) Field(name string) (Field, bool) {
	n := s.root.deref()
	if i, ok := n.index[name]; ok {
		return s.field(n.props[i]), true
	}
	return Field{}, false
}

func (s *Schema) field(p property) Field {
	return Field{Name: p.name, Required: p.required, Type: p.node.String(), Description: p.node.description,
		Schema: &Schema{root: p.node, absent: s.absent}}
}

// Type is the short form of the schema's type, as in Field.
func (s *Schema) Type() string { return s.root.String() }

// At returns the schema of the value that the pointer leads to, nil when the schema says that nothing can be
// there. proven is false where a conforming value may lack it: through an array index, an optional property, a
// nullable or an undeclared part.
func (s *Schema) At(p value.Pointer) (sub *Schema, proven bool) {
	n, proven := s.root.deref(), true
	for _, token := range p {
		next, certain := n.child(token)
		if next == nil {
			return nil, false
		}
		proven = proven && certain
		n = next.deref()
	}
	return &Schema{root: n, absent: s.absent}, proven
}
