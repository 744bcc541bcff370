package runs_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/executor/bind/local"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
	"pave/governance/store"
)

const patience = 10 * time.Second

// clock is a clock that tests set.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time           { return time.Unix(0, c.at.Load()).UTC() }
func (c *clock) advance(by time.Duration) { c.at.Add(int64(by)) }
func (c *clock) use(o *runs.Options)      { o.Engine.Now = c.now }
func approveFlow(names ...string) *flows.Flow {
	f := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "pay_back", Version: "0.1.0", Description: "Pay back.",
		InputSchema: flows.RawSchema(`{"type":"object","properties":{"email":{"type":"string"},"amount":{"type":"integer"},"password":{"type":"string"}},"required":["email","amount"]}`)}
	password := flows.Key("password")
	optional := flows.MappingValue{Kind: flows.MapOptional, Inner: &password}
	for _, name := range names {
		step := flows.Step{ToolName: name, OutputAs: name}
		if name == "find_user" {
			step.InputMapping = flows.Mapping{{Target: "email", Value: flows.Key("email")}}
		} else {
			step.InputMapping = flows.Mapping{{Target: "user_id", Value: flows.Pointer("/find_user/user_id")}, {Target: "amount", Value: flows.Key("amount")},
				{Target: "password", Value: optional}}
		}
		f.Steps = append(f.Steps, step)
	}
	return f
}

// withRefunds brings the flow find_user, refund into service; a refund needs an approval.
func (b *bench) withRefunds(t testing.TB) *atomic.Int64 {
	t.Helper()
	refund := tool("refund", `{"type":"object","properties":{"user_id":{"type":"string"},"amount":{"type":"integer"},"password":{"type":"string"}},"required":["user_id","amount"]}`,
		`{"type":"object","properties":{"paid":{"type":"integer"},"to":{"type":"string"}},"required":["paid","to"]}`)
	refund.Safety.SideEffects, refund.Safety.Idempotent, refund.Safety.SafeToRetry = flows.EffectExternal, false, false
	refund.Safety.Cacheable = false
	refund.Safety.RequiresApproval, refund.Safety.ApprovalReason = true, "money leaves the house"
	calls := new(atomic.Int64)
	b.tools.Register("refund", func(_ context.Context, in map[string]any) (any, error) {
		calls.Add(1)
		return map[string]any{"paid": in["amount"], "to": in["user_id"]}, nil
	}, true)
	_, err := b.gov.ApplyTools(ctx, admin, []*flows.Tool{refund})
	require.NoError(t, err)
	b.activate(t, approveFlow("find_user", "refund"))
	return calls
}

var refundInput = map[string]any{"email": "ann@example.com", "amount": int64(12), "password": "hunter2-long"}

func (b *bench) waiting(t testing.TB) *runs.Run {
	t.Helper()
	run, err := b.Run(ctx, ci, runs.Request{Flow: "pay_back", Input: refundInput})
	require.NoError(t, err)
	require.Equal(t, executor.StatusAwaitingApproval, run.State)
	return run
}

// nothingKept checks that a run's checkpoint is gone.
func (b *bench) nothingKept(t testing.TB, id string) {
	t.Helper()
	require.NoError(t, b.db.View(ctx, func(r *store.Reader) error {
		_, err := r.Checkpoint(tenant, id)
		require.ErrorIs(t, err, store.ErrNotFound)
		return nil
	}))
}

