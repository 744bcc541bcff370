package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/store"
)

// Filter selects and pages runs, newest first. Limit 0 means 50, at most 500.
type Filter struct {
	Flow   string
	State  string
	Limit  int
	Cursor string
}

// Get reads one run.
func (s *Service) Get(ctx context.Context, actor governance.Actor, id string) (run *Run, err error) {
	if err := governance.Permit(actor, governance.ActionRead); err != nil {
		return nil, err
	}
	return s.read(ctx, tenant(actor), id)
}

func (s *Service) read(ctx context.Context, tenant, id string) (run *Run, err error) {
	err = s.db.View(ctx, func(r *store.Reader) error {
		row, err := runIn(r, tenant, id)
		if err != nil {
			return err
		}
		if run, err = fromRow(row, true); err != nil {
			return err
		}
		if run.Continuation, err = continuationIn(r, tenant, run); err != nil {
			return err
		}
		run.Approvals, err = approvalsIn(r, tenant, id)
		return err
	})
	return run, err
}

// RanInTrace reports whether a run of the flow belongs to the caller's trace. It is for the service itself: it asks for no
// right and tells nothing of the run.
func (s *Service) RanInTrace(ctx context.Context, tenant, traceID, flow string) (found bool, err error) {
	err = s.db.View(ctx, func(r *store.Reader) error {
		found, err = r.RanInTrace(tenant, traceID, flow)
		return err
	})
	return found, err
}

// continuationIn is how to go on with a run that is read back, from what is kept of it.
func continuationIn(r *store.Reader, tenant string, run *Run) (*Continuation, error) {
	if run.State == StateRunning || run.Result == nil || run.Result.Success {
		return nil, nil
	}
	row, err := r.FlowVersion(tenant, run.Flow, run.Version)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var flow flows.Flow
	if err := json.Unmarshal(row.Flow, &flow); err != nil {
		return nil, fmt.Errorf("flow of run %s: %w", run.ID, err)
	}
	c := continuation(&flow, run.Result)
	if flows.Exceeds(flows.Effects(flow.Safety), flows.EffectRead) {
		known, err := knownTools(r, tenant, &flow)
		if err != nil {
			return nil, err
		}
		c.doubt(known, run.Result)
	}
	if run.State != run.Result.Status && run.Problem != nil { // it ended while it waited: the result is of before
		c.Reason = run.Problem.Message
	}
	return c, nil
}

func runIn(r *store.Reader, tenant, id string) (store.RunRow, error) {
	row, err := r.Run(tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return row, &flows.Error{Code: flows.CodeNotFound, Message: fmt.Sprintf("there is no run %q", id), Err: err}
	}
	return row, err
}

// sameRevision compares an If-Match revision with a run's; 0 means that none was given.
func sameRevision(row store.RunRow, given int64) error {
	if given != 0 && given != row.Revision {
		return flows.NewError(flows.CodeStale, fmt.Sprintf("run %s has revision %d, not %d; read it again", row.ID, row.Revision, given))
	}
	return nil
}

// List lists runs, newest first, without their results.
func (s *Service) List(ctx context.Context, actor governance.Actor, f Filter) (store.Page[Run], error) {
	return s.list(ctx, actor, f, false)
}

func (s *Service) list(ctx context.Context, actor governance.Actor, f Filter, withResults bool) (page store.Page[Run], err error) {
	if err := governance.Permit(actor, governance.ActionRead); err != nil {
		return page, err
	}
	err = s.db.View(ctx, func(r *store.Reader) error {
		rows, err := r.Runs(tenant(actor), store.RunQuery{Flow: f.Flow, State: f.State, Limit: f.Limit, Cursor: f.Cursor})
		if errors.Is(err, store.ErrCursor) {
			return &flows.Error{Code: flows.CodeInvalid, Message: "the cursor is not one that this list gave", Err: err}
		}
		if err != nil {
			return err
		}
		page.Next = rows.Next
		for _, row := range rows.Items {
			run, err := fromRow(row, withResults)
			if err == nil && row.State == executor.StatusAwaitingApproval {
				run.Approvals, err = approvalsIn(r, tenant(actor), row.ID)
			}
			if err != nil {
				return err
			}
			page.Items = append(page.Items, *run)
		}
		return nil
	})
	return page, err
}
