package governance_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
)

func TestKeysAuthenticateUntilRevokedOrExpired(t *testing.T) {
	b := newBench(t)
	expires := start.Add(time.Hour)
	key, secret, err := b.CreateKey(ctx, admin, governance.KeyRequest{Principal: "person:bob",
		Scopes: []governance.Scope{governance.ScopeRead, governance.ScopeReview}, ExpiresAt: &expires})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(secret, "pave_"+key.Prefix+"_"))
	require.Greater(t, len(secret), 60, "32 random bytes")

	who, err := b.Authenticate(ctx, secret)
	require.NoError(t, err)
	require.Equal(t, governance.Actor{Tenant: "default", Principal: "person:bob", Scopes: key.Scopes, Key: key.Prefix}, who)
	keys, err := b.Keys(ctx, admin)
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.NotNil(t, keys[0].LastUsed)
	require.Equal(t, expires, *keys[0].ExpiresAt)

	for _, wrong := range []string{"", "pave_", "x", secret + "x", secret[:len(secret)-1] + "_", "pave_" + key.Prefix + "_", "pave_00000000_abc",
		strings.ToUpper(secret), "pave_" + strings.Repeat("a", 1<<16)} {
		_, err := b.Authenticate(ctx, wrong)
		refused(t, flows.CodeUnauthenticated, err, "not valid")
	}

	b.clock.advance(2 * time.Hour)
	_, err = b.Authenticate(ctx, secret)
	refused(t, flows.CodeUnauthenticated, err, "not valid")

	key, secret, err = b.CreateKey(ctx, admin, governance.KeyRequest{Principal: "service:ci", Scopes: []governance.Scope{governance.ScopeRun}})
	require.NoError(t, err)
	_, err = b.Authenticate(ctx, secret)
	require.NoError(t, err)
	refused(t, flows.CodeNotFound, b.RevokeKey(ctx, admin, "none"), "none")
	require.NoError(t, b.RevokeKey(ctx, admin, key.ID))
	_, err = b.Authenticate(ctx, secret)
	refused(t, flows.CodeUnauthenticated, err, "not valid")
}

// Of the keys that rotations made of one, the one that was rotated last and its successor are valid, whichever was rotated.
func TestAtMostTwoKeysOfALineAreValid(t *testing.T) {
	b := newBench(t)
	secrets := map[string]string{}
	opens := func(names ...string) {
		t.Helper()
		var open []string
		for _, name := range slices.Sorted(maps.Keys(secrets)) {
			if _, err := b.Authenticate(ctx, secrets[name]); err == nil {
				open = append(open, name)
			}
		}
		require.Equal(t, names, open)
	}
	first, secret, err := b.CreateKey(ctx, admin, governance.KeyRequest{Principal: "service:ci", Scopes: []governance.Scope{governance.ScopeRun}})
	require.NoError(t, err)
	secrets["a"] = secret
	_, secrets["stranger"], err = b.CreateKey(ctx, admin, governance.KeyRequest{Principal: "service:ci", Scopes: []governance.Scope{governance.ScopeRun}})
	require.NoError(t, err)

	second, secret, err := b.RotateKey(ctx, admin, first.ID, time.Hour)
	require.NoError(t, err)
	secrets["b"] = secret
	opens("a", "b", "stranger")

	third, secret, err := b.RotateKey(ctx, admin, second.ID, time.Hour)
	require.NoError(t, err)
	secrets["c"] = secret
	opens("b", "c", "stranger")
	events, err := b.AuditBefore(ctx, admin, 0, 1)
	require.NoError(t, err)
	require.Equal(t, "key.rotate", events[0].Action)
	var detail struct {
		Successor string
		Ended     []string
	}
	require.NoError(t, json.Unmarshal(events[0].Detail, &detail))
	require.Equal(t, third.ID, detail.Successor)
	require.Equal(t, []string{first.ID}, detail.Ended)

	// Rotated once more, because the secret of its successor was lost: that one ends.
	_, secrets["d"], err = b.RotateKey(ctx, admin, second.ID, time.Hour)
	require.NoError(t, err)
	opens("b", "d", "stranger")
	_, _, err = b.RotateKey(ctx, admin, third.ID, time.Hour)
	refused(t, flows.CodeConflict, err, "not valid any more")
	b.clock.advance(2 * time.Hour)
	opens("d", "stranger")
}

func TestKeyRequestsAreChecked(t *testing.T) {
	b := newBench(t)
	past := start.Add(-time.Hour)
	for says, req := range map[string]governance.KeyRequest{
		"principal":   {Principal: "bob", Scopes: []governance.Scope{governance.ScopeRead}},
		"pave itself": {Principal: governance.SystemPrincipal, Scopes: []governance.Scope{governance.ScopeReview}},
		"scope":       {Principal: "person:bob"},
		"everything":  {Principal: "person:bob", Scopes: []governance.Scope{"everything"}},
		"expired":     {Principal: "person:bob", Scopes: []governance.Scope{governance.ScopeRead}, ExpiresAt: &past},
	} {
		_, _, err := b.CreateKey(ctx, admin, req)
		refused(t, flows.CodeInvalid, err, says)
	}
	_, _, err := b.CreateKey(ctx, alice, governance.KeyRequest{Principal: "person:bob", Scopes: []governance.Scope{governance.ScopeAdmin}})
	refused(t, flows.CodeForbidden, err, "admin")
	require.Empty(t, b.actions())
}

func TestSecretsAreKeptNowhere(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	_, secret, err := b.CreateKey(ctx, admin, governance.KeyRequest{Principal: "person:bob", Scopes: []governance.Scope{governance.ScopeRead}})
	require.NoError(t, err)
	_, err = b.Authenticate(ctx, secret)
	require.NoError(t, err)
	random := secret[strings.LastIndex(secret, "_")+1:]
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.False(t, bytes.Contains(content, []byte(random)), file)
	}
}

func TestAdminKeyFile(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	path, created, err := b.EnsureAdminKey(ctx, dir, "local:root")
	require.NoError(t, err)
	require.True(t, created)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	secret := func() string {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.TrimSpace(string(raw))
	}
	first := secret()
	who, err := b.Authenticate(ctx, first)
	require.NoError(t, err)
	require.Equal(t, "local:root", who.Principal)
	require.True(t, who.Has(governance.ScopeAdmin))

	_, created, err = b.EnsureAdminKey(ctx, dir, "local:root")
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, first, secret())

	keys, err := b.Keys(ctx, admin)
	require.NoError(t, err)
	require.NoError(t, b.RevokeKey(ctx, admin, keys[0].ID))
	_, created, err = b.EnsureAdminKey(ctx, dir, "local:root")
	require.NoError(t, err)
	require.True(t, created, "the file's key no longer opens")
	_, err = b.Authenticate(ctx, first)
	refused(t, flows.CodeUnauthenticated, err, "not valid")
	_, err = b.Authenticate(ctx, secret())
	require.NoError(t, err)
	leftovers, err := filepath.Glob(filepath.Join(dir, ".key-*"))
	require.NoError(t, err)
	require.Empty(t, leftovers)
}
