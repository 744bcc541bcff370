package expr

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// adapter brings what expressions build to CEL's values.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case nil, bool, string, int64, float64, json.Number, []any, map[string]any:
		return adapt(v, anyType)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// adapt turns a JSON value into CEL's, as its type wants it; parts of objects and lists are adapted when the whole is.
func adapt(v any, t *typ) ref.Val {
	if t == nil {
		t = anyType
	}
	switch v := v.(type) {
	case nil:
		return types.NullValue
	case bool:
		return types.Bool(v)
	case string:
		return types.String(v)
	case int64:
		if t.double {
			return types.Double(v)
		}
		return types.Int(v)
	case float64:
		return types.Double(v)
	case json.Number:
		if f, err := v.Float64(); t.double && err == nil {
			return types.Double(f)
		}
		return types.NewErr("integer %s is beyond 64 bits", v)
	case []any:
		out := make([]ref.Val, len(v))
		for i := range v {
			out[i] = adapt(v[i], t.items)
		}
		return types.NewRefValList(adapter{}, out)
	case map[string]any:
		out := make(map[ref.Val]ref.Val, len(v))
		for k, e := range v {
			field := t.items
			if t.fields != nil {
				field = t.fields[k]
			}
			out[types.String(k)] = adapt(e, field)
		}
		return types.NewRefValMap(adapter{}, out)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// ordered is the function that macros go over their operand through: maps are visited in the order of their keys.
const ordered = "@ordered"

func orderedFunction() cel.EnvOption {
	a := cel.TypeParamType("A")
	return cel.Function(ordered, cel.Overload(ordered, []*cel.Type{a}, a, cel.UnaryBinding(func(v ref.Val) ref.Val {
		if m, ok := v.(traits.Mapper); ok {
			return &object{m}
		}
		return v
	})))
}

// object is a map that is visited in the order of its keys.
type object struct{ traits.Mapper }

// Iterator implements traits.Iterable.
func (o *object) Iterator() traits.Iterator {
	var keys []ref.Val
	for it := o.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, func(a, b ref.Val) int {
		if c, ok := a.(traits.Comparer); ok && a.Type() == b.Type() {
			if order, ok := c.Compare(b).(types.Int); ok {
				return int(order)
			}
		}
		return slices.Compare([]byte(fmt.Sprint(a.Type(), a.Value())), []byte(fmt.Sprint(b.Type(), b.Value())))
	})
	return types.NewRefValList(adapter{}, keys).(traits.Iterable).Iterator()
}

// converter turns a result into a JSON value within its budget.
type converter struct{ bytes, elements int }

func (c *converter) value(v ref.Val, depth int) (any, error) {
	if c.elements--; c.elements < 0 {
		return nil, fmt.Errorf("its value has more than %d parts", MaxElements)
	}
	if depth == 0 {
		return nil, fmt.Errorf("its value is nested more than %d levels deep", MaxDepth)
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("its value %d is beyond 64 bits with a sign", uint64(v))
		}
		return int64(v), nil
	case types.Double:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("its value is no finite number")
		}
		return float64(v), nil
	case types.String:
		return c.text(string(v))
	case traits.Lister:
		out := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			e, err := c.value(it.Next(), depth-1)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		return out, nil
	case traits.Mapper:
		return c.object(v, depth)
	case *types.Err:
		return nil, fmt.Errorf("%s", v.Error())
	}
	return nil, errNotJSON
}

func (c *converter) object(v traits.Mapper, depth int) (any, error) {
	out := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("its value is a map whose keys are no strings")
		}
		if _, err := c.text(string(name)); err != nil {
			return nil, err
		}
		e, err := c.value(v.Get(key), depth-1)
		if err != nil {
			return nil, err
		}
		out[string(name)] = e
	}
	return out, nil
}

func (c *converter) text(s string) (any, error) {
	if c.bytes -= len(s); c.bytes < 0 {
		return nil, fmt.Errorf("its value is larger than %d bytes", MaxResultBytes)
	}
	return s, nil
}
