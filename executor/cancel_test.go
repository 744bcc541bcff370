package executor_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
)

func TestCancelledAtABoundary(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(context.Background())
	b.tool("t", "", "", func(context.Context, map[string]any) (any, error) { return map[string]any{"x": 1}, nil })
	plan := b.plan("steps:\n\t- {tool_name: t}\n\t- {tool_name: t}\n")
	profile := executor.DefaultCostProfile
	b.opts.CostProfile = &profile
	r := executor.New(b.opts).Run(ctx, plan, executor.RunInput{OnEvent: func(e executor.Event) {
		if e.Kind == executor.EventStepEnd {
			cancel()
		}
	}})
	assert.Equal(t, executor.StatusCancelled, r.Status)
	assert.False(t, r.Success)
	assert.Nil(t, r.FinalOutput)
	require.Len(t, r.ExecutionLog, 2)
	assert.True(t, r.ExecutionLog[0].Success)
	assert.Equal(t, "CW-E012 Flow 'f' was cancelled at step 1: the caller cancelled it.", code(r.ExecutionLog[1]))
	assert.Equal(t, 1, r.CostReport.StepsExecuted, "the step that never started does not count")
}

func TestCancelledInsideACall(t *testing.T) {
	for _, prompt := range []bool{true, false} {
		b := newBench(t)
		ctx, cancel := context.WithCancel(context.Background())
		b.register("t", "", "", func(ctx context.Context, _ map[string]any) (any, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}, prompt)
		plan := b.plan("steps:\n\t- {tool_name: t, on_error: skip, retry: {max_retries: 5, backoff_seconds: 0}}\n\t- {tool_name: t}\n")
		r := executor.New(b.opts).Run(ctx, plan, executor.RunInput{})
		assert.Equal(t, executor.StatusCancelled, r.Status)
		require.Len(t, r.ExecutionLog, 1, "neither retry nor on_error applies to a run that has ended")
		assert.Equal(t, "CW-E012", cw(r.ExecutionLog[0]))
	}
}

func TestCancelledInABackoff(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(context.Background())
	b.opts.Sleep = func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() }
	b.tool("t", "", "", fails(errors.New("no")))
	r := executor.New(b.opts).Run(ctx, b.plan("steps:\n\t- {tool_name: t, retry: {max_retries: 5}}\n"), executor.RunInput{})
	assert.Equal(t, executor.StatusCancelled, r.Status)
	assert.Equal(t, []string{"no"}, r.ExecutionLog[0].RetryErrors)
}

func TestDeadlines(t *testing.T) {
	waits := func(ctx context.Context, _ map[string]any) (any, error) { <-ctx.Done(); return nil, ctx.Err() }
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.opts.Limits.MaxRunTime = time.Minute
		b.register("t", "", "", waits, true)
		plan := b.plan("steps:\n\t- {tool_name: t}\n")
		r := executor.New(b.opts).Run(context.Background(), plan, executor.RunInput{})
		assert.Equal(t, executor.StatusCancelled, r.Status)
		assert.Contains(t, code(r.ExecutionLog[0]), "the run's time limit has passed")

		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r = executor.New(b.opts).Run(ctx, plan, executor.RunInput{})
		assert.Contains(t, code(r.ExecutionLog[0]), "the caller's deadline has passed")
	})
}

// TestAbandonedCall: a tool that is deaf to its deadline holds up nobody, what it returns late is never applied, and
// it is counted while it runs.
func TestAbandonedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		seconds := 0.25
		release := make(chan struct{})
		var received map[string]any
		b.register("deaf", "", "", func(_ context.Context, in map[string]any) (any, error) {
			received = in
			<-release
			in["a"] = "changed late"
			return map[string]any{"late": true}, nil
		}, false).TimeoutSeconds = &seconds
		b.tool("next", "", "", returns(map[string]any{"ok": true}))
		engine := executor.New(b.opts)
		started := time.Now()
		r := engine.Run(context.Background(), b.plan("steps:\n\t- {tool_name: deaf, on_error: skip}\n\t- {tool_name: next}\n"), executor.RunInput{Input: map[string]any{"a": "as given"}})
		assert.Equal(t, 250*time.Millisecond, time.Since(started))
		running, total := engine.AbandonedCalls()
		assert.Equal(t, []int64{1, 1}, []int64{running, total})
		close(release)
		synctest.Wait()
		running, total = engine.AbandonedCalls()
		assert.Equal(t, []int64{0, 1}, []int64{running, total})

		require.True(t, r.Success)
		assert.Equal(t, "CW-E008 Tool 'deaf' exceeded timeout of 0.25s.", code(r.ExecutionLog[0]))
		assert.Equal(t, map[string]any{"a": "as given", "ok": true}, r.FinalOutput)
		assert.Equal(t, "changed late", received["a"])
		assert.Equal(t, map[string]any{"a": "as given"}, r.ExecutionLog[0].Inputs)
	})
}

func TestTooManyAbandonedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.opts.Limits.MaxAbandoned = 2
		seconds := 0.001
		var calls atomic.Int64
		release := make(chan struct{})
		b.register("deaf", "", "", func(context.Context, map[string]any) (any, error) {
			calls.Add(1)
			<-release
			return nil, nil
		}, false).TimeoutSeconds = &seconds
		r := executor.New(b.opts).Run(context.Background(), b.plan("steps:\n\t- {tool_name: deaf, retry: {max_retries: 3, backoff_seconds: 0}}\n"), executor.RunInput{})
		close(release)
		synctest.Wait()
		assert.EqualValues(t, 2, calls.Load())
		assert.Contains(t, code(r.ExecutionLog[0]), "too_many_abandoned")
	})
}

func TestPromptToolThatAnswersLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		seconds := 0.1
		b.register("late", "", "", func(context.Context, map[string]any) (any, error) {
			time.Sleep(time.Second)
			return map[string]any{"late": true}, nil
		}, true).TimeoutSeconds = &seconds
		r := executor.New(b.opts).Run(context.Background(), b.plan("steps:\n\t- {tool_name: late}\n"), executor.RunInput{})
		assert.Equal(t, "CW-E008", cw(r.ExecutionLog[0]), "an answer after the deadline is not applied")
	})
}
