package schema

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"pave/flows/value"
)

type kind uint8

const (
	kindNull kind = iota
	kindBoolean
	kindInteger
	kindNumber
	kindString
	kindArray
	kindObject
)

var kindNames = [...]string{"null", "boolean", "integer", "number", "string", "array", "object"}

func (k kind) String() string { return kindNames[k] }

// extras says what happens to undeclared keys of an object.
type extras uint8

const (
	extrasDrop extras = iota
	extrasKeep
	extrasForbid
	extrasSchema
)

// node is one compiled schema. No types means any type.
type node struct {
	ref   *node
	never bool // the schema false
	types []kind
	union []*node // anyOf, oneOf
	// alternatives are the union's members or the several types, nested ones in their place; a value fits one of them.
	alternatives []*node
	title        string
	enum         []any
	hasEnum      bool
	props        []property // nil without the keyword; empty, not nil, for {}
	index        map[string]int
	extras       extras
	extra        *node // extrasSchema
	items        *node
	min, max     *bound
	minLen       int
	minItems     int
	maxLen       *int
	maxItems     *int
	pattern      *regexp.Regexp
	description  string
}

type property struct {
	name       string
	node       *node
	required   bool
	hasDefault bool
	dflt       any
}

type bound struct {
	limit     any // int64, float64 or json.Number
	exclusive bool
}

func (n *node) deref() *node {
	for n.ref != nil {
		n = n.ref
	}
	return n
}

// nullable reports whether null is a member of the declared type.
func (n *node) nullable() bool {
	n = n.deref()
	return slices.Contains(n.types, kindNull) || slices.ContainsFunc(n.union, (*node).nullable) ||
		n.hasEnum && slices.Contains(n.enum, nil)
}

// child is the schema under a key or index; certain is false where a conforming value may lack it.
func (n *node) child(token string) (next *node, certain bool) {
	if len(n.union) > 0 {
		for _, member := range n.union {
			if next, _ := member.deref().child(token); next != nil {
				return next, false
			}
		}
		return nil, false
	}
	certain = len(n.types) == 1
	if i, ok := n.index[token]; ok {
		return n.props[i].node, certain && n.props[i].required
	}
	if _, isIndex := value.Index(token); isIndex && n.items != nil {
		return n.items, false
	}
	open := len(n.types) == 0 || slices.Contains(n.types, kindArray) && n.items == nil ||
		slices.Contains(n.types, kindObject) && (n.props == nil || n.extras == extrasKeep)
	switch {
	case n.extras == extrasSchema:
		return n.extra, false
	case open && !n.hasEnum && !n.never:
		return &node{}, false
	}
	return nil, false
}

// String is the short form of the type.
func (n *node) String() string { return n.describe(4) }

func (n *node) describe(depth int) string {
	n = n.deref()
	switch {
	case n.never:
		return "never"
	case n.hasEnum:
		return "enum"
	case len(n.union) > 0:
		var parts []string
		for _, m := range n.union {
			if text := m.describe(depth - 1); !slices.Contains(parts, text) {
				parts = append(parts, text)
			}
		}
		return strings.Join(parts, "|")
	case len(n.types) == 0 && n.props != nil:
		return "object"
	case len(n.types) == 0:
		return "any"
	}
	parts := make([]string, len(n.types))
	for i, k := range n.types {
		parts[i] = k.String()
		if k == kindArray && n.items != nil && depth > 0 {
			parts[i] = "array<" + n.items.describe(depth-1) + ">"
		}
	}
	return strings.Join(parts, "|")
}

// foreignKeywords assert something that the pass does not know.
var foreignKeywords = []string{
	"allOf", "not", "if", "then", "else", "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas",
	"dependencies", "prefixItems", "additionalItems", "contains", "minContains", "maxContains", "uniqueItems", "multipleOf",
	"minProperties", "maxProperties", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef",
}

// opening are the foreign keywords that can give meaning to keys which are not in properties.
var opening = []string{
	"allOf", "if", "then", "else", "patternProperties", "dependentSchemas", "dependencies", "unevaluatedProperties",
	"$dynamicRef", "$recursiveRef",
}

