package governance_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
)

// ready is a bench with the tools declared and one open proposal.
func ready(t *testing.T) (*bench, string) {
	b := newBench(t)
	b.apply(findUser(), getUser())
	return b, b.one(candidate(userFlow("f"), "k", 10, 100)).ProposalID
}

func TestReviewRefusals(t *testing.T) {
	b, id := ready(t)
	digest := b.get(id).Digest
	tests := map[string]struct {
		actor governance.Actor
		req   governance.ReviewRequest
		code  flows.Code
		says  string
	}{
		"no digest":       {bob, governance.ReviewRequest{Verdict: governance.VerdictApprove}, flows.CodeInvalid, "digest"},
		"other digest":    {bob, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: "old"}, flows.CodeStale, digest},
		"no reason":       {bob, governance.ReviewRequest{Verdict: governance.VerdictReject, Comment: " \n"}, flows.CodeInvalid, "reason"},
		"no feedback":     {bob, governance.ReviewRequest{Verdict: governance.VerdictRequestChanges}, flows.CodeInvalid, "reason"},
		"unknown verdict": {bob, governance.ReviewRequest{Verdict: "maybe"}, flows.CodeInvalid, "maybe"},
		"stale revision":  {bob, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: digest, IfRevision: 7}, flows.CodeStale, "revision"},
		"no scope":        {ci, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: digest}, flows.CodeForbidden, "review"},
		"stale reject":    {bob, governance.ReviewRequest{Verdict: governance.VerdictReject, Digest: "old", Comment: "x"}, flows.CodeStale, digest},
	}
	before := b.get(id)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := b.Review(ctx, tc.actor, id, tc.req)
			refused(t, tc.code, err, tc.says)
		})
	}
	require.Equal(t, before, b.get(id), "a refused review changes nothing")
	_, err := b.Review(ctx, bob, "nothing", governance.ReviewRequest{Verdict: governance.VerdictReject, Comment: "x"})
	refused(t, flows.CodeNotFound, err, "nothing")
}

func TestReviewStates(t *testing.T) {
	b, id := ready(t)
	policy := governance.DefaultPolicy()
	policy.Approvals[flows.EffectRead] = 2
	require.NoError(t, b.SetPolicy(ctx, admin, policy, 0))

	p, err := b.review(bob, id, governance.VerdictApprove)
	require.NoError(t, err)
	require.Equal(t, governance.StateInReview, p.State)
	p, err = b.review(bob, id, governance.VerdictApprove)
	require.NoError(t, err)
	require.Equal(t, 1, p.Approvals, "one principal counts once")
	p, err = b.review(carol, id, governance.VerdictRequestChanges)
	require.NoError(t, err)
	require.Equal(t, governance.StateChanges, p.State)
	_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
	refused(t, flows.CodeApprovalsMissing, err, "requested changes")
	p, err = b.review(carol, id, governance.VerdictApprove)
	require.NoError(t, err)
	require.Equal(t, governance.StateApproved, p.State, "carol's later verdict takes the place of the earlier")
	require.Equal(t, 2, p.Approvals)
	p, err = b.review(bob, id, governance.VerdictReject)
	require.NoError(t, err)
	require.Equal(t, governance.StateRejected, p.State)
	_, err = b.review(carol, id, governance.VerdictApprove)
	refused(t, flows.CodeConflict, err, "rejected")
	_, err = b.Withdraw(ctx, bob, id, "", 0)
	refused(t, flows.CodeConflict, err, "rejected")
	require.Equal(t, []string{"tool.apply", "tool.apply", "proposal.create", "policy.set", "proposal.approve", "proposal.approve",
		"proposal.request_changes", "proposal.approve", "proposal.reject"}, b.actions())
}

func TestEditDismissesApprovalsAndMakesAnEditor(t *testing.T) {
	b, id := ready(t)
	b.approve(id, bob)
	old := b.get(id)
	edited := userFlow("f")
	edited.Steps = edited.Steps[:1]
	p, err := b.Edit(ctx, alice, id, governance.EditRequest{Flow: edited, IfRevision: old.Revision})
	require.NoError(t, err)
	require.NotEqual(t, old.Digest, p.Digest)
	require.Equal(t, governance.StateProposed, p.State)
	_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
	refused(t, flows.CodeApprovalsMissing, err, "0 of 1")
	_, err = b.Review(ctx, bob, id, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: old.Digest})
	refused(t, flows.CodeStale, err, p.Digest)
	_, err = b.review(alice, id, governance.VerdictApprove)
	refused(t, flows.CodeFourEyes, err, "edited")
	b.approve(id, bob)
	v, err := b.Promote(ctx, bob, id, governance.PromoteRequest{})
	require.NoError(t, err)
	require.Len(t, v.Flow.Steps, 1)
}

