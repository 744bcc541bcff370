package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/store"
)

// recoverWithin is how old a run that a crash interrupted may be for Recover to resume it.
const recoverWithin = 24 * time.Hour

// goOn continues a claimed run after its approvals were decided, in the background. Nothing of its next level has
// started. What keeps it from going on ends it. Of a row that cannot be read the log tells, and it stays as it is.
func (s *Service) goOn(tenant string, row store.RunRow) *live {
	actor := governance.Actor{Tenant: tenant, Principal: row.Caller, Scopes: []governance.Scope{governance.ScopeRun, governance.ScopeRead}}
	s.mu.Lock()
	params := s.params[row.ID]
	s.mu.Unlock()
	l := &live{tenant: tenant, actor: actor, params: params, log: &callLog{}, done: make(chan struct{})}
	var err error
	if l.run, err = fromRow(row, true); err != nil {
		s.log.Error("continue a run", "run_id", row.ID, "error", err)
		close(l.done)
		return l
	}
	s.background.Go(func() {
		if s.wait(actor) { // else it is written as one that goes on at the next start
			defer s.leave(actor)
		}
		s.continueRun(l)
	})
	return l
}

// continueRun sets a claimed run up and executes it.
func (s *Service) continueRun(l *live) {
	p, err := s.prepare(l)
	if errors.Is(err, errParams) {
		err = s.orDenied(l, err)
	}
	s.execute(s.base, l, func(ctx context.Context) (*executor.RunResult, error) {
		if err != nil {
			return nil, err
		}
		return s.resume(ctx, l, p)
	})
}

// orDenied is the denial of a run that cannot go on without its dynamic params, for its end does not need them.
func (s *Service) orDenied(l *live, missing error) error {
	row, err := s.denied(s.base, l)
	if row != nil {
		return &flows.Error{Code: flows.CodeForbidden, Message: fmt.Sprintf("approval of step %s denied: %s", row.Step, row.Reason), Err: flows.CWApprovalDenied}
	}
	return errors.Join(missing, err)
}

// denied is the first approval of a run that was denied, nil when there is none.
func (s *Service) denied(ctx context.Context, l *live) (row *store.ApprovalRow, err error) {
	err = s.db.View(ctx, func(r *store.Reader) error {
		rows, err := r.Approvals(l.tenant, l.run.ID)
		if at := slices.IndexFunc(rows, func(row store.ApprovalRow) bool { return row.Decision == executor.Deny }); at >= 0 {
			row = &rows[at]
		}
		return err
	})
	return row, err
}

// prepare admits a run that goes on and reads where. Its admission, plan and feed are set even so as to end it.
func (s *Service) prepare(l *live) (p *progress, err error) {
	base := l.run.events
	if l.run.State != StateRunning { // it was not known how many events there were
		base += restartGap
	}
	l.feed = s.hold(l.run.ID, base)
	err = s.db.View(s.base, func(r *store.Reader) error {
		p, err = s.progressOf(r, l.tenant, l.run.ID)
		return err
	})
	switch {
	case errors.Is(err, errSealed):
		return nil, &flows.Error{Code: flows.CodeConflict, Message: "run " + l.run.ID + ": " + err.Error(), Err: err}
	case err != nil:
		return nil, err
	case p == nil:
		return nil, &flows.Error{Code: flows.CodeConflict, Message: fmt.Sprintf("run %s has no checkpoint to go on from", l.run.ID), Err: flows.CWCheckpointNotFound}
	}
	l.begun = &p.begun
	if l.admission, err = s.gate.Readmit(s.base, l.actor, l.run.Flow, l.run.Version, p.Called, p.Forced); err != nil {
		return nil, err
	}
	l.careful = careful(l.admission)
	if l.plan, err = s.plan(l.admission); err != nil {
		return nil, err
	}
	if p.reached == nil && p.Plan != l.admission.Key {
		return nil, &flows.Error{Code: flows.CodeConflict, Message: fmt.Sprintf("run %s cannot go on: its flow's tools or flows have changed", l.run.ID), Err: flows.CWCheckpointDrift}
	}
	return p, p.complete(l.run.ID, l.params)
}

