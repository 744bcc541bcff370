package expr

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows/value"
)

// FuzzExpr: whatever is compiled ends within its bounds, twice with the same outcome, and changes nothing.
func FuzzExpr(f *testing.F) {
	for _, seed := range []string{
		`user.name + '-' + string(n)`, `items.filter(i, i.total > 20.0)[0].id`, `{"a": [1, 2.5, null]}`, `variants.map(k, variants[k].price)`,
		`tags.join(",").split("a")`, `has(user.nick) ? user.nick : "none"`, `any[0][1]["x"].y`, `[tags, tags].map(x, x + x).map(x, x + x)`,
		`"x".replace("", "yy").substring(n)`, `n / (n - 7) % 3`, `size(items) in [1, 2u, 3.0]`, `!flag || price > double(n)`, `"(a+)+$".matches(maybe)`,
	} {
		f.Add(seed)
	}
	vars := variables(f)
	context := decode(f, contextValue)
	before := string(value.Encode(context))
	f.Fuzz(func(t *testing.T, source string) {
		if _, err := Names(source); err != nil {
			return
		}
		p, err := Compile(source, vars)
		if err != nil {
			return
		}
		v, err := p.Eval(context)
		again, errAgain := p.Eval(context)
		require.Equal(t, err == nil, errAgain == nil)
		require.Equal(t, string(value.Encode(v)), string(value.Encode(again)))
		require.Equal(t, before, string(value.Encode(context)))
		if err == nil && p.Schema() != nil {
			if got := p.Schema().Kinds(); got != nil {
				_, violations := p.Schema().Apply(v)
				require.Empty(t, violations, "%s gives %s, which is no %v", source, value.Encode(v), got)
			}
		}
	})
}
