package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/executor/bind/local"
	"pave/flows"
	"pave/flows/export"
	"pave/governance"
	"pave/governance/runs"
)

var nobody = governance.Actor{Principal: "service:nobody", Scopes: []governance.Scope{governance.ScopeIngest}}

func TestCompileAgainstRegisteredToolsAndFlows(t *testing.T) {
	b := newBench(t, nil)
	flow := userFlow()
	flow.Name, flow.InputSchema = "draft", nil
	flow.Steps = append(flow.Steps, flows.Step{FlowName: "user_by_email", InputMapping: flows.Mapping{{Target: "email", Value: flows.Key("email")}}, OutputAs: "again"})
	c, err := b.Compile(ctx, ci, flow)
	require.NoError(t, err)
	require.False(t, executor.HasErrors(c.Diagnostics), "%v", c.Diagnostics)
	require.Equal(t, flows.Digest(flow), c.Digest)
	require.Contains(t, string(c.InputSchema), `"email"`)
	require.Empty(t, c.Unbound)

	flow.Steps[0].ToolName, flow.Steps[2].FlowName = "absent", "nothing"
	c, err = b.Compile(ctx, ci, flow)
	require.NoError(t, err)
	found := map[string]string{}
	for _, d := range c.Diagnostics {
		if d.Severity == executor.SeverityError {
			found[d.IssueType] = d.Pointer
		}
	}
	require.Equal(t, "/steps/0/tool_name", found[executor.IssueMissingTool])
	require.Equal(t, "/steps/2/flow_name", found["composition_error"])

	_, err = b.Compile(ctx, nobody, flow)
	refused(t, flows.CodeForbidden, err, "read")
}

// brokenCatalogue is a catalogue whose store is away.
type brokenCatalogue struct{ runs.Catalogue }

var errAway = errors.New("store away")

func (brokenCatalogue) Tool(context.Context, governance.Actor, string) (*governance.ToolVersion, error) {
	return nil, errAway
}

func TestCompileDoesNotTakeAFailureForAMissingTool(t *testing.T) {
	b := newBench(t, func(o *runs.Options) { o.Catalogue = brokenCatalogue{o.Catalogue} })
	_, err := b.Compile(ctx, ci, userFlow())
	require.ErrorIs(t, err, errAway)
}

func TestExportAndCapabilities(t *testing.T) {
	b := newBench(t, nil)
	out, err := b.Export(ctx, ci, "user_by_email", "", export.MCP, "")
	require.NoError(t, err)
	var d struct {
		Name, Description string
		Annotations       map[string]bool
	}
	require.NoError(t, json.Unmarshal(out, &d))
	require.Equal(t, "user_by_email", d.Name)
	require.Equal(t, "Look up a user. [lifecycle=active; version=1.0.0; side_effects=read; requires_approval=false]", d.Description)
	require.True(t, d.Annotations["readOnlyHint"])
	_, err = b.Export(ctx, ci, "user_by_email", "9.9.9", export.OpenAI, "")
	refused(t, flows.CodeNotFound, err, "9.9.9")

	none, err := b.Capabilities(ctx, ci)
	require.NoError(t, err)
	require.Empty(t, none)
	flow := userFlow()
	flow.Name, flow.CapabilityID = "by_capability", "shop.user"
	p, err := b.gov.Submit(ctx, admin, flow)
	require.NoError(t, err)
	_, err = b.gov.Review(ctx, bob, p.ID, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: p.Digest})
	require.NoError(t, err)
	_, err = b.gov.Promote(ctx, bob, p.ID, governance.PromoteRequest{})
	require.NoError(t, err)
	list, err := b.Capabilities(ctx, ci)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "shop.user by_capability 1.0.0 read", list[0].ID+" "+list[0].Name+" "+list[0].Version+" "+string(list[0].Safety.SideEffects))
	require.JSONEq(t, string(flow.InputSchema), string(list[0].InputSchema))
}

