package governance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
)

// widened is get_user with one more output: another schema under the same name.
func widened() *flows.Tool {
	t := getUser()
	t.OutputSchema = raw(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"]}`)
	return t
}

func TestAdmitOnlyWhatIsActiveUndriftedAndBound(t *testing.T) {
	b := newBench(t)
	_, err := b.Admit(ctx, ci, "user_by_email", "")
	refused(t, flows.CodeNotFound, err, "user_by_email")
	b.promoted()
	_, err = b.Admit(ctx, carol, "user_by_email", "")
	refused(t, flows.CodeForbidden, err, "run")
	_, err = b.Admit(ctx, ci, "user_by_email", "9.9.9")
	refused(t, flows.CodeNotFound, err, "9.9.9")

	a, err := b.Admit(ctx, ci, "user_by_email", "")
	require.NoError(t, err)
	require.Equal(t, "1.0.0", a.Version.Flow.Version)
	require.Len(t, a.Tools, 2)
	again, err := b.Admit(ctx, ci, "user_by_email", "1.0.0")
	require.NoError(t, err)
	require.Equal(t, a.Key, again.Key)

	rebound := getUser()
	rebound.Binding = &flows.Binding{Kind: "local", Local: "other"}
	require.Empty(t, b.apply(rebound).NeedsReview, "a binding is no schema")
	again, err = b.Admit(ctx, ci, "user_by_email", "")
	require.NoError(t, err)
	require.NotEqual(t, a.Key, again.Key, "a plan made with the old binding must not be used")

	rebound.Binding = nil
	b.apply(rebound)
	_, err = b.Admit(ctx, ci, "user_by_email", "")
	refused(t, flows.CodeUnbound, err, "get_user")
}

func TestToolDriftTakesFlowsOutOfService(t *testing.T) {
	b := newBench(t)
	b.promoted()
	report := b.apply(findUser(), widened())
	require.Equal(t, []string{"user_by_email@1.0.0"}, report.NeedsReview)
	require.Equal(t, []governance.ToolChange{
		{Name: "find_user", Change: "unchanged", Revision: 1},
		{Name: "get_user", Change: "updated", SchemaChanged: true, Revision: 2},
	}, report.Tools)
	v, err := b.Flow(ctx, bob, "user_by_email", "")
	require.NoError(t, err)
	require.Equal(t, flows.StatusNeedsReview, v.Status)
	require.Equal(t, flows.StatusNeedsReview, v.Flow.Status, "the file says the same")
	_, err = b.Admit(ctx, ci, "user_by_email", "")
	refused(t, flows.CodeFlowStatus, err, "needs_review")
	require.Contains(t, b.actions(), "flow.drift")

	_, err = b.SetFlowStatus(ctx, bob, "user_by_email", "1.0.0", governance.StatusRequest{Status: flows.StatusActive})
	refused(t, flows.CodeToolDrift, err, "get_user")
	v, err = b.SetFlowStatus(ctx, bob, "user_by_email", "1.0.0", governance.StatusRequest{Status: flows.StatusActive, AcceptDrift: true, Reason: "looked at it"})
	require.NoError(t, err)
	require.Equal(t, flows.SchemaHash(widened()), v.Flow.ToolSchemaHashes["get_user"])
	_, err = b.Admit(ctx, ci, "user_by_email", "")
	require.NoError(t, err)
	require.Equal(t, []string{"user_by_email@1.0.0"}, b.apply(getUser()).NeedsReview, "the new pin is the one that counts")
}

func TestFlowStatus(t *testing.T) {
	b := newBench(t)
	v := b.promoted()
	_, err := b.SetFlowStatus(ctx, carol, "user_by_email", "1.0.0", governance.StatusRequest{Status: flows.StatusDisabled})
	refused(t, flows.CodeForbidden, err, "promote")
	_, err = b.SetFlowStatus(ctx, bob, "user_by_email", "1.0.0", governance.StatusRequest{Status: "off"})
	refused(t, flows.CodeInvalid, err, "off")
	_, err = b.SetFlowStatus(ctx, bob, "user_by_email", "3.0.0", governance.StatusRequest{Status: flows.StatusDisabled})
	refused(t, flows.CodeNotFound, err, "3.0.0")
	_, err = b.SetFlowStatus(ctx, bob, "user_by_email", "1.0.0", governance.StatusRequest{Status: flows.StatusDisabled, IfRevision: v.Revision + 1})
	refused(t, flows.CodeStale, err, "revision")
	off, err := b.SetFlowStatus(ctx, bob, "user_by_email", "1.0.0", governance.StatusRequest{Status: flows.StatusDisabled, IfRevision: v.Revision, Reason: "holiday"})
	require.NoError(t, err)
	require.Equal(t, v.Revision+1, off.Revision)
	_, err = b.Admit(ctx, ci, "user_by_email", "")
	refused(t, flows.CodeFlowStatus, err, "disabled")

	loose := getUser()
	loose.Binding = nil
	b.apply(loose)
	_, err = b.SetFlowStatus(ctx, bob, "user_by_email", "1.0.0", governance.StatusRequest{Status: flows.StatusActive})
	refused(t, flows.CodeUnbound, err, "get_user")
	b.apply(getUser())
	on, err := b.SetFlowStatus(ctx, bob, "user_by_email", "1.0.0", governance.StatusRequest{Status: flows.StatusActive})
	require.NoError(t, err)
	stored, err := b.Flow(ctx, bob, "user_by_email", "")
	require.NoError(t, err)
	require.Equal(t, on.Revision, stored.Revision)
	require.Equal(t, v.Digest, flows.Digest(stored.Flow))

	all, err := b.Flows(ctx, bob)
	require.NoError(t, err)
	require.Len(t, all, 1)
	_, err = b.FlowVersions(ctx, bob, "none")
	refused(t, flows.CodeNotFound, err, "none")
}

func TestInferredToolsNeverReplaceDeclaredOnes(t *testing.T) {
	b := newBench(t)
	inferred := tool("get_user", "user_id", "nickname", "")
	inferred.Binding, inferred.Origin = nil, flows.ToolInferred
	other := tool("only_seen", "x", "y", "")
	other.Binding, other.Origin = nil, flows.ToolInferred
	require.NoError(t, b.RecordInferred(ctx, miner, []*flows.Tool{inferred, other}))
	seen, err := b.Tool(ctx, bob, "get_user")
	require.NoError(t, err)
	require.Equal(t, flows.ToolInferred, seen.Tool.Origin)

	b.apply(getUser())
	require.NoError(t, b.RecordInferred(ctx, miner, []*flows.Tool{inferred, other}))
	got, err := b.Tool(ctx, bob, "get_user")
	require.NoError(t, err)
	require.Equal(t, flows.ToolDeclared, got.Tool.Origin)
	require.JSONEq(t, string(getUser().OutputSchema), string(got.Tool.OutputSchema))
	all, err := b.Tools(ctx, bob)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "only_seen", all[1].Tool.Name)
	require.Equal(t, []string{"tool.infer", "tool.apply"}, b.actions(), "the same again is no change")

	_, err = b.Tool(ctx, bob, "nowhere")
	refused(t, flows.CodeNotFound, err, "nowhere")
	_, err = b.ToolVersions(ctx, bob, "only_seen")
	refused(t, flows.CodeNotFound, err, "declared")
}

