package observer

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

// stroll makes n calls of three tools by chance.
func stroll(i, n int) (steps []step) {
	for k := range n {
		tool := []string{"get_news", "get_advert", "get_weather"}[(i*7+k*5+i/3)%3]
		steps = append(steps, step{tool: tool, args: j(`{"seed":"x-%d-%d"}`, i, k), result: j(`{"text":"t-%d-%d"}`, i, k)})
	}
	return steps
}

// strolling looks an order up, strolls, then asks for the customer of the order.
func strolling(i, between int, customer string) ingest.Session {
	steps := []step{{tool: "get_order", args: j(`{"order":"W-%d"}`, i), result: j(`{"customer":"C-%d"}`, i)}}
	steps = append(steps, stroll(i, between)...)
	return talk(id(i), j("who ordered W-%d", i), append(steps, step{tool: "get_customer", args: j(`{"id":%q}`, customer), result: j(`{"name":"n-%d"}`, i)})...)
}

func gappedOf(r *Result) []Pattern {
	return slices.DeleteFunc(slices.Clone(r.Patterns), func(p Pattern) bool { return p.Gap == nil })
}

// The customer comes from the order, one to four calls later.
func TestGappedFlow(t *testing.T) {
	r := mine(t, Options{}, many(48, func(i int) ingest.Session { return strolling(i, 1+i%4, j("C-%d", i)) })...)
	found := gappedOf(r)
	require.Len(t, found, 1)
	p := found[0]
	last := slices.IndexFunc(r.Patterns, func(p Pattern) bool { return p.Gap != nil })
	require.False(t, slices.ContainsFunc(r.Patterns[last+1:], func(p Pattern) bool { return p.Batch == nil }), "it comes after all but batches")
	require.Equal(t, []string{"get_order", "get_customer"}, p.Tools)
	require.Equal(t, []int{48, 48}, []int{p.Occurrences, p.Sessions})
	require.False(t, p.Secondary)
	require.Equal(t, 1.0, p.TurnsSaved, "the calls between stay the agent's")
	require.Equal(t, 48.0, p.Score)
	require.Equal(t, []int{48, 4}, []int{p.Gap.Occurrences, p.Gap.Longest})
	between := 0
	for _, n := range p.Gap.Tools {
		between += n.Windows
	}
	require.Equal(t, 12*(1+2+3+4), between)
	a := p.DataFlow.Steps[1].Args[0]
	require.Equal(t, []any{SourceOutput, 0, "/customer"}, []any{a.Kind, a.Step, a.Pointer})
	require.Equal(t, []int{48, 48, 48}, []int{a.Evidence.Present, a.Evidence.Held, a.Evidence.Distinct})
	require.Equal(t, HeldOut{Windows: 48, Exact: 48, Predictions: 48, Right: 48}, p.DataFlow.HeldOut)
	for _, o := range p.Examples {
		require.Len(t, o.Calls, 2)
		require.Greater(t, o.Calls[1], o.Calls[0]+1)
	}
}

func TestNoGappedFlow(t *testing.T) {
	effect := func(name string) Options { return Options{Effects: func(tool string) bool { return tool == name }} }
	for name, c := range map[string]struct {
		options Options
		build   func(i int) ingest.Session
	}{
		"too far":                    {build: func(i int) ingest.Session { return strolling(i, 5+i%3, j("C-%d", i)) }},
		"mostly one after the other": {build: func(i int) ingest.Session { return strolling(i, max(0, i%3-1), j("C-%d", i)) }},
		"values from elsewhere":      {build: func(i int) ingest.Session { return strolling(i, 1+i%4, j("D-%d", i)) }},
		"often from elsewhere": {build: func(i int) ingest.Session {
			return strolling(i, 1+i%4, []string{j("C-%d", i), j("D-%d", i)}[i%3%2])
		}},
		"something may change on the way": {effect("get_weather"), func(i int) ingest.Session {
			return talk(id(i), j("who ordered W-%d", i), step{tool: "get_order", args: j(`{"order":"W-%d"}`, i), result: j(`{"customer":"C-%d"}`, i)},
				step{tool: "get_weather", args: j(`{"seed":"x-%d"}`, i), result: `{}`}, step{tool: "get_customer", args: j(`{"id":"C-%d"}`, i), result: `{}`})
		}},
		"the later call changes something": {effect("get_customer"), func(i int) ingest.Session { return strolling(i, 1+i%4, j("C-%d", i)) }},
		"no floor asks for all windows":    {Options{Exactness: -1}, func(i int) ingest.Session { return strolling(i, 1+i%4, j("C-%d", i)) }},
	} {
		require.Empty(t, gappedOf(mine(t, c.options, many(48, c.build)...)), name)
	}
}

