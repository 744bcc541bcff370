package schema

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows/value"
)

func compile(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := Compile(json.RawMessage(text))
	require.NoError(t, err, text)
	return s
}

func decodeText(t testing.TB, text string) any {
	t.Helper()
	v, err := value.Decode([]byte(text))
	require.NoError(t, err, text)
	return v
}

// locTypes writes violations as the vectors do: loc:type;loc:type.
func locTypes(violations []Violation) string {
	parts := make([]string, len(violations))
	for i, v := range violations {
		parts[i] = v.Loc + ":" + v.Type
	}
	return strings.Join(parts, ";")
}

// The coercion vectors were made with the reference; each one is a tool whose input is the flow's input.
func TestCoercionVectors(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", "executor.json"))
	require.NoError(t, err)
	var file struct {
		Vectors []struct {
			ID    string
			Tools []struct {
				InputSchema json.RawMessage `json:"input_schema"`
			}
			Input  json.RawMessage
			Expect struct {
				Success bool
				Output  json.RawMessage `json:"final_output"`
				Steps   []struct {
					Error string `json:"error_message"`
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &file))
	inBrackets := regexp.MustCompile(`VALIDATION\[(.*)\]`)
	ran := 0
	for _, v := range file.Vectors {
		if !strings.HasPrefix(v.ID, "executor/coerce-") {
			continue
		}
		ran++
		s, err := Compile(v.Tools[0].InputSchema)
		require.NoError(t, err, v.ID)
		out, violations := s.Apply(decodeText(t, string(v.Input)))
		accepted, same := s.Accept(decodeText(t, string(v.Input)))
		assert.Equal(t, out, accepted, v.ID)
		assert.Equal(t, violations, same, v.ID)
		if v.Expect.Success {
			require.Empty(t, violations, v.ID)
			want := decodeText(t, string(v.Expect.Output))
			assert.Equal(t, want, out, v.ID) // types too: 5.0 as an integer is int64
			continue
		}
		assert.Equal(t, inBrackets.FindStringSubmatch(v.Expect.Steps[0].Error)[1], locTypes(violations), v.ID)
	}
	assert.Equal(t, 59, ran)
}

func TestApply(t *testing.T) {
	for _, c := range []struct{ name, schema, in, want, violations string }{
		{"drops unknown keys", `{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"a":1,"b":2}`, `{"a":1}`, ""},
		{"keeps unknown keys", `{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":true}`, `{"a":"1","b":2}`, `{"a":1,"b":2}`, ""},
		{"forbids unknown keys, sorted, after declared errors", `{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{"z":1,"b":2,"a":"x"}`, "", "a:int_parsing;b:extra_forbidden;z:extra_forbidden"},
		{"injected values do not hide an extra", `{"type":"object","properties":{"a":{},"n":{"type":["string","null"]}},"additionalProperties":false}`, `{"a":1,"x":2}`, "", "x:extra_forbidden"},
		{"object without properties keeps all", `{"type":"object"}`, `{"a":{"b":[1]}}`, `{"a":{"b":[1]}}`, ""},
		{"empty properties drop all", `{"type":"object","properties":{}}`, `{"a":1}`, `{}`, ""},
		{"default", `{"type":"object","properties":{"a":{"type":"integer","default":3}}}`, `{}`, `{"a":3}`, ""},
		{"null for absent nullable", `{"type":"object","properties":{"a":{"type":["integer","null"]},"b":{"type":"integer"},"c":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{}`, `{"a":null,"c":null}`, ""},
		{"x-absent omits", `{"x-absent":"omit","type":"object","properties":{"a":{"type":["integer","null"]}}}`, `{}`, `{}`, ""},
		{"declaration order of errors", `{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"integer"},"c":{}},"required":["c","a"]}`, `{"a":"x","b":"y"}`, "", "b:int_parsing;a:int_parsing;c:missing"},
		{"nested location", `{"type":"object","properties":{"o":{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"k":{"type":"integer"}},"required":["k"]}}}}}}`, `{"o":{"l":[{"k":1},{},3]}}`, "", "o.l.1.k:missing;o.l.2:model_type"},
		{"root", `{"type":"object"}`, `[1]`, "", "$:model_type"},
		{"big integers keep their digits", `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"number"}}}`, `{"a":"123456789012345678901234567890","b":9007199254740993,"c":9007199254740993}`, `{"a":123456789012345678901234567890,"b":9007199254740993,"c":9007199254740993}`, ""},
		{"union prefers the exact member", `{"type":"object","properties":{"v":{"anyOf":[{"type":"integer"},{"type":"string"}]}}}`, `{"v":"5"}`, `{"v":"5"}`, ""},
		{"type list prefers the exact member", `{"type":"object","properties":{"v":{"type":["integer","string"]}}}`, `{"v":"5"}`, `{"v":"5"}`, ""},
		{"nullable reports its own type", `{"type":"object","properties":{"v":{"type":["integer","null"]}}}`, `{"v":"x"}`, "", "v:int_parsing"},
		{"labels of alternatives", `{"type":"object","properties":{"v":{"anyOf":[{"type":"integer","minimum":5},{"enum":["a",1,null]},{"type":"array","items":{"type":["integer","null"]}},{"type":"object","additionalProperties":{"type":"string"}},{"title":"NM","type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}]}}}`, `{"v":false}`, "", "v.constrained-int:greater_than_equal;v.literal['a',1,None]:literal_error;v.list[nullable[int]]:list_type;v.dict[str,str]:dict_type;v.NM:model_type"},
		{"null has no label", `{"type":"object","properties":{"v":{"type":["array","null"],"items":{"type":"integer"}}}}`, `{"v":[null]}`, "", "v.0:int_type"},
		{"alternatives of alternatives", `{"type":"object","properties":{"v":{"anyOf":[{"type":"integer"},{"anyOf":[{"type":"string"},{"type":"integer"}]}]}}}`, `{"v":[]}`, "", "v.int:int_type;v.str:string_type"},
		{"an exact alternative wins deep inside", `{"type":"object","properties":{"v":{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"array","items":{"type":"string"}}]}}}`, `{"v":["1"]}`, `{"v":["1"]}`, ""},
		{"the object that knows more keys wins", `{"type":"object","properties":{"v":{"anyOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a"]}]}}}`, `{"v":{"a":1,"b":2}}`, `{"v":{"a":1,"b":2}}`, ""},
		{"underscores in a number", `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}`, `{"a":"1_0.5_0e1_0","b":"1._5"}`, `{"a":105000000000.0,"b":1.5}`, ""},
		{"underscores or blanks", `{"type":"object","properties":{"a":{"type":"number"}}}`, `{"a":" 1_0"}`, "", "a:float_parsing"},
		{"too large for a boolean", `{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"boolean"}}}`, `{"a":9223372036854775808,"b":1e300}`, "", "a:bool_type;b:bool_type"},
		{"no member fits", `{"type":"object","properties":{"v":{"anyOf":[{"type":"integer"},{"type":"boolean"}]}}}`, `{"v":[]}`, "", "v.int:int_type;v.bool:bool_type"},
		{"enum yields its own value", `{"type":"object","properties":{"v":{"type":"integer","enum":[1,2]}}}`, `{"v":1.0}`, `{"v":1}`, ""},
		{"const", `{"type":"object","properties":{"v":{"const":"a"}}}`, `{"v":"b"}`, "", "v:literal_error"},
		{"exclusive bounds", `{"type":"object","properties":{"v":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}}}`, `{"v":1}`, "", "v:less_than"},
		{"the tighter minimum counts", `{"type":"object","properties":{"v":{"type":"integer","minimum":3,"exclusiveMinimum":3}}}`, `{"v":3}`, "", "v:greater_than"},
		{"looser exclusive minimum", `{"type":"object","properties":{"v":{"type":"integer","minimum":3,"exclusiveMinimum":1}}}`, `{"v":3}`, `{"v":3}`, ""},
		{"maxLength 0", `{"type":"object","properties":{"v":{"type":"string","maxLength":0}}}`, `{"v":"a"}`, "", "v:string_too_long"},
		{"items count", `{"type":"object","properties":{"v":{"type":"array","minItems":1},"w":{"type":"array","maxItems":1}}}`, `{"v":[],"w":[1,2]}`, "", "v:too_short;w:too_long"},
		{"local reference", `{"type":"object","properties":{"v":{"$ref":"#/$defs/p"}},"$defs":{"p":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}}`, `{"v":{"x":"1","y":2}}`, `{"v":{"x":1}}`, ""},
		{"recursive reference", `{"type":"object","properties":{"n":{"type":"integer"},"next":{"$ref":"#"}}}`, `{"n":"1","next":{"n":"2","next":{"n":"x"}}}`, "", "next.next.n:int_parsing"},
		{"false", `{"type":"object","properties":{"v":false}}`, `{"v":1}`, "", "v:never"},
		{"untyped with properties", `{"properties":{"v":{"type":"integer"}}}`, `{"v":"1"}`, `{"v":1}`, ""},
		{"multipleOf through the full validator, after coercion", `{"type":"object","properties":{"v":{"type":"integer","multipleOf":5}}}`, `{"v":"7"}`, "", "v:multiple_of"},
		{"pattern properties are kept", `{"type":"object","properties":{"a":{"type":"integer"}},"patternProperties":{"^x-":{"type":"string"}}}`, `{"a":"1","x-b":"c"}`, `{"a":1,"x-b":"c"}`, ""},
		{"pattern properties are checked", `{"type":"object","patternProperties":{"^x-":{"type":"string"}}}`, `{"x-b":1}`, "", "x-b:type"},
		{"alternatives beside properties", `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, "", "$:any_of"},
		{"injected null is not seen by the full validator", `{"type":"object","properties":{"a":{"type":["integer","null"]}},"maxProperties":0}`, `{}`, `{"a":null}`, ""},
		{"oneOf", `{"type":"object","properties":{"v":{"oneOf":[{"type":"integer"},{"type":"number"}]}}}`, `{"v":1}`, "", "v:one_of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := decodeText(t, c.in)
			before := string(value.Encode(in))
			out, violations := compile(t, c.schema).Apply(in)
			accepted, same := compile(t, c.schema).Accept(in)
			assert.Equal(t, out, accepted)
			assert.Equal(t, violations, same)
			assert.Equal(t, c.violations, locTypes(violations))
			if c.violations == "" {
				assert.Equal(t, c.want, string(value.Encode(out)))
			} else {
				assert.Nil(t, out)
				assert.NotContains(t, Describe(violations), ": ;")
			}
			assert.Equal(t, before, string(value.Encode(in)), "the input must not change")
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                                   "a schema must be an object",
		`{"type":"text"}`:                      "type must be one or more of",
		`{"properties":[]}`:                    "properties must be an object",
		`{"properties":{"a/b":{"type":1}}}`:    "/properties/a~1b: type",
		`{"required":"a"}`:                     "required must be a list",
		`{"required":[1]}`:                     "required must list names",
		`{"pattern":"("}`:                      "is not supported",
		`{"pattern":"(?=a)"}`:                  "is not supported",
		`{"minimum":"1"}`:                      "minimum must be a number",
		`{"minLength":-1}`:                     "minLength must be a size",
		`{"anyOf":[]}`:                         "anyOf must be a list",
		`{"$ref":"other.json"}`:                "does not point into this document",
		`{"$ref":"#/$defs/none"}`:              "leads nowhere",
		`{"$ref":"#"}`:                         "leads in a circle",
		`{"allOf":[{"$ref":"file:///etc/x"}]}`: "nothing else is loaded",
		`{`:                                    "invalid JSON",
	} {
		_, err := Compile(json.RawMessage(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestEmptyTakesEverything(t *testing.T) {
	s, err := Compile(nil)
	require.NoError(t, err)
	out, violations := s.Apply(int64(3))
	assert.Empty(t, violations)
	assert.Equal(t, int64(3), out)
}

func TestFieldsAndAt(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"user":{"type":"object","description":"who","properties":{"id":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}},"nick":{"type":["string","null"]}},"required":["id","tags"]},"n":{"enum":[1]},"any":{},"u":{"anyOf":[{"type":"integer"},{"type":"string"}]}},"required":["user"]}`)
	var got []string
	for _, f := range s.Fields() {
		got = append(got, fmt.Sprintf("%s:%s:%v:%s", f.Name, f.Type, f.Required, f.Description))
	}
	assert.Equal(t, []string{"user:object:true:who", "n:enum:false:", "any:any:false:", "u:integer|string:false:"}, got)
	for pointer, want := range map[string]string{
		"/user/id": "string true", "/user/tags": "array<string> true", "/user/tags/0": "string false", "/user/nick": "string|null false",
		"/n": "enum false", "/any/x/y": "any false", "/user/zz": "nil", "/user/id/x": "nil", "/user/tags/x": "nil", "": "object true",
	} {
		p, err := value.ParsePointer(pointer)
		require.NoError(t, err)
		sub, proven := s.At(p)
		text := "nil"
		if sub != nil {
			text = fmt.Sprintf("%s %v", sub.Type(), proven)
		}
		assert.Equal(t, want, text, pointer)
	}
	_, ok := s.Field("user")
	assert.True(t, ok)
	_, ok = s.Field("nobody")
	assert.False(t, ok)
	assert.True(t, s.IsObject())
	for text, drops := range map[string]bool{`{"type":"object","properties":{}}`: true, `{"type":"object"}`: false, `{}`: false,
		`{"type":"object","properties":{},"additionalProperties":false}`: false, `{"type":"object","properties":{},"additionalProperties":true}`: false} {
		assert.Equal(t, drops, compile(t, text).DropsUnknown(), text)
	}
}

func TestAssignable(t *testing.T) {
	for _, c := range []struct{ out, in, reason string }{
		{`{"type":"string"}`, `{"type":"string"}`, ""},
		{`{"type":"integer"}`, `{"type":"number"}`, ""},
		{`{"type":"number"}`, `{"type":"integer"}`, "number is not integer"},
		{`{"type":"string"}`, `{"type":"integer"}`, "string is not integer"},
		{`{}`, `{"type":"integer"}`, ""},
		{`{"type":"integer"}`, `{}`, ""},
		{`{"type":["string","null"]}`, `{"type":"string"}`, ""},
		{`{"type":"null"}`, `{"type":"string"}`, "null is not string"},
		{`{"type":["string","integer"]}`, `{"type":"string"}`, "string|integer is not string"},
		{`{"enum":["a"]}`, `{"type":"string"}`, ""},
		{`{"type":"string"}`, `{"enum":["a"]}`, ""},
		{`{"type":"string"}`, `{"enum":[1]}`, "string is not enum"},
		{`{"type":"array","items":{"type":"string"}}`, `{"type":"array","items":{"type":"integer"}}`, "items: string is not integer"},
		{`{"type":"array"}`, `{"type":"array","items":{"type":"integer"}}`, ""},
		{`{"type":"integer"}`, `{"anyOf":[{"type":"string"},{"type":"number"}]}`, ""},
		{`{"type":"boolean"}`, `{"anyOf":[{"type":"string"},{"type":"number"}]}`, "boolean is none of string|number"},
		{`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"integer"}}}`, "a: string is not integer"},
		{`{"type":"object","properties":{"b":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, "a is missing"},
		{`{"type":"object"}`, `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, ""},
		{`{"type":"object","properties":{"n":{"$ref":"#"}}}`, `{"type":"object","properties":{"n":{"$ref":"#"}}}`, ""},
	} {
		ok, reason := Assignable(compile(t, c.out), compile(t, c.in))
		assert.Equal(t, c.reason, reason, "%s -> %s", c.out, c.in)
		assert.Equal(t, c.reason == "", ok)
	}
}

func TestFingerprint(t *testing.T) {
	a := `{"title":"X","type":"object","properties":{"title":{"type":"string","title":"T","description":"d"},"b":{"enum":["title"],"default":{"title":1}}},"required":["title","b"]}`
	same := `{"properties":{"b":{"default":{"title":1},"enum":["title"]},"title":{"type":"string"}},"required":["b","title"],"type":"object"}`
	for _, other := range []string{
		`{"properties":{"b":{"default":{"title":2},"enum":["title"]},"title":{"type":"string"}},"required":["b","title"],"type":"object"}`,
		`{"properties":{"b":{"default":{"title":1},"enum":["title"]}},"required":["b","title"],"type":"object"}`,
	} {
		fa, err := Fingerprint(json.RawMessage(a))
		require.NoError(t, err)
		fo, err := Fingerprint(json.RawMessage(other))
		require.NoError(t, err)
		assert.NotEqual(t, fa, fo)
	}
	fa, err := Fingerprint(json.RawMessage(a))
	require.NoError(t, err)
	fs, err := Fingerprint(json.RawMessage(same))
	require.NoError(t, err)
	assert.Equal(t, fa, fs)
	assert.Len(t, fa, 16)
	pa, err := PeerFingerprint(json.RawMessage(a))
	require.NoError(t, err)
	ps, err := PeerFingerprint(json.RawMessage(same))
	require.NoError(t, err)
	assert.NotEqual(t, pa, ps)
}

func TestPythonFloat(t *testing.T) {
	for want, f := range map[string]float64{"1.0": 1, "1e+20": 1e20, "1e-07": 1e-7, "0.0001": 1e-4, "1e+16": 1e16, "1234567890123456.0": 1234567890123456, "-2.5": -2.5} {
		assert.Equal(t, want, pythonFloat(f))
	}
	assert.Equal(t, `"\u00e9\ud83d\ude00\u007f"`, string(appendASCII(nil, "é😀\x7f")))
}

func FuzzSchemaApply(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":["integer","null"]},"b":{"$ref":"#"}},"required":["a"],"additionalProperties":false}`), []byte(`{"a":"5"}`))
	f.Add([]byte(`{"anyOf":[{"type":"string","pattern":"^a+$"},{"type":"array","items":{"type":"boolean"}}]}`), []byte(`["yes",0]`))
	f.Add([]byte(`{"enum":[1,"a",true]}`), []byte(`false`))
	f.Add([]byte(`{"type":"number","multipleOf":0.5,"not":{"const":1}}`), []byte(`"1_0.5"`))
	f.Fuzz(func(t *testing.T, schemaText, doc []byte) {
		s, err := Compile(schemaText)
		if err != nil {
			return
		}
		v, err := value.Decode(doc)
		if err != nil {
			return
		}
		out, violations := s.Apply(v)
		if accepted, same := s.Accept(v); !reflect.DeepEqual(accepted, out) || !reflect.DeepEqual(same, violations) {
			t.Fatalf("%s on %s: Accept gives %#v %v, Apply %#v %v", schemaText, doc, accepted, same, out, violations)
		}
		if len(violations) > 0 {
			if out != nil || Describe(violations) == "" {
				t.Fatalf("%s on %s: value beside violations", schemaText, doc)
			}
			return
		}
		if _, err := value.Decode(value.Encode(out)); err != nil {
			t.Fatalf("%s on %s gives no JSON value: %v", schemaText, doc, err)
		}
	})
}

func BenchmarkApply(b *testing.B) {
	s := compile(b, `{"type":"object","properties":{"order_id":{"type":"string"},"user":{"type":"object","properties":{"id":{"type":"string"},"age":{"type":"integer"}},"required":["id"]},"items":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"price":{"type":"number"}}}}},"required":["order_id"],"additionalProperties":false}`)
	v := decodeText(b, `{"order_id":"#W1","user":{"id":"u","age":"41"},"items":[{"id":"a","price":1.5},{"id":"b","price":"2.5"}]}`)
	for b.Loop() {
		if _, violations := s.Apply(v); violations != nil {
			b.Fatal(violations)
		}
	}
}

// TestLocations: locations are the keys and indexes on the way, whatever the keys are called.
func TestLocations(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"$":{"type":"object","properties":{"":{"type":"integer"}},"required":["x"]},
		"u":{"type":["array","null"],"items":{"anyOf":[{"type":"object","properties":{"n":{"type":"integer"}}},{"type":"null"}]}}}}`)
	_, violations := s.Apply(map[string]any{"$": map[string]any{"": "no"}, "u": []any{nil, map[string]any{"n": "no"}}})
	var locs []string
	for _, v := range violations {
		locs = append(locs, v.Loc+":"+v.Type)
	}
	assert.Equal(t, []string{"$.:int_parsing", "$.x:missing", "u.1.n:int_parsing"}, locs)
	_, violations = s.Apply(1)
	assert.Equal(t, "$", violations[0].Loc)
}

// Complete makes every declared property present; Apply does where its type allows null, and "x-absent" keeps them out.
func TestCompleteFillsWhatIsAbsent(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"integer"},"n":{"type":"object","properties":{"b":{"type":"string"}}},"d":{"type":"string","default":"x"}}}`: `{"a":null,"d":"x","n":{"b":null}}`,
		`{"x-absent":"omit","type":"object","properties":{"a":{"type":["integer","null"]},"n":{"type":"object","properties":{"b":{"type":"string"}}}}}`:          `{"n":{}}`,
	} {
		s, err := Compile([]byte(raw))
		require.NoError(t, err)
		got, violations := s.Complete(map[string]any{"n": map[string]any{}})
		require.Empty(t, violations)
		assert.JSONEq(t, want, string(value.Encode(got)))
	}
}
