package executor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows/value"
)

// spaced is the reference's JSON text: ", " and ": " as separators, everything but printable ASCII escaped.
func spaced(v any) string {
	var out bytes.Buffer
	switch v := v.(type) {
	case map[string]any:
		out.WriteByte('{')
		first := true
		for k, e := range v {
			if !first {
				out.WriteString(", ")
			}
			first = false
			out.WriteString(spaced(k) + ": " + spaced(e))
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				out.WriteString(", ")
			}
			out.WriteString(spaced(e))
		}
		out.WriteByte(']')
	case string:
		out.WriteByte('"')
		for _, r := range v {
			switch short := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}[r]; {
			case short != "":
				out.WriteString(short)
			case r >= ' ' && r <= '~':
				out.WriteRune(r)
			case r > 0xffff:
				hi, lo := utf16.EncodeRune(r)
				fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
			default:
				fmt.Fprintf(&out, `\u%04x`, r)
			}
		}
		out.WriteByte('"')
	case float64:
		// Python's repr is checked by the table; here only values whose forms agree are generated.
		out.Write(value.Encode(v))
	default:
		out.Write(value.Encode(v))
	}
	return out.String()
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int{
		`{}`: 2, `[]`: 2, `{"v":"abc"}`: 12, `{"a":1,"b":[1,2]}`: 21, `"é"`: 8, `"😀"`: 14, `"\u007f"`: 8, `"a\nb"`: 6, `null`: 4, `true`: 4, `false`: 5,
		`-12`: 3, `1.0`: 3, `1e16`: 5, `1e15`: 18, `1e-5`: 5, `0.0001`: 6, `1.5e300`: 8, `123456789012345678901`: 21, `"\u0001"`: 8, `"\""`: 4,
	} {
		v, err := value.Decode([]byte(text))
		require.NoError(t, err)
		_, size, err := snapshot(v)
		require.NoError(t, err)
		assert.Equal(t, want, size, text)
	}
}

func FuzzSnapshot(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"é😀\n",null,{"b":true}]}`, `[[[]]]`, `"\u0000\"\\"`, `123456789012345678901234567890`, `-0`, `[1.25]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := value.Decode(data)
		if err != nil || bytes.ContainsAny(data, ".eE") {
			return
		}
		c, size, err := snapshot(v)
		require.NoError(t, err)
		assert.True(t, value.Equal(v, c))
		assert.Equal(t, len(spaced(v)), size)
		if m, ok := v.(map[string]any); ok {
			keys := slices.Collect(maps.Keys(m))
			for _, declared := range [][]string{nil, keys, append([]string{"absent"}, keys...)} {
				if flatSize, isFlat := flat(m, declared); isFlat {
					assert.Equal(t, size, flatSize)
				}
			}
		}
	})
}

func TestSnapshotOfForeignNumbers(t *testing.T) {
	for _, bad := range []json.Number{"", "x", "1e999", "NaN"} {
		_, _, err := snapshot(bad)
		assert.Error(t, err, "%q", string(bad))
	}
	v, _, err := snapshot([]any{json.Number("1"), json.Number("1.5"), uint8(3)})
	require.NoError(t, err)
	assert.Equal(t, []any{int64(1), 1.5, int64(3)}, v)
}
