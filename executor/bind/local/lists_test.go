package local

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

func builtin(t *testing.T, name string) *flows.Tool {
	t.Helper()
	for _, tool := range Builtins() {
		if tool.Name == name {
			return tool
		}
	}
	require.Fail(t, "no builtin "+name)
	return nil
}

func TestListTools(t *testing.T) {
	ctx := context.Background()
	r := New()
	_, err := r.Invoke(ctx, builtin(t, "map_list"), map[string]any{"flow": "f", "items": []any{int64(1)}}, executor.CallInfo{})
	var te *executor.ToolError
	require.ErrorAs(t, err, &te)
	assert.Equal(t, string(flows.CodeUnbound), te.Code)

	r.RunFlows(func(_ context.Context, flow string, input map[string]any) (map[string]any, error) {
		n, ok := input["item"].(int64)
		if !ok {
			n = input["n"].(int64)
		}
		switch {
		case flow == "odd":
			return map[string]any{"keep": n%2 == 1, "other": n > 1}, nil
		case n == 3:
			return nil, errors.New("three is too much")
		}
		return map[string]any{"doubled": 2 * n}, nil
	})
	items := func(n ...int64) []any {
		out := make([]any, len(n))
		for i, v := range n {
			out[i] = v
		}
		return out
	}
	for _, tc := range []struct {
		tool  string
		input map[string]any
		want  any
		err   string
	}{
		{"map_list", map[string]any{"flow": "double", "items": items(1, 2)}, []any{map[string]any{"doubled": int64(2)}, map[string]any{"doubled": int64(4)}}, ""},
		{"map_list", map[string]any{"flow": "double", "items": items(2), "item_key": "n"}, []any{map[string]any{"doubled": int64(4)}}, ""},
		{"map_list", map[string]any{"flow": "double", "items": items()}, []any{}, ""},
		{"map_list", map[string]any{"flow": "double", "items": items(1, 3)}, nil, "flow 'double' on item 1: three is too much"},
		{"filter_list", map[string]any{"flow": "odd", "items": items(1, 2, 3)}, items(1, 3), ""},
		{"filter_list", map[string]any{"flow": "odd", "items": items(1, 2, 3), "keep_key": "other"}, items(2, 3), ""},
		{"filter_list", map[string]any{"flow": "double", "items": items(1)}, nil, "no boolean 'keep'"},
	} {
		out, err := r.Invoke(ctx, builtin(t, tc.tool), tc.input, executor.CallInfo{})
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, tc.want, out.(map[string]any)["items"])
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = r.Invoke(cancelled, builtin(t, "map_list"), map[string]any{"flow": "double", "items": items(1)}, executor.CallInfo{})
	require.ErrorIs(t, err, context.Canceled)
}

// A flow that maps a list with itself ends instead of recursing for ever.
func TestListToolsDoNotRecurseForEver(t *testing.T) {
	r := New()
	depth := 0
	var call func(ctx context.Context) (any, error)
	r.RunFlows(func(ctx context.Context, _ string, _ map[string]any) (map[string]any, error) {
		depth++
		out, err := call(ctx)
		return map[string]any{"out": out}, err
	})
	call = func(ctx context.Context) (any, error) {
		return r.Invoke(ctx, builtin(t, "map_list"), map[string]any{"flow": "f", "items": []any{"x"}}, executor.CallInfo{})
	}
	_, err := call(context.Background())
	require.ErrorContains(t, err, "more than 10 levels deep")
	assert.Equal(t, maxDepth, depth)
}

func TestListToolsAreNotCacheable(t *testing.T) {
	for _, name := range []string{"map_list", "filter_list"} {
		tool := builtin(t, name)
		assert.False(t, *tool.Cacheable)
		assert.Nil(t, tool.Safety, "what they do is what their flow does")
	}
}
