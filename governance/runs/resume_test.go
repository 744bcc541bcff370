package runs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
	"pave/governance/store"
	"pave/ingest"
)

// kill plays a killed process: from now on nothing is written any more.
func (b *bench) kill(t testing.TB) {
	t.Helper()
	require.NoError(t, b.db.Close())
}

// reopen is the next process over the same files.
func (b *bench) reopen(t testing.TB) {
	t.Helper()
	_ = b.Close() // what still ran finds the store closed
	db, err := store.Open(ctx, b.dir+"/state.db")
	require.NoError(t, err)
	*b.db = *db
	b.Service = runs.New(b.opts)
	_, err = b.Start(ctx, tenant)
	require.NoError(t, err)
}

// chain brings a flow of n steps into service, each of which adds one; safe says whether its tools may be called twice.
func (b *bench) chain(t testing.TB, n int, safe bool) (calls []*atomic.Int64) {
	t.Helper()
	flow := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "count", Version: "0.1.0", Description: "Count.",
		InputSchema: flows.RawSchema(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`), OnContextCollision: flows.CollisionOverwrite}
	var tools []*flows.Tool
	for i := range n {
		name := fmt.Sprintf("add%d", i)
		made := tool(name, `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`, `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
		if !safe {
			made.Safety.SideEffects, made.Safety.Idempotent, made.Safety.SafeToRetry, made.Safety.Cacheable = flows.EffectWrite, false, false, false
		}
		counter := new(atomic.Int64)
		b.tools.Register(name, func(_ context.Context, in map[string]any) (any, error) {
			counter.Add(1)
			return map[string]any{"n": in["n"].(int64) + 1}, nil
		}, true)
		calls, tools = append(calls, counter), append(tools, made)
		flow.Steps = append(flow.Steps, flows.Step{ToolName: name, InputMapping: flows.Mapping{{Target: "n", Value: flows.Key("n")}}})
	}
	_, err := b.gov.ApplyTools(ctx, admin, tools)
	require.NoError(t, err)
	b.activate(t, flow)
	return calls
}

// onCall calls fn in place of a tool's answer, once.
func (b *bench) onCall(name string, fn func()) {
	var once sync.Once
	b.tools.Register(name, func(_ context.Context, in map[string]any) (any, error) {
		once.Do(fn)
		return map[string]any{"n": in["n"].(int64) + 1}, nil
	}, true)
}

func (b *bench) only(t testing.TB) *runs.Run {
	t.Helper()
	page, err := b.List(ctx, ci, runs.Filter{Flow: "count"})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	run, err := b.Get(ctx, ci, page.Items[0].ID)
	require.NoError(t, err)
	return run
}

// Wherever the process is killed, the run goes on by itself and comes to the same end; what had been written down is
// not called again.
func TestKillBetweenAnyTwoSteps(t *testing.T) {
	const n = 4
	for at := range n {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			b := newBench(t, nil)
			calls := b.chain(t, n, true)
			b.onCall(fmt.Sprintf("add%d", at), func() { b.kill(t) })
			_, _ = b.Run(ctx, ci, runs.Request{Flow: "count", Input: map[string]any{"n": int64(1) << 60}})
			b.reopen(t)
			run := b.only(t)
			require.Equal(t, runs.StateInterrupted, run.State)
			resumed, err := b.Recover(ctx, tenant)
			require.NoError(t, err)
			require.Equal(t, 1, resumed)
			require.Eventually(t, func() bool { return b.only(t).State == executor.StatusSucceeded }, patience, 1e6)
			run = b.only(t)
			require.Equal(t, int64(1)<<60+n, run.Result.FinalOutput["n"], "exact beyond 2^53")
			require.Len(t, run.Result.ExecutionLog, n)
			for i := range at {
				require.EqualValues(t, 1, calls[i].Load(), "step %d", i)
			}
			b.nothingKept(t, run.ID)
			resumed, err = b.Recover(ctx, tenant)
			require.NoError(t, err)
			require.Zero(t, resumed)
		})
	}
}

