package store

import (
	"fmt"
	"strings"
	"time"
)

// ProposalRow is one proposal. CandidateDigest is the digest of the last mined candidate behind it, which an
// edit by a person or a new name does not change; Digest is that of the draft.
type ProposalRow struct {
	ID              string
	State           string
	Source          string
	PatternKey      string
	FlowName        string
	Digest          string
	CandidateDigest string
	Revision        int64
	Author          string
	Rank            int
	Score           float64
	CreatedAt       time.Time
	UpdatedAt       time.Time
	PromotedAs      string
	Assignee        string  // "" for nobody
	Savings         float64 // model calls avoided a week, 0 where nothing is known
	Body            []byte  // draft, evidence and the rest as JSON
}

// ReviewRow is one review; N is its place among the proposal's reviews, from 1.
type ReviewRow struct {
	N         int
	ID        string
	Principal string
	Verdict   string
	Feedback  string
	Digest    string
	Comment   string
	Solo      bool
	Dismissed bool
	At        time.Time
}

// ProposalQuery selects and pages proposals. Empty fields select everything; Sort is a key of ProposalSorts,
// "" means "rank".
type ProposalQuery struct {
	States   []string
	Source   string
	Assignee string
	Sort     string
	Limit    int
	Cursor   string
}

// proposalOrders is the closed set of sorts: mined proposals before the analyzer's lower queue, and so on.
var proposalOrders = map[string]order{
	"rank":    {expr: `((source <> 'miner') * 1000000000 + rank)`},
	"score":   {expr: `score`, desc: true},
	"created": {expr: `created_at`, desc: true},
	"updated": {expr: `updated_at`, desc: true},
	"savings": {expr: `savings`, desc: true},
}

// ProposalSorts names the sorts of ProposalQuery.
var ProposalSorts = []string{"rank", "score", "created", "updated", "savings"}

const proposalColumns = `id, state, source, pattern_key, flow_name, digest, candidate_digest, revision, author, rank, score,
	created_at, updated_at, promoted_as, assignee, savings, body`

func scanProposal(s scanner, more ...any) (p ProposalRow, err error) {
	var created, updated int64
	err = s.Scan(append([]any{&p.ID, &p.State, &p.Source, &p.PatternKey, &p.FlowName, &p.Digest, &p.CandidateDigest, &p.Revision,
		&p.Author, &p.Rank, &p.Score, &created, &updated, &p.PromotedAs, &p.Assignee, &p.Savings, &p.Body}, more...)...)
	p.CreatedAt, p.UpdatedAt = fromMicros(created), fromMicros(updated)
	return p, err
}

// Proposals lists proposals. Errors: ErrCursor, also for a cursor of another sort.
func (r *Reader) Proposals(tenant string, q ProposalQuery) (Page[ProposalRow], error) {
	sort := q.Sort
	if sort == "" {
		sort = "rank"
	}
	o, ok := proposalOrders[sort]
	if !ok {
		return Page[ProposalRow]{}, fmt.Errorf("no such sort %q", sort)
	}
	pq := pageQuery{table: "proposals", columns: proposalColumns, where: []string{"tenant = ?"}, args: []any{tenant},
		sort: sort, order: o, limit: q.Limit, cursor: q.Cursor, chosen: true}
	if len(q.States) > 0 {
		pq.where = append(pq.where, "state IN (?"+strings.Repeat(", ?", len(q.States)-1)+")")
		for _, s := range q.States {
			pq.args = append(pq.args, s)
		}
	}
	if q.Source != "" {
		pq.where = append(pq.where, "source = ?")
		pq.args = append(pq.args, q.Source)
	}
	if q.Assignee != "" {
		pq.where = append(pq.where, "assignee = ?")
		pq.args = append(pq.args, q.Assignee)
	}
	return readPage(r, pq, func(s scanner, key *float64, id *string) (ProposalRow, error) {
		return scanProposal(s, key, id)
	})
}

// Proposal reads one proposal. Errors: ErrNotFound.
func (r *Reader) Proposal(tenant, id string) (ProposalRow, error) {
	return first(r.proposals(`id = ?`, tenant, id))
}

// ProposalsLike lists proposals whose id starts with prefix, and those for the flow of that name, newest first.
func (r *Reader) ProposalsLike(tenant, prefixOrName string) ([]ProposalRow, error) {
	return r.proposals(`id IN (SELECT id FROM proposals INDEXED BY proposals_name
		WHERE tenant = ? AND (substr(id, 1, length(?)) = ? OR flow_name = ?)) ORDER BY created_at DESC, id LIMIT 50`,
		tenant, tenant, prefixOrName, prefixOrName, prefixOrName)
}

// ProposalsNamed lists every proposal for the flow of a name, newest first.
func (r *Reader) ProposalsNamed(tenant, flowName string) ([]ProposalRow, error) {
	return r.proposals(`flow_name = ? ORDER BY created_at DESC, id`, tenant, flowName)
}

