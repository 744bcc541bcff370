package store

import "strings"

// FlowTestRow is one golden test of a flow version.
type FlowTestRow struct {
	Flow, Version string
	N             int
	Body          []byte
}

// CheckRow is one kept replay check.
type CheckRow struct {
	ProposalID, Digest string
	Body               []byte
}

// EachFlowTest calls fn with every golden test of the tenant. It stops at fn's error. So do the other Each methods.
func (r *Reader) EachFlowTest(tenant string, fn func(FlowTestRow) error) error {
	return each(r, func(s scanner) (t FlowTestRow, err error) {
		err = s.Scan(&t.Flow, &t.Version, &t.N, &t.Body)
		return t, err
	}, fn, `SELECT flow, version, n, body FROM flow_tests WHERE tenant = ?`, tenant)
}

// EachReplayCheck calls fn with every kept replay check.
func (r *Reader) EachReplayCheck(tenant string, fn func(CheckRow) error) error {
	return each(r, func(s scanner) (c CheckRow, err error) {
		err = s.Scan(&c.ProposalID, &c.Digest, &c.Body)
		return c, err
	}, fn, `SELECT proposal_id, digest, body FROM replay_checks WHERE tenant = ?`, tenant)
}

// EachProposalBody calls fn with the id and the body of every proposal.
func (r *Reader) EachProposalBody(tenant string, fn func(id string, body []byte) error) error {
	return r.eachBody(`SELECT id, body FROM proposals WHERE tenant = ?`, tenant, fn)
}

// EachMiningBody calls fn with the id and the body of every mining pass.
func (r *Reader) EachMiningBody(tenant string, fn func(id string, body []byte) error) error {
	return r.eachBody(`SELECT id, body FROM mining_runs WHERE tenant = ?`, tenant, fn)
}

func (r *Reader) eachBody(query, tenant string, fn func(id string, body []byte) error) error {
	type row struct {
		id   string
		body []byte
	}
	return each(r, func(s scanner) (b row, err error) {
		err = s.Scan(&b.id, &b.body)
		return b, err
	}, func(b row) error { return fn(b.id, b.body) }, query, tenant)
}

// DeleteFlowTest removes one golden test.
func (tx *Tx) DeleteFlowTest(tenant, flow, version string, n int) error {
	_, err := tx.exec(`DELETE FROM flow_tests WHERE tenant = ? AND flow = ? AND version = ? AND n = ?`, tenant, flow, version, n)
	return err
}

// RewriteReplayCheck, RewriteProposal and RewriteMiningRun replace the body of a row and nothing else of it: what is taken
// out of a body is no change that anybody's revision is about.
func (tx *Tx) RewriteReplayCheck(tenant, proposalID, digest string, body []byte) error {
	_, err := tx.exec(`UPDATE replay_checks SET body = ? WHERE tenant = ? AND proposal_id = ? AND digest = ?`, body, tenant, proposalID, digest)
	return err
}

// RewriteProposal is described at RewriteReplayCheck.
func (tx *Tx) RewriteProposal(tenant, id string, body []byte) error {
	_, err := tx.exec(`UPDATE proposals SET body = ? WHERE tenant = ? AND id = ?`, body, tenant, id)
	return err
}

// RewriteMiningRun is described at RewriteReplayCheck.
func (tx *Tx) RewriteMiningRun(tenant, id string, body []byte) error {
	_, err := tx.exec(`UPDATE mining_runs SET body = ? WHERE tenant = ? AND id = ?`, body, tenant, id)
	return err
}

// RunsOf lists the runs that belong to one of the traces or have one of the ids, oldest first.
func (r *Reader) RunsOf(tenant string, traces, ids []string) ([]RunRow, error) {
	if len(traces)+len(ids) == 0 {
		return nil, nil
	}
	args := []any{tenant}
	var halves []string // each has its index
	half := func(where string, values []string) {
		if len(values) == 0 {
			return
		}
		args = append(args, tenant)
		for _, v := range values {
			args = append(args, v)
		}
		halves = append(halves, `SELECT id FROM runs WHERE tenant = ? AND `+where+` IN (?`+strings.Repeat(", ?", len(values)-1)+`)`)
	}
	half(`trace_id <> '' AND trace_id`, traces)
	half(`id`, ids)
	// The plus keeps the planner from walking along all runs in the order of their start.
	return r.runs(`id IN (`+strings.Join(halves, " UNION ALL ")+`) ORDER BY +started_at, id`, args...)
}

// RanInTrace reports whether a run of the flow belongs to the trace.
func (r *Reader) RanInTrace(tenant, traceID, flow string) (bool, error) {
	found, err := collect(r, func(s scanner) (ok bool, err error) { return ok, s.Scan(&ok) },
		`SELECT 1 FROM runs WHERE tenant = ? AND trace_id <> '' AND trace_id = ? AND +flow = ? LIMIT 1`, tenant, traceID, flow)
	return len(found) > 0, err
}

// EmptyApprovals takes the arguments out of the approvals of a run; who decided what stays.
func (tx *Tx) EmptyApprovals(tenant, runID string) error {
	_, err := tx.exec(`UPDATE run_approvals SET body = CAST(json_remove(CAST(body AS TEXT), '$.inputs') AS BLOB) WHERE tenant = ? AND run_id = ?`, tenant, runID)
	return err
}
