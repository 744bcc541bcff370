package observer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

func heldOutOf(t *testing.T, sessions []ingest.Session) HeldOut {
	t.Helper()
	p := mine(t, Options{}, sessions...).pattern("find > use")
	require.NotNil(t, p)
	return p.DataFlow.HeldOut
}

// A copy that misses in 2 of 50 sessions is what both halves find, and misses there as well. The other mapped argument is
// a constant; the query is the caller's and no prediction.
func TestHeldOutCountsWhatMappingsMiss(t *testing.T) {
	h := heldOutOf(t, many(50, func(i int) ingest.Session {
		key := j("k-%d", i)
		if i == 7 || i == 30 {
			key = "elsewhere"
		}
		return findUse(i, j(`{"key":"k-%d"}`, i), j(`{"key":%q,"mode":"fast"}`, key))
	}))
	require.Equal(t, HeldOut{Windows: 50, Exact: 48, Predictions: 100, Right: 98}, h)
}

// Two places have the same value but for one session. All sessions together tell which of them is the source. The half
// without that session cannot, and takes the first: wrong in that one session of the other half.
func TestHeldOutFindsSourcesAnew(t *testing.T) {
	build := func(i int) ingest.Session {
		other := i
		if i == 11 {
			other = 999
		}
		return findUse(i, j(`{"a":"k-%d","z":"k-%d"}`, other, i), j(`{"key":"k-%d"}`, i))
	}
	sessions := many(50, build)
	p := mine(t, Options{}, sessions...).pattern("find > use")
	a := p.DataFlow.Steps[1].Args[0]
	require.Equal(t, "/z", a.Pointer)
	require.Equal(t, 50, a.Evidence.Held)
	require.Equal(t, HeldOut{Windows: 50, Exact: 49, Predictions: 50, Right: 49}, p.DataFlow.HeldOut)
}

// One session tells nothing about others, however often the routine occurs in it.
func TestHeldOutNeedsTwoSessions(t *testing.T) {
	d := decision{records: []record{{session: "s"}, {session: "s"}}}
	require.Zero(t, d.heldOut(nil))
}

// Where callers gave the value there is no prediction; where they did not, there is one.
func TestHeldOutLeavesOutWhatCallersGive(t *testing.T) {
	sessions := many(60, func(i int) ingest.Session {
		text := j("look for query-%d please", i)
		if i%2 == 0 {
			text += j(" in room-%d", i)
		}
		return talk(id(i), text, step{tool: "find", args: j(`{"q":"query-%d"}`, i), result: j(`{"home":"room-%d"}`, i+100*(1-i%2))},
			step{tool: "use", args: j(`{"room":"room-%d"}`, i), result: `{"ok":true}`})
	})
	p := mine(t, Options{}, sessions...).pattern("find > use")
	require.NotNil(t, p)
	require.True(t, p.DataFlow.Steps[1].Args[0].Given)
	require.Equal(t, HeldOut{Windows: 60, Exact: 60, Predictions: 30, Right: 30}, p.DataFlow.HeldOut)
}
