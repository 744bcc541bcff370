package baseline

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pave/flows"
)

// SchemaMapping is a pair of tools that fit when fields are renamed or numbers converted.
type SchemaMapping struct {
	Producer, Consumer string
	FieldMappings      flows.Mapping // argument of the consumer -> field of the producer
	Warnings           []string      // what is not exact, in the order of the arguments
}

// How a field was found, by name and by type.
const (
	matchName       = "exact-name"
	matchNormalized = "normalized-name"
	matchSynonym    = "synonym"
	typeExact       = "exact"
	typeCompatible  = "compatible"
)

// SuggestSchemaMappings looks for pairs that CompatibilityMatrix lacks. Each argument takes a field of the producer by its
// name, by its name without case, "_" and "-", or by a synonym, where the type is equal or of the same category.
// synonyms are names of producers' fields by name of argument.
func (a *Analyzer) SuggestSchemaMappings(synonyms map[string][]string) []SchemaMapping {
	exact := make([]map[int]bool, len(a.names))
	for i, successors := range a.matrix() {
		exact[i] = make(map[int]bool, len(successors))
		for _, s := range successors {
			exact[i][s] = true
		}
	}
	normalized := make([]map[string]field, len(a.names))
	for i, fields := range a.output {
		normalized[i] = map[string]field{}
		for _, f := range fields {
			normalized[i][normalName(f.name)] = f // of several the last one
		}
	}
	alike := map[string][]string{}
	for _, argument := range slices.Sorted(maps.Keys(synonyms)) {
		for _, name := range synonyms[argument] {
			alike[normalName(argument)] = append(alike[normalName(argument)], normalName(name))
		}
	}
	var out []SchemaMapping
	for p := range a.names {
		for c := range a.names {
			if p == c || exact[p][c] {
				continue
			}
			if m, ok := a.adapt(p, c, normalized[p], alike); ok {
				out = append(out, m)
			}
		}
	}
	return out
}

// adapt maps the arguments of consumer c to fields of producer p; all required ones must find one, and one must
// need adapting.
func (a *Analyzer) adapt(p, c int, normalized map[string]field, alike map[string][]string) (SchemaMapping, bool) {
	m := SchemaMapping{Producer: a.names[p], Consumer: a.names[c]}
	for _, in := range a.inputs[c] {
		from, name, kind := a.match(p, in, normalized, alike)
		if name == "" {
			if in.required {
				return m, false
			}
			continue
		}
		m.FieldMappings = append(m.FieldMappings, flows.MappingEntry{Target: in.name, Value: source(from)})
		if name != matchName || kind != typeExact {
			m.Warnings = append(m.Warnings, fmt.Sprintf("'%s.%s' ← '%s.%s' (name: %s, type: %s)", m.Consumer, in.name, m.Producer, from, name, kind))
		}
	}
	return m, len(m.Warnings) > 0
}

// match returns the field of producer p for an argument and how name and type agree; name is "" without one.
func (a *Analyzer) match(p int, in field, normalized map[string]field, alike map[string][]string) (from, name, kind string) {
	try := func(out field, how string) bool {
		if kind = typeMatch(out.declared, in.declared); kind == "" {
			return false
		}
		from, name = out.name, how
		return true
	}
	for _, out := range a.output[p] {
		if out.name == in.name && try(out, matchName) {
			return from, name, kind
		}
	}
	if out, ok := normalized[normalName(in.name)]; ok && out.name != in.name && try(out, matchNormalized) {
		return from, name, kind
	}
	for _, synonym := range alike[normalName(in.name)] {
		if out, ok := normalized[synonym]; ok && try(out, matchSynonym) {
			return from, name, kind
		}
	}
	return "", "", ""
}

func normalName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// typeMatch is how two types agree, "" when they do not.
func typeMatch(out, in string) string {
	switch {
	case out == in:
		return typeExact
	case category(out) != "" && category(out) == category(in):
		return typeCompatible
	}
	return ""
}

func category(declared string) string {
	switch declared {
	case "integer", "number":
		return "number"
	case "string", "boolean":
		return declared
	}
	return ""
}
