package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/executor"
	"pave/flows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tool(effects flows.SideEffects, seconds float64) *flows.Tool {
	safety := flows.DefaultSafety()
	safety.SideEffects = effects
	t := &flows.Tool{Name: "score", Safety: &safety, Binding: &flows.Binding{Kind: flows.BindWorker, Pool: "crm"}}
	if seconds > 0 {
		t.TimeoutSeconds = &seconds
	}
	return t
}

type result struct {
	value any
	err   error
}

// start invokes in the background, under the tool's timeout as the engine does.
func start(p *Pools, t *flows.Tool, info executor.CallInfo) <-chan result {
	out := make(chan result, 1)
	go func() {
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if t.TimeoutSeconds != nil {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(*t.TimeoutSeconds*float64(time.Second)))
		}
		defer cancel()
		v, err := p.Invoke(ctx, t, map[string]any{"n": int64(1)}, info)
		out <- result{v, err}
	}()
	return out
}

func take(t *testing.T, p *Pools, worker string, tools ...string) *Call {
	t.Helper()
	call, err := p.Poll(t.Context(), Poll{Pool: "crm", Worker: worker, Owner: "service:" + worker, Tools: tools, Wait: time.Second})
	require.NoError(t, err)
	return call
}

func toolError(t *testing.T, err error, code string) *executor.ToolError {
	t.Helper()
	var te *executor.ToolError
	require.ErrorAs(t, err, &te)
	require.Equal(t, code, te.Code, te.Message)
	return te
}

func TestACallGoesToAWorkerAndItsAnswerComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		out := start(p, tool(flows.EffectRead, 10), executor.CallInfo{RunID: "r1", Path: "2", Attempt: 1, TraceID: "0af7651916cd43dd8448eb211c80319c"})
		call := take(t, p, "a")
		require.NotNil(t, call)
		assert.Equal(t, "score", call.Tool)
		assert.Equal(t, map[string]any{"n": int64(1)}, call.Input)
		assert.Equal(t, "r1-2", call.IdempotencyKey)
		assert.Regexp(t, "^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$", call.Traceparent)
		assert.Equal(t, "pave=r1", call.Tracestate)
		require.NoError(t, p.Complete(call.ID, "service:a", map[string]any{"score": int64(7)}))
		got := <-out
		require.NoError(t, got.err)
		assert.Equal(t, map[string]any{"score": int64(7)}, got.value)
		assert.Equal(t, flows.CodeConflict, flows.CodeOf(p.Complete(call.ID, "service:a", nil)), "the second answer is refused")
	})
}

func TestAnAbsentWorkerFailsTheCallAtItsTimeoutAndNamesThePool(t *testing.T) {
	for _, seconds := range []float64{3, 0} {
		synctest.Test(t, func(t *testing.T) {
			p := New(Options{Patience: 3 * time.Second})
			began := time.Now()
			got := <-start(p, tool(flows.EffectRead, seconds), executor.CallInfo{})
			te := toolError(t, got.err, "no_worker")
			assert.Contains(t, te.Message, "pool 'crm' is empty")
			assert.Contains(t, te.Message, "no worker has ever polled it")
			assert.Equal(t, executor.ClassTimeout, te.Class)
			assert.True(t, te.NotSent)
			assert.InDelta(t, 3, time.Since(began).Seconds(), 0.1)
			assert.Zero(t, p.Stats()[0].Queued)
		})
	}
}

func TestADeadWorkerLosesItsLease(t *testing.T) {
	for _, c := range []struct {
		effects flows.SideEffects
		again   bool
	}{{flows.EffectRead, true}, {flows.EffectWrite, false}} {
		synctest.Test(t, func(t *testing.T) {
			p := New(Options{Lease: 5 * time.Second})
			out := start(p, tool(c.effects, 60), executor.CallInfo{RunID: "r", Path: "0", Attempt: 1})
			first := take(t, p, "dies")
			time.Sleep(6 * time.Second)
			second := take(t, p, "lives")
			if !c.again {
				assert.Nil(t, second, "a call that may have happened is not given out again")
				te := toolError(t, (<-out).err, "worker_lost")
				assert.True(t, te.Final)
				assert.Contains(t, te.Message, "'dies'")
				return
			}
			require.NotNil(t, second)
			assert.Equal(t, 2, second.Delivery)
			assert.Equal(t, first.IdempotencyKey, second.IdempotencyKey)
			assert.Equal(t, flows.CodeConflict, flows.CodeOf(p.Complete(first.ID, "service:dies", "late")))
			require.NoError(t, p.Complete(second.ID, "service:lives", "right"))
			assert.Equal(t, "right", (<-out).value)
		})
	}
}

