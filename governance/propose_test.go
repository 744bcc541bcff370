package governance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/analyzer"
	"pave/flows"
	"pave/governance"
	"pave/observer"
)

func TestProposeIsIdempotent(t *testing.T) {
	b := newBench(t)
	c := candidate(userFlow("user_by_email"), "k1", 10, 96)
	first := b.one(c)
	require.Equal(t, governance.OutcomeCreated, first.Outcome)
	p := b.get(first.ProposalID)
	require.Equal(t, governance.StateProposed, p.State)
	require.Equal(t, governance.MinerPrincipal, p.Author)
	require.Equal(t, c.Digest, p.Digest)
	require.Equal(t, flows.Digest(p.Flow), p.Digest, "the stored draft is what the digest says")
	require.Equal(t, []string{"find_user", "get_user"}, p.Unbound)
	require.Equal(t, flows.EffectExternal, p.Safety, "unknown tools count as external")
	require.Equal(t, 2, p.Needs)

	events := len(b.actions())
	for range 3 {
		again := b.one(c)
		require.Equal(t, governance.OutcomeUnchanged, again.Outcome)
		require.Equal(t, first.ProposalID, again.ProposalID)
	}
	require.Len(t, b.actions(), events, "nothing changed, so nothing is audited")
	require.EqualValues(t, 1, b.get(first.ProposalID).Revision)
	page, err := b.Proposals(ctx, alice, governance.ProposalFilter{})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
}

func TestSameDigestUpdatesEvidenceAndKeepsApprovals(t *testing.T) {
	b := newBench(t)
	b.apply(findUser(), getUser())
	id := b.one(candidate(userFlow("f"), "k", 10, 96)).ProposalID
	b.approve(id, bob)
	c := candidate(userFlow("f"), "k", 14, 97)
	c.Rank = 3
	require.Equal(t, governance.OutcomeUpdated, b.one(c).Outcome)
	p := b.get(id)
	require.Equal(t, 14, p.Evidence.Pattern.Sessions)
	require.Equal(t, 3, p.Rank)
	require.Equal(t, governance.StateApproved, p.State)
	require.Equal(t, 1, p.Approvals)
}

func TestChangedDigestReplacesDraftAndDismisses(t *testing.T) {
	b := newBench(t)
	b.apply(findUser(), getUser())
	id := b.one(candidate(userFlow("f"), "k", 10, 96)).ProposalID
	owner := "person:olga"
	_, err := b.Edit(ctx, alice, id, governance.EditRequest{Owner: &owner})
	require.NoError(t, err)
	b.approve(id, bob)

	changed := userFlow("other_name")
	changed.Description = "Another text."
	item := b.one(candidate(changed, "k", 12, 96))
	require.Equal(t, governance.OutcomeChanged, item.Outcome)
	p := b.get(id)
	require.Equal(t, governance.StateProposed, p.State)
	require.Zero(t, p.Approvals)
	require.True(t, p.Reviews[0].Dismissed)
	require.Equal(t, "f", p.Flow.Name, "reviewers know it by this name")
	require.Equal(t, owner, p.Flow.Governance.Owner)
	require.Equal(t, "Another text.", p.Flow.Description)
	require.Equal(t, flows.Digest(p.Flow), p.Digest)
	require.Contains(t, p.Changed, "changed the draft")
	require.Equal(t, governance.OutcomeUnchanged, b.one(candidate(changed, "k", 12, 96)).Outcome, "the candidate is known by its own digest")
}

func TestEditedDraftSurvivesMining(t *testing.T) {
	b := newBench(t)
	b.apply(findUser(), getUser())
	id := b.one(candidate(userFlow("f"), "k", 10, 96)).ProposalID
	edited := userFlow("f")
	edited.Description = "By a person."
	p, err := b.Edit(ctx, alice, id, governance.EditRequest{Flow: edited})
	require.NoError(t, err)
	require.Equal(t, []string{"person:alice"}, p.Editors)

	mined := userFlow("f")
	mined.Description = "Mined anew."
	item := b.one(candidate(mined, "k", 20, 96))
	require.Equal(t, governance.OutcomeUpdated, item.Outcome)
	require.Contains(t, item.Reason, "edited one was kept")
	require.Equal(t, "By a person.", b.get(id).Flow.Description)
	require.Equal(t, 20, b.get(id).Evidence.Pattern.Sessions)
}

