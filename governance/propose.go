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

// Outcome says what Propose did with a candidate.
type Outcome string

const (
	OutcomeCreated    Outcome = "created"    // a new proposal
	OutcomeReturned   Outcome = "returned"   // a new proposal for a pattern that was rejected, with what changed since
	OutcomeUpdated    Outcome = "updated"    // same draft, newer evidence
	OutcomeChanged    Outcome = "changed"    // the draft changed; approvals are dismissed
	OutcomeUnchanged  Outcome = "unchanged"  // nothing new
	OutcomeSuppressed Outcome = "suppressed" // rejected or promoted already
	OutcomeCapped     Outcome = "capped"     // the queue is full
)

// ProposeItem is the outcome of one candidate. ProposalID is the proposal made, updated or standing in the way.
type ProposeItem struct {
	PatternKey string
	Flow       string
	Outcome    Outcome
	ProposalID string
	Reason     string
}

// ProposeReport lists the outcome of each candidate, in their order.
type ProposeReport struct {
	Items []ProposeItem
}

// Count is the number of candidates with an outcome.
func (r *ProposeReport) Count(o Outcome) int {
	n := 0
	for _, item := range r.Items {
		if item.Outcome == o {
			n++
		}
	}
	return n
}

// Propose brings the candidates of one analysis into the queue, in one transaction. It is idempotent: the same
// candidates again change nothing. "The same thing" is the pattern key; what was reviewed is the digest.
//
//   - In the queue, same digest: evidence, savings and rank are updated in place.
//   - In the queue, other digest: the draft is replaced and approvals are dismissed, unless a person edited the
//     draft, whose edit stays.
//   - Rejected or withdrawn: suppressed until support doubled, exactness rose by 5 points or a tool's schema
//     changed.
//   - Promoted, same digest: suppressed.
//   - A schema chain whose path was mined: suppressed; one that waits when its path is mined, and that nobody
//     touched, is superseded. The recorded values say more about the same flow than its schemas do.
func (s *Service) Propose(ctx context.Context, actor Actor, candidates []analyzer.Candidate) (ProposeReport, error) {
	var report ProposeReport
	err := s.update(ctx, actor, ActionPropose, func(c *change) error {
		report.Items = nil
		tools, err := toolsIn(&c.Reader, c.tenant)
		if err != nil {
			return err
		}
		q, err := newQueue(c, tools)
		if err != nil {
			return err
		}
		for i := range candidates {
			item, err := q.take(&candidates[i])
			if err != nil {
				return fmt.Errorf("candidate %s: %w", candidates[i].PatternKey, err)
			}
			report.Items = append(report.Items, item)
		}
		return nil
	})
	if err != nil {
		return ProposeReport{}, err
	}
	return report, nil
}

// queue is the state of the queue during one Propose.
type queue struct {
	*change
	tools   *library
	pending map[analyzer.Source]int
}

func newQueue(c *change, tools *library) (*queue, error) {
	waiting, err := c.CountProposals(c.tenant, openStates...)
	if err != nil {
		return nil, err
	}
	q := &queue{change: c, tools: tools, pending: map[analyzer.Source]int{}}
	for source, n := range waiting {
		q.pending[analyzer.Source(source)] = n
	}
	return q, nil
}

func (q *queue) take(cand *analyzer.Candidate) (ProposeItem, error) {
	item := ProposeItem{PatternKey: cand.PatternKey, Flow: cand.Flow.Name}
	for _, key := range cand.Orders {
		if err := q.supersede(cand, key, "the same flow is proposed, in whichever order its independent steps run"); err != nil {
			return item, err
		}
	}
	rows, err := q.ProposalsOfPattern(q.tenant, cand.PatternKey)
	if err != nil {
		return item, err
	}
	for _, row := range rows {
		switch {
		case slices.Contains(openStates, row.State):
			return q.refresh(cand, row, item)
		case row.State == string(StatePromoted) && row.CandidateDigest == cand.Digest:
			item.ProposalID, item.Outcome, item.Reason = row.ID, OutcomeSuppressed, "promoted already as "+row.PromotedAs
			return item, nil
		}
	}
	if path, chain := strings.CutPrefix(cand.PatternKey, string(analyzer.SourceAnalyzer)+"/"); chain {
		mined, err := q.ProposalsOfPattern(q.tenant, string(analyzer.SourceMiner)+"/"+path)
		if err != nil {
			return item, err
		}
		if len(mined) > 0 {
			item.ProposalID, item.Outcome, item.Reason = mined[0].ID, OutcomeSuppressed, "the same path was mined: "+mined[0].State
			return item, nil
		}
	}
	returned := ""
	if len(rows) > 0 {
		old, err := load(&q.Reader, q.tenant, rows[0])
		if err != nil {
			return item, err
		}
		item.ProposalID = old.ID
		if old.State == StateRejected || old.State == StateWithdrawn {
			if returned = q.since(old, cand); returned == "" {
				item.Outcome, item.Reason = OutcomeSuppressed, fmt.Sprintf("%s before, and nothing changed enough since", old.State)
				return item, nil
			}
		}
	}
	if q.pending[cand.Source] >= q.limit(cand.Source) {
		item.Outcome, item.Reason = OutcomeCapped, fmt.Sprintf("%d proposals of this queue wait already", q.pending[cand.Source])
		return item, nil
	}
	return q.create(cand, returned, item)
}

