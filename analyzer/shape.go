package analyzer

import (
	"encoding/json"
	"maps"
	"slices"

	"pave/flows/value"
)

// shape is what was seen at one place of many values: how often each type, and what is inside.
type shape struct {
	budget *int // places that may still be described, shared by the whole tree
	count  int  // values seen here

	nulls, bools, ints, floats, texts, lists, maps int

	fields map[string]*shape // of objects
	extra  *shape            // of objects whose keys are data: what all their values have in common
	items  *shape            // of lists
	opaque bool              // too deep or too large to describe
}

func newShape(budget *int) *shape { return &shape{budget: budget} }

func (s *shape) child() *shape {
	if *s.budget <= 0 {
		return nil
	}
	*s.budget--
	return newShape(s.budget)
}

func (s *shape) observe(v any, depth int) {
	s.count++
	switch v := v.(type) {
	case nil:
		s.nulls++
	case bool:
		s.bools++
	case string:
		s.texts++
	case int64, json.Number:
		s.ints++
	case float64:
		s.floats++
	case []any:
		s.lists++
		s.observeList(v, depth)
	case map[string]any:
		s.maps++
		s.observeMap(v, depth)
	}
}

func (s *shape) observeList(list []any, depth int) {
	if len(list) == 0 || s.opaque {
		return
	}
	if s.items == nil {
		if depth <= 0 {
			s.opaque = true
			return
		}
		if s.items = s.child(); s.items == nil {
			s.opaque = true
			return
		}
	}
	for _, e := range list {
		s.items.observe(e, depth-1)
	}
}

func (s *shape) observeMap(m map[string]any, depth int) {
	if s.opaque {
		return
	}
	if depth <= 0 {
		s.opaque = len(m) > 0
		return
	}
	for _, key := range sortedKeys(m) { // in order, so that limits cut the same part every time
		v := m[key]
		if s.extra != nil {
			s.extra.observe(v, depth-1)
			continue
		}
		field := s.fields[key]
		if field == nil {
			if len(s.fields) >= maxInferFields {
				s.toMap()
				s.extra.observe(v, depth-1)
				continue
			}
			if field = s.child(); field == nil {
				s.opaque = true
				return
			}
			if s.fields == nil {
				s.fields = map[string]*shape{}
			}
			s.fields[key] = field
		}
		field.observe(v, depth-1)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// toMap turns named fields into one description of all values.
func (s *shape) toMap() {
	s.extra = newShape(s.budget)
	for _, field := range s.fields {
		s.extra.merge(field)
	}
	s.fields = nil
}

// merge adds what t has seen.
func (s *shape) merge(t *shape) {
	s.count += t.count
	s.nulls += t.nulls
	s.bools += t.bools
	s.ints += t.ints
	s.floats += t.floats
	s.texts += t.texts
	s.lists += t.lists
	s.maps += t.maps
	s.opaque = s.opaque || t.opaque
	if t.items != nil {
		if s.items == nil {
			s.items = newShape(s.budget)
		}
		s.items.merge(t.items)
	}
	if t.extra != nil {
		if s.extra == nil {
			s.toMap()
		}
		s.extra.merge(t.extra)
	}
	for name, field := range t.fields {
		if s.extra != nil {
			s.extra.merge(field)
			continue
		}
		if s.fields == nil {
			s.fields = map[string]*shape{}
		}
		if s.fields[name] == nil {
			s.fields[name] = newShape(s.budget)
		}
		s.fields[name].merge(field)
	}
}

// Objects whose names rarely repeat have data for keys.
const (
	minMapSamples  = 10
	minMapFields   = 8
	maxMapPresence = 0.5
)

func (s *shape) isMap() bool {
	if s.extra != nil {
		return true
	}
	if s.maps < minMapSamples || len(s.fields) < minMapFields {
		return false
	}
	for _, field := range s.fields {
		if float64(field.count) > maxMapPresence*float64(s.maps) {
			return false
		}
	}
	return true
}

// schema describes the place as a JSON Schema.
func (s *shape) schema() value.Members {
	var types []any
	add := func(n int, name string) {
		if n > 0 {
			types = append(types, name)
		}
	}
	add(s.bools, "boolean")
	if s.floats > 0 {
		add(s.floats, "number")
	} else {
		add(s.ints, "integer")
	}
	add(s.texts, "string")
	add(s.lists, "array")
	add(s.maps, "object")
	if len(types) == 0 {
		return value.Members{} // only null was seen: that says nothing about the type
	}
	add(s.nulls, "null")
	out := value.Members{{Key: "type", Value: any(types)}}
	if len(types) == 1 {
		out[0].Value = types[0]
	}
	if s.items != nil && !s.opaque {
		out = append(out, value.Member{Key: "items", Value: s.items.schema()})
	}
	if s.maps > 0 && !s.opaque {
		out = append(out, s.objectSchema()[1:]...)
	}
	return out
}

// objectSchema is the schema of the place as an object: type, properties, required, additionalProperties.
func (s *shape) objectSchema() value.Members {
	out := value.Members{{Key: "type", Value: "object"}}
	if s.opaque {
		return append(out, value.Member{Key: "additionalProperties", Value: true})
	}
	if s.isMap() {
		all := s.extra
		if all == nil {
			all = newShape(s.budget)
			for _, field := range s.fields {
				all.merge(field)
			}
		}
		return append(out, value.Member{Key: "additionalProperties", Value: all.schema()})
	}
	names := sortedKeys(s.fields)
	properties, required := value.Members{}, []any{}
	for _, name := range names {
		properties = append(properties, value.Member{Key: name, Value: s.fields[name].schema()})
		if s.fields[name].count == s.maps {
			required = append(required, name)
		}
	}
	out = append(out, value.Member{Key: "properties", Value: properties})
	if len(required) > 0 {
		out = append(out, value.Member{Key: "required", Value: required})
	}
	return append(out, value.Member{Key: "additionalProperties", Value: true})
}
