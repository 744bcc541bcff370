package observer

import (
	"hash/maphash"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows/value"
	"pave/ingest"
)

// order is a session that looks an order up, tracks its parcel where that was sent, and asks for the customer.
func order(i int, status string, tracked bool) ingest.Session {
	steps := []step{
		{tool: "get_order", args: j(`{"order":"W-%d"}`, i), result: j(`{"state":{"name":%q},"parcel":"P-%d","customer":"C-%d","weight":%d}`, status, i, i, i%7)},
	}
	if tracked {
		steps = append(steps, step{tool: "track", args: j(`{"number":"P-%d"}`, i), result: `{"at":"depot"}`})
	}
	steps = append(steps,
		step{tool: "get_customer", args: j(`{"id":"C-%d"}`, i), result: j(`{"mail":"box-%d","points":%d}`, i, i+50)},
		step{tool: "get_box", args: j(`{"box":"box-%d"}`, i), result: `{"free":true}`})
	return talk(id(i), j("where is order W-%d", i), steps...)
}

// bothWaysOf is the pattern with the optional step.
func bothWaysOf(r *Result) *Pattern {
	i := slices.IndexFunc(r.Patterns, func(p Pattern) bool {
		return slices.ContainsFunc(p.DataFlow.Steps, func(s StepFlow) bool { return s.When != nil })
	})
	if i < 0 {
		return nil
	}
	return &r.Patterns[i]
}

// In 20 of 50 sessions the parcel was sent, and only these track it: one flow serves all 50.
func TestOptionalStep(t *testing.T) {
	r := mine(t, Options{}, many(50, func(i int) ingest.Session {
		sent := i%5 < 2
		return order(i, map[bool]string{true: "sent", false: "open"}[sent], sent)
	})...)
	p := bothWaysOf(r)
	require.NotNil(t, p)
	require.Equal(t, &r.Patterns[0], p, "it is worth more than either way alone")
	require.Equal(t, []string{"get_order", "track", "get_customer", "get_box"}, p.Tools)
	require.Equal(t, []int{50, 50}, []int{p.Occurrences, p.Sessions})
	require.Equal(t, []float64{1, 1, 1}, p.StepConfidence)
	require.InDelta(t, (20*3+30*2)/50.0, p.TurnsSaved, 1e-9)
	require.InDelta(t, 120, p.Score, 1e-9, "all model calls but the first of each session")
	require.False(t, p.Secondary)
	flow := p.DataFlow
	require.Equal(t, []int{50, 50, 50}, []int{flow.Sampled, flow.Explained, flow.Applicable})
	require.Equal(t, HeldOut{Windows: 50, Exact: 50, Predictions: 20 + 50 + 50, Right: 120}, flow.HeldOut)
	require.Equal(t, &Guard{Pointer: "/state/name", Test: GuardEquals, Value: "sent", Taken: 20, Evidence: Evidence{
		Present: 50, Held: 50, Distinct: 2, Chance: 0.6, Supporting: []string{"s000", "s001", "s005"},
		Note: "Agents took the step in 20 of 50 occurrences; a test found in one half of the sessions told it rightly in 50 of 50 of the other."}}, flow.Steps[1].When)
	track := flow.Steps[1].Args[0]
	require.Equal(t, "/parcel", track.Pointer)
	require.Equal(t, []int{20, 20}, []int{track.Evidence.Held, track.Evidence.Present})
	require.Equal(t, 1.0, track.Presence, "where the step runs, it has the argument")
	require.Equal(t, "/customer", flow.Steps[2].Args[0].Pointer)
	require.Equal(t, 0, flow.Steps[2].Args[0].Step)
	require.Equal(t, []int{50, 2}, []int{flow.Steps[3].Args[0].Evidence.Held, flow.Steps[3].Args[0].Step})
	left := 0
	for _, o := range p.Examples {
		if slices.Equal(o.Sizes, []int{1, 0, 1, 1}) {
			left++
			require.Len(t, o.Calls, 3)
		}
	}
	require.Equal(t, []int{18, 30}, []int{left, len(p.Examples)}, "as many of each way as agents walk it")
	for i := range r.Patterns[1:] {
		require.True(t, r.Patterns[i+1].Secondary, "the two ways alone add nothing")
	}
}

