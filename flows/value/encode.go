package value

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Encode writes v as compact JSON: keys sorted by bytes (Members in their order), no HTML escaping, integers
// exact, floats with a fraction or an exponent so that they are read back as floats. Go values of other types
// are written as encoding/json does; what has no JSON form (NaN, infinities, channels) is null.
func Encode(v any) []byte { return AppendJSON(nil, v) }

// AppendJSON appends what Encode returns to dst.
func AppendJSON(dst []byte, v any) []byte { return appendValue(dst, v, false) }

// Canonical writes v in the canonical form of RFC 8785: keys in UTF-16 order, numbers in their shortest
// ECMAScript form, with one addition: integers beyond 2^53 keep all digits. Equal values have equal bytes.
func Canonical(v any) []byte { return appendValue(nil, v, true) }

func appendValue(dst []byte, v any, canonical bool) []byte {
	switch v := simplify(v).(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case string:
		return appendString(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case json.Number:
		return append(dst, v...)
	case float64:
		return appendFloat(dst, v, canonical)
	case []any:
		dst = append(dst, '[')
		for i := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, v[i], canonical)
		}
		return append(dst, ']')
	case map[string]any:
		return appendMap(dst, v, canonical)
	case Members:
		if canonical {
			return appendMap(dst, shallow(v), true)
		}
		dst = append(dst, '{')
		for i := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, v[i].Key), ':')
			dst = appendValue(dst, v[i].Value, false)
		}
		return append(dst, '}')
	default:
		other, err := Of(v)
		if err != nil {
			return append(dst, "null"...)
		}
		return appendValue(dst, other, canonical)
	}
}

func appendMap(dst []byte, m map[string]any, canonical bool) []byte {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	if canonical {
		slices.SortFunc(keys, compareUTF16)
	} else {
		slices.Sort(keys)
	}
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, k), ':')
		dst = appendValue(dst, m[k], canonical)
	}
	return append(dst, '}')
}

func shallow(members Members) map[string]any {
	m := make(map[string]any, len(members))
	for _, e := range members {
		m[e.Key] = e.Value
	}
	return m
}

// compareUTF16 orders by UTF-16 code units. It differs from byte order only where a character beyond the basic
// plane meets one of U+E000 to U+FFFF.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		ra, na := utf8.DecodeRuneInString(a)
		rb, nb := utf8.DecodeRuneInString(b)
		if ra != rb {
			return slices.Compare(utf16.AppendRune(nil, ra), utf16.AppendRune(nil, rb))
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) - len(b)
}

const hexDigits = "0123456789abcdef"

// appendString writes s quoted, escaping only what JSON demands. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendFloat writes the shortest form that reads back as f. The canonical form is ECMAScript's: no exponent
// from 1e-6 to below 1e21.
func appendFloat(dst []byte, f float64, canonical bool) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	if i, ok := integral(f); ok && canonical {
		return strconv.AppendInt(dst, i, 10)
	}
	abs := math.Abs(f)
	format := byte('f')
	if abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	text := strconv.FormatFloat(f, format, -1, 64)
	if format == 'e' {
		// Go pads the exponent to two digits, ECMAScript does not.
		text = strings.Replace(strings.Replace(text, "e-0", "e-", 1), "e+0", "e+", 1)
	} else if !canonical && !strings.Contains(text, ".") {
		text += ".0"
	}
	return append(dst, text...)
}
