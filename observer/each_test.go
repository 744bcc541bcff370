package observer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// looped is a session in which order is called for the first n of the account's orders, of which there are all.
func looped(i, n, all int, object bool) ingest.Session {
	list, steps := "", []step{}
	for k := range all {
		if k > 0 {
			list += ","
		}
		if object {
			list += j(`{"no":"o-%d-%d","kind":"x"}`, i, k)
		} else {
			list += j(`"o-%d-%d"`, i, k)
		}
		if k < n {
			steps = append(steps, step{tool: "order", args: j(`{"order":"o-%d-%d"}`, i, k), result: j(`{"total":"t-%d-%d"}`, i, k)})
		}
	}
	first := step{tool: "account", args: j(`{"user":"u-%d"}`, i), result: `{"orders":[` + list + `]}`}
	return talk(id(i), j("I am u-%d", i), append([]step{first}, steps...)...)
}

func TestStepForEachElement(t *testing.T) {
	for _, object := range []bool{false, true} {
		r := mine(t, Options{}, many(30, func(i int) ingest.Session { return looped(i, 1+i%4, 1+i%4, object) })...)
		p := r.pattern("account > order")
		require.NotNil(t, p)
		each := p.DataFlow.Steps[1].Each
		require.NotNil(t, each, "one flow for all lengths")
		require.Equal(t, SourceOutput, each.Kind)
		require.Equal(t, 0, each.Step)
		require.Equal(t, "/orders", each.Pointer)
		require.Equal(t, 30, each.Evidence.Held)
		require.Zero(t, each.Fewer)
		arg := p.DataFlow.Steps[1].Args[0]
		require.Equal(t, SourceElement, arg.Kind)
		require.Equal(t, map[bool]string{false: "", true: "/no"}[object], arg.Pointer)
		require.Equal(t, 30, p.Occurrences)
		// i%4 is 0 and 1 in eight sessions each, 2 and 3 in seven.
		require.Equal(t, float64(8*1+8*2+7*3+7*4), p.Score, "a model call for every order")
		require.Equal(t, []int{1, 4}, r.example(p, "s003").Sizes)
		require.Equal(t, [][]int{{0}, {1, 2, 3, 4}}, r.example(p, "s003").Steps())
	}
}

func (r *Result) example(p *Pattern, session string) *Occurrence {
	for i := range p.Examples {
		if p.Examples[i].SessionID == session {
			return &p.Examples[i]
		}
	}
	return &Occurrence{}
}

// TestStoppingEarlyIsSaid: in two of thirty sessions the agent stops early, where the flow would go on.
func TestStoppingEarlyIsSaid(t *testing.T) {
	r := mine(t, Options{}, many(30, func(i int) ingest.Session { return looped(i, 1+i%4, 1+i%4+i/28, false) })...)
	var each *EachFlow
	for _, p := range r.Patterns {
		if p.DataFlow.Steps[len(p.Tools)-1].Each != nil && p.Batch == nil {
			each = p.DataFlow.Steps[len(p.Tools)-1].Each
		}
	}
	require.NotNil(t, each)
	require.Equal(t, 2, each.Fewer)
	require.Equal(t, 28, each.Evidence.Held)
	require.Contains(t, each.Evidence.Note, "In 2 of 30 occurrences agents stopped before the end of the list")
}

// TestLoopOverAnInput: the caller knows the whole list.
func TestLoopOverAnInput(t *testing.T) {
	r := mine(t, Options{}, many(24, func(i int) ingest.Session {
		text, steps := "check", []step{}
		for k := range 1 + i%3 {
			text += j(" o-%d-%d", i, k)
			steps = append(steps, step{tool: "order", args: j(`{"order":"o-%d-%d"}`, i, k), result: `{}`})
		}
		return talk(id(i), text, steps...)
	})...)
	p := r.pattern("order")
	require.NotNil(t, p)
	require.Equal(t, SourceInput, p.DataFlow.Steps[0].Each.Kind)
	require.Equal(t, "orders", p.DataFlow.Steps[0].Each.Input)
	require.Len(t, p.DataFlow.Inputs, 1)
	require.True(t, p.DataFlow.Inputs[0].List)
	require.Equal(t, float64(8*1+8*2), p.Score)
}

// TestElementsMayMakeNoFlow: the elements come from nowhere.
func TestElementsMayMakeNoFlow(t *testing.T) {
	r := mine(t, Options{}, many(24, func(i int) ingest.Session {
		var steps []step
		for k := range 2 + i%3 {
			steps = append(steps, step{tool: "order", args: j(`{"order":"o-%d-%d"}`, i, k*7), result: `{}`})
		}
		return talk(id(i), "hello", steps...)
	})...)
	require.Empty(t, r.Patterns)
}