func TestRejectedComesBackOnlyForCause(t *testing.T) {
	changedTool := findUser()
	changedTool.OutputSchema = raw(`{"type":"object","properties":{"user_id":{"type":"string"},"vip":{"type":"boolean"}},"required":["user_id"]}`)
	sameSchema := findUser()
	sameSchema.Binding = &flows.Binding{Kind: "local", Local: "elsewhere"}
	tests := map[string]struct {
		sessions, exact int
		apply           *flows.Tool
		want            governance.Outcome
		says            string
	}{
		"nothing changed":       {10, 90, nil, governance.OutcomeSuppressed, "nothing changed enough"},
		"support nearly double": {19, 90, nil, governance.OutcomeSuppressed, ""},
		"support doubled":       {20, 90, nil, governance.OutcomeReturned, "from 10 to 20 sessions"},
		"exactness up 4":        {10, 94, nil, governance.OutcomeSuppressed, ""},
		"exactness up 5":        {10, 95, nil, governance.OutcomeReturned, "from 90 % to 95 %"},
		"schema changed":        {10, 90, changedTool, governance.OutcomeReturned, "find_user"},
		"binding changed":       {10, 90, sameSchema, governance.OutcomeSuppressed, ""},
	}
	for name, tc := range tests {
		for _, verdict := range []string{"reject", "withdraw"} {
			t.Run(name+" after "+verdict, func(t *testing.T) {
				b := newBench(t)
				b.apply(findUser(), getUser())
				id := b.one(candidate(userFlow("f"), "k", 10, 90)).ProposalID
				if verdict == "reject" {
					_, err := b.review(bob, id, governance.VerdictReject)
					require.NoError(t, err)
				} else {
					_, err := b.Withdraw(ctx, bob, id, "not now", 0)
					require.NoError(t, err)
				}
				if tc.apply != nil {
					b.apply(tc.apply)
				}
				item := b.one(candidate(userFlow("f"), "k", tc.sessions, tc.exact))
				require.Equal(t, tc.want, item.Outcome, item.Reason)
				require.Contains(t, item.Reason, tc.says)
				if tc.want == governance.OutcomeReturned {
					p := b.get(item.ProposalID)
					require.NotEqual(t, id, p.ID)
					require.Equal(t, item.Reason, p.Returned)
					require.Equal(t, "f", p.Flow.Name)
				} else {
					require.Equal(t, id, item.ProposalID)
				}
			})
		}
	}
}

func TestPromotedIsSuppressedUntilItDiffers(t *testing.T) {
	b := newBench(t)
	v := b.promoted()
	item := b.one(candidate(userFlow("user_by_email"), "k1", 100, 100))
	require.Equal(t, governance.OutcomeSuppressed, item.Outcome)
	require.Contains(t, item.Reason, "user_by_email@1.0.0")

	better := userFlow("user_by_email")
	better.Returns = flows.Mapping{{Target: "name", Value: flows.Pointer("/user/name")}}
	item = b.one(candidate(better, "k1", 100, 100))
	require.Equal(t, governance.OutcomeCreated, item.Outcome)
	b.approve(item.ProposalID, bob)
	v2, err := b.Promote(ctx, bob, item.ProposalID, governance.PromoteRequest{})
	require.NoError(t, err)
	require.Equal(t, "1.0.0", v.Flow.Version)
	require.Equal(t, "2.0.0", v2.Flow.Version, "the next version of the same flow, which returns something else")
}

