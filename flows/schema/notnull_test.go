package schema

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNotNull(t *testing.T) {
	for source, want := range map[string]string{
		`{"type":["string","null"]}`:                                       "string",
		`{"anyOf":[{"type":"integer"},{"type":"null"}]}`:                   "integer",
		`{"anyOf":[{"type":"integer"},{"type":"string"},{"type":"null"}]}`: "integer|string",
		`{"type":"string"}`:                                                "string",
		`{}`:                                                               "any",
	} {
		s, err := Compile([]byte(source))
		require.NoError(t, err)
		assert.Equal(t, want, s.NotNull().Type(), source)
	}
	s, err := Compile([]byte(`{"type":"null"}`))
	require.NoError(t, err)
	_, violations := s.NotNull().Apply(nil)
	assert.NotEmpty(t, violations, "nothing is left")
	_, violations = s.Apply(nil)
	assert.Empty(t, violations, "the schema itself stays as it is")
}
