package schema

import (
	"cmp"
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"pave/flows/value"
)

// coerce turns v into the kind, as pydantic's lax mode does.
func (p *pass) coerce(n *node, k kind, v any, root bool) any {
	switch k {
	case kindNull:
		if v != nil {
			p.violate("none_required", "must be null")
		}
		return nil
	case kindBoolean:
		return p.boolean(v)
	case kindInteger:
		return p.integer(v)
	case kindNumber:
		return p.number(v)
	case kindString:
		if s, ok := v.(string); ok {
			return s
		}
		p.violate("string_type", "must be a string")
		return nil
	case kindArray:
		if list, ok := v.([]any); ok {
			return p.array(n, list)
		}
		p.violate("list_type", "must be a list")
		return nil
	}
	if m, ok := v.(map[string]any); ok {
		return p.object(n, m)
	}
	if root || n.props != nil {
		p.violate("model_type", "must be an object")
	} else {
		p.violate("dict_type", "must be an object")
	}
	return nil
}

func (p *pass) boolean(v any) any {
	switch v := v.(type) {
	case bool:
		return v
	case int64:
		if v == 0 || v == 1 {
			return v == 1
		}
		p.violate("bool_parsing", "must be a boolean: of numbers only 0 and 1 are")
		return nil
	case float64:
		if v == 0 || v == 1 {
			return v == 1
		}
		if v == math.Trunc(v) && isInt64(v) {
			p.violate("bool_parsing", "must be a boolean: of numbers only 0 and 1 are")
			return nil
		}
	case string:
		switch strings.ToLower(v) {
		case "1", "true", "t", "yes", "y", "on":
			return true
		case "0", "false", "f", "no", "n", "off":
			return false
		}
		p.violate("bool_parsing", "must be a boolean: this text does not say true or false")
		return nil
	}
	p.violate("bool_type", "must be a boolean")
	return nil
}

// isInt64 reports whether a whole float is within the range of 64-bit integers.
func isInt64(v float64) bool { return v >= -(1<<63) && v < 1<<63 }

// maxDigits bounds integers written as text, as the base system does.
const maxDigits = 4300

// integerText is an integer as text: a sign, digits with single underscores between them, zero decimals.
var integerText = regexp.MustCompile(`^[+-]?[0-9]+(_[0-9]+)*(\.0+)?$`)

func (p *pass) integer(v any) any {
	switch v := v.(type) {
	case int64, json.Number:
		return v
	case bool:
		n, _ := boolNumber(v)
		return n
	case float64:
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			p.violate("finite_number", "must be a finite number")
		case v != math.Trunc(v):
			p.violate("int_from_float", "must be an integer: it has a fraction")
		case !isInt64(v):
			p.violate("int_parsing_size", "must be an integer: it is too large")
		default:
			return int64(v)
		}
		return nil
	case string:
		text := strings.TrimSpace(v)
		if !integerText.MatchString(text) {
			p.violate("int_parsing", "must be an integer: this text is not one")
			return nil
		}
		text, _, _ = strings.Cut(strings.ReplaceAll(text, "_", ""), ".")
		if len(text) > maxDigits {
			p.violate("int_parsing_size", "must be an integer: it is too large")
			return nil
		}
		i, ok := new(big.Int).SetString(text, 10)
		if ok && i.IsInt64() {
			return i.Int64()
		}
		return json.Number(i.String())
	}
	p.violate("int_type", "must be an integer")
	return nil
}

// numberText is a decimal number as text, underscores removed.
var numberText = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// withoutUnderscores removes single underscores from inside a number's text.
func withoutUnderscores(text string) string {
	if strings.HasPrefix(text, "_") || strings.HasSuffix(text, "_") || strings.Contains(text, "__") {
		return text
	}
	return strings.ReplaceAll(text, "_", "")
}

func (p *pass) number(v any) any {
	switch v := v.(type) {
	case int64, json.Number:
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			p.violate("finite_number", "must be a finite number")
			return nil
		}
		return v
	case bool:
		n, _ := boolNumber(v)
		return float64(n)
	case string:
		text := strings.TrimSpace(v)
		if strings.Contains(v, "_") { // blanks or underscores, not both
			text = withoutUnderscores(v)
		}
		if !numberText.MatchString(text) {
			p.violate("float_parsing", "must be a number: this text is not one")
			return nil
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			p.violate("finite_number", "must be a finite number")
			return nil
		}
		return f
	}
	p.violate("float_type", "must be a number")
	return nil
}

// compareNumbers orders two JSON numbers exactly.
func compareNumbers(a, b any) int {
	x, xInt := a.(int64)
	y, yInt := b.(int64)
	if xInt && yInt {
		return cmp.Compare(x, y)
	}
	r, okR := new(big.Rat).SetString(string(value.Encode(a)))
	s, okS := new(big.Rat).SetString(string(value.Encode(b)))
	if !okR || !okS {
		return 0
	}
	return r.Cmp(s)
}
