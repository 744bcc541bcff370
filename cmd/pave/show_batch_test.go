package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
)

// TestNotesOfBatches: nothing is predicted, so nothing is said to have held or not to.
func TestNotesOfBatches(t *testing.T) {
	arg := gen.ArgFlow{Arg: "day", Kind: gen.ArgFlowKindInput, Presence: 0.5,
		Evidence: gen.ArgEvidence{Held: 7, Present: 9, Distinct: 8, Supporting: []string{"s1"}, Contradicting: []string{"s2", "s3"}}}
	pattern := &gen.Pattern{Batch: &gen.PatternBatch{Examined: 9, Several: 7}, DataFlow: &gen.DataFlow{Steps: [][]gen.ArgFlow{{arg}}}}
	require.Equal(t, "callers knew it in 7 of 9, 8 distinct values, present in 50%, they did not in s2, s3", mappingNotes(pattern)(0, "day"))
	pattern.Batch = nil
	require.Contains(t, mappingNotes(pattern)(0, "day"), "8 distinct values in 9")
}
