package store

import (
	"strings"
	"time"
)

// CommentRow is one remark on a proposal; N is its place among them, from 1.
type CommentRow struct {
	N         int
	ID        string
	Principal string
	Pointer   string // into the flow document; "" is the whole
	Anchor    string // digest of what the pointer leads to
	Digest    string // of the draft that it was made on
	Body      string
	At        time.Time
}

// Comments lists the remarks on a proposal, oldest first.
func (r *Reader) Comments(tenant, proposalID string) ([]CommentRow, error) {
	return collect(r, func(s scanner) (c CommentRow, err error) {
		var at int64
		err = s.Scan(&c.N, &c.ID, &c.Principal, &c.Pointer, &c.Anchor, &c.Digest, &c.Body, &at)
		c.At = fromMicros(at)
		return c, err
	}, `SELECT n, id, principal, pointer, anchor, digest, body, at FROM comments WHERE tenant = ? AND proposal_id = ? ORDER BY n`, tenant, proposalID)
}

// InsertComment stores a remark after the others of the proposal; N is set here.
func (tx *Tx) InsertComment(tenant, proposalID string, c CommentRow) error {
	_, err := tx.exec(`INSERT INTO comments (tenant, proposal_id, n, id, principal, pointer, anchor, digest, body, at)
		VALUES (?, ?, (SELECT coalesce(max(n), 0) + 1 FROM comments WHERE tenant = ? AND proposal_id = ?), ?, ?, ?, ?, ?, ?, ?)`,
		tenant, proposalID, tenant, proposalID, c.ID, c.Principal, c.Pointer, c.Anchor, c.Digest, c.Body, micros(c.At))
	return err
}

// ReplayCheck reads the newest check of a draft with this digest. Errors: ErrNotFound.
func (r *Reader) ReplayCheck(tenant, proposalID, digest string) (body []byte, err error) {
	err = r.row(`SELECT body FROM replay_checks WHERE tenant = ? AND proposal_id = ? AND digest = ?`, []any{tenant, proposalID, digest}, &body)
	return body, err
}

// PutReplayCheck stores a check in the place of an earlier one of the same digest.
func (tx *Tx) PutReplayCheck(tenant, proposalID, digest string, at time.Time, body []byte) error {
	_, err := tx.exec(`INSERT INTO replay_checks (tenant, proposal_id, digest, at, body) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (tenant, proposal_id, digest) DO UPDATE SET at = excluded.at, body = excluded.body`,
		tenant, proposalID, digest, micros(at), body)
	return err
}

// FlowTests lists the golden tests of a flow version, in their order.
func (r *Reader) FlowTests(tenant, flow, version string) ([][]byte, error) {
	return collect(r, func(s scanner) (body []byte, err error) {
		err = s.Scan(&body)
		return body, err
	}, `SELECT body FROM flow_tests WHERE tenant = ? AND flow = ? AND version = ? ORDER BY n`, tenant, flow, version)
}

// InsertFlowTests stores the golden tests of a new flow version.
func (tx *Tx) InsertFlowTests(tenant, flow, version string, bodies [][]byte) error {
	for n, body := range bodies {
		if _, err := tx.exec(`INSERT INTO flow_tests (tenant, flow, version, n, body) VALUES (?, ?, ?, ?, ?)`,
			tenant, flow, version, n+1, body); err != nil {
			return err
		}
	}
	return nil
}

// ProposalsSettled lists proposals in one of the states of whose pattern nothing newer was proposed, the last changed
// first.
func (r *Reader) ProposalsSettled(tenant string, limit int, states ...string) ([]ProposalRow, error) {
	args := []any{tenant}
	for _, s := range states {
		args = append(args, s)
	}
	return r.proposals(`state IN (?`+strings.Repeat(", ?", len(states)-1)+`) AND NOT EXISTS (SELECT 1 FROM proposals o
		WHERE o.tenant = proposals.tenant AND o.pattern_key = proposals.pattern_key AND o.created_at > proposals.created_at)
		ORDER BY updated_at DESC, id LIMIT ?`, append(args, clampLimit(limit))...)
}

// Shadow reads what an object predicted. Errors: ErrNotFound.
func (r *Reader) Shadow(tenant, object string) (body []byte, err error) {
	err = r.row(`SELECT body FROM shadows WHERE tenant = ? AND object = ?`, []any{tenant, object}, &body)
	return body, err
}

// PutShadow stores what an object predicted.
func (tx *Tx) PutShadow(tenant, object string, body []byte) error {
	_, err := tx.exec(`INSERT INTO shadows (tenant, object, body) VALUES (?, ?, ?)
		ON CONFLICT (tenant, object) DO UPDATE SET body = excluded.body`, tenant, object, body)
	return err
}
