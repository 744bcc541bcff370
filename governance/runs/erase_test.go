package runs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
)

const someTrace = "4bf92f3577b34da6a3ce929d0e0e4736"

func TestEraseRunsLeavesOpenOnesAlone(t *testing.T) {
	b := newBench(t, nil)
	b.withRefunds(t)
	b.activate(t, greetFlow("user_by_email"))
	waits, err := b.Run(ctx, ci, runs.Request{Flow: "pay_back", Input: map[string]any{"email": "ann@example.com", "amount": 7}, TraceID: someTrace})
	require.NoError(t, err)
	require.Equal(t, executor.StatusAwaitingApproval, waits.State)
	nested, err := b.Run(ctx, ci, runs.Request{Flow: "greet", Input: map[string]any{"mail": "ann@example.com"}, TraceID: someTrace})
	require.NoError(t, err)
	apart, err := b.Run(ctx, ci, runs.Request{Flow: "greet", Input: map[string]any{"mail": "bob@example.com"}})
	require.NoError(t, err)

	got, err := b.EraseRuns(ctx, tenant, []string{someTrace}, nil)
	require.NoError(t, err)
	require.Equal(t, governance.ErasedRuns{Runs: 1, Open: 1, Sessions: []string{"flow-run:" + nested.ID}}, got)
	again, err := b.EraseRuns(ctx, tenant, []string{someTrace}, nil)
	require.NoError(t, err)
	require.Equal(t, governance.ErasedRuns{Open: 1, Sessions: got.Sessions}, again, "it can be repeated")

	kept, err := b.Get(ctx, ci, nested.ID)
	require.NoError(t, err)
	require.False(t, kept.Erased.IsZero())
	raw, err := executor.EncodeResult(kept.Result)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "ann", "not in the flow that a step called either")
	require.Equal(t, "user_by_email", kept.Result.ExecutionLog[0].SubResult.FlowName)
	require.Equal(t, []float64{nested.Result.TotalDurationMS, nested.Avoided.LLMCalls}, []float64{kept.Result.TotalDurationMS, kept.Avoided.LLMCalls})
	_, err = b.Replay(ctx, ci, nested.ID, runs.ReplayRequest{})
	refused(t, flows.CodeConflict, err, "were deleted")
	stats, err := b.events.RunStats(ctx, tenant, nested.Started.Add(-time.Minute), apart.Ended.Add(time.Minute))
	require.NoError(t, err)
	var counted int64
	for _, stat := range stats {
		counted += stat.Runs
	}
	require.EqualValues(t, 2, counted, "reports stay as they were")

	_, err = b.Cancel(ctx, ci, waits.ID)
	require.NoError(t, err)
	got, err = b.EraseRuns(ctx, tenant, nil, []string{"flow-run:" + waits.ID, "s-1"})
	require.NoError(t, err)
	require.EqualValues(t, 1, got.Runs)
	kept, err = b.Get(ctx, ci, waits.ID)
	require.NoError(t, err)
	raw, err = executor.EncodeResult(kept.Result)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "ann")
	for _, approval := range kept.Approvals {
		require.Empty(t, approval.Inputs)
	}
	whole, err := b.Get(ctx, ci, apart.ID)
	require.NoError(t, err)
	require.Equal(t, "name of u-bob@example.com", whole.Result.FinalOutput["name"])
}
