package runs

import (
	"context"
	"encoding/json"
	"fmt"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/store"
	eventstore "pave/ingest/store"
)

// exportBatch is how many runs are sent and marked at a time.
const exportBatch = 100

// sentRun is a run that the archive has. The mark is written with the next run's end, which saves a commit;
// should the process end before, the run is sent once more and replaces itself.
type sentRun struct{ tenant, id string }

// finish writes the end of a run and archives it. The caller gets the result in any case: when the state store
// fails, the run is logged and will be found interrupted at the next start.
func (s *Service) finish(ctx context.Context, l *live, state string, stored *executor.RunResult) {
	run := l.run
	run.State, run.Ended = state, s.now().UTC()
	if !run.DryRun && stored != nil && l.admission != nil {
		run.Avoided = avoided(&l.admission.Version, stored)
	}
	s.dropParams(run.ID)
	row, err := s.row(run, stored)
	if err == nil {
		err = s.keep(ctx, l.tenant, run, &row)
	}
	if err != nil {
		s.log.ErrorContext(ctx, "keep the end of a run", "run_id", run.ID, "status", run.State, "error", err)
		return
	}
	out := forArchive(run, stored)
	s.archiveEnded(ctx, l.tenant, row.Exported, out)
	s.export(l, out)
}

// archiveRun archives a run that ended without being executed.
func (s *Service) archiveRun(ctx context.Context, tenant string, run *Run) {
	row, err := s.row(run, run.Result)
	if err != nil {
		s.log.ErrorContext(ctx, "archive a run", "run_id", run.ID, "error", err)
		return
	}
	s.archiveEnded(ctx, tenant, row.Exported, forArchive(run, run.Result))
}

// archiveEnded sends a run that has ended, unless the archive has it or is not to have it.
func (s *Service) archiveEnded(ctx context.Context, tenant string, exported bool, run eventstore.Run) {
	if exported {
		return
	}
	if err := s.archive.PutRun(ctx, tenant, run); err != nil {
		s.log.WarnContext(ctx, "archive a run; it is kept and will be sent again", "run_id", run.ID, "error", err)
		s.setBacklog(true)
		return
	}
	s.mu.Lock()
	s.sent = append(s.sent, sentRun{tenant, run.ID})
	s.mu.Unlock()
	if s.setBacklog(false) {
		if err := s.sendAll(ctx, tenant); err != nil {
			s.log.WarnContext(ctx, "archive earlier runs", "error", err)
			s.setBacklog(true)
		}
	}
}

// keep stores the end of a run, and the marks of those archived before; its checkpoint goes, and webhooks are told of a
// failure, in the same transaction.
func (s *Service) keep(ctx context.Context, tenant string, run *Run, row *store.RunRow) error {
	s.mu.Lock()
	sent := s.sent
	s.sent = nil
	s.mu.Unlock()
	err := s.db.Update(ctx, func(tx *store.Tx) error {
		for _, done := range sent {
			if err := tx.MarkExported(done.tenant, done.id); err != nil {
				return err
			}
		}
		if err := s.put(tx, tenant, row); err != nil {
			return err
		}
		if run.State == executor.StatusFailed && !run.DryRun && s.outbox != nil {
			told := governance.FailedRun{ID: run.ID, Flow: run.Flow, Version: run.Version, Caller: run.Caller, At: run.Ended}
			if err := s.outbox.RunFailed(tx, tenant, told); err != nil {
				return err
			}
		}
		return s.forget(tx, tenant, run)
	})
	run.Revision = row.Revision
	if err != nil {
		s.mu.Lock()
		s.sent = append(s.sent, sent...)
		s.mu.Unlock()
	}
	return err
}

func (s *Service) setBacklog(to bool) (was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, s.backlog = s.backlog, to
	return was
}

// row is the row of a run as it stands, with its result redacted.
func (s *Service) row(run *Run, stored *executor.RunResult) (store.RunRow, error) {
	b := body{Avoided: run.Avoided, Problem: run.Problem, Auto: run.auto, Started: run.started, Events: run.events, Calls: run.calls}
	row := store.RunRow{ID: run.ID, Flow: run.Flow, Version: run.Version, State: run.State, Caller: run.Caller, DryRun: run.DryRun,
		Started: run.Started, Ended: run.Ended, Exported: run.DryRun || s.archive == nil, Revision: run.Revision}
	if stored != nil {
		raw, err := executor.EncodeResult(stored)
		if err != nil {
			return row, fmt.Errorf("encode result: %w", err)
		}
		b.Result = s.redactor.Redact(raw)
		if !run.Ended.IsZero() {
			row.StepsSaved = max(0, finished(stored)-1)
		}
	}
	run.kept = b.Result
	raw, err := json.Marshal(b)
	if err != nil {
		return row, fmt.Errorf("encode run: %w", err)
	}
	row.Body = raw
	return row, nil
}

// put stores a row over the revision that it has.
func (s *Service) put(tx *store.Tx, tenant string, row *store.RunRow) error {
	if err := tx.UpdateRun(tenant, *row, row.Revision); err != nil {
		return err
	}
	row.Revision++
	return nil
}

// send puts one stored run that has ended into the archive.
func (s *Service) send(ctx context.Context, tenant string, row store.RunRow) error {
	run, err := exported(row)
	if err != nil {
		return err
	}
	return s.archive.PutRun(ctx, tenant, run)
}

// sendAll sends every finished run that is not marked as archived.
func (s *Service) sendAll(ctx context.Context, tenant string) error {
	for {
		var rows []store.RunRow
		err := s.db.View(ctx, func(r *store.Reader) (err error) {
			rows, err = r.UnexportedRuns(tenant, exportBatch)
			return err
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			if err := s.send(ctx, tenant, row); err != nil {
				return err
			}
		}
		err = s.db.Update(ctx, func(tx *store.Tx) error {
			for _, row := range rows {
				if err := tx.MarkExported(tenant, row.ID); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// Start is called once when the process opens the stores: runs that an earlier process left running are marked
// interrupted (Recover takes them up again), approvals whose time has passed are denied, and finished runs that the
// archive lacks are sent. It returns the number of interrupted runs; the archive being away is no error.
func (s *Service) Start(ctx context.Context, tenant string) (interrupted int, err error) {
	err = s.change(ctx, func(tx *store.Tx) error {
		interrupted = 0
		rows, err := tx.RunsInState(tenant, StateRunning)
		if err != nil {
			return err
		}
		for _, row := range rows {
			run, err := fromRow(row, true)
			if err != nil {
				return err
			}
			run.State, run.Ended, run.auto, run.started = StateInterrupted, s.now().UTC(), true, true
			run.Problem = &Problem{Code: string(flows.CodeUnavailable), Message: "the service ended while the run was going on"}
			if row, err = s.row(run, run.Result); err != nil {
				return err
			}
			if err := s.put(tx, tenant, &row); err != nil {
				return err
			}
			interrupted++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if err := s.ExpireApprovals(ctx, tenant); err != nil {
		return interrupted, err
	}
	if s.archive != nil {
		if err := s.sendAll(ctx, tenant); err != nil {
			s.log.WarnContext(ctx, "archive earlier runs", "error", err)
			s.setBacklog(true)
		}
	}
	return interrupted, nil
}
