package governance_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
)

func TestDecideTable(t *testing.T) {
	approval := func(who, digest string) governance.Review {
		return governance.Review{Principal: who, Verdict: governance.VerdictApprove, Digest: digest}
	}
	dismissed := approval("person:bob", "d")
	dismissed.Dismissed = true
	base := func(change func(*governance.Proposal)) *governance.Proposal {
		p := &governance.Proposal{ID: "p", State: governance.StateProposed, Author: "person:alice", Digest: "d", Safety: flows.EffectRead,
			Flow: &flows.Flow{Governance: &flows.Governance{Owner: "person:olga"}}}
		if change != nil {
			change(p)
		}
		return p
	}
	with := func(safety flows.SideEffects, reviews ...governance.Review) *governance.Proposal {
		return base(func(p *governance.Proposal) { p.Safety, p.Reviews, p.State = safety, reviews, governance.StateInReview })
	}
	solo := governance.DefaultPolicy()
	solo.Solo = true
	anyone := actor("person:x", governance.AllScopes...)
	policy := func(change func(*governance.Policy)) *governance.Policy {
		p := governance.DefaultPolicy()
		change(&p)
		return &p
	}
	wantsCarol := policy(func(p *governance.Policy) { p.RequiredReviewers = []string{"person:carol", "person:dora"} })
	carolSolo := policy(func(p *governance.Policy) { p.RequiredReviewers, p.Solo = []string{"person:carol"}, true })
	onlyBob := policy(func(p *governance.Policy) { p.Promoters = []string{"person:bob"} })
	shadowed := policy(func(p *governance.Policy) { p.RequireShadow = true })
	lenient := policy(func(p *governance.Policy) { p.MinReplayExact = 0 })
	approved := func(change func(*governance.Proposal)) *governance.Proposal {
		p := with(flows.EffectRead, approval("person:bob", "d"))
		change(p)
		return p
	}
	checked := func(windows, exact, effects int) *governance.Proposal {
		return approved(func(p *governance.Proposal) {
			p.Check = &governance.ReplayCheck{Windows: windows, Exact: exact, DestructiveMismatches: effects}
		})
	}
	watched := func(windows, exact, effects int) *governance.Proposal {
		return approved(func(p *governance.Proposal) {
			p.Shadow = &governance.ShadowResult{Windows: windows, Exact: exact, DestructiveMismatches: effects}
		})
	}
	tests := map[string]struct {
		policy   *governance.Policy
		actor    governance.Actor
		action   governance.Action
		proposal *governance.Proposal
		want     flows.Code
		solo     bool
	}{
		"scope missing":                      {actor: ci, action: governance.ActionApprove, proposal: base(nil), want: flows.CodeForbidden},
		"scope before state":                 {actor: ci, action: governance.ActionApprove, proposal: base(func(p *governance.Proposal) { p.State = governance.StateRejected }), want: flows.CodeForbidden},
		"unknown action":                     {actor: admin, action: "fly", want: flows.CodeForbidden},
		"admin has every scope":              {actor: admin, action: governance.ActionRun},
		"other approves":                     {actor: bob, action: governance.ActionApprove, proposal: base(nil)},
		"author approves":                    {actor: alice, action: governance.ActionApprove, proposal: base(nil), want: flows.CodeFourEyes},
		"author is admin":                    {actor: actor("person:alice", governance.ScopeAdmin), action: governance.ActionApprove, proposal: base(nil), want: flows.CodeFourEyes},
		"editor approves":                    {actor: bob, action: governance.ActionApprove, proposal: base(func(p *governance.Proposal) { p.Editors = []string{"person:bob"} }), want: flows.CodeFourEyes},
		"author approves, solo":              {policy: &solo, actor: alice, action: governance.ActionApprove, proposal: base(nil), solo: true},
		"author rejects":                     {actor: alice, action: governance.ActionDisprove, proposal: base(nil)},
		"approve after promotion":            {actor: bob, action: governance.ActionApprove, proposal: base(func(p *governance.Proposal) { p.State = governance.StatePromoted }), want: flows.CodeConflict},
		"approve superseded":                 {actor: bob, action: governance.ActionApprove, proposal: base(func(p *governance.Proposal) { p.State = governance.StateSuperseded }), want: flows.CodeConflict},
		"withdraw by author without promote": {actor: actor("person:alice", governance.ScopePropose), action: governance.ActionWithdraw, proposal: base(nil)},
		"withdraw by other proposer":         {actor: actor("person:x", governance.ScopePropose), action: governance.ActionWithdraw, proposal: base(nil), want: flows.CodeForbidden},
		"withdraw by promoter":               {actor: bob, action: governance.ActionWithdraw, proposal: base(nil)},
		"promote without approvals":          {actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectRead), want: flows.CodeApprovalsMissing},
		"promote without scope":              {actor: carol, action: governance.ActionPromote, proposal: with(flows.EffectRead, approval("person:bob", "d")), want: flows.CodeForbidden},
		"none needs one":                     {actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectNone, approval("person:bob", "d"))},
		"read needs one":                     {actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectRead, approval("person:bob", "d"))},
		"write needs two":                    {actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectWrite, approval("person:bob", "d")), want: flows.CodeApprovalsMissing},
		"write with two":                     {actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectWrite, approval("person:bob", "d"), approval("person:carol", "d"))},
		"external needs two":                 {actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectExternal, approval("person:bob", "d")), want: flows.CodeApprovalsMissing},
		"unknown level needs two":            {actor: anyone, action: governance.ActionPromote, proposal: with("", approval("person:bob", "d")), want: flows.CodeApprovalsMissing},
		"one principal twice counts once":    {actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectWrite, approval("person:bob", "d"), approval("person:bob", "d")), want: flows.CodeApprovalsMissing},
		"approval of another digest":         {actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectRead, approval("person:bob", "old")), want: flows.CodeApprovalsMissing},
		"dismissed approval":                 {actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectRead, dismissed), want: flows.CodeApprovalsMissing},
		"author's approval does not count":   {actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectRead, approval("person:alice", "d")), want: flows.CodeApprovalsMissing},
		"author's approval counts in solo":   {policy: &solo, actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectExternal, approval("person:alice", "d"))},
		"destructive without owner's":        {actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectDestructive, approval("person:bob", "d"), approval("person:carol", "d")), want: flows.CodeApprovalsMissing},
		"destructive with owner's":           {actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectDestructive, approval("person:bob", "d"), approval("person:olga", "d"))},
		"required reviewer missing":          {policy: wantsCarol, actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectRead, approval("person:bob", "d")), want: flows.CodeApprovalsMissing},
		"one required reviewer is enough":    {policy: wantsCarol, actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectRead, approval("person:carol", "d"))},
		"required reviewer's dismissed":      {policy: wantsCarol, actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectRead, approval("person:bob", "d"), func() governance.Review { r := approval("person:carol", "d"); r.Dismissed = true; return r }()), want: flows.CodeApprovalsMissing},
		"required reviewers rest in solo":    {policy: carolSolo, actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectRead, approval("person:alice", "d"))},
		"not a promoter":                     {policy: onlyBob, actor: anyone, action: governance.ActionPromote, proposal: with(flows.EffectRead, approval("person:bob", "d")), want: flows.CodeForbidden},
		"not a promoter, though admin":       {policy: onlyBob, actor: admin, action: governance.ActionPromote, proposal: with(flows.EffectRead, approval("person:bob", "d")), want: flows.CodeForbidden},
		"not a promoter sets no status":      {policy: onlyBob, actor: anyone, action: governance.ActionSetStatus, want: flows.CodeForbidden},
		"a promoter":                         {policy: onlyBob, actor: bob, action: governance.ActionPromote, proposal: with(flows.EffectRead, approval("person:bob", "d"))},
		"a promoter needs the scope":         {policy: onlyBob, actor: actor("person:bob", governance.ScopeReview), action: governance.ActionPromote, proposal: with(flows.EffectRead, approval("person:bob", "d")), want: flows.CodeForbidden},
		"promoters do not bind reviewers":    {policy: onlyBob, actor: carol, action: governance.ActionApprove, proposal: base(nil)},
		"replay exact enough":                {actor: anyone, action: governance.ActionPromote, proposal: checked(10, 8, 0)},
		"replay diverges":                    {actor: anyone, action: governance.ActionPromote, proposal: checked(10, 7, 0), want: flows.CodeReplayDiverged},
		"replay with effects":                {actor: anyone, action: governance.ActionPromote, proposal: checked(1000, 999, 1), want: flows.CodeReplayDiverged},
		"replay of an unknown path":          {actor: anyone, action: governance.ActionPromote, proposal: checked(0, 0, 0)},
		"replay not asked for":               {policy: lenient, actor: anyone, action: governance.ActionPromote, proposal: checked(10, 0, 9)},
		"approvals before replay":            {actor: anyone, action: governance.ActionPromote, proposal: func() *governance.Proposal { p := checked(10, 0, 0); p.Reviews = nil; return p }(), want: flows.CodeApprovalsMissing},
		"shadow without sessions":            {policy: shadowed, actor: anyone, action: governance.ActionPromote, proposal: approved(func(*governance.Proposal) {}), want: flows.CodeShadow},
		"shadow 72 of 72":                    {policy: shadowed, actor: anyone, action: governance.ActionPromote, proposal: watched(72, 72, 0), want: flows.CodeShadow},
		"shadow 73 of 73":                    {policy: shadowed, actor: anyone, action: governance.ActionPromote, proposal: watched(73, 73, 0)},
		"shadow with one miss of many":       {policy: shadowed, actor: anyone, action: governance.ActionPromote, proposal: watched(200, 199, 0)},
		"shadow with effects":                {policy: shadowed, actor: anyone, action: governance.ActionPromote, proposal: watched(1000, 1000, 1), want: flows.CodeShadow},
		"changes requested": {actor: anyone, action: governance.ActionPromote, proposal: base(func(p *governance.Proposal) {
			p.State, p.Reviews = governance.StateChanges, []governance.Review{approval("person:bob", "d")}
		}), want: flows.CodeApprovalsMissing},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			policy := governance.DefaultPolicy()
			if tc.policy != nil {
				policy = *tc.policy
			}
			d := policy.Decide(tc.actor, tc.action, tc.proposal)
			require.Equal(t, tc.want, d.Code, d.Reason)
			require.Equal(t, tc.solo, d.Solo)
			if tc.want == "" {
				require.NoError(t, d.Err())
			} else {
				refused(t, tc.want, d.Err(), d.Reason)
			}
		})
	}
}

