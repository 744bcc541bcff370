package schema

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Accept returns v itself exactly where Apply would return an equal copy, of the forms that it knows.
func TestAcceptCopiesOnlyWhatHasToChange(t *testing.T) {
	const order = `{"type":"object","properties":{"id":{"type":"string","pattern":"^#"},"n":{"type":["integer","null"]},"ratio":{"type":"number","maximum":1},
		"items":{"type":"array","maxItems":2,"items":{"type":"object","properties":{"sku":{"type":"string"}},"required":["sku"]}},"open":{"type":"object"}},"required":["id"]}`
	for _, c := range []struct {
		name, schema, in string
		same             bool
	}{
		{"all as it should be", order, `{"id":"#1","n":3,"ratio":1,"items":[{"sku":"a"}],"open":{"x":[1]}}`, true},
		{"null where it may be", order, `{"id":"#1","n":null}`, true},
		{"an absent property becomes null", order, `{"id":"#1"}`, false},
		{"a text becomes an integer", order, `{"id":"#1","n":"3"}`, false},
		{"a property deep inside is dropped", order, `{"id":"#1","n":3,"items":[{"sku":"a","x":1}]}`, false},
		{"a default", `{"type":"object","properties":{"a":{"type":"integer","default":1}}}`, `{}`, false},
		{"anything", `{}`, `{"a":[{}]}`, true},
		{"additional properties", `{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":true}`, `{"a":1,"b":2}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, in := compile(t, c.schema), decodeText(t, c.in).(map[string]any)
			out, violations := s.Accept(in)
			require.Empty(t, violations)
			assert.Equal(t, c.same, reflect.ValueOf(in).Pointer() == reflect.ValueOf(out).Pointer())
			applied, _ := s.Apply(in)
			assert.Equal(t, applied, out)
			assert.Equal(t, decodeText(t, c.in), any(in), "the input must not change")
		})
	}
}