func (q *queue) limit(source analyzer.Source) int {
	if source == analyzer.SourceAnalyzer {
		return q.policy.MaxPendingAnalyzer
	}
	return q.policy.MaxPending
}

// since says what changed enough after a rejection for the candidate to come back, "" when nothing did.
func (q *queue) since(old *entry, cand *analyzer.Candidate) string {
	was, is := support(old.Evidence), support(cand.Evidence)
	if was > 0 && is >= 2*was {
		return fmt.Sprintf("support rose from %d to %d sessions", was, is)
	}
	before, now := exactness(old.Evidence), exactness(cand.Evidence)
	if before >= 0 && now-before >= 0.05-1e-9 {
		return fmt.Sprintf("%s rose from %.0f %% to %.0f %%", exactnessName(cand.Evidence), 100*before, 100*now)
	}
	if changed := changedTools(old.ToolHashes, q.tools.contentOf(cand.Flow).hashes); len(changed) > 0 {
		return fmt.Sprintf("the schema of %v changed", changed)
	}
	return ""
}

// support is the number of sessions behind a mined candidate, 0 for a schema chain.
func support(e analyzer.Evidence) int {
	if e.Pattern == nil {
		return 0
	}
	return e.Pattern.Sessions
}

// exactness is the share of sampled occurrences that the mapping reproduced in full or, of a flow that takes whole calls, in
// which callers knew several; -1 when none were examined.
func exactness(e analyzer.Evidence) float64 {
	if e.Pattern == nil || e.Pattern.DataFlow == nil || e.Pattern.DataFlow.Sampled == 0 {
		return -1
	}
	return float64(e.Pattern.DataFlow.Explained) / float64(e.Pattern.DataFlow.Sampled)
}

// exactnessName is what exactness is a share of.
func exactnessName(e analyzer.Evidence) string {
	if e.Pattern != nil && e.Pattern.Batch != nil {
		return "the share in which callers knew several calls"
	}
	return "exactness"
}

// supersedeChain takes the schema chain of a mined candidate's path out of the queue. It comes before the candidate is
// named, so that the name is free again.
func (q *queue) supersedeChain(cand *analyzer.Candidate) error {
	path, mined := strings.CutPrefix(cand.PatternKey, string(analyzer.SourceMiner)+"/")
	if !mined {
		return nil
	}
	return q.supersede(cand, string(analyzer.SourceAnalyzer)+"/"+path, "the same path was mined from recorded values")
}

// supersede takes what a candidate replaces out of the queue, unless somebody reviewed or edited it already.
func (q *queue) supersede(cand *analyzer.Candidate, key, reason string) error {
	rows, err := q.ProposalsOfPattern(q.tenant, key)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if !slices.Contains(openStates, row.State) {
			continue
		}
		old, err := load(&q.Reader, q.tenant, row)
		if err != nil {
			return err
		}
		if len(old.Reviews) > 0 || len(old.Editors) > 0 {
			continue
		}
		old.State, old.Closed = StateSuperseded, &Closing{By: q.actor.Principal, Reason: reason, At: q.at}
		if err := q.save(old); err != nil {
			return err
		}
		q.pending[old.Source]--
		if err := q.audit("proposal.supersede", "proposal/"+old.ID, map[string]any{"by": cand.PatternKey}); err != nil {
			return err
		}
	}
	return nil
}