func TestRunWaitsForApprovalAcrossARestart(t *testing.T) {
	b := newBench(t, nil)
	calls := b.withRefunds(t)
	run := b.waiting(t)
	require.Len(t, run.Result.ExecutionLog, 1, "the step before has run")
	b.restart(t)

	page, err := b.List(ctx, ci, runs.Filter{State: executor.StatusAwaitingApproval})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Len(t, page.Items[0].Approvals, 1)
	asked := page.Items[0].Approvals[0]
	require.Equal(t, []any{"1", "pending", "refund", flows.EffectExternal, "money leaves the house"}, []any{asked.Step, asked.Decision, asked.ToolName, asked.SideEffects, asked.Why})
	require.Equal(t, "u-ann@example.com", asked.Inputs["user_id"])
	require.Contains(t, asked.Inputs["password"], "redacted")
	require.Zero(t, calls.Load())
	for _, file := range []string{"state.db", "state.db-wal", "events.db", "events.db-wal"} {
		content, err := os.ReadFile(filepath.Join(b.dir, file))
		require.NoError(t, err)
		require.False(t, bytes.Contains(content, []byte("hunter2-long")), file)
	}

	kept, err := b.Get(ctx, ci, run.ID)
	require.NoError(t, err)
	done, err := b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: executor.Approve, Reason: "customer is right", IfRevision: kept.Revision, Wait: patience})
	require.NoError(t, err)
	require.Equal(t, executor.StatusSucceeded, done.State)
	require.Equal(t, map[string]any{"paid": int64(12), "to": "u-ann@example.com"}, done.Result.FinalOutput["refund"])
	require.Equal(t, "customer is right", *done.Result.ExecutionLog[1].Approval.Reason)
	require.Equal(t, run.Result.TraceID, done.Result.TraceID)
	require.EqualValues(t, 1, calls.Load())
	kept, err = b.Get(ctx, ci, run.ID)
	require.NoError(t, err)
	require.Equal(t, []any{"approve", "person:bob"}, []any{kept.Approvals[0].Decision, kept.Approvals[0].DecidedBy})
	b.nothingKept(t, run.ID)

	events, err := b.gov.Audit(ctx, admin, 0, 500)
	require.NoError(t, err)
	last := events[len(events)-1]
	require.Equal(t, []string{"person:bob", "run.approve", "run/" + run.ID}, []string{last.Actor, last.Action, last.Object})
}

func TestDenialEndsTheRun(t *testing.T) {
	b := newBench(t, nil)
	calls := b.withRefunds(t)
	run := b.waiting(t)
	done, err := b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Step: "1", Decision: executor.Deny, Reason: "too much", Wait: patience})
	require.NoError(t, err)
	require.Equal(t, runs.StateDenied, done.State)
	rec := done.Result.ExecutionLog[1]
	require.Equal(t, "CW-E029", *rec.ErrorCode)
	require.Contains(t, *rec.ErrorMessage, "too much")
	require.Zero(t, calls.Load())
	b.nothingKept(t, run.ID)
}

// What people deny, or leave undecided, is an outcome of its own: the reliability report does not count it against the flow, no
// webhook hears of a failure, the policy does not take the version out of service, and nobody resumes it.
func TestDeniedRunsAreNoFailuresOfTheFlow(t *testing.T) {
	c := newClock()
	b := newBench(t, func(o *runs.Options) {
		c.use(o)
		o.ApprovalExpiry, o.KeepCheckpoints = time.Hour, time.Hour
	})
	calls := b.withRefunds(t)
	c.advance(time.Since(c.now()) + time.Minute) // governance has the clock of the machine, and promoted the flow
	url, events := "https://hooks.example.com/in", []string{governance.EventRunFailed}
	hook, _, err := b.gov.CreateWebhook(ctx, admin, governance.WebhookRequest{URL: &url, Events: &events})
	require.NoError(t, err)
	policy, revision, err := b.gov.Policy(ctx, admin)
	require.NoError(t, err)
	policy.MinRuns, policy.MaxFailureRate = 2, 0.4
	require.NoError(t, b.gov.SetPolicy(ctx, admin, policy, revision))
	reported := func(want ...any) {
		t.Helper()
		require.EventuallyWithT(t, func(t *assert.CollectT) { // a run is archived after its end was kept
			report, err := b.gov.Report(ctx, admin, governance.ReportReliability, time.Time{}, time.Time{})
			require.NoError(t, err)
			require.Equal(t, []string{"day", "flow", "version", "runs", "succeeded", "failed", "handed_back", "denied", "failure_rate", "mean_duration_ms"}, report.Columns)
			require.Equal(t, want, report.Rows[0][3:9])
		}, patience, time.Millisecond)
	}

	done, err := b.Decide(ctx, bob, b.waiting(t).ID, runs.DecisionRequest{Decision: executor.Approve, Wait: patience})
	require.NoError(t, err)
	require.Equal(t, executor.StatusSucceeded, done.State)
	denied := b.waiting(t)
	_, err = b.Decide(ctx, bob, denied.ID, runs.DecisionRequest{Decision: executor.Deny, Wait: patience})
	require.NoError(t, err)
	expired := b.waiting(t)
	c.advance(time.Hour)
	require.NoError(t, b.ExpireApprovals(ctx, tenant))
	require.Eventually(t, func() bool {
		kept, err := b.Get(ctx, ci, expired.ID)
		require.NoError(t, err)
		return kept.State == runs.StateDenied
	}, patience, time.Millisecond)
	require.EqualValues(t, 1, calls.Load())
	reported(int64(3), int64(1), int64(0), int64(0), int64(2), 0.0)
	page, err := b.List(ctx, ci, runs.Filter{State: runs.StateDenied})
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
	savings, err := b.gov.Savings(ctx, admin, time.Time{}, time.Time{})
	require.NoError(t, err)
	require.Equal(t, []int64{3, 1, 0, 2}, []int64{savings.Total.Runs, savings.Total.Succeeded, savings.Total.Failed, savings.Total.Denied})
	taken, err := b.gov.Watch(ctx, tenant)
	require.NoError(t, err)
	require.Empty(t, taken)
	log, err := b.gov.Deliveries(ctx, admin, hook.ID, 100, "")
	require.NoError(t, err)
	require.Empty(t, log.Items)
	_, err = b.Resume(ctx, ci, denied.ID, runs.ResumeRequest{})
	refused(t, flows.CodeConflict, err, "is denied; only runs that were interrupted, failed or cancelled are resumed")

	b.tools.Register("find_user", func(context.Context, map[string]any) (any, error) { return nil, errors.New("broken") }, true)
	failed, err := b.Run(ctx, ci, runs.Request{Flow: "pay_back", Input: refundInput})
	require.NoError(t, err)
	require.Equal(t, executor.StatusFailed, failed.State)
	reported(int64(4), int64(1), int64(1), int64(0), int64(2), 0.5)
	taken, err = b.gov.Watch(ctx, tenant)
	require.NoError(t, err)
	require.Equal(t, []string{"pay_back@1.0.0"}, taken, "one of the two runs that nobody stopped failed")
}