func TestOwnerIsNoContent(t *testing.T) {
	b, id := ready(t)
	b.approve(id, bob)
	before := b.get(id)
	owner := "person:olga"
	p, err := b.Edit(ctx, alice, id, governance.EditRequest{Owner: &owner})
	require.NoError(t, err)
	require.Equal(t, before.Digest, p.Digest)
	require.Equal(t, governance.StateApproved, p.State)
	require.Empty(t, p.Editors)
	bad := "olga"
	_, err = b.Edit(ctx, alice, id, governance.EditRequest{Owner: &bad})
	refused(t, flows.CodeInvalid, err, "principal")
}

func TestPromoteRefusals(t *testing.T) {
	t.Run("approvals", func(t *testing.T) {
		b, id := ready(t)
		_, err := b.Promote(ctx, bob, id, governance.PromoteRequest{})
		refused(t, flows.CodeApprovalsMissing, err, "0 of 1")
	})
	t.Run("scope", func(t *testing.T) {
		b, id := ready(t)
		b.approve(id, bob)
		_, err := b.Promote(ctx, carol, id, governance.PromoteRequest{})
		refused(t, flows.CodeForbidden, err, "promote")
	})
	t.Run("unbound", func(t *testing.T) {
		b := newBench(t)
		loose := getUser()
		loose.Binding = nil
		b.apply(findUser(), loose)
		id := b.one(candidate(userFlow("f"), "k", 10, 100)).ProposalID
		b.approve(id, bob)
		_, err := b.Promote(ctx, bob, id, governance.PromoteRequest{})
		refused(t, flows.CodeUnbound, err, "get_user")
		require.NotContains(t, err.Error(), "find_user")
		b.apply(getUser())
		require.Empty(t, b.get(id).Unbound, "computed from the tools of now")
		_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
		require.NoError(t, err)
	})
	t.Run("tool changed since the approval", func(t *testing.T) {
		b, id := ready(t)
		b.approve(id, bob)
		changed := getUser()
		changed.OutputSchema = raw(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"]}`)
		b.apply(changed)
		_, err := b.Promote(ctx, bob, id, governance.PromoteRequest{})
		refused(t, flows.CodeToolDrift, err, "get_user")
		b.approve(id, carol)
		require.Equal(t, 1, b.get(id).Approvals, "bob saw another tool")
		_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
		require.NoError(t, err)
	})
	t.Run("safety rose since the approval", func(t *testing.T) {
		b, id := ready(t)
		b.approve(id, bob)
		b.apply(tool("get_user", "user_id", "name", flows.EffectWrite))
		_, err := b.Promote(ctx, bob, id, governance.PromoteRequest{})
		refused(t, flows.CodeApprovalsMissing, err, "1 of 2")
	})
	t.Run("does not compile", func(t *testing.T) {
		b := newBench(t)
		b.apply(getUser())
		id := b.one(candidate(userFlow("f"), "k", 10, 100)).ProposalID
		b.approve(id, bob, carol)                                   // nobody declared find_user yet
		b.apply(tool("find_user", "email", "id", flows.EffectRead)) // the mapping reads /found/user_id
		_, err := b.Promote(ctx, bob, id, governance.PromoteRequest{})
		refused(t, flows.CodeCompile, err, "user_id")
	})
	t.Run("version", func(t *testing.T) {
		b, id := ready(t)
		b.approve(id, bob)
		_, err := b.Promote(ctx, bob, id, governance.PromoteRequest{Version: "one"})
		refused(t, flows.CodeInvalid, err, "one")
		_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{IfRevision: 99})
		refused(t, flows.CodeStale, err, "99")
		v, err := b.Promote(ctx, bob, id, governance.PromoteRequest{Version: "2.3.4"})
		require.NoError(t, err)
		require.Equal(t, "2.3.4", v.Flow.Version)
		_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{Version: "2.3.5"})
		refused(t, flows.CodeConflict, err, "promoted")

		next := userFlow("f")
		next.Description = "Next."
		id = b.one(candidate(next, "k", 10, 100)).ProposalID
		b.approve(id, bob)
		_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{Version: "2.3.4"})
		refused(t, flows.CodeExists, err, "2.3.4")
		for _, lower := range []string{"0.0.1", "2.3.3", "2.3.4-rc.1", "2.3.4+build"} {
			_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{Version: lower})
			refused(t, flows.CodeConflict, err, "version "+lower+" does not come after 2.3.4, the active version of f: take a higher one; an earlier version comes back by a rollback (pave flows rollback f)")
		}
		v, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
		require.NoError(t, err)
		require.Equal(t, "2.3.5", v.Flow.Version, "only words changed")

		_, err = b.Rollback(ctx, bob, "f", governance.RollbackRequest{To: "2.3.4", Reason: "worse"})
		require.NoError(t, err)
		next.Description = "Once more."
		id = b.one(candidate(next, "k", 10, 100)).ProposalID
		b.approve(id, bob)
		v, err = b.Promote(ctx, bob, id, governance.PromoteRequest{Version: "2.3.5-rc.1"})
		require.NoError(t, err, "2.3.5 was taken back, so that 2.3.4 is what a version comes after")
		require.Equal(t, "2.3.5-rc.1", v.Flow.Version)
	})
}

