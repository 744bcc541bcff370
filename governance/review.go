package governance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pave/analyzer"
	"pave/flows"
	"pave/governance/store"
)

// ProposalFilter selects and pages proposals. Empty States means all; Sort is rank (default), score, created or
// updated; Limit 0 means 50, at most 500; Cursor is a previous page's Next.
type ProposalFilter struct {
	States []State
	Source analyzer.Source
	Sort   string
	Limit  int
	Cursor string
}

// Proposals lists proposals as they stand with the current tools and policy.
func (s *Service) Proposals(ctx context.Context, actor Actor, f ProposalFilter) (page Page[Proposal], err error) {
	if f.Sort != "" && !slices.Contains(store.ProposalSorts, f.Sort) {
		return page, flows.NewError(flows.CodeInvalid, fmt.Sprintf("sort %q: use one of %v", f.Sort, store.ProposalSorts))
	}
	q := store.ProposalQuery{Source: string(f.Source), Sort: f.Sort, Limit: f.Limit, Cursor: f.Cursor}
	for _, state := range f.States {
		q.States = append(q.States, string(state))
	}
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, policy Policy) error {
		rows, err := r.Proposals(tenant, q)
		if err != nil {
			return err
		}
		tools, err := toolsIn(r, tenant)
		if err != nil {
			return err
		}
		page.Next = rows.Next
		for _, row := range rows.Items {
			e, err := load(r, tenant, row)
			if err != nil {
				return err
			}
			policy.judge(&e.Proposal, tools.contentOf(e.Flow))
			page.Items = append(page.Items, e.Proposal)
		}
		return nil
	})
	return page, err
}

// Proposal reads one proposal by id, unique id prefix (four characters or more) or flow name.
func (s *Service) Proposal(ctx context.Context, actor Actor, ref string) (p *Proposal, err error) {
	err = s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, policy Policy) error {
		e, err := find(r, tenant, ref)
		if err != nil {
			return err
		}
		tools, err := toolsIn(r, tenant)
		if err != nil {
			return err
		}
		policy.judge(&e.Proposal, tools.contentOf(e.Flow))
		p = &e.Proposal
		return nil
	})
	return p, err
}

// ReviewRequest is a verdict. Digest says which content was read: an approval must name it, other verdicts may.
// A rejection and a request for changes need a comment. IfRevision 0 means that none was given.
type ReviewRequest struct {
	Verdict    Verdict
	Digest     string
	Comment    string
	IfRevision int64
}

func (r *ReviewRequest) check() error {
	switch r.Verdict {
	case VerdictApprove:
		if r.Digest == "" {
			return flows.NewError(flows.CodeInvalid, "an approval names the digest that was reviewed",
				flows.ErrorDetail{Pointer: "/digest", Code: "missing", Detail: "the proposal's digest"})
		}
	case VerdictReject, VerdictRequestChanges:
		if strings.TrimSpace(r.Comment) == "" {
			return flows.NewError(flows.CodeInvalid, fmt.Sprintf("the verdict %s needs a reason", r.Verdict),
				flows.ErrorDetail{Pointer: "/comment", Code: "missing", Detail: "the reason, for the author and for later passes"})
		}
	default:
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("verdict %q: use approve, reject or request_changes", r.Verdict),
			flows.ErrorDetail{Pointer: "/verdict", Code: "invalid", Detail: "approve, reject or request_changes"})
	}
	return nil
}

// Review records a verdict on a proposal. A principal has one valid review at a time: a new one takes the place
// of the old. An approval counts for exactly the digest it names.
func (s *Service) Review(ctx context.Context, actor Actor, ref string, req ReviewRequest) (*Proposal, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	action := ActionDisprove
	if req.Verdict == VerdictApprove {
		action = ActionApprove
	}
	return s.changeProposal(ctx, actor, ref, action, req.IfRevision, func(c *change, e *entry, now content, d Decision) error {
		if req.Digest != "" && req.Digest != e.Digest {
			return flows.NewError(flows.CodeStale, fmt.Sprintf(
				"the draft changed since it was read: its digest is %s now; read it again", e.Digest))
		}
		if req.Verdict == VerdictApprove && len(changedTools(e.ToolHashes, now.hashes)) > 0 {
			// Earlier approvers saw other tool schemas than this one does.
			if err := c.dismiss(e); err != nil {
				return err
			}
		}
		if err := c.addReview(e, req, d.Solo); err != nil {
			return err
		}
		e.ToolHashes = now.hashes
		c.policy.judge(&e.Proposal, now)
		if req.Verdict == VerdictReject {
			e.State = StateRejected
		}
		return c.audit("proposal."+string(req.Verdict), "proposal/"+e.ID,
			map[string]any{"digest": e.Digest, "comment": req.Comment, "solo": d.Solo, "state": e.State})
	})
}

