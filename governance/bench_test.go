package governance_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/analyzer"
	"pave/governance"
)

// BenchmarkReviewList reads pages of a queue of 10,000 proposals.
func BenchmarkReviewList(b *testing.B) {
	q := newBench(b)
	q.apply(findUser(), getUser())
	policy := governance.DefaultPolicy()
	policy.MaxPending = 10_000
	require.NoError(b, q.SetPolicy(ctx, admin, policy, 0))
	all := make([]analyzer.Candidate, 10_000)
	for i := range all {
		all[i] = candidate(userFlow(fmt.Sprint("f", i)), fmt.Sprint("k", i), 10, 100)
	}
	report := q.propose(all...) // in one pass, as mining does
	require.Equal(b, 10_000, report.Count(governance.OutcomeCreated))
	for _, sort := range []string{"rank", "savings"} {
		b.Run(sort, func(b *testing.B) {
			cursor := ""
			for b.Loop() {
				page, err := q.Proposals(ctx, bob, governance.ProposalFilter{States: []governance.State{governance.StateProposed}, Sort: sort, Cursor: cursor})
				if err != nil || len(page.Items) == 0 {
					b.Fatal(err)
				}
				cursor = page.Next
			}
		})
	}
}
