package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

func testBinding(t *testing.T, s suite) {
	type found = map[string][]ingest.Event
	s.each(t, map[string]func(*testing.T, store.Store){
		"a late session id takes over its origin": func(t *testing.T, st store.Store) {
			first, late, after := ToolCall("trace:a", "", 1), Span("trace:a", "s", 2), LLMCall("trace:a", "", 3)
			put(t, st, first)
			require.Equal(t, found{"trace:a": {first}}, eventsOf(t, st, tenant, "trace:a", "s"))
			put(t, st, late)
			require.Equal(t, []string{"s", "trace:a"}, dirtyIDs(t, st))
			require.Equal(t, found{"s": {first, late}}, eventsOf(t, st, tenant, "trace:a", "s"))
			mustAssemble(t, st)
			put(t, st, after)
			require.Equal(t, []string{"s"}, dirtyIDs(t, st))
			require.Equal(t, found{"s": {first, late, after}}, eventsOf(t, st, tenant, "trace:a", "s"))
		},
		"an assembled origin session is dirty again and becomes nothing": func(t *testing.T, st store.Store) {
			put(t, st, ToolCall("trace:a", "", 1), ToolCall("trace:a", "", 2))
			mustAssemble(t, st)
			put(t, st, ToolCall("trace:a", "s", 3))
			require.Equal(t, []string{"s", "trace:a"}, dirtyIDs(t, st))
			mustAssemble(t, st)
			require.Empty(t, dirtyIDs(t, st))
			seqs := sequencesOf(t, st, tenant, store.SequenceFilter{})
			require.Len(t, seqs, 1)
			require.Equal(t, "s", seqs[0].SessionID)
			require.Equal(t, []string{"tool-1", "tool-2", "tool-3"}, seqs[0].Tools)
		},
		"bound in its first batch": func(t *testing.T, st store.Store) {
			a, b, c := ToolCall("trace:a", "", 1), ToolCall("trace:a", "s", 2), ToolCall("trace:a", "", 3)
			put(t, st, a, b, c)
			require.Contains(t, dirtyIDs(t, st), "s")
			require.Equal(t, found{"s": {a, b, c}}, eventsOf(t, st, tenant, "s", "trace:a"))
		},
		"a session of two origins": func(t *testing.T, st store.Store) {
			a1, b1 := ToolCall("trace:a", "s", 1), ToolCall("trace:b", "", 2)
			a2, b2 := ToolCall("trace:a", "", 3), ToolCall("trace:b", "s", 4)
			put(t, st, a1, b1)
			put(t, st, a2)
			require.Equal(t, found{"s": {a1, a2}, "trace:b": {b1}}, eventsOf(t, st, tenant, "s", "trace:b"))
			put(t, st, b2)
			require.Equal(t, found{"s": {a1, b1, a2, b2}}, eventsOf(t, st, tenant, "s", "trace:b"))
			require.Equal(t, []string{"s", "trace:b"}, dirtyIDs(t, st))
			mustAssemble(t, st)
			put(t, st, UserMessage("trace:b", "", 5))
			require.Equal(t, []string{"s"}, dirtyIDs(t, st))
		},
		"an origin of two sessions": func(t *testing.T, st store.Store) {
			a, b, none := ToolCall("trace:a", "s", 1), ToolCall("trace:a", "r", 2), ToolCall("trace:a", "", 3)
			put(t, st, a)
			mustAssemble(t, st)
			put(t, st, b)
			require.Equal(t, []string{"r", "s"}, dirtyIDs(t, st), "both may change by what joins their origin")
			mustAssemble(t, st)
			put(t, st, none)
			require.Equal(t, []string{"r", "s"}, dirtyIDs(t, st))
			want := []ingest.Event{a, b, none}
			require.Equal(t, found{"r": want, "s": want}, eventsOf(t, st, tenant, "r", "s"))
			mustAssemble(t, st)
			put(t, st, ToolCall("trace:a", "s", 4))
			require.Equal(t, []string{"r", "s"}, dirtyIDs(t, st))
		},
		"sessions of one name in session and trace origins": func(t *testing.T, st store.Store) {
			a, b := ToolCall("session:s", "s", 1), ToolCall("trace:t", "s", 2)
			put(t, st, b)
			put(t, st, a)
			require.Equal(t, found{"s": {b, a}}, eventsOf(t, st, tenant, "s"))
		},
		"many origins of one session": func(t *testing.T, st store.Store) {
			var want []ingest.Event
			for i := range 300 {
				e := ToolCall("request:"+At(i).String(), "s", i)
				want = append(want, e)
			}
			put(t, st, want[:100]...)
			put(t, st, want[100:]...)
			require.Equal(t, []string{"s"}, dirtyIDs(t, st))
			require.Equal(t, want, eventsOf(t, st, tenant, "s")["s"])
		},
	})
}
