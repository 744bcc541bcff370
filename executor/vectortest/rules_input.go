package vectortest

import (
	"encoding/json"
	"maps"
	"math/big"

	"pave/flows/value"
)

// integersStayExact (R23): where a number is wanted, an integer too large for a float stays the integer that it is.
func integersStayExact(v *Vector, _ *flowDoc, expect map[string]any) map[string]any {
	exact := map[float64]json.Number{}
	var collect func(any)
	collect = func(part any) {
		switch part := part.(type) {
		case map[string]any:
			for _, e := range part {
				collect(e)
			}
		case []any:
			for _, e := range part {
				collect(e)
			}
		case int64, json.Number:
			if whole, ok := new(big.Int).SetString(string(value.Encode(part)), 10); ok && whole.BitLen() > 53 {
				f, _ := new(big.Float).SetInt(whole).Float64()
				exact[f] = json.Number(whole.String())
			}
		}
	}
	collect(decoded(v.Input))
	for _, t := range v.Tools {
		collect(decoded(t.Fn))
	}
	if len(exact) == 0 {
		return nil
	}
	return replace(expect, func(part any) (any, bool) {
		f, isFloat := part.(float64)
		n, found := exact[f]
		return n, isFloat && found
	}).(map[string]any)
}

// replace copies v with the parts that change names replaced.
func replace(v any, change func(any) (any, bool)) any {
	if to, ok := change(v); ok {
		return to
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, e := range v {
			out[key] = replace(e, change)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = replace(e, change)
		}
		return out
	}
	return v
}

// flowInputIsCoerced (R28): a flow's steps see its validated, coerced input, and the result records that.
func flowInputIsCoerced(v *Vector, f *flowDoc, expect map[string]any) map[string]any {
	if f == nil {
		return nil
	}
	out := maps.Clone(expect)
	if steps, ok := expect["steps"].([]any); ok {
		copied := make([]any, len(steps))
		for i, s := range steps {
			step := maps.Clone(s.(map[string]any))
			copied[i] = step
			sub, isResult := step["sub_result"].(map[string]any)
			if !isResult {
				continue
			}
			coerced := flowInputIsCoerced(v, v.subflow(step["flow_name"]), sub)
			if coerced == nil {
				continue
			}
			step["sub_result"] = coerced
			if value.Equal(step["outputs"], sub["final_output"]) {
				step["outputs"] = coerced["final_output"]
			}
		}
		out["steps"] = copied
	}
	raw, _ := expect["initial_input"].(map[string]any)
	declared, ok := v.Schemas[f.InputSchemaRef]
	if !ok || raw == nil {
		return out
	}
	input, fits := apply(declared, raw)
	if !fits || value.Equal(input, raw) {
		return out
	}
	return withInput(f, out, raw, input)
}

// withInput is a result whose flow got input in place of raw: the values that changed, wherever they went, and the keys
// that appear or disappear in what steps take whole.
func withInput(f *flowDoc, result, raw, input map[string]any) map[string]any {
	changed := func(part any) (any, bool) {
		for key, before := range raw {
			if after, kept := input[key]; kept && !value.Equal(before, after) && value.Equal(part, before) {
				return after, true
			}
		}
		return nil, false
	}
	whole := func(v any) any {
		m, isObject := replace(v, changed).(map[string]any)
		if !isObject {
			return v
		}
		for key, before := range raw {
			if _, kept := input[key]; !kept && value.Equal(m[key], before) {
				delete(m, key)
			}
		}
		for key, after := range input {
			if _, had := raw[key]; had {
				continue
			}
			if _, has := m[key]; !has {
				m[key] = after
			}
		}
		return m
	}
	result["initial_input"] = input
	result["final_output"] = whole(result["final_output"])
	steps, _ := result["steps"].([]any)
	for i, s := range steps {
		step := s.(map[string]any)
		change := func(v any) any { return replace(v, changed) }
		if i < len(f.Steps) && len(f.Steps[i].InputMapping) == 0 {
			change = whole
		}
		step["inputs"] = change(step["inputs"])
		step["outputs"] = replace(step["outputs"], changed)
		step["sub_result"] = replace(step["sub_result"], changed)
	}
	return result
}

// subflow reads the vector's sub-flow with the name, nil where there is none.
func (v *Vector) subflow(name any) *flowDoc {
	for _, raw := range v.Subflows {
		doc := new(flowDoc)
		if json.Unmarshal(raw, doc) == nil && doc.Name == name {
			return doc
		}
	}
	return nil
}