func TestPolicyIsCheckedKeptAndRejudges(t *testing.T) {
	b := newBench(t)
	b.apply(findUser(), getUser())
	id := b.one(candidate(userFlow("f"), "k", 10, 100)).ProposalID
	b.approve(id, bob)
	require.Equal(t, governance.StateApproved, b.get(id).State)

	p, revision, err := b.Policy(ctx, bob)
	require.NoError(t, err)
	require.Equal(t, governance.DefaultPolicy(), p)
	require.Zero(t, revision)
	p.Approvals = map[flows.SideEffects]int{flows.EffectRead: 2, flows.EffectWrite: 3}
	refused(t, flows.CodeForbidden, b.SetPolicy(ctx, bob, p, 0), "admin")
	require.NoError(t, b.SetPolicy(ctx, admin, p, 0))
	refused(t, flows.CodeStale, b.SetPolicy(ctx, admin, p, 0), "changed meanwhile")

	now := b.get(id)
	require.Equal(t, governance.StateInReview, now.State, "one approval is not enough any more")
	require.Equal(t, 2, now.Needs)
	page, err := b.Proposals(ctx, bob, governance.ProposalFilter{States: []governance.State{governance.StateInReview}})
	require.NoError(t, err)
	require.Len(t, page.Items, 1, "the stored state follows")

	for _, bad := range []governance.Policy{
		{Approvals: map[flows.SideEffects]int{"huge": 1}},
		{Approvals: map[flows.SideEffects]int{flows.EffectRead: 0}},
		{MaxPending: -1}, {MinReplayExact: 1.1}, {MinConformance: -0.1}, {MaxFailureRate: math.NaN()}, {MinRuns: -1}, {UnusedDays: -1},
		{Promoters: []string{"bob"}}, {RequiredReviewers: []string{"person:ok", "x"}},
	} {
		refused(t, flows.CodeInvalid, b.SetPolicy(ctx, admin, bad, 1), "policy")
	}
	require.Contains(t, b.actions(), "policy.set")
}

