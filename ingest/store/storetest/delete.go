package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

func testDelete(t *testing.T, s suite) {
	remove := func(t *testing.T, st store.Store, ids ...string) store.Deleted {
		t.Helper()
		got, err := st.Delete(t.Context(), tenant, ids)
		require.NoError(t, err)
		return got
	}
	listed := func(t *testing.T, st store.Store) []string {
		t.Helper()
		page, err := st.Sessions(t.Context(), tenant, store.SessionFilter{})
		require.NoError(t, err)
		ids := []string{}
		for _, sum := range page.Items {
			ids = append(ids, sum.ID)
		}
		return ids
	}
	s.each(t, map[string]func(*testing.T, store.Store){
		"one of many that lie together": func(t *testing.T, st store.Store) {
			var batch []ingest.Event
			for n := range 30 {
				batch = append(batch, ToolCall(fmt.Sprintf("trace:%d", n%3), fmt.Sprintf("s%d", n%3), n))
			}
			put(t, st, batch...)
			put(t, st, LLMCall("trace:1", "s1", 40), UserMessage("trace:2", "s2", 41))
			mustAssemble(t, st)
			want := eventsOf(t, st, tenant, "s0", "s2")
			require.Equal(t, store.Deleted{Sessions: 1, Events: 11, ToolCalls: 10}, remove(t, st, "s1", "unknown"))
			require.Equal(t, want, eventsOf(t, st, tenant, "s0", "s1", "s2", "trace:1"))
			require.ElementsMatch(t, []string{"s0", "s2"}, listed(t, st))
			require.Len(t, sequencesOf(t, st, tenant, store.SequenceFilter{}), 2)
			require.Empty(t, dirtyIDs(t, st))
			stats, err := st.Stats(t.Context(), tenant)
			require.NoError(t, err)
			require.Equal(t, []int64{21, 20, 2, 20}, []int64{stats.Events, stats.ToolCallRows, stats.Sessions, stats.ToolCalls})
			require.Equal(t, store.Deleted{}, remove(t, st, "s1"), "it is gone")
			put(t, st, ToolCall("trace:1", "s1", 50))
			require.Equal(t, []string{"s1"}, dirtyIDs(t, st), "what comes later makes it anew")
			mustAssemble(t, st)
			require.Len(t, eventsOf(t, st, tenant, "s1")["s1"], 1)
			require.Equal(t, store.Deleted{Sessions: 3, Events: 22, ToolCalls: 21}, remove(t, st, "s2", "s1", "s0"))
			require.Empty(t, listed(t, st))
		},
		"a session that is its own origin, before it is assembled": func(t *testing.T, st store.Store) {
			put(t, st, ToolCall("trace:a", "", 1), ToolCall("trace:b", "", 2))
			require.Equal(t, store.Deleted{Sessions: 1, Events: 1, ToolCalls: 1}, remove(t, st, "trace:a"))
			require.Equal(t, []string{"trace:b"}, dirtyIDs(t, st))
			put(t, st, ToolCall("trace:b", "s", 3))
			require.Equal(t, store.Deleted{}, remove(t, st, "trace:b"), "its events are those of s now")
			require.Len(t, eventsOf(t, st, tenant, "s")["s"], 2)
		},
		"an origin that two sessions share": func(t *testing.T, st store.Store) {
			nested := ToolCall("trace:x", "", 3)
			nested.TraceID, nested.SpanID, nested.ParentSpanID = "x", "3", "1"
			first, second := ToolCall("trace:x", "a", 1), ToolCall("trace:x", "b", 2)
			first.TraceID, first.SpanID = "x", "1"
			second.TraceID, second.SpanID = "x", "2"
			put(t, st, first, second, nested)
			put(t, st, ToolCall("trace:y", "b", 4))
			mustAssemble(t, st)
			require.Equal(t, store.Deleted{Sessions: 1, Events: 2, ToolCalls: 2}, remove(t, st, "a"), "with the call below its span")
			left := eventsOf(t, st, tenant, "a", "b")
			require.Len(t, left, 1)
			require.Len(t, left["b"], 2)
			require.Equal(t, second, left["b"][0])
			require.Equal(t, []string{"b"}, dirtyIDs(t, st), "it is assembled anew")
			mustAssemble(t, st)
			require.Equal(t, []string{"b"}, listed(t, st))
			require.Empty(t, dirtyIDs(t, st))
			put(t, st, ToolCall("trace:x", "b", 5))
			require.Equal(t, []string{"b"}, dirtyIDs(t, st), "and again when more comes")
		},
		"another tenant keeps its own": func(t *testing.T, st store.Store) {
			put(t, st, ToolCall("trace:1", "s", 1))
			require.NoError(t, st.Append(t.Context(), "other", []ingest.Event{ToolCall("trace:1", "s", 1)}))
			require.Equal(t, store.Deleted{Sessions: 1, Events: 1, ToolCalls: 1}, remove(t, st, "s"))
			require.Len(t, eventsOf(t, st, "other", "s")["s"], 1)
		},
	})
}
