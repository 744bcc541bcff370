package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

// testReopen checks that all of it is on disk and that ids and marks go on where they were.
func testReopen(t *testing.T, s suite) {
	if s.caps.Reopen == nil {
		t.Log("the engine under test cannot be reopened")
		return
	}
	st := s.fresh(t)
	first, second := ToolCall("trace:a", "", 1), ToolCall("trace:b", "s", 2)
	put(t, st, first, second)
	mustAssemble(t, st)
	late := ToolCall("trace:a", "", 3)
	put(t, st, late)
	marks := dirtyOf(t, st, tenant)
	want := run("r", "f", "1", "succeeded", 1)
	require.NoError(t, st.PutRun(t.Context(), tenant, want))
	before := sequencesOf(t, st, tenant, store.SequenceFilter{})

	st = s.caps.Reopen(t, st)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.ElementsMatch(t, before, sequencesOf(t, st, tenant, store.SequenceFilter{}))
	require.Equal(t, []string{"trace:a"}, dirtyIDs(t, st))
	after := ToolCall("trace:b", "", 4)
	put(t, st, after)
	require.Equal(t, map[string][]ingest.Event{"trace:a": {first, late}, "s": {second, after}}, eventsOf(t, st, tenant, "trace:a", "s", "trace:b"))
	// A mark taken before still clears what it saw.
	require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{row("trace:a", marks["trace:a"], 1, "tool-1", "tool-3", "new")}))
	require.Equal(t, []string{"s"}, dirtyIDs(t, st))
	mustAssemble(t, st)
	got := map[string][]string{}
	for _, r := range sequencesOf(t, st, tenant, store.SequenceFilter{}) {
		got[r.SessionID] = r.Tools
	}
	require.Equal(t, map[string][]string{"trace:a": {"tool-1", "tool-3", "new"}, "s": {"tool-2", "tool-4"}}, got)
	runs, err := st.Runs(t.Context(), tenant, store.RunFilter{})
	require.NoError(t, err)
	require.Equal(t, []store.Run{want}, runs.Items)
	stats, err := st.RunStats(t.Context(), tenant, time.Time{}, time.Time{})
	require.NoError(t, err)
	require.Len(t, stats, 1)
}
