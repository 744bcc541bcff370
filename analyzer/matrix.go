package analyzer

import (
	"slices"
	"strings"

	"pave/flows/schema"
	"pave/flows/value"
)

// Limits of the matrix.
const (
	maxMatrixTools  = 2000
	maxOutputFields = 64  // of one tool
	maxFieldDepth   = 3   // levels of a result in which fields are looked for; lists are not entered
	maxPerField     = 200 // tools that return a field of one name; more make the name meaningless
)

// outField is one value that a tool returns at a fixed place.
type outField struct {
	name    string // normalised
	pointer string // into the result, "" for a result that is the value itself
	schema  *schema.Schema
	rule    string // how the name was found
}

// Rules of edges.
const (
	ruleName = "name and type"
	ruleNoun = "tool's noun and type" // order.id feeds order_id; a bare result is what the tool's name says
)

// edge is one field of a compatible pair of tools.
type edge struct {
	field outField
	input schema.Field
	score float64
}

// matrix holds, for each pair of tools, the required inputs of the second that the first can fill.
type matrix struct {
	tools []*known
	index map[string]int    // tool name -> position
	edges []map[int][]edge  // producer -> consumer -> edges, by input field
	ins   []map[string]bool // normalised names of each tool's inputs
	needs [][]schema.Field  // required inputs of each tool
	outs  [][]outField      // what each tool returns
}

// Overlaps tells from recorded values whether an output feeds an argument; *Inferrer fulfils it.
type Overlaps interface {
	Overlap(producer, outputPointer, consumer, argument string) (share float64, known bool)
}

// newMatrix compares all tools by an index over field names. A tool without required inputs follows nothing; no
// tool follows itself.
func newMatrix(tools []*known, values Overlaps) *matrix {
	if len(tools) > maxMatrixTools {
		tools = tools[:maxMatrixTools]
	}
	m := &matrix{tools: tools, index: map[string]int{}, edges: make([]map[int][]edge, len(tools)), ins: make([]map[string]bool, len(tools)), needs: make([][]schema.Field, len(tools)), outs: make([][]outField, len(tools))}
	type producer struct {
		tool  int
		field outField
	}
	byName := map[string][]producer{}
	for i, t := range tools {
		m.index[t.tool.Name] = i
		m.edges[i] = map[int][]edge{}
		m.ins[i] = map[string]bool{}
		if t.in != nil {
			for _, f := range t.in.Fields() {
				m.ins[i][normal(f.Name)] = true
				if f.Required {
					m.needs[i] = append(m.needs[i], f)
				}
			}
		}
		m.outs[i] = outFields(t)
		for _, f := range m.outs[i] {
			byName[f.name] = append(byName[f.name], producer{i, f})
		}
	}
	for c := range tools {
		for _, input := range m.needs[c] {
			producers := byName[normal(input.Name)]
			if len(producers) > maxPerField {
				continue
			}
			for _, p := range producers {
				if p.tool == c || m.ins[p.tool][p.field.name] {
					continue // what a tool was given itself is no result
				}
				if ok, _ := schema.Assignable(p.field.schema, input.Schema); !ok {
					continue
				}
				score := specificity(input.Name)
				if values != nil {
					if share, known := values.Overlap(tools[p.tool].tool.Name, p.field.recorded(), tools[c].tool.Name, input.Name); known {
						if share == 0 {
							continue // never once the same value
						}
						score *= 1 + share
					}
				}
				m.edges[p.tool][c] = append(m.edges[p.tool][c], edge{p.field, input, score})
			}
		}
	}
	return m
}

// recorded is the pointer of the field in values as Inferrer keeps them.
func (f *outField) recorded() string {
	if f.pointer == "" {
		return "/" + wrapKey
	}
	return f.pointer
}

// outFields lists the values that a tool returns at fixed places: its fields, those of nested objects, and the
// result itself under the tool's noun when it is no object.
func outFields(t *known) []outField {
	if t.out == nil {
		return nil
	}
	noun := normal(split(t.tool.Name).noun)
	if s, ok := bareResult(t.out); ok {
		return []outField{{name: noun, schema: s, rule: ruleNoun}}
	}
	var out []outField
	var walk func(s *schema.Schema, pointer string, depth int)
	walk = func(s *schema.Schema, pointer string, depth int) {
		for _, f := range s.Fields() {
			if len(out) >= maxOutputFields {
				return
			}
			at := pointer + "/" + value.Escape(f.Name)
			if f.Schema.IsObject() {
				if depth > 1 {
					walk(f.Schema, at, depth-1)
				}
				continue
			}
			out = append(out, outField{normal(f.Name), at, f.Schema, ruleName})
			if normal(f.Name) == "id" && pointer == "" && !strings.HasSuffix(noun, "id") {
				out = append(out, outField{noun + "id", at, f.Schema, ruleNoun})
			}
		}
	}
	walk(t.out, "", maxFieldDepth)
	return out
}

// bareResult is the schema of a result that is no object, as it is wrapped.
func bareResult(out *schema.Schema) (*schema.Schema, bool) {
	fields := out.Fields()
	if len(fields) != 1 || fields[0].Name != wrapKey || fields[0].Schema.IsObject() {
		return nil, false
	}
	return fields[0].Schema, true
}

// normal is a field name without case and separators.
func normal(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// generic names say nothing about what a value is.
var generic = []string{"id", "name", "status", "type", "kind", "result", "results", "value", "values", "data", "date", "time", "timestamp", "count", "total", "message",
	"description", "query", "text", "content", "title", "key", "amount", "number", "size", "limit", "offset", "page", "state", "success", "ok", "error", "url", "path",
	"note", "notes", "reason", "format", "mode", "level", "code", "price", "quantity", "currency", "language", "user", "input", "output", "item", "items"}

// specificity weighs an edge by its field: 2 for an identifier of something, 1 for a telling name, 0 for a
// generic one.
func specificity(field string) float64 {
	ws := words(field)
	switch {
	case slices.Contains(generic, normal(field)) || len(ws) == 0:
		return 0
	case len(ws) > 1 && slices.Contains([]string{"id", "ids", "uuid", "key", "number", "no", "code", "ref", "sku", "email"}, ws[len(ws)-1]):
		return 2
	case slices.Contains([]string{"sku", "email", "isbn", "iban", "uuid", "vin"}, ws[0]) && len(ws) == 1:
		return 2
	}
	return 1
}