func TestWhoMayDecide(t *testing.T) {
	b := newBench(t, nil)
	b.withRefunds(t)
	run := b.waiting(t)
	approve := runs.DecisionRequest{Decision: executor.Approve, Wait: patience}
	_, err := b.Decide(ctx, ci, run.ID, approve)
	refused(t, flows.CodeForbidden, err, "review")
	_, err = b.Decide(ctx, governance.Actor{Principal: ci.Principal, Scopes: governance.AllScopes}, run.ID, approve)
	refused(t, flows.CodeFourEyes, err, "started this run")
	stale := approve
	stale.IfRevision = run.Revision + 1
	_, err = b.Decide(ctx, bob, run.ID, stale)
	refused(t, flows.CodeStale, err, "revision")
	_, err = b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Step: "7", Decision: executor.Approve})
	refused(t, flows.CodeInvalid, err, "pending: 1")
	_, err = b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: "perhaps"})
	refused(t, flows.CodeInvalid, err, "approve or deny")
	_, err = b.Decide(ctx, bob, "none", approve)
	refused(t, flows.CodeNotFound, err, "none")
	_, err = b.Decide(ctx, bob, run.ID, approve)
	require.NoError(t, err)
	_, err = b.Decide(ctx, bob, run.ID, approve)
	refused(t, flows.CodeConflict, err, "waits for no approval")
}

func TestUndecidedApprovalsExpire(t *testing.T) {
	c := newClock()
	b := newBench(t, func(o *runs.Options) { c.use(o); o.ApprovalExpiry = time.Hour })
	calls := b.withRefunds(t)
	run := b.waiting(t)
	c.advance(time.Hour - time.Second)
	require.NoError(t, b.ExpireApprovals(ctx, tenant))
	kept, err := b.Get(ctx, ci, run.ID)
	require.NoError(t, err)
	require.Equal(t, executor.StatusAwaitingApproval, kept.State)
	c.advance(time.Second)
	_, err = b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: executor.Approve})
	refused(t, flows.CodeConflict, err, "has passed")
	b.restart(t) // Start looks for them too
	require.Eventually(t, func() bool {
		kept, err = b.Get(ctx, ci, run.ID)
		require.NoError(t, err)
		return kept.State == runs.StateDenied
	}, patience, time.Millisecond)
	require.Equal(t, "CW-E029", *kept.Result.ExecutionLog[1].ErrorCode)
	require.Contains(t, *kept.Result.ExecutionLog[1].ErrorMessage, "nobody decided until 2026-11-01T10:00:00Z")
	require.Equal(t, "system:pave", kept.Approvals[0].DecidedBy)
	require.Zero(t, calls.Load())
}

