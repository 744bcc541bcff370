package expr

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows/schema"
	"pave/flows/value"
)

const contextSchema = `{"type":"object","required":["user","items","n","price","tags","any","flag","variants"],"properties":{
  "user":{"type":"object","required":["name","age"],"properties":{"name":{"type":"string"},"age":{"type":"integer"},"nick":{"type":"string"}},"additionalProperties":false},
  "items":{"type":"array","items":{"type":"object","required":["id","total"],"properties":{"id":{"type":"string"},"total":{"type":"number"},"status":{"type":"string"}}}},
  "n":{"type":"integer"},"price":{"type":"number"},"tags":{"type":"array","items":{"type":"string"}},"any":{},"flag":{"type":"boolean"},
  "maybe":{"type":"string"},"nul":{"type":["integer","null"]},
  "variants":{"type":"object","additionalProperties":{"type":"object","required":["price"],"properties":{"price":{"type":"number"}}}}}}`

func variables(t testing.TB) []Variable {
	s, err := schema.Compile([]byte(contextSchema))
	require.NoError(t, err)
	var out []Variable
	for _, f := range s.Fields() {
		out = append(out, Variable{f.Name, f.Schema, f.Required})
	}
	return out
}

func decode(t testing.TB, text string) map[string]any {
	v, err := value.Decode([]byte(text))
	require.NoError(t, err)
	return v.(map[string]any)
}

const contextValue = `{"user":{"name":"Ann","age":41},"items":[{"id":"o1","total":12,"status":"delivered"},{"id":"o2","total":30.5}],
  "n":7,"price":3,"tags":["b","a"],"any":{"z":1,"a":[true,null]},"flag":true,"nul":null,"variants":{"v2":{"price":2},"v1":{"price":1.5}},
  "big":12345678901234567890,"odd key":1}`

func TestEval(t *testing.T) {
	for _, tc := range []struct{ source, want, kind, mayFail string }{
		{`user.name + '-' + string(n)`, `"Ann-7"`, "string", ""},
		{`user["name"]`, `"Ann"`, "string", ""},
		{`items.filter(i, i.total > 20).map(i, i.id)`, `["o2"]`, "array<string>", ""},
		{`items.filter(i, i.id == "o1")[0].status`, `"delivered"`, "string", "an index may have no value"},
		{`items.exists(i, has(i.status))`, `true`, "boolean", ""},
		{`items.all(i, i.total > 0.0)`, `true`, "boolean", ""},
		{`items.exists_one(i, i.id == "o2")`, `true`, "boolean", "+ may have no value"},
		{`size(tags) > 1 ? tags : []`, `["b","a"]`, "array<string>", ""},
		{`price * 2.0`, `6.0`, "number", "* may have no value"},
		{`price > 2`, `true`, "boolean", ""},
		{`string(price)`, `"3"`, "string", ""},
		{`n + 1`, `8`, "integer", "+ may have no value"},
		{`n`, `7`, "integer", ""},
		{`maybe`, `no such attribute(s): maybe`, "string", "'maybe' may be absent"},
		{`user.nick`, `no such key: nick`, "string", "'nick' may be absent"},
		{`has(user.nick) ? user.nick : user.name`, `"Ann"`, "string", "'nick' may be absent"},
		{`nul`, `null`, "integer|null", "'nul' may be absent"},
		{`nul == null ? 0 : 1`, `0`, "integer", "'nul' may be absent"},
		{`any.a[0]`, `true`, "", "'a' may be absent"},
		{`any.z + 1`, `2`, "", "'z' may be absent"},
		{`any.map(k, k)`, `["a","z"]`, "", "it goes over a value that may be no list"},
		{`variants.map(k, variants[k].price)`, `[1.5,2.0]`, "array<number>", "an index may have no value"},
		{`{"b": n, "a": user.name}`, `{"a":"Ann","b":7}`, "object", ""},
		{`{"b": 1, "a": 2}.map(k, k)`, `["a","b"]`, "array<string>", ""},
		{`{"d": 1, "c": 2, "b": 3, "a": 4, "e": 5}.filter(k, true).map(k, k)`, `["a","b","c","d","e"]`, "array<string>", ""},
		{`user`, `{"age":41,"name":"Ann"}`, "object", ""},
		{`[1, 2.5, "x", null, true]`, `[1,2.5,"x",null,true]`, "", ""},
		{`"a" in tags && flag`, `true`, "boolean", ""},
		{`user.name.lowerAscii() + " x ".trim() + "y".upperAscii()`, `"annxY"`, "string", ""},
		{`"a,b,,c".split(",")`, `["a","b","","c"]`, "array<string>", "split may have no value"},
		{`tags.join("+") + ["x"].join() + [""].join("-") + ["", ""].join("-")`, `"b+ax-"`, "string", "join may have no value"},
		{`"héllo".substring(1, 3) + "héllo".substring(4) + string("héllo".indexOf("l")) + string("x".indexOf("y"))`, `"élo2-1"`, "string", "substring may have no value"},
		{`"aXbX".replace("X", "--")`, `"a--b--"`, "string", "replace may have no value"},
		{`"x".substring(2)`, `index out of bounds: substring 2 to 1 of 1 characters`, "", ""},
		{`int("12") / (n - 7)`, `division by zero`, "", ""},
		{`tags[5]`, `index out of bounds: 5`, "", ""},
		{`9223372036854775807 + n`, `integer overflow`, "", ""},
		{`double(n) / 0.0`, `its value is no finite number`, "", ""},
		{`big + 1`, `integer 12345678901234567890 is beyond 64 bits`, "", ""},
		{`user[user.name]`, `no such key: Ann`, "", ""},
		{`user[any.a[9] == 1 ? "x" : "name"]`, `index out of bounds: 9`, "", ""},
		{`user["n" + "ame"]`, `"Ann"`, "", ""},
		{`uint(3)`, `3`, "integer", ""},
	} {
		p, err := Compile(tc.source, append(variables(t), Variable{"big", nil, true}))
		require.NoError(t, err, tc.source)
		v, err := p.Eval(decode(t, contextValue))
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "expression '"+tc.source+"': ")
		} else {
			got = string(value.Encode(v))
		}
		assert.Equal(t, tc.want, got, tc.source)
		if tc.kind != "" {
			require.NotNil(t, p.Schema(), tc.source)
			assert.Equal(t, tc.kind, p.Schema().Type(), tc.source)
		}
		if tc.mayFail != "" || err == nil && tc.kind != "" && tc.kind != "integer" {
			assert.Equal(t, tc.mayFail, p.MayFail(false), tc.source)
		}
	}
}

