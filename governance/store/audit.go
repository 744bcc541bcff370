package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// AuditRow is one link of a tenant's audit chain.
type AuditRow struct {
	Seq     int64
	At      time.Time
	Actor   string
	Action  string
	Object  string
	Detail  json.RawMessage // nil or a JSON value
	PrevSum string          // "" for the first
	Sum     string
}

// Digest is what Sum must be: the hex SHA-256 of the row's JSON with its place in the chain; every field but Sum enters.
func (a *AuditRow) Digest(tenant string) (string, error) {
	raw, err := json.Marshal(struct {
		Tenant, PrevSum       string
		Seq, At               int64
		Actor, Action, Object string
		Detail                string
	}{tenant, a.PrevSum, a.Seq, micros(a.At), a.Actor, a.Action, a.Object, string(a.Detail)})
	if err != nil {
		return "", fmt.Errorf("audit event: %w", err)
	}
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:]), nil
}

// Audit appends events to the tenant's chain. Seq, PrevSum and Sum of the rows are set here.
func (tx *Tx) Audit(tenant string, rows ...AuditRow) error {
	var seq int64
	var sum string
	err := tx.row(`SELECT seq, sum FROM audit_heads WHERE tenant = ?`, []any{tenant}, &seq, &sum)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	for _, row := range rows {
		seq++
		row.Seq, row.PrevSum, row.At = seq, sum, fromMicros(micros(row.At))
		if row.Sum, err = row.Digest(tenant); err != nil {
			return err
		}
		if _, err := tx.exec(`INSERT INTO audit_events (tenant, seq, at, actor, action, object, detail, prev_sum, sum)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, tenant, row.Seq, micros(row.At), row.Actor, row.Action, row.Object, []byte(row.Detail), row.PrevSum, row.Sum); err != nil {
			return err
		}
		sum = row.Sum
	}
	_, err = tx.exec(`INSERT INTO audit_heads (tenant, seq, sum) VALUES (?, ?, ?)
		ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq, sum = excluded.sum`, tenant, seq, sum)
	return err
}

// AuditEvents lists events with Seq > after, oldest first.
func (r *Reader) AuditEvents(tenant string, after int64, limit int) ([]AuditRow, error) {
	return collect(r, scanAudit, auditSelect+` AND seq > ? ORDER BY seq LIMIT ?`, tenant, after, clampLimit(limit))
}

// AuditEventsBefore lists events with Seq < before, newest first; before 0 begins with the newest.
func (r *Reader) AuditEventsBefore(tenant string, before int64, limit int) ([]AuditRow, error) {
	return collect(r, scanAudit, auditSelect+` AND seq < ? ORDER BY seq DESC LIMIT ?`, tenant, cmp.Or(before, math.MaxInt64), clampLimit(limit))
}

const auditSelect = `SELECT seq, at, actor, action, object, detail, prev_sum, sum FROM audit_events WHERE tenant = ?`

func scanAudit(s scanner) (a AuditRow, err error) {
	var at int64
	err = s.Scan(&a.Seq, &at, &a.Actor, &a.Action, &a.Object, (*[]byte)(&a.Detail), &a.PrevSum, &a.Sum)
	a.At = fromMicros(at)
	return a, err
}

// AuditOf lists the events with one of the actions in [from, to), oldest first, without their details and sums; zero
// times leave a side open.
func (r *Reader) AuditOf(tenant string, actions []string, from, to time.Time) ([]AuditRow, error) {
	args := []any{tenant, micros(from), micros(to), micros(to)}
	for _, action := range actions {
		args = append(args, action)
	}
	return collect(r, func(s scanner) (a AuditRow, err error) {
		var at int64
		err = s.Scan(&a.Seq, &at, &a.Actor, &a.Action, &a.Object)
		a.At = fromMicros(at)
		return a, err
	}, `SELECT seq, at, actor, action, object FROM audit_events INDEXED BY audit_events_action WHERE tenant = ? AND at >= ? AND (? = 0 OR at < ?)
		AND action IN (?`+strings.Repeat(", ?", len(actions)-1)+`) ORDER BY seq`, args...)
}

// VerifyAudit walks the whole chain and returns its length, or ErrChain naming the first event that was
// changed, removed or added by other means than Audit.
func (r *Reader) VerifyAudit(tenant string) (int64, error) {
	var seq int64
	prev := ""
	for {
		rows, err := r.AuditEvents(tenant, seq, MaxLimit)
		if err != nil {
			return 0, err
		}
		if len(rows) == 0 {
			break
		}
		for i := range rows {
			want, err := rows[i].Digest(tenant)
			if err != nil {
				return 0, err
			}
			if rows[i].Seq != seq+1 || rows[i].PrevSum != prev || rows[i].Sum != want {
				return 0, fmt.Errorf("%w at event %d", ErrChain, seq+1)
			}
			seq, prev = rows[i].Seq, rows[i].Sum
		}
	}
	var headSeq int64
	var headSum string
	err := r.row(`SELECT seq, sum FROM audit_heads WHERE tenant = ?`, []any{tenant}, &headSeq, &headSum)
	if errors.Is(err, ErrNotFound) && seq == 0 {
		return 0, nil
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	if headSeq != seq || headSum != prev {
		return 0, fmt.Errorf("%w after event %d: its end is missing or not ours", ErrChain, seq)
	}
	return seq, nil
}
