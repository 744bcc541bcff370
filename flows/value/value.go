// Package value holds JSON values exactly: numbers keep their value, equality is that of the canonical form.
//
// A value is one of nil, bool, string, int64, float64, json.Number (integers beyond int64 only), []any and
// map[string]any. Values are never changed once they are shared. Members is the ordered form of an object that
// DecodeOrdered returns where the declaration order matters (schemas, flow files).
//
// Equality and hashes follow the canonical form: key order is ignored, 1 equals 1.0, "1" does not equal 1 and
// true does not equal 1. Beyond 2^53 an integer keeps all of its digits, so it equals a float only when the
// float's shortest form has the same digits.
package value

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Members is a JSON object in declaration order, without duplicate keys.
type Members []Member

// Member is one key and its value.
type Member struct {
	Key   string
	Value any
}

// Get returns the value of key.
func (m Members) Get(key string) (any, bool) {
	for i := range m {
		if m[i].Key == key {
			return m[i].Value, true
		}
	}
	return nil, false
}

// Plain returns v with every Members replaced by a map. Values without any Members are returned as they are.
func Plain(v any) any {
	switch v := v.(type) {
	case Members:
		out := make(map[string]any, len(v))
		for _, m := range v {
			out[m.Key] = Plain(m.Value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = Plain(v[i])
		}
		return out
	}
	return v
}

// Of turns a Go value into a JSON value by way of its JSON encoding. JSON values come back as equal copies.
func Of(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return Decode(data)
}

// maxExact is the largest integer up to which every integer is a float64: 2^53.
const maxExact = 1 << 53

// number turns a JSON number literal into its value; ok is false when it is out of range or no number.
func number(lit string) (v any, ok bool) {
	if !strings.ContainsAny(lit, ".eE") {
		if i, err := strconv.ParseInt(lit, 10, 64); err == nil {
			return i, true
		}
		digits := strings.TrimPrefix(lit, "-")
		if digits == "" || strings.Trim(digits, "0123456789") != "" {
			return nil, false
		}
		return json.Number(lit), true
	}
	f, err := strconv.ParseFloat(lit, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, false
	}
	return f, true
}

// simplify brings Go numbers of other types, and json.Numbers that are small or fractional, to the value forms.
func simplify(v any) any {
	switch n := v.(type) {
	case json.Number:
		if out, ok := number(string(n)); ok {
			return out
		}
		return string(n)
	case int:
		return int64(n)
	case int32:
		return int64(n)
	case uint32:
		return int64(n)
	case float32:
		return float64(n)
	}
	return v
}

// integral reports the int64 that equals v exactly and lies within ±2^53.
func integral(f float64) (int64, bool) {
	if f >= -maxExact && f <= maxExact && f == math.Trunc(f) {
		return int64(f), true
	}
	return 0, false
}
