package store

import (
	"errors"
	"time"
)

// RunRow is a live or recent flow run.
type RunRow struct {
	ID      string
	Flow    string
	Version string
	State   string
	Caller  string
	DryRun  bool
	Started time.Time
	Ended   time.Time // zero while it runs
	// StepsSaved is max(0, finished steps - 1), the profile estimate's count of avoided model calls.
	StepsSaved int
	// Exported is set once the finished run is in the event store.
	Exported bool
	// TraceID is the trace that it belongs to; InsertRun stores it, nothing reads it back.
	TraceID  string
	Revision int64  // rises with every change
	Body     []byte // redacted result and the rest as JSON
}

// RunQuery selects and pages runs, newest first. Empty fields select everything.
type RunQuery struct {
	Flow   string
	State  string
	Limit  int
	Cursor string
}

// RunEstimate sums StepsSaved of one flow version.
type RunEstimate struct {
	Flow, Version string
	StepsSaved    int64
}

const runColumns = `id, flow, version, state, caller, dry_run, started_at, ended_at, steps_saved, exported, revision, body`

func scanRun(s scanner, more ...any) (r RunRow, err error) {
	var started, ended int64
	err = s.Scan(append([]any{&r.ID, &r.Flow, &r.Version, &r.State, &r.Caller, &r.DryRun, &started, &ended, &r.StepsSaved,
		&r.Exported, &r.Revision, &r.Body}, more...)...)
	r.Started, r.Ended = fromMicros(started), fromMicros(ended)
	return r, err
}

// Run reads one run. Errors: ErrNotFound.
func (r *Reader) Run(tenant, id string) (RunRow, error) {
	return first(r.runs(`id = ?`, tenant, id))
}

// Runs lists runs. Errors: ErrCursor.
func (r *Reader) Runs(tenant string, q RunQuery) (Page[RunRow], error) {
	pq := pageQuery{table: "runs", columns: runColumns, where: []string{"tenant = ?"}, args: []any{tenant},
		sort: "started", order: order{expr: "started_at", desc: true}, limit: q.Limit, cursor: q.Cursor}
	if q.Flow != "" {
		pq.where, pq.args = append(pq.where, "flow = ?"), append(pq.args, q.Flow)
	}
	if q.State != "" {
		pq.where, pq.args = append(pq.where, "state = ?"), append(pq.args, q.State)
	}
	return readPage(r, pq, func(s scanner, key *float64, id *string) (RunRow, error) { return scanRun(s, key, id) })
}

// UnexportedRuns lists ended runs that are not marked as being in the event store, oldest first, at most limit.
func (r *Reader) UnexportedRuns(tenant string, limit int) ([]RunRow, error) {
	return r.runs(`exported = 0 AND ended_at > 0 ORDER BY started_at, id LIMIT ?`, tenant, limit)
}

// RunsInState lists every run in a state, oldest first.
func (r *Reader) RunsInState(tenant, state string) ([]RunRow, error) {
	return r.runs(`state = ? ORDER BY started_at, id`, tenant, state)
}

func (r *Reader) runs(where string, args ...any) ([]RunRow, error) {
	return collect(r, func(s scanner) (RunRow, error) { return scanRun(s) },
		`SELECT `+runColumns+` FROM runs WHERE tenant = ? AND `+where, args...)
}

// RunEstimates sums StepsSaved per flow version over runs started in [from, to); zero leaves a side open. Dry
// runs are left out.
func (r *Reader) RunEstimates(tenant string, from, to time.Time) ([]RunEstimate, error) {
	return collect(r, func(s scanner) (e RunEstimate, err error) {
		err = s.Scan(&e.Flow, &e.Version, &e.StepsSaved)
		return e, err
	}, `SELECT flow, version, sum(steps_saved) FROM runs
		WHERE tenant = ? AND dry_run = 0 AND started_at >= ? AND (? = 0 OR started_at < ?)
		GROUP BY flow, version ORDER BY flow, version`, tenant, micros(from), micros(to), micros(to))
}

// InsertRun stores a run that starts now, as revision 1. Errors: ErrExists.
func (tx *Tx) InsertRun(tenant string, r RunRow) error {
	_, err := tx.exec(`INSERT INTO runs (tenant, `+runColumns+`, trace_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)`, tenant, r.ID, r.Flow, r.Version,
		r.State, r.Caller, r.DryRun, micros(r.Started), micros(r.Ended), r.StepsSaved, r.Exported, r.Body, r.TraceID)
	return err
}

// UpdateRun stores the state of a run whose revision is still ifRevision, and raises it by one. Errors: ErrStale.
func (tx *Tx) UpdateRun(tenant string, r RunRow, ifRevision int64) error {
	return tx.swap(`UPDATE runs SET state = ?, ended_at = ?, steps_saved = ?, exported = ?, body = ?, revision = revision + 1
		WHERE tenant = ? AND id = ? AND revision = ?`,
		r.State, micros(r.Ended), r.StepsSaved, r.Exported, r.Body, tenant, r.ID, ifRevision)
}

// MarkExported notes that the event store has a run.
func (tx *Tx) MarkExported(tenant, id string) error {
	_, err := tx.exec(`UPDATE runs SET exported = 1 WHERE tenant = ? AND id = ?`, tenant, id)
	return err
}

// IdempotencyRow remembers which object a request with an idempotency key made.
type IdempotencyRow struct {
	Principal string
	Operation string
	Key       string
	BodyHash  string
	Object    string
	CreatedAt time.Time
}

// Claim stores row unless its key is in use since after; then it returns the row that is there and false.
// Rows older than after are dropped.
func (tx *Tx) Claim(tenant string, row IdempotencyRow, after time.Time) (IdempotencyRow, bool, error) {
	if _, err := tx.exec(`DELETE FROM idempotency WHERE created_at < ?`, micros(after)); err != nil {
		return IdempotencyRow{}, false, err
	}
	old, err := tx.Claimed(tenant, row.Principal, row.Operation, row.Key, after)
	if err == nil {
		return old, false, nil
	}
	if !errors.Is(err, ErrNotFound) {
		return IdempotencyRow{}, false, err
	}
	_, err = tx.exec(`INSERT INTO idempotency (tenant, principal, operation, key, body_hash, object, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		tenant, row.Principal, row.Operation, row.Key, row.BodyHash, row.Object, micros(row.CreatedAt))
	return row, err == nil, err
}

// Claimed reads the row that holds an idempotency key since after. Errors: ErrNotFound.
func (r *Reader) Claimed(tenant, principal, operation, key string, after time.Time) (IdempotencyRow, error) {
	row := IdempotencyRow{Principal: principal, Operation: operation, Key: key}
	var at int64
	err := r.row(`SELECT body_hash, object, created_at FROM idempotency
		WHERE tenant = ? AND principal = ? AND operation = ? AND key = ? AND created_at >= ?`,
		[]any{tenant, principal, operation, key, micros(after)}, &row.BodyHash, &row.Object, &at)
	row.CreatedAt = fromMicros(at)
	return row, err
}
