package governance_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
)

func TestCommentsAreAnchored(t *testing.T) {
	b, id := ready(t)
	for _, bad := range []governance.CommentRequest{
		{Body: "  "}, {Body: strings.Repeat("x", 10_001)}, {Body: "x", Pointer: "/steps/9"}, {Body: "x", Pointer: "steps"},
	} {
		_, err := b.Comment(ctx, bob, id, bad)
		require.Equal(t, flows.CodeInvalid, flows.CodeOf(err), "%v", bad.Pointer)
	}
	_, err := b.Comment(ctx, ci, id, governance.CommentRequest{Body: "x"})
	refused(t, flows.CodeForbidden, err, "review")
	for _, pointer := range []string{"", "/steps/0", "/steps/1/input_mapping"} {
		_, err := b.Comment(ctx, carol, id, governance.CommentRequest{Body: "about " + pointer, Pointer: pointer})
		require.NoError(t, err, pointer)
	}
	edited := userFlow("f")
	edited.Steps[1].InputMapping[0].Value = flows.Key("email")
	_, err = b.Edit(ctx, alice, id, governance.EditRequest{Flow: edited})
	require.NoError(t, err)
	got, err := b.Comments(ctx, bob, id)
	require.NoError(t, err)
	require.Len(t, got, 3)
	outdated := map[string]bool{}
	for _, c := range got {
		require.Equal(t, "person:carol", c.Principal)
		require.Equal(t, "about "+c.Pointer, c.Body)
		outdated[c.Pointer] = c.Outdated
	}
	require.Equal(t, map[string]bool{"": true, "/steps/0": false, "/steps/1/input_mapping": true}, outdated)
	require.Contains(t, b.actions(), "proposal.comment")
}

func TestAssigneeAndLabelsAreNoContent(t *testing.T) {
	b, id := ready(t)
	b.approve(id, bob)
	who, labels := "person:carol", []string{"billing", "urgent", "billing"}
	p, err := b.Edit(ctx, alice, id, governance.EditRequest{Assignee: &who, Labels: &labels})
	require.NoError(t, err)
	require.Equal(t, governance.StateApproved, p.State)
	require.Empty(t, p.Editors)
	require.Equal(t, []string{"billing", "urgent"}, p.Labels)
	page, err := b.Proposals(ctx, bob, governance.ProposalFilter{Assignee: who})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	page, err = b.Proposals(ctx, bob, governance.ProposalFilter{Assignee: "person:bob"})
	require.NoError(t, err)
	require.Empty(t, page.Items)
	nobody := ""
	p, err = b.Edit(ctx, alice, id, governance.EditRequest{Assignee: &nobody})
	require.NoError(t, err)
	require.Empty(t, p.Assignee)
	bad, long := "carol", []string{strings.Repeat("x", 65)}
	_, err = b.Edit(ctx, alice, id, governance.EditRequest{Assignee: &bad})
	refused(t, flows.CodeInvalid, err, "assignee")
	_, err = b.Edit(ctx, alice, id, governance.EditRequest{Labels: &long})
	refused(t, flows.CodeInvalid, err, "labels")
}

func TestDiffAgainstWhatRuns(t *testing.T) {
	b := newBench(t)
	b.promoted()
	draft := userFlow("user_by_email")
	draft.Steps[1].Retry = &flows.RetryPolicy{MaxRetries: 3, BackoffMultiplier: 1}
	id := b.one(candidate(draft, "k1", 10, 100)).ProposalID
	d, err := b.Diff(ctx, carol, id, "")
	require.NoError(t, err)
	require.True(t, d.Behaviour)
	require.Equal(t, "user_by_email@1.0.0", d.Old)
	require.Contains(t, d.Unified, "+    retry:")
	require.Len(t, d.Changes, 1, "nothing of what the promotion wrote: %v", d.Changes)
	require.Contains(t, d.Changes[0].Pointer, "/steps/1/retry")
	require.Equal(t, "user_by_email@draft", d.New)
	same, err := b.Diff(ctx, carol, id, "user_by_email@1.0.0")
	require.NoError(t, err)
	require.Equal(t, d, same)
	_, err = b.Diff(ctx, carol, id, "user_by_email@9.0.0")
	refused(t, flows.CodeNotFound, err, "9.0.0")
	_, err = b.Diff(ctx, carol, id, "user_by_email")
	refused(t, flows.CodeInvalid, err, "NAME@VERSION")

	first := b.one(candidate(userFlow("other"), "k9", 10, 100)).ProposalID
	d, err = b.Diff(ctx, carol, first, "")
	require.NoError(t, err)
	require.Equal(t, "other@", d.Old)
	require.NotEmpty(t, d.Changes)
}

