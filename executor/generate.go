package executor

import (
	"fmt"
	"slices"
	"strings"

	"pave/flows/value"
)

// maxGeneratedDepth bounds generated values.
const maxGeneratedDepth = 6

// generator makes values that fit a JSON schema, the same ones for the same seed: splitmix64 (Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", 2014). Of a pattern it knows nothing; such strings may not fit.
type generator struct {
	state uint64
	root  any // the document, for local references
}

func (g *generator) next() uint64 {
	g.state += 0x9e3779b97f4a7c15
	z := g.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is uniform in [0, n), up to a bias that does not matter here.
func (g *generator) below(n int) int { return int(g.next() % uint64(n)) }

func (g *generator) value(schema any, depth int) any {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		if p, err := value.ParsePointer(strings.TrimPrefix(ref, "#")); err == nil && depth > 0 {
			if target, found := p.Get(g.root); found {
				return g.value(target, depth-1)
			}
		}
		return nil
	}
	if c, ok := s["const"]; ok {
		return c
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		return list[g.below(len(list))]
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if list, ok := s[key].([]any); ok && len(list) > 0 {
			return g.value(list[g.below(len(list))], depth)
		}
	}
	switch g.kind(s) {
	case "null":
		return nil
	case "boolean":
		return g.below(2) == 1
	case "integer":
		return g.integer(s)
	case "number":
		return float64(g.integer(s)) + float64(g.below(2))/2*boundless(s)
	case "array":
		return g.array(s, depth)
	case "object":
		return g.object(s, depth)
	}
	return g.text(s)
}

func (g *generator) kind(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		if len(t) > 0 {
			name, _ := t[g.below(len(t))].(string)
			return name
		}
	}
	if s["properties"] != nil {
		return "object"
	}
	return "string"
}

// boundless is 1 where half a unit cannot leave the schema's bounds.
func boundless(s map[string]any) float64 {
	if s["maximum"] == nil && s["exclusiveMaximum"] == nil {
		return 1
	}
	return 0
}

func (g *generator) integer(s map[string]any) int64 {
	low, high := int64(-100), int64(100)
	bound := func(key string, by int64) (int64, bool) {
		switch n := s[key].(type) {
		case int64:
			return n + by, true
		case float64:
			return int64(n) + by, true
		}
		return 0, false
	}
	lowest, hasLow := bound("minimum", 0)
	if n, ok := bound("exclusiveMinimum", 1); ok {
		lowest, hasLow = n, true
	}
	highest, hasHigh := bound("maximum", 0)
	if n, ok := bound("exclusiveMaximum", -1); ok {
		highest, hasHigh = n, true
	}
	switch {
	case hasLow && hasHigh:
		low, high = lowest, highest
	case hasLow:
		low, high = lowest, lowest+200
	case hasHigh:
		low, high = highest-200, highest
	}
	if high <= low {
		return low
	}
	return low + int64(g.next()%uint64(high-low+1))
}

func (g *generator) text(s map[string]any) string {
	low, high := size(s["minLength"], 0), size(s["maxLength"], 0)
	if s["maxLength"] == nil {
		high = low + 8
	}
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	out := make([]byte, low+g.below(max(0, high-low)+1))
	for i := range out {
		out[i] = letters[g.below(len(letters))]
	}
	return string(out)
}

// size reads a bound of length, at most maxGenerated so that a schema cannot ask for gigabytes.
func size(v any, fallback int) int {
	const maxGenerated = 1000
	if n, ok := v.(int64); ok && n >= 0 {
		return int(min(n, maxGenerated))
	}
	return fallback
}

func (g *generator) array(s map[string]any, depth int) any {
	low := size(s["minItems"], 0)
	high := low + 3
	if s["maxItems"] != nil {
		high = size(s["maxItems"], high)
	}
	if depth == 0 {
		high = low
	}
	out := make([]any, low+g.below(max(0, high-low)+1))
	for i := range out {
		out[i] = g.value(s["items"], max(0, depth-1))
	}
	return out
}

func (g *generator) object(s map[string]any, depth int) any {
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	out := map[string]any{}
	for _, name := range sortedKeys(properties) {
		needed := slices.ContainsFunc(required, func(r any) bool { return fmt.Sprint(r) == name })
		if needed || depth > 0 && g.below(2) == 1 {
			out[name] = g.value(properties[name], max(0, depth-1))
		}
	}
	return out
}
