package store

import "time"

// AnswerRow is the first answer to a request with an idempotency key. Status 0: the first request is at work.
type AnswerRow struct {
	Principal, Operation, Key string
	BodyHash                  string
	Status                    int
	Headers                   []byte // JSON
	Body                      []byte
	CreatedAt                 time.Time
}

// Answer reads what is kept under a key since a time. Errors: ErrNotFound.
func (r *Reader) Answer(tenant, principal, operation, key string, since time.Time) (AnswerRow, error) {
	a := AnswerRow{Principal: principal, Operation: operation, Key: key}
	var at int64
	err := r.row(`SELECT body_hash, status, headers, body, created_at FROM kept_answers
		WHERE tenant = ? AND principal = ? AND operation = ? AND key = ? AND created_at >= ?`,
		[]any{tenant, principal, operation, key, micros(since)}, &a.BodyHash, &a.Status, &a.Headers, &a.Body, &at)
	a.CreatedAt = fromMicros(at)
	return a, err
}

// PutAnswer stores a row in the place of what is kept under its key.
func (tx *Tx) PutAnswer(tenant string, a AnswerRow) error {
	_, err := tx.exec(`INSERT INTO kept_answers (tenant, principal, operation, key, body_hash, status, headers, body, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, principal, operation, key) DO UPDATE SET body_hash = excluded.body_hash,
		status = excluded.status, headers = excluded.headers, body = excluded.body, created_at = excluded.created_at`,
		tenant, a.Principal, a.Operation, a.Key, a.BodyHash, a.Status, append([]byte{}, a.Headers...), append([]byte{}, a.Body...), micros(a.CreatedAt))
	return err
}

// DropAnswer forgets what is kept under a key.
func (tx *Tx) DropAnswer(tenant, principal, operation, key string) error {
	_, err := tx.exec(`DELETE FROM kept_answers WHERE tenant = ? AND principal = ? AND operation = ? AND key = ?`, tenant, principal, operation, key)
	return err
}

// DropAnswers forgets answers made before a time, and those at work when atWork is set.
func (tx *Tx) DropAnswers(before time.Time, atWork bool) error {
	_, err := tx.exec(`DELETE FROM kept_answers WHERE created_at < ? OR ? AND status = 0`, micros(before), atWork)
	return err
}
