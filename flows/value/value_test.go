package value

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecodeForms(t *testing.T) {
	for text, want := range map[string]any{
		`null`:                          nil,
		` true `:                        true,
		`-0`:                            int64(0),
		`1.0`:                           1.0,
		`1e3`:                           1000.0,
		`9007199254740993`:              int64(9007199254740993),
		`-9223372036854775808`:          int64(math.MinInt64),
		`9223372036854775808`:           json.Number("9223372036854775808"),
		`"a\u00e9\n\ud83d\ude00"`:       "aé\n😀",
		`[1,[],{}]`:                     []any{int64(1), []any{}, map[string]any{}},
		`{"b":{"c":null},"a":"\u0000"}`: map[string]any{"a": "\x00", "b": map[string]any{"c": nil}},
		`{"a":1,"a":2}`:                 map[string]any{"a": int64(2)},
	} {
		got, err := Decode([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, text := range []string{
		``, ` `, `NaN`, `Infinity`, `-`, `01`, `1.`, `.5`, `1e`, `+1`, `1e999`, `"a`, `"\x"`, "\"a\nb\"", `[1,]`, `[1 2]`,
		`{"a"}`, `{"a":1,}`, `{a:1}`, `{} {}`, `nul`, `tru`, `[`, `{"a":`, "\x00",
	} {
		_, err := Decode([]byte(text))
		var e *Error
		require.ErrorAs(t, err, &e, "%q", text)
		assert.Empty(t, e.Limit, "%q", text)
	}
}

func TestStrictRefusesRepeatedKeys(t *testing.T) {
	_, err := DecodeStrict([]byte(`{"a":1,"b":{"x":1,"x":1}}`))
	require.ErrorContains(t, err, `duplicate key "x"`)
	_, err = DecodeStrict([]byte(`{"a":{"x":1},"b":{"x":1}}`))
	require.NoError(t, err)
}

func TestDecodeLimits(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	_, err := Decode(nested(MaxDepth))
	require.NoError(t, err)
	_, err = Decode(nested(MaxDepth + 1))
	var e *Error
	require.True(t, errors.As(err, &e))
	assert.Equal(t, LimitDepth, e.Limit)

	_, err = DecodeOrdered([]byte(`[1,2]`), Limits{Nodes: 3})
	require.NoError(t, err)
	_, err = DecodeOrdered([]byte(`[1,2,3]`), Limits{Nodes: 3})
	require.True(t, errors.As(err, &e))
	assert.Equal(t, LimitNodes, e.Limit)
}

func TestOrderedKeepsDeclarationOrder(t *testing.T) {
	text := `{"z":1,"a":{"y":[{"c":1,"b":2}],"x":null}}`
	v, err := DecodeOrdered([]byte(text), Limits{})
	require.NoError(t, err)
	assert.Equal(t, text, string(Encode(v)))
	assert.Equal(t, `{"a":{"x":null,"y":[{"b":2,"c":1}]},"z":1}`, string(Canonical(v)))
	plain, err := Decode([]byte(text))
	require.NoError(t, err)
	assert.Equal(t, plain, Plain(v))
	assert.True(t, Equal(v, plain))
}

func TestEncode(t *testing.T) {
	v := map[string]any{"b": []any{1.0, 2.5, int64(3), json.Number("18446744073709551616"), 1e21, 1e-7}, "a": "<é\u2028\x01\"\\>"}
	assert.Equal(t, "{\"a\":\"<é\u2028\\u0001\\\"\\\\>\",\"b\":[1.0,2.5,3,18446744073709551616,1e+21,1e-7]}", string(Encode(v)))
	assert.Equal(t, "null", string(Encode(math.NaN())))
	assert.Equal(t, `{"X":1}`, string(Encode(struct{ X int }{1})))
	assert.Equal(t, "null", string(Encode(make(chan int))))
}

// The number samples are those of RFC 8785, appendix B.
func TestCanonicalNumbersOfRFC8785(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		assert.Equal(t, want, string(Canonical(math.Float64frombits(bits))), "%x", bits)
	}
}

// The order sample is that of RFC 8785, section 3.2.3.
func TestCanonicalKeyOrder(t *testing.T) {
	v, err := Decode([]byte(`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`))
	require.NoError(t, err)
	assert.Equal(t, "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}", string(Canonical(v)))
}

func TestEqualAndHashAgree(t *testing.T) {
	classes := [][]any{
		{nil},
		{true}, {false},
		{int64(1), 1.0, json.Number("1"), 1},
		{int64(0), 0.0, math.Copysign(0, -1)},
		{"1"}, {""}, {"a"},
		{1.5, json.Number("1.5")},
		{int64(9007199254740993)}, {int64(9007199254740992), 9007199254740992.0},
		{json.Number("100000000000000000000"), 1e20},
		{[]any{}}, {map[string]any{}, Members{}},
		{[]any{int64(1), int64(2)}, []any{1.0, 2.0}}, {[]any{int64(2), int64(1)}}, {[]any{[]any{int64(1)}, int64(2)}},
		{map[string]any{"a": int64(1), "b": "x"}, Members{{"b", "x"}, {"a", 1.0}}},
		{map[string]any{"a": "x", "b": int64(1)}}, {map[string]any{"a": nil}},
	}
	key := Key{1, 2, 3}
	for i, a := range classes {
		for j, b := range classes {
			for _, x := range a {
				for _, y := range b {
					assert.Equal(t, i == j, Equal(x, y), "%#v %#v", x, y)
					assert.Equal(t, i == j, string(Canonical(x)) == string(Canonical(y)), "%#v %#v", x, y)
					assert.Equal(t, i == j, Hash(key, x) == Hash(key, y), "%#v %#v", x, y)
				}
			}
		}
	}
	assert.NotEqual(t, Hash(Key{1}, "a"), Hash(Key{2}, "a"))
}

// The samples are the reference vectors of SipHash-2-4 for the key 00..0f and the inputs of 0, 8 and 15 bytes
// 00, 01, 02...
func TestSipHashVectors(t *testing.T) {
	h := hasher{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	in := "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e"
	assert.Equal(t, uint64(0x726fdb47dd0e0e31), h.text(""))
	assert.Equal(t, uint64(0x93f5f5799a932462), h.text(in[:8]))
	assert.Equal(t, uint64(0xa129ca6149be45e5), h.text(in))
}

func TestPointer(t *testing.T) {
	doc, err := Decode([]byte(`{"a":{"b":[10,{"c":null}]},"":{"":1},"x/y":2,"m~n":3,"~1":4,"0":5,"s":"text"}`))
	require.NoError(t, err)
	for text, want := range map[string]any{
		"/a/b/0": int64(10), "/a/b/1/c": nil, "/": map[string]any{"": int64(1)}, "//": int64(1), "/x~1y": int64(2),
		"/m~0n": int64(3), "/~01": int64(4), "/0": int64(5),
	} {
		p, err := ParsePointer(text)
		require.NoError(t, err)
		got, ok := p.Get(doc)
		assert.True(t, ok, text)
		assert.Equal(t, want, got, text)
		assert.Equal(t, text, p.String())
		assert.Nil(t, p.Missing(doc), text)
	}
	for text, missing := range map[string]string{
		"/a/b/2": "/a/b/2", "/a/b/-1": "/a/b/-1", "/a/b/00": "/a/b/00", "/a/b/01/c": "/a/b/01", "/a/b/+1": "/a/b/+1",
		"/a/b/-": "/a/b/-", "/a/b/١": "/a/b/١", "/s/0": "/s/0", "/a/b/1/c/d": "/a/b/1/c/d", "/zz/y": "/zz",
		"/a/b/99999999999999999999": "/a/b/99999999999999999999",
	} {
		p, err := ParsePointer(text)
		require.NoError(t, err)
		_, ok := p.Get(doc)
		assert.False(t, ok, text)
		assert.Equal(t, missing, p.Missing(doc).String())
	}
	whole, err := ParsePointer("")
	require.NoError(t, err)
	got, ok := whole.Get(doc)
	assert.True(t, ok)
	assert.Equal(t, doc, got)
	_, err = ParsePointer("a")
	assert.Error(t, err)
}

func FuzzValueDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"x",null,true],"b":{"c":1e-9}}`, `"\ud800"`, `[9007199254740993,1E20]`, `{"a":1,"a":2}`, `-0.0`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Decode(data)
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("encoding/json refuses %q", data)
		}
		again, err := Decode(Encode(v))
		if err != nil {
			t.Fatalf("%q does not decode: %v", Encode(v), err)
		}
		if string(Encode(again)) != string(Encode(v)) || !Equal(v, again) || Hash(Key{7}, v) != Hash(Key{7}, again) {
			t.Fatalf("%q is not a fixed point", data)
		}
		canonical, err := Decode(Canonical(v))
		if err != nil || !Equal(canonical, v) || string(Canonical(canonical)) != string(Canonical(v)) {
			t.Fatalf("canonical form of %q: %v", data, err)
		}
	})
}

func FuzzPointer(f *testing.F) {
	f.Add("/a/b~1c/0", []byte(`{"a":{"b/c":[1]}}`))
	f.Add("", []byte(`1`))
	f.Add("/~2/~", []byte(`{"~2":{"~":1}}`))
	f.Fuzz(func(t *testing.T, text string, doc []byte) {
		p, err := ParsePointer(text)
		if err != nil {
			return
		}
		again, err := ParsePointer(p.String())
		if err != nil || again.String() != p.String() {
			t.Fatalf("%q: %v", text, err)
		}
		v, err := Decode(doc)
		if err != nil {
			return
		}
		if _, ok := p.Get(v); ok != (p.Missing(v) == nil) {
			t.Fatalf("Get and Missing disagree on %q", text)
		}
		got, _ := p.Get(v)
		if found, ok := Lookup(v, text); ok != (p.Missing(v) == nil) || !Equal(found, got) {
			t.Fatalf("Lookup and Get disagree on %q", text)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data := []byte(`{"user_id":"mia_li_3668","name":{"first":"Mia","last":"Li"},"orders":["#W1","#W2"],"items":[{"id":12,"price":12.5,"ok":true},{"id":13,"price":1.25,"ok":false}]}`)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	v := any("mia_li_3668")
	for b.Loop() {
		Hash(Key{1}, v)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	text := `{"a":[1,{"b":null},[]],"o":{"big":123456789012345678901234567890,"f":1.5},"s":"x"}`
	v, err := Decode([]byte(text))
	require.NoError(t, err)
	original := v.(map[string]any)
	c := CloneObject(original)
	assert.Equal(t, original, c)
	c["a"].([]any)[1].(map[string]any)["b"] = "changed"
	c["a"].([]any)[0] = "changed"
	c["o"].(map[string]any)["f"] = "changed"
	c["new"] = true
	again, err := Decode([]byte(text))
	require.NoError(t, err)
	assert.Equal(t, again, v)
	assert.Nil(t, CloneObject(nil))
}