// Whoever decides without waiting gets the run as it is, also while what it needs to go on is taken.
func TestDecisionDoesNotWaitForAFreeSlot(t *testing.T) {
	b := newBench(t, func(o *runs.Options) { o.MaxConcurrent = 1 })
	calls := b.withRefunds(t)
	run := b.waiting(t)
	entered, release := make(chan struct{}), make(chan struct{})
	b.tools.Register("get_user", func(context.Context, map[string]any) (any, error) {
		entered <- struct{}{}
		<-release
		return map[string]any{"name": "n"}, nil
	}, true)
	var wg sync.WaitGroup
	var other *runs.Run
	var otherErr error
	wg.Go(func() { other, otherErr = b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input}) })
	<-entered
	decided, err := b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: executor.Approve})
	close(release)
	wg.Wait()
	require.NoError(t, err)
	require.Equal(t, runs.StateRunning, decided.State)
	require.Equal(t, "person:bob", decided.Approvals[0].DecidedBy)
	require.NoError(t, otherErr)
	require.Equal(t, executor.StatusSucceeded, other.State)
	require.Eventually(t, func() bool {
		done, err := b.Get(ctx, ci, run.ID)
		return err == nil && done.State == executor.StatusSucceeded
	}, patience, 5*time.Millisecond)
	require.EqualValues(t, 1, calls.Load())
}

func TestWaitingRunIsCancelled(t *testing.T) {
	b := newBench(t, nil)
	calls := b.withRefunds(t)
	run := b.waiting(t)
	done, err := b.Cancel(ctx, ci, run.ID)
	require.NoError(t, err)
	require.Equal(t, executor.StatusCancelled, done.State)
	require.Equal(t, "CW-E012", done.Problem.Code)
	kept, err := b.Get(ctx, ci, run.ID)
	require.NoError(t, err)
	require.Equal(t, "cancelled by service:ci before it went on", kept.Continuation.Reason, "not what it waited for before")
	require.Equal(t, []string{"refund"}, kept.Continuation.Remaining)
	b.nothingKept(t, run.ID)
	_, err = b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: executor.Approve})
	refused(t, flows.CodeConflict, err, "cancelled")
	_, err = b.Cancel(ctx, ci, run.ID)
	refused(t, flows.CodeConflict, err, "nothing to cancel")
	require.Zero(t, calls.Load())
}

// A flow that was taken out of service meanwhile does not go on.
func TestApprovedRunOfADisabledFlowFails(t *testing.T) {
	b := newBench(t, nil)
	calls := b.withRefunds(t)
	run := b.waiting(t)
	_, err := b.gov.SetFlowStatus(ctx, bob, "pay_back", "1.0.0", governance.StatusRequest{Status: flows.StatusDisabled})
	require.NoError(t, err)
	done, err := b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: executor.Approve, Wait: patience})
	require.NoError(t, err)
	require.Equal(t, executor.StatusFailed, done.State)
	require.Equal(t, "flow_not_active", done.Problem.Code)
	require.Zero(t, calls.Load())
	b.nothingKept(t, run.ID)
}