func TestApplyToolsRefusesAsAWhole(t *testing.T) {
	b := newBench(t)
	bad := tool("x", "a", "b", flows.EffectRead)
	bad.OutputSchema = raw(`{"type":"nothing"}`)
	badName := tool("a/../b", "a", "b", flows.EffectRead)
	for says, tools := range map[string][]*flows.Tool{
		"output_schema": {findUser(), bad}, "tool name": {findUser(), badName}, "twice": {findUser(), findUser()},
	} {
		_, err := b.ApplyTools(ctx, admin, tools)
		require.Equal(t, flows.CodeInvalid, flows.CodeOf(err), says)
		all, err := b.Tools(ctx, bob)
		require.NoError(t, err)
		require.Empty(t, all, says)
	}
	_, err := b.ApplyTools(ctx, bob, []*flows.Tool{findUser()})
	refused(t, flows.CodeForbidden, err, "admin")
	_, err = b.ApplyTool(ctx, admin, findUser(), 4)
	refused(t, flows.CodeStale, err, "revision")
	report, err := b.ApplyTool(ctx, admin, findUser(), 0)
	require.NoError(t, err)
	require.Equal(t, "created", report.Tools[0].Change)
	versioned := findUser()
	versioned.Description = "better words"
	report, err = b.ApplyTool(ctx, admin, versioned, 1)
	require.NoError(t, err)
	require.Equal(t, governance.ToolChange{Name: "find_user", Change: "updated", Revision: 2}, report.Tools[0])
	history, err := b.ToolVersions(ctx, bob, "find_user")
	require.NoError(t, err)
	require.Len(t, history, 2)
	require.Equal(t, "better words", history[0].Tool.Description)
}

