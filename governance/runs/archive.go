package runs

import (
	"context"
	"encoding/json"
	"fmt"

	"pave/governance/store"
)

// exportBatch is how many runs are sent and marked at a time.
const exportBatch = 100

// sentRun is a run that the archive has. The mark is written with the next run's end, which saves a commit;
// should the process end before, the run is sent once more and replaces itself.
type sentRun struct{ tenant, id string }

// finish writes the end of a run and archives it. The caller gets the result in any case: when the state store
// fails, the run is logged and will be found interrupted at the next start.
func (s *Service) finish(ctx context.Context, tenant string, run *Run) {
	row, err := s.ended(run)
	if err == nil {
		err = s.keep(ctx, tenant, row)
	}
	if err != nil {
		s.log.ErrorContext(ctx, "keep the end of a run", "run_id", run.ID, "status", run.State, "error", err)
		return
	}
	if row.Exported {
		return
	}
	if err := s.send(ctx, tenant, row); err != nil {
		s.log.WarnContext(ctx, "archive a run; it is kept and will be sent again", "run_id", run.ID, "error", err)
		s.setBacklog(true)
		return
	}
	s.mu.Lock()
	s.sent = append(s.sent, sentRun{tenant, row.ID})
	s.mu.Unlock()
	if s.setBacklog(false) {
		if err := s.sendAll(ctx, tenant); err != nil {
			s.log.WarnContext(ctx, "archive earlier runs", "error", err)
			s.setBacklog(true)
		}
	}
}

// keep stores the end of a run, and the marks of those archived before.
func (s *Service) keep(ctx context.Context, tenant string, row store.RunRow) error {
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
		return tx.FinishRun(tenant, row)
	})
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

// ended is the row of a run that ended, with its result redacted.
func (s *Service) ended(run *Run) (store.RunRow, error) {
	b := body{Avoided: run.Avoided}
	row := store.RunRow{ID: run.ID, Flow: run.Flow, Version: run.Version, State: run.State, Caller: run.Caller, DryRun: run.DryRun,
		Started: run.Started, Ended: run.Ended, Exported: run.DryRun || s.archive == nil}
	if run.Result != nil {
		raw, err := json.Marshal(run.Result)
		if err != nil {
			return row, fmt.Errorf("encode result: %w", err)
		}
		b.Result = s.redactor.Redact(raw)
		row.StepsSaved = max(0, finished(run.Result)-1)
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return row, fmt.Errorf("encode run: %w", err)
	}
	row.Body = raw
	return row, nil
}

// send puts one finished run into the archive.
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
			rows, err = r.UnexportedRuns(tenant, StateRunning, exportBatch)
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
// interrupted, and finished runs that the archive lacks are sent. It returns the number of interrupted runs; the
// archive being away is no error.
func (s *Service) Start(ctx context.Context, tenant string) (interrupted int, err error) {
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		interrupted = 0
		rows, err := tx.RunsInState(tenant, StateRunning)
		if err != nil {
			return err
		}
		for _, row := range rows {
			row.State, row.Ended, row.Exported = StateInterrupted, s.now().UTC(), row.DryRun || s.archive == nil
			if err := tx.FinishRun(tenant, row); err != nil {
				return err
			}
			interrupted++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if s.archive != nil {
		if err := s.sendAll(ctx, tenant); err != nil {
			s.log.WarnContext(ctx, "archive earlier runs", "error", err)
			s.setBacklog(true)
		}
	}
	return interrupted, nil
}