// Dynamic params stay in memory while a run waits; after a restart they are asked for, and an approval holds for the
// arguments that were approved only.
func TestDynamicParamsOfAWaitingRun(t *testing.T) {
	b := newBench(t, nil)
	calls := b.withRefunds(t)
	request := runs.Request{Flow: "pay_back", Input: map[string]any{"email": "ann@example.com", "amount": int64(12)},
		DynamicParams: map[string]any{"password": "param-secret-1"}}
	run, err := b.Run(ctx, ci, request)
	require.NoError(t, err)
	require.Equal(t, executor.Redacted, run.Approvals[0].Inputs["password"])
	done, err := b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: executor.Approve, Wait: patience})
	require.NoError(t, err)
	require.Equal(t, executor.StatusSucceeded, done.State)
	require.Equal(t, executor.Redacted, done.Result.FinalOutput["password"], "whoever decides is not the caller")
	require.Equal(t, executor.Redacted, done.Result.ExecutionLog[1].Inputs["password"])

	run, err = b.Run(ctx, ci, request)
	require.NoError(t, err)
	b.restart(t)
	done, err = b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: executor.Approve, Wait: patience})
	require.NoError(t, err)
	require.Equal(t, runs.StateInterrupted, done.State)
	require.Contains(t, done.Problem.Message, "resume run "+run.ID+" with password")
	_, err = b.Resume(ctx, ci, run.ID, runs.ResumeRequest{})
	refused(t, flows.CodeInvalid, err, "password")
	done, err = b.Resume(ctx, ci, run.ID, runs.ResumeRequest{DynamicParams: map[string]any{"password": "another"}, Wait: patience})
	require.NoError(t, err)
	require.Equal(t, executor.StatusAwaitingApproval, done.State, "these arguments were not approved")
	done, err = b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: executor.Approve, Wait: patience})
	require.NoError(t, err)
	require.Equal(t, executor.StatusSucceeded, done.State)

	// The caller gets the true final output, and nothing else with the param in it.
	whole, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input, DynamicParams: map[string]any{"extra": "param-secret-1"}})
	require.NoError(t, err)
	require.Equal(t, executor.StatusSucceeded, whole.State)
	require.EqualValues(t, 2, calls.Load())
	for _, file := range []string{"state.db", "state.db-wal", "events.db", "events.db-wal"} {
		content, err := os.ReadFile(filepath.Join(b.dir, file))
		require.NoError(t, err)
		require.False(t, bytes.Contains(content, []byte("param-secret-1")), file)
	}
}

// Of two calls side by side each needs its decision; a denial ends the run at its step.
func TestEveryCallOfALevelIsDecided(t *testing.T) {
	b := newBench(t, nil)
	calls := b.withRefunds(t)
	flow := approveFlow("refund")
	flow.Name, flow.Type = "pay_twice", flows.TypeDAGFlow
	step := flow.Steps[0]
	step.InputMapping = flows.Mapping{{Target: "user_id", Value: flows.Key("email")}, {Target: "amount", Value: flows.Key("amount")}}
	flow.Steps = nil
	for _, id := range []string{"a", "b"} {
		step.StepID, step.OutputAs = id, id
		flow.Steps = append(flow.Steps, step)
	}
	b.activate(t, flow)
	for _, last := range []string{executor.Approve, executor.Deny} {
		calls.Store(0)
		run, err := b.Run(ctx, ci, runs.Request{Flow: "pay_twice", Input: refundInput, IdempotencyKey: last})
		require.NoError(t, err)
		require.Len(t, run.Approvals, 2)
		again, err := b.Run(ctx, ci, runs.Request{Flow: "pay_twice", Input: refundInput, IdempotencyKey: last})
		require.NoError(t, err)
		require.Equal(t, []any{run.ID, 2, true}, []any{again.ID, len(again.Approvals), again.Replayed})
		_, err = b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: executor.Approve})
		refused(t, flows.CodeInvalid, err, "pending: 0, 1")
		half, err := b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Step: "0", Decision: executor.Approve, Wait: patience})
		require.NoError(t, err)
		require.Equal(t, executor.StatusAwaitingApproval, half.State)
		require.Greater(t, half.Revision, run.Revision)
		done, err := b.Decide(ctx, carol, run.ID, runs.DecisionRequest{Step: "1", Decision: last, Wait: patience})
		require.NoError(t, err)
		if last == executor.Approve {
			require.Equal(t, executor.StatusSucceeded, done.State)
			require.EqualValues(t, 2, calls.Load())
		} else {
			require.Equal(t, runs.StateDenied, done.State)
			require.EqualValues(t, 1, calls.Load(), "the approved one stands before it and has run")
		}
	}
}

