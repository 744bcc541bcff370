package sqlite

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest/store"
)

// Runs that end while the writer is at work are written together; one that cannot be written keeps none of the others
// out, and one whose caller went is left out.
func TestRunsThatEndTogether(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = s.w.conn.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON runs WHEN NEW.id = 'bad' BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	require.NoError(t, err)

	require.NoError(t, s.w.wait(t.Context()))
	ids := []string{"a", "b", "bad", "gone", "c"}
	errs := map[string]error{}
	ctx, leave := context.WithCancel(t.Context())
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, id := range ids {
		its := t.Context()
		if id == "gone" {
			its = ctx
		}
		all.Go(func() {
			err := s.PutRun(its, "t", store.Run{ID: id, Flow: "f", Version: "1", Status: "succeeded", Start: time.Unix(1, 0)})
			mu.Lock()
			defer mu.Unlock()
			errs[id] = err
		})
	}
	waiting := func() int { s.w.runs.mu.Lock(); defer s.w.runs.mu.Unlock(); return len(s.w.runs.waiting) }
	require.Eventually(t, func() bool { return waiting() == len(ids) }, 5*time.Second, time.Millisecond)
	leave()
	require.Eventually(t, func() bool { return waiting() == len(ids)-1 }, 5*time.Second, time.Millisecond)
	s.w.done()
	all.Wait()

	require.ErrorIs(t, errs["gone"], context.Canceled)
	require.ErrorContains(t, errs["bad"], "refused")
	var kept []string
	page, err := s.Runs(t.Context(), "t", store.RunFilter{})
	require.NoError(t, err)
	for _, run := range page.Items {
		require.NoError(t, errs[run.ID])
		kept = append(kept, run.ID)
	}
	require.Equal(t, []string{"a", "b", "c"}, kept)
}