// A tool that becomes more dangerous takes its flows out of service, until they have the approvals that they need now.
func TestWorseSideEffectsTakeFlowsOutOfService(t *testing.T) {
	b := newBench(t)
	b.promoted()
	worse := tool("get_user", "user_id", "name", flows.EffectDestructive)
	require.Equal(t, flows.SchemaHash(getUser()), flows.SchemaHash(worse))
	report := b.apply(worse)
	require.True(t, report.Tools[0].Riskier)
	require.Equal(t, []string{"user_by_email@1.0.0"}, report.NeedsReview)
	_, err := b.Admit(ctx, ci, "user_by_email", "")
	refused(t, flows.CodeFlowStatus, err, "needs_review")

	_, err = b.SetFlowStatus(ctx, bob, "user_by_email", "1.0.0", governance.StatusRequest{Status: flows.StatusActive, Reason: "looked at it"})
	refused(t, flows.CodeApprovalsMissing, err, "rose from read to destructive")
	b.apply(tool("get_user", "user_id", "name", flows.EffectWrite))
	_, err = b.SetFlowStatus(ctx, bob, "user_by_email", "1.0.0", governance.StatusRequest{Status: flows.StatusActive, AcceptDrift: true})
	refused(t, flows.CodeApprovalsMissing, err, "1 of 2")

	// Proposed again, it is approved as what it is.
	p, err := b.Submit(ctx, alice, userFlow("user_by_email"))
	require.NoError(t, err)
	b.approve(p.ID, bob, carol)
	v, err := b.Promote(ctx, bob, p.ID, governance.PromoteRequest{})
	require.NoError(t, err)
	_, err = b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{})
	refused(t, flows.CodeApprovalsMissing, err, "1 of 2")
	require.Empty(t, b.apply(getUser()).NeedsReview, "a tool that got safer needs no review")
	back, err := b.Rollback(ctx, bob, "user_by_email", governance.RollbackRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"1.0.1", "1.0.0"}, []string{v.Flow.Version, back.Flow.Version})
}

// Observed names are anything; one that no tool file could hold does not keep the others out.
func TestInferredToolsOfAnyName(t *testing.T) {
	b := newBench(t)
	odd := tool("server:find it", "x", "y", "")
	broken := tool("broken", "x", "y", "")
	broken.InputSchema = raw(`{"type":"nothing"}`)
	require.NoError(t, b.RecordInferred(ctx, miner, []*flows.Tool{odd, broken, tool("plain", "x", "y", "")}))
	all, err := b.Tools(ctx, bob)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "plain", all[0].Tool.Name)
}

// Two who declare the same tool at once do not overwrite each other.
func TestToolThatMustNotBeThere(t *testing.T) {
	b := newBench(t)
	_, err := b.ApplyTool(ctx, admin, getUser(), governance.Absent)
	require.NoError(t, err)
	_, err = b.ApplyTool(ctx, admin, widened(), governance.Absent)
	refused(t, flows.CodeStale, err, "get_user")
}
