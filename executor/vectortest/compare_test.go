package vectortest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Messages are the same up to what no vector gives: names of the reference's classes, the order of undeclared keys.
func TestSameMessage(t *testing.T) {
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"VALIDATION[v.Item:model_type;v.int:int_type]", "v.model: must be an object [model_type]; v.int: must be an integer [int_type]", true},
		{"VALIDATION[v.Item.a:missing]", "v.model.a: is required [missing]", true},
		{"VALIDATION[v.Item.a:missing]", "v.model.b: is required [missing]", false},
		{"VALIDATION[v.Item:model_type]", "v.model: is required [missing]", false},
		{"VALIDATION[other:missing]", "model: is required [missing]", false},
		{"VALIDATION[b:extra_forbidden;a:extra_forbidden]", "a: is unknown [extra_forbidden]; b: is unknown [extra_forbidden]", true},
		{"VALIDATION[b:missing;a:missing]", "a: is required [missing]; b: is required [missing]", false},
		{"VALIDATION[b:extra_forbidden]", "a: is unknown [extra_forbidden]; b: is unknown [extra_forbidden]", false},
		{"Key 'x'. Available output keys: ['a', 'b'].", "Key 'x'. Available output keys: ['b', 'a'].", true},
		{"Key 'x'. Available output keys: ['a', 'b'].", "Key 'y'. Available output keys: ['b', 'a'].", false},
		{"Key 'x'. Available output keys: ['a', 'b'].", "Key 'x'. Available output keys: ['a'].", false},
	} {
		assert.Equal(t, c.same, sameMessage(c.want, c.got), "%s\n%s", c.want, c.got)
	}
}
