package governance_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
	"pave/ingest/store"
)

// recordings is a replayer whose sessions say what a test wants them to.
type recordings struct {
	windows, exact, effects int
	err                     error
	asked                   int
}

func (r *recordings) Replay(_ context.Context, _ string, _ *flows.Flow, _ map[string]*flows.Tool, limit int) (*governance.ReplayCheck, error) {
	r.asked++
	if r.err != nil {
		return nil, r.err
	}
	check := &governance.ReplayCheck{Sessions: limit, Windows: r.windows, Exact: r.exact, DestructiveMismatches: r.effects, DivergedCount: r.windows - r.exact}
	if r.exact > 0 {
		check.Golden = []governance.GoldenTest{{Name: "session s1", SessionID: "s1", Input: raw(`{"email":"a"}`), Status: "succeeded", Output: raw(`{}`),
			Calls: []governance.GoldenCall{{Tool: "find_user", Args: raw(`{"email":"a"}`), Result: raw(`{"user_id":"u"}`)}}}}
	}
	return check, nil
}

func recordedBench(t *testing.T, r *recordings) (*bench, string) {
	b := open(t, t.TempDir(), func(o *governance.Options) { o.Replayer = r })
	b.apply(findUser(), getUser())
	return b, b.one(candidate(userFlow("f"), "k", 10, 100)).ProposalID
}

func TestPromotionHoldsTheReplayCheckAgainstThePolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		recorded recordings
		policy   float64
		code     flows.Code
	}{
		"all exact":                  {recordings{windows: 10, exact: 10}, 0.8, ""},
		"just enough":                {recordings{windows: 10, exact: 8}, 0.8, ""},
		"one too few":                {recordings{windows: 10, exact: 7}, 0.8, flows.CodeReplayDiverged},
		"nothing recorded":           {recordings{}, 1, ""},
		"effects":                    {recordings{windows: 100, exact: 99, effects: 1}, 0.8, flows.CodeReplayDiverged},
		"not asked for":              {recordings{windows: 10, exact: 1, effects: 5}, 0, ""},
		"the event store is away":    {recordings{err: fmt.Errorf("no route: %w", store.ErrUnavailable)}, 0.8, flows.CodeUnavailable},
		"the check itself is broken": {recordings{err: fmt.Errorf("boom")}, 0.8, flows.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			b, id := recordedBench(t, &tc.recorded)
			policy := governance.DefaultPolicy()
			policy.MinReplayExact = tc.policy
			require.NoError(t, b.SetPolicy(ctx, admin, policy, 0))
			b.approve(id, bob)
			v, err := b.Promote(ctx, bob, id, governance.PromoteRequest{})
			require.Equal(t, 1, tc.recorded.asked)
			if tc.code != "" {
				require.Equal(t, tc.code, flows.CodeOf(err), "%v", err)
				require.Equal(t, governance.StateApproved, b.get(id).State)
				return
			}
			require.NoError(t, err)
			got, tests, tools, err := b.FlowTests(ctx, carol, "f", "")
			require.NoError(t, err)
			require.Equal(t, v.Flow.Version, got.Flow.Version)
			require.Len(t, tools, 2)
			if tc.recorded.exact == 0 {
				require.Empty(t, tests)
				return
			}
			require.Len(t, tests, 1, "recorded sessions that it reproduced are its golden tests")
			require.Equal(t, "s1", tests[0].SessionID)
			require.JSONEq(t, `{"user_id":"u"}`, string(tests[0].Calls[0].Result))
		})
	}
}