func (q *queue) create(cand *analyzer.Candidate, returned string, item ProposeItem) (ProposeItem, error) {
	if err := q.supersedeChain(cand); err != nil {
		return item, err
	}
	flow, err := q.named(cand.Flow, cand.PatternKey)
	if err != nil {
		return item, err
	}
	digest := cand.Digest
	if flow != cand.Flow {
		digest = flows.Digest(flow)
	}
	now := q.tools.contentOf(flow)
	e := &entry{Proposal: Proposal{
		ID: q.s.newID(), Tenant: q.tenant, State: StateProposed, Source: cand.Source, PatternKey: cand.PatternKey, Digest: digest,
		Revision: 1, Flow: flow, Author: MinerPrincipal, Evidence: cand.Evidence, Savings: cand.Savings, Warnings: cand.Warnings,
		Rank: cand.Rank, Score: cand.Score, CreatedAt: q.at, UpdatedAt: q.at, Returned: returned, ToolHashes: now.hashes,
	}}
	q.policy.judge(&e.Proposal, now)
	e.row.CandidateDigest = cand.Digest
	row, err := e.toRow()
	if err != nil {
		return item, err
	}
	if err := q.InsertProposal(q.tenant, row); err != nil {
		return item, err
	}
	item.ProposalID, item.Flow, item.Outcome, item.Reason = e.ID, flow.Name, OutcomeCreated, returned
	if returned != "" {
		item.Outcome = OutcomeReturned
	}
	q.pending[cand.Source]++
	return item, q.audit("proposal.create", "proposal/"+e.ID, map[string]any{"flow": flow.Name, "digest": digest,
		"source": cand.Source, "pattern": cand.PatternKey, "returned": returned})
}

// named returns the flow under a name that no other pattern's proposal or flow has: its own where it is free,
// else with a number.
func (q *queue) named(f *flows.Flow, patternKey string) (*flows.Flow, error) {
	for n := 1; ; n++ {
		name := f.Name
		if n > 1 {
			name = fmt.Sprintf("%s_%d", f.Name, n)
		}
		taken, err := q.nameTaken(name, patternKey)
		if err != nil {
			return nil, err
		}
		if !taken && n == 1 {
			return f, nil
		}
		if !taken {
			renamed := *f
			renamed.Name = name
			return &renamed, nil
		}
	}
}

func (q *queue) nameTaken(name, patternKey string) (bool, error) {
	rows, err := q.ProposalsNamed(q.tenant, name)
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		gone := row.State == string(StateRejected) || row.State == string(StateWithdrawn) || row.State == string(StateSuperseded)
		if row.PatternKey != patternKey && !gone {
			return true, nil
		}
	}
	return false, nil
}

// refresh brings a candidate into the open proposal of its pattern.
func (q *queue) refresh(cand *analyzer.Candidate, row store.ProposalRow, item ProposeItem) (ProposeItem, error) {
	e, err := load(&q.Reader, q.tenant, row)
	if err != nil {
		return item, err
	}
	before, err := e.toRow()
	if err != nil {
		return item, err
	}
	item.ProposalID, item.Outcome, item.Flow = e.ID, OutcomeUpdated, e.Flow.Name
	e.Evidence, e.Savings, e.Warnings, e.Rank, e.Score = cand.Evidence, cand.Savings, cand.Warnings, cand.Rank, cand.Score
	if row.CandidateDigest != cand.Digest {
		e.row.CandidateDigest = cand.Digest
		if err := q.redraft(e, cand, &item); err != nil {
			return item, err
		}
	}
	q.policy.judge(&e.Proposal, q.tools.contentOf(e.Flow))
	after, err := e.toRow()
	if err != nil {
		return item, err
	}
	if item.Outcome == OutcomeUpdated && sameRow(before, after) {
		item.Outcome = OutcomeUnchanged
		return item, nil
	}
	if err := q.save(e); err != nil {
		return item, err
	}
	return item, q.audit("proposal.refresh", "proposal/"+e.ID, map[string]any{"outcome": item.Outcome, "digest": e.Digest, "reason": item.Reason})
}

// redraft replaces the draft by the candidate's, unless a person edited it.
func (q *queue) redraft(e *entry, cand *analyzer.Candidate, item *ProposeItem) error {
	if len(e.Editors) > 0 {
		item.Reason = "mining now finds another draft; the edited one was kept"
		e.Changed = item.Reason
		return nil
	}
	flow := *cand.Flow
	flow.Name = e.Flow.Name // the name may have been made unique, and reviewers know it
	if e.Flow.Governance != nil && e.Flow.Governance.Owner != "" {
		var g flows.Governance
		if flow.Governance != nil {
			g = *flow.Governance
		}
		g.Owner = e.Flow.Governance.Owner
		flow.Governance = &g
	}
	e.Flow, e.Digest = &flow, flows.Digest(&flow)
	e.Changed = "a later mining pass changed the draft; earlier approvals were dismissed"
	item.Outcome, item.Reason = OutcomeChanged, e.Changed
	return q.dismiss(e)
}

// dismiss makes every review so far count no more, because the content changed.
func (c *change) dismiss(e *entry) error {
	for i := range e.Reviews {
		e.Reviews[i].Dismissed = true
	}
	return c.DismissReviews(c.tenant, e.ID, "")
}

