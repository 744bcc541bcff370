package governance

import (
	"context"
	"fmt"
	"slices"

	"pave/flows"
)

// EditRequest changes a proposal. Flow nil keeps the content; a flow with another digest dismisses every approval
// and makes the actor an editor, who may not approve. Owner names the principal who must approve a destructive
// flow, Assignee who is to look at the proposal ("" for nobody), Labels replace those it has; none of them is content.
type EditRequest struct {
	Flow       *flows.Flow
	Owner      *string
	Assignee   *string
	Labels     *[]string
	IfRevision int64
}

// Bounds of labels.
const (
	maxLabels = 20
	maxLabel  = 64
)

func (r *EditRequest) check() error {
	for field, who := range map[string]*string{"owner": r.Owner, "assignee": r.Assignee} {
		if who == nil || *who == "" {
			continue
		}
		if err := checkPrincipal(*who); err != nil {
			return flows.NewError(flows.CodeInvalid, field+": "+err.Error(),
				flows.ErrorDetail{Pointer: "/" + field, Code: "invalid", Detail: "person:NAME, service:NAME or local:NAME"})
		}
	}
	if r.Labels == nil {
		return nil
	}
	tooLong := func(label string) bool { return label == "" || len(label) > maxLabel }
	if len(*r.Labels) > maxLabels || slices.ContainsFunc(*r.Labels, tooLong) {
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("labels: at most %d of 1 to %d bytes", maxLabels, maxLabel),
			flows.ErrorDetail{Pointer: "/labels", Code: "out_of_range", Detail: fmt.Sprintf("at most %d of 1 to %d bytes", maxLabels, maxLabel)})
	}
	return nil
}

// action is what the request asks: whoever reviews may assign and label, the draft itself is for proposers.
func (r *EditRequest) action() Action {
	if r.Flow == nil && r.Owner == nil {
		return ActionAssign
	}
	return ActionPropose
}

// Edit changes an open proposal. A draft with a new digest is compiled and laid over recorded sessions at once; the
// outcome is in Check, which is nil when the event store is away.
func (s *Service) Edit(ctx context.Context, actor Actor, ref string, req EditRequest) (*Proposal, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	edited := false
	p, err := s.changeProposal(ctx, actor, ref, req.action(), req.IfRevision, func(c *change, e *entry, _ content, _ Decision) (err error) {
		before := e.Digest
		if req.Flow != nil {
			if req.Flow, err = c.inlined(req.Flow); err != nil {
				return err
			}
		}
		if err := e.redraftBy(&req); err != nil {
			return err
		}
		if edited = e.Digest != before; edited {
			if !e.wroteBy(actor.Principal) {
				e.Editors = append(e.Editors, actor.Principal)
			}
			e.Changed, e.Check = "edited by "+actor.Principal+"; earlier approvals were dismissed", nil
			if err := c.dismiss(e); err != nil {
				return err
			}
		}
		tools, err := toolsIn(&c.Reader, c.tenant)
		if err != nil {
			return err
		}
		c.policy.judge(&e.Proposal, tools.contentOf(e.Flow))
		return c.audit("proposal.edit", "proposal/"+e.ID, map[string]any{"from": before, "to": e.Digest, "owner": e.owner(),
			"assignee": e.Assignee, "labels": e.Labels})
	})
	if err != nil || !edited {
		return p, err
	}
	return s.withCheck(ctx, actor, p), nil
}

// withCheck compares a new draft with recorded sessions. That this cannot be done now does not undo the change.
func (s *Service) withCheck(ctx context.Context, actor Actor, p *Proposal) *Proposal {
	if s.replayer == nil {
		return p
	}
	check, err := s.checkReplay(ctx, actor, p.ID, 0)
	if err != nil {
		s.log.WarnContext(ctx, "a new draft was not compared with recorded sessions", "proposal", p.ID, "error", err)
	}
	p.Check = check
	return p
}

// redraftBy writes what the request changes.
func (e *entry) redraftBy(req *EditRequest) error {
	draft := *e.Flow
	if req.Flow != nil {
		draft = *req.Flow
		draft.Status = flows.StatusNeedsReview
		draft.Evidence = e.Flow.Evidence
		if err := checkDraft(&draft); err != nil {
			return err
		}
	}
	if req.Owner != nil {
		var g flows.Governance
		if draft.Governance != nil {
			g = *draft.Governance
		}
		g.Owner = *req.Owner
		draft.Governance = &g
	}
	if req.Assignee != nil {
		e.Assignee = *req.Assignee
	}
	if req.Labels != nil {
		e.Labels = slices.Compact(slices.Sorted(slices.Values(*req.Labels)))
	}
	e.Flow, e.Digest = &draft, flows.Digest(&draft)
	return nil
}