func TestQueuesHaveTheirOwnCaps(t *testing.T) {
	b := newBench(t)
	policy := governance.DefaultPolicy()
	policy.MaxPending, policy.MaxPendingAnalyzer = 3, 2
	require.NoError(t, b.SetPolicy(ctx, admin, policy, 0))
	var cands []analyzer.Candidate
	for i := range 5 {
		mined := candidate(userFlow(fmt.Sprintf("m%d", i)), fmt.Sprintf("m%d", i), 10, 90)
		mined.Rank = i
		chain := candidate(userFlow(fmt.Sprintf("a%d", i)), fmt.Sprintf("a%d", i), 0, 0)
		chain.Source, chain.Rank, chain.Evidence = analyzer.SourceAnalyzer, i, analyzer.Evidence{}
		cands = append(cands, chain, mined)
	}
	report := b.propose(cands...)
	require.Equal(t, 5, report.Count(governance.OutcomeCreated))
	require.Equal(t, 5, report.Count(governance.OutcomeCapped))
	page, err := b.Proposals(ctx, alice, governance.ProposalFilter{})
	require.NoError(t, err)
	var names []string
	for _, p := range page.Items {
		names = append(names, p.Flow.Name)
	}
	require.Equal(t, []string{"m0", "m1", "m2", "a0", "a1"}, names, "mined first, each in rank order")

	_, err = b.review(bob, "m1", governance.VerdictReject)
	require.NoError(t, err)
	report = b.propose(cands...)
	require.Equal(t, 1, report.Count(governance.OutcomeCreated), "a decision makes room")
	require.Equal(t, 1, report.Count(governance.OutcomeSuppressed))
	require.Equal(t, 4, report.Count(governance.OutcomeUnchanged))
}

func TestNamesAreUniqueOverPatterns(t *testing.T) {
	b := newBench(t)
	first := b.one(candidate(userFlow("f"), "k1", 10, 90))
	other := userFlow("f")
	other.Description = "Another pattern."
	second := b.one(candidate(other, "k2", 10, 90))
	require.Equal(t, "f", first.Flow)
	require.Equal(t, "f_2", second.Flow)
	p := b.get(second.ProposalID)
	require.Equal(t, flows.Digest(p.Flow), p.Digest)
	require.Equal(t, governance.OutcomeUnchanged, b.one(candidate(other, "k2", 10, 90)).Outcome)
}

func TestOneBadCandidateNamesItselfAndKeepsNothing(t *testing.T) {
	b := newBench(t)
	_, err := b.Propose(ctx, ci, nil)
	refused(t, flows.CodeForbidden, err, "propose")
	require.Empty(t, b.actions())
}

func TestProposalsAreFoundByIDPrefixAndName(t *testing.T) {
	ids := []string{"aaaa1111", "aaaa2222", "bbbb3333", "k"}
	b := open(t, t.TempDir(), func(o *governance.Options) {
		o.NewID = func() string { id := ids[0]; ids = ids[1:]; return id }
	})
	b.propose(candidate(userFlow("f"), "k1", 10, 90), candidate(userFlow("g"), "k2", 10, 90), candidate(userFlow("aaaa"), "k3", 10, 90))
	require.Equal(t, "g", b.get("aaaa2").Flow.Name)
	require.Equal(t, "g", b.get("g").Flow.Name)
	require.Equal(t, "bbbb3333", b.get("aaaa").ID, "a flow's own name goes before prefixes")
	_, err := b.Proposal(ctx, admin, "aaa")
	refused(t, flows.CodeNotFound, err, "aaa")
	_, err = b.Proposal(ctx, admin, "zzzz")
	refused(t, flows.CodeNotFound, err, "zzzz")
	_, err = b.Proposal(ctx, admin, "%")
	refused(t, flows.CodeNotFound, err, "%")
	_, err = b.Proposal(ctx, actor("person:x"), "f")
	refused(t, flows.CodeForbidden, err, "read")
}

func TestAmbiguousPrefixIsNamed(t *testing.T) {
	ids := []string{"aaaa1111", "aaaa2222"}
	b := open(t, t.TempDir(), func(o *governance.Options) {
		o.NewID = func() string { id := ids[0]; ids = ids[1:]; return id }
	})
	b.propose(candidate(userFlow("f"), "k1", 10, 90), candidate(userFlow("g"), "k2", 10, 90))
	_, err := b.Proposal(ctx, admin, "aaaa")
	refused(t, flows.CodeInvalid, err, "names 2 proposals")
}

