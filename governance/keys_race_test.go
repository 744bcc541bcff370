package governance

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance/store"
)

// A request that was authenticated before a revocation, and notes the use of its key after it, revives no key.
func TestNotingUseRevivesNoRevokedKey(t *testing.T) {
	ctx := context.Background()
	db, err := store.Open(ctx, filepath.Join(t.TempDir(), "state.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s := New(Options{Store: db, Check: func(*flows.Flow, map[string]*flows.Tool, map[string]*flows.Flow) []flows.ErrorDetail { return nil }})
	admin := Actor{Principal: "local:root", Scopes: []Scope{ScopeAdmin}}
	key, secret, err := s.CreateKey(ctx, admin, KeyRequest{Principal: "person:bob", Scopes: []Scope{ScopeRead}})
	require.NoError(t, err)
	row, err := s.keyByPrefix(ctx, key.Prefix)
	require.NoError(t, err)
	require.NoError(t, s.RevokeKey(ctx, admin, key.ID))
	_, err = s.Authenticate(ctx, secret)
	require.Equal(t, flows.CodeUnauthenticated, flows.CodeOf(err))
	s.touch(ctx, row.KeyRow, time.Now())
	_, err = s.Authenticate(ctx, secret)
	require.Equal(t, flows.CodeUnauthenticated, flows.CodeOf(err))
}
