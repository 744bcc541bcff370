package value

import "maps"

// Clone is a deep copy of a JSON value: whoever holds it may change its objects and lists.
func Clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return CloneObject(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = Clone(e)
		}
		return out
	}
	return v
}

// CloneObject is Clone of an object.
func CloneObject(m map[string]any) map[string]any {
	out := maps.Clone(m)
	for k, v := range m {
		switch v.(type) {
		case map[string]any, []any:
			out[k] = Clone(v)
		}
	}
	return out
}
