package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"pave/executor"
	"pave/flows"
)

// Poll is a worker's request for a call.
type Poll struct {
	Pool string
	// Scope is whose runs the worker serves: it sees the calls of these runs only (see executor.CallInfo).
	Scope string
	// Worker names the process, for messages and statistics.
	Worker string
	// Owner is the principal that asks; only it may answer the call.
	Owner string
	// Tools are those that the worker serves; empty means all of the pool.
	Tools []string
	// Wait is how long to wait for a call; 0 asks for one that waits already.
	Wait time.Duration
	// Until ends the wait when it is closed; nil does not.
	Until <-chan struct{}
	// Answers of calls that the owner was given before.
	Answers []Answer
	// OnlyAnswer asks for no call.
	OnlyAnswer bool
}

// Answer is what a call gave: a result, any JSON value, or a failure.
type Answer struct {
	ID      string
	Result  any
	Failure *executor.ToolError // nil: there is a result
}

// poller is a worker that waits.
type poller struct {
	worker, owner string
	tools         []string
	given         chan *Call // holds one
}

func (w *poller) serves(tool string) bool { return len(w.tools) == 0 || slices.Contains(w.tools, tool) }

// Poll gives the caller the call that waits longest among those that it serves; nil when none came in time. Workers
// that wait are served in the order in which they came. Answers are taken first; when one is refused, the others are taken,
// the error says which, and no call is given.
func (p *Pools) Poll(ctx context.Context, req Poll) (*Call, error) {
	if err := p.take(&req); err != nil || req.OnlyAnswer {
		return nil, err
	}
	w := &poller{worker: req.Worker, owner: req.Owner, tools: req.Tools, given: make(chan *Call, 1)}
	p.mu.Lock()
	pool, err := p.pool(poolKey{req.Scope, req.Pool})
	if err != nil {
		p.mu.Unlock()
		return nil, err
	}
	pool.polled = time.Now()
	if i := slices.IndexFunc(pool.queue, func(t *task) bool { return w.serves(t.call.Tool) }); i >= 0 {
		t := pool.queue[i]
		pool.queue = slices.Delete(pool.queue, i, i+1)
		call := p.deliver(t, w.worker, w.owner)
		p.mu.Unlock()
		return call, nil
	}
	if req.Wait <= 0 {
		p.mu.Unlock()
		return nil, nil
	}
	pool.pollers = append(pool.pollers, w)
	p.mu.Unlock()
	timer := time.NewTimer(req.Wait)
	defer timer.Stop()
	select {
	case call := <-w.given:
		return call, nil
	case <-ctx.Done():
	case <-req.Until:
	case <-timer.C:
	}
	return p.leave(ctx, pool, w), nil
}

// take takes the answers that come with a poll.
func (p *Pools) take(req *Poll) error {
	var refused []flows.ErrorDetail
	var first *flows.Error
	for i, a := range req.Answers {
		var err error
		if a.Failure != nil {
			err = p.Fail(a.ID, req.Owner, *a.Failure)
		} else {
			err = p.Complete(a.ID, req.Owner, a.Result)
		}
		why := new(flows.Error)
		if !errors.As(err, &why) {
			continue
		}
		if refused = append(refused, flows.ErrorDetail{Pointer: "/answers/" + strconv.Itoa(i), Code: string(why.Code), Detail: why.Message}); first == nil {
			first = why
		}
	}
	if first == nil {
		return nil
	}
	return flows.NewError(first.Code, fmt.Sprintf("%d of %d answers were refused; the first: %s", len(refused), len(req.Answers), first.Message), refused...)
}

// leave ends a wait. A call that was given in this moment is taken back when the worker has gone and passed on.
func (p *Pools) leave(ctx context.Context, pool *pool, w *poller) *Call {
	p.mu.Lock()
	pool.polled = time.Now()
	if i := slices.Index(pool.pollers, w); i >= 0 {
		pool.pollers = slices.Delete(pool.pollers, i, i+1)
	}
	var call *Call
	select {
	case call = <-w.given:
	default:
	}
	p.mu.Unlock()
	if call == nil || ctx.Err() == nil {
		return call
	}
	p.Undelivered(call.ID)
	return nil
}

// Undelivered takes back a call that never reached its worker, as when the connection ended under the answer to a
// poll before any of it was sent. It counts as not given out.
func (p *Pools) Undelivered(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.leases[id]
	if t == nil {
		return
	}
	p.release(t)
	t.deliveries--
	t.pool.delivered--
	if !t.cancelled {
		p.again(t)
	}
}

// Heartbeat renews a lease. cancelled says that nobody waits for the answer any more, so that the worker may stop.
func (p *Pools) Heartbeat(id, owner string) (until time.Time, cancelled bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, err := p.held(id, owner)
	if err != nil {
		return time.Time{}, false, err
	}
	if t.cancelled {
		p.release(t)
		return time.Time{}, true, nil
	}
	until = time.Now().Add(p.opts.Lease)
	t.lease.Reset(p.opts.Lease)
	t.call.LeaseUntil = until
	return until, false, nil
}

// held is the call of a lease that is in force. A lease ends with its answer, by running out, and with its call; an
// answer that comes later is refused and changes nothing.
func (p *Pools) held(id, owner string) (*task, error) {
	t := p.leases[id]
	if t == nil {
		return nil, flows.NewError(flows.CodeConflict,
			"this call is no longer leased: it was answered, its lease ran out, or its run has ended; drop it and poll again")
	}
	if t.owner != owner {
		return nil, flows.NewError(flows.CodeForbidden, "this call was given to another principal")
	}
	return t, nil
}

// Complete answers a call with the tool's raw result, any JSON value.
func (p *Pools) Complete(id, owner string, result any) error {
	return p.answer(id, owner, func(*task) outcome { return outcome{value: result} })
}

// Fail answers a call with the tool's error. Class is one of the executor's classes, "" for other.
func (p *Pools) Fail(id, owner string, failure executor.ToolError) error {
	return p.answer(id, owner, func(t *task) outcome {
		if failure.Code == "" {
			failure.Code = "tool_error"
		}
		if failure.Message == "" {
			failure.Message = fmt.Sprintf("the worker reported an error of tool '%s' without a text", t.call.Tool)
		}
		return outcome{err: &failure}
	})
}

func (p *Pools) answer(id, owner string, with func(*task) outcome) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, err := p.held(id, owner)
	if err != nil {
		return err
	}
	p.release(t)
	if t.cancelled {
		return flows.NewError(flows.CodeConflict, "nobody waits for this answer any more: the call's time was up or its run has ended")
	}
	t.done <- with(t)
	return nil
}
