package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/ingest"
)

// live is a run that goes on in this process. run belongs to the goroutine that executes it until done is closed.
type live struct {
	tenant    string
	actor     governance.Actor // who started or resumed it
	run       *Run
	admission *governance.Admission
	plan      *executor.Plan
	begun     *begun         // nil when it is not known how it began
	params    map[string]any // dynamic
	careful   bool           // a tool may not be called twice for one step
	log       *callLog
	feed      *feed
	cancel    context.CancelCauseFunc
	done      chan struct{}
}

type liveKey struct{}

// liveOf is the run that a context belongs to, nil outside of the service's runs.
func liveOf(ctx context.Context) *live {
	l, _ := ctx.Value(liveKey{}).(*live)
	return l
}

// Causes of a cancellation.
var (
	errCancelled = errors.New("cancelled by request")
	errShutdown  = errors.New("the service stops")
)

// start executes a run on this goroutine, from wherever begin begins it, and writes what became of it. The caller holds
// a slot.
func (s *Service) execute(ctx context.Context, l *live, begin func(context.Context) (*executor.RunResult, error)) {
	defer close(l.done)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.cancel = cancel
	s.mu.Lock()
	s.live[l.run.ID] = l
	s.mu.Unlock()
	result, err := begin(context.WithValue(ctx, liveKey{}, l))
	// The run has happened: what it did is kept even when the caller has gone.
	s.settle(context.WithoutCancel(ctx), l, result, err, context.Cause(ctx))
	s.mu.Lock()
	delete(s.live, l.run.ID)
	s.mu.Unlock()
	s.release(l.feed, l.run)
}

// detach executes a run on a goroutine of the service, which Close waits for.
func (s *Service) detach(l *live, begin func(context.Context) (*executor.RunResult, error)) {
	s.background.Go(func() {
		defer s.leave(l.actor)
		s.execute(s.base, l, begin)
	})
}

// caller is whose runs are counted together.
type caller struct{ tenant, principal string }

func callerOf(actor governance.Actor) caller { return caller{tenant(actor), actor.Principal} }

// enter takes a slot without waiting, unless the actor has the number of slots that it may have at a time.
func (s *Service) enter(actor governance.Actor, atMost int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.running[callerOf(actor)]; n >= atMost {
		return &flows.Error{Code: flows.CodeRateLimited, Message: fmt.Sprintf("%d runs of %s are going on; retry later", n, actor.Principal),
			Err: &ingest.RetryError{After: time.Second}}
	}
	select {
	case s.slots <- struct{}{}:
		s.running[callerOf(actor)]++
		return nil
	default:
		return errFull(cap(s.slots))
	}
}

// wait takes a slot for a run that has been accepted, when there is one; false when the service ends before.
func (s *Service) wait(actor governance.Actor) bool {
	select {
	case s.slots <- struct{}{}:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[callerOf(actor)]++
		return true
	case <-s.base.Done():
		return false
	}
}

func (s *Service) leave(actor governance.Actor) {
	<-s.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[callerOf(actor)]--; s.running[callerOf(actor)] == 0 {
		delete(s.running, callerOf(actor))
	}
}

// input is what the engine gets beside the plan.
func (s *Service) input(l *live, onEvent func(executor.Event)) executor.RunInput {
	return executor.RunInput{RunID: l.run.ID, DynamicParams: l.params, CacheScope: l.tenant, DryRun: l.run.DryRun, OnEvent: func(ev executor.Event) {
		l.feed.publish(ev)
		if onEvent != nil {
			onEvent(ev)
		}
	}}
}

// await waits until a run has ended or waits for approvals, at most for wait, and reads it.
func (s *Service) await(ctx context.Context, l *live, wait time.Duration) (*Run, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-l.done:
		return l.run, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return s.read(context.WithoutCancel(ctx), l.tenant, l.run.ID)
}

// Close ends the runs that go on by themselves at their next step and waits for them. They are resumed by Recover when
// the service starts again.
func (s *Service) Close() error {
	s.stop(errShutdown)
	s.background.Wait()
	return nil
}

// careful reports whether a flow reaches a tool that must not be called again when it is not known whether a call
// came through.
func careful(a *governance.Admission) bool {
	return slices.ContainsFunc(a.Version.Flow.Steps, func(step flows.Step) bool { return !repeatable(a, &step) })
}

// repeatable reports whether a step may be run again although it may have run: all tools that it may reach only read,
// or say that they are idempotent and safe to retry.
func repeatable(a *governance.Admission, step *flows.Step) bool {
	if step.CapabilityID != "" {
		return false
	}
	for _, name := range toolsOf(step) {
		t := a.Tools[name]
		if t == nil {
			return false
		}
		if s := t.Safety; flows.Exceeds(flows.Effects(s), flows.EffectRead) && (s == nil || !s.Idempotent || !s.SafeToRetry) {
			return false
		}
	}
	if step.FlowName == "" {
		return true
	}
	sub := a.Flows[step.FlowName]
	return sub != nil && !slices.ContainsFunc(sub.Steps, func(inner flows.Step) bool { return !repeatable(a, &inner) })
}

// inFlight lists the steps that may have been running when nobody wrote down what became of them: those of the level
// after a checkpoint that may not be run again, by the names of what they call.
func inFlight(a *governance.Admission, p *progress) []string {
	level := 0
	if p.reached != nil {
		level = p.reached.CompletedLevels
	}
	levels, err := flows.Levels(a.Version.Flow)
	if err != nil || level >= len(levels) {
		return nil
	}
	var out []string
	for _, at := range levels[level] {
		if step := &a.Version.Flow.Steps[at]; !repeatable(a, step) {
			out = append(out, step.Name())
		}
	}
	return out
}
