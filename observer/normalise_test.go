package observer

import (
	"fmt"
	"math"
	"testing"
	"time"

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

// Sessions that only ran flows are no support and no denominator of it; what agents do beside flows is.
func TestFlowRunsLeaveNoEcho(t *testing.T) {
	sessions := []ingest.Session{sessionOf("s1", "a b ~f ~a ~b c"), sessionOf("s2", "~f ~a ~b"), sessionOf("s3", "a b")}
	for i := range 3000 {
		sessions = append(sessions, sessionOf(fmt.Sprintf("run%04d", i), "~f ~a ~b"))
	}
	log := logOf(t, NewMemory(sessions))
	require.Equal(t, []string{"s1", "s3"}, log.sessions)
	require.Equal(t, 3+3+9000, log.flowCalls)
	require.Equal(t, []string{"a0 b1", "c5", "a0 b1"}, written(log))
	result := mine(t, Options{MinSessions: 2, MaxEvaluated: -1}, sessions...)
	require.Equal(t, 2, result.Sessions)
	require.Equal(t, 5, result.Calls)
	require.Equal(t, 1, result.Counted[2], "two sessions of two are enough, those of flow runs do not raise what is asked")
}

func TestSkippedToolsAreLeftOut(t *testing.T) {
	sessions := []ingest.Session{sessionOf("s1", "think a think b |think c"), sessionOf("s2", "a &think b"), sessionOf("s3", "think think")}
	raw, err := readSequences(t.Context(), NewMemory(sessions), Options{MaxCalls: math.MaxInt})
	require.NoError(t, err)
	names, err := NewMemory(sessions).ToolNames(t.Context())
	require.NoError(t, err)
	log := normalise(raw, names, map[string]bool{"think": true})
	require.Equal(t, []string{"a1 b3", "c5", "a0 b2"}, written(log))
	require.Equal(t, 6, log.skipped)
	require.Equal(t, 11, log.read)
	require.Equal(t, 6+2+2, log.turns, "the model asked for the skipped calls, too")
	require.Equal(t, 1, log.turnsSaved(window{stretch: 0, at: 0}, 2))
}

// Of more calls than the limit the latest sequences are read, whole.
func TestTooManyCalls(t *testing.T) {
	var sessions []ingest.Session
	for i := range 100 {
		s := sessionOf(fmt.Sprintf("s%02d", i), "a b c d e")
		s.Runs[0].Calls[0].Start = time.Date(2026, 1, 1+(i*37)%100, 12, 0, 0, 0, time.UTC)
		sessions = append(sessions, s)
	}
	sessions = append(sessions, sessionOf("timeless", "a b c d e"))
	for limit, want := range map[int]int{1000: 101, 505: 101, 504: 100, 250: 50, 7: 1, 4: 0} {
		raw, err := readSequences(t.Context(), NewMemory(sessions), Options{MaxCalls: limit})
		require.NoError(t, err)
		require.Len(t, raw.seqs, want, limit)
		require.Equal(t, 5*(101-want), raw.leftOut)
		require.Len(t, raw.tools, 5*want)
		for _, s := range raw.seqs {
			require.Equal(t, []uint32{0, 1, 2, 3, 4}, raw.tools[s.from:s.to])
			if want < 100 {
				require.Greater(t, int(s.day), 20454+100-want-1, "1 January 2026 is day 20454")
			}
		}
	}
	require.Equal(t, 255, mine(t, Options{MaxCalls: 250}, sessions...).LeftOut)
}

func TestSessionsAreBroughtTogether(t *testing.T) {
	parts := sessionOf("s1", "a b")
	parts.Runs = append(parts.Runs, sessionOf("", "c d").Runs...)
	log := logOf(t, NewMemory([]ingest.Session{sessionOf("s2", "a b"), parts, sessionOf("s0", "a b")}))
	require.Equal(t, []string{"s0", "s1", "s2"}, log.sessions)
	require.Equal(t, []string{"a0 b1", "a0 b1", "c0 d1", "a0 b1"}, written(log))
	require.Equal(t, Occurrence{SessionID: "s1", RunIndex: 1, Calls: []int{0, 1}}, log.occurrence(window{stretch: 2, at: 4}, 2))
}
