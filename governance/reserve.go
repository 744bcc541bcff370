package governance

import (
	"context"
	"fmt"
	"time"

	"pave/flows"
)

// reservationTime is how long a reservation holds.
const reservationTime = 15 * time.Minute

// Reserve says that the actor reads a proposal now, for 15 minutes from now. CodeConflict: somebody else does.
func (s *Service) Reserve(ctx context.Context, actor Actor, ref string) (*Proposal, error) {
	return s.changeProposal(ctx, actor, ref, ActionDisprove, 0, func(c *change, e *entry, _ content, _ Decision) error {
		if r := e.Reserved; r != nil && r.By != actor.Principal && r.Until.After(c.at) {
			return flows.NewError(flows.CodeConflict, fmt.Sprintf("%s reads proposal %s until %s", r.By, e.ID, r.Until.Format(time.RFC3339)))
		}
		e.Reserved = &Reservation{By: actor.Principal, Until: c.at.Add(reservationTime)}
		return c.audit("proposal.reserve", "proposal/"+e.ID, map[string]any{"until": e.Reserved.Until})
	})
}

// Release ends the actor's reservation; without one it does nothing.
func (s *Service) Release(ctx context.Context, actor Actor, ref string) (*Proposal, error) {
	return s.changeProposal(ctx, actor, ref, ActionDisprove, 0, func(c *change, e *entry, _ content, _ Decision) error {
		if e.Reserved == nil || e.Reserved.By != actor.Principal {
			return nil
		}
		e.Reserved = nil
		return c.audit("proposal.release", "proposal/"+e.ID, nil)
	})
}
