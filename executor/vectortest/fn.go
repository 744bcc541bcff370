package vectortest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"pave/executor"
	"pave/flows/schema"
	"pave/flows/value"
)

// fn is one of the tool kinds of the vectors' README: what a tool of a vector does with its validated input. State
// (flaky, counter) belongs to the instance.
type fn struct {
	kind   string
	params map[string]any

	mu    sync.Mutex
	calls int64
}

// errorClasses are the neutral classes of the error names that vectors use.
var errorClasses = map[string]string{"OSError": executor.ClassIO}

func (f *fn) raise(message string) error {
	name, ok := f.params["error"].(string)
	if !ok {
		name = "ValueError"
	}
	class, ok := errorClasses[name]
	if !ok {
		class = executor.ClassOther
	}
	return &executor.ToolError{Class: class, Type: name, Message: message}
}

func (f *fn) text(key, fallback string) string {
	if s, ok := f.params[key].(string); ok {
		return s
	}
	return fallback
}

// next counts the calls of this instance, from 1.
func (f *fn) next() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	return f.calls
}

func (f *fn) call(ctx context.Context, d map[string]any) (any, error) {
	field, out := f.text("field", ""), f.text("out", "")
	one := func(v any) (any, error) { return map[string]any{out: v}, nil }
	switch f.kind {
	case "const", "raw":
		return f.params["value"], nil
	case "echo":
		return d, nil
	case "wrap":
		return one(d)
	case "pick":
		picked := map[string]any{}
		for _, k := range f.params["keys"].([]any) {
			picked[k.(string)] = d[k.(string)]
		}
		return picked, nil
	case "rename":
		renamed := map[string]any{}
		for to, from := range f.params["map"].(map[string]any) {
			renamed[to] = d[from.(string)]
		}
		return renamed, nil
	case "add":
		return one(plus(d[f.text("a", "")], d[f.text("b", "")]))
	case "add_const":
		return one(plus(d[field], f.params["n"]))
	case "mul_const":
		return one(times(d[field], f.params["n"]))
	case "sum":
		total := any(int64(0))
		for _, v := range d[field].([]any) {
			total = arithmetic(total, v, (*big.Float).Add)
		}
		return one(total)
	case "lookup":
		found, ok := f.params["table"].(map[string]any)[fmt.Sprint(d[field])]
		if !ok {
			return nil, &executor.ToolError{Class: executor.ClassOther, Type: "LookupError", Message: fmt.Sprintf("no entry for %v", d[field])}
		}
		return one(found)
	case "fail", "fail_if", "flaky", "flaky_output", "slow", "counter":
		return f.uneven(d, field, one)
	}
	return f.strings(d, field, one)
}

// uneven are the kinds that fail, take their time or answer each call differently.
func (f *fn) uneven(d map[string]any, field string, one func(any) (any, error)) (any, error) {
	switch f.kind {
	case "fail":
		return nil, f.raise(f.text("message", "boom"))
	case "fail_if":
		if value.Equal(d[field], f.params["equals"]) {
			return nil, f.raise(f.text("message", "boom"))
		}
		return f.params["value"], nil
	case "flaky":
		if n := f.next(); n <= f.params["times"].(int64) {
			return nil, f.raise(fmt.Sprintf("%s #%d", f.text("message", "flaky"), n))
		}
		return f.params["value"], nil
	case "flaky_output":
		if f.next() <= f.params["times"].(int64) {
			return f.params["bad"], nil
		}
		return f.params["value"], nil
	case "slow":
		// Deaf to ctx on purpose: tools of the reference cannot be interrupted.
		time.Sleep(time.Duration(f.params["ms"].(int64)) * time.Millisecond)
		return f.params["value"], nil
	}
	return one(f.next())
}

// strings are the kinds about text.
func (f *fn) strings(d map[string]any, field string, one func(any) (any, error)) (any, error) {
	sep := f.text("sep", "")
	switch f.kind {
	case "concat":
		var parts []any
		for _, name := range f.params["fields"].([]any) {
			parts = append(parts, d[name.(string)])
		}
		return one(join(parts, sep))
	case "prefix":
		return one(f.text("prefix", "") + d[field].(string))
	case "split":
		return one(split(d[field].(string), sep))
	case "join":
		return one(join(d[field].([]any), sep))
	case "length":
		if s, ok := d[field].(string); ok {
			return one(int64(len([]rune(s))))
		}
		return one(int64(len(d[field].([]any))))
	}
	return nil, fmt.Errorf("unknown tool kind %q", f.kind)
}

// plus and times also join and repeat texts and lists, as the operators of the vectors' language do.
func plus(a, b any) any {
	x, isText := a.(string)
	if y, both := b.(string); isText && both {
		return x + y
	}
	list, isList := a.([]any)
	if more, both := b.([]any); isList && both {
		return slices.Concat(list, more)
	}
	return arithmetic(a, b, (*big.Float).Add)
}

func times(a, b any) any {
	if _, isCount := a.(int64); isCount {
		a, b = b, a
	}
	n, isCount := b.(int64)
	if text, ok := a.(string); ok && isCount {
		return strings.Repeat(text, int(max(0, n)))
	}
	if list, ok := a.([]any); ok && isCount {
		return slices.Repeat(list, int(max(0, n)))
	}
	return arithmetic(a, b, (*big.Float).Mul)
}

// arithmetic keeps integers integers, of any size.
func arithmetic(a, b any, op func(z, x, y *big.Float) *big.Float) any {
	const digits = 4096 // exact for every number of the vectors
	exact := func(v any) (*big.Float, bool) {
		f, _, _ := big.ParseFloat(string(value.Canonical(v)), 10, digits, big.ToNearestEven)
		_, isFloat := v.(float64)
		return f, !isFloat
	}
	x, xInt := exact(a)
	y, yInt := exact(b)
	z := op(new(big.Float).SetPrec(digits), x, y)
	if !xInt || !yInt {
		f, _ := z.Float64()
		return f
	}
	whole, _ := z.Int(nil)
	if whole.IsInt64() {
		return whole.Int64()
	}
	return json.Number(whole.String())
}

// over is the tool with an input schema, nil for none: the tools of the reference see every declared input, absent ones
// as null.
func (f *fn) over(in *schema.Schema) func(context.Context, map[string]any) (any, error) {
	if in == nil {
		return f.call
	}
	return func(ctx context.Context, d map[string]any) (any, error) {
		if completed, violations := in.Complete(d); violations == nil {
			if object, ok := completed.(map[string]any); ok {
				d = object
			}
		}
		return f.call(ctx, d)
	}
}

func newFn(spec map[string]any) *fn {
	params := maps.Clone(spec)
	kind, _ := params["kind"].(string)
	delete(params, "kind")
	return &fn{kind: kind, params: params}
}

func join(parts []any, sep string) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = fmt.Sprint(p)
	}
	return strings.Join(texts, sep)
}

func split(text, sep string) []any {
	var out []any
	for _, part := range strings.Split(text, sep) {
		out = append(out, part)
	}
	return out
}
