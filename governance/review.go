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

// ProposalFilter selects and pages proposals. Empty States means all; Sort is rank (default), score, created, updated
// or savings; Limit 0 means 50, at most 500; Cursor is a previous page's Next.
type ProposalFilter struct {
	States []State
	Source analyzer.Source
	// Assignee is a principal; "" selects all.
	Assignee string
	Sort     string
	Limit    int
	Cursor   string
}

// Proposals lists proposals as they stand with the current tools and policy.
func (s *Service) Proposals(ctx context.Context, actor Actor, f ProposalFilter) (page Page[Proposal], err error) {
	if f.Sort != "" && !slices.Contains(store.ProposalSorts, f.Sort) {
		return page, flows.NewError(flows.CodeInvalid, fmt.Sprintf("sort %q: use one of %v", f.Sort, store.ProposalSorts))
	}
	q := store.ProposalQuery{Source: string(f.Source), Assignee: f.Assignee, Sort: f.Sort, Limit: f.Limit, Cursor: f.Cursor}
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
		now := tools.contentOf(e.Flow)
		policy.judge(&e.Proposal, now)
		p = &e.Proposal
		if err := e.findings(r); err != nil || !p.Open() {
			return err
		}
		p.Next, err = bumpIn(r, tenant, p.Flow, now)
		return err
	})
	return p, err
}

// ReviewRequest is a verdict. Digest says which content was read: an approval must name it, other verdicts may.
// A rejection and a request for changes need a comment. IfRevision 0 means that none was given.
type ReviewRequest struct {
	Verdict  Verdict
	Feedback Feedback // of a request for changes; "" is FeedbackOther
	Digest   string
	Comment  string
	// Safety declares what tools of the draft do whose safety is not known; only with an approval.
	Safety     []SafetyDeclaration
	IfRevision int64
}

func (r *ReviewRequest) check() error {
	if err := r.checkFeedback(); err != nil {
		return err
	}
	if err := r.checkSafety(); err != nil {
		return err
	}
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

func (r *ReviewRequest) checkFeedback() error {
	switch {
	case r.Verdict == VerdictRequestChanges && r.Feedback == "":
		r.Feedback = FeedbackOther
	case r.Feedback == "":
	case r.Verdict != VerdictRequestChanges:
		return flows.NewError(flows.CodeInvalid, "only a request for changes carries feedback",
			flows.ErrorDetail{Pointer: "/feedback", Code: "invalid", Detail: "only with request_changes"})
	case !slices.Contains([]Feedback{FeedbackMapping, FeedbackSchema, FeedbackNoFlow, FeedbackOther}, r.Feedback):
		return flows.NewError(flows.CodeInvalid, fmt.Sprintf("feedback %q: use mapping_wrong, schema_too_loose, not_a_flow or other", r.Feedback),
			flows.ErrorDetail{Pointer: "/feedback", Code: "invalid", Detail: "mapping_wrong, schema_too_loose, not_a_flow or other"})
	}
	return nil
}

// Review records a verdict on a proposal. A principal has one valid review at a time: a new one takes the place
// of the old. An approval counts for exactly the digest it names; a draft that does not compile gets none (CodeCompile).
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
		if len(req.Safety) > 0 {
			var err error
			if now, err = c.declareSafety(e, req.Safety); err != nil {
				return err
			}
		}
		if req.Verdict == VerdictApprove {
			if err := c.checkApprovable(e.Flow, now); err != nil {
				return err
			}
		}
		if len(changedTools(e.ToolHashes, now.hashes)) > 0 {
			// Earlier approvers saw other tool schemas than this reviewer does.
			if err := c.dismissApprovals(e); err != nil {
				return err
			}
		}
		return c.review(e, req, now, d.Solo)
	})
}

// review applies a verdict that was permitted.
func (c *change) review(e *entry, req ReviewRequest, now content, solo bool) error {
	if err := c.addReview(e, req, solo); err != nil {
		return err
	}
	e.ToolHashes = now.hashes
	c.policy.judge(&e.Proposal, now)
	if req.Verdict == VerdictReject {
		e.State, e.Closed = StateRejected, &Closing{By: c.actor.Principal, Reason: req.Comment, At: c.at}
	}
	if err := c.audit("proposal."+string(req.Verdict), "proposal/"+e.ID,
		map[string]any{"digest": e.Digest, "comment": req.Comment, "solo": solo, "state": e.State}); err != nil {
		return err
	}
	if req.Verdict != VerdictApprove || e.State != StateApproved {
		return nil
	}
	return c.notify(EventProposalApproved, "proposal/"+e.ID, map[string]any{"flow": e.Flow.Name, "digest": e.Digest, "approvals": e.Approvals})
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
	v := Review{ID: c.s.newID(), Principal: c.actor.Principal, Verdict: req.Verdict, Feedback: req.Feedback, Digest: e.Digest, Comment: req.Comment, Solo: solo, At: c.at}
	e.Reviews = append(e.Reviews, v)
	return c.InsertReview(c.tenant, e.ID, store.ReviewRow{ID: v.ID, Principal: v.Principal, Verdict: string(v.Verdict),
		Feedback: string(v.Feedback), Digest: v.Digest, Comment: v.Comment, Solo: v.Solo, At: v.At})
}

// changeProposal runs one mutation of one proposal: it loads it, judges it by the current tools, compares the
// revision, asks Decide, applies fn and saves.
func (s *Service) changeProposal(ctx context.Context, actor Actor, ref string, action Action, ifRevision int64,
	fn func(*change, *entry, content, Decision) error) (*Proposal, error) {
	var e *entry
	err := s.transact(ctx, actor, func(c *change) (err error) {
		tools, err := toolsIn(&c.Reader, c.tenant)
		if err != nil {
			return err
		}
		e, err = c.changeOne(ref, action, ifRevision, tools, fn)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &e.Proposal, nil
}

// changeOne is changeProposal inside a transaction.
func (c *change) changeOne(ref string, action Action, ifRevision int64, tools *library,
	fn func(*change, *entry, content, Decision) error) (*entry, error) {
	e, err := find(&c.Reader, c.tenant, ref)
	if err != nil {
		return nil, err
	}
	if err := e.findings(&c.Reader); err != nil {
		return nil, err
	}
	now := tools.contentOf(e.Flow)
	c.policy.judge(&e.Proposal, now)
	if err := checkRevision("proposal "+e.ID, ifRevision, e.Revision); err != nil {
		return nil, err
	}
	d := c.policy.Decide(c.actor, action, &e.Proposal)
	if err := d.Err(); err != nil {
		return nil, err
	}
	if err := fn(c, e, now, d); err != nil {
		return nil, err
	}
	return e, c.save(e)
}

// Withdraw takes a proposal out of the queue: by its author, or by who may promote.
func (s *Service) Withdraw(ctx context.Context, actor Actor, ref, reason string, ifRevision int64) (*Proposal, error) {
	return s.changeProposal(ctx, actor, ref, ActionWithdraw, ifRevision, func(c *change, e *entry, now content, _ Decision) error {
		e.State, e.ToolHashes = StateWithdrawn, now.hashes
		e.Closed = &Closing{By: actor.Principal, Reason: reason, At: c.at}
		return c.audit("proposal.withdraw", "proposal/"+e.ID, map[string]any{"reason": reason})
	})
}
