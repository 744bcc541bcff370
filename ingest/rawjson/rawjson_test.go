package rawjson

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestValidLimits(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, c := range map[string]struct {
		text  string
		limit bool
		msg   string
	}{
		"depth at limit":      {text: nested(64)},
		"depth past limit":    {text: nested(65), limit: true, msg: "nested more than 64 deep at byte 65"},
		"million brackets":    {text: strings.Repeat("[", 1_000_000), limit: true},
		"tokens at limit":     {text: "[" + strings.Repeat("1,", 99_998) + "1]"},
		"tokens past limit":   {text: "[" + strings.Repeat("1,", 99_999) + "1]", limit: true},
		"number at limit":     {text: "0." + strings.Repeat("1", 398)},
		"number past limit":   {text: "0." + strings.Repeat("1", 399), limit: true, msg: "a number of more than 400 bytes at byte 0"},
		"1e308":               {text: "1e308"},
		"1e400":               {text: "1e400", limit: true},
		"1e-400":              {text: "1e-400"},
		"310 digits":          {text: strings.Repeat("9", 310), limit: true},
		"lone surrogate":      {text: `"\ud800"`},
		"NUL escape":          {text: `"\u0000"`},
		"raw NUL":             {text: "\"\x00\"", msg: "control character in a string at byte 1"},
		"bad escape":          {text: `"\x"`, msg: "invalid escape in a string at byte 1"},
		"trailing comma":      {text: `[1,]`, msg: `']' where another value after the comma is expected at byte 3`},
		"trailing comma obj":  {text: `{"a":1,}`, msg: `'}' where another value after the comma is expected at byte 7`},
		"missing colon":       {text: `{"a" 1}`, msg: `'1' where a colon after the key is expected at byte 5`},
		"trailing data":       {text: `{} x`, msg: `'x' where the end of the document is expected at byte 3`},
		"leading zero":        {text: `01`, msg: `'1' where the end of the document is expected at byte 1`},
		"nan":                 {text: `NaN`, msg: `'N' where a value is expected at byte 0`},
		"open string":         {text: `"a`, msg: "the string does not end at byte 2"},
		"empty":               {text: ``, msg: "the document ends where a value is expected at byte 0"},
		"mismatched brackets": {text: `[}`, msg: `'}' where a value is expected at byte 1`},
	} {
		t.Run(name, func(t *testing.T) {
			err := Valid([]byte(c.text), Limits{})
			if !c.limit && c.msg == "" {
				require.NoError(t, err)
				return
			}
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.limit, e.IsLimit)
			if c.msg != "" {
				require.Equal(t, c.msg, err.Error())
			}
		})
	}
}

func TestAppendString(t *testing.T) {
	require.Equal(t, `"a\"b\\c\n\r\t\u0001é李"`, string(AppendString(nil, "a\"b\\c\n\r\t\x01é李")))
	require.Equal(t, "\"a\uFFFDb\uFFFD\uFFFD\"", string(AppendString(nil, []byte("a\xffb\xe6\x9d"))))
	require.True(t, json.Valid(AppendString(nil, "\xf0\x28\x8c\x28")))
}

func TestPointerAt(t *testing.T) {
	data := []byte(`{"a":[1,{"b/c":{"d~":nope}}]}`)
	var e *Error
	require.ErrorAs(t, Valid(data, Limits{}), &e)
	require.Equal(t, "/a/1/b~1c/d~0", PointerAt(data, e.Offset))
	deep := []byte(strings.Repeat(`{"a":`, 100_000) + "1")
	require.Equal(t, strings.Repeat("/a", 16)+"/...", PointerAt(deep, 400_000))
}

type record struct {
	text string
	line int
	err  string
}

func drain(t *testing.T, r io.Reader, form Form, max int) []record {
	t.Helper()
	s := NewStream(r, form, max)
	var out []record
	for {
		raw, line, err := s.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		rec := record{text: string(raw), line: line}
		if err != nil {
			rec.err = err.Error()
		}
		out = append(out, rec)
	}
}