// Of three tools each takes its value from the one before it, at a distance: one flow, not its parts.
func TestGappedChain(t *testing.T) {
	r := mine(t, Options{}, many(48, func(i int) ingest.Session {
		steps := []step{{tool: "get_order", args: j(`{"order":"W-%d"}`, i), result: j(`{"customer":"C-%d"}`, i)}}
		steps = append(steps, stroll(i, 1+i%3)...)
		steps = append(steps, step{tool: "get_customer", args: j(`{"id":"C-%d"}`, i), result: j(`{"box":"B-%d"}`, i)})
		steps = append(steps, stroll(i+500, 1+(i+1)%3)...)
		return talk(id(i), j("what of W-%d", i), append(steps, step{tool: "get_box", args: j(`{"box":"B-%d"}`, i), result: `{"free":true}`})...)
	})...)
	found := gappedOf(r)
	require.Len(t, found, 1)
	require.Equal(t, []string{"get_order", "get_customer", "get_box"}, found[0].Tools)
	require.Equal(t, 2.0, found[0].TurnsSaved)
}

// talliedMemory is a Memory whose sessions are all of one day, which changes at every look.
type talliedMemory struct {
	*Memory
	kept  store.Tally
	looks int
}

func (m *talliedMemory) Days(context.Context) ([]store.Day, error) {
	m.looks++
	return []store.Day{{Day: 20_000, Version: fmt.Sprint(m.looks)}}, nil
}

func (m *talliedMemory) Tally(context.Context) (store.Tally, error) { return m.kept, nil }

func (m *talliedMemory) PutTally(_ context.Context, t store.Tally) error {
	if t.Set == nil {
		t.Set = m.kept.Set
	}
	m.kept = t
	return nil
}

// Flows with optional steps, and those with other calls between their steps, keep the counts of the last full pass in
// incremental ones; others are counted.
func TestUpdateKeepsWhatHasNoCountOfItsOwn(t *testing.T) {
	sessions := many(50, func(i int) ingest.Session {
		return order(i, map[bool]string{true: "sent", false: "open"}[i%2 == 0], i%2 == 0)
	})
	sessions = append(sessions, many(48, func(i int) ingest.Session {
		s := strolling(i+100, 1+i%4, j("C-%d", i+100))
		for c := range s.Runs[0].Calls { // the same shape, of other tools
			s.Runs[0].Calls[c].Tool += "_2"
		}
		return s
	})...)
	src := &talliedMemory{Memory: NewMemory(sessions)}
	first, err := Mine(t.Context(), src, Options{})
	require.NoError(t, err)
	require.NotNil(t, bothWaysOf(first))
	require.Len(t, gappedOf(first), 1)
	require.NoError(t, first.Track(t.Context(), src))
	again, inc, err := Update(t.Context(), src, first, Options{})
	require.NoError(t, err)
	require.Equal(t, Increment{Days: 1, Calls: first.Calls, Growth: 1}, inc)
	require.Equal(t, bothWaysOf(first), bothWaysOf(again))
	require.Equal(t, gappedOf(first), gappedOf(again))
}
