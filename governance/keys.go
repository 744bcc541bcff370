package governance

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pave/flows"
	"pave/governance/store"
)

// KeyRequest asks for an API key. ExpiresAt nil means never.
type KeyRequest struct {
	Principal string
	Scopes    []Scope
	ExpiresAt *time.Time
}

// AllScopes lists every scope, the weakest first.
var AllScopes = []Scope{ScopeIngest, ScopeRead, ScopePropose, ScopeReview, ScopePromote, ScopeRun, ScopeWork, ScopeAdmin}

// AdminKeyFile is the name of the first key's file in the data directory.
const AdminKeyFile = "admin.key"

const (
	keyPrefixLen = 8
	keySecretLen = 32               // random bytes
	touchEvery   = 10 * time.Minute // how exact APIKey.LastUsed is
	keyForm      = "pave_%s_%s"     // prefix, secret part
	wrongKey     = "the API key is not valid"
)

func (r *KeyRequest) check(now time.Time) error {
	if err := checkActing(r.Principal); err != nil {
		return err
	}
	if len(r.Scopes) == 0 {
		return flows.NewError(flows.CodeInvalid, "a key needs at least one scope",
			flows.ErrorDetail{Pointer: "/scopes", Code: "missing", Detail: fmt.Sprint(AllScopes)})
	}
	for i, scope := range r.Scopes {
		if !slices.Contains(AllScopes, scope) {
			return flows.NewError(flows.CodeInvalid, fmt.Sprintf("scope %q: use one of %v", scope, AllScopes),
				flows.ErrorDetail{Pointer: fmt.Sprintf("/scopes/%d", i), Code: "invalid", Detail: string(scope)})
		}
	}
	if r.ExpiresAt != nil && !r.ExpiresAt.After(now) {
		return flows.NewError(flows.CodeInvalid, "the key would have expired already",
			flows.ErrorDetail{Pointer: "/expires_at", Code: "invalid", Detail: "a time to come"})
	}
	return nil
}

// CreateKey makes a key and returns its secret, which is not kept and cannot be shown again.
func (s *Service) CreateKey(ctx context.Context, actor Actor, req KeyRequest) (APIKey, string, error) {
	if err := req.check(s.now()); err != nil {
		return APIKey{}, "", err
	}
	var row store.KeyRow
	var secret string
	err := s.update(ctx, actor, ActionAdmin, func(c *change) error {
		row, secret = newKey(c, req)
		if err := c.InsertKey(row); err != nil {
			return err
		}
		return c.audit("key.create", "key/"+row.ID, map[string]any{"principal": row.Principal, "scopes": req.Scopes, "prefix": row.Prefix})
	})
	if err != nil {
		return APIKey{}, "", err
	}
	return apiKey(row), secret, nil
}

func newKey(c *change, req KeyRequest) (store.KeyRow, string) {
	var raw [keySecretLen]byte
	_, _ = rand.Read(raw[:]) // crypto/rand never fails
	random := idEncoding.EncodeToString(raw[:])
	prefix := randomID()[:keyPrefixLen]
	secret := fmt.Sprintf(keyForm, prefix, random)
	hash := sha256.Sum256([]byte(secret))
	scopes := make([]string, len(req.Scopes))
	for i, scope := range req.Scopes {
		scopes[i] = string(scope)
	}
	row := store.KeyRow{Tenant: c.tenant, ID: c.s.newID(), Prefix: prefix, Hash: hash[:], Principal: req.Principal,
		Scopes: strings.Join(scopes, " "), CreatedAt: c.at}
	if req.ExpiresAt != nil {
		row.ExpiresAt, row.Lifetime = *req.ExpiresAt, req.ExpiresAt.Sub(c.at)
	}
	return row, secret
}

func apiKey(row store.KeyRow) APIKey {
	k := APIKey{ID: row.ID, Prefix: row.Prefix, Principal: row.Principal, Scopes: scopesOf(row), CreatedAt: row.CreatedAt, Revoked: row.Revoked}
	if !row.ExpiresAt.IsZero() {
		k.ExpiresAt = &row.ExpiresAt
	}
	if !row.LastUsed.IsZero() {
		k.LastUsed = &row.LastUsed
	}
	return k
}

func scopesOf(row store.KeyRow) (scopes []Scope) {
	for _, scope := range strings.Fields(row.Scopes) {
		scopes = append(scopes, Scope(scope))
	}
	return scopes
}

