package runs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/analyzer"
	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
)

// usersBatch looks a user up, then the users that its caller gives, then another one.
func usersBatch() *flows.Flow {
	return &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "users_batch", Version: "0.1.0", Description: "Look up users.",
		InputSchema: flows.RawSchema(`{"type":"object","required":["email"],"additionalProperties":false,"properties":{"email":{"type":"string"},
			"get_calls":{"default":null,"anyOf":[{"type":"array","items":{"type":"object","properties":{"user_id":{"type":"string"}},"required":["user_id"]}},{"type":"null"}]},
			"last_call":{"default":null,"anyOf":[{"type":"object","properties":{"email":{"type":"string"}},"required":["email"]},{"type":"null"}]}}}`),
		OnContextCollision: flows.CollisionError, OnFailure: flows.OnFailureHandBack, Status: flows.StatusNeedsReview,
		Steps: []flows.Step{
			{ToolName: "find_user", InputMapping: flows.Mapping{{Target: "email", Value: flows.Key("email")}}, OutputAs: "found"},
			{ToolName: "get_user", ForEach: each("get_calls"), As: "get_call", Guard: "get_calls != None",
				InputMapping: flows.Mapping{{Target: "user_id", Value: flows.Pointer("/get_call/user_id")}}, OutputAs: "users"},
			{ToolName: "find_user", Guard: "last_call != None", InputMapping: flows.Mapping{{Target: "email", Value: flows.Pointer("/last_call/email")}}, OutputAs: "last"},
		},
	}
}

func each(key string) *flows.MappingValue {
	v := flows.Key(key)
	return &v
}

// mined brings a flow into service with the savings that its recordings tell.
func (b *bench) mined(t *testing.T, flow *flows.Flow, saves analyzer.Savings) {
	t.Helper()
	report, err := b.gov.Propose(ctx, admin, []analyzer.Candidate{{Source: analyzer.SourceMiner, Flow: flow, Digest: flows.Digest(flow), PatternKey: flow.Name, Savings: saves}})
	require.NoError(t, err)
	id := report.Items[0].ProposalID
	_, err = b.gov.Review(ctx, bob, id, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: flows.Digest(flow)})
	require.NoError(t, err)
	_, err = b.gov.Promote(ctx, bob, id, governance.PromoteRequest{})
	require.NoError(t, err)
}

// usersSaves: recorded occurrences had 4 calls in the mean and took 2.4 decisions between them, 0.8 for each further call.
func usersSaves() analyzer.Savings {
	return analyzer.Savings{Occurrences: 10, CallsPerRun: analyzer.Interval{Mean: 4, Low: 3, High: 5, Known: 10},
		LLMCallsPerRun: analyzer.Interval{Mean: 2.4, Low: 1.2, High: 3.6, Known: 10}, TokensPerRun: analyzer.Interval{Mean: 3000, Low: 3000, High: 3000, Known: 10},
		LatencyMSPerRun: analyzer.Interval{Mean: 6000, Low: 6000, High: 6000, Known: 10}, Basis: "recorded turns"}
}

func users(ids ...string) []any {
	out := []any{}
	for _, id := range ids {
		out = append(out, map[string]any{"user_id": id})
	}
	return out
}

