// Package worker reaches tools that live inside processes which pave cannot call: such a process asks for calls, runs
// its own code, and answers. A pool is a named queue of calls; any number of processes serve one.
//
// A call is given out under a lease. The lease runs out when no heartbeat comes; then a repeatable tool's call goes to
// another worker, and any other call fails, because nobody knows whether it happened. So a tool that is not declared
// idempotent is given out at most once for one attempt, and never again for a later attempt of the same step.
package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"pave/executor"
	"pave/executor/bind"
	"pave/flows"
)

// Defaults and bounds.
const (
	DefaultLease = 30 * time.Second
	// DefaultPatience is how long a call of a tool without a timeout waits for a worker to take it.
	DefaultPatience = 60 * time.Second
	DefaultQueued   = 10_000
	// maxDeliveries is how often a repeatable call is given out.
	maxDeliveries = 5
	maxPools      = 1000
	// idlePool is how long a pool that nobody uses is remembered.
	idlePool = 24 * time.Hour
)

// Options of Pools. The zero value takes the defaults.
type Options struct {
	Lease    time.Duration // how long a worker may be silent
	Patience time.Duration // how long a call without a deadline of its own waits for a worker
	Queued   int           // calls that may wait in one pool; more are refused
}

// Pools are all queues. They are safe for concurrent use and hold nothing beyond the calls that go on.
type Pools struct {
	opts Options

	mu     sync.Mutex
	pools  map[poolKey]*pool
	leases map[string]*task
}

// poolKey names a pool: owners of runs (tenants) have pools of their own.
type poolKey struct{ scope, name string }

// pool is one queue: either calls wait in it or workers do.
type pool struct {
	poolKey
	queue   []*task
	pollers []*poller
	leased  int
	used    time.Time // when a call or a worker came last
	polled  time.Time // when a worker came last, zero for never

	delivered, expired, refused int64
}

// task is one call on its way.
type task struct {
	pool       *pool
	scope      string // whose run calls
	tool       *flows.Tool
	call       Call
	since      time.Time
	deliveries int
	lease      *time.Timer
	worker     string
	owner      string
	cancelled  bool
	done       chan outcome // holds one
}

type outcome struct {
	value any
	err   error
}

// Call is what a worker is given. Input is the tool's validated input; IdempotencyKey is the same for every delivery
// and every attempt of one effect; Deadline is zero when the call has none.
type Call struct {
	ID             string
	Pool           string
	Tool           string
	Input          map[string]any
	IdempotencyKey string
	Attempt        int
	Delivery       int // 1-based; above 1 only for repeatable tools
	RunID          string
	Traceparent    string
	Tracestate     string
	Deadline       time.Time
	LeaseUntil     time.Time
}

var _ executor.PromptInvoker = (*Pools)(nil)

// New makes empty Pools.
func New(opts Options) *Pools {
	if opts.Lease <= 0 {
		opts.Lease = DefaultLease
	}
	if opts.Patience <= 0 {
		opts.Patience = DefaultPatience
	}
	if opts.Queued <= 0 {
		opts.Queued = DefaultQueued
	}
	return &Pools{opts: opts, pools: map[poolKey]*pool{}, leases: map[string]*task{}}
}

// Prompt reports that a call returns soon after its context ends.
func (p *Pools) Prompt(*flows.Tool) bool { return true }

// Invoke puts a call into its tool's pool and waits for the answer. Errors are *executor.ToolError, or the context's:
// no_worker (nobody took the call in time), worker_timeout, worker_lost, pool_full, or what the worker reported.
func (p *Pools) Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, info executor.CallInfo) (any, error) {
	limited, cancel := bind.WithMargin(ctx)
	defer cancel()
	t := &task{tool: tool, scope: info.Scope, since: time.Now(), done: make(chan outcome, 1), call: Call{Pool: tool.Binding.Pool, Tool: tool.Name, Input: input,
		IdempotencyKey: info.Key(), Attempt: info.Attempt, RunID: info.RunID, Traceparent: info.Traceparent(), Tracestate: info.Tracestate()}}
	var patience <-chan time.Time
	if deadline, ok := limited.Deadline(); ok {
		t.call.Deadline = deadline
	}
	if tool.TimeoutSeconds == nil || *tool.TimeoutSeconds <= 0 {
		timer := time.NewTimer(p.opts.Patience)
		defer timer.Stop()
		patience = timer.C
	}
	if err := p.enqueue(t); err != nil {
		return nil, err
	}
	for {
		select {
		case got := <-t.done:
			return got.value, got.err
		case <-limited.Done():
			return p.abandon(ctx, t)
		case <-patience:
			if out, gone := p.withdraw(t, false); gone {
				return out.value, out.err
			}
			patience = nil // a worker has it: its lease bounds it now
		}
	}
}

// enqueue lets a new call in.
func (p *Pools) enqueue(t *task) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	pool, err := p.pool(poolKey{t.scope, t.call.Pool})
	if err != nil {
		return err
	}
	t.pool = pool
	if p.hand(t) {
		return nil
	}
	if len(pool.queue) >= p.opts.Queued {
		pool.refused++
		return &executor.ToolError{Class: executor.ClassRateLimit, Code: "pool_full", NotSent: true,
			Message: fmt.Sprintf("%d calls wait in the worker pool '%s'; start more workers, or call tool '%s' later", len(pool.queue), pool.name, t.call.Tool)}
	}
	pool.queue = append(pool.queue, t)
	return nil
}