type compiler struct {
	doc     any
	refs    map[string]*node // pointer -> node
	unions  []*node
	foreign bool
}

// unite settles the alternatives when every reference is known.
func (c *compiler) unite() {
	for _, n := range c.unions {
		n.alternatives = n.flatten(nil, maxUnionDepth)
	}
}

// node compiles the schema at path, which error messages name.
func (c *compiler) node(path string, doc any) (*node, error) {
	n := &node{}
	return n, c.fill(n, path, doc)
}

func (c *compiler) fill(n *node, path string, doc any) error {
	if b, ok := doc.(bool); ok {
		n.never = !b
		return nil
	}
	m, ok := doc.(value.Members)
	if !ok {
		return fmt.Errorf("%s: a schema must be an object, true or false", at(path))
	}
	if ref, ok := m.Get("$ref"); ok {
		return c.reference(n, path, ref, m)
	}
	for _, member := range m {
		if err := c.keyword(n, path, member.Key, member.Value); err != nil {
			return err
		}
	}
	return c.finish(n, path, m)
}

// finish settles what depends on several keywords: required marks and the fate of unknown keys.
func (c *compiler) finish(n *node, path string, m value.Members) error {
	if len(m) == 0 {
		return nil
	}
	required, _ := m.Get("required")
	list, ok := required.([]any)
	if required != nil && !ok {
		return fmt.Errorf("%s: required must be a list", at(path))
	}
	for _, name := range list {
		text, ok := name.(string)
		if !ok {
			return fmt.Errorf("%s: required must list names", at(path))
		}
		if i, declared := n.index[text]; declared {
			n.props[i].required = true
			continue
		}
		if n.index == nil {
			n.index = map[string]int{}
		}
		n.index[text] = len(n.props)
		n.props = append(n.props, property{name: text, node: &node{}, required: true})
	}
	_, declared := m.Get("properties")
	_, hasExtras := m.Get("additionalProperties")
	if n.union != nil && (n.types != nil || declared) {
		// Alternatives beside a type are conditions on it, not a type of their own.
		c.foreign, n.union = true, nil
		declared = declared && hasExtras
	}
	for _, key := range opening {
		if _, found := m.Get(key); found && !hasExtras {
			n.extras = extrasKeep
		}
	}
	if !declared && !hasExtras {
		n.extras = extrasKeep
	}
	if len(n.union) > 0 || len(n.types) > 1 {
		c.unions = append(c.unions, n)
	}
	return nil
}

func (c *compiler) reference(n *node, path string, ref any, m value.Members) error {
	text, _ := ref.(string)
	if text != "#" && !strings.HasPrefix(text, "#/") {
		return fmt.Errorf("%s: $ref %q does not point into this document (#/...); nothing else is loaded", at(path), text)
	}
	if known, ok := c.refs[text]; ok {
		n.ref = known
	} else {
		pointer, err := value.ParsePointer(text[1:])
		if err != nil {
			return fmt.Errorf("%s: $ref: %w", at(path), err)
		}
		target, found := pointer.Get(c.doc)
		if !found {
			return fmt.Errorf("%s: $ref %q leads nowhere", at(path), text)
		}
		n.ref = &node{}
		c.refs[text] = n.ref
		if err := c.fill(n.ref, text, target); err != nil {
			return err
		}
	}
	for _, member := range m {
		if !slices.Contains([]string{"$ref", "title", "description", "default", "examples", "$defs", "definitions", "$schema", "$id"}, member.Key) {
			c.foreign = true
		}
	}
	return nil
}

// checkRefs refuses references that only lead to each other.
func (c *compiler) checkRefs() error {
	for text, n := range c.refs {
		for steps := 0; n.ref != nil; steps++ {
			if steps > len(c.refs) {
				return fmt.Errorf("$ref %q leads in a circle", text)
			}
			n = n.ref
		}
	}
	return nil
}

func at(path string) string {
	if path == "" {
		return "/"
	}
	return path
}
