package observer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// TestBatchRecount: what is said of a batch is what a plain count over random sessions says, in whatever order they come.
func TestBatchRecount(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var sessions []ingest.Session
		want, turns := Batch{}, 0
		held := [3]int{}
		for i := range 60 {
			// Three calls of three tools; the user names the values of some, the first by itself.
			tools, text, known, open := []string{"alpha", "beta", "gamma"}, "please", 1, true
			var steps []step
			for k, tool := range tools {
				v := j("%s-%d-%d", tool[:1], seed, i)
				named := k == 0 || rng.IntN(4) > 0
				if named {
					text += " " + v
					held[k]++
				}
				if k > 0 {
					open = open && named
					if open {
						known++
					}
				}
				steps = append(steps, step{tool: tool, args: j(`{"x":%q}`, v), result: `{}`})
			}
			want.Examined, turns = want.Examined+1, turns+known-1
			if known > 1 {
				want.Several++
			} else if len(want.Contradicting) < 3 {
				want.Contradicting = append(want.Contradicting, id(i))
			}
			if known == 3 {
				want.Whole++
				if len(want.Supporting) < 3 {
					want.Supporting = append(want.Supporting, id(i))
				}
			}
			sessions = append(sessions, talk(id(i), text, steps...))
		}
		r := mine(t, Options{}, sessions...)
		p := r.batch(t, "alpha > beta > gamma")
		require.Equal(t, want, *p.Batch)
		require.InDelta(t, float64(turns)/60, p.TurnsSaved, 1e-12)
		require.InDelta(t, float64(turns), p.Score, 1e-9, "nothing else saves anything")
		for k, s := range p.DataFlow.Steps {
			e := s.Args[0].Evidence
			require.Equal(t, []int{60, held[k], 60}, []int{e.Present, e.Held, e.Distinct}, "step %d", k)
		}

		shuffled := slices.Clone(sessions)
		rng.Shuffle(len(shuffled), func(a, b int) { shuffled[a], shuffled[b] = shuffled[b], shuffled[a] })
		again := mine(t, Options{}, shuffled...)
		require.Equal(t, batchesOf(r), batchesOf(again))
		for _, p := range batchesOf(r) {
			for _, in := range p.DataFlow.Inputs {
				require.Empty(t, in.Examples, "no recorded value leaves with a batch")
			}
		}
	}
}

// TestBatchOfOneTurn: what agents ask for in one turn already saves nothing.
func TestBatchOfOneTurn(t *testing.T) {
	r := mine(t, Options{}, many(40, func(i int) ingest.Session {
		return talk(id(i), j("a-%d b-%d", i, i), step{tool: "alpha", args: j(`{"x":"a-%d"}`, i), result: `{}`},
			step{tool: "beta", args: j(`{"x":"b-%d"}`, i), result: `{}`, same: true})
	})...)
	require.Equal(t, 40, r.Sessions)
	require.Empty(t, batchesOf(r))
}
