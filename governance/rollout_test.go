package governance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
)

// retried is the standard flow with another retry count: other content for the same callers.
func retried(times int) *flows.Flow {
	draft := userFlow("user_by_email")
	draft.Steps[1].Retry = &flows.RetryPolicy{MaxRetries: times, BackoffMultiplier: 1}
	return draft
}

// rolledOut proposes, approves and promotes a draft to a share of the callers.
func (b *bench) rolledOut(draft *flows.Flow, share float64) (*governance.FlowVersion, error) {
	b.apply(findUser(), getUser())
	p, err := b.Submit(ctx, alice, draft)
	require.NoError(b.t, err)
	b.approve(p.ID, carol)
	v, err := b.Promote(ctx, bob, p.ID, governance.PromoteRequest{Rollout: share})
	if err != nil { // so that another draft of the name can be submitted
		_, withdrawn := b.Withdraw(ctx, bob, p.ID, "refused", 0)
		require.NoError(b.t, withdrawn)
	}
	return v, err
}

// versionFor is the version that serves a caller, "" when none does.
func (b *bench) versionFor(caller string) string {
	a, err := b.AdmitCaller(ctx, ci, "user_by_email", caller)
	if err != nil {
		refused(b.t, flows.CodeOutsideRollout, err, "find_user, get_user")
		return ""
	}
	return a.Version.Flow.Version
}

// served counts the versions that serve the callers "session s0" to "session s499".
func (b *bench) served() map[string]int {
	out := map[string]int{}
	for i := range 500 {
		out[b.versionFor(fmt.Sprintf("session s%d", i))]++
	}
	return out
}

func TestRolloutMovesCallersByShares(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	b.promoted()
	v, err := b.rolledOut(retried(1), 0.1)
	require.NoError(t, err)
	require.Equal(t, governance.Rollout{Version: "1.1.0", Share: 0.1, Rest: "1.0.0"}, v.Rollout)
	require.Equal(t, 0.1, v.Share())
	// The counts were computed by another program from the definition in the comment of Rollout.
	require.Equal(t, map[string]int{"1.1.0": 56, "1.0.0": 444}, b.served())
	early := map[string]bool{}
	for i := range 40 {
		if caller := fmt.Sprintf("session s%d", i); b.versionFor(caller) == "1.1.0" {
			early[caller] = true
		}
	}
	require.Equal(t, map[string]bool{"session s0": true, "session s10": true, "session s16": true, "session s25": true, "session s28": true, "session s31": true}, early)

	b = open(t, dir, nil) // another process
	require.Equal(t, map[string]int{"1.1.0": 56, "1.0.0": 444}, b.served(), "nothing is kept of callers that a restart could lose")
	for _, at := range []float64{0.5, 0.9, 0.01} {
		want := map[float64]int{0.5: 251, 0.9: 454, 0.01: 3}[at]
		v, err = b.SetRollout(ctx, bob, "user_by_email", governance.RolloutRequest{Version: "1.1.0", Share: at, IfRevision: v.Revision})
		require.NoError(t, err)
		require.Equal(t, map[string]int{"1.1.0": want, "1.0.0": 500 - want}, b.served(), "share %v", at)
		for caller := range early {
			require.True(t, at < 0.1 || b.versionFor(caller) == "1.1.0", "who got the new version at 0.1 has it at %v, too", at)
		}
	}
	pinned, err := b.Admit(ctx, ci, "user_by_email", "1.1.0")
	require.NoError(t, err, "who names a version gets it")
	require.Equal(t, "1.1.0", pinned.Version.Flow.Version)

	url := "http://x.org/"
	hook, _, err := b.CreateWebhook(ctx, admin, governance.WebhookRequest{URL: &url, Events: &[]string{governance.EventFlowRollout}})
	require.NoError(t, err)
	v, err = b.SetRollout(ctx, bob, "user_by_email", governance.RolloutRequest{Version: "1.1.0", Share: 1, Reason: "it holds"})
	require.NoError(t, err)
	told, err := b.Deliveries(ctx, admin, hook.ID, 0, "")
	require.NoError(t, err)
	require.Len(t, told.Items, 1)
	var event struct{ Event, Actor, Object, Detail any }
	require.NoError(t, json.Unmarshal(told.Items[0].Body, &event))
	require.Equal(t, []any{"flow.rollout_changed", "person:bob", "flow/user_by_email@1.1.0", map[string]any{"from": 0.01, "to": 1.0, "rest": "1.0.0", "reason": "it holds"}},
		[]any{event.Event, event.Actor, event.Object, event.Detail})
	require.Equal(t, governance.Rollout{Version: "1.1.0", Share: 1}, v.Rollout)
	require.Equal(t, map[string]int{"1.1.0": 500}, b.served())
	_, err = b.SetRollout(ctx, bob, "user_by_email", governance.RolloutRequest{Version: "1.1.0", Share: 0.5})
	refused(t, flows.CodeConflict, err, "serves all callers already")
	old, err := b.Flow(ctx, bob, "user_by_email", "1.0.0")
	require.NoError(t, err)
	require.Equal(t, flows.StatusActive, old.Status, "the version before can be named, and gone back to")
	require.Zero(t, old.Share())
	require.Contains(t, b.actions(), "flow.rollout")
}

