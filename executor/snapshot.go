package executor

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"

	"pave/flows/value"
)

// snapshot returns a deep copy of v in the forms of package value, so that neither side of the tool boundary can
// change what the other holds, and the copy's size: the bytes of its JSON as the base system counts them, with
// ", " and ": " as separators and non-ASCII characters escaped. Go values that are not JSON values are
// converted by way of their JSON encoding.
func snapshot(v any) (copied any, size int, err error) { return snapshotAt(v, value.MaxDepth) }

// flat returns the size of an object whose values are all scalars in the forms of package value: such an object
// needs no copy where a fresh one is made of it anyway. declared are the keys that it is likely to have: looking them
// up costs less than going through a map.
func flat(v any, declared []string) (size int, ok bool) {
	m, ok := v.(map[string]any)
	if !ok {
		return 0, false
	}
	if keys := exactly(m, declared); keys != nil {
		for _, k := range keys {
			n, scalar := memberSize(k, m[k])
			if !scalar {
				return 0, false
			}
			size += n
		}
	} else {
		for k, element := range m {
			n, scalar := memberSize(k, element)
			if !scalar {
				return 0, false
			}
			size += n
		}
	}
	return 2 + separators(len(m)) + size, true
}

// memberSize is the size of a key with a scalar.
func memberSize(key string, element any) (size int, scalar bool) {
	switch element.(type) {
	case nil, bool, string, int64, float64:
		_, n, err := snapshotAt(element, 0)
		return stringSize(key) + 2 + n, err == nil
	}
	return 0, false
}

// exactly returns keys when they are all that m has, else nil. They are distinct.
func exactly(m map[string]any, keys []string) []string {
	if len(keys) != len(m) {
		return nil
	}
	for _, k := range keys {
		if _, ok := m[k]; !ok {
			return nil
		}
	}
	return keys
}

var (
	errTooDeep  = errors.New("is nested too deeply")
	errInfinite = errors.New("holds a number that is not finite, which JSON cannot express")
	errNotJSON  = errors.New("cannot be expressed as JSON")
)

func snapshotAt(original any, depth int) (any, int, error) {
	switch v := original.(type) {
	case nil:
		return nil, len("null"), nil
	case bool:
		if v {
			return original, len("true"), nil
		}
		return original, len("false"), nil
	case string:
		return original, stringSize(v), nil
	case int64:
		return original, intSize(v), nil
	case int:
		return int64(v), intSize(int64(v)), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, 0, errInfinite
		}
		return original, floatSize(v), nil
	case map[string]any:
		return snapshotMap(v, depth)
	case []any:
		if depth == 0 {
			return nil, 0, errTooDeep
		}
		out, total := make([]any, len(v)), 2+separators(len(v))
		for i, element := range v {
			c, n, err := snapshotAt(element, depth-1)
			if err != nil {
				return nil, 0, err
			}
			out[i], total = c, total+n
		}
		return out, total, nil
	case json.Number:
		return snapshotNumber(v)
	}
	converted, err := value.Of(original)
	if err != nil {
		return nil, 0, errNotJSON
	}
	return snapshotAt(converted, depth)
}

func snapshotMap(m map[string]any, depth int) (any, int, error) {
	if depth == 0 {
		return nil, 0, errTooDeep
	}
	out, total := make(map[string]any, len(m)), 2+separators(len(m))
	for k, element := range m {
		c, n, err := snapshotAt(element, depth-1)
		if err != nil {
			return nil, 0, err
		}
		out[k] = c
		total += stringSize(k) + 2 + n
	}
	return out, total, nil
}

func snapshotNumber(n json.Number) (any, int, error) {
	v, err := value.Decode([]byte(n))
	if err != nil {
		return nil, 0, errNotJSON
	}
	switch v := v.(type) {
	case json.Number: // beyond int64
		return v, len(v), nil
	case int64, float64:
		return snapshotAt(v, 0)
	}
	return nil, 0, errNotJSON
}

// snapshotObject is snapshot for an object.
func snapshotObject(m map[string]any) (map[string]any, int, error) {
	c, size, err := snapshotMap(m, value.MaxDepth)
	if err != nil {
		return nil, 0, err
	}
	return c.(map[string]any), size, nil
}

func separators(n int) int { return 2 * max(0, n-1) }

func intSize(n int64) int {
	if n >= 0 && n < 10 {
		return 1
	}
	var buf [20]byte
	return len(strconv.AppendInt(buf[:0], n, 10))
}

// floatSize is the length of the shortest form, which has a fraction or an exponent of at least two digits; the
// exponent form begins at 1e16 and below 1e-4.
func floatSize(f float64) int {
	var buf [32]byte
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return len(strconv.AppendFloat(buf[:0], f, 'e', -1, 64))
	}
	n := len(strconv.AppendFloat(buf[:0], f, 'f', -1, 64))
	if f == math.Trunc(f) {
		n += len(".0")
	}
	return n
}

// stringSize counts the quoted string with ASCII-only escapes: \uXXXX is 6 bytes, a surrogate pair 12.
func stringSize(s string) int {
	n := 2 + len(s)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf {
			return 2 + escapedSize(s)
		}
		if c < ' ' || c == '"' || c == '\\' || c == 0x7f {
			n += escapeWidth(rune(c)) - 1
		}
	}
	return n
}

func escapedSize(s string) int {
	n := 0
	for _, r := range s {
		n += escapeWidth(r)
	}
	return n
}

func escapeWidth(r rune) int {
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
		return 2
	case r >= ' ' && r < 0x7f:
		return 1
	case r > 0xffff:
		return 12
	}
	return 6
}