func TestAnEditIsCheckedAtOnce(t *testing.T) {
	r := &recordings{windows: 4, exact: 4}
	b, id := recordedBench(t, r)
	require.Nil(t, b.get(id).Check)
	_, err := b.ReplayCheck(ctx, bob, id)
	refused(t, flows.CodeNotFound, err, "check it now")
	first, err := b.CheckReplay(ctx, bob, id, 7)
	require.NoError(t, err)
	require.Equal(t, 7, first.Sessions)
	require.Equal(t, "person:bob", first.By)
	b.approve(id, bob)

	r.exact = 1
	edited := userFlow("f")
	edited.Description = "Another."
	tried, err := b.TryReplay(ctx, bob, id, edited, 0)
	require.NoError(t, err)
	require.Equal(t, 1, tried.Exact)
	require.Equal(t, flows.Digest(edited), tried.Digest)
	require.Equal(t, first.Digest, b.get(id).Check.Digest, "an edit that is thought about leaves no trace")
	require.Equal(t, governance.StateApproved, b.get(id).State)
	p, err := b.Edit(ctx, alice, id, governance.EditRequest{Flow: edited})
	require.NoError(t, err)
	require.Equal(t, governance.StateProposed, p.State, "approvals are dismissed")
	require.NotNil(t, p.Check)
	require.Equal(t, p.Digest, p.Check.Digest)
	require.Equal(t, 1, p.Check.Exact)
	require.Equal(t, p.Check, b.get(id).Check)
	b.approve(id, bob)
	_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
	refused(t, flows.CodeReplayDiverged, err, "1 of 4")

	broken := userFlow("f")
	broken.Steps[1].InputMapping[0].Value = flows.Pointer("/found/nothing")
	asked := r.asked
	p, err = b.Edit(ctx, alice, id, governance.EditRequest{Flow: broken})
	require.NoError(t, err, "a draft may be broken while it is worked on")
	require.NotEmpty(t, p.Check.Problems)
	require.Equal(t, asked, r.asked, "what does not compile is not laid over sessions")

	r.err = store.ErrUnavailable
	p, err = b.Edit(ctx, alice, id, governance.EditRequest{Flow: userFlow("f")})
	require.NoError(t, err)
	require.Nil(t, p.Check, "an earlier check of the same content would be shown; that of the broken one is not")

	_, err = b.CheckReplay(ctx, bob, id, governance.MaxReplaySessions+1)
	refused(t, flows.CodeInvalid, err, "limit")
	_, err = b.CheckReplay(ctx, ci, id, 0)
	refused(t, flows.CodeForbidden, err, "review")
}

func TestVersionBumpIsExplained(t *testing.T) {
	b := newBench(t)
	b.promoted()
	next := func(change func(*flows.Flow)) governance.VersionBump {
		draft := userFlow("user_by_email")
		change(draft)
		id := b.one(candidate(draft, "k1", 10, 100)).ProposalID
		defer func() {
			_, err := b.Withdraw(ctx, bob, id, "next case", 0)
			require.NoError(t, err)
			b.clock.advance(1)
		}()
		return b.get(id).Next
	}
	words := next(func(f *flows.Flow) { f.Description = "Words." })
	require.Equal(t, governance.VersionBump{Level: governance.BumpPatch, From: "1.0.0", To: "1.0.1", Reasons: []string{"only its description changed"}}, words)

	// The pattern of a withdrawn proposal comes back only for cause, so each further case has more support.
	b2 := newBench(t)
	b2.promoted()
	for i, tc := range []struct {
		name   string
		change func(*flows.Flow)
		level  governance.Level
		to     string
		reason string
	}{
		{"another way", func(f *flows.Flow) { f.Steps[1].Retry = &flows.RetryPolicy{MaxRetries: 2, BackoffMultiplier: 1} }, governance.BumpMinor, "1.1.0", "steps changed"},
		{"new demand", func(f *flows.Flow) {
			f.InputSchema = raw(`{"type":"object","properties":{"email":{"type":"string"},"who":{"type":"string"}},"required":["email","who"]}`)
		}, governance.BumpMajor, "2.0.0", "old callers"},
		{"an output less", func(f *flows.Flow) { f.Steps = f.Steps[:1] }, governance.BumpMajor, "2.0.0", `"user" is gone`},
	} {
		draft := userFlow("user_by_email")
		tc.change(draft)
		p, err := b2.Submit(ctx, alice, draft)
		require.NoError(t, err, tc.name)
		next := b2.get(p.ID).Next
		require.Equal(t, tc.level, next.Level, tc.name)
		require.Equal(t, tc.to, next.To, tc.name)
		require.Contains(t, fmt.Sprint(next.Reasons), tc.reason, tc.name)
		_, err = b2.Withdraw(ctx, alice, p.ID, fmt.Sprint(i), 0)
		require.NoError(t, err)
	}
	b2.apply(tool("get_user", "user_id", "name", flows.EffectWrite))
	p, err := b2.Submit(ctx, alice, userFlow("user_by_email"))
	require.NoError(t, err)
	require.Equal(t, governance.BumpPatch, b2.get(p.ID).Next.Level, "the tools of now are the same for both versions")
	b2.approve(p.ID, bob, carol)
	v, err := b2.Promote(ctx, bob, p.ID, governance.PromoteRequest{Version: "1.5.0"})
	require.NoError(t, err)
	require.Equal(t, "1.5.0", v.Bump.To)
	require.Contains(t, v.Bump.Reasons[1], "calls for 1.0.1")
}