func TestProposalListRefusesBadQueries(t *testing.T) {
	b := newBench(t)
	_, err := b.Proposals(ctx, alice, governance.ProposalFilter{Sort: "id; DROP TABLE proposals"})
	refused(t, flows.CodeInvalid, err, "sort")
	_, err = b.Proposals(ctx, alice, governance.ProposalFilter{Cursor: "nonsense"})
	refused(t, flows.CodeInvalid, err, "cursor")
}

func TestEvidenceKeepsExactValues(t *testing.T) {
	b := newBench(t)
	c := candidate(userFlow("f"), "k", 10, 90)
	c.Evidence.Window = analyzer.Window{From: start, To: start.Add(time.Hour), Sessions: 99, Calls: 1000}
	c.Evidence.Pattern.DataFlow.Steps = []observer.StepFlow{{Args: []observer.ArgFlow{
		{Arg: "n", Kind: observer.SourceConst, Value: int64(9007199254740993), Evidence: observer.Evidence{Held: 10, Supporting: []string{"s1"}}}}}}
	id := b.one(c).ProposalID
	got := b.get(id).Evidence
	require.Equal(t, "9007199254740993", fmt.Sprint(got.Pattern.DataFlow.Steps[0].Args[0].Value), "beyond 2^53 and exact")
	require.Equal(t, c.Evidence.Window, got.Window)
	require.Equal(t, governance.OutcomeUnchanged, b.one(c).Outcome)
}

func TestSubmittedDraftsHaveTheirAuthor(t *testing.T) {
	b := newBench(t)
	b.apply(findUser(), getUser())
	p, err := b.Submit(ctx, alice, userFlow("by_hand"))
	require.NoError(t, err)
	require.Equal(t, governance.SourceSubmitted, p.Source)
	_, err = b.review(alice, p.ID, governance.VerdictApprove)
	refused(t, flows.CodeFourEyes, err, "person:alice")
	_, err = b.Submit(ctx, alice, userFlow("by_hand"))
	refused(t, flows.CodeExists, err, p.ID)
	_, err = b.Submit(ctx, alice, &flows.Flow{Name: "empty"})
	refused(t, flows.CodeInvalid, err, "step")
	_, err = b.Submit(ctx, bob, userFlow("x"))
	refused(t, flows.CodeForbidden, err, "propose")
	b.approve(p.ID, bob)
	_, err = b.Promote(ctx, bob, p.ID, governance.PromoteRequest{})
	require.NoError(t, err)
}

// What another generator proposes passes what mined candidates pass: the cap of the queue, the memory of rejections,
// four eyes, the approvals, the bindings and the compiler.
func TestExternalProposalsPassTheSameChecks(t *testing.T) {
	b := newBench(t)
	b.apply(findUser(), getUser())
	model := actor("service:model", governance.ScopePropose, governance.ScopeReview, governance.ScopePromote)
	p, err := b.SubmitExternal(ctx, model, userFlow("f"))
	require.NoError(t, err)
	require.Equal(t, governance.SourceExternal, p.Source)
	_, err = b.review(model, p.ID, governance.VerdictApprove)
	refused(t, flows.CodeFourEyes, err, "service:model")
	_, err = b.Promote(ctx, model, p.ID, governance.PromoteRequest{})
	refused(t, flows.CodeApprovalsMissing, err, "0 of 1")
	_, err = b.BulkReject(ctx, bob, []governance.BulkItem{{ID: p.ID}}, "too eager")
	require.NoError(t, err)

	_, err = b.SubmitExternal(ctx, model, userFlow("f"))
	refused(t, flows.CodeConflict, err, "too eager")
	memory, err := b.Rejections(ctx, carol, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"the schema of one of its tools changes: find_user, get_user"}, memory[0].Lifts)
	other := userFlow("f")
	other.Steps[1].InputMapping[0].Value = flows.Pointer("/found/nothing")
	p, err = b.SubmitExternal(ctx, model, other)
	require.NoError(t, err, "another draft is another proposal")
	_, err = b.review(bob, p.ID, governance.VerdictApprove)
	refused(t, flows.CodeCompile, err, "nothing")
	_, err = b.Withdraw(ctx, model, p.ID, "broken", 0)
	require.NoError(t, err)
	b.apply(widened())
	p, err = b.SubmitExternal(ctx, model, userFlow("f"))
	require.NoError(t, err, "a schema changed")

	policy := governance.DefaultPolicy()
	policy.MaxPending = 2
	require.NoError(t, b.SetPolicy(ctx, admin, policy, 0))
	_, err = b.SubmitExternal(ctx, model, userFlow("g"))
	require.NoError(t, err)
	_, err = b.SubmitExternal(ctx, model, userFlow("h"))
	refused(t, flows.CodeFull, err, "max_pending")
	_, err = b.Submit(ctx, alice, userFlow("h"))
	require.NoError(t, err, "people are not capped")
	b.approve(p.ID, bob)
	_, err = b.Promote(ctx, bob, p.ID, governance.PromoteRequest{})
	require.NoError(t, err)
}

