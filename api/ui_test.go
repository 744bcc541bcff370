package api

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
)

func TestUIServesFilesAndPages(t *testing.T) {
	s := bare(t, nil)
	for path, want := range map[string]int{
		"/ui/": http.StatusOK, "/ui/proposals/a%2Fb": http.StatusOK, "/": http.StatusFound, "/ui": http.StatusFound,
		"/ui/assets/none.js": http.StatusNotFound, "/ui/assets/../../server.go": http.StatusNotFound, "/ui/assets/%2e%2e/index.html": http.StatusNotFound,
	} {
		w := call(s, http.MethodGet, path, "")
		require.Equal(t, want, w.Code, path)
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "script-src 'self';", path)
	}
	page := call(s, http.MethodGet, "/ui/", "")
	require.Equal(t, "no-cache", page.Header().Get("Cache-Control"))
	_, rest, found := strings.Cut(page.Body.String(), `src="/ui/assets/`)
	require.True(t, found, page.Body.String())
	name, _, _ := strings.Cut(rest, `"`)
	script := call(s, http.MethodGet, "/ui/assets/"+name, "")
	require.Equal(t, http.StatusOK, script.Code)
	require.Contains(t, script.Header().Get("Content-Type"), "javascript")
	require.Contains(t, script.Header().Get("Cache-Control"), "immutable")
	require.Equal(t, http.StatusMethodNotAllowed, call(s, http.MethodPost, "/ui/", "").Code)
}

// Files are sent compressed to who can read that, kept by their tags, and whole to everybody else.
func TestUIFilesAreCompressed(t *testing.T) {
	s := bare(t, nil)
	page := call(s, http.MethodGet, "/ui/", "")
	require.Empty(t, page.Header().Get("Content-Encoding"))
	require.NotEmpty(t, page.Header().Get("ETag"))
	_, rest, _ := strings.Cut(page.Body.String(), `src="`)
	script, _, _ := strings.Cut(rest, `"`)
	plain := call(s, http.MethodGet, script, "")
	unpack := map[string]func(io.Reader) (io.Reader, error){
		"":     func(r io.Reader) (io.Reader, error) { return r, nil },
		"gzip": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"br":   func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
	}
	tags := map[string]bool{}
	for accept, want := range map[string]string{
		"gzip, deflate, br": "br", "gzip": "gzip", "GZIP;q=0.5": "gzip", "br;q=0, gzip;q=1": "gzip", "br; q=0": "", "identity": "", "x-gzip": "", "zstd": "", "": "",
	} {
		w := call(s, http.MethodGet, script, "", "Accept-Encoding", accept)
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, want, w.Header().Get("Content-Encoding"), accept)
		require.Equal(t, "Accept-Encoding", w.Header().Get("Vary"))
		require.Equal(t, w.Header().Get("Content-Length"), strconv.Itoa(w.Body.Len()))
		if want != "" {
			require.Less(t, w.Body.Len(), plain.Body.Len()/2)
		}
		tag := w.Header().Get("ETag")
		tags[tag] = true
		again := call(s, http.MethodGet, script, "", "Accept-Encoding", accept, "If-None-Match", `"other", W/`+tag)
		require.Equal(t, http.StatusNotModified, again.Code)
		require.Zero(t, again.Body.Len())
		r, err := unpack[want](w.Body)
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, plain.Body.String(), string(got), accept)
	}
	require.Len(t, tags, 3, "each form has its own tag")
	head := call(s, http.MethodHead, script, "")
	require.Equal(t, strconv.Itoa(plain.Body.Len()), head.Header().Get("Content-Length"))
	require.Zero(t, head.Body.Len())
}

// oneKey knows a single secret.
type oneKey struct {
	others
	secret string
}

// others are the operations that no browser session needs.
type others Keys

func (k *oneKey) Authenticate(_ context.Context, secret string) (governance.Actor, error) {
	if secret != k.secret {
		return governance.Actor{}, flows.NewError(flows.CodeUnauthenticated, "no such key")
	}
	return governance.Actor{Tenant: "default", Principal: "person:alice", Scopes: []governance.Scope{governance.ScopeRead}}, nil
}

func TestABrowserSession(t *testing.T) {
	keys := &oneKey{secret: "pave_right"}
	s := bare(t, func(d *Deps, o *Options) { d.Keys, o.NoAuth = keys, false })
	require.Equal(t, http.StatusUnauthorized, call(s, http.MethodGet, "/api/v1/me", "").Code)
	require.Equal(t, http.StatusUnauthorized, call(s, http.MethodPost, "/api/v1/ui-session", `{"key":"pave_wrong"}`).Code)
	require.Equal(t, http.StatusForbidden, call(s, http.MethodPost, "/api/v1/ui-session", `{"key":"pave_right"}`, "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, http.StatusBadRequest, call(s, http.MethodPost, "/api/v1/ui-session", `{}`).Code)

	in := call(s, http.MethodPost, "/api/v1/ui-session", `{"key":"pave_right"}`)
	require.Equal(t, http.StatusOK, in.Code, in.Body.String())
	require.Len(t, in.Result().Cookies(), 1)
	cookie := in.Result().Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.NotContains(t, cookie.Value, "pave_right")
	as := "pave_session=" + cookie.Value
	me := call(s, http.MethodGet, "/api/v1/me", "", "Cookie", as)
	require.JSONEq(t, `{"principal":"person:alice","scopes":["read"],"auth":"session"}`, me.Body.String())

	keys.secret = "pave_other" // the key was revoked: its sessions are, too
	require.Equal(t, http.StatusUnauthorized, call(s, http.MethodGet, "/api/v1/me", "", "Cookie", as).Code)
	keys.secret = "pave_right"
	require.Equal(t, http.StatusNoContent, call(s, http.MethodDelete, "/api/v1/ui-session", "", "Cookie", as).Code)
	require.Equal(t, http.StatusUnauthorized, call(s, http.MethodGet, "/api/v1/me", "", "Cookie", as).Code)
}

func TestBrowserSessionsEndAndAreBounded(t *testing.T) {
	var b browsers
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	request := func(id string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: id})
		return r
	}
	first := b.open("pave_1", now)
	secret, ok := b.secret(request(first), now.Add(browserSessionLife))
	require.True(t, ok)
	require.Equal(t, "pave_1", secret)
	_, ok = b.secret(request(first), now.Add(browserSessionLife+time.Second))
	require.False(t, ok)
	first = b.open("pave_1", now)
	for range maxBrowserSessions {
		b.open("pave_2", now.Add(time.Minute))
	}
	require.Len(t, b.sessions, maxBrowserSessions)
	_, ok = b.secret(request(first), now)
	require.False(t, ok, "the session that ends first gives way")
}