// An admin who acts as another principal is in the audit log as both.
func TestActingAsAnotherIsAudited(t *testing.T) {
	b, id := ready(t)
	for _, name := range []string{"person:carol", "person:dora"} {
		as, err := admin.As(name)
		require.NoError(t, err)
		_, err = b.review(as, id, governance.VerdictApprove)
		require.NoError(t, err)
	}
	as, err := admin.As("person:eve")
	require.NoError(t, err)
	key, _, err := b.CreateKey(ctx, as, governance.KeyRequest{Principal: "service:x", Scopes: []governance.Scope{governance.ScopeRead}})
	require.NoError(t, err)
	require.NoError(t, b.RevokeKey(ctx, as, key.ID)) // an event without a detail of its own
	b.approve(id, bob)
	events, err := b.Audit(ctx, admin, 0, 500)
	require.NoError(t, err)
	var got []string
	for _, e := range events[3:] {
		var detail struct{ Via, Digest string }
		require.NoError(t, json.Unmarshal(e.Detail, &detail))
		got = append(got, e.Action+" by "+e.Actor+" via "+detail.Via)
		if e.Action == "proposal.approve" {
			require.Equal(t, b.get(id).Digest, detail.Digest)
		}
	}
	require.Equal(t, []string{"proposal.approve by person:carol via local:root", "proposal.approve by person:dora via local:root",
		"key.create by person:eve via local:root", "key.revoke by person:eve via local:root", "proposal.approve by person:bob via "}, got)
	b.actions() // verifies the chain
}

func TestActingAsAnother(t *testing.T) {
	_, err := bob.As("person:carol")
	refused(t, flows.CodeForbidden, err, "admin")
	same, err := bob.As("person:bob")
	require.NoError(t, err)
	require.Equal(t, bob, same)
	other, err := admin.As("person:carol")
	require.NoError(t, err)
	require.Equal(t, "person:carol", other.Principal)
	for _, bad := range []string{"carol", "robot:x", "person:", "person:a b", "person:a\x1b[2J", "person:" + string(make([]byte, 200)),
		governance.SystemPrincipal, governance.MinerPrincipal, governance.RetentionPrincipal} {
		_, err := admin.As(bad)
		refused(t, flows.CodeInvalid, err, "principal")
	}
}