func TestMinedPathTakesThePlaceOfItsChain(t *testing.T) {
	chain := func() analyzer.Candidate {
		c := candidate(userFlow("user_by_email"), "analyzer/linear/find_user>get_user", 0, 0)
		c.Source, c.Evidence = analyzer.SourceAnalyzer, analyzer.Evidence{}
		return c
	}
	mined := func() analyzer.Candidate {
		f := userFlow("user_by_email")
		f.Description = "Mined."
		return candidate(f, "miner/linear/find_user>get_user", 10, 96)
	}
	t.Run("that nobody touched", func(t *testing.T) {
		b := newBench(t)
		old := b.one(chain())
		require.Equal(t, governance.OutcomeCreated, old.Outcome)
		item := b.one(mined())
		require.Equal(t, governance.OutcomeCreated, item.Outcome)
		require.Equal(t, "user_by_email", item.Flow, "the name is free again")
		require.Equal(t, governance.StateSuperseded, b.get(old.ProposalID).State)
		require.Contains(t, b.actions(), "proposal.supersede")

		again := b.one(chain())
		require.Equal(t, governance.OutcomeSuppressed, again.Outcome, "a pass that does not see the path must not bring the chain back")
		require.Equal(t, item.ProposalID, again.ProposalID)
		require.Equal(t, governance.OutcomeUnchanged, b.one(mined()).Outcome)
	})
	t.Run("but not of one under review", func(t *testing.T) {
		b := newBench(t)
		b.apply(findUser(), getUser())
		old := b.one(chain())
		b.approve(old.ProposalID, bob)
		item := b.one(mined())
		require.Equal(t, "user_by_email_2", item.Flow)
		require.Equal(t, governance.StateApproved, b.get(old.ProposalID).State)
	})
}

// A flow that does what others do in another order of steps takes these out of the queue, but for what somebody reviewed.
func TestOtherOrdersOfAFlowAreSuperseded(t *testing.T) {
	b := newBench(t)
	b.apply(findUser(), getUser())
	plain, reviewed := b.one(candidate(userFlow("plain"), "k1", 10, 100)), b.one(candidate(userFlow("reviewed"), "k2", 10, 100))
	_, err := b.Review(ctx, bob, reviewed.ProposalID, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: b.get(reviewed.ProposalID).Digest})
	require.NoError(t, err)
	c := candidate(userFlow("one"), "k0", 30, 100)
	c.Orders = []string{"k1", "k2"}
	require.Equal(t, governance.OutcomeCreated, b.one(c).Outcome)
	old := b.get(plain.ProposalID)
	require.Equal(t, governance.StateSuperseded, old.State)
	require.Equal(t, "the same flow is proposed, in whichever order its independent steps run", old.Closed.Reason)
	require.Equal(t, governance.StateApproved, b.get(reviewed.ProposalID).State)
	require.Equal(t, governance.OutcomeUnchanged, b.one(c).Outcome)
}
