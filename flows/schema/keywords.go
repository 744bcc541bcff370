package schema

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"pave/flows/value"
)

// keyword compiles one keyword into n. Keywords that assert nothing are skipped.
func (c *compiler) keyword(n *node, path, key string, v any) error {
	fail := func(want string) error { return fmt.Errorf("%s: %s must be %s", at(path), key, want) }
	switch key {
	case "type":
		return n.setTypes(v, fail)
	case "properties":
		return c.properties(n, path, v, fail)
	case "additionalProperties":
		return c.additional(n, path, v)
	case "items":
		if _, isList := v.([]any); isList { // the tuples of older drafts
			c.foreign = true
			return nil
		}
		items, err := c.node(path+"/items", v)
		n.items = items
		return err
	case "anyOf", "oneOf":
		return c.alternatives(n, path, key, v, fail)
	case "enum":
		list, ok := v.([]any)
		if !ok {
			return fail("a list")
		}
		n.hasEnum = true
		for _, e := range list {
			n.enum = append(n.enum, value.Plain(e))
		}
	case "const":
		n.hasEnum, n.enum = true, []any{value.Plain(v)}
	case "pattern":
		text, ok := v.(string)
		if !ok {
			return fail("a string")
		}
		re, err := regexp.Compile(text)
		if err != nil {
			return fmt.Errorf("%s: pattern %q is not supported: %w", at(path), text, err)
		}
		n.pattern = re
	case "title":
		n.title, _ = v.(string)
	case "description":
		n.description, _ = v.(string)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return n.setBound(key, v, fail)
	case "minLength", "maxLength", "minItems", "maxItems":
		return n.setSize(key, v, fail)
	default:
		c.foreign = c.foreign || slices.Contains(foreignKeywords, key)
	}
	return nil
}

func (c *compiler) alternatives(n *node, path, key string, v any, fail func(string) error) error {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return fail("a list of schemas")
	}
	// That exactly one member fits, or both keywords at once, only the complete validator checks.
	c.foreign = c.foreign || key == "oneOf" || n.union != nil
	for i, member := range list {
		sub, err := c.node(fmt.Sprintf("%s/%s/%d", path, key, i), member)
		if err != nil {
			return err
		}
		n.union = append(n.union, sub)
	}
	return nil
}

func (n *node) setTypes(v any, fail func(string) error) error {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, e := range list {
		name, _ := e.(string)
		i := slices.Index(kindNames[:], name)
		if i < 0 {
			return fail("one or more of null, boolean, integer, number, string, array, object")
		}
		n.types = append(n.types, kind(i))
	}
	if len(n.types) == 0 {
		return fail("a type name or a list of them")
	}
	return nil
}

func (c *compiler) properties(n *node, path string, v any, fail func(string) error) error {
	m, ok := v.(value.Members)
	if !ok {
		return fail("an object")
	}
	n.props = make([]property, 0, len(m))
	n.index = make(map[string]int, len(m))
	for _, member := range m {
		sub, err := c.node(path+"/properties/"+value.Escape(member.Key), member.Value)
		if err != nil {
			return err
		}
		p := property{name: member.Key, node: sub}
		if declared, ok := member.Value.(value.Members); ok {
			var dflt any
			if dflt, p.hasDefault = declared.Get("default"); p.hasDefault {
				p.dflt = value.Plain(dflt)
			}
		}
		n.index[member.Key] = len(n.props)
		n.props = append(n.props, p)
	}
	return nil
}

func (c *compiler) additional(n *node, path string, v any) error {
	if keep, ok := v.(bool); ok {
		n.extras = extrasForbid
		if keep {
			n.extras = extrasKeep
		}
		return nil
	}
	extra, err := c.node(path+"/additionalProperties", v)
	n.extras, n.extra = extrasSchema, extra
	return err
}

func (n *node) setBound(key string, v any, fail func(string) error) error {
	switch v.(type) {
	case int64, float64, json.Number:
	default:
		return fail("a number")
	}
	b := &bound{limit: v, exclusive: key == "exclusiveMinimum" || key == "exclusiveMaximum"}
	target := &n.max
	if key == "minimum" || key == "exclusiveMinimum" {
		target = &n.min
	}
	// With both forms the tighter one counts.
	if old := *target; old != nil {
		order := compareNumbers(b.limit, old.limit)
		tighter := order > 0 == (target == &n.min) && order != 0 || order == 0 && b.exclusive
		if !tighter {
			return nil
		}
	}
	*target = b
	return nil
}

func (n *node) setSize(key string, v any, fail func(string) error) error {
	f, isFloat := v.(float64)
	size, ok := v.(int64)
	if isFloat && f == float64(int64(f)) {
		size, ok = int64(f), true
	}
	if !ok || size < 0 || size > 1<<40 {
		return fail("a size, 0 or more")
	}
	switch key {
	case "minLength":
		n.minLen = int(size)
	case "minItems":
		n.minItems = int(size)
	case "maxLength":
		most := int(size)
		n.maxLen = &most
	case "maxItems":
		most := int(size)
		n.maxItems = &most
	}
	return nil
}
