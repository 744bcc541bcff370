package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

func testDirty(t *testing.T, s suite) {
	s.each(t, map[string]func(*testing.T, store.Store){
		"marked by append, cleared by put, marked again": func(t *testing.T, st store.Store) {
			require.Empty(t, dirtyIDs(t, st))
			put(t, st, ToolCall("trace:a", "", 1), ToolCall("session:s", "s", 2), Span("trace:b", "", 3))
			require.Equal(t, []string{"s", "trace:a", "trace:b"}, dirtyIDs(t, st))
			mustAssemble(t, st)
			require.Empty(t, dirtyIDs(t, st))
			put(t, st, ToolCall("trace:a", "", 4))
			require.Equal(t, []string{"trace:a"}, dirtyIDs(t, st))
			mustAssemble(t, st)
			require.Empty(t, dirtyIDs(t, st))
		},
		"quiet sessions only, oldest first, at most limit": func(t *testing.T, st store.Store) {
			put(t, st, ToolCall("trace:c", "", 30), ToolCall("trace:a", "", 10))
			put(t, st, ToolCall("trace:b", "", 20), ToolCall("trace:d", "", 5))
			put(t, st, ToolCall("trace:d", "", 40))
			ids := func(quiet, limit int) []string {
				list, err := st.Dirty(t.Context(), tenant, At(quiet), limit)
				require.NoError(t, err)
				ids := []string{}
				for _, d := range list {
					ids = append(ids, d.ID)
				}
				return ids
			}
			require.Empty(t, ids(9, 10))
			require.Equal(t, []string{"trace:a"}, ids(10, 10), "received at quietSince is not newer")
			require.Equal(t, []string{"trace:a", "trace:b"}, ids(29, 10))
			require.Equal(t, []string{"trace:a", "trace:b", "trace:c"}, ids(39, 10))
			require.Equal(t, []string{"trace:a", "trace:b", "trace:c", "trace:d"}, ids(40, 10))
			require.Equal(t, []string{"trace:a", "trace:b"}, ids(40, 2))
		},
		"quiet counts from the newest event, whatever arrived last": func(t *testing.T, st store.Store) {
			put(t, st, ToolCall("trace:a", "", 50))
			put(t, st, ToolCall("trace:a", "", 10))
			list, err := st.Dirty(t.Context(), tenant, At(49), 10)
			require.NoError(t, err)
			require.Empty(t, list)
		},
		"an event between Dirty and PutSessions keeps the session dirty": func(t *testing.T, st store.Store) {
			// The late event has the same Received, an older and a newer one.
			for i, received := range []int{10, 3, 20} {
				origin := fmt.Sprintf("trace:%d", i)
				put(t, st, ToolCall(origin, "", 10))
				mark := dirtyOf(t, st, tenant)[origin]
				put(t, st, ToolCall(origin, "", received))
				require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{row(origin, mark, 0, "a")}))
				require.Equal(t, []string{origin}, dirtyIDs(t, st))
				require.Len(t, sequencesOf(t, st, tenant, store.SequenceFilter{}), i+1, "the rows are there all the same")
				mustAssemble(t, st)
				require.Empty(t, dirtyIDs(t, st))
			}
		},
		"other sessions keep their marks": func(t *testing.T, st store.Store) {
			put(t, st, ToolCall("trace:a", "", 1))
			put(t, st, ToolCall("trace:b", "", 2))
			marks := dirtyOf(t, st, tenant)
			require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{row("trace:b", marks["trace:b"], 0, "a")}))
			require.Equal(t, []string{"trace:a"}, dirtyIDs(t, st))
		},
		"a session without anything is removed": func(t *testing.T, st store.Store) {
			require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{row("s", 0, 0, "a"), row("r", 0, 0, "a")}))
			require.Len(t, sequencesOf(t, st, tenant, store.SequenceFilter{}), 2)
			empty := store.SessionRow{ID: "s", Summary: ingest.SessionSummary{ID: "s", Start: At(1), Conflicts: 1}}
			require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{empty}))
			left := sequencesOf(t, st, tenant, store.SequenceFilter{})
			require.Len(t, left, 1)
			require.Equal(t, "r", left[0].SessionID)
			page, err := st.Sessions(t.Context(), tenant, store.SessionFilter{})
			require.NoError(t, err)
			require.Len(t, page.Items, 1)
			page, err = st.Sessions(t.Context(), tenant, store.SessionFilter{Tool: "a"})
			require.NoError(t, err)
			require.Len(t, page.Items, 1)
		},
	})
}

// row is a session whose one sequence of the given tools starts at the nth second; n 0 means no time.
func row(id string, mark int64, n int, tools ...string) store.SessionRow {
	seq := store.NamedSequence{Tools: tools, Turns: make([]int32, len(tools)), Flags: make([]ingest.CallFlag, len(tools))}
	sum := ingest.SessionSummary{ID: id, ToolCalls: len(tools)}
	if n != 0 {
		seq.Start, sum.Start, sum.End = At(n), At(n), At(n+10)
	}
	return store.SessionRow{ID: id, Watermark: mark, Summary: sum, Sequences: []store.NamedSequence{seq}}
}
