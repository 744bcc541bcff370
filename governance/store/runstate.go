package store

import "time"

// CheckpointRow is where a run can go on. Both blobs are sealed by their owner; Reached is nil until the run has passed
// its first level.
type CheckpointRow struct {
	RunID   string
	Begun   []byte
	Reached []byte
}

// ApprovalRow is a call of a run that waits for a decision, or had one. Step is the place of the call in its run.
type ApprovalRow struct {
	RunID       string
	Step        string
	Decision    string // of package executor
	RequestedAt time.Time
	ExpiresAt   time.Time
	DecidedAt   time.Time // zero while it is pending
	DecidedBy   string
	Reason      string
	InputsMAC   []byte // of the true arguments that were shown
	Body        []byte // the redacted request as JSON
}

// Checkpoint reads the checkpoint of a run. Errors: ErrNotFound.
func (r *Reader) Checkpoint(tenant, runID string) (CheckpointRow, error) {
	c := CheckpointRow{RunID: runID}
	err := r.row(`SELECT begun, reached FROM run_checkpoints WHERE tenant = ? AND run_id = ?`, []any{tenant, runID}, &c.Begun, &c.Reached)
	return c, err
}

// InsertCheckpoint stores how a run begins. Errors: ErrExists.
func (tx *Tx) InsertCheckpoint(tenant string, c CheckpointRow) error {
	_, err := tx.exec(`INSERT INTO run_checkpoints (tenant, run_id, begun, reached, expires_at) VALUES (?, ?, ?, ?, 0)`, tenant, c.RunID, c.Begun, c.Reached)
	return err
}

// Reach replaces how far a run has come. A run without a checkpoint has ended, and nothing is stored.
func (tx *Tx) Reach(tenant, runID string, reached []byte) error {
	_, err := tx.exec(`UPDATE run_checkpoints SET reached = ? WHERE tenant = ? AND run_id = ?`, reached, tenant, runID)
	return err
}

// ExpireCheckpoint keeps a run's checkpoint until then; the zero time keeps it as long as the run is open.
func (tx *Tx) ExpireCheckpoint(tenant, runID string, then time.Time) error {
	_, err := tx.exec(`UPDATE run_checkpoints SET expires_at = ? WHERE tenant = ? AND run_id = ?`, micros(then), tenant, runID)
	return err
}

// DeleteCheckpoint deletes a run's checkpoint, if there is one.
func (tx *Tx) DeleteCheckpoint(tenant, runID string) error {
	_, err := tx.exec(`DELETE FROM run_checkpoints WHERE tenant = ? AND run_id = ?`, tenant, runID)
	return err
}

// DropCheckpoints deletes the checkpoints of ended runs that were to be kept until now.
func (tx *Tx) DropCheckpoints(now time.Time) error {
	_, err := tx.exec(`DELETE FROM run_checkpoints WHERE expires_at > 0 AND expires_at <= ?`, micros(now))
	return err
}

const approvalColumns = `run_id, step, decision, requested_at, expires_at, decided_at, decided_by, reason, inputs_mac, body`

func (r *Reader) approvals(where string, args ...any) ([]ApprovalRow, error) {
	return collect(r, func(s scanner) (a ApprovalRow, err error) {
		var requested, expires, decided int64
		err = s.Scan(&a.RunID, &a.Step, &a.Decision, &requested, &expires, &decided, &a.DecidedBy, &a.Reason, &a.InputsMAC, &a.Body)
		a.RequestedAt, a.ExpiresAt, a.DecidedAt = fromMicros(requested), fromMicros(expires), fromMicros(decided)
		return a, err
	}, `SELECT `+approvalColumns+` FROM run_approvals WHERE tenant = ? AND `+where, args...)
}

// Approvals lists the approvals that a run asked for, oldest first.
func (r *Reader) Approvals(tenant, runID string) ([]ApprovalRow, error) {
	return r.approvals(`run_id = ? ORDER BY requested_at, step`, tenant, runID)
}

// Approval reads one. Errors: ErrNotFound.
func (r *Reader) Approval(tenant, runID, step string) (ApprovalRow, error) {
	return first(r.approvals(`run_id = ? AND step = ?`, tenant, runID, step))
}

// ExpiredApprovals lists pending approvals that were to be decided until now, at most limit.
func (r *Reader) ExpiredApprovals(tenant string, now time.Time, limit int) ([]ApprovalRow, error) {
	return r.approvals(`decision = 'pending' AND expires_at <= ? ORDER BY expires_at, run_id LIMIT ?`, tenant, micros(now), limit)
}

// PutApproval stores an approval over the earlier one of its place.
func (tx *Tx) PutApproval(tenant string, a ApprovalRow) error {
	_, err := tx.exec(`INSERT OR REPLACE INTO run_approvals (tenant, `+approvalColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		tenant, a.RunID, a.Step, a.Decision, micros(a.RequestedAt), micros(a.ExpiresAt), micros(a.DecidedAt), a.DecidedBy, a.Reason, a.InputsMAC, a.Body)
	return err
}

// DropPendingApprovals deletes what nobody needs to decide any more.
func (tx *Tx) DropPendingApprovals(tenant, runID string) error {
	_, err := tx.exec(`DELETE FROM run_approvals WHERE tenant = ? AND run_id = ? AND decision = 'pending'`, tenant, runID)
	return err
}
