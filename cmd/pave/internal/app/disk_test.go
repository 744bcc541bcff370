package app

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api"
	"pave/api/gen"
)

// A disk that is low: nothing is recorded, with an answer that says so and when to come again; what is recorded can be read;
// when there is room again, recording goes on in the same process.
func TestLowDiskIsReadOnlyAndRecovers(t *testing.T) {
	a := open(t, nil)
	var free, clock atomic.Int64
	free.Store(1 << 40)
	a.disk.space = func(string) (uint64, uint64, error) { return 1 << 40, uint64(free.Load()), nil }
	a.disk.now = func() time.Time { return time.Unix(clock.Add(10), 0) } // every look is a new one
	cl := clientOf(t, a, "")
	record := func(id string) *gen.RecordToolCallsResponse {
		resp, err := cl.RecordToolCallsWithBodyWithResponse(t.Context(), &gen.RecordToolCallsParams{Assemble: true}, "application/x-ndjson",
			strings.NewReader(`{"tool":"a","session_id":"s","call_id":"`+id+`"}`))
		require.NoError(t, err)
		return resp
	}
	trace := func() *httptest.ResponseRecorder {
		body, err := toolRequest(t, map[string]any{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "b", "session.id": "s"}).MarshalProto()
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodPost, "/v1/traces", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/x-protobuf")
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r.WithContext(api.WithActor(r.Context(), a.localActor())))
		return w
	}
	require.Equal(t, http.StatusOK, record("1").StatusCode())

	free.Store(lowDisk - 1)
	refused := record("2")
	require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode())
	require.Equal(t, "10", refused.HTTPResponse.Header.Get("Retry-After"))
	require.Contains(t, string(refused.Body), "255 MiB free")
	w := trace()
	require.Equal(t, []any{http.StatusServiceUnavailable, "10"}, []any{w.Code, w.Header().Get("Retry-After")})
	session, err := cl.GetSessionWithResponse(t.Context(), "s")
	require.NoError(t, err)
	require.Len(t, session.JSON200.Runs[0].Calls, 1, "reads go on")
	ready, err := cl.GetReadinessWithResponse(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(ready.Body), "255 MiB free")

	free.Store(lowDisk)
	require.Equal(t, http.StatusOK, record("2").StatusCode())
	require.Equal(t, http.StatusOK, trace().Code)
	session, err = cl.GetSessionWithResponse(t.Context(), "s")
	require.NoError(t, err)
	require.Len(t, session.JSON200.Runs[0].Calls, 3, "both, and none twice")
}

// What the real file system says is believed.
func TestStatfs(t *testing.T) {
	size, free, err := statfs(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, size)
	require.LessOrEqual(t, free, size)
	_, _, err = statfs(filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}

// Recorded calls that are gone beside a state that is there are not passed over in silence.
func TestMissingEventsAreSaid(t *testing.T) {
	for name, damage := range map[string]func(string) error{
		"missing": os.Remove,
		"empty":   func(file string) error { return os.Truncate(file, 0) },
		"whole":   func(string) error { return nil },
	} {
		dir := t.TempDir()
		opened := func(w io.Writer) {
			a, err := Open(t.Context(), Options{DataDir: dir, Logger: slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn})), Version: "test"})
			require.NoError(t, err)
			require.NoError(t, a.Close())
		}
		var first, second bytes.Buffer
		opened(&first)
		require.Empty(t, first.String(), "a first start has nothing to miss")
		require.NoError(t, damage(filepath.Join(dir, eventsFile)))
		opened(&second)
		require.Equal(t, name != "whole", strings.Contains(second.String(), "events.db is missing or empty"), name)
	}
}