// A tool that may have been called and must not be called twice keeps a run from going on by itself.
func TestUnsafeToolsAreNotCalledTwiceByThemselves(t *testing.T) {
	b := newBench(t, nil)
	calls := b.chain(t, 3, false)
	b.onCall("add1", func() { b.kill(t) })
	_, _ = b.Run(ctx, ci, runs.Request{Flow: "count", Input: map[string]any{"n": int64(1)}})
	b.reopen(t)
	resumed, err := b.Recover(ctx, tenant)
	require.NoError(t, err)
	require.Zero(t, resumed)
	run := b.only(t)
	require.Equal(t, runs.StateInterrupted, run.State)
	require.Contains(t, run.Problem.Message, "add1 may have been called")
	_, err = b.Resume(ctx, ci, run.ID, runs.ResumeRequest{})
	refused(t, flows.CodeConflict, err, "repeat_unsafe")
	run, err = b.Resume(ctx, ci, run.ID, runs.ResumeRequest{RepeatUnsafe: true, Wait: patience})
	require.NoError(t, err)
	require.Equal(t, executor.StatusSucceeded, run.State)
	require.EqualValues(t, 4, run.Result.FinalOutput["n"])
	require.EqualValues(t, 1, calls[0].Load())
}

// What a stop of the service ends goes on at its next start.
func TestStopAndStart(t *testing.T) {
	b := newBench(t, nil)
	b.chain(t, 3, true)
	entered := make(chan struct{})
	b.tools.Register("add1", func(ctx context.Context, in map[string]any) (any, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	}, true)
	run, err := b.Run(ctx, ci, runs.Request{Flow: "count", Input: map[string]any{"n": int64(1)}, Detach: true})
	require.NoError(t, err)
	require.Equal(t, runs.StateRunning, run.State)
	<-entered
	require.NoError(t, b.Close())
	b.onCall("add1", func() {})
	b.restart(t)
	require.Equal(t, runs.StateInterrupted, b.only(t).State)
	resumed, err := b.Recover(ctx, tenant)
	require.NoError(t, err)
	require.Equal(t, 1, resumed)
	require.Eventually(t, func() bool { return b.only(t).State == executor.StatusSucceeded }, patience, 1e6)
}

func TestCancelEndsARunThatGoesOn(t *testing.T) {
	b := newBench(t, nil)
	b.chain(t, 3, true)
	entered := make(chan struct{})
	b.tools.Register("add1", func(ctx context.Context, in map[string]any) (any, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	}, true)
	run, err := b.Run(ctx, ci, runs.Request{Flow: "count", Input: map[string]any{"n": int64(1)}, Detach: true})
	require.NoError(t, err)
	<-entered
	done, err := b.Cancel(ctx, ci, run.ID)
	require.NoError(t, err)
	require.Equal(t, executor.StatusCancelled, done.State)
	b.nothingKept(t, run.ID)
	_, err = b.Resume(ctx, ci, run.ID, runs.ResumeRequest{})
	refused(t, flows.CodeConflict, err, "no checkpoint")
	_, err = b.Cancel(ctx, ci, "none")
	refused(t, flows.CodeNotFound, err, "none")
}

// Where an installation keeps checkpoints, a failed run goes on from the step that failed.
func TestFailedRunIsResumedWhereCheckpointsAreKept(t *testing.T) {
	c := newClock()
	b := newBench(t, func(o *runs.Options) { c.use(o); o.KeepCheckpoints = patience })
	calls := b.chain(t, 3, true)
	b.tools.Register("add1", func(context.Context, map[string]any) (any, error) { return nil, errors.New("down") }, true)
	run, err := b.Run(ctx, ci, runs.Request{Flow: "count", Input: map[string]any{"n": int64(1)}})
	require.NoError(t, err)
	require.Equal(t, executor.StatusFailed, run.State)
	b.onCall("add1", func() {})
	done, err := b.Resume(ctx, ci, run.ID, runs.ResumeRequest{Wait: patience})
	require.NoError(t, err)
	require.Equal(t, executor.StatusSucceeded, done.State)
	require.EqualValues(t, 1, calls[0].Load())
	b.nothingKept(t, run.ID)

	b.tools.Register("add1", func(context.Context, map[string]any) (any, error) { return nil, errors.New("down") }, true)
	run, err = b.Run(ctx, ci, runs.Request{Flow: "count", Input: map[string]any{"n": int64(1)}})
	require.NoError(t, err)
	c.advance(patience)
	require.NoError(t, b.ExpireApprovals(ctx, tenant))
	b.nothingKept(t, run.ID)
}