// complete checks that the dynamic params that a run had are there again.
func (p *progress) complete(runID string, params map[string]any) error {
	missing := slices.DeleteFunc(slices.Clone(p.Params), func(name string) bool { _, given := params[name]; return given })
	if len(missing) == 0 {
		return nil
	}
	return &flows.Error{Code: flows.CodeInvalid, Err: errParams, Message: fmt.Sprintf(
		"dynamic params are not kept with a run: resume run %s with %s", runID, strings.Join(missing, ", "))}
}

// errParams says that a run waits for its dynamic params.
var errParams = errors.New("dynamic params are missing")

// resume goes on from where a run was.
func (s *Service) resume(ctx context.Context, l *live, p *progress) (*executor.RunResult, error) {
	in := s.input(l, nil)
	if p.reached != nil {
		return s.engine.Resume(ctx, l.plan, p.reached, in)
	}
	input, err := p.input()
	if err != nil {
		return nil, err
	}
	in.Input, in.TraceID, in.DryRunUnsupported = input, p.TraceID, p.Unsupported
	return s.engine.Run(ctx, l.plan, in), nil
}

// ResumeRequest asks to go on with a run that was interrupted, or that failed or was cancelled and still has its
// checkpoint.
type ResumeRequest struct {
	DynamicParams map[string]any // those that the run had
	// RepeatUnsafe allows calling a tool again that may have been called when the run was interrupted, and that is neither
	// read-only nor declared to be idempotent and safe to retry.
	RepeatUnsafe bool
	Wait         time.Duration // see DecisionRequest
}

// Resume goes on with a run from its last checkpoint, in the background. Refusals: not_found, forbidden, conflict (there
// is nothing to go on from, it changed, or a tool may not be called twice), invalid (dynamic params), and those of Run.
func (s *Service) Resume(ctx context.Context, actor governance.Actor, id string, req ResumeRequest) (*Run, error) {
	return s.goOnFrom(ctx, actor, id, req, s.maxPerPrincipal)
}

// goOnFrom is Resume for an actor that may have so many runs at a time.
func (s *Service) goOnFrom(ctx context.Context, actor governance.Actor, id string, req ResumeRequest, atMost int) (*Run, error) {
	if err := governance.Permit(actor, governance.ActionRun); err != nil {
		return nil, err
	}
	run, err := s.read(ctx, tenant(actor), id)
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{StateInterrupted, executor.StatusFailed, executor.StatusCancelled}, run.State) {
		return nil, flows.NewError(flows.CodeConflict, fmt.Sprintf("run %s is %s; only runs that were interrupted, failed or cancelled are resumed", id, run.State))
	}
	if err := s.enter(actor, atMost); err != nil {
		return nil, err
	}
	l := &live{tenant: tenant(actor), actor: actor, run: run, params: req.DynamicParams, log: &callLog{}, done: make(chan struct{})}
	p, err := s.prepare(l)
	if err == nil {
		err = s.claim(ctx, l, p, req.RepeatUnsafe)
	}
	if err != nil {
		s.release(l.feed, nil)
		s.leave(actor)
		return nil, err
	}
	s.detach(l, func(ctx context.Context) (*executor.RunResult, error) { return s.resume(ctx, l, p) })
	return s.await(ctx, l, req.Wait)
}

// claim makes an ended run a running one again.
func (s *Service) claim(ctx context.Context, l *live, p *progress, repeat bool) error {
	mayHaveStarted := l.run.started || l.run.State == executor.StatusCancelled
	if unsafe := inFlight(l.admission, p); mayHaveStarted && len(unsafe) > 0 && !repeat {
		return flows.NewError(flows.CodeConflict, fmt.Sprintf(
			"run %s was interrupted when %s may have been called, which is not safe to call twice; look what it did, and say repeat_unsafe to go on all the same",
			l.run.ID, strings.Join(unsafe, ", ")))
	}
	run := l.run
	run.State, run.Ended, run.Problem, run.Avoided = StateRunning, time.Time{}, nil, Avoided{}
	run.auto, run.started = false, false
	row, err := s.row(run, run.Result)
	if err != nil {
		return err
	}
	err = s.change(ctx, func(tx *store.Tx) error {
		if err := s.put(tx, l.tenant, &row); err != nil {
			return err
		}
		if err := tx.ExpireCheckpoint(l.tenant, run.ID, time.Time{}); err != nil {
			return err
		}
		return s.audit(tx, l.actor, "run.resume", run.ID, map[string]any{"repeat_unsafe": repeat})
	})
	run.Revision = row.Revision
	return err
}