func TestWhatDoesNotCompileIsNotApproved(t *testing.T) {
	b := newBench(t)
	b.apply(tool("find_user", "email", "id", flows.EffectRead), getUser()) // the mapping reads /found/user_id
	id := b.one(candidate(userFlow("f"), "k", 10, 100)).ProposalID
	_, err := b.review(bob, id, governance.VerdictApprove)
	refused(t, flows.CodeCompile, err, "user_id")
	var e *flows.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "/steps/1/input_mapping/user_id", e.Details[0].Pointer)
	require.Empty(t, b.get(id).Reviews, "nothing of the verdict is kept")
	require.Equal(t, governance.StateProposed, b.get(id).State)

	_, err = b.review(bob, id, governance.VerdictRequestChanges)
	require.NoError(t, err, "other verdicts are what such a draft is for")
	b.apply(findUser())
	_, err = b.review(bob, id, governance.VerdictApprove)
	require.NoError(t, err)
	require.Equal(t, governance.StateApproved, b.get(id).State)
}

// Whoever reviews after a tool changed, with whatever verdict, has seen another tool than who approved before.
func TestAnyReviewOfChangedToolsDismissesApprovals(t *testing.T) {
	b, id := ready(t)
	b.apply(tool("get_user", "user_id", "name", flows.EffectWrite))
	b.approve(id, bob)
	changed := tool("get_user", "user_id", "name", flows.EffectWrite)
	changed.OutputSchema = widened().OutputSchema
	b.apply(changed)
	dora := actor("person:dora", governance.ScopeReview)
	_, err := b.review(dora, id, governance.VerdictRequestChanges)
	require.NoError(t, err)
	_, err = b.review(carol, id, governance.VerdictApprove)
	require.NoError(t, err)
	p := b.get(id)
	require.Equal(t, 1, p.Approvals, "bob saw another tool")
	require.Equal(t, governance.StateChanges, p.State)
	_, err = b.review(dora, id, governance.VerdictApprove)
	require.NoError(t, err)
	_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
	require.NoError(t, err)

	// A request for changes is no approval: that a tool changed does not answer it.
	b, id = ready(t)
	_, err = b.review(carol, id, governance.VerdictRequestChanges)
	require.NoError(t, err)
	b.apply(widened())
	_, err = b.review(bob, id, governance.VerdictApprove)
	require.NoError(t, err)
	require.Equal(t, governance.StateChanges, b.get(id).State)
	_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
	refused(t, flows.CodeApprovalsMissing, err, "requested changes")
}

