package predicate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"pave/flows/value"
)

// set is the value of braces: distinct, hashable members.
type set []any

type evaluator struct {
	source  string
	context map[string]any
}

func (e *evaluator) fail(n *node, category, format string, args ...any) error {
	return &Error{Source: e.source, Offset: n.pos, Category: category, Reason: fmt.Sprintf(format, args...)}
}

func (e *evaluator) eval(n *node) (any, error) {
	switch n.kind {
	case nodeConst:
		return n.val, nil
	case nodeName:
		v, ok := e.context[n.text]
		if !ok {
			return nil, e.fail(n, UnknownName, "name '%s' is not in the execution context.", n.text)
		}
		return v, nil
	case nodeOr, nodeAnd:
		return e.logic(n)
	case nodeNot:
		v, err := e.eval(n.kids[0])
		return !truth(v), err
	case nodeSign:
		return e.sign(n)
	case nodeCompare:
		return e.compare(n)
	case nodeIndex:
		return e.index(n)
	}
	if n.kind == nodeList {
		return e.all(n.kids)
	}
	members := set{}
	for _, k := range n.kids {
		v, err := e.eval(k)
		if err != nil {
			return nil, err
		}
		if !hashable(v) {
			return nil, e.fail(n, TypeError, "unhashable type: '%s'", typeName(v))
		}
		if !contains(members, v) {
			members = append(members, v)
		}
	}
	return members, nil
}

