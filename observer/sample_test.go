package observer

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// A sampler sees windows one by one and forgets most; what it keeps must be what a look at all of them would choose.
func TestSamplerChoosesAsOneThatSeesAll(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		s := sampler{want: 1 + r.IntN(40)}
		var all []drawn
		bunches := 1 + r.IntN(30)
		for at := range uint32(r.IntN(400)) {
			d := drawn{order: uint64(1+r.IntN(bunches))<<32 | uint64(r.IntN(20)), window: window{at: at}}
			all = append(all, d)
			s.add(d.window, d.order)
		}
		slices.SortFunc(all, func(a, b drawn) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.at, b.at)) })
		of := map[uint64]int{}
		for i := range all {
			all[i].turn = uint32(of[all[i].order>>32] / perBunch)
			of[all[i].order>>32]++
		}
		slices.SortStableFunc(all, func(a, b drawn) int { return cmp.Compare(a.turn, b.turn) })
		n := 1 + r.IntN(s.want)
		var want []uint32
		for _, d := range all[:min(n, len(all))] {
			want = append(want, d.at)
		}
		slices.Sort(want)
		var got []uint32
		for _, w := range s.take(n) {
			got = append(got, w.at)
		}
		require.Equal(t, want, got)
	}
}

func TestSessionsOfOneTimeAreNeighboursInTheOrder(t *testing.T) {
	n := 4 * manySessions
	ids, begun := make([]string, n), make([]int64, n)
	for i := range ids {
		ids[i], begun[i] = fmt.Sprint("s", i), 1_780_000_000+10*int64(i)
	}
	begun[7] = 0
	order := sessionOrder(ids, begun)
	require.Equal(t, shuffled(ids[7]), order[7], "a session without a time is a bunch of its own")
	changes := 0
	for i := 9; i < n; i++ {
		if order[i]>>32 != order[i-1]>>32 {
			changes++
		}
	}
	size := bunchSize(n)
	require.Equal(t, 100, size)
	require.GreaterOrEqual(t, changes, n/size-1, "bunches of at most %d sessions", size)
	require.LessOrEqual(t, changes, 2*n/size, "and of more than half as many")
	distinct := map[uint64]bool{}
	for _, o := range order {
		distinct[o] = true
	}
	require.InDelta(t, n, len(distinct), 2, "sessions of a bunch are told apart")

	few := sessionOrder(ids[:100], begun[:100])
	for i, o := range few {
		require.Equal(t, shuffled(ids[i]), o, "of few sessions each is a bunch")
	}
}

// countingSource notes how often sessions are read.
type countingSource struct {
	Source
	reads map[string]int
	calls int
}

func (s *countingSource) Sessions(ctx context.Context, ids []string, fn func(*ingest.Session) error) error {
	s.calls++
	for _, id := range ids {
		s.reads[id]++
	}
	return s.Source.Sessions(ctx, ids, fn)
}

func TestAPassReadsEachSessionOnce(t *testing.T) {
	src := &countingSource{Source: NewMemory(pairSessions(80)), reads: map[string]int{}}
	res, err := Mine(t.Context(), src, Options{})
	require.NoError(t, err)
	require.NotEmpty(t, res.Patterns)
	require.NotEmpty(t, src.reads)
	for id, n := range src.reads {
		require.Equal(t, 1, n, id)
	}
}

// pairSessions look something up and use what they found, among other calls.
func pairSessions(n int) []ingest.Session {
	out := make([]ingest.Session, n)
	for i := range out {
		out[i] = ingest.Session{ID: fmt.Sprintf("s%03d", i)}
		run := ingest.AgentRun{Users: []ingest.UserTurn{{Text: fmt.Sprintf("Look for person %d.", 1000+i)}}}
		call := func(tool, args, result string) {
			run.Calls = append(run.Calls, ingest.Call{Seq: len(run.Calls), Turn: int32(len(run.Calls)),
				ToolCall: ingest.ToolCall{Tool: tool, Args: []byte(args), Result: []byte(result)}})
		}
		call("find_person", fmt.Sprintf(`{"number":%d}`, 1000+i), fmt.Sprintf(`{"key":"k-%d-%d"}`, i, i*i))
		call("get_account", fmt.Sprintf(`{"key":"k-%d-%d"}`, i, i*i), fmt.Sprintf(`{"balance":%d}`, 7*i+3))
		out[i].Runs = []ingest.AgentRun{run}
	}
	return out
}