// A run goes on with the version of a called flow that it began with, although another is active by now.
func TestWaitingRunKeepsTheFlowsItCalls(t *testing.T) {
	b := newBench(t, nil)
	b.withRefunds(t)
	outer := greetFlow("user_by_email")
	outer.Name, outer.Returns = "greet_and_pay", nil
	outer.InputSchema = flows.RawSchema(`{"type":"object","properties":{"mail":{"type":"string"},"amount":{"type":"integer"}},"required":["mail","amount"]}`)
	outer.Steps = append([]flows.Step{{ToolName: "refund", OutputAs: "paid", InputMapping: flows.Mapping{{Target: "user_id", Value: flows.Key("mail")}, {Target: "amount", Value: flows.Key("amount")}}}},
		outer.Steps...)
	b.activate(t, outer)
	run, err := b.Run(ctx, ci, runs.Request{Flow: "greet_and_pay", Input: map[string]any{"mail": "ann@example.com", "amount": int64(1)}})
	require.NoError(t, err)
	require.Equal(t, executor.StatusAwaitingApproval, run.State)
	next := userFlow()
	next.Steps[1].InputMapping[0].Value = flows.Key("email")
	require.Equal(t, "1.1.0", b.activate(t, next).Flow.Version)
	done, err := b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: executor.Approve, Wait: patience})
	require.NoError(t, err)
	require.Equal(t, executor.StatusSucceeded, done.State, "%+v", done.Problem)
	require.Equal(t, "1.0.0", done.Result.ExecutionLog[1].SubResult.FlowVersion)
}

// A flow that needs an approval waits for it in a step with for_each, each element by itself; a list tool, which has no
// record to go on from, refuses and names the other way.
func TestApprovalsOfElements(t *testing.T) {
	b := newBench(t, nil)
	b.tools.RunFlows(b.RunFlow)
	calls := b.withRefunds(t)
	all := local.Builtins()
	_, err := b.gov.ApplyTools(ctx, admin, all[slices.IndexFunc(all, func(t *flows.Tool) bool { return t.Name == "map_list" }):][:1])
	require.NoError(t, err)
	people := flows.RawSchema(`{"type":"object","properties":{"people":{"type":"array","items":{"type":"object","properties":{"email":{"type":"string"},"amount":{"type":"integer"}},"required":["email","amount"]}}},"required":["people"]}`)
	listed := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "pay_list", Version: "0.1.0", Description: "Pays many.", InputSchema: people,
		Steps: []flows.Step{{ToolName: "map_list", OutputAs: "paid", InputMapping: flows.Mapping{{Target: "flow", Value: flows.Const("pay_one")}, {Target: "items", Value: flows.Key("people")}}}}}
	one := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "pay_one", Version: "0.1.0", Description: "Pays one.",
		InputSchema: flows.RawSchema(`{"type":"object","properties":{"item":{"type":"object","properties":{"email":{"type":"string"},"amount":{"type":"integer"}},"required":["email","amount"]}},"required":["item"]}`),
		Steps:       []flows.Step{{ToolName: "refund", OutputAs: "paid", InputMapping: flows.Mapping{{Target: "user_id", Value: flows.Pointer("/item/email")}, {Target: "amount", Value: flows.Pointer("/item/amount")}}}}}
	elements := flows.Pointer("/people")
	each := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "pay_each", Version: "0.1.0", Description: "Pays many.", InputSchema: people,
		Steps: []flows.Step{{FlowName: "pay_one", ForEach: &elements, As: "person", OutputAs: "paid", InputMapping: flows.Mapping{{Target: "item", Value: flows.Key("person")}}}}}
	for _, f := range []*flows.Flow{one, listed, each} {
		b.activate(t, f)
	}
	input := map[string]any{"people": []any{map[string]any{"email": "a@x", "amount": int64(1)}, map[string]any{"email": "b@x", "amount": int64(2)}}}
	run, err := b.Run(ctx, ci, runs.Request{Flow: "pay_list", Input: input})
	require.NoError(t, err)
	require.Equal(t, executor.StatusFailed, run.State, "nobody was asked and nobody denied it")
	require.Contains(t, *run.Result.ExecutionLog[0].ErrorMessage, "for_each")
	require.Zero(t, calls.Load())

	run, err = b.Run(ctx, ci, runs.Request{Flow: "pay_each", Input: input})
	require.NoError(t, err)
	for _, step := range []string{"0:0/0", "0:1/0"} {
		require.Equal(t, executor.StatusAwaitingApproval, run.State, "%+v", run.Result.ExecutionLog)
		require.Zero(t, calls.Load())
		run, err = b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Step: step, Decision: executor.Approve, Wait: patience})
		require.NoError(t, err)
	}
	require.Equal(t, executor.StatusSucceeded, run.State)
	require.EqualValues(t, 2, calls.Load())
}
