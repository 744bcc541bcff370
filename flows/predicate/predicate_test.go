package predicate

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows/value"
)

type vector struct {
	ID      string
	Expr    string
	Context json.RawMessage
	Expect  struct {
		Value    *bool
		Error    string
		Code     *string
		Category string
		Message  *string
	}
}

func vectors(t testing.TB) []vector {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", "predicate.json"))
	require.NoError(t, err)
	var file struct{ Vectors []vector }
	require.NoError(t, json.Unmarshal(data, &file))
	return file.Vectors
}

func context(t testing.TB, data []byte) map[string]any {
	t.Helper()
	v, err := value.Decode(data)
	require.NoError(t, err)
	return v.(map[string]any)
}

func run(expr string, ctx map[string]any) (bool, error) {
	p, err := Parse(expr)
	if err != nil {
		return false, err
	}
	return p.Eval(ctx)
}

// Every vector is exact, or diverges by rule R5: what is a bare TypeError in the reference is CW-E036 here.
func TestVectors(t *testing.T) {
	all := vectors(t)
	exact, byRule := 0, 0
	for _, v := range all {
		got, err := run(v.Expr, context(t, v.Context))
		if v.Expect.Value != nil {
			if assert.NoError(t, err, v.ID) {
				assert.Equal(t, *v.Expect.Value, got, "%s %s", v.ID, v.Expr)
			}
			exact++
			continue
		}
		var e *Error
		if !assert.True(t, errors.As(err, &e), "%s %s: %v", v.ID, v.Expr, err) {
			continue
		}
		if v.Expect.Category == "untyped_leak" {
			assert.Equal(t, TypeError, e.Category, v.ID)
			byRule++
			continue
		}
		assert.Equal(t, v.Expect.Category, e.Category, "%s %s", v.ID, v.Expr)
		if v.Expect.Message != nil {
			assert.Equal(t, *v.Expect.Message, e.Error(), v.ID)
		}
		exact++
	}
	assert.Equal(t, len(all), exact+byRule)
	assert.Equal(t, 8, byRule)
}

func TestBeyondTheVectors(t *testing.T) {
	ctx := context(t, []byte(`{"a":[1,2],"s":"héé","n":5,"d":{"x":{"y":[true]}},"big":123456789012345678901234567890}`))
	for expr, want := range map[string]bool{
		`d["x"]["y"][0]`:                           true,
		`s[-1] == "é"`:                             true,
		`s[1] == '\u00e9'`:                         true,
		`-big < 0 < big`:                           true,
		`big == 123456789012345678901234567890`:    true,
		`big > 1.2345678901234567e29`:              true,
		`0x_ff == 255`:                             true,
		`1_000.5 == 1000.5`:                        true,
		`"a\` + "\n" + `b" == "ab"`:                true,
		`"\q" == "\\q"`:                            true,
		`"\101" == "A"`:                            true,
		`rb'a' == b"a"`:                            true,
		`{1, 1.0, True} == {1}`:                    true,
		`{1} == [1]`:                               false,
		"\n# leading comment\nn == 5\n\n":          true,
		"n == \\\n5":                               true,
		`not n == 5 or n in (5,)`:                  true,
		`1 in [] or 2 in [2.0]`:                    true,
		`"\N{digit one}" == "1"`:                   true,
		`{1} < {1, 2} and {2, 1} >= {1, 2}`:        true,
		`{1} < {1} or {1} > {2} or {3} < {1, 2}`:   false,
		`[{1}] < [{1, 2}]`:                         true,
		`b"a" in b"xa" and 97 in b"a"`:             true,
		`b"\xff"[0] == 255 and b"\u0041"[0] == 92`: true,
		`b"a" < b"b"`:                              true,
		`b"a"[-1] == 97`:                           true,
	} {
		got, err := run(expr, ctx)
		require.NoError(t, err, expr)
		assert.Equal(t, want, got, expr)
	}
	for expr, category := range map[string]string{
		`[*a]`: UnsupportedNode, `(*a)`: Syntax, `(*a,)`: UnsupportedNode, `{"a": 1, **d}`: UnsupportedNode, `{**d}`: UnsupportedNode,
		`{k: v for k in a}`: UnsupportedNode, `{k for k in a if k}`: UnsupportedNode, `(k for k, j in a)`: UnsupportedNode,
		`f(a, *a, b=1, **d)`: UnsupportedNode, `f(k for k in a)`: UnsupportedNode, `lambda x, *y: x`: UnsupportedNode, `(yield)`: UnsupportedNode,
		`n if 1 else 2`: UnsupportedNode, `a is None`: UnsupportedOperator, `a is not None`: UnsupportedOperator, `1 == not 2`: Syntax, `n := 1`: Syntax, `'a' b'b'`: Syntax,
		`01`: Syntax, `1__0`: Syntax, `0x`: Syntax, `5_`: Syntax, `1e`: Syntax, `"\N{DIGIT ONE HUNDRED}"`: Syntax, `"\N{DIGIT ONE"`: Syntax, "\n\tn": Syntax, "n # \x00": Syntax, `b"é"`: Syntax, `class`: Syntax, `a b`: Syntax,
		`1j`: Syntax, `"`: Syntax, `'''a`: Syntax, `"\x1"`: Syntax, `a[1`: Syntax, `(a`: Syntax, `a)`: Syntax, `{1: }`: Syntax, `a[1:2, 3]`: UnsupportedNode,
		`-"a"`: TypeError, `{1} < [1]`: TypeError, `"a" in b"a"`: TypeError, `300 in b"a"`: TypeError, `b"a"[1]`: Subscript, `b"a"["x"]`: Subscript,
		`{[1], missing}`: TypeError, `{missing, [1]}`: UnknownName, strings.Repeat("1", 4301): Syntax, `s["0"]`: Subscript, `s[9]`: Subscript, `a[big]`: Subscript, `[a] < [1]`: TypeError, `None < 1`: TypeError,
	} {
		_, err := run(expr, ctx)
		var e *Error
		if assert.True(t, errors.As(err, &e), "%s: %v", expr, err) {
			assert.Equal(t, category, e.Category, "%s: %v", expr, err)
		}
	}
}

