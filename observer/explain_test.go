package observer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// explained mines and then explains one path.
func explained(t *testing.T, sessions []ingest.Session, options Options, tools ...string) *Explanation {
	t.Helper()
	src := NewMemory(sessions)
	last, err := Mine(t.Context(), src, options)
	require.NoError(t, err)
	e, err := Explain(t.Context(), src, last, tools, options)
	require.NoError(t, err)
	require.Equal(t, tools, e.Tools)
	require.NotEmpty(t, e.Detail)
	return e
}

func TestExplain(t *testing.T) {
	linked := many(12, func(i int) ingest.Session {
		return talk(id(i), j("I am user%d", i),
			step{tool: "find", args: j(`{"name":"user%d"}`, i), result: j(`{"key":"k-%d"}`, i)},
			step{tool: "read", args: j(`{"key":"k-%d"}`, i), result: j(`{"list":["o-%d-0","o-%d-1","o-%d-2"]}`, i, i, i)},
			step{tool: "open", args: j(`{"item":"o-%d-%d"}`, i, i%3), result: j(`{"item":"o-%d-%d","ship":"sh-%d"}`, i, i%3, i)},
			step{tool: "track", args: j(`{"ship":"sh-%d"}`, i), result: `{}`})
	})
	rare := append(linked, sessionOf("r1", "x y"), sessionOf("r2", "x y!"), sessionOf("r3", "x z z y"))
	for _, c := range []struct {
		name     string
		tools    []string
		verdict  Verdict
		occ      int
		sessions int
		detail   string
	}{
		{"a pattern", []string{"find", "read"}, VerdictPattern, 12, 12, "It is a pattern"},
		{"a choice in the way", []string{"find", "read", "open"}, VerdictBlocked, 12, 12, "item of step 3 (open)"},
		{"begins with what is blocked", []string{"find", "read", "open", "track"}, VerdictBlocked, 12, 12, "item of step 3 (open)"},
		{"too few sessions", []string{"x", "y"}, VerdictInfrequent, 2, 2, "in 2 sessions, and a path needs 3"},
		{"never", []string{"find", "read", "track"}, VerdictAbsent, 0, 0, "find > read occurs 12 times and track never follows it at once; most often open follows"},
		{"no such tool", []string{"find", "re"}, VerdictUnknownTool, 0, 0, "Did you mean read?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := explained(t, rare, Options{}, c.tools...)
			require.Equal(t, c.verdict, e.Verdict, e.Detail)
			require.Equal(t, c.occ, e.Occurrences)
			require.Equal(t, c.sessions, e.Sessions)
			require.Contains(t, e.Detail, c.detail)
			if c.verdict != VerdictPattern {
				require.NotEmpty(t, e.Unblock)
			}
		})
	}
	e := explained(t, rare, Options{}, "x", "y")
	require.Equal(t, 1, e.Failures)
	require.InDelta(t, 2.0/3, e.StepConfidence[0], 1e-9)
	require.Equal(t, []Neighbour{{"", 2}}, e.After)
	e = explained(t, rare, Options{}, "read", "open")
	require.Equal(t, []Neighbour{{"find", 12}}, e.Before)
	require.Equal(t, []Neighbour{{"track", 12}}, e.After)
	require.Equal(t, 3, e.MinSessions)
}

func TestExplainWhatGoesOn(t *testing.T) {
	sessions := many(12, func(i int) ingest.Session {
		return talk(id(i), j("I am user%d", i),
			step{tool: "find", args: j(`{"name":"user%d"}`, i), result: j(`{"key":"k-%d"}`, i)},
			step{tool: "read", args: j(`{"key":"k-%d"}`, i), result: j(`{"ship":"sh-%d"}`, i)},
			step{tool: "track", args: j(`{"ship":"sh-%d"}`, i), result: `{}`})
	})
	e := explained(t, sessions, Options{}, "find", "read")
	require.Equal(t, VerdictServed, e.Verdict)
	require.Contains(t, e.Detail, "find > read > track")
	e, err := Explain(t.Context(), NewMemory(sessions), nil, []string{"find", "read"}, Options{})
	require.NoError(t, err)
	require.Equal(t, VerdictGoesOn, e.Verdict, "without a pass")
	require.Contains(t, e.Detail, "In 12 of its 12 occurrences it is followed by track")
}

// The figures of an explanation are those of the count.
func TestExplainAgreesWithTheCount(t *testing.T) {
	sessions := []ingest.Session{sessionOf("s1", "a b a b a c"), sessionOf("s2", "a b |a b a"), sessionOf("s3", "b a b a! a"), sessionOf("s4", "c a b c")}
	result := AllTracked(mine(t, Options{MaxEvaluated: -1, MinSessions: 1}, sessions...))
	counts := CountsOf(t, NewMemory(sessions), result, Options{MaxLength: 16})
	require.Greater(t, len(counts), 15)
	for _, p := range result.Patterns {
		if len(p.Tools) < 2 {
			continue
		}
		e, err := Explain(t.Context(), NewMemory(sessions), nil, p.Tools, Options{MinSessions: 1})
		require.NoError(t, err)
		want := counts[arrow(p.Tools)]
		require.Equal(t, want.Occurrences, e.Occurrences, p.Tools)
		require.Equal(t, want.Sessions, e.Sessions, p.Tools)
		require.Equal(t, want.Confidence, e.StepConfidence, p.Tools)
		require.InDelta(t, want.Expected, e.Expected, 1e-6, p.Tools)
		require.InDelta(t, want.Success, 1-float64(e.Failures)/float64(e.Occurrences), 1e-9)
	}
}
