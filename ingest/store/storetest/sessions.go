package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

// badCursors are texts that no engine may take for its own.
var badCursors = []string{"x", "!!", "AAAA", "0", "null", "\x00", "' OR 1=1 --", "9223372036854775807", "é"}

func testSessions(t *testing.T, s suite) {
	ids := func(page store.Page[ingest.SessionSummary]) []string {
		ids := []string{}
		for _, item := range page.Items {
			ids = append(ids, item.ID)
		}
		return ids
	}
	s.each(t, map[string]func(*testing.T, store.Store){
		"every field comes back": func(t *testing.T, st store.Store) {
			want := ingest.SessionSummary{
				ID: "s", Agents: []string{"main", "helper"}, Start: At(1), End: At(9), ToolCalls: 12, Errors: 3, Repeats: 2,
				UserTurns: 4, Conflicts: 1, Sources: []string{"otlp/genai", "json"},
				LLM: ingest.LLMUsage{
					Calls: 7, InputTokens: 1 << 40, OutputTokens: 5, CachedTokens: 6, CallsWithTokens: 7, CostUSD: 0.1,
					CallsWithCost: 8, Duration: 9 * time.Nanosecond, CallsWithDuration: 10,
				},
			}
			require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{{ID: "s", Summary: want}}))
			page, err := st.Sessions(t.Context(), tenant, store.SessionFilter{})
			require.NoError(t, err)
			require.Equal(t, store.Page[ingest.SessionSummary]{Items: []ingest.SessionSummary{want}}, page)
			want.ToolCalls, want.Agents = 1, []string{"solo"}
			require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{{ID: "s", Summary: want}}))
			page, err = st.Sessions(t.Context(), tenant, store.SessionFilter{})
			require.NoError(t, err)
			require.Equal(t, []ingest.SessionSummary{want}, page.Items)
		},
		"the filter and the order": func(t *testing.T, st store.Store) {
			rows := []store.SessionRow{
				row("none", 0, 0, "pay"), row("a", 0, 10, "find", "pay"), row("c", 0, 30, "find"), row("b", 0, 20, "ship"), row("b2", 0, 20, "ship"),
			}
			rows[1].Summary.Agents = []string{"main", "planner"}
			rows[3].Summary.Agents = []string{"planner"}
			rows[2].Sequences = append(rows[2].Sequences, store.NamedSequence{
				RunIndex: 1, Tools: []string{"nested"}, Turns: []int32{0}, Flags: []ingest.CallFlag{0},
			})
			require.NoError(t, st.PutSessions(t.Context(), tenant, rows))
			for _, c := range []struct {
				filter store.SessionFilter
				want   []string
			}{
				{store.SessionFilter{}, []string{"c", "b", "b2", "a", "none"}},
				{store.SessionFilter{From: At(20)}, []string{"c", "b", "b2"}},
				{store.SessionFilter{To: At(20)}, []string{"a"}},
				{store.SessionFilter{From: At(10), To: At(30)}, []string{"b", "b2", "a"}},
				{store.SessionFilter{Agent: "planner"}, []string{"b", "a"}},
				{store.SessionFilter{Agent: "plan"}, []string{}},
				{store.SessionFilter{Tool: "pay"}, []string{"a", "none"}},
				{store.SessionFilter{Tool: "nested"}, []string{"c"}},
				{store.SessionFilter{Tool: "pay", Agent: "planner"}, []string{"a"}},
				{store.SessionFilter{Tool: "unknown"}, []string{}},
			} {
				page, err := st.Sessions(t.Context(), tenant, c.filter)
				require.NoError(t, err)
				require.Equal(t, c.want, ids(page), "%+v", c.filter)
				require.Empty(t, page.Next)
			}
		},
		"pages stay stable while rows come": func(t *testing.T, st store.Store) {
			var want []string
			for i := range 130 {
				n := 1000 - i/3 // three sessions share each start
				if i >= 120 {
					n = 0
				}
				id := fmt.Sprintf("s%03d", i)
				require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{row(id, 0, n, "a")}))
				want = append(want, id)
			}
			var got []string
			filter := store.SessionFilter{Limit: 7}
			for n := 0; ; n++ {
				page, err := st.Sessions(t.Context(), tenant, filter)
				require.NoError(t, err)
				got = append(got, ids(page)...)
				if page.Next == "" {
					break
				}
				require.Len(t, page.Items, 7)
				filter.Cursor = page.Next
				// Newer ones arrive before the place of the reader.
				require.NoError(t, st.PutSessions(t.Context(), tenant, []store.SessionRow{row(fmt.Sprintf("new%d", n), 0, 2000+n, "a")}))
			}
			require.Equal(t, want, got)
			page, err := st.Sessions(t.Context(), tenant, store.SessionFilter{})
			require.NoError(t, err)
			require.Len(t, page.Items, store.DefaultLimit)
			page, err = st.Sessions(t.Context(), tenant, store.SessionFilter{Limit: 6, To: At(1001), From: At(999)})
			require.NoError(t, err)
			require.Equal(t, want[:6], ids(page))
			require.Empty(t, page.Next, "a full last page is known to be the last")
		},
		"bad cursors": func(t *testing.T, st store.Store) {
			for _, bad := range badCursors {
				_, err := st.Sessions(t.Context(), tenant, store.SessionFilter{Cursor: bad})
				require.ErrorIs(t, err, store.ErrCursor, "%q", bad)
			}
		},
	})
}
