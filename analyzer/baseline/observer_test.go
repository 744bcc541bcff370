package baseline_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pave/analyzer/baseline"
	"pave/flows"
)

func ptr[T any](v T) *T { return &v }

// tracesOf writes one trace per word, one tool per letter.
func tracesOf(words ...string) []baseline.Trace {
	out := make([]baseline.Trace, len(words))
	for i, word := range words {
		out[i].ID = word
		for _, letter := range word {
			out[i].Steps = append(out[i].Steps, baseline.Step{Tool: string(letter)})
		}
	}
	return out
}

func suggest(t testing.TB, traces []baseline.Trace, opts baseline.ObserverOptions) []baseline.Suggestion {
	t.Helper()
	o, err := baseline.NewObserver(nil)
	require.NoError(t, err)
	o.Add(traces...)
	found, err := o.SuggestFlows(opts)
	require.NoError(t, err)
	return found
}

// rows are the suggested sequences as words.
func rows(found []baseline.Suggestion) (out []string) {
	for _, s := range found {
		out = append(out, strings.Join(s.Tools, ""))
	}
	return out
}

func TestObserverErrors(t *testing.T) {
	_, err := baseline.NewObserver(ptr(0))
	assert.EqualError(t, err, "max_traces must be >= 1 or None, got 0.")
	o, err := baseline.NewObserver(nil)
	require.NoError(t, err)
	for opts, message := range map[baseline.ObserverOptions]string{
		{MinOccurrences: 0, MinLength: 2}:                    "min_occurrences must be >= 1, got 0.",
		{MinOccurrences: 1, MinLength: -1}:                   "min_length must be >= 1, got -1.",
		{MinOccurrences: 1, MinLength: 3, MaxLength: ptr(2)}: "max_length must be >= min_length (3), got 2.",
	} {
		_, err := o.SuggestFlows(opts)
		assert.EqualError(t, err, message)
		assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
	}
	_, err = o.EndTrace()
	assert.ErrorContains(t, err, "No open trace")
}

func TestObserverKeepsTheNewestTraces(t *testing.T) {
	o, err := baseline.NewObserver(ptr(2))
	require.NoError(t, err)
	for _, word := range []string{"abc", "ab", "ab"} {
		for _, letter := range word {
			o.Record(baseline.Step{Tool: string(letter)})
		}
		_, err := o.EndTrace()
		require.NoError(t, err)
	}
	assert.Equal(t, 2, o.Len())
	found, err := o.SuggestFlows(baseline.ObserverOptions{MinOccurrences: 1, MinLength: 1})
	require.NoError(t, err)
	assert.Equal(t, []string{"ab"}, rows(found))
	assert.Equal(t, "trace-1", found[0].Example.ID)
}

// Confidence is rounded on the binary value: 1/3 and 2/3 to six digits.
func TestConfidence(t *testing.T) {
	found := suggest(t, tracesOf("ab", "ac", "ac"), baseline.ObserverOptions{MinOccurrences: 1, MinLength: 2})
	require.Equal(t, []string{"ac", "ab"}, rows(found))
	assert.Equal(t, []float64{0.666667, 0.333333}, []float64{found[0].Confidence, found[1].Confidence})
	assert.Contains(t, found[0].Flow.Description, "(seen 2x, confidence 0.666667)")
	assert.Equal(t, 4, found[0].EstimatedLLMCallsAvoided())
}

// The index over patterns finds what comparing all of them with all finds.
func TestObserverAgainstTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 9, -1), 0, 6).Draw(t, "traces")
		opts := baseline.ObserverOptions{MinOccurrences: rapid.IntRange(1, 4).Draw(t, "min"), MinLength: rapid.IntRange(1, 3).Draw(t, "length"),
			KeepSubsumed: rapid.Bool().Draw(t, "keep")}
		if rapid.Bool().Draw(t, "bounded") {
			opts.MaxLength = ptr(opts.MinLength + rapid.IntRange(0, 3).Draw(t, "max"))
		}
		o, err := baseline.NewObserver(nil)
		require.NoError(t, err)
		o.Add(tracesOf(words...)...)
		found, err := o.SuggestFlows(opts)
		require.NoError(t, err)
		got := map[string]int{}
		for _, s := range found {
			got[strings.Join(s.Tools, "")] = s.Occurrences
		}
		assert.Equal(t, byDefinition(words, opts), got)
		assert.True(t, slices.IsSortedFunc(found, func(a, b baseline.Suggestion) int { return b.Occurrences - a.Occurrences }))
	})
}

func byDefinition(words []string, opts baseline.ObserverOptions) map[string]int {
	counts := map[string]int{}
	for _, word := range words {
		for start := range word {
			for end := start + opts.MinLength; end <= len(word) && (opts.MaxLength == nil || end-start <= *opts.MaxLength); end++ {
				counts[word[start:end]]++
			}
		}
	}
	out := map[string]int{}
	for p, n := range counts {
		subsumed := false
		for q, m := range counts {
			subsumed = subsumed || !opts.KeepSubsumed && len(q) > len(p) && m == n && strings.Contains(q, p)
		}
		if n >= opts.MinOccurrences && !subsumed {
			out[p] = n
		}
	}
	return out
}
