package executor

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pave/flows"
)

// This file is the only one of the package that starts goroutines.

// parallel calls fn(0), fn(1), ... fn(n-1), at most limit at a time, and returns when all calls have ended. Calls start
// in order; none starts once one has returned false, so that everything before the first false has run.
func parallel(n, limit int, fn func(i int) bool) {
	limit = min(limit, n)
	if limit < 2 {
		for i := 0; i < n && fn(i); i++ {
		}
		return
	}
	var next atomic.Int64
	var stop atomic.Bool
	work := func() {
		for !stop.Load() { // before the claim: a claimed call always runs
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			if !fn(i) {
				stop.Store(true)
			}
		}
	}
	var others sync.WaitGroup
	for range limit - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
}

type answer struct {
	value any
	err   error
}

// call makes one attempt at a tool within timeout (0: none of its own). When ctx or the timeout ends first, the
// call is abandoned: its goroutine is counted until it returns, and what it returns is dropped.
func (e *Engine) call(ctx context.Context, tool *flows.Tool, timeout time.Duration, input map[string]any, info CallInfo) (any, error) {
	if timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx = limited
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e.prompt != nil && e.prompt.Prompt(tool) {
		got := e.invoke(ctx, tool, input, info)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return got.value, got.err
	}
	if int(e.outstanding.Load()) >= e.limits.MaxAbandoned {
		return nil, &ToolError{Class: ClassIO, Code: "too_many_abandoned",
			Message: fmt.Sprintf("%d calls that outlived their deadline are still running; tool '%s' is not called until some end", e.limits.MaxAbandoned, tool.Name)}
	}
	// Unbuffered: only what the waiter takes is applied, and exactly one side sees an abandoned call end.
	done := make(chan answer)
	go func() {
		got := e.invoke(ctx, tool, input, info)
		select {
		case done <- got:
		case <-ctx.Done():
			e.outstanding.Add(-1)
		}
	}()
	select {
	case got := <-done:
		if deadline, _ := ctx.Deadline(); timeout > 0 && time.Until(deadline) <= 0 {
			return nil, context.DeadlineExceeded // late, though nobody had noticed yet
		}
		return got.value, got.err
	case <-ctx.Done():
		e.outstanding.Add(1)
		e.abandoned.Add(1)
		return nil, ctx.Err()
	}
}

// askDecider asks the Decider within the policy's timeout. A decision that comes later is dropped, and counted as an
// abandoned call until it does.
func (e *Engine) askDecider(ctx context.Context, request DecisionRequest) (chosen string, timedOut bool, err error) {
	ask := func(ctx context.Context) (got answer) {
		defer protect(&got.err)
		got.value, got.err = e.decider.Decide(ctx, request)
		return got
	}
	if e.decisions.Timeout <= 0 {
		got := ask(ctx)
		chosen, _ = got.value.(string)
		return chosen, false, got.err
	}
	ctx, cancel := context.WithTimeout(ctx, e.decisions.Timeout)
	defer cancel()
	done := make(chan answer)
	go func() {
		got := ask(ctx)
		select {
		case done <- got:
		case <-ctx.Done():
			e.outstanding.Add(-1)
		}
	}()
	select {
	case got := <-done:
		chosen, _ = got.value.(string)
		return chosen, false, got.err
	case <-ctx.Done():
		e.outstanding.Add(1)
		e.abandoned.Add(1)
		return "", true, ctx.Err()
	}
}

// invoke turns a panic of an in-process tool into its error.
func (e *Engine) invoke(ctx context.Context, tool *flows.Tool, input map[string]any, info CallInfo) (got answer) {
	defer func() {
		if p := recover(); p != nil {
			got = answer{err: &ToolError{Class: ClassOther, Code: "tool_panic", Message: fmt.Sprintf("tool panicked: %v", p)}}
		}
	}()
	if info.Preview {
		got.value, got.err = e.previewer.Preview(ctx, tool, input, info)
	} else {
		got.value, got.err = e.invoker.Invoke(ctx, tool, input, info)
	}
	return got
}

// sleep waits on a real timer; it is the default of Options.Sleep.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stream runs a plan on a goroutine of its own and hands its events over in order through a channel that holds at most
// buffer of them: a listener that is slower than the run slows it down, one that goes away ends it by cancelling ctx.
// The channel is closed when the run has ended; result then returns its result.
func (e *Engine) Stream(ctx context.Context, plan *Plan, in RunInput, buffer int) (events <-chan Event, result func() *RunResult) {
	out, ended := make(chan Event, max(0, buffer)), make(chan struct{})
	var r *RunResult
	in.OnEvent = func(ev Event) {
		select {
		case out <- ev:
		case <-ctx.Done():
			// Events that find room still go out, so that a listener who stays sees how the run ended.
			select {
			case out <- ev:
			default:
			}
		}
	}
	go func() {
		defer close(ended)
		defer close(out)
		r = e.Run(ctx, plan, in)
	}()
	return out, func() *RunResult {
		<-ended
		return r
	}
}
