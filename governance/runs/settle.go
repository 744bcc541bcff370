package runs

import (
	"context"
	"errors"

	"pave/executor"
	"pave/flows"
	"pave/governance/store"
)

// settle writes what became of a run that was executed: that it waits, that it was interrupted, or its end.
func (s *Service) settle(ctx context.Context, l *live, result *executor.RunResult, err error, cause error) {
	run := l.run
	calls := l.log.close()
	s.record(ctx, l, calls)
	run.calls += len(calls)
	run.events = l.feed.number()
	stored := run.Result // of before, where it could not go on
	if result != nil {
		stored = executor.Redact(result, l.params)
		run.Result = s.forCaller(result, stored)
		run.Continuation = continuation(l.admission.Version.Flow, run.Result)
		run.Continuation.doubt(l.admission, run.Result)
	}
	switch {
	case errors.Is(err, errParams):
		s.interrupt(ctx, l, stored, false, err)
	case err != nil && errors.Is(cause, errShutdown) || result != nil && result.Status == executor.StatusCancelled && errors.Is(cause, errShutdown):
		s.interrupt(ctx, l, stored, result != nil, errShutdown)
	case err != nil:
		s.log.WarnContext(ctx, "a run could not go on", "run_id", run.ID, "error", err)
		run.Problem = problemOf(err)
		s.finish(ctx, l, s.failedOrDenied(ctx, l, run.Problem.Code), stored)
	case result.Status == executor.StatusAwaitingApproval:
		s.suspend(ctx, l, result, stored)
	case result.Status == executor.StatusFailed:
		s.finish(ctx, l, s.failedOrDenied(ctx, l, errorCode(result)), stored)
	default:
		s.finish(ctx, l, result.Status, stored)
	}
}

// failedOrDenied is the end of a run that ended with a code. The engine has the same one for calls that nobody can be asked
// to approve, which is a failure.
func (s *Service) failedOrDenied(ctx context.Context, l *live, code string) string {
	if code != flows.CWApprovalDenied.Code {
		return executor.StatusFailed
	}
	denied, err := s.denied(ctx, l)
	if err != nil {
		s.log.ErrorContext(ctx, "read who denied a run", "run_id", l.run.ID, "error", err)
	}
	if denied == nil {
		return executor.StatusFailed
	}
	return StateDenied
}

// forCaller is the result as the run's caller gets it: true values, except that dynamic params stand in the final output
// and in what is handed back only.
func (s *Service) forCaller(result, stored *executor.RunResult) *executor.RunResult {
	if result == stored {
		return result
	}
	out := *result
	out.InitialInput, out.ExecutionLog = stored.InitialInput, stored.ExecutionLog
	return &out
}

// suspend writes a run that waits for approvals.
func (s *Service) suspend(ctx context.Context, l *live, result, stored *executor.RunResult) {
	run := l.run
	run.State = executor.StatusAwaitingApproval
	err := s.trySuspend(ctx, l, result, stored)
	if err != nil { // it is still written as running, with its checkpoint: the next start asks again
		s.log.ErrorContext(ctx, "keep a run that waits for approvals", "run_id", run.ID, "error", err)
		return
	}
	if len(l.params) > 0 {
		s.mu.Lock()
		s.params[run.ID] = l.params
		s.mu.Unlock()
	}
}

func (s *Service) trySuspend(ctx context.Context, l *live, result, stored *executor.RunResult) error {
	run := l.run
	row, err := s.row(run, stored)
	if err != nil {
		return err
	}
	reached, err := result.Checkpoint.MarshalJSON()
	if err != nil {
		return err
	}
	asked := make([]store.ApprovalRow, len(result.Awaiting))
	for i, req := range result.Awaiting {
		if asked[i], err = s.asked(l, req); err != nil {
			return err
		}
	}
	sealed := s.vault.seal(l.tenant, run.ID, reached)
	err = s.change(ctx, func(tx *store.Tx) error {
		if err := tx.Reach(l.tenant, run.ID, sealed); err != nil {
			return err
		}
		if err := putAsked(tx, l.tenant, asked); err != nil {
			return err
		}
		if err := s.put(tx, l.tenant, &row); err != nil {
			return err
		}
		run.Approvals, err = approvalsIn(&tx.Reader, l.tenant, run.ID)
		return err
	})
	run.Revision = row.Revision
	return err
}

// interrupt writes a run that does not go on for now; its checkpoint stays. ran says that the engine was at work.
func (s *Service) interrupt(ctx context.Context, l *live, stored *executor.RunResult, ran bool, why error) {
	run := l.run
	run.State, run.Ended, run.Problem = StateInterrupted, s.now().UTC(), problemOf(why)
	run.auto = errors.Is(why, errShutdown)
	run.started = run.auto && ran
	row, err := s.row(run, stored)
	if err == nil {
		err = s.change(ctx, func(tx *store.Tx) error { return s.put(tx, l.tenant, &row) })
		run.Revision = row.Revision
	}
	if err != nil {
		s.log.ErrorContext(ctx, "keep a run that was interrupted", "run_id", run.ID, "error", err)
	}
}

// forget deletes the checkpoint of a run that ended; where the installation keeps those of failed and cancelled runs, it
// stays for that time.
func (s *Service) forget(tx *store.Tx, tenant string, run *Run) error {
	if err := tx.DropPendingApprovals(tenant, run.ID); err != nil {
		return err
	}
	if s.keepCheckpoints > 0 && (run.State == executor.StatusFailed || run.State == executor.StatusCancelled) {
		return tx.ExpireCheckpoint(tenant, run.ID, run.Ended.Add(s.keepCheckpoints))
	}
	return tx.DeleteCheckpoint(tenant, run.ID)
}

func (s *Service) dropParams(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.params, id)
}

// Problem is why a run that has no record of it did not go on.
type Problem struct {
	Code    string
	Message string
}

// problemOf keeps what a user may see of an error.
func problemOf(err error) *Problem {
	var cw flows.CWError
	var fe *flows.Error
	switch {
	case errors.Is(err, errShutdown):
		return &Problem{Code: string(flows.CodeUnavailable), Message: "the service stopped; it goes on from its last checkpoint"}
	case errors.As(err, &fe):
		p := &Problem{Code: string(fe.Code), Message: fe.Message}
		if errors.As(err, &cw) {
			p.Code = cw.Code
		}
		return p
	}
	return &Problem{Code: string(flows.CodeInternal), Message: "the service failed; its log has the cause under this run's id"}
}
