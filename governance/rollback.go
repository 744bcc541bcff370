package governance

import (
	"context"
	"fmt"

	"pave/flows"
	"pave/governance/store"
)

// RollbackRequest makes another version of a flow the active one. To "" is the version that serves those whom a
// rollout leaves out, else the newest one that was made before the active one; it serves all then. AcceptDrift pins that version's tools as they are now, when they changed since it was promoted.
// IfRevision is that of the active version; 0 means that none was given.
type RollbackRequest struct {
	To          string
	Reason      string
	AcceptDrift bool
	IfRevision  int64
}

// Rollback points a flow at an earlier version, or at a later one again, in one transaction, and returns the version
// that is active now. The one that was active goes to needs_review with the reason; runs in flight finish on it. No
// review is needed: the version was reviewed when it was promoted.
func (s *Service) Rollback(ctx context.Context, actor Actor, name string, req RollbackRequest) (*FlowVersion, error) {
	var to *FlowVersion
	err := s.update(ctx, actor, ActionSetStatus, func(c *change) error {
		row, err := flowRowIn(&c.Reader, c.tenant, name, "")
		if err != nil {
			return err
		}
		if err := checkRevision("flow "+name+"@"+row.Version, req.IfRevision, row.Revision); err != nil {
			return err
		}
		from, err := flowVersion(row)
		if err != nil {
			return err
		}
		if to, err = c.rollbackTarget(name, row, req.To); err != nil {
			return err
		}
		pins, err := c.activate(to, req.AcceptDrift)
		if err != nil {
			return err
		}
		reason := fmt.Sprintf("rolled back to %s: %s", to.Flow.Version, req.Reason)
		if err := c.setStatus(from, flows.StatusNeedsReview, nil, "flow.status", reason, map[string]any{}); err != nil {
			return err
		}
		if err := c.setStatus(to, flows.StatusActive, pins, "flow.status", "", map[string]any{"accept_drift": req.AcceptDrift}); err != nil {
			return err
		}
		to.Active, to.Rollout = true, Rollout{Version: to.Flow.Version, Share: 1}
		if err := c.SetActive(c.tenant, name, store.Pointer(to.Rollout)); err != nil {
			return err
		}
		return c.audit("flow.rollback", "flow/"+name+"@"+to.Flow.Version, map[string]any{"from": from.Flow.Version, "reason": req.Reason})
	})
	if err != nil {
		return nil, err
	}
	return to, nil
}

// rollbackTarget is the version to go to.
func (c *change) rollbackTarget(name string, active store.FlowVersionRow, version string) (*FlowVersion, error) {
	if version == active.Version {
		return nil, flows.NewError(flows.CodeConflict, fmt.Sprintf("%s@%s is the active version already", name, version))
	}
	if version == "" {
		version = active.Pointer.Rest
	}
	if version != "" {
		row, err := flowRowIn(&c.Reader, c.tenant, name, version)
		if err != nil {
			return nil, err
		}
		return flowVersion(row)
	}
	rows, err := c.FlowVersions(c.tenant, name) // oldest first
	if err != nil {
		return nil, err
	}
	var earlier *store.FlowVersionRow
	for i := range rows {
		if rows[i].CreatedAt.Before(active.CreatedAt) {
			earlier = &rows[i]
		}
	}
	if earlier == nil {
		return nil, flows.NewError(flows.CodeConflict, fmt.Sprintf("flow %s has no version before %s; set its status to disabled instead", name, active.Version))
	}
	return flowVersion(*earlier)
}