// Keys lists the keys, oldest first.
func (s *Service) Keys(ctx context.Context, actor Actor) (out []APIKey, err error) {
	err = s.view(ctx, actor, ActionAdmin, func(r *store.Reader, tenant string, _ Policy) error {
		rows, err := r.Keys(tenant)
		for _, row := range rows {
			out = append(out, apiKey(row))
		}
		return err
	})
	return out, err
}

// RevokeKey ends a key at once.
func (s *Service) RevokeKey(ctx context.Context, actor Actor, id string) error {
	err := s.update(ctx, actor, ActionAdmin, func(c *change) error {
		if err := c.Tx.RevokeKey(c.tenant, id); err != nil {
			return notFound(err, "there is no key %q", id)
		}
		return c.audit("key.revoke", "key/"+id, nil)
	})
	s.forgetKeys()
	return err
}

// DefaultGrace is how long a rotated key stays valid beside its successor.
const DefaultGrace = 24 * time.Hour

// RotateKey makes a successor of a key, for the same principal with the same scopes, and lets the old one end after
// grace (0 means DefaultGrace, at most 30 days), so that both are valid while users change over. Every other key of the line
// that rotations made ends at once: at most two of it are valid. The successor lives as long as the old one was made for.
func (s *Service) RotateKey(ctx context.Context, actor Actor, id string, grace time.Duration) (APIKey, string, error) {
	if grace < 0 || grace > 30*24*time.Hour {
		return APIKey{}, "", flows.NewError(flows.CodeInvalid, "the grace period is at most 30 days",
			flows.ErrorDetail{Pointer: "/grace_seconds", Code: "out_of_range", Detail: "0 to 2592000"})
	}
	if grace == 0 {
		grace = DefaultGrace
	}
	var row store.KeyRow
	var secret string
	err := s.update(ctx, actor, ActionAdmin, func(c *change) error {
		old, err := c.key(id)
		if err != nil {
			return err
		}
		if !validKey(old, c.at) {
			return flows.NewError(flows.CodeConflict, "key "+id+" is not valid any more; create a new one")
		}
		req := KeyRequest{Principal: old.Principal, Scopes: apiKey(old).Scopes}
		if old.Lifetime > 0 {
			until := c.at.Add(old.Lifetime)
			req.ExpiresAt = &until
		}
		ended, err := c.endOthers(old)
		if err != nil {
			return err
		}
		row, secret = newKey(c, req)
		row.First = firstKey(old)
		if err := c.InsertKey(row); err != nil {
			return err
		}
		if err := c.ExpireKey(c.tenant, id, c.at.Add(grace)); err != nil {
			return err
		}
		detail := map[string]any{"successor": row.ID, "prefix": row.Prefix, "old_ends_at": c.at.Add(grace)}
		if len(ended) > 0 {
			detail["ended"] = ended
		}
		return c.audit("key.rotate", "key/"+id, detail)
	})
	s.forgetKeys()
	if err != nil {
		return APIKey{}, "", err
	}
	return apiKey(row), secret, nil
}

// firstKey names the line of a key.
func firstKey(key store.KeyRow) string { return cmp.Or(key.First, key.ID) }

// validKey reports whether a key opens at a time.
func validKey(key store.KeyRow, at time.Time) bool {
	return !key.Revoked && (key.ExpiresAt.IsZero() || at.Before(key.ExpiresAt))
}

// endOthers ends the other valid keys of a key's line now, and returns their ids.
func (c *change) endOthers(key store.KeyRow) (ended []string, err error) {
	rows, err := c.Keys(c.tenant)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.ID == key.ID || firstKey(row) != firstKey(key) || !validKey(row, c.at) {
			continue
		}
		if err := c.ExpireKey(c.tenant, row.ID, c.at); err != nil {
			return nil, err
		}
		ended = append(ended, row.ID)
	}
	return ended, nil
}

// key reads a key of the tenant by its id.
func (c *change) key(id string) (store.KeyRow, error) {
	rows, err := c.Keys(c.tenant)
	if err != nil {
		return store.KeyRow{}, err
	}
	at := slices.IndexFunc(rows, func(row store.KeyRow) bool { return row.ID == id })
	if at < 0 {
		return store.KeyRow{}, notFound(store.ErrNotFound, "there is no key %q", id)
	}
	return rows[at], nil
}

