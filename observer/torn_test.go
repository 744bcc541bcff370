package observer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// TestLostSteps: noise loses every inner step of a whole about as often; an optional step is one that agents leave out.
func TestLostSteps(t *testing.T) {
	steps := []uint32{0, 1, 2, 3, 4, 5}
	parts := map[string]int{}
	for _, p := range pieces(steps) {
		parts[tokenKey(p)] = 100
	}
	noisy := &tears{wholes: []whole{{tokens: steps, lost: 0.1, parts: parts}}}
	require.True(t, noisy.torn([]uint32{0, 1, 3, 4, 5}, 12), "a step lost")
	require.True(t, noisy.torn([]uint32{1, 3, 4}, 12), "a part with a step lost")
	require.True(t, noisy.torn([]uint32{0, 1, 7, 2, 3}, 12), "a call in between")
	require.False(t, noisy.torn([]uint32{0, 1, 3, 4, 5}, 60), "left out more often than noise does")
	require.False(t, noisy.torn([]uint32{0, 3, 4, 5}, 5), "two steps lost")
	require.False(t, noisy.torn([]uint32{6, 7, 8, 9}, 12))
	clean := &tears{wholes: []whole{{tokens: steps, parts: parts}}}
	require.False(t, clean.torn([]uint32{0, 1, 3, 4, 5}, 12), "no other step is ever lost")
}

// TestStepsBesideAFlow: a step at an end that gives nothing and takes nothing only happens to be there, unless most
// occurrences of the others have it or nothing serves these.
func TestStepsBesideAFlow(t *testing.T) {
	log, loops := &calls{}, &calls{}
	out := func(step int) StepFlow {
		return StepFlow{Args: []ArgFlow{{Arg: "id", Kind: SourceOutput, Step: step, Evidence: Evidence{Distinct: 9}}}}
	}
	asks, fixed := StepFlow{Args: []ArgFlow{{Arg: "q", Kind: SourceInput}}}, StepFlow{Args: []ArgFlow{{Arg: "mode", Kind: SourceConst}}}
	of := func(log *calls, stats path, steps ...StepFlow) proof {
		stats.level, stats.significant, stats.score = len(stats.tokens), true, 1
		return proof{log: log, stats: &stats, flow: &DataFlow{Steps: steps}}
	}
	served := of(log, path{tokens: []uint32{1, 2, 3, 4}, occ: 200}, asks, out(0), out(1), out(2))
	looped := of(loops, path{tokens: []uint32{5, 6, 7}, occ: 200}, asks, out(0), out(1))
	m := &miner{log: log, loops: loops, proved: []proof{served, looped}}
	for name, c := range map[string]struct {
		of    proof
		loose bool
	}{
		"a call before a flow":        {of(log, path{tokens: []uint32{9, 1, 2, 3}, occ: 20, after: 200}, asks, asks, out(1), out(2)), true},
		"a call after a flow":         {of(log, path{tokens: []uint32{1, 2, 3, 9}, occ: 20, before: 200}, asks, out(0), out(1), fixed), true},
		"a flow with a loop unfolded": {of(log, path{tokens: []uint32{9, 5, 6, 6, 7}, occ: 20, after: 60}, asks, asks, out(1), out(1), out(2)), true},
		"it gives something":          {of(log, path{tokens: []uint32{9, 1, 2, 3}, occ: 20, after: 200}, asks, out(0), out(1), out(2)), false},
		"it gives something to a list": {of(loops, path{tokens: []uint32{9, 5, 6}, occ: 20, after: 200}, asks, asks,
			StepFlow{Each: &EachFlow{Kind: SourceOutput, Step: 0}}), false},
		"it gives a part of a text": {of(log, path{tokens: []uint32{9, 1, 2}, occ: 20, after: 200}, asks, asks,
			StepFlow{Args: []ArgFlow{{Kind: SourceDerived, Derived: &Derived{Form: FormTemplate, Parts: []Part{{Text: "no. "}, {Place: true, Step: 0}}}}}}), false},
		"it takes something":        {of(log, path{tokens: []uint32{1, 2, 3, 9}, occ: 20, before: 200}, asks, out(0), out(1), out(2)), false},
		"most others have it":       {of(log, path{tokens: []uint32{9, 1, 2, 3}, occ: 150, after: 200}, asks, asks, out(1), out(2)), false},
		"nothing serves the others": {of(log, path{tokens: []uint32{9, 1, 2, 8}, occ: 20, after: 200}, asks, asks, out(1), out(2)), false},
		"it is in that flow":        {of(log, path{tokens: []uint32{1, 2, 3}, occ: 20, after: 200}, asks, asks, out(1)), false},
		"two steps":                 {of(log, path{tokens: []uint32{9, 1}, occ: 20, after: 200}, asks, asks), false},
	} {
		require.Equal(t, c.loose, m.loose(&c.of), name)
	}
}

// TestLostLoops: a step that runs for each element of a list is lost like any other, and what is left of the flow has
// no loop.
func TestLostLoops(t *testing.T) {
	log, loops := &calls{}, &calls{}
	parts := map[string]int{}
	for _, p := range pieces([]uint32{0, 1, 2, 3, 4}) {
		parts[tokenKey(p)] = 100
	}
	n := &noise{miner: &miner{log: log, loops: loops}, torn: map[*calls]*tears{
		log: {}, loops: {wholes: []whole{{tokens: []uint32{0, 1, 2, 3, 4}, lost: 0.1, parts: parts}}}}}
	left := func(tokens ...uint32) *proof {
		return &proof{log: log, stats: &path{tokens: tokens, level: len(tokens), occ: 12}, flow: &DataFlow{}}
	}
	require.True(t, n.explains(left(0, 1, 3, 4)))
	require.True(t, n.explains(left(0, 2, 2, 2, 3, 4)), "another step is lost")
	require.False(t, n.explains(left(0, 3, 4, 5)))
	require.False(t, (*noise)(nil).explains(left(0, 1, 3, 4)), "few sessions")
}

// TestWhatNearlyAlwaysGoesOnIsCounted: below the support a sequence is kept where both of its parts nearly always go on in it.
func TestWhatNearlyAlwaysGoesOnIsCounted(t *testing.T) {
	lengths := func(whole, parts int) int {
		var sessions []ingest.Session
		for i := range whole {
			sessions = append(sessions, sessionOf(fmt.Sprint("w", i), "a b c"))
		}
		for i := range parts {
			sessions = append(sessions, sessionOf(fmt.Sprint("p", i), "a b |b c"))
		}
		return len(count(logOf(t, NewMemory(sessions)), 16, 90).levels) - 1
	}
	require.Equal(t, 3, lengths(80, 20))
	require.Equal(t, 3, lengths(65, 35), "of 100 this may be 0.7: at most 0.74 (Wilson)")
	require.Equal(t, 2, lengths(60, 40), "at most 0.69")
}
