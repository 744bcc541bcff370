package governance_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
)

func TestExportedAuditVerifiesAlone(t *testing.T) {
	b := newBench(t)
	b.promoted()
	var file bytes.Buffer
	require.NoError(t, b.ExportAudit(ctx, admin, &file))
	text := file.String()
	n, last, err := governance.VerifyAuditFile(strings.NewReader(text))
	require.NoError(t, err)
	require.EqualValues(t, strings.Count(text, "\n"), n)
	events, err := b.Audit(ctx, admin, 0, 500)
	require.NoError(t, err)
	require.Equal(t, events[len(events)-1].Sum, last)

	lines := strings.SplitAfter(text, "\n")
	for name, broken := range map[string]string{
		"a word changed":  strings.Replace(text, "person:bob", "person:eve", 1),
		"a line missing":  strings.Join(append(append([]string{}, lines[:2]...), lines[3:]...), ""),
		"lines swapped":   lines[1] + lines[0] + strings.Join(lines[2:], ""),
		"start missing":   strings.Join(lines[1:], ""),
		"another tenant":  strings.Replace(text, `"tenant":"default","seq":3`, `"tenant":"other","seq":3`, 1),
		"a time changed":  strings.Replace(text, "2026-11-02T09:00:02", "2026-11-02T09:00:03", 1),
		"a detail forged": strings.Replace(text, `"change":"created"`, `"change":"creatod"`, 1),
	} {
		require.NotEqual(t, text, broken, name)
		_, _, err := governance.VerifyAuditFile(strings.NewReader(broken))
		require.Equal(t, flows.CodeConflict, flows.CodeOf(err), "%s: %v", name, err)
	}
	_, _, err = governance.VerifyAuditFile(strings.NewReader("{}x\n"))
	require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
	require.Equal(t, flows.CodeForbidden, flows.CodeOf(b.ExportAudit(ctx, bob, &file)))
}

func FuzzAuditFile(f *testing.F) {
	f.Add(`{"tenant":"default","seq":1,"at":"2026-11-02T09:00:00Z","actor":"a","action":"b","object":"c","prev_sum":"","sum":"00"}`)
	f.Add("\n\n{}\n")
	f.Fuzz(func(t *testing.T, text string) {
		n, last, err := governance.VerifyAuditFile(strings.NewReader(text))
		if err == nil {
			require.Equal(t, n == 0, last == "")
		}
	})
}

func TestRotatedKeysAreBothValidForAWhile(t *testing.T) {
	b := newBench(t)
	at := b.clock.at.Add(100 * time.Hour)
	old, secret, err := b.CreateKey(ctx, admin, governance.KeyRequest{Principal: "service:ci", Scopes: []governance.Scope{governance.ScopeRun}, ExpiresAt: &at})
	require.NoError(t, err)
	_, err = b.Authenticate(ctx, secret)
	require.NoError(t, err, "and into the cache")
	next, nextSecret, err := b.RotateKey(ctx, admin, old.ID, time.Hour)
	require.NoError(t, err)
	require.Equal(t, old.Principal, next.Principal)
	require.Equal(t, old.Scopes, next.Scopes)
	require.InDelta(t, 100, next.ExpiresAt.Sub(next.CreatedAt).Hours(), 0.01)
	for _, s := range []string{secret, nextSecret} {
		_, err = b.Authenticate(ctx, s)
		require.NoError(t, err)
	}
	b.clock.advance(time.Hour)
	_, err = b.Authenticate(ctx, secret)
	refused(t, flows.CodeUnauthenticated, err, "not valid")
	_, err = b.Authenticate(ctx, nextSecret)
	require.NoError(t, err)
	_, _, err = b.RotateKey(ctx, admin, old.ID, 0)
	refused(t, flows.CodeConflict, err, "not valid any more")
	_, _, err = b.RotateKey(ctx, admin, "none", 0)
	refused(t, flows.CodeNotFound, err, "none")
	_, _, err = b.RotateKey(ctx, admin, next.ID, 31*24*time.Hour)
	refused(t, flows.CodeInvalid, err, "30 days")
	_, _, err = b.RotateKey(ctx, bob, next.ID, 0)
	refused(t, flows.CodeForbidden, err, "admin")
	require.Contains(t, b.actions(), "key.rotate")
}

func TestFirstAnswersAreKept(t *testing.T) {
	b := newBench(t)
	first, err := b.BeginOnce(ctx, alice, "op", "k", "h1")
	require.NoError(t, err)
	require.Nil(t, first)
	_, err = b.BeginOnce(ctx, alice, "op", "k", "h1")
	refused(t, flows.CodeInProgress, err, "at work")
	answer := &governance.KeptAnswer{Status: 201, Headers: []byte(`{}`), Body: []byte("x")}
	require.NoError(t, b.EndOnce(ctx, alice, "op", "k", "h1", answer))
	again, err := b.BeginOnce(ctx, alice, "op", "k", "h1")
	require.NoError(t, err)
	require.Equal(t, answer, again)
	_, err = b.BeginOnce(ctx, alice, "op", "k", "h2")
	refused(t, flows.CodeIdempotencyReuse, err, "new key")
	for _, who := range []governance.Actor{bob, {Tenant: "other", Principal: alice.Principal}} {
		first, err = b.BeginOnce(ctx, who, "op", "k", "h2")
		require.NoError(t, err, "keys belong to a principal of a tenant")
		require.Nil(t, first)
	}
	require.NoError(t, b.EndOnce(ctx, bob, "op", "k", "h2", nil))
	first, err = b.BeginOnce(ctx, bob, "op", "k", "h3")
	require.NoError(t, err, "freed, because nothing was done")
	require.Nil(t, first)
	require.NoError(t, b.Start(ctx, "default"))
	_, err = b.BeginOnce(ctx, bob, "op", "k", "h3")
	require.NoError(t, err, "the process of the first request has ended")
	b.clock.advance(25 * time.Hour)
	first, err = b.BeginOnce(ctx, alice, "op", "k", "h9")
	require.NoError(t, err)
	require.Nil(t, first, "after a day")
}