func TestLimits(t *testing.T) {
	limited := func(expr string) {
		t.Helper()
		_, err := Parse(expr)
		var e *Error
		require.True(t, errors.As(err, &e))
		assert.Equal(t, Limit, e.Category)
	}
	limited(strings.Repeat("(", 100000))
	limited(strings.Repeat("(", MaxDepth+1))
	limited(strings.Repeat("not ", 2000) + "1")
	limited(strings.Repeat("-", 5000) + "1")
	limited("1" + strings.Repeat(",1", MaxNodes+1))
	limited(strings.Repeat("lambda:", 1000) + "1")
	limited("a" + strings.Repeat("[0]", MaxNodes))
	deep := strings.Repeat("(", 60) + "1" + strings.Repeat(")", 60)
	ok, err := run(deep, nil)
	require.NoError(t, err)
	assert.True(t, ok)
}

func TestNamesAndPositions(t *testing.T) {
	p, err := Parse(`b > 1 and a[c] == "x" or b`)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, p.Names())
	assert.Equal(t, `b > 1 and a[c] == "x" or b`, p.String())
	_, err = Parse(`a == = 1`)
	var e *Error
	require.True(t, errors.As(err, &e))
	assert.Equal(t, 5, e.Offset)
	assert.Contains(t, e.Error(), "position 5")
}

func FuzzPredicate(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Expr)
	}
	ctx := context(f, vectors(f)[0].Context)
	f.Fuzz(func(t *testing.T, expr string) {
		p, err := Parse(expr)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Category == "" || e.Offset > len(expr) {
				t.Fatalf("%q: untyped error %v", expr, err)
			}
			return
		}
		first, err1 := p.Eval(ctx)
		second, err2 := p.Eval(ctx)
		if first != second || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q is not deterministic", expr)
		}
	})
}

func TestNotNone(t *testing.T) {
	for source, want := range map[string][]string{
		"a != None":                            {"a"},
		"a != None and (b == 1 and c != None)": {"a", "c"},
		"a != None or b != None":               nil,
		"not a != None":                        nil,
		"a != 1 and None != b":                 nil,
		"a[0] != None":                         nil,
		"a != None != b":                       nil,
	} {
		p, err := Parse(source)
		require.NoError(t, err)
		assert.Equal(t, want, p.NotNone(), source)
	}
}