// TestRunsOfBatchesSaveByTheirCalls: a run saves what the calls that it was given would have taken, whether it was given all
// or handed back, and the report adds this up.
func TestRunsOfBatchesSaveByTheirCalls(t *testing.T) {
	b := newBench(t, nil)
	saves := usersSaves()
	saves.PerCall = true
	b.mined(t, usersBatch(), saves)
	last := map[string]any{"email": "z@example.com"}
	total := 0.0
	for _, c := range []struct {
		name   string
		input  map[string]any
		status string
		calls  float64 // model calls avoided
	}{
		{"one call spares no decision", map[string]any{"email": "a@example.com"}, executor.StatusHandedBack, 0},
		{"an empty list makes no call", map[string]any{"email": "a@example.com", "get_calls": users()}, executor.StatusHandedBack, 0},
		{"three calls", map[string]any{"email": "a@example.com", "get_calls": users("1", "2")}, executor.StatusHandedBack, 1.6},
		{"two calls, all that there are", map[string]any{"email": "a@example.com", "get_calls": users(), "last_call": last}, executor.StatusSucceeded, 0.8},
		{"as many as were recorded", map[string]any{"email": "a@example.com", "get_calls": users("1", "2"), "last_call": last}, executor.StatusSucceeded, 2.4},
		{"more than were recorded", map[string]any{"email": "a@example.com", "get_calls": users("1", "2", "3", "4"), "last_call": last}, executor.StatusSucceeded, 4},
	} {
		run, err := b.Run(ctx, ci, runs.Request{Flow: "users_batch", Input: c.input})
		require.NoError(t, err, c.name)
		require.Equal(t, c.status, run.State, c.name)
		require.InDelta(t, c.calls, run.Avoided.LLMCalls, 1e-9, c.name)
		require.InDelta(t, c.calls*1250, run.Avoided.Tokens, 1e-6, c.name) // 3,000 for 2.4
		require.InDelta(t, c.calls*2.5, run.Avoided.Latency.Seconds(), 1e-6, c.name)
		total += c.calls
	}
	run, err := b.Run(ctx, ci, runs.Request{Flow: "users_batch", Input: map[string]any{"get_calls": users("1")}})
	require.NoError(t, err)
	require.Equal(t, executor.StatusFailed, run.State)
	require.Zero(t, run.Avoided, "what was refused called nothing")

	report, err := b.gov.Savings(ctx, ci, time.Time{}, time.Time{})
	require.NoError(t, err)
	require.Len(t, report.Flows, 1)
	f := report.Flows[0]
	require.Equal(t, []int64{7, 3, 1, 3}, []int64{f.Runs, f.Succeeded, f.Failed, f.HandedBack})
	require.InDeltaSlice(t, []float64{total, total / 2, total * 1.5}, []float64{f.LLMCalls.Mean, f.LLMCalls.Low, f.LLMCalls.High}, 1e-9)
}

// TestOtherRunsSaveByTheWalk: a flow that replaces a walk saves its mean whole, and by the calls of the walk where it was
// handed back, however many elements this one had.
func TestOtherRunsSaveByTheWalk(t *testing.T) {
	b := newBench(t, nil)
	b.mined(t, usersBatch(), usersSaves())
	last := map[string]any{"email": "z@example.com"}
	for _, c := range []struct {
		name  string
		input map[string]any
		calls float64
	}{
		{"the whole walk", map[string]any{"email": "a@example.com", "get_calls": users("1"), "last_call": last}, 2.4},
		{"three of its four calls", map[string]any{"email": "a@example.com", "get_calls": users("1", "2")}, 1.6},
		{"never more than the whole walk", map[string]any{"email": "a@example.com", "get_calls": users("1", "2", "3", "4", "5")}, 2.4},
	} {
		run, err := b.Run(ctx, ci, runs.Request{Flow: "users_batch", Input: c.input})
		require.NoError(t, err, c.name)
		require.InDelta(t, c.calls, run.Avoided.LLMCalls, 1e-9, c.name)
	}
}

// TestSavingsThatWereNotCountedByCalls: what was promoted before calls were counted goes by finished steps.
func TestSavingsThatWereNotCountedByCalls(t *testing.T) {
	b := newBench(t, nil)
	saves := usersSaves()
	saves.CallsPerRun = analyzer.Interval{}
	b.mined(t, usersBatch(), saves)
	run, err := b.Run(ctx, ci, runs.Request{Flow: "users_batch", Input: map[string]any{"email": "a@example.com", "get_calls": users("1", "2")}})
	require.NoError(t, err)
	require.Equal(t, executor.StatusHandedBack, run.State)
	require.InDelta(t, 1.2, run.Avoided.LLMCalls, 1e-9, "two of three steps")
}