// Where nothing in the result tells who tracks, or too few cases do, both ways are flows of their own.
func TestOptionalStepNeedsATest(t *testing.T) {
	for name, sessions := range map[string][]ingest.Session{
		"chance": many(60, func(i int) ingest.Session { return order(i, "sent", (i*7919)%11 < 5) }),
		"few": many(18, func(i int) ingest.Session {
			return order(i, map[bool]string{true: "sent", false: "open"}[i%2 == 0], i%2 == 0)
		}),
		// 10 of 100 contradict the status: 0.90 is too little.
		"often wrong": many(100, func(i int) ingest.Session {
			return order(i, map[bool]string{true: "sent", false: "open"}[(i%2 == 0) != (i%10 == 3)], i%2 == 0)
		}),
		// The step is nearly always there: guessing so is right as often as any test.
		"nearly always": many(60, func(i int) ingest.Session { return order(i, "sent", i%20 != 3) }),
	} {
		r := mine(t, Options{}, sessions...)
		require.Nil(t, bothWaysOf(r), name)
		require.NotEmpty(t, r.Patterns, name)
	}
}

// A step with side effects runs only where the test was never wrong.
func TestOptionalStepWithEffects(t *testing.T) {
	sessions := many(60, func(i int) ingest.Session {
		return order(i, map[bool]string{true: "sent", false: "open"}[(i%2 == 0) != (i == 31)], i%2 == 0)
	})
	require.NotNil(t, bothWaysOf(mine(t, Options{}, sessions...)), "59 of 60")
	require.Nil(t, bothWaysOf(mine(t, Options{Effects: func(tool string) bool { return tool == "track" }}, sessions...)))
}

// Tests of numbers and of what may be missing.
func TestGuards(t *testing.T) {
	cases := func(n int, build func(i int) (result string, runs bool)) (*inference, []guardCase) {
		m := &inference{options: Options{}.withDefaults(), paths: newPathTable(), seed: maphash.MakeSeed()}
		var out []guardCase
		for i := range n {
			text, runs := build(i)
			out = append(out, guardCase{session: id(i), result: m.flat.flatten(must(value.Decode([]byte(text))), m.seed, m.paths, 100), runs: runs})
		}
		return m, out
	}
	for name, c := range map[string]struct {
		build func(i int) (string, bool)
		want  *Guard
	}{
		"at least": {func(i int) (string, bool) { return j(`{"total":%d.5}`, i), i >= 17 }, &Guard{Pointer: "/total", Test: GuardAtLeast, Value: 17.5}},
		"below":    {func(i int) (string, bool) { return j(`{"total":%d}`, i), i < 17 }, &Guard{Pointer: "/total", Test: GuardAtLeast, Value: int64(17), Not: true}},
		"list":     {func(i int) (string, bool) { return [...]string{`{"hits":[]}`, `{"hits":[{"a":1}]}`}[i%2], i%2 == 1 }, &Guard{Pointer: "/hits", Test: GuardFilled}},
		"missing":  {func(i int) (string, bool) { return [...]string{`{"n":1}`, `{"n":1,"next":"x"}`}[i%2], i%2 == 0 }, &Guard{Pointer: "/next", Test: GuardFilled, Not: true}},
		"text":     {func(i int) (string, bool) { return j(`{"kind":"%c"}`, 'a'+i%4), i%4 == 2 }, &Guard{Pointer: "/kind", Test: GuardEquals, Value: "c"}},
		"personal": {func(i int) (string, bool) { return j(`{"mail":"%c@example.com"}`, 'a'+i%2), i%2 == 0 }, nil},
		"chance":   {func(i int) (string, bool) { return j(`{"n":%d}`, i%5), i*7919%13 < 6 }, nil},
	} {
		m, all := cases(40, c.build)
		got := m.guard(all, true)
		if got != nil {
			got.Taken, got.Evidence = 0, Evidence{}
		}
		require.Equal(t, c.want, got, name)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
