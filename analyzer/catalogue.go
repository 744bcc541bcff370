package analyzer

import (
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/schema"
)

// Catalogue knows the tools of one tenant.
type Catalogue interface {
	// Tool returns the tool with the name; ok is false when it is unknown.
	Tool(name string) (t *flows.Tool, ok bool)
	// Tools lists all tools in a stable order.
	Tools() []*flows.Tool
}

// NewCatalogue joins declared (or discovered) tools with inferred ones. A declared tool wins; schemas that it
// leaves out are taken from the inferred one of its name.
func NewCatalogue(declared, inferred []*flows.Tool) Catalogue {
	c := &joined{byName: map[string]*flows.Tool{}}
	for _, t := range declared {
		c.byName[t.Name] = t
	}
	for _, t := range inferred {
		known, ok := c.byName[t.Name]
		if !ok {
			c.byName[t.Name] = t
			continue
		}
		if known.Origin == flows.ToolInferred || known.InputSchema != nil && known.OutputSchema != nil {
			continue
		}
		filled := *known
		if filled.InputSchema == nil {
			filled.InputSchema = t.InputSchema
		}
		if filled.OutputSchema == nil {
			filled.OutputSchema = t.OutputSchema
		}
		c.byName[t.Name] = &filled
	}
	for _, name := range sortedKeys(c.byName) {
		c.all = append(c.all, c.byName[name])
	}
	return c
}

type joined struct {
	byName map[string]*flows.Tool
	all    []*flows.Tool
}

func (c *joined) Tool(name string) (*flows.Tool, bool) { t, ok := c.byName[name]; return t, ok }
func (c *joined) Tools() []*flows.Tool                 { return c.all }

// known is a tool with its schemas compiled. A schema that is missing or does not compile is nil: unknown.
type known struct {
	tool     *flows.Tool
	in, out  *schema.Schema
	declared bool // its schemas are a promise, not an observation
}

// lookup compiles each tool once per pass.
type lookup struct {
	catalogue Catalogue
	cache     map[string]*known
}

func newLookup(c Catalogue) *lookup { return &lookup{catalogue: c, cache: map[string]*known{}} }

func (l *lookup) tool(name string) *known {
	if k, ok := l.cache[name]; ok {
		return k
	}
	t, ok := l.catalogue.Tool(name)
	if !ok {
		t = &flows.Tool{Name: name, Origin: flows.ToolInferred}
	}
	k := &known{tool: t, declared: t.Origin != flows.ToolInferred}
	k.in, k.out = compiled(t.InputSchema), compiled(t.OutputSchema)
	l.cache[name] = k
	return k
}

func compiled(raw flows.RawSchema) *schema.Schema {
	if raw == nil {
		return nil
	}
	s, err := schema.Compile(raw)
	if err != nil {
		return nil
	}
	return s
}

// contradicts says why values of out cannot be arguments of in, "" when they can. Where both schemas are
// promises every type of out must fit. Where one was observed, a common type is enough: the mapping itself was
// proved on values.
func contradicts(out, in *schema.Schema, promised bool) string {
	if out == nil || in == nil {
		return ""
	}
	ok, reason := schema.Assignable(out, in)
	if ok || !promised && shareType(out.Type(), in.Type()) {
		return ""
	}
	return reason
}

func shareType(out, in string) bool {
	accepted := strings.Split(in, "|")
	return slices.ContainsFunc(strings.Split(out, "|"), func(t string) bool {
		return slices.Contains(accepted, t) || t == "integer" && slices.Contains(accepted, "number")
	})
}
