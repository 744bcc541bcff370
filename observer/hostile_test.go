package observer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// A result of 10,000 values is read up to the limit; what lies within it still explains arguments, and other patterns
// are found as without it.
func TestHugeResults(t *testing.T) {
	const leaves = 10_000
	sessions := many(12, func(i int) ingest.Session {
		var list strings.Builder
		for k := range leaves {
			fmt.Fprintf(&list, `,"v-%d-%d"`, i, k)
		}
		dump := j(`{"key":"k-%d","list":[%s],"zone":"l-%d"}`, i, list.String()[1:], i)
		return talk(id(i), j("dump user%d", i),
			step{tool: "dump", args: j(`{"name":"user%d"}`, i), result: dump},
			step{tool: "use", args: j(`{"key":"k-%d"}`, i), result: `{}`},
			step{tool: "say", args: j(`{"zone":"l-%d"}`, i), result: `{}`})
	})
	for i := range 12 {
		sessions = append(sessions, findUse(100+i, j(`{"hit":"h-%d"}`, i), j(`{"hit":"h-%d"}`, i)))
	}
	r := mine(t, Options{}, sessions...)
	p := r.pattern("dump > use")
	require.NotNil(t, p)
	require.Equal(t, "/key", p.DataFlow.Steps[1].Args[0].Pointer)
	require.Nil(t, r.pattern("dump > use > say"), "the value beyond the limit is not read, so nothing explains it")
	require.NotNil(t, r.pattern("find > use"))

	few := mine(t, Options{MaxLeaves: leaves + 10}, sessions...)
	require.NotNil(t, few.pattern("dump > use > say"), "the limit is a setting")
}

// 100,000 tools, each called in three sessions, bound neither the search nor other patterns.
func TestManyFrequentTools(t *testing.T) {
	var sessions []ingest.Session
	for s := range 3000 {
		var words []string
		for k := range 100 {
			words = append(words, fmt.Sprintf("t%06d", (s/3)*100+k))
		}
		sessions = append(sessions, sessionOf(fmt.Sprintf("s%05d", s), strings.Join(words, " ")))
	}
	for i := range 12 {
		sessions = append(sessions, findUse(100+i, j(`{"hit":"h-%d"}`, i), j(`{"hit":"h-%d"}`, i)))
	}
	r := mine(t, Options{MinShare: 1e-9, MaxLength: 3}, sessions...)
	require.Equal(t, 100_002, r.Counted[1])
	require.Equal(t, 99_001, r.Counted[2])
	require.NotNil(t, r.pattern("find > use"))
	require.LessOrEqual(t, len(r.Patterns), 200)
	require.LessOrEqual(t, len(r.Blocked), 100)
	require.LessOrEqual(t, len(r.tracked.Paths), maxTracked+2)
}

// A loop of more calls than values are read of a result is counted, and not looked at; others of its kind are.
func TestHugeLoops(t *testing.T) {
	sessions := many(30, func(i int) ingest.Session { return looped(i, 1+i%4, 1+i%4, true) })
	sessions = append(sessions, looped(30, 150, 150, true))
	for limit, sampled := range map[int]int{100: 30, 2000: 31} {
		p := mine(t, Options{MaxLeaves: limit}, sessions...).pattern("account > order")
		require.NotNil(t, p)
		require.Equal(t, []int{31, sampled}, []int{p.Occurrences, p.DataFlow.Sampled})
		require.NotNil(t, p.DataFlow.Steps[1].Each)
	}
}

// Long sequences that each repeat in three sessions are more candidates than a pass examines, and each would save more
// than a small routine: that is found nevertheless, and the result says how many were left.
func TestMoreCandidatesThanExamined(t *testing.T) {
	const blocks, length = 300, 100
	var sessions []ingest.Session
	for s := range 3 * blocks {
		var words []string
		for k := range length {
			words = append(words, fmt.Sprintf("t%06d", (s/3)*length+k))
		}
		sessions = append(sessions, sessionOf(fmt.Sprintf("s%05d", s), strings.Join(words, " ")))
	}
	for i := range 12 {
		sessions = append(sessions, findUse(100+i, j(`{"hit":"h-%d"}`, i), j(`{"hit":"h-%d"}`, i)))
	}
	r := mine(t, Options{MinShare: 1e-9, MaxEvaluated: 400}, sessions...)
	require.NotNil(t, r.pattern("find > use"))
	require.Len(t, r.Counted, 17, "no level is 0 and 16 are counted")
	windows := blocks * (length - 16 + 1) // of 16 calls, each a path of its own
	require.Equal(t, windows, r.Counted[16])
	require.Greater(t, r.NotExamined, windows-400)
	require.Less(t, r.NotExamined, windows)

	few := mine(t, Options{MaxEvaluated: 400}, sessions[len(sessions)-12:]...)
	require.NotNil(t, few.pattern("find > use"))
	require.Zero(t, few.NotExamined)
}
