package value

import (
	"bytes"
	"encoding/json"
)

// Equal reports whether a and b have the same canonical form.
func Equal(a, b any) bool {
	a, b = simplify(a), simplify(b)
	switch x := a.(type) {
	case nil:
		return b == nil
	case bool:
		y, ok := b.(bool)
		return ok && x == y
	case string:
		y, ok := b.(string)
		return ok && x == y
	case int64, float64, json.Number:
		return equalNumbers(x, b)
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		return equalMaps(x, b)
	case Members:
		return equalMaps(shallow(x), b)
	}
	return bytes.Equal(Canonical(a), Canonical(b))
}

func equalMaps(x map[string]any, b any) bool {
	y, ok := b.(map[string]any)
	if !ok {
		members, isMembers := b.(Members)
		if !isMembers {
			return false
		}
		y = shallow(members)
	}
	if len(x) != len(y) {
		return false
	}
	for k, xv := range x {
		yv, ok := y[k]
		if !ok || !Equal(xv, yv) {
			return false
		}
	}
	return true
}

func equalNumbers(a, b any) bool {
	switch b := b.(type) {
	case int64:
		if x, ok := a.(int64); ok {
			return x == b
		}
	case float64:
		if x, ok := a.(float64); ok {
			return x == b
		}
	case json.Number:
	default:
		return false
	}
	return bytes.Equal(Canonical(a), Canonical(b))
}