func TestRolloutOfTheFirstVersionLeavesTheOthersToTheirTools(t *testing.T) {
	b := newBench(t)
	v, err := b.rolledOut(userFlow("user_by_email"), 0.25)
	require.NoError(t, err)
	require.Equal(t, governance.Rollout{Version: "1.0.0", Share: 0.25}, v.Rollout)
	require.Equal(t, "1.0.0", b.versionFor("session s5"))
	_, err = b.AdmitCaller(ctx, ci, "user_by_email", "session s1")
	refused(t, flows.CodeOutsideRollout, err, "rolled out to 25 % of its callers and this one is not among them; no other version serves the others: go on by hand (find_user, get_user)")
	a, err := b.Admit(ctx, ci, "user_by_email", "")
	require.NoError(t, err, "flows that call it have no other way")
	require.Equal(t, "1.0.0", a.Version.Flow.Version)

	// A second version while the first still is on trial: nothing served all, so there is nothing for the others still.
	_, err = b.rolledOut(retried(1), 0.1)
	require.NoError(t, err)
	require.Equal(t, "1.1.0", b.versionFor("session s0"))
	require.Empty(t, b.versionFor("session s5"), "the trial of 1.0.0 is over")
	_, err = b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{Reason: "slow"})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"1.0.0": 500}, b.served(), "a rollback is for all")
}

func TestRolloutIsFromWhatServesAll(t *testing.T) {
	b := newBench(t)
	b.promoted()
	_, err := b.rolledOut(retried(1), 0.9)
	require.NoError(t, err)
	v, err := b.rolledOut(retried(2), 0.1)
	require.NoError(t, err)
	require.Equal(t, governance.Rollout{Version: "1.2.0", Share: 0.1, Rest: "1.0.0"}, v.Rollout, "a trial that was not completed is not given to the others")
	offered := governance.Offered(must(b.Flows(ctx, bob)))
	require.Len(t, offered, 1)
	require.Equal(t, "1.0.0", offered[0].Flow.Version)

	// A version that is taken out of service serves nobody: the others' version does. One for the others that is taken
	// out sends nobody to the new one.
	_, err = b.SetFlowStatus(ctx, bob, "user_by_email", "1.2.0", governance.StatusRequest{Status: flows.StatusNeedsReview, Reason: "it fails"})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"1.0.0": 500}, b.served())
	_, err = b.SetRollout(ctx, bob, "user_by_email", governance.RolloutRequest{Version: "1.2.0", Share: 0.5})
	refused(t, flows.CodeFlowStatus, err, "activate it first")
	_, err = b.SetFlowStatus(ctx, bob, "user_by_email", "1.2.0", governance.StatusRequest{Status: flows.StatusActive})
	require.NoError(t, err)
	_, err = b.SetFlowStatus(ctx, bob, "user_by_email", "1.0.0", governance.StatusRequest{Status: flows.StatusDisabled, Reason: "old"})
	require.NoError(t, err)
	out := b.served()
	require.Equal(t, 500, out["1.2.0"]+out[""])
	require.InDelta(t, 50, out["1.2.0"], 20)
	offered = governance.Offered(must(b.Flows(ctx, bob)))
	require.Len(t, offered, 1)
	require.Equal(t, "1.2.0", offered[0].Flow.Version, "nothing else is in service")

	// Both out: the refusal is that of a flow that is out of service.
	_, err = b.SetFlowStatus(ctx, bob, "user_by_email", "1.2.0", governance.StatusRequest{Status: flows.StatusDisabled})
	require.NoError(t, err)
	require.Empty(t, governance.Offered(must(b.Flows(ctx, bob))))
	_, err = b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"1.0.0": 500}, b.served(), "back to the version that served the others, not to the trial before")
	v, err = b.rolledOut(retried(3), 0)
	require.NoError(t, err)
	require.Equal(t, governance.Rollout{Version: "1.3.0", Share: 1}, v.Rollout, "a promotion is for all unless it says otherwise")
}