func TestADeclaredIdempotentWriteIsGivenOutAgain(t *testing.T) {
	tools, err := flows.ParseTools([]byte("kind: Tool\nname: score\nsafety: {side_effects: write, idempotent: true}\nbinding: {kind: worker, pool: crm}\n---\n" +
		"kind: Tool\nname: silent\nsafety: {side_effects: write}\nbinding: {kind: worker, pool: crm}\n"))
	require.NoError(t, err)
	assert.True(t, tools[0].Repeatable())
	assert.False(t, tools[1].Repeatable(), "a contract that does not speak of it")
	raw, err := tools[0].MarshalJSON()
	require.NoError(t, err)
	var again flows.Tool
	require.NoError(t, again.UnmarshalJSON(raw))
	assert.True(t, again.Repeatable(), "it survives being stored: %s", raw)
}

func TestHeartbeatsKeepALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Lease: 5 * time.Second})
		out := start(p, tool(flows.EffectWrite, 60), executor.CallInfo{})
		call := take(t, p, "a")
		for range 5 {
			time.Sleep(4 * time.Second)
			until, cancelled, err := p.Heartbeat(call.ID, "service:a")
			require.NoError(t, err)
			assert.False(t, cancelled)
			assert.Equal(t, 5*time.Second, time.Until(until))
		}
		_, _, err := p.Heartbeat(call.ID, "service:b")
		assert.Equal(t, flows.CodeForbidden, flows.CodeOf(err))
		require.NoError(t, p.Complete(call.ID, "service:a", nil))
		require.NoError(t, (<-out).err)
	})
}

func TestAWorkerThatIsTooLateIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		out := start(p, tool(flows.EffectWrite, 2), executor.CallInfo{})
		call := take(t, p, "slow")
		te := toolError(t, (<-out).err, "worker_timeout")
		assert.True(t, te.Final, "it may have happened")
		assert.Contains(t, te.Message, "'slow'")
		_, cancelled, err := p.Heartbeat(call.ID, "service:slow")
		require.NoError(t, err)
		assert.True(t, cancelled)
		assert.Equal(t, flows.CodeConflict, flows.CodeOf(p.Complete(call.ID, "service:slow", "late")))
		assert.Zero(t, p.Stats()[0].Leased)
	})
}

func TestACancelledRunTakesItsCallAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan error, 1)
		go func() {
			_, err := p.Invoke(ctx, tool(flows.EffectRead, 0), nil, executor.CallInfo{})
			out <- err
		}()
		synctest.Wait()
		cancel()
		assert.True(t, errors.Is(<-out, context.Canceled))
		assert.Nil(t, take(t, p, "a"), "nothing is left to take")
	})
}

func TestAWorkerReportsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		out := start(p, tool(flows.EffectRead, 9), executor.CallInfo{})
		call := take(t, p, "a")
		require.NoError(t, p.Fail(call.ID, "service:a", executor.ToolError{Class: executor.ClassRateLimit, Message: "slow down", Type: "QuotaError"}))
		te := toolError(t, (<-out).err, "tool_error")
		assert.Equal(t, executor.ToolError{Class: executor.ClassRateLimit, Code: "tool_error", Message: "slow down", Type: "QuotaError"}, *te)
	})
}

