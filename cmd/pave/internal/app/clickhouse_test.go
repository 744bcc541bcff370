package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
)

// O2: without its ClickHouse server the service starts all the same. It serves what is in the state store, keeps calls in
// its spool, says on /readyz what is missing, and tries again by itself.
func TestScenarioO2StartWithoutClickHouse(t *testing.T) {
	var tries atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		tries.Add(1)
		panic(http.ErrAbortHandler) // the connection ends without an answer
	}))
	defer front.Close()
	a := open(t, func(o *Options) { o.ClickHouse = front.URL + "/default" })
	c, ctx := clientOf(t, a, ""), t.Context()
	policy, err := c.GetPolicyWithResponse(ctx)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, policy.StatusCode(), "the state is served")
	tools, err := c.ApplyToolsWithResponse(ctx, json.RawMessage(`[{"kind":"Tool","name":"a"}]`))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, tools.StatusCode())
	recorded, err := c.RecordToolCallsWithBodyWithResponse(ctx, &gen.RecordToolCallsParams{}, "application/x-ndjson", strings.NewReader(`{"tool":"a","session_id":"s","call_id":"c"}`))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, recorded.StatusCode(), "calls wait in the spool: %s", recorded.Body)
	sessions, err := c.ListSessionsWithResponse(ctx, &gen.ListSessionsParams{})
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, sessions.StatusCode(), string(sessions.Body))
	ready := httptest.NewRecorder()
	a.Handler().ServeHTTP(ready, httptest.NewRequest("GET", "/readyz", nil))
	require.Equal(t, http.StatusServiceUnavailable, ready.Code)
	require.Contains(t, ready.Body.String(), "event store")
	for range 2 {
		before := tries.Load()
		require.Eventually(t, func() bool { return tries.Load() > before }, 30*time.Second, 10*time.Millisecond, "it tries again by itself")
	}
	require.Less(t, tries.Load(), int64(200), "with a pause between")
}