// Cancel ends a run: one that goes on at its next step, one that waits at once. The answer is the run at its end.
func (s *Service) Cancel(ctx context.Context, actor governance.Actor, id string) (*Run, error) {
	if err := governance.Permit(actor, governance.ActionRun); err != nil {
		return nil, err
	}
	s.mu.Lock()
	l := s.live[id]
	s.mu.Unlock()
	if l != nil && l.tenant == tenant(actor) {
		l.cancel(errCancelled)
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		err := s.change(ctx, func(tx *store.Tx) error { return s.audit(tx, actor, "run.cancel", id, nil) })
		if err != nil {
			return nil, err
		}
		return s.read(ctx, l.tenant, id)
	}
	var run *Run
	err := s.change(ctx, func(tx *store.Tx) error {
		row, err := runIn(&tx.Reader, tenant(actor), id)
		if err != nil {
			return err
		}
		if row.State != executor.StatusAwaitingApproval && row.State != StateInterrupted {
			return flows.NewError(flows.CodeConflict, fmt.Sprintf("run %s is %s; there is nothing to cancel", id, row.State))
		}
		if run, err = fromRow(row, true); err != nil {
			return err
		}
		run.State, run.Ended = executor.StatusCancelled, s.now().UTC()
		run.Problem = &Problem{Code: flows.CWFlowCancelled.Code, Message: "cancelled by " + actor.Principal + " before it went on"}
		if row, err = s.row(run, run.Result); err != nil {
			return err
		}
		if err := s.put(tx, tenant(actor), &row); err != nil {
			return err
		}
		run.Revision = row.Revision
		if err := s.forget(tx, tenant(actor), run); err != nil {
			return err
		}
		return s.audit(tx, actor, "run.cancel", id, nil)
	})
	if err != nil {
		return nil, err
	}
	s.dropParams(id)
	s.endFeed(id)
	s.archiveRun(context.WithoutCancel(ctx), tenant(actor), run)
	return s.read(ctx, tenant(actor), id)
}

func (s *Service) endFeed(id string) {
	s.mu.Lock()
	f := s.feeds[id]
	s.mu.Unlock()
	if f != nil {
		f.end()
	}
}

// Recover goes on, in the background, with the runs that an earlier process left when it ended, as far as they are not
// older than a day, their dynamic params are not needed, their flow may still run, and no tool may have been called that
// is not safe to call twice. The others stay interrupted and say why. It returns how many go on.
func (s *Service) Recover(ctx context.Context, tenant string) (resumed int, err error) {
	var rows []store.RunRow
	err = s.db.View(ctx, func(r *store.Reader) (err error) {
		rows, err = r.RunsInState(tenant, StateInterrupted)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		run, err := fromRow(row, false)
		if err != nil {
			return resumed, err
		}
		if !run.auto || s.now().Sub(run.Started) > recoverWithin {
			continue
		}
		actor := governance.Actor{Tenant: tenant, Principal: row.Caller, Scopes: []governance.Scope{governance.ScopeRun, governance.ScopeRead}}
		_, err = s.goOnFrom(ctx, actor, row.ID, ResumeRequest{}, cap(s.slots)) // it was accepted once
		switch {
		case err == nil:
			resumed++
		case flows.CodeOf(err) == flows.CodeFull:
			return resumed, nil // the next start takes the others
		default:
			if err := s.judge(ctx, tenant, row.ID, err); err != nil {
				return resumed, err
			}
		}
	}
	return resumed, nil
}

// judge writes why an interrupted run does not go on by itself.
func (s *Service) judge(ctx context.Context, tenant, id string, why error) error {
	return s.change(ctx, func(tx *store.Tx) error {
		row, err := runIn(&tx.Reader, tenant, id)
		if err != nil || row.State != StateInterrupted {
			return err
		}
		run, err := fromRow(row, true)
		if err != nil {
			return err
		}
		run.auto, run.Problem = false, problemOf(why)
		exported := row.Exported
		if row, err = s.row(run, run.Result); err != nil {
			return err
		}
		row.Exported = exported
		return s.put(tx, tenant, &row)
	})
}