func TestRolloutRefusals(t *testing.T) {
	b := newBench(t)
	b.promoted()
	for _, share := range []float64{-0.1, 1.0000001, 2, math.NaN(), math.Inf(1)} {
		_, err := b.rolledOut(retried(1), share)
		refused(t, flows.CodeInvalid, err, "above 0 and up to 1")
		_, err = b.SetRollout(ctx, bob, "user_by_email", governance.RolloutRequest{Version: "1.0.0", Share: share})
		refused(t, flows.CodeInvalid, err, "above 0 and up to 1")
	}
	_, err := b.SetRollout(ctx, bob, "user_by_email", governance.RolloutRequest{Version: "1.0.0"})
	refused(t, flows.CodeInvalid, err, "set the status to disabled")
	v, err := b.rolledOut(retried(1), 0.5)
	require.NoError(t, err)
	set := func(who governance.Actor, version string, revision int64) error {
		_, err := b.SetRollout(ctx, who, "user_by_email", governance.RolloutRequest{Version: version, Share: 0.6, IfRevision: revision})
		return err
	}
	refused(t, flows.CodeForbidden, set(carol, "1.1.0", 0), "promote")
	refused(t, flows.CodeStale, set(bob, "1.1.0", v.Revision+1), "revision")
	refused(t, flows.CodeStale, set(bob, "1.0.0", 0), "the active version of flow user_by_email is 1.1.0")
	_, err = b.SetRollout(ctx, bob, "none", governance.RolloutRequest{Version: "1.0.0", Share: 1})
	refused(t, flows.CodeNotFound, err, "none")
	policy, revision, err := b.Policy(ctx, b.admin)
	require.NoError(t, err)
	policy.Promoters = []string{"person:alice"}
	require.NoError(t, b.SetPolicy(ctx, b.admin, policy, revision))
	refused(t, flows.CodeForbidden, set(bob, "1.1.0", 0), "the policy lets only person:alice promote")
	require.NoError(t, set(alice, "1.1.0", v.Revision))
	refused(t, flows.CodeStale, set(alice, "1.1.0", v.Revision), "revision")
}

// TestRolloutNeedsVersionsThatCallersUseAlike: the others' version is the one that agents see.
func TestRolloutNeedsVersionsThatCallersUseAlike(t *testing.T) {
	b := newBench(t)
	b.promoted()
	wants := retried(1)
	wants.InputSchema = raw(`{"type":"object","properties":{"email":{"type":"string"},"region":{"type":"string"}},"required":["email","region"]}`)
	_, err := b.rolledOut(wants, 0.5)
	refused(t, flows.CodeConflict, err, "promote it to all, or under another name")
	require.Equal(t, "/rollout", asError(t, err).Details[0].Pointer)
	params := retried(2)
	params.DynamicParams = []string{"token"}
	_, err = b.rolledOut(params, 0.5)
	refused(t, flows.CodeConflict, err, `it needs the dynamic param "token"`)
	writes := retried(3)
	writes.Steps[1].ToolName = "write_user"
	b.apply(tool("write_user", "user_id", "name", flows.EffectWrite))
	b.apply(findUser(), getUser())
	p, err := b.Submit(ctx, alice, writes)
	require.NoError(t, err)
	b.approve(p.ID, carol, bob)
	_, err = b.Promote(ctx, bob, p.ID, governance.PromoteRequest{Rollout: 0.5})
	refused(t, flows.CodeConflict, err, "its side effects rise from read to write")
	v, err := b.Promote(ctx, bob, p.ID, governance.PromoteRequest{Rollout: 1})
	require.NoError(t, err)
	require.Equal(t, governance.BumpMajor, v.Bump.Level)
}

