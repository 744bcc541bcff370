package analyzer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/observer"
)

// swappedFan is fan as agents walk it in the other order of the two steps in the middle.
func swappedFan() observer.Pattern {
	p := fan()
	p.Occurrences, p.Sessions, p.Score = 25, 20, 50
	p.Tools[1], p.Tools[2] = p.Tools[2], p.Tools[1]
	steps := p.DataFlow.Steps
	steps[1], steps[2] = steps[2], steps[1]
	for i := range steps[3].Args {
		steps[3].Args[i].Step = 3 - steps[3].Args[i].Step
	}
	return p
}

// Two orders of independent steps are one candidate, under the key that each of the two alone would have.
func TestOrdersOfIndependentStepsAreOneFlow(t *testing.T) {
	tools := fanTools(flows.EffectRead)
	propose := func(tools []*flows.Tool, patterns ...observer.Pattern) ([]Candidate, []Dropped) {
		var dropped []Dropped
		candidates, err := Propose(t.Context(), &observer.Result{Patterns: patterns}, NewCatalogue(tools, nil), nil, Options{MaxChains: -1,
			Dropped: func(d Dropped) { dropped = append(dropped, d) }})
		require.NoError(t, err)
		return candidates, dropped
	}
	const key = "miner/linear/find>orders>refunds>summary"
	for _, both := range [][]observer.Pattern{{fan(), swappedFan()}, {swappedFan(), fan()}} {
		candidates, dropped := propose(tools, both...)
		require.Len(t, candidates, 1)
		c := candidates[0]
		require.Equal(t, []any{key, 140.0, 65, 0}, []any{c.PatternKey, c.Score, c.Savings.Occurrences, c.Rank})
		require.Equal(t, []string{"miner/linear/find>refunds>orders>summary"}, c.Orders)
		require.Same(t, &both[0].DataFlow.Steps[0], &c.Evidence.Pattern.DataFlow.Steps[0], "the evidence is that of the first")
		require.Equal(t, []Dropped{{Tools: both[1].Tools, Code: DroppedOrder,
			Reason: "the flow for " + both[0].Tools[0] + " > " + both[0].Tools[1] + " > " + both[0].Tools[2] + " > summary does the same, in whichever order its independent steps run"}}, dropped)
		require.Len(t, c.Warnings, 1)
		require.Contains(t, c.Warnings[0], "another order")
	}
	alone, dropped := propose(tools, swappedFan())
	require.Empty(t, dropped)
	require.Equal(t, []any{key, []string{"miner/linear/find>refunds>orders>summary"}}, []any{alone[0].PatternKey, alone[0].Orders})

	// Steps that may change something have one order each, and so do steps that take other values.
	apart, dropped := propose(fanTools(flows.EffectWrite), fan(), swappedFan())
	require.Empty(t, dropped)
	require.Len(t, apart, 2)
	other := swappedFan()
	other.DataFlow.Steps[1].Args[0].Pointer = "/account"
	tools[0] = tool("find", object("email"), object("user", "account"), flows.EffectRead)
	apart, dropped = propose(tools, fan(), other)
	require.Empty(t, dropped)
	require.Len(t, apart, 2)
}
