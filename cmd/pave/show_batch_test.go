package main

import (
	"strings"
	"testing"
	"time"

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

// TestNotesOfKinds: an argument that is taken of a list's elements, or derived, is said to be.
func TestNotesOfKinds(t *testing.T) {
	evidence := gen.ArgEvidence{Held: 7, Present: 9, Distinct: 8}
	for _, c := range []struct {
		arg  gen.ArgFlow
		want string
	}{
		{gen.ArgFlow{Kind: gen.ArgFlowKindOutput}, "held 7 of 9 on 8 values, 0.0% by chance"},
		{gen.ArgFlow{Kind: gen.ArgFlowKindElement, Pointer: "/rooms/*"}, "for each element, held 7 of 9 on 8 values, 0.0% by chance"},
		{gen.ArgFlow{Kind: gen.ArgFlowKindElement, Input: "calls", Pointer: "/*/day"}, "for each element, 8 distinct values in 9"},
		{gen.ArgFlow{Kind: gen.ArgFlowKindDerived}, "derived, held 7 of 9 on 8 values, 0.0% by chance"},
	} {
		c.arg.Arg, c.arg.Presence, c.arg.Evidence = "x", 1, evidence
		require.Equal(t, c.want, mappingNotes(&gen.Pattern{DataFlow: &gen.DataFlow{Steps: [][]gen.ArgFlow{{c.arg}}}})(0, "x"))
	}
}

// TestListOfProposals: the share in which callers knew several calls is not shown as exactness.
func TestListOfProposals(t *testing.T) {
	for _, c := range []struct {
		p            gen.ProposalSummary
		exact, known string
	}{
		{gen.ProposalSummary{Sampled: 8, Explained: 7}, "87.5%", "-"},
		{gen.ProposalSummary{}, "-", "-"},
		{gen.ProposalSummary{Sampled: 20, Explained: 15, Batch: &gen.PatternBatch{Examined: 20, Several: 15}}, "-", "75.0%"},
	} {
		exact, known := exactOrKnown(&c.p)
		require.Equal(t, []string{c.exact, c.known}, []string{exact, known})
	}
}

func TestShowShadow(t *testing.T) {
	since := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		result *gen.ShadowResult
		want   string
	}{
		{nil, ""},
		{&gen.ShadowResult{Since: since, Sessions: 90, Windows: 80, Exact: 80, Passed: true},
			"  on live sessions since " + when(since) + ", 90 with its first tool: 80 of 80 walks of this path were as predicted; passed\n"},
		{&gen.ShadowResult{Since: since, Sessions: 9, Windows: 4, Exact: 3, Reason: "too few"},
			"  on live sessions since " + when(since) + ", 9 with its first tool: 3 of 4 walks of this path were as predicted; not passed yet: too few\n"},
		{&gen.ShadowResult{Since: since, Sessions: 9, Windows: 4, Exact: 4, Given: true, Reason: "too few"},
			"  on live sessions since " + when(since) + ", 9 with its first tool: callers could have given several calls in 4 walks; not passed yet: too few\n"},
	} {
		var out strings.Builder
		showShadow(&out, c.result)
		require.Equal(t, c.want, out.String())
	}
}