// ProposalsOfPattern lists every proposal made for a pattern, newest first.
func (r *Reader) ProposalsOfPattern(tenant, patternKey string) ([]ProposalRow, error) {
	return r.proposals(`pattern_key = ? ORDER BY created_at DESC, id DESC`, tenant, patternKey)
}

// CountProposals counts the proposals in one of the states, by source.
func (r *Reader) CountProposals(tenant string, states ...string) (map[string]int, error) {
	args := []any{tenant}
	for _, s := range states {
		args = append(args, s)
	}
	type counted struct {
		source string
		n      int
	}
	rows, err := collect(r, func(s scanner) (c counted, err error) {
		err = s.Scan(&c.source, &c.n)
		return c, err
	}, `SELECT source, count(*) FROM proposals WHERE tenant = ? AND state IN (?`+strings.Repeat(", ?", len(states)-1)+`) GROUP BY source`, args...)
	out := map[string]int{}
	for _, c := range rows {
		out[c.source] = c.n
	}
	return out, err
}

// ProposalsInStates lists every proposal in one of the states, best rank first.
func (r *Reader) ProposalsInStates(tenant string, states ...string) ([]ProposalRow, error) {
	if len(states) == 0 {
		return nil, nil
	}
	args := []any{tenant}
	for _, s := range states {
		args = append(args, s)
	}
	return r.proposals(`state IN (?`+strings.Repeat(", ?", len(states)-1)+`) ORDER BY source DESC, rank, id`, args...)
}

func (r *Reader) proposals(where string, args ...any) ([]ProposalRow, error) {
	return collect(r, func(s scanner) (ProposalRow, error) { return scanProposal(s) },
		`SELECT `+proposalColumns+` FROM proposals WHERE tenant = ? AND `+where, args...)
}

func first[T any](rows []T, err error) (T, error) {
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		var none T
		return none, err
	}
	return rows[0], nil
}

// InsertProposal stores a new proposal. Errors: ErrExists.
func (tx *Tx) InsertProposal(tenant string, p ProposalRow) error {
	_, err := tx.exec(`INSERT INTO proposals (tenant, `+proposalColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		tenant, p.ID, p.State, p.Source, p.PatternKey, p.FlowName, p.Digest, p.CandidateDigest, p.Revision, p.Author, p.Rank, p.Score,
		micros(p.CreatedAt), micros(p.UpdatedAt), p.PromotedAs, p.Assignee, p.Savings, p.Body)
	return err
}

// UpdateProposal stores p over the row whose revision is still ifRevision; p.Revision is the new one. Id,
// source, pattern, author and creation time stay. Errors: ErrStale.
func (tx *Tx) UpdateProposal(tenant string, p ProposalRow, ifRevision int64) error {
	return tx.swap(`UPDATE proposals SET state = ?, flow_name = ?, digest = ?, candidate_digest = ?, revision = ?, rank = ?,
		score = ?, updated_at = ?, promoted_as = ?, assignee = ?, savings = ?, body = ? WHERE tenant = ? AND id = ? AND revision = ?`,
		p.State, p.FlowName, p.Digest, p.CandidateDigest, p.Revision, p.Rank, p.Score, micros(p.UpdatedAt), p.PromotedAs, p.Assignee, p.Savings, p.Body,
		tenant, p.ID, ifRevision)
}

// Reviews lists the reviews of a proposal, oldest first.
func (r *Reader) Reviews(tenant, proposalID string) ([]ReviewRow, error) {
	return collect(r, func(s scanner) (v ReviewRow, err error) {
		var at int64
		err = s.Scan(&v.N, &v.ID, &v.Principal, &v.Verdict, &v.Feedback, &v.Digest, &v.Comment, &v.Solo, &v.Dismissed, &at)
		v.At = fromMicros(at)
		return v, err
	}, `SELECT n, id, principal, verdict, feedback, digest, comment, solo, dismissed, at FROM reviews
		WHERE tenant = ? AND proposal_id = ? ORDER BY n`, tenant, proposalID)
}

// InsertReview stores a review after the others of the proposal; N is set here.
func (tx *Tx) InsertReview(tenant, proposalID string, v ReviewRow) error {
	_, err := tx.exec(`INSERT INTO reviews (tenant, proposal_id, n, id, principal, verdict, feedback, digest, comment, solo, dismissed, at)
		VALUES (?, ?, (SELECT coalesce(max(n), 0) + 1 FROM reviews WHERE tenant = ? AND proposal_id = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		tenant, proposalID, tenant, proposalID, v.ID, v.Principal, v.Verdict, v.Feedback, v.Digest, v.Comment, v.Solo, v.Dismissed, micros(v.At))
	return err
}

// DismissReviews dismisses the reviews of a proposal: all of them (principal ""), or those of one principal.
func (tx *Tx) DismissReviews(tenant, proposalID, principal string) error {
	_, err := tx.exec(`UPDATE reviews SET dismissed = 1 WHERE tenant = ? AND proposal_id = ? AND (? = '' OR principal = ?)`,
		tenant, proposalID, principal, principal)
	return err
}
