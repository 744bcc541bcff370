package store

import "time"

// KeyRow is an API key. Hash is the SHA-256 of its secret; Scopes are joined by spaces.
type KeyRow struct {
	Tenant    string
	ID        string
	Prefix    string
	Hash      []byte
	Principal string
	Scopes    string
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	LastUsed  time.Time // zero: never
	Revoked   bool
	First     string // id of the first key of the line that rotations made; "" when it is that one
	// Lifetime is what the key was made for, 0 for ever; ExpiresAt may have come nearer since.
	Lifetime time.Duration
}

const keyColumns = `tenant, id, prefix, hash, principal, scopes, created_at, expires_at, last_used, revoked, first_key, lifetime`

func scanKey(s scanner) (k KeyRow, err error) {
	var created, expires, used, lifetime int64
	err = s.Scan(&k.Tenant, &k.ID, &k.Prefix, &k.Hash, &k.Principal, &k.Scopes, &created, &expires, &used, &k.Revoked, &k.First, &lifetime)
	k.CreatedAt, k.ExpiresAt, k.LastUsed = fromMicros(created), fromMicros(expires), fromMicros(used)
	k.Lifetime = time.Duration(lifetime) * time.Microsecond
	return k, err
}

// Keys lists a tenant's keys, oldest first.
func (r *Reader) Keys(tenant string) ([]KeyRow, error) {
	return collect(r, scanKey, `SELECT `+keyColumns+` FROM api_keys WHERE tenant = ? ORDER BY created_at, id`, tenant)
}

// KeyByPrefix reads the key of any tenant with this public prefix. Errors: ErrNotFound.
func (r *Reader) KeyByPrefix(prefix string) (KeyRow, error) {
	return first(collect(r, scanKey, `SELECT `+keyColumns+` FROM api_keys WHERE prefix = ?`, prefix))
}

// InsertKey stores a key and its principal. Errors: ErrExists.
func (tx *Tx) InsertKey(k KeyRow) error {
	if _, err := tx.exec(`INSERT INTO principals (tenant, name, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		k.Tenant, k.Principal, micros(k.CreatedAt)); err != nil {
		return err
	}
	_, err := tx.exec(`INSERT INTO api_keys (`+keyColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, k.Tenant, k.ID, k.Prefix, k.Hash,
		k.Principal, k.Scopes, micros(k.CreatedAt), micros(k.ExpiresAt), micros(k.LastUsed), k.Revoked, k.First, k.Lifetime.Microseconds())
	return err
}

// RevokeKey makes a key unusable. Errors: ErrNotFound.
func (tx *Tx) RevokeKey(tenant, id string) error {
	n, err := tx.exec(`UPDATE api_keys SET revoked = 1 WHERE tenant = ? AND id = ?`, tenant, id)
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}

// ExpireKey lets a key end at a time, unless it ends before. Errors: ErrNotFound.
func (tx *Tx) ExpireKey(tenant, id string, at time.Time) error {
	n, err := tx.exec(`UPDATE api_keys SET expires_at = CASE WHEN expires_at = 0 THEN ? ELSE min(expires_at, ?) END WHERE tenant = ? AND id = ?`,
		micros(at), micros(at), tenant, id)
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}

// TouchKey notes that a key was used.
func (tx *Tx) TouchKey(tenant, id string, at time.Time) error {
	_, err := tx.exec(`UPDATE api_keys SET last_used = ? WHERE tenant = ? AND id = ?`, micros(at), tenant, id)
	return err
}
