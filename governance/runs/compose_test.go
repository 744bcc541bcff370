package runs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
)

var carol = governance.Actor{Principal: "person:carol", Scopes: []governance.Scope{governance.ScopeReview, governance.ScopePromote}}

// submit puts a flow into the queue and has it approved.
func (b *bench) submit(t testing.TB, flow *flows.Flow) *governance.Proposal {
	t.Helper()
	p, err := b.gov.Submit(ctx, admin, flow)
	require.NoError(t, err)
	for _, reviewer := range []governance.Actor{bob, carol} {
		if p.State == governance.StateApproved {
			break
		}
		p, err = b.gov.Review(ctx, reviewer, p.ID, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: p.Digest})
		require.NoError(t, err)
	}
	return p
}

// activate brings a flow that somebody wrote into service.
func (b *bench) activate(t testing.TB, flow *flows.Flow) *governance.FlowVersion {
	t.Helper()
	v, err := b.gov.Promote(ctx, bob, b.submit(t, flow).ID, governance.PromoteRequest{})
	require.NoError(t, err)
	return v
}

func greetFlow(ref string) *flows.Flow {
	return &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "greet", Version: "0.1.0", Description: "Greet a user.",
		InputSchema: flows.RawSchema(`{"type":"object","properties":{"mail":{"type":"string"}},"required":["mail"]}`),
		Steps:       []flows.Step{{FlowName: ref, InputMapping: flows.Mapping{{Target: "email", Value: flows.Key("mail")}}, OutputAs: "user"}},
		Returns:     flows.Mapping{{Target: "name", Value: flows.Pointer("/user/name")}}}
}

func TestFlowsCallFlows(t *testing.T) {
	b := newBench(t, nil)
	b.activate(t, greetFlow("user_by_email"))
	req := runs.Request{Flow: "greet", Input: map[string]any{"mail": "ann@example.com"}}
	run, err := b.Run(ctx, ci, req)
	require.NoError(t, err)
	require.Equal(t, executor.StatusSucceeded, run.State)
	require.Equal(t, map[string]any{"name": "name of u-ann@example.com"}, run.Result.FinalOutput)
	require.Equal(t, "1.0.0", run.Result.ExecutionLog[0].SubResult.FlowVersion)

	first := run
	// A run follows the active pointer of the called flow.
	next := userFlow()
	next.Steps[1].InputMapping[0].Value = flows.Key("email")
	require.Equal(t, "1.1.0", b.activate(t, next).Flow.Version)
	run, err = b.Run(ctx, ci, req)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"name": "name of ann@example.com"}, run.Result.FinalOutput)

	// The first run replays with the version that it called.
	replayed, err := b.Replay(ctx, ci, first.ID, runs.ReplayRequest{})
	require.NoError(t, err)
	require.True(t, replayed.Match, "%v", replayed.Diffs)

	// One that is not active keeps its callers from running.
	_, err = b.gov.SetFlowStatus(ctx, bob, "user_by_email", "1.1.0", governance.StatusRequest{Status: flows.StatusDisabled})
	require.NoError(t, err)
	_, err = b.Run(ctx, ci, req)
	refused(t, flows.CodeFlowStatus, err, "calls user_by_email@1.1.0, which is disabled")
}

func TestFlowsThatCannotCallEachOtherAreNotApproved(t *testing.T) {
	b := newBench(t, nil)
	approve := func(flow *flows.Flow) error {
		p, err := b.gov.Submit(ctx, admin, flow)
		require.NoError(t, err)
		_, err = b.gov.Review(ctx, bob, p.ID, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: p.Digest})
		return err
	}
	refused(t, flows.CodeCompile, approve(greetFlow("nobody")), "unregistered sub-flow 'nobody'")
	again := greetFlow("user_by_email")
	again.Name = "welcome"
	b.activate(t, again)
	loop := userFlow()
	loop.Steps = append(loop.Steps, flows.Step{FlowName: "welcome", InputMapping: flows.Mapping{{Target: "mail", Value: flows.Key("email")}}, OutputAs: "w"})
	refused(t, flows.CodeCompile, approve(loop), "circular sub-flow reference")
}

func TestSafetyOfAFlowCoversTheFlowsItCalls(t *testing.T) {
	b := newBench(t, nil)
	writes := tool("save", `{"type":"object"}`, `{"type":"object"}`)
	writes.Safety.SideEffects = flows.EffectWrite
	_, err := b.gov.ApplyTools(ctx, admin, []*flows.Tool{writes})
	require.NoError(t, err)
	b.activate(t, &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "saving", Version: "0.1.0", Description: "Save.",
		Steps: []flows.Step{{ToolName: "save"}}})
	outer := greetFlow("saving")
	outer.Returns = nil
	p, err := b.gov.Submit(ctx, admin, outer)
	require.NoError(t, err)
	require.Equal(t, flows.EffectWrite, p.Safety)
	require.Equal(t, 2, p.Needs)
}
