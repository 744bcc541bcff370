package baseline

import (
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// field is one property of a tool's schema.
type field struct {
	name     string
	required bool
	// declared says the type exactly: two fields have equal types when it is equal.
	declared string
}

// fieldsOf lists the properties of an object schema in declaration order.
func fieldsOf(raw flows.RawSchema) ([]field, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	decoded, err := value.DecodeOrdered(raw, value.Limits{})
	if err != nil {
		return nil, err
	}
	doc, _ := decoded.(value.Members)
	list, _ := doc.Get("required")
	required, _ := list.([]any)
	props, _ := doc.Get("properties")
	members, _ := props.(value.Members)
	out := make([]field, len(members))
	t := typeWriter{doc: doc}
	for i, m := range members {
		out[i] = field{name: m.Key, required: slices.Contains(required, any(m.Key)), declared: t.write(m.Value, maxTypeDepth)}
	}
	return out, nil
}

// Annotations of more levels are cut; deeper types that agree so far count as equal.
const maxTypeDepth = 16

const anyType = "any"

// typeWriter writes a schema's type in one canonical form: unions and enums without order, no constraints, nested
// objects by their fields.
type typeWriter struct{ doc value.Members }

func (t *typeWriter) write(schema any, depth int) string {
	s, ok := schema.(value.Members)
	if !ok || depth == 0 {
		return anyType
	}
	if ref, ok := s.Get("$ref"); ok {
		return t.write(t.resolve(ref), depth-1)
	}
	if list, ok := s.Get("enum"); ok {
		values, _ := list.([]any)
		return "enum(" + set(values, func(v any) string { return string(value.Canonical(v)) }, ",") + ")"
	}
	if v, ok := s.Get("const"); ok {
		return "enum(" + string(value.Canonical(v)) + ")"
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, ok := s.Get(keyword); ok {
			members, _ := list.([]any)
			return set(members, func(m any) string { return t.write(m, depth-1) }, "|")
		}
	}
	declared, _ := s.Get("type")
	switch declared := declared.(type) {
	case []any:
		return set(declared, func(one any) string { return t.named(s, one, depth) }, "|")
	case string:
		return t.named(s, declared, depth)
	}
	if _, ok := s.Get("properties"); ok {
		return t.named(s, "object", depth)
	}
	return anyType
}

// named writes one member of the keyword type.
func (t *typeWriter) named(s value.Members, name any, depth int) string {
	text, _ := name.(string)
	switch text {
	case "array":
		items, ok := s.Get("items")
		if !ok {
			return "array"
		}
		return "array<" + t.write(items, depth-1) + ">"
	case "object":
		return t.object(s, depth)
	}
	return text
}

func (t *typeWriter) object(s value.Members, depth int) string {
	props, _ := s.Get("properties")
	members, ok := props.(value.Members)
	if !ok {
		if extra, _ := s.Get("additionalProperties"); extra != nil && extra != true {
			return "object<" + t.write(extra, depth-1) + ">"
		}
		return "object"
	}
	list, _ := s.Get("required")
	required, _ := list.([]any)
	parts := make([]string, len(members))
	for i, m := range members {
		mark := "?:"
		if slices.Contains(required, any(m.Key)) {
			mark = ":"
		}
		parts[i] = string(value.Canonical(m.Key)) + mark + t.write(m.Value, depth-1)
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ",") + "}"
}

// resolve follows a reference into the same document.
func (t *typeWriter) resolve(ref any) any {
	text, _ := ref.(string)
	rest, local := strings.CutPrefix(text, "#")
	pointer, err := value.ParsePointer(rest)
	if !local || err != nil {
		return nil
	}
	at := any(t.doc)
	for _, token := range pointer {
		members, ok := at.(value.Members)
		if !ok {
			return nil
		}
		if at, ok = members.Get(token); !ok {
			return nil
		}
	}
	return at
}

// set writes values without order and duplicates.
func set(values []any, write func(any) string, sep string) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = write(v)
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), sep)
}