// Another key cannot open what was sealed, and says so.
func TestCheckpointsNeedTheirKey(t *testing.T) {
	b := newBench(t, nil)
	b.chain(t, 2, true)
	b.onCall("add1", func() { b.kill(t) })
	_, _ = b.Run(ctx, ci, runs.Request{Flow: "count", Input: map[string]any{"n": int64(1)}})
	b.opts.Vault = nil
	b.reopen(t)
	resumed, err := b.Recover(ctx, tenant)
	require.NoError(t, err)
	require.Zero(t, resumed)
	require.Contains(t, b.only(t).Problem.Message, "cannot be read with the key")
}

func TestRunThatChangedMeanwhileDoesNotGoOn(t *testing.T) {
	b := newBench(t, nil)
	b.chain(t, 2, true)
	b.onCall("add1", func() { b.kill(t) })
	_, _ = b.Run(ctx, ci, runs.Request{Flow: "count", Input: map[string]any{"n": int64(1)}})
	b.reopen(t)
	changed := tool("add1", `{"type":"object","properties":{"n":{"type":"integer"},"m":{"type":"integer"}},"required":["n"]}`, `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	_, err := b.gov.ApplyTools(ctx, admin, []*flows.Tool{changed})
	require.NoError(t, err)
	_, err = b.Resume(ctx, ci, b.only(t).ID, runs.ResumeRequest{})
	refused(t, flows.CodeFlowStatus, err, "needs_review")
}

// A version that goes out of service while a run of it goes on refuses new runs; the one in flight finishes on the plan
// that it was admitted with.
func TestRunsInFlightFinishOnTheirPlan(t *testing.T) {
	for name, takeOut := range map[string]func(*bench) error{
		"tool drift": func(b *bench) error {
			changed := tool("add2", `{"type":"object","properties":{"m":{"type":"integer"}},"required":["m"]}`, `{"type":"object","properties":{"m":{"type":"integer"}},"required":["m"]}`)
			report, err := b.gov.ApplyTools(ctx, admin, []*flows.Tool{changed})
			require.Equal(t, []string{"count@1.0.0"}, report.NeedsReview)
			return err
		},
		"a decision": func(b *bench) error {
			_, err := b.gov.SetFlowStatus(ctx, bob, "count", "1.0.0", governance.StatusRequest{Status: flows.StatusNeedsReview, Reason: "looked odd"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.chain(t, 3, true)
			entered, release := make(chan struct{}), make(chan struct{})
			b.onCall("add1", func() { close(entered); <-release })
			run, err := b.Run(ctx, ci, runs.Request{Flow: "count", Input: map[string]any{"n": int64(1)}, Detach: true})
			require.NoError(t, err)
			<-entered
			require.NoError(t, takeOut(b))
			_, err = b.Run(ctx, ci, runs.Request{Flow: "count", Input: map[string]any{"n": int64(1)}})
			refused(t, flows.CodeFlowStatus, err, "needs_review")
			close(release)
			require.Eventually(t, func() bool { return b.only(t).State == executor.StatusSucceeded }, patience, 1e6)
			done, err := b.Get(ctx, ci, run.ID)
			require.NoError(t, err)
			require.EqualValues(t, 4, done.Result.FinalOutput["n"])
		})
	}
}

// One principal does not take the slots of the others.
func TestRunsOfOnePrincipalAreBounded(t *testing.T) {
	b := newBench(t, func(o *runs.Options) { o.MaxPerPrincipal = 2 })
	b.chain(t, 1, true)
	release, entered := make(chan struct{}), make(chan struct{}, 3)
	b.tools.Register("add0", func(_ context.Context, in map[string]any) (any, error) {
		entered <- struct{}{}
		<-release
		return map[string]any{"n": in["n"].(int64) + 1}, nil
	}, true)
	start := func(who governance.Actor) error {
		_, err := b.Run(ctx, who, runs.Request{Flow: "count", Input: map[string]any{"n": int64(1)}, Detach: true})
		return err
	}
	require.NoError(t, start(ci))
	require.NoError(t, start(ci))
	err := start(ci)
	refused(t, flows.CodeRateLimited, err, "2 runs of service:ci")
	after, ok := ingest.RetryAfter(err)
	require.True(t, ok)
	require.Equal(t, time.Second, after)
	other := ci
	other.Principal = "service:other"
	require.NoError(t, start(other))
	for range 3 {
		<-entered
	}
	close(release)
	require.Eventually(t, func() bool { return start(ci) == nil }, patience, 1e6, "what ended makes room")
}