func (e *evaluator) all(nodes []*node) ([]any, error) {
	out := make([]any, len(nodes))
	for i, n := range nodes {
		v, err := e.eval(n)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// logic returns the operand that decides.
func (e *evaluator) logic(n *node) (any, error) {
	var v any
	for _, k := range n.kids {
		var err error
		if v, err = e.eval(k); err != nil {
			return nil, err
		}
		if truth(v) == (n.kind == nodeOr) {
			break
		}
	}
	return v, nil
}

func (e *evaluator) sign(n *node) (any, error) {
	v, err := e.eval(n.kids[0])
	if err != nil {
		return nil, err
	}
	v, ok := numeric(v)
	switch {
	case !ok:
		return nil, e.fail(n, TypeError, "bad operand type for unary %s: '%s'", n.text, typeName(v))
	case n.text == "+":
		return v, nil
	}
	switch v := v.(type) {
	case float64:
		return -v, nil
	default:
		return integer(new(big.Int).Neg(bigInt(v))), nil
	}
}

func (e *evaluator) compare(n *node) (any, error) {
	left, err := e.eval(n.kids[0])
	if err != nil {
		return nil, err
	}
	for i, op := range n.ops {
		right, err := e.eval(n.kids[i+1])
		if err != nil {
			return nil, err
		}
		holds, err := e.holds(n, op, left, right)
		if err != nil || !holds {
			return false, err
		}
		left = right
	}
	return true, nil
}

func (e *evaluator) holds(n *node, op string, a, b any) (bool, error) {
	switch op {
	case "==":
		return equal(a, b), nil
	case "!=":
		return !equal(a, b), nil
	case "in":
		return e.member(n, a, b)
	case "not in":
		in, err := e.member(n, a, b)
		return !in, err
	}
	holds, comparable := ordered(op, a, b)
	if !comparable {
		return false, e.fail(n, TypeError, "'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
	}
	return holds, nil
}

// ordered reports whether a op b holds for <, <=, > and >=; ok is false where the two have no order.
func ordered(op string, a, b any) (holds, ok bool) {
	x, xList := a.([]any)
	y, yList := b.([]any)
	if xList && yList {
		for i := range min(len(x), len(y)) {
			if !equal(x[i], y[i]) {
				return ordered(op, x[i], y[i])
			}
		}
		return compares(op, cmp.Compare(len(x), len(y))), true
	}
	if s, isSet := a.(set); isSet {
		t, ok := b.(set)
		if op[0] == '>' {
			s, t = t, s
		}
		return ok && (len(op) == 2 || len(s) < len(t)) && s.within(t), ok
	}
	order, ok := compareValues(a, b)
	return ok && compares(op, order), ok
}

func compares(op string, order int) bool {
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// within reports whether every member is one of other's.
func (s set) within(other set) bool {
	return !slices.ContainsFunc(s, func(v any) bool { return !contains(other, v) })
}

func (e *evaluator) member(n *node, v, in any) (bool, error) {
	switch in := in.(type) {
	case []any:
		return contains(in, v), nil
	case set, map[string]any:
		if !hashable(v) {
			return false, e.fail(n, TypeError, "unhashable type: '%s'", typeName(v))
		}
		if members, ok := in.(set); ok {
			return contains(members, v), nil
		}
		key, ok := v.(string)
		_, found := in.(map[string]any)[key]
		return ok && found, nil
	case string:
		part, ok := v.(string)
		if !ok {
			return false, e.fail(n, TypeError, "'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return strings.Contains(in, part), nil
	case bytesValue:
		if part, ok := v.(bytesValue); ok {
			return strings.Contains(string(in), string(part)), nil
		}
		if i, ok := position(v); ok && i >= 0 && i < 256 {
			return strings.IndexByte(string(in), byte(i)) >= 0, nil
		}
		return false, e.fail(n, TypeError, "a bytes-like object is required, not '%s'", typeName(v))
	}
	return false, e.fail(n, TypeError, "argument of type '%s' is not iterable", typeName(in))
}

func (e *evaluator) index(n *node) (any, error) {
	args, err := e.all(n.kids)
	if err != nil {
		return nil, err
	}
	bad := func(format string, args ...any) (any, error) {
		return nil, e.fail(n, Subscript, "subscript lookup failed: "+format, args...)
	}
	key := args[1]
	switch of := args[0].(type) {
	case map[string]any:
		if !hashable(key) {
			return bad("unhashable type: '%s'", typeName(key))
		}
		if text, ok := key.(string); ok {
			if v, found := of[text]; found {
				return v, nil
			}
		}
		return bad("%s", repr(key))
	case []any:
		i, ok := position(key)
		if !ok {
			return bad("list indices must be integers or slices, not %s", typeName(key))
		}
		if i, ok = within(i, len(of)); !ok {
			return bad("list index out of range")
		}
		return of[i], nil
	case bytesValue:
		i, ok := position(key)
		if !ok {
			return bad("byte indices must be integers or slices, not %s", typeName(key))
		}
		if i, ok = within(i, len(of)); !ok {
			return bad("index out of range")
		}
		return int64(of[i]), nil
	case string:
		i, ok := position(key)
		if !ok {
			return bad("string indices must be integers, not '%s'", typeName(key))
		}
		if i < 0 {
			i += int64(utf8.RuneCountInString(of))
		}
		for _, r := range of {
			if i == 0 {
				return string(r), nil
			}
			i--
		}
		return bad("string index out of range")
	}
	return bad("'%s' object is not subscriptable", typeName(args[0]))
}

// within counts a negative index from the end of n elements and reports whether it is one of them.
func within(i int64, n int) (int64, bool) {
	if i < 0 {
		i += int64(n)
	}
	return i, i >= 0 && i < int64(n)
}

// position is an integer or boolean index. Integers beyond int64 are out of any range.
func position(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case json.Number:
		return math.MaxInt64, true
	}
	return 0, false
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case bytesValue:
		return v != ""
	case int64:
		return v != 0
	case float64:
		return v != 0
	case []any:
		return len(v) > 0
	case set:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

// numeric returns v as a number: booleans are 0 and 1.
func numeric(v any) (any, bool) {
	switch n := v.(type) {
	case bool:
		if n {
			return int64(1), true
		}
		return int64(0), true
	case int64, float64, json.Number:
		return n, true
	case int:
		return int64(n), true
	}
	return v, false
}

func bigInt(v any) *big.Int {
	if i, ok := v.(int64); ok {
		return big.NewInt(i)
	}
	i, _ := new(big.Int).SetString(string(v.(json.Number)), 10)
	if i == nil {
		return new(big.Int)
	}
	return i
}

// compareNumbers orders two numbers exactly; NaN is not ordered.
func compareNumbers(a, b any) (int, bool) {
	x, xFloat := a.(float64)
	y, yFloat := b.(float64)
	i, iInt := a.(int64)
	j, jInt := b.(int64)
	switch {
	case iInt && jInt:
		return cmp.Compare(i, j), true
	case xFloat && math.IsNaN(x) || yFloat && math.IsNaN(y):
		return 0, false
	case xFloat && yFloat:
		return cmp.Compare(x, y), true
	case xFloat:
		order, ok := compareNumbers(b, a)
		return -order, ok
	case yFloat && math.IsInf(y, 0):
		return -cmp.Compare(y, 0), true
	case yFloat:
		return new(big.Rat).SetInt(bigInt(a)).Cmp(new(big.Rat).SetFloat64(y)), true
	}
	return bigInt(a).Cmp(bigInt(b)), true
}

// compareValues orders numbers, texts and bytes.
func compareValues(a, b any) (order int, ok bool) {
	x, xNumber := numeric(a)
	y, yNumber := numeric(b)
	if xNumber && yNumber {
		return compareNumbers(x, y)
	}
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return strings.Compare(x, y), ok
	case bytesValue:
		y, ok := b.(bytesValue)
		return cmp.Compare(x, y), ok
	}
	return 0, false
}

func equal(a, b any) bool {
	x, xNumber := numeric(a)
	y, yNumber := numeric(b)
	if xNumber || yNumber {
		if !xNumber || !yNumber {
			return false
		}
		order, ok := compareNumbers(x, y)
		return ok && order == 0
	}
	switch x := a.(type) {
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			other, found := y[k]
			if !found || !equal(v, other) {
				return false
			}
		}
		return true
	case set:
		y, ok := b.(set)
		return ok && len(x) == len(y) && x.within(y)
	}
	switch b.(type) {
	case []any, map[string]any, set:
		return false
	}
	return a == b
}

func contains[S ~[]any](s S, v any) bool {
	return slices.ContainsFunc(s, func(e any) bool { return equal(e, v) })
}

func hashable(v any) bool {
	switch v.(type) {
	case []any, map[string]any, set:
		return false
	}
	return true
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, json.Number, int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case bytesValue:
		return "bytes"
	case []any:
		return "list"
	case map[string]any:
		return "dict"
	case set:
		return "set"
	}
	return "ellipsis"
}

// repr shows a missing key.
func repr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		if strings.Contains(v, "'") {
			return strconv.Quote(v)
		}
		return "'" + v + "'"
	case bytesValue:
		return "b'" + string(v) + "'"
	case ellipsis:
		return "Ellipsis"
	}
	return string(value.Encode(v))
}
