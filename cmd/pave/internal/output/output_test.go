package output

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

func TestCleanShowsHostileRunesEscaped(t *testing.T) {
	for in, want := range map[string]string{
		"get_order":           "get_order",
		"größe, 数":            "größe, 数",
		"a\x1b[31mred":        `a\u001b[31mred`,
		"line\nbreak\ttab":    `line\nbreak\ttab`,
		"rtl \u202egnp.exe":   `rtl \u202egnp.exe`,
		"c1 \u009b31m":        `c1 \u009b31m`,
		"broken \xff utf8":    `broken \xff utf8`,
		"real \ufffd stays":   "real \ufffd stays",
		"isolate \u2066x\x7f": `isolate \u2066x\u007f`,
	} {
		require.Equal(t, want, Clean(in))
	}
}

func TestJSONAndYAMLKeepTheValueWithoutHostileBytes(t *testing.T) {
	doc := []byte(`{"z":"rtl \u202e end","a":{"n":12345678901234567890,"s":"007","e":""},"l":[true,null,"\u001b[2J"]}`)
	var want any
	require.NoError(t, json.Unmarshal(doc, &want))

	var out bytes.Buffer
	require.NoError(t, JSON(&out, doc))
	require.NotContains(t, out.String(), "\u202e")
	require.NotContains(t, out.String(), "\x1b")
	var got any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, want, got)

	out.Reset()
	require.NoError(t, YAML(&out, doc))
	require.NotContains(t, out.String(), "\u202e")
	require.NotContains(t, out.String(), "\x1b")
	require.Contains(t, out.String(), "n: 12345678901234567890\n")
	require.Contains(t, out.String(), `s: "007"`)
	require.Less(t, strings.Index(out.String(), "z:"), strings.Index(out.String(), "a:"), "order is kept")
	var back map[string]any
	require.NoError(t, yaml.Unmarshal(out.Bytes(), &back))
	require.Equal(t, "rtl \u202e end", back["z"])
	require.Equal(t, []any{true, nil, "\x1b[2J"}, back["l"])
}

func TestTableAlignsCleanedCells(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out, "TOOL", "CALLS")
	table.Row("a\x1bb", "1")
	table.Row("longer_tool", "22")
	require.NoError(t, table.Flush())
	require.Equal(t, "TOOL         CALLS\na\\u001bb     1\nlonger_tool  22\n", out.String())
}

func TestTableWithoutRowsSaysWhatBringsSome(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out, "TOOL")
	table.Otherwise("no tools yet")
	require.NoError(t, table.Flush())
	require.Equal(t, "no tools yet\n", out.String())

	out.Reset()
	table = NewTable(&out, "TOOL")
	table.Otherwise("no tools yet")
	table.Row("a")
	require.NoError(t, table.Flush())
	require.Equal(t, "TOOL\na\n", out.String())
}

func TestLinesOfEveryKindOfAnswer(t *testing.T) {
	for doc, want := range map[string]string{
		`[{"a": 1}, {"b": [1, 2]}]`:                         "{\"a\":1}\n{\"b\":[1,2]}\n",
		"{\"items\": [1,\n \"x\"], \"next_cursor\": \"c\"}": "1\n\"x\"\n",
		`{"items": []}`:                                     "",
		`[]`:                                                "",
		"{\"a\":\n12345678901234567890}\n":                  "{\"a\":12345678901234567890}\n",
		`{"items": {"a": 1}}`:                               "{\"items\":{\"a\":1}}\n",
		`null`:                                              "null\n",
		`"rtl ` + "\u202e" + `"`:                            `"rtl \u202e"` + "\n",
	} {
		var out bytes.Buffer
		require.NoError(t, Lines(&out, []byte(doc)), doc)
		require.Equal(t, want, out.String(), doc)
	}
	require.Error(t, Lines(new(bytes.Buffer), []byte("not JSON")))
}

func TestShort(t *testing.T) {
	require.Equal(t, "abc", Short("abc", 3))
	require.Equal(t, "äb…", Short("äbcd", 3))
}

// A stream is escaped whatever the pieces are that it comes in.
func TestEscapeJSONOfAnyPieces(t *testing.T) {
	doc := "{\"a\":\"\u202e数\u009b x\"}\n"
	for size := 1; size <= len(doc); size++ {
		var out bytes.Buffer
		w := EscapeJSON(&out)
		for rest := doc; rest != ""; {
			n := min(size, len(rest))
			_, err := w.Write([]byte(rest[:n]))
			require.NoError(t, err)
			rest = rest[n:]
		}
		require.Equal(t, `{"a":"\u202e数\u009b x"}`+"\n", out.String())
	}
}
