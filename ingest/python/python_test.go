package python

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{'a': 1, "b": [True, None, (1, 2.5,)], 3: 'x'}`: `{"a":1,"b":[true,null,[1,2.5]],"3":"x"}`,
		`'it\'s' " \u00e9\x41\n"`:                        `"it's éA\n"`,
		`{1, 2}`:                                         `[1,2]`,
		`{}`:                                             `{}`,
		`[]`:                                             `[]`,
		`Point(1, y=Timestamp('2023'), z=[])`:            `{"<name>":"Point","y":{"<name>":"Timestamp","args":["2023"]},"z":[],"args":[1]}`,
		`'''long 'text' '''`:                             `"long 'text' "`,
		`-1_000`:                                         `-1000`,
		`1e999`:                                          ``,
		`b'ab'`:                                          `"ab"`,
		`<object at 0x1>`:                                `"<object at 0x1>"`,
		`nan`:                                            `null`,
		`{'a': }`:                                        ``,
		`[1`:                                             ``,
		`'open`:                                          ``,
		strings.Repeat("[", 100):                         ``,
		`x`:                                              ``,
		`1 2`:                                            ``,
		`'\ud800'`:                                       `"` + "\uFFFD" + `"`,
	} {
		got, err := JSON(text)
		if want == "" {
			require.ErrorIs(t, err, errValue, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, string(got), text)
	}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{'a': [1, (2,)], "b": Name(x='y')}`, `'\x41\u00e9'`, `{1: None}`, `[(AgentAction(tool='a', tool_input={'q': 1}, log=''), 'r')]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if raw, err := JSON(text); err == nil && !json.Valid(raw) {
			t.Fatalf("%q became %q", text, raw)
		}
	})
}