func TestBulkRejectionAndItsMemory(t *testing.T) {
	b := newBench(t)
	b.apply(findUser(), getUser())
	var ids []string
	for _, name := range []string{"a", "b", "c"} {
		ids = append(ids, b.one(candidate(userFlow(name), "k-"+name, 10, 90)).ProposalID)
	}
	_, err := b.BulkReject(ctx, bob, nil, "noise")
	refused(t, flows.CodeInvalid, err, "1 to 500")
	_, err = b.BulkReject(ctx, bob, []governance.BulkItem{{ID: ids[0]}}, " ")
	refused(t, flows.CodeInvalid, err, "reason")
	_, err = b.BulkReject(ctx, ci, []governance.BulkItem{{ID: ids[0]}}, "noise")
	refused(t, flows.CodeForbidden, err, "review")

	out, err := b.BulkReject(ctx, bob, []governance.BulkItem{{ID: ids[0]}, {ID: "none"}, {ID: ids[1], Digest: "old"}, {ID: ids[0]}}, "noise of a test run")
	require.NoError(t, err)
	require.Len(t, out, 4)
	require.Nil(t, out[0].Err)
	for i, code := range map[int]flows.Code{1: flows.CodeNotFound, 2: flows.CodeStale, 3: flows.CodeConflict} {
		require.Equal(t, code, out[i].Err.Code, "item %d", i)
	}
	require.Equal(t, governance.StateRejected, b.get(ids[0]).State)
	require.Equal(t, governance.StateProposed, b.get(ids[1]).State, "the digest was another one")
	_, err = b.Withdraw(ctx, bob, ids[2], "not now", 0)
	require.NoError(t, err)

	kept, err := b.Rejections(ctx, carol, 0)
	require.NoError(t, err)
	require.Len(t, kept, 2)
	require.Equal(t, "c", kept[0].Flow, "the newest first")
	require.Equal(t, governance.StateWithdrawn, kept[0].State)
	j := kept[1]
	require.Equal(t, "noise of a test run", j.Reason)
	require.Equal(t, "person:bob", j.By)
	require.Equal(t, []string{"support reaches 20 sessions (then 10)", "exactness reaches 95 % (then 90 %)",
		"the schema of one of its tools changes: find_user, get_user"}, j.Lifts)
	require.Equal(t, governance.OutcomeSuppressed, b.one(candidate(userFlow("a"), "k-a", 19, 94)).Outcome)
	require.Equal(t, governance.OutcomeReturned, b.one(candidate(userFlow("a"), "k-a", 19, 95)).Outcome, "as it was said")
	kept, err = b.Rejections(ctx, carol, 0)
	require.NoError(t, err)
	require.Len(t, kept, 1, "what came back is no memory any more")
}

func TestFeedbackOfChangeRequests(t *testing.T) {
	b, id := ready(t)
	ask := func(v governance.Verdict, f governance.Feedback) error {
		_, err := b.Review(ctx, bob, id, governance.ReviewRequest{Verdict: v, Feedback: f, Comment: "x", Digest: b.get(id).Digest})
		return err
	}
	refused(t, flows.CodeInvalid, ask(governance.VerdictApprove, governance.FeedbackMapping), "only a request")
	refused(t, flows.CodeInvalid, ask(governance.VerdictRequestChanges, "bad"), "feedback")
	require.NoError(t, ask(governance.VerdictRequestChanges, ""))
	require.NoError(t, ask(governance.VerdictRequestChanges, governance.FeedbackMapping))
	reviews := b.get(id).Reviews
	require.Equal(t, governance.FeedbackOther, reviews[0].Feedback)
	require.Equal(t, governance.FeedbackMapping, reviews[1].Feedback)
}

func TestExternalDraftsPassTheSameChecks(t *testing.T) {
	b := newBench(t)
	b.apply(findUser(), getUser())
	p, err := b.SubmitExternal(ctx, alice, userFlow("f"))
	require.NoError(t, err)
	require.Equal(t, governance.SourceExternal, p.Source)
	_, err = b.review(alice, p.ID, governance.VerdictApprove)
	refused(t, flows.CodeFourEyes, err, "wrote")
	_, err = b.Promote(ctx, bob, p.ID, governance.PromoteRequest{})
	refused(t, flows.CodeApprovalsMissing, err, "0 of 1")
}
