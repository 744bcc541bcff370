package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
	"pave/ingest/store/clickhouse/chtest"
)

// O2: a service that started without its ClickHouse server uses it when it comes, and again when it was away: nobody
// restarts anything, and no call that was acknowledged is missing or there twice.
func TestScenarioO2ClickHouseComesLater(t *testing.T) {
	real := chtest.Open(t)
	dsn, err := url.Parse(real.DSN)
	require.NoError(t, err)
	if real.Transport == nil && dsn.Scheme != "http" && dsn.Scheme != "https" {
		t.Skipf("the server of PAVE_TEST_CLICKHOUSE_DSN speaks %s; what stands before it here speaks HTTP", dsn.Scheme)
	}
	wire := http.RoundTripper(http.DefaultTransport)
	if real.Transport != nil {
		wire = real.Transport(wire)
	}
	proxy := &httputil.ReverseProxy{Transport: wire, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: dsn.Scheme, Host: dsn.Host}) }}
	var there atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !there.Load() {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	at, err := url.Parse(front.URL)
	require.NoError(t, err)
	at.Path, at.User = dsn.Path, dsn.User
	a := open(t, func(o *Options) { o.ClickHouse = at.String() })
	c, ctx := clientOf(t, a, ""), t.Context()

	ready := func() (int, string) {
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		return w.Code, w.Body.String()
	}
	record := func(tool string, assemble bool) {
		t.Helper()
		in, err := c.RecordToolCallsWithBodyWithResponse(ctx, &gen.RecordToolCallsParams{Assemble: assemble}, "application/x-ndjson",
			strings.NewReader(fmt.Sprintf(`{"tool":%[1]q,"session_id":"s","call_id":"call of %[1]s"}`, tool)))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, in.StatusCode(), string(in.Body))
	}
	var sent []string
	send := func() {
		t.Helper()
		tool := fmt.Sprintf("t%d", len(sent))
		record(tool, false)
		record(tool, false) // agents repeat what they are not sure of
		sent = append(sent, tool)
	}
	complete := func() {
		t.Helper()
		require.Eventually(t, func() bool { code, _ := ready(); return code == http.StatusOK }, 60*time.Second, 50*time.Millisecond, "ready again")
		var stored []string
		require.Eventually(t, func() bool {
			record(sent[0], true)
			list, err := c.ListToolCallsWithResponse(ctx, &gen.ListToolCallsParams{Session: "s", Limit: 100})
			require.NoError(t, err)
			if list.StatusCode() != http.StatusOK {
				return false
			}
			stored = nil
			for _, call := range list.JSON200.Items {
				stored = append(stored, call.Call.Tool)
			}
			slices.Sort(stored)
			return len(stored) >= len(sent)
		}, 60*time.Second, 50*time.Millisecond, "the spool is emptied")
		require.Equal(t, slices.Sorted(slices.Values(sent)), stored)
	}

	send()
	code, body := ready()
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.True(t, json.Valid([]byte(body)), body)
	require.Contains(t, body, "event store")
	there.Store(true)
	complete()
	there.Store(false)
	send()
	send()
	require.Eventually(t, func() bool { code, _ := ready(); return code == http.StatusServiceUnavailable }, 30*time.Second, 50*time.Millisecond)
	there.Store(true)
	complete()
}