// Workers that wait are served in turn, also when there are many calls, and each call goes to one of them.
func TestWorkersAreServedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		var mu sync.Mutex
		served, seen := map[string]int{}, map[string]int{}
		ctx, stop := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			workers.Go(func() {
				for {
					call, err := p.Poll(ctx, Poll{Pool: "crm", Worker: name, Owner: "o", Wait: time.Minute})
					if err != nil || ctx.Err() != nil {
						return
					}
					if call == nil {
						continue
					}
					mu.Lock()
					served[name]++
					seen[call.IdempotencyKey]++
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
					assert.NoError(t, p.Complete(call.ID, "o", nil))
				}
			})
		}
		synctest.Wait()
		var calls sync.WaitGroup
		for i := range 400 {
			calls.Go(func() {
				_, err := p.Invoke(t.Context(), tool(flows.EffectWrite, 60), nil, executor.CallInfo{RunID: fmt.Sprint(i)})
				assert.NoError(t, err)
			})
		}
		calls.Wait()
		stop()
		workers.Wait()
		assert.Len(t, seen, 400)
		for name, n := range served {
			assert.InDelta(t, 100, n, 2, name)
		}
	})
}

func TestWorkersGetOnlyTheToolsThatTheyServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		out := start(p, tool(flows.EffectRead, 30), executor.CallInfo{})
		assert.Nil(t, take(t, p, "other", "rank"))
		stats := p.Stats()
		assert.Equal(t, 1, stats[0].Queued)
		assert.Equal(t, time.Second, stats[0].Oldest)
		assert.Equal(t, []string{"score"}, stats[0].Tools)
		call := take(t, p, "right", "rank", "score")
		require.NotNil(t, call)
		assert.Equal(t, []string{"right"}, p.Stats()[0].Workers)
		require.NoError(t, p.Complete(call.ID, "service:right", nil))
		require.NoError(t, (<-out).err)
	})
}

// A worker whose connection ends in the moment of delivery has not got the call.
func TestACallThatNeverReachedItsWorkerIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		out := start(p, tool(flows.EffectWrite, 30), executor.CallInfo{})
		call := take(t, p, "gone")
		p.Undelivered(call.ID)
		again := take(t, p, "here")
		require.NotNil(t, again)
		assert.Equal(t, 1, again.Delivery)
		require.NoError(t, p.Complete(again.ID, "service:here", nil))
		require.NoError(t, (<-out).err)
	})
}

// A call that a worker had once may have happened, also when nobody takes it again.
func TestACallThatWasGivenOutIsNotUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Lease: 5 * time.Second})
		out := start(p, tool(flows.EffectRead, 20), executor.CallInfo{})
		require.NotNil(t, take(t, p, "goes silent"))
		assert.False(t, toolError(t, (<-out).err, "no_worker").NotSent)
	})
}

func TestAFullPoolRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Queued: 1})
		first := start(p, tool(flows.EffectRead, 1), executor.CallInfo{})
		synctest.Wait()
		assert.True(t, toolError(t, (<-start(p, tool(flows.EffectRead, 1), executor.CallInfo{})).err, "pool_full").NotSent)
		toolError(t, (<-first).err, "no_worker")
		assert.EqualValues(t, 1, p.Stats()[0].Rejected)
	})
}

// Owners of runs have pools of their own: a worker of one is given nothing of the others.
func TestPoolsOfOtherScopes(t *testing.T) {
	p := New(Options{})
	answered := make(chan any, 1)
	go func() {
		out, err := p.Invoke(t.Context(), tool(flows.EffectRead, 0), map[string]any{}, executor.CallInfo{RunID: "r", Path: "0", Scope: "one"})
		assert.NoError(t, err)
		answered <- out
	}()
	require.Eventually(t, func() bool { return len(p.Stats()) == 1 && p.Stats()[0].Queued == 1 }, 5*time.Second, time.Millisecond)
	none, err := p.Poll(t.Context(), Poll{Pool: "crm", Scope: "two", Worker: "thief", Owner: "two/w"})
	require.NoError(t, err)
	require.Nil(t, none)
	call, err := p.Poll(t.Context(), Poll{Pool: "crm", Scope: "one", Worker: "w", Owner: "one/w"})
	require.NoError(t, err)
	require.NotNil(t, call)
	require.Error(t, p.Complete(call.ID, "two/w", map[string]any{}))
	require.NoError(t, p.Complete(call.ID, "one/w", map[string]any{"ok": true}))
	require.Equal(t, map[string]any{"ok": true}, <-answered)
	stats := p.Stats()
	require.Equal(t, []string{"one/crm", "two/crm"}, []string{stats[0].Scope + "/" + stats[0].Pool, stats[1].Scope + "/" + stats[1].Pool})
}
