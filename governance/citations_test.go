package governance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/observer"
)

func TestStripPatternTakesExamplesWithTheirSession(t *testing.T) {
	pattern := func() *observer.Pattern {
		return &observer.Pattern{Occurrences: 9, Examples: []observer.Occurrence{{SessionID: "a"}, {SessionID: "b"}}, DataFlow: &observer.DataFlow{
			Steps: []observer.StepFlow{{Each: &observer.EachFlow{Evidence: observer.Evidence{Supporting: []string{"a"}}},
				Args: []observer.ArgFlow{{Arg: "q", Evidence: observer.Evidence{Held: 3, Supporting: []string{"a", "c"}, Contradicting: []string{"a", "b"}}}}}},
			Inputs: []observer.Input{{Name: "q", Examples: []any{"of a", "of c", "of a, too"}, ExampleSessions: []string{"a", "c", "a"}},
				{Name: "old", Examples: []any{"of somebody"}}}}}
	}
	p := pattern()
	require.ElementsMatch(t, []string{"a", "b", "a", "a", "c", "a", "b", "a", "c", "a"}, patternSessions(p))
	StripPattern(p, map[string]bool{"a": true})
	require.Equal(t, []observer.Occurrence{{SessionID: "b"}}, p.Examples)
	require.Empty(t, p.DataFlow.Steps[0].Each.Evidence.Supporting)
	evidence := p.DataFlow.Steps[0].Args[0].Evidence
	require.Equal(t, []string{"c"}, evidence.Supporting)
	require.Equal(t, []string{"b"}, evidence.Contradicting)
	require.Equal(t, []any{"of c"}, p.DataFlow.Inputs[0].Examples)
	require.Equal(t, []string{"c"}, p.DataFlow.Inputs[0].ExampleSessions)
	require.Empty(t, p.DataFlow.Inputs[1].Examples, "nobody knows whose they are")
	require.Equal(t, []int{9, 3}, []int{p.Occurrences, evidence.Held}, "counts stay")
	require.NotContains(t, patternSessions(p), "a")
}