// hand gives the call to the worker that waits longest, if there is one.
func (p *Pools) hand(t *task) bool {
	q := t.pool
	i := slices.IndexFunc(q.pollers, func(w *poller) bool { return w.serves(t.call.Tool) })
	if i < 0 {
		return false
	}
	w := q.pollers[i]
	q.pollers = slices.Delete(q.pollers, i, i+1)
	w.given <- p.deliver(t, w.worker, w.owner)
	return true
}

// again puts a call that came back before all that wait.
func (p *Pools) again(t *task) {
	if !p.hand(t) {
		t.pool.queue = slices.Insert(t.pool.queue, 0, t)
	}
}

// pool finds or makes a queue. Names come from tool files and from workers' requests, so their number is bounded.
func (p *Pools) pool(key poolKey) (*pool, error) {
	now := time.Now()
	found := p.pools[key]
	if found == nil {
		if len(p.pools) >= maxPools {
			maps.DeleteFunc(p.pools, func(_ poolKey, q *pool) bool { return q.idle() && now.Sub(q.used) > idlePool })
		}
		if len(p.pools) >= maxPools {
			return nil, flows.NewError(flows.CodeFull, fmt.Sprintf("%d worker pools are in use; pool '%s' cannot be opened", len(p.pools), key.name))
		}
		found = &pool{poolKey: key}
		p.pools[key] = found
	}
	found.used = now
	return found, nil
}

func (q *pool) idle() bool { return len(q.queue) == 0 && len(q.pollers) == 0 && q.leased == 0 }

// deliver gives a call out under a new lease. The id names this delivery, so that an answer to an earlier one is
// known to be late.
func (p *Pools) deliver(t *task, worker, owner string) *Call {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // crypto/rand never fails
	t.deliveries++
	t.worker, t.owner = worker, owner
	t.call.ID, t.call.Delivery, t.call.LeaseUntil = hex.EncodeToString(raw[:]), t.deliveries, time.Now().Add(p.opts.Lease)
	t.pool.leased++
	t.pool.delivered++
	p.leases[t.call.ID] = t
	id := t.call.ID
	t.lease = time.AfterFunc(p.opts.Lease, func() { p.expire(id) })
	call := t.call
	return &call
}

// release ends the current lease.
func (p *Pools) release(t *task) {
	t.lease.Stop()
	t.pool.leased--
	t.pool.used = time.Now()
	delete(p.leases, t.call.ID)
}

// expire takes a call back from a worker that has gone silent.
func (p *Pools) expire(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.leases[id]
	if t == nil {
		return
	}
	p.release(t)
	t.pool.expired++
	if t.cancelled {
		return
	}
	if !t.tool.Repeatable() || t.deliveries >= maxDeliveries {
		t.done <- outcome{err: t.lost()}
		return
	}
	p.again(t)
}

func (t *task) lost() error {
	why := "it is not called again, because nobody knows whether it happened and the tool is not declared idempotent"
	if t.tool.Repeatable() {
		why = fmt.Sprintf("it was given out %d times", t.deliveries)
	}
	return &executor.ToolError{Class: executor.ClassIO, Code: "worker_lost", Final: true,
		Message: fmt.Sprintf("worker '%s' of pool '%s' took a call of tool '%s' and went silent; %s", t.worker, t.pool.name, t.call.Tool, why)}
}

// abandon ends a call whose time is up or whose run has ended. An answer that has come is taken all the same.
func (p *Pools) abandon(ctx context.Context, t *task) (any, error) {
	out, gone := p.withdraw(t, true)
	switch {
	case gone && out.err == nil:
		return out.value, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case gone:
		return nil, out.err
	}
	return nil, &executor.ToolError{Class: executor.ClassTimeout, Code: "worker_timeout", Final: !t.tool.Repeatable(),
		Message: fmt.Sprintf("worker '%s' of pool '%s' did not answer the call of tool '%s' in time", t.worker, t.pool.name, t.call.Tool)}
}

// withdraw takes a call that still waits out of its queue, or returns the answer that came in the meantime; gone is
// false when a worker has it. disown tells that worker, at its next heartbeat, that nobody waits for its answer.
func (p *Pools) withdraw(t *task, disown bool) (out outcome, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case out := <-t.done:
		return out, true
	default:
	}
	i := slices.Index(t.pool.queue, t)
	if i < 0 {
		t.cancelled = disown
		return outcome{}, false
	}
	t.pool.queue = slices.Delete(t.pool.queue, i, i+1)
	return outcome{err: t.untaken()}, true
}

// untaken says why nobody took the call.
func (t *task) untaken() error {
	who := "no worker has ever polled it"
	switch polled := t.pool.polled; {
	case !polled.IsZero() && t.pool.leased > 0:
		who = fmt.Sprintf("its workers are busy with %d calls", t.pool.leased)
	case !polled.IsZero():
		who = "a worker polled it last " + time.Since(polled).Round(time.Second).String() + " ago"
	}
	return &executor.ToolError{Class: executor.ClassTimeout, Code: "no_worker", NotSent: t.deliveries == 0,
		Message: fmt.Sprintf("worker pool '%s' is empty: tool '%s' waited %s and no worker took the call; %s. Start a worker that polls this pool and serves this tool",
			t.pool.name, t.call.Tool, time.Since(t.since).Round(time.Millisecond), who)}
}
