package runs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
)

// Who may open the gate of a version may run it while it is shut, by name and on record; the run goes on after an approval
// and a restart. It opens the gate for nobody else, and tools that changed since the promotion stay out of reach.
func TestForcedRunsAreForThoseWhoMayOpenTheGate(t *testing.T) {
	b := newBench(t, nil)
	calls := b.withRefunds(t)
	_, err := b.gov.SetFlowStatus(ctx, bob, "pay_back", "1.0.0", governance.StatusRequest{Status: flows.StatusDisabled})
	require.NoError(t, err)
	both := governance.Actor{Principal: "person:dana", Scopes: []governance.Scope{governance.ScopeRun, governance.ScopePromote, governance.ScopeRead}}
	force := func(who governance.Actor, version string) (*runs.Run, error) {
		return b.Run(ctx, who, runs.Request{Flow: "pay_back", Version: version, Input: refundInput, Force: true})
	}
	_, err = force(ci, "1.0.0")
	refused(t, flows.CodeForbidden, err, "promote")
	_, err = force(bob, "1.0.0")
	refused(t, flows.CodeForbidden, err, "run")
	_, err = force(both, "")
	refused(t, flows.CodeInvalid, err, "name the version")
	_, err = force(both, "9.0.0")
	refused(t, flows.CodeNotFound, err, "9.0.0")
	policy, revision, err := b.gov.Policy(ctx, admin)
	require.NoError(t, err)
	policy.Promoters = []string{"person:bob"}
	require.NoError(t, b.gov.SetPolicy(ctx, admin, policy, revision))
	_, err = force(both, "1.0.0")
	refused(t, flows.CodeForbidden, err, "the policy lets only person:bob promote")
	policy.Promoters = nil
	require.NoError(t, b.gov.SetPolicy(ctx, admin, policy, revision+1))

	run, err := force(both, "1.0.0")
	require.NoError(t, err)
	require.Equal(t, executor.StatusAwaitingApproval, run.State, "calls that need an approval still do")
	b.restart(t)
	done, err := b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: executor.Approve, Wait: patience})
	require.NoError(t, err)
	require.Equal(t, executor.StatusSucceeded, done.State, "%+v", done.Problem)
	require.EqualValues(t, 1, calls.Load())
	_, err = b.Run(ctx, both, runs.Request{Flow: "pay_back", Version: "1.0.0", Input: refundInput})
	refused(t, flows.CodeFlowStatus, err, "disabled")

	forced := 0
	events, err := b.gov.Audit(ctx, admin, 0, 500)
	require.NoError(t, err)
	for _, e := range events {
		if e.Action == "run.force" {
			forced++
			require.Equal(t, []string{"person:dana", "run/" + run.ID, `{"flow":"pay_back@1.0.0"}`}, []string{e.Actor, e.Object, string(e.Detail)})
		}
	}
	require.Equal(t, 1, forced, "what was refused is no run")

	wider := findUser()
	wider.OutputSchema = flows.RawSchema(`{"type":"object","properties":{"user_id":{"type":"string"},"age":{"type":"integer"}},"required":["user_id"]}`)
	_, err = b.gov.ApplyTools(ctx, admin, []*flows.Tool{wider})
	require.NoError(t, err)
	_, err = force(both, "1.0.0")
	refused(t, flows.CodeToolDrift, err, "find_user")
}