func TestLessonNamesTheFirstFailure(t *testing.T) {
	b := newBench(t, nil)
	ok, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
	require.NoError(t, err)
	lesson, err := b.Lesson(ctx, ci, ok.ID)
	require.NoError(t, err)
	require.Equal(t, []any{true, "Workflow 'user_by_email' completed without error (2 steps).", 2, (*string)(nil), "workflow"},
		[]any{lesson.Succeeded, lesson.Summary, len(lesson.Evidence), lesson.FailingTool, lesson.Scope})

	b.tools.Register("get_user", func(context.Context, map[string]any) (any, error) { return nil, errors.New("no such user") }, true)
	bad, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
	require.NoError(t, err)
	lesson, err = b.Lesson(ctx, ci, bad.ID)
	require.NoError(t, err)
	require.Equal(t, []any{false, "Workflow 'user_by_email' failed at step 1 ('get_user'): FlowExecutionError.", "get_user", 1, "FlowExecutionError"},
		[]any{lesson.Succeeded, lesson.Summary, *lesson.FailingTool, *lesson.FailingStepIndex, *lesson.ErrorType})
	require.Contains(t, *lesson.ErrorMessage, "no such user")

	_, err = b.Lesson(ctx, ci, "absent")
	refused(t, flows.CodeNotFound, err, "absent")
	_, err = runs.LessonOf(&executor.RunResult{})
	refused(t, flows.CodeConflict, err, "no step records")
}

func TestProfile(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var wait time.Duration
	b := newBench(t, func(o *runs.Options) { o.Engine.Now = func() time.Time { return now } })
	b.tools.Register("get_user", func(context.Context, map[string]any) (any, error) {
		now = now.Add(wait)
		return map[string]any{"name": "x"}, nil
	}, true)
	for _, ms := range []int{10, 20, 30, 40, 100} {
		wait = time.Duration(ms) * time.Millisecond
		_, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
		require.NoError(t, err)
	}
	_, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input, DryRun: true})
	require.NoError(t, err)
	_, err = b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: map[string]any{}})
	require.NoError(t, err)

	p, err := b.Profile(ctx, ci, "user_by_email", "1.0.0")
	require.NoError(t, err)
	require.Equal(t, 6, p.Runs, "five that ran to the end and one with a bad input")
	require.Equal(t, 1, p.Failed)
	require.Len(t, p.Steps, 2, "the input check is no step")
	s := p.Steps[1]
	require.Equal(t, "get_user", s.ToolName)
	require.Equal(t, 5, s.Count)
	// By numpy.percentile and the sample standard deviation of 10, 20, 30, 40, 100.
	require.InDeltaSlice(t, []float64{30, 88, 97.6, 40, 35.35533905932738, 100}, []float64{s.P50, s.P95, s.P99, s.Mean, s.StdDev, s.Max}, 1e-9)
	require.True(t, s.Unsteady)
	require.False(t, p.Steps[0].Unsteady)

	_, err = b.Profile(ctx, ci, "absent", "")
	refused(t, flows.CodeNotFound, err, "absent")
}

// A list tool runs active flows as the run's caller; its calls are recorded with the run.
func TestListToolsRunFlows(t *testing.T) {
	b := newBench(t, nil)
	b.tools.RunFlows(b.RunFlow)
	var mapList *flows.Tool
	for _, tool := range local.Builtins() {
		if tool.Name == "map_list" {
			mapList = tool
		}
	}
	_, err := b.gov.ApplyTools(ctx, admin, []*flows.Tool{mapList})
	require.NoError(t, err)
	flow := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "users", Version: "0.1.0", Description: "Looks users up.",
		Steps: []flows.Step{{ToolName: "map_list", OutputAs: "found", InputMapping: flows.Mapping{
			{Target: "flow", Value: flows.Const("user_by_email")}, {Target: "items", Value: flows.Key("emails")}, {Target: "item_key", Value: flows.Const("email")}}}}}
	p, err := b.gov.Submit(ctx, admin, flow)
	require.NoError(t, err)
	for _, who := range []string{"person:bob", "person:ann"} {
		reviewer := bob
		reviewer.Principal = who
		_, err = b.gov.Review(ctx, reviewer, p.ID, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: p.Digest})
		require.NoError(t, err)
	}
	_, err = b.gov.Promote(ctx, bob, p.ID, governance.PromoteRequest{})
	require.NoError(t, err)
	run, err := b.Run(ctx, ci, runs.Request{Flow: "users", Input: map[string]any{"emails": []any{"a@x", "b@x"}}})
	require.NoError(t, err)
	require.Equal(t, executor.StatusSucceeded, run.State, "%+v", run.Result.ExecutionLog)
	items := run.Result.FinalOutput["found"].(map[string]any)["items"]
	require.Equal(t, []any{map[string]any{"name": "name of u-a@x"}, map[string]any{"name": "name of u-b@x"}}, items)
	require.EqualValues(t, 2, b.calls.Load())
	_, err = b.RunFlow(ctx, "user_by_email", nil)
	require.ErrorContains(t, err, "outside of a run")
}
