package observer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

func TestNormalise(t *testing.T) {
	for _, c := range []struct {
		name, words string
		want        []string
	}{
		{"breaks cut", "a b |c d", []string{"a0 b1", "c2 d3"}},
		{"calls of flows are skipped and cut", "a ~f b", []string{"a0", "b2"}},
		{"repeats fold to the last", "a =a =a b", []string{"a2 b3"}},
		{"a repeat keeps the last that did not fail", "a =a! b", []string{"a0 b2"}},
		{"a repeat that succeeds replaces a failure", "a! =a b", []string{"a1 b2"}},
		{"failures only keep the last", "a! =a! b", []string{"a1!", "b2"}},
		{"a retry keeps the success", "a! a b", []string{"a1 b2"}},
		{"a retry may have one call between", "a! b a c", []string{"b1 a2 c3"}},
		{"two calls between are no retry", "a! b c a", []string{"a0!", "b1 c2 a3"}},
		{"retries of retries", "a! a! a! a b", []string{"a3 b4"}},
		{"an unrecovered failure ends the stretch", "a b! c", []string{"a0 b1!", "c2"}},
		{"waves are ordered by tool", "x c &b &a y", []string{"x0 a3 b2 c1 y4"}},
		{"calls of one tool keep their order in a wave", "b &a &b &a", []string{"a1 a3 b0 b2"}},
		{"turns are not ordered", "c b a", []string{"c0 b1 a2"}},
		{"a repeat inside a wave", "b &a &=a", []string{"a2 b0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := logOf(t, NewMemory([]ingest.Session{sessionOf("s", c.words)}))
			require.Equal(t, c.want, written(log))
		})
	}
}

func TestNormaliseCounts(t *testing.T) {
	log := logOf(t, NewMemory([]ingest.Session{sessionOf("s", "a =a b! b &c ~f |d")}))
	require.Equal(t, 6, log.read, "calls of the agent")
	require.Equal(t, 1, log.repeats)
	require.Equal(t, 1, log.retries)
	require.Equal(t, 5, log.turns, "a, its repeat, the failure, the wave of b and c, and d")
	require.Equal(t, []string{"a1 b3 c4", "d6"}, written(log))
}

func TestSessionsAreBroughtTogether(t *testing.T) {
	parts := sessionOf("s1", "a b")
	parts.Runs = append(parts.Runs, sessionOf("", "c d").Runs...)
	log := logOf(t, NewMemory([]ingest.Session{sessionOf("s2", "a b"), parts, sessionOf("s0", "a b")}))
	require.Equal(t, []string{"s0", "s1", "s2"}, log.sessions)
	require.Equal(t, []string{"a0 b1", "a0 b1", "c0 d1", "a0 b1"}, written(log))
	require.Equal(t, Occurrence{SessionID: "s1", RunIndex: 1, Calls: []int{0, 1}}, log.occurrence(window{stretch: 2, at: 4}, 2))
}