func TestRefused(t *testing.T) {
	for source, want := range map[string]string{
		`user.nmae`:                      "undefined field 'nmae', at position 5",
		`user["nmae"]`:                   "undefined field 'nmae', at position 5",
		`nope`:                           "undeclared reference to 'nope', at position 1",
		`n + user.name`:                  "found no matching overload for '_+_' applied to '(int, string)', at position 3",
		`n +`:                            "Syntax error:",
		`b"x"`:                           errNotJSON.Error(),
		`timestamp("2020-01-01T00:00Z")`: "undeclared reference to 'timestamp', at position 10",
		`{1: 2}`:                         "its value is a map whose keys are no strings",
		`type(n)`:                        errNotJSON.Error(),
		strings.Repeat("x", MaxLength+1): "longer than 4096 bytes",
		strings.Repeat("(", 200) + "1":   "recursion limit exceeded",
	} {
		_, err := Compile(source, variables(t))
		var e *Error
		require.ErrorAs(t, err, &e, source)
		assert.Contains(t, e.Reason, want, source)
		assert.NotContains(t, e.Error(), "\n")
	}
}

// TestBounds: what an expression may cost is bounded, whatever the context holds.
func TestBounds(t *testing.T) {
	long := strings.Repeat("ab", 200_000)
	list := make([]any, 3000)
	for i := range list {
		list[i] = "x"
	}
	context := map[string]any{"s": long, "l": list}
	vars := []Variable{{"s", nil, true}, {"l", nil, true}}
	for source, want := range map[string]string{
		`s.replace("a", s)`:               "grows beyond",
		`s.replace("", s)`:                "grows beyond",
		`l.join(s)`:                       "grows beyond",
		`s.split("")`:                     "grows beyond",
		`l.map(x, l.map(y, l.map(z, z)))`: "cost limit exceeded",
		`[s, s, s]`:                       "larger than 1048576 bytes",
		`[s].map(x, x + x).map(x, x + x).map(x, x + x)`: "",
	} {
		p, err := Compile(source, vars)
		require.NoError(t, err, source)
		_, err = p.Eval(context)
		require.Error(t, err, source)
		assert.Contains(t, err.Error(), want, source)
	}
}

func TestNamesAndAbsence(t *testing.T) {
	names, err := Names(`a.b + c.map(x, x + a.d + y)[0] + (has(e.f) ? "" : string(1)) + string(type(g) == int)`)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "c", "y", "e", "g"}, names)
	_, err = Names(`a +`)
	assert.Error(t, err)
	for source, absent := range map[string]bool{`a`: true, `b.c`: true, `b.l[3]`: true, `b.l[0] / 0`: false} {
		p, err := Compile(source, []Variable{{"a", nil, false}, {"b", nil, true}})
		require.NoError(t, err)
		_, err = p.Eval(map[string]any{"b": map[string]any{"l": []any{int64(1)}}})
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, absent, e.Absent, source)
	}
}

func TestContextIsNotChanged(t *testing.T) {
	context := decode(t, contextValue)
	p, err := Compile(`any`, variables(t))
	require.NoError(t, err)
	v, err := p.Eval(context)
	require.NoError(t, err)
	v.(map[string]any)["z"] = "changed"
	v.(map[string]any)["a"].([]any)[0] = "changed"
	assert.Equal(t, decode(t, contextValue), context)
}