func TestRollback(t *testing.T) {
	b := newBench(t)
	v1 := b.promoted()
	_, err := b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{})
	refused(t, flows.CodeConflict, err, "no version before")
	draft := userFlow("user_by_email")
	draft.Steps[1].Retry = &flows.RetryPolicy{MaxRetries: 1, BackoffMultiplier: 1}
	id := b.one(candidate(draft, "k1", 10, 100)).ProposalID
	b.approve(id, carol)
	v2, err := b.Promote(ctx, bob, id, governance.PromoteRequest{})
	require.NoError(t, err)
	require.Equal(t, "1.1.0", v2.Flow.Version)

	_, err = b.Rollback(ctx, carol, "user_by_email", governance.RollbackRequest{})
	refused(t, flows.CodeForbidden, err, "promote")
	_, err = b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{IfRevision: 9})
	refused(t, flows.CodeStale, err, "revision")
	_, err = b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{To: "1.1.0"})
	refused(t, flows.CodeConflict, err, "already")
	back, err := b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{Reason: "it was slow", IfRevision: v2.Revision})
	require.NoError(t, err)
	require.Equal(t, v1.Digest, back.Digest)
	require.True(t, back.Active)
	now, err := b.Flow(ctx, bob, "user_by_email", "")
	require.NoError(t, err)
	require.Equal(t, "1.0.0", now.Flow.Version)
	old, err := b.Flow(ctx, bob, "user_by_email", "1.1.0")
	require.NoError(t, err)
	require.Equal(t, flows.StatusNeedsReview, old.Status)
	require.Contains(t, old.Reason, "it was slow")
	_, err = b.Admit(ctx, ci, "user_by_email", "1.1.0")
	refused(t, flows.CodeFlowStatus, err, "needs_review")
	_, err = b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{To: "1.1.0"})
	require.NoError(t, err, "and forward again")
	require.Contains(t, b.actions(), "flow.rollback")
}

func TestRollbackToAnotherToolNeedsItsAcceptance(t *testing.T) {
	b := newBench(t)
	b.promoted()
	changed := getUser()
	changed.OutputSchema = raw(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"]}`)
	b.apply(changed)
	id := b.one(candidate(func() *flows.Flow { f := userFlow("user_by_email"); f.Description = "x"; return f }(), "k1", 10, 100)).ProposalID
	b.approve(id, carol)
	_, err := b.Promote(ctx, bob, id, governance.PromoteRequest{})
	require.NoError(t, err)
	_, err = b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{})
	refused(t, flows.CodeToolDrift, err, "get_user")
	back, err := b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{AcceptDrift: true})
	require.NoError(t, err)
	require.Equal(t, flows.SchemaHash(changed), back.Flow.ToolSchemaHashes["get_user"])
}