func TestStream(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		form Form
		want []record
	}{
		"array":                   {in: "[{\"a\":\"]}\\\"\"},\n {\"b\":[1]} ]\n", want: []record{{`{"a":"]}\""}`, 1, ""}, {`{"b":[1]}`, 2, ""}}},
		"empty array":             {in: " [ ] "},
		"bad record inside array": {in: `[{"a":nope},{"b":1}]`, want: []record{{`{"a":nope}`, 1, ""}, {`{"b":1}`, 1, ""}}},
		"scalars":                 {in: `[1,"x",true]`, want: []record{{`1`, 1, ""}, {`"x"`, 1, ""}, {`true`, 1, ""}}},
		"array without end":       {in: `[{"a":1}`, want: []record{{`{"a":1}`, 1, ""}, {"", 1, "the array does not end after record 0 at byte 0"}}},
		"record without end":      {in: `[{"a":1},{"b":`, want: []record{{`{"a":1}`, 1, ""}, {"", 1, "the text ends inside record 1 at byte 0"}}},
		"missing comma":           {in: `[{} {}]`, want: []record{{`{}`, 1, ""}, {"", 1, `'{' where a comma or the end of the array is expected after record 0 at byte 0`}}},
		"two commas":              {in: `[{},,{}]`, want: []record{{`{}`, 1, ""}, {"", 1, `',' where a record is expected at byte 0`}}},
		"after the array":         {in: `[{}]x`, want: []record{{`{}`, 1, ""}, {"", 1, `'x' after the end of the array at byte 0`}}},
		"lines":                   {in: "{\"a\":1}\n\n{bad\r\n{\"b\":2}", want: []record{{`{"a":1}`, 1, ""}, {`{bad`, 3, ""}, {`{"b":2}`, 4, ""}}},
		"byte order mark":         {in: "\xEF\xBB\xBF{\"a\":1}\n", want: []record{{`{"a":1}`, 1, ""}}},
		"one pretty object":       {in: "{\n \"a\": 1\n}\n{\n \"b\": 2\n}", want: []record{{"{\n \"a\": 1\n}", 1, ""}, {"{\n \"b\": 2\n}", 4, ""}}},
		"forced lines":            {in: "{\n}\n", form: Lines, want: []record{{"{", 1, ""}, {"}", 2, ""}}},
		"empty":                   {in: " \n "},
		"too large": {in: `[{"a":"` + strings.Repeat("x", 100) + `"},{"b":1}]`,
			want: []record{{"", 1, ErrRecordTooLarge.Error()}, {`{"b":1}`, 1, ""}}},
		"too large line": {in: `{"a":"` + strings.Repeat("x", 100) + "\"}\n{\"b\":1}", form: Lines,
			want: []record{{"", 1, ErrRecordTooLarge.Error()}, {`{"b":1}`, 2, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, drain(t, strings.NewReader(c.in), c.form, 64))
			if c.form != Auto || !strings.Contains(name, "pretty") && !strings.Contains(name, "mark") {
				require.Equal(t, c.want, drain(t, iotest.OneByteReader(strings.NewReader(c.in)), c.form, 64))
			}
		})
	}
}

func TestStreamLimit(t *testing.T) {
	fits, over := `{"a":"`+strings.Repeat("x", 56)+`"}`, `{"a":"`+strings.Repeat("x", 57)+`"}`
	require.Len(t, fits, 64)
	for _, form := range []Form{Array, Lines} {
		in := map[Form]string{Array: "[" + fits + "," + over + "]", Lines: fits + "\r\n" + over}[form]
		got := drain(t, strings.NewReader(in), form, 64)
		require.Len(t, got, 2)
		require.Equal(t, fits, got[0].text)
		require.Equal(t, ErrRecordTooLarge.Error(), got[1].err)
	}
}

func TestStreamReaderError(t *testing.T) {
	boom := errors.New("boom")
	s := NewStream(io.MultiReader(strings.NewReader(`[{"a":1},{"b"`), iotest.ErrReader(boom)), Auto, 64)
	_, _, err := s.Next()
	require.NoError(t, err)
	_, _, err = s.Next()
	require.ErrorIs(t, err, boom)
	_, _, err = s.Next()
	require.ErrorIs(t, err, io.EOF)
}

func TestGetAndElements(t *testing.T) {
	require.Equal(t, `2`, string(Get([]byte(`{"a":1,"b":{"a":3},"a":2}`), "a")))
	require.Equal(t, `1`, string(Get([]byte(`{"\u0061":1}`), "a")))
	require.Nil(t, Get([]byte(`[1]`), "a"))
	var got []string
	Elements([]byte(` [1, {"a":[2]}, "x"]`), func(e []byte) bool { got = append(got, string(e)); return len(got) < 2 })
	require.Equal(t, []string{`1`, `{"a":[2]}`}, got)
}

// FuzzValid compares with the standard library: what the scanner takes is valid JSON there, and what it refuses
// without naming a limit is invalid there too.
func FuzzValid(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\u00e9"]}`, `[[[]]]`, `01`, `"\ud800"`, `{"a":1,}`, "\"\x00\"", `-`, `1e400`, `{"a" :null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := Valid(data, Limits{})
		var e *Error
		if errors.As(err, &e) && e.IsLimit {
			return
		}
		if got, want := err == nil, json.Valid(data); got != want {
			t.Fatalf("valid %v, want %v: %v", got, want, err)
		}
		if err == nil {
			PointerAt(data, len(data)/2)
		}
	})
}

// FuzzStream: every record of a valid array comes out, whatever the layout.
func FuzzStream(f *testing.F) {
	for _, s := range []string{`[{"a":"]"},[1,[2]],3]`, "{\"a\":1}\n{\"b\":2}", `[`, `[,]`, "{\n}", `[1 2]`, `["a\"]"]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want []json.RawMessage
		isArray := json.Unmarshal(data, &want) == nil && want != nil
		got := drain(t, strings.NewReader(string(data)), Auto, 1<<20)
		if !isArray {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%d records, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i].text != string(want[i]) {
				t.Fatalf("record %d is %q, want %q", i, got[i].text, want[i])
			}
		}
	})
}