// dismissApprovals makes the approvals so far count no more, because tools changed. Requests for changes stand.
func (c *change) dismissApprovals(e *entry) error {
	for i := range e.Reviews {
		if e.Reviews[i].Verdict != VerdictApprove || e.Reviews[i].Dismissed {
			continue
		}
		e.Reviews[i].Dismissed = true
		// A principal has one review that counts.
		if err := c.DismissReviews(c.tenant, e.ID, e.Reviews[i].Principal); err != nil {
			return err
		}
	}
	return nil
}

func sameRow(a, b store.ProposalRow) bool {
	return a.State == b.State && a.Digest == b.Digest && a.CandidateDigest == b.CandidateDigest && a.Rank == b.Rank &&
		a.Score == b.Score && string(a.Body) == string(b.Body)
}

// Submit puts a draft that a person or a service wrote into the queue, with the actor as its author.
func (s *Service) Submit(ctx context.Context, actor Actor, flow *flows.Flow) (*Proposal, error) {
	return s.submit(ctx, actor, flow, SourceSubmitted)
}

// SubmitExternal does the same for a draft that another generator made, such as a model: the actor is its author, and
// it passes the same checks as any other, those of mined ones too: the queue has an end, and what was rejected does not
// come back unchanged.
func (s *Service) SubmitExternal(ctx context.Context, actor Actor, flow *flows.Flow) (*Proposal, error) {
	return s.submit(ctx, actor, flow, SourceExternal)
}

// admitExternal holds the draft of a generator against the queue and the memory of rejections. rows are the proposals of
// its name, the newest first.
func (c *change) admitExternal(rows []store.ProposalRow, digest string, now content) error {
	open, err := c.CountProposals(c.tenant, openStates...)
	if err != nil {
		return err
	}
	if waiting := open[string(SourceExternal)]; waiting >= c.policy.MaxPending {
		return flows.NewError(flows.CodeFull, fmt.Sprintf("%d external proposals wait already; the policy's max_pending is %d", waiting, c.policy.MaxPending))
	}
	for _, row := range rows {
		if row.Digest != digest || row.State != string(StateRejected) && row.State != string(StateWithdrawn) {
			continue
		}
		old, err := load(&c.Reader, c.tenant, row)
		if err != nil {
			return err
		}
		if len(changedTools(old.ToolHashes, now.hashes)) == 0 {
			return flows.NewError(flows.CodeConflict, fmt.Sprintf("this draft was %s as proposal %s: %s; propose it when it differs, or when the schema of one of its tools changed",
				old.State, old.ID, rejectionOf(old).Reason))
		}
	}
	return nil
}

// checkDraft refuses a draft that could not become a flow.
func checkDraft(flow *flows.Flow) error {
	if flow == nil || len(flow.Steps) == 0 {
		return flows.NewError(flows.CodeInvalid, "a draft needs at least one step")
	}
	return flows.CheckName(flow.Name)
}

func (s *Service) submit(ctx context.Context, actor Actor, flow *flows.Flow, source analyzer.Source) (*Proposal, error) {
	if err := checkDraft(flow); err != nil {
		return nil, err
	}
	var e *entry
	err := s.update(ctx, actor, ActionPropose, func(c *change) error {
		given, err := c.inlined(flow)
		if err != nil {
			return err
		}
		digest, draft := flows.Digest(given), *given
		draft.Status = flows.StatusNeedsReview
		key := "submitted:" + flow.Name
		rows, err := c.ProposalsNamed(c.tenant, flow.Name)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if slices.Contains(openStates, row.State) {
				return flows.NewError(flows.CodeExists, fmt.Sprintf("proposal %s for a flow %q is open already; edit it or take another name", row.ID, flow.Name))
			}
			if row.State == string(StatePromoted) {
				key = row.PatternKey // the next version of the same thing
			}
		}
		tools, err := toolsIn(&c.Reader, c.tenant)
		if err != nil {
			return err
		}
		now := tools.contentOf(&draft)
		if source == SourceExternal {
			if err := c.admitExternal(rows, digest, now); err != nil {
				return err
			}
		}
		e = &entry{Proposal: Proposal{ID: s.newID(), Tenant: c.tenant, State: StateProposed, Source: source, PatternKey: key,
			Digest: digest, Revision: 1, Flow: &draft, Author: actor.Principal, CreatedAt: c.at, UpdatedAt: c.at, ToolHashes: now.hashes}}
		c.policy.judge(&e.Proposal, now)
		row, err := e.toRow()
		if err != nil {
			return err
		}
		if err := c.InsertProposal(c.tenant, row); err != nil {
			return err
		}
		return c.audit("proposal.submit", "proposal/"+e.ID, map[string]any{"flow": flow.Name, "digest": digest, "source": source})
	})
	if err != nil {
		return nil, err
	}
	return s.withCheck(ctx, actor, &e.Proposal), nil
}