func TestPromotedVersion(t *testing.T) {
	b := newBench(t)
	v := b.promoted()
	require.Equal(t, flows.StatusActive, v.Flow.Status)
	require.Equal(t, flows.LifecycleActive, v.Flow.Governance.Lifecycle)
	require.Equal(t, "person:bob", v.Flow.Governance.ReviewedBy)
	require.Equal(t, map[string]string{"find_user": flows.SchemaHash(findUser()), "get_user": flows.SchemaHash(getUser())}, v.Flow.ToolSchemaHashes)
	require.Equal(t, v.Digest, flows.Digest(v.Flow), "exactly what was approved")

	read, err := b.Flow(ctx, bob, "user_by_email", "")
	require.NoError(t, err)
	require.True(t, read.Active)
	require.Equal(t, v.Flow.Steps, read.Flow.Steps)
	require.Equal(t, v.Savings, read.Savings)
	p := b.get(v.ProposalID)
	require.Equal(t, governance.StatePromoted, p.State)
	require.Equal(t, "user_by_email@1.0.0", p.PromotedAs)
	actions := b.actions()
	require.Equal(t, []string{"flow.promote", "proposal.promote"}, actions[len(actions)-2:])
}

func TestDestructiveNeedsItsOwner(t *testing.T) {
	b := newBench(t)
	b.apply(findUser(), tool("get_user", "user_id", "name", flows.EffectDestructive))
	id := b.one(candidate(userFlow("f"), "k", 10, 100)).ProposalID
	b.approve(id, bob, carol)
	require.Equal(t, governance.StateInReview, b.get(id).State)
	_, err := b.Promote(ctx, bob, id, governance.PromoteRequest{})
	refused(t, flows.CodeApprovalsMissing, err, "named owner")
	owner := "person:olga"
	_, err = b.Edit(ctx, alice, id, governance.EditRequest{Owner: &owner})
	require.NoError(t, err)
	_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
	refused(t, flows.CodeApprovalsMissing, err, owner)
	b.approve(id, actor(owner, governance.ScopeReview))
	_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
	require.NoError(t, err)
}

func TestSoloModeIsMarked(t *testing.T) {
	b := open(t, t.TempDir(), func(o *governance.Options) { o.Solo = true })
	b.apply(findUser(), tool("get_user", "user_id", "name", flows.EffectWrite))
	p, err := b.Submit(ctx, alice, userFlow("mine"))
	require.NoError(t, err)
	require.Equal(t, 1, p.Needs)
	p, err = b.review(alice, p.ID, governance.VerdictApprove)
	require.NoError(t, err)
	require.True(t, p.Reviews[0].Solo)
	events, err := b.Audit(ctx, admin, 0, 0)
	require.NoError(t, err)
	require.JSONEq(t, `{"digest":"`+p.Digest+`","comment":"because","solo":true,"state":"approved"}`, string(events[len(events)-1].Detail))
	_, err = b.Promote(ctx, alice, p.ID, governance.PromoteRequest{})
	require.NoError(t, err)
}

func TestSoloApprovalEndsWithSoloMode(t *testing.T) {
	dir := t.TempDir()
	var id string
	t.Run("solo", func(t *testing.T) {
		b := open(t, dir, func(o *governance.Options) { o.Solo = true })
		b.apply(findUser(), getUser())
		p, err := b.Submit(ctx, alice, userFlow("mine"))
		require.NoError(t, err)
		b.approve(p.ID, alice)
		id = p.ID
	})
	b := open(t, dir, func(o *governance.Options) { o.NewID = nil })
	require.NoError(t, b.Start(ctx, "default"))
	require.Equal(t, governance.StateInReview, b.get(id).State)
	_, err := b.Promote(ctx, alice, id, governance.PromoteRequest{})
	refused(t, flows.CodeApprovalsMissing, err, "0 of 1")
}

func TestRacingPromotionsHaveOneWinner(t *testing.T) {
	for _, withRevision := range []bool{true, false} {
		b, id := ready(t)
		b.approve(id, bob)
		req := governance.PromoteRequest{}
		loser := flows.CodeConflict
		if withRevision {
			req.IfRevision, loser = b.get(id).Revision, flows.CodeStale
		}
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = b.Promote(ctx, bob, id, req) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			require.Equal(t, loser, flows.CodeOf(err), "%v", err)
		}
		require.Equal(t, 1, won)
		versions, err := b.FlowVersions(ctx, bob, "f")
		require.NoError(t, err)
		require.Len(t, versions, 1)
	}
}