// forgetKeys drops the cache, after keys changed.
func (s *Service) forgetKeys() {
	s.keysMu.Lock()
	defer s.keysMu.Unlock()
	clear(s.keys)
}

// Authenticate answers who comes with a secret. Every failure is the same CodeUnauthenticated, so that an answer
// tells nothing about which keys exist.
func (s *Service) Authenticate(ctx context.Context, secret string) (Actor, error) {
	refused := flows.NewError(flows.CodeUnauthenticated, wrongKey)
	rest, ok := strings.CutPrefix(secret, "pave_")
	prefix, _, ok2 := strings.Cut(rest, "_")
	if !ok || !ok2 || len(prefix) != keyPrefixLen {
		return Actor{}, refused
	}
	key, err := s.keyByPrefix(ctx, prefix)
	if errors.Is(err, store.ErrNotFound) {
		return Actor{}, refused
	}
	if err != nil {
		return Actor{}, visible(err)
	}
	hash := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(hash[:], key.Hash) != 1 {
		return Actor{}, refused
	}
	now := s.now()
	if !validKey(key.KeyRow, now) {
		return Actor{}, refused
	}
	s.touch(ctx, key.KeyRow, now)
	return Actor{Tenant: key.Tenant, Principal: key.Principal, Scopes: key.scopes, Key: prefix}, nil
}

// knownKey is a key in the cache. Its scopes are shared by all requests of the key and only read.
type knownKey struct {
	store.KeyRow
	scopes []Scope
}

// keyByPrefix reads through the cache of keys that exist; strangers' prefixes are not kept, so it stays small.
func (s *Service) keyByPrefix(ctx context.Context, prefix string) (key knownKey, err error) {
	s.keysMu.RLock()
	key, ok := s.keys[prefix]
	s.keysMu.RUnlock()
	if ok {
		return key, nil
	}
	// The lock is held over the read, so that a revocation that comes between is not undone by the cache.
	s.keysMu.Lock()
	defer s.keysMu.Unlock()
	err = s.db.View(ctx, func(r *store.Reader) error {
		key.KeyRow, err = r.KeyByPrefix(prefix)
		return err
	})
	if err == nil {
		key.scopes = slices.Clip(scopesOf(key.KeyRow))
		s.keys[prefix] = key
	}
	return key, err
}

// touch notes the use of a key, at most once per touchEvery. It is for people's information: a failure is
// logged and refuses nobody.
func (s *Service) touch(ctx context.Context, row store.KeyRow, now time.Time) {
	if now.Sub(row.LastUsed) < touchEvery {
		return
	}
	s.keysMu.Lock()
	if kept, ok := s.keys[row.Prefix]; ok { // the row itself may be older than a revocation
		kept.LastUsed = now
		s.keys[row.Prefix] = kept
	}
	s.keysMu.Unlock()
	if err := s.db.Update(ctx, func(tx *store.Tx) error { return tx.TouchKey(row.Tenant, row.ID, now) }); err != nil {
		s.log.WarnContext(ctx, "note use of key", "key", row.ID, "error", err)
	}
}

// EnsureAdminKey makes sure that the data directory holds a valid admin key of the principal in AdminKeyFile,
// readable by its owner only, and returns the file's path and whether it was written now. Who can read the
// directory owns the installation anyway; over the network the key is one like any other and can be revoked.
func (s *Service) EnsureAdminKey(ctx context.Context, dir, principal string) (path string, created bool, err error) {
	path = filepath.Join(dir, AdminKeyFile)
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return path, false, fmt.Errorf("admin key: %w", err)
	}
	if err == nil {
		if actor, err := s.Authenticate(ctx, strings.TrimSpace(string(raw))); err == nil && actor.Has(ScopeAdmin) {
			return path, false, nil
		}
		s.log.WarnContext(ctx, "the state store does not know the admin key of the data directory: the key was revoked or has expired, or the store is "+
			"empty or another one; a new key is written", "file", path)
	}
	system := Actor{Principal: SystemPrincipal, Scopes: []Scope{ScopeAdmin}}
	_, secret, err := s.CreateKey(ctx, system, KeyRequest{Principal: principal, Scopes: AllScopes})
	if err != nil {
		return path, false, err
	}
	if err := writePrivate(path, secret+"\n"); err != nil {
		return path, false, fmt.Errorf("admin key: %w", err)
	}
	return path, true, nil
}

// writePrivate replaces a file whole, with mode 0600.
func writePrivate(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // CreateTemp makes it 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