func (c *change) addReview(e *entry, req ReviewRequest, solo bool) error {
	for i := range e.Reviews {
		if e.Reviews[i].Principal == c.actor.Principal {
			e.Reviews[i].Dismissed = true
		}
	}
	if err := c.DismissReviews(c.tenant, e.ID, c.actor.Principal); err != nil {
		return err
	}
	v := Review{ID: c.s.newID(), Principal: c.actor.Principal, Verdict: req.Verdict, Digest: e.Digest, Comment: req.Comment, Solo: solo, At: c.at}
	e.Reviews = append(e.Reviews, v)
	return c.InsertReview(c.tenant, e.ID, store.ReviewRow{ID: v.ID, Principal: v.Principal, Verdict: string(v.Verdict),
		Digest: v.Digest, Comment: v.Comment, Solo: v.Solo, At: v.At})
}

// changeProposal runs one mutation of one proposal: it loads it, judges it by the current tools, compares the
// revision, asks Decide, applies fn and saves.
func (s *Service) changeProposal(ctx context.Context, actor Actor, ref string, action Action, ifRevision int64,
	fn func(*change, *entry, content, Decision) error) (*Proposal, error) {
	var e *entry
	err := s.transact(ctx, actor, func(c *change) (err error) {
		if e, err = find(&c.Reader, c.tenant, ref); err != nil {
			return err
		}
		tools, err := toolsIn(&c.Reader, c.tenant)
		if err != nil {
			return err
		}
		now := tools.contentOf(e.Flow)
		c.policy.judge(&e.Proposal, now)
		if err := checkRevision("proposal "+e.ID, ifRevision, e.Revision); err != nil {
			return err
		}
		d := c.policy.Decide(actor, action, &e.Proposal)
		if err := d.Err(); err != nil {
			return err
		}
		if err := fn(c, e, now, d); err != nil {
			return err
		}
		return c.save(e)
	})
	if err != nil {
		return nil, err
	}
	return &e.Proposal, nil
}

// Withdraw takes a proposal out of the queue: by its author, or by who may promote.
func (s *Service) Withdraw(ctx context.Context, actor Actor, ref, reason string, ifRevision int64) (*Proposal, error) {
	return s.changeProposal(ctx, actor, ref, ActionWithdraw, ifRevision, func(c *change, e *entry, now content, _ Decision) error {
		e.State, e.ToolHashes = StateWithdrawn, now.hashes
		return c.audit("proposal.withdraw", "proposal/"+e.ID, map[string]any{"reason": reason})
	})
}

// EditRequest changes a draft. Flow nil keeps the content; a flow with another digest dismisses every approval
// and makes the actor an editor, who may not approve. Owner names the principal who must approve a destructive
// flow; it is no content.
type EditRequest struct {
	Flow       *flows.Flow
	Owner      *string
	IfRevision int64
}

// Edit changes the draft of an open proposal.
func (s *Service) Edit(ctx context.Context, actor Actor, ref string, req EditRequest) (*Proposal, error) {
	if req.Owner != nil && *req.Owner != "" {
		if err := checkPrincipal(*req.Owner); err != nil {
			return nil, err
		}
	}
	return s.changeProposal(ctx, actor, ref, ActionPropose, req.IfRevision, func(c *change, e *entry, _ content, _ Decision) error {
		before := e.Digest
		draft := *e.Flow
		if req.Flow != nil {
			draft = *req.Flow
			draft.Status = flows.StatusNeedsReview
			draft.Evidence = e.Flow.Evidence
			if draft.Name == "" || len(draft.Steps) == 0 {
				return flows.NewError(flows.CodeInvalid, "a draft needs a name and at least one step")
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
		e.Flow, e.Digest = &draft, flows.Digest(&draft)
		if e.Digest != before {
			if !e.wroteBy(actor.Principal) {
				e.Editors = append(e.Editors, actor.Principal)
			}
			e.Changed = "edited by " + actor.Principal + "; earlier approvals were dismissed"
			if err := c.dismiss(e); err != nil {
				return err
			}
		}
		tools, err := toolsIn(&c.Reader, c.tenant)
		if err != nil {
			return err
		}
		c.policy.judge(&e.Proposal, tools.contentOf(e.Flow))
		return c.audit("proposal.edit", "proposal/"+e.ID, map[string]any{"from": before, "to": e.Digest, "owner": e.owner()})
	})
}