func TestFlowsThatCallAFlowStayWithWhatServesAll(t *testing.T) {
	b := newBench(t)
	b.promoted()
	_, err := b.rolledOut(retried(1), 0.999)
	require.NoError(t, err)
	caller := userFlow("caller")
	caller.Steps = []flows.Step{{FlowName: "user_by_email", InputMapping: flows.Mapping{{Target: "email", Value: flows.Key("email")}}, OutputAs: "found"}}
	id := b.one(candidate(caller, "k9", 10, 100)).ProposalID
	b.approve(id, carol)
	_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
	require.NoError(t, err)
	a, err := b.AdmitCaller(ctx, ci, "caller", "session s0")
	require.NoError(t, err)
	require.Equal(t, "1.0.0", a.Flows["user_by_email"].Version)
	again, err := b.Readmit(ctx, ci, "caller", "1.0.0", map[string]string{"user_by_email": "1.1.0"}, false)
	require.NoError(t, err)
	require.Equal(t, "1.1.0", again.Flows["user_by_email"].Version, "a run that goes on keeps what it had")
	_, err = b.SetRollout(ctx, bob, "user_by_email", governance.RolloutRequest{Version: "1.1.0", Share: 1})
	require.NoError(t, err)
	a, err = b.AdmitCaller(ctx, ci, "caller", "session s0")
	require.NoError(t, err)
	require.Equal(t, "1.1.0", a.Flows["user_by_email"].Version)
}

func TestOneOfTwoRacingRolloutChangesWins(t *testing.T) {
	b := newBench(t)
	b.promoted()
	v, err := b.rolledOut(retried(1), 0.1)
	require.NoError(t, err)
	for range 10 {
		var errs [3]error
		var wg sync.WaitGroup
		for i, share := range []float64{0.2, 0.3} {
			wg.Go(func() {
				_, errs[i] = b.SetRollout(ctx, bob, "user_by_email", governance.RolloutRequest{Version: "1.1.0", Share: share, IfRevision: v.Revision})
			})
		}
		wg.Go(func() {
			_, errs[2] = b.SetFlowStatus(ctx, bob, "user_by_email", "1.1.0", governance.StatusRequest{Status: flows.StatusActive, IfRevision: v.Revision})
		})
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			require.Equal(t, flows.CodeStale, flows.CodeOf(err), "%v", err)
		}
		require.Equal(t, 1, won, "%v", errors.Join(errs[:]...))
		v, err = b.Flow(ctx, bob, "user_by_email", "")
		require.NoError(t, err)
	}
	b.actions() // verifies the chain
}

// A revision is one of the flow: what was read of one version never changes the next one.
func TestRevisionsOfAFlowAreItsOwn(t *testing.T) {
	b := newBench(t)
	read := b.promoted()
	_, err := b.rolledOut(retried(1), 1)
	require.NoError(t, err)
	_, err = b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{Reason: "what I looked at is bad", IfRevision: read.Revision})
	refused(t, flows.CodeStale, err, "revision")
	seen := map[int64]bool{}
	for range 3 {
		v, err := b.Flow(ctx, bob, "user_by_email", "")
		require.NoError(t, err)
		require.False(t, seen[v.Revision], "%d", v.Revision)
		seen[v.Revision] = true
		other := map[string]string{"1.0.0": "1.1.0", "1.1.0": "1.0.0"}[v.Flow.Version]
		back, err := b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{To: other, IfRevision: v.Revision})
		require.NoError(t, err)
		now, err := b.Flow(ctx, bob, "user_by_email", "")
		require.NoError(t, err)
		require.Equal(t, back.Revision, now.Revision)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func asError(t *testing.T, err error) *flows.Error {
	t.Helper()
	e := new(flows.Error)
	require.ErrorAs(t, err, &e)
	return e
}
