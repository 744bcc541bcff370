package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pave/executor"
	"pave/governance"
	"pave/governance/store"
)

// sessionPrefix begins the name of the session under which the calls of a run are recorded.
const sessionPrefix = "flow-run:"

// EraseRuns takes the values out of runs: of those that belong to one of the traces, and of those whose calls were recorded
// as one of the sessions. What stays is which flow ran, when, how long each step took and how it ended, so that reports
// stay as they are. Runs that go on or wait are counted and left alone. It can be repeated.
func (s *Service) EraseRuns(ctx context.Context, tenant string, traces, sessions []string) (governance.ErasedRuns, error) {
	var out governance.ErasedRuns
	var ids []string
	for _, id := range sessions {
		if run, ok := strings.CutPrefix(id, sessionPrefix); ok {
			ids = append(ids, run)
		}
	}
	var done []store.RunRow
	err := s.change(ctx, func(tx *store.Tx) error {
		out, done = governance.ErasedRuns{}, nil
		rows, err := tx.RunsOf(tenant, traces, ids)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Ended.IsZero() || row.State == StateInterrupted {
				out.Open++
				continue
			}
			out.Sessions = append(out.Sessions, sessionPrefix+row.ID)
			erased, err := s.erase(tx, tenant, &row)
			if err != nil {
				return err
			}
			if erased {
				out.Runs++
				done = append(done, row)
			}
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	for _, row := range done {
		if s.archive == nil || row.DryRun {
			continue
		}
		if err := s.send(ctx, tenant, row); err != nil {
			return out, fmt.Errorf("erase run %s: %w", row.ID, err)
		}
	}
	return out, nil
}

// erase blanks one run that has ended; false when it was blank already. The archive's copy is marked as not sent, so that
// a crash before it is replaced leaves none.
func (s *Service) erase(tx *store.Tx, tenant string, row *store.RunRow) (bool, error) {
	var b body
	if err := json.Unmarshal(row.Body, &b); err != nil {
		return false, fmt.Errorf("stored run %s: %w", row.ID, err)
	}
	if b.Erased != nil {
		return false, nil
	}
	now := s.now().UTC()
	b.Erased = &now
	if b.Problem != nil {
		b.Problem.Message = erasedText
	}
	if b.Result != nil {
		result, err := executor.DecodeResult(b.Result)
		if err != nil {
			return false, fmt.Errorf("stored run %s: %w", row.ID, err)
		}
		blank(result)
		if b.Result, err = executor.EncodeResult(result); err != nil {
			return false, fmt.Errorf("encode run %s: %w", row.ID, err)
		}
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return false, fmt.Errorf("encode run %s: %w", row.ID, err)
	}
	row.Body, row.Exported = raw, row.DryRun || s.archive == nil
	if err := s.put(tx, tenant, row); err != nil {
		return false, err
	}
	if err := tx.EmptyApprovals(tenant, row.ID); err != nil {
		return false, err
	}
	return true, tx.DeleteCheckpoint(tenant, row.ID)
}

// erasedText stands where a text was that may quote values.
const erasedText = "deleted with the session that it came from"

// blank takes every value out of a result.
func blank(r *executor.RunResult) {
	r.InitialInput, r.FinalOutput = map[string]any{}, nil
	if h := r.HandBack; h != nil {
		h.Inputs, h.Reason = map[string]any{}, erasedText
	}
	blankRecords(r.ExecutionLog)
}

func blankRecords(log []executor.StepRecord) {
	text := erasedText
	for i := range log {
		rec := &log[i]
		rec.Inputs, rec.Outputs = map[string]any{}, nil
		if rec.ErrorMessage != nil {
			rec.ErrorMessage = &text
		}
		for k := range rec.RetryErrors {
			rec.RetryErrors[k] = text
		}
		if rec.Approval != nil && rec.Approval.Reason != nil {
			rec.Approval.Reason = &text
		}
		if rec.SubResult != nil {
			blank(rec.SubResult)
		}
		blankRecords(rec.Elements)
	}
}

// erasedAt is when the values of a run were deleted; zero when they were not.
func (b *body) erasedAt() time.Time {
	if b.Erased == nil {
		return time.Time{}
	}
	return *b.Erased
}
