package store

import "time"

// MiningRow is one mining pass.
type MiningRow struct {
	ID      string
	State   string
	Started time.Time
	Ended   time.Time // zero while it runs
	Body    []byte    // request, counts, patterns and blocked paths as JSON
}

const miningColumns = `id, state, started_at, ended_at, body`

func scanMining(s scanner, more ...any) (m MiningRow, err error) {
	var started, ended int64
	err = s.Scan(append([]any{&m.ID, &m.State, &started, &ended, &m.Body}, more...)...)
	m.Started, m.Ended = fromMicros(started), fromMicros(ended)
	return m, err
}

// MiningRun reads one pass. Errors: ErrNotFound.
func (r *Reader) MiningRun(tenant, id string) (MiningRow, error) {
	return first(r.miningRuns(`id = ?`, tenant, id))
}

// LastMiningRun reads the newest pass in a state. Errors: ErrNotFound.
func (r *Reader) LastMiningRun(tenant, state string) (MiningRow, error) {
	return first(r.miningRuns(`state = ? ORDER BY started_at DESC, id DESC LIMIT 1`, tenant, state))
}

// MiningRuns lists passes, newest first. Errors: ErrCursor.
func (r *Reader) MiningRuns(tenant string, limit int, cursor string) (Page[MiningRow], error) {
	return readPage(r, pageQuery{table: "mining_runs", columns: miningColumns, where: []string{"tenant = ?"}, args: []any{tenant},
		sort: "started", order: order{expr: "started_at", desc: true}, limit: limit, cursor: cursor},
		func(s scanner, key *float64, id *string) (MiningRow, error) { return scanMining(s, key, id) })
}

func (r *Reader) miningRuns(where string, args ...any) ([]MiningRow, error) {
	return collect(r, func(s scanner) (MiningRow, error) { return scanMining(s) },
		`SELECT `+miningColumns+` FROM mining_runs WHERE tenant = ? AND `+where, args...)
}

// PutMiningRun stores a pass; the same id again replaces it.
func (tx *Tx) PutMiningRun(tenant string, m MiningRow) error {
	_, err := tx.exec(`INSERT INTO mining_runs (tenant, `+miningColumns+`) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, id) DO UPDATE SET state = excluded.state, ended_at = excluded.ended_at, body = excluded.body`,
		tenant, m.ID, m.State, micros(m.Started), micros(m.Ended), m.Body)
	return err
}

// AbandonMiningRuns moves passes from one state to another and returns how many; used at start for passes that
// an earlier process left running.
func (tx *Tx) AbandonMiningRuns(tenant, from, to string) (int64, error) {
	return tx.exec(`UPDATE mining_runs SET state = ? WHERE tenant = ? AND state = ?`, to, tenant, from)
}
