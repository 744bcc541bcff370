package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

func testAppend(t *testing.T, s suite) {
	s.each(t, map[string]func(*testing.T, store.Store){
		"every field of every kind comes back": func(t *testing.T, st store.Store) {
			want := Kinds("trace:a")
			put(t, st, want...)
			require.Equal(t, map[string][]ingest.Event{"trace:a": want}, eventsOf(t, st, tenant, "trace:a"))
		},
		"arrival order over batches, copies included": func(t *testing.T, st store.Store) {
			var want []ingest.Event
			for batch := range 7 {
				var events []ingest.Event
				for i := range 30 {
					// The times run against arrival: order is that of Append, not of any clock.
					e := ToolCall("trace:a", "", 1000-batch*30-i)
					events = append(events, e, ToolCall("trace:other", "", i))
					want = append(want, e)
				}
				put(t, st, events...)
			}
			put(t, st, want[0], want[0])
			want = append(want, want[0], want[0])
			require.Equal(t, want, eventsOf(t, st, tenant, "trace:a")["trace:a"])
		},
		"many sessions in one call": func(t *testing.T, st store.Store) {
			want := map[string][]ingest.Event{}
			var ids []string
			for batch := range 5 {
				var events []ingest.Event
				for i := range 200 {
					id := fmt.Sprintf("session %d", (i*7+batch)%120)
					e := ToolCall("session:"+id, id, batch*200+i)
					events = append(events, e)
					want[id] = append(want[id], e)
				}
				put(t, st, events...)
			}
			for id := range want {
				ids = append(ids, id)
			}
			require.Equal(t, want, eventsOf(t, st, tenant, append(ids, "unknown", ids[0])...))
		},
		"tenants see only their own": func(t *testing.T, st store.Store) {
			a, b := ToolCall("trace:x", "s", 1), ToolCall("trace:x", "s", 2)
			require.NoError(t, st.Append(t.Context(), "a", []ingest.Event{a}))
			require.NoError(t, st.Append(t.Context(), "b", []ingest.Event{b}))
			require.Equal(t, map[string][]ingest.Event{"s": {a}}, eventsOf(t, st, "a", "s", "trace:x"))
			require.Equal(t, map[string][]ingest.Event{"s": {b}}, eventsOf(t, st, "b", "s"))
			require.Empty(t, eventsOf(t, st, "c", "s", "trace:x"))
			require.NoError(t, assemble(t.Context(), st, "a"))
			require.Empty(t, dirtyOf(t, st, "a"))
			require.Len(t, dirtyOf(t, st, "b"), 1)
			require.Len(t, sequencesOf(t, st, "a", store.SequenceFilter{}), 1)
			require.Empty(t, sequencesOf(t, st, "b", store.SequenceFilter{}))
			page, err := st.Sessions(t.Context(), "b", store.SessionFilter{})
			require.NoError(t, err)
			require.Empty(t, page.Items)
			names, err := st.ToolNames(t.Context(), "b")
			require.NoError(t, err)
			require.Empty(t, names)
		},
		"all or nothing": func(t *testing.T, st store.Store) {
			good := ToolCall("trace:a", "", 1)
			for name, spoil := range map[string]func(*ingest.Event){
				"no origin":    func(e *ingest.Event) { e.Origin = "" },
				"no received":  func(e *ingest.Event) { e.Received = time.Time{} },
				"no part":      func(e *ingest.Event) { e.Call = nil },
				"unknown kind": func(e *ingest.Event) { e.Kind = 99 },
			} {
				bad := ToolCall("trace:a", "", 2)
				spoil(&bad)
				require.ErrorIs(t, st.Append(t.Context(), tenant, []ingest.Event{good, bad, good}), store.ErrInvalid, name)
			}
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			require.Error(t, st.Append(cancelled, tenant, []ingest.Event{good}))
			require.Empty(t, eventsOf(t, st, tenant, "trace:a"))
			require.Empty(t, dirtyOf(t, st, tenant))
			require.NoError(t, st.Append(t.Context(), tenant, nil))
		},
		"one large batch": func(t *testing.T, st store.Store) {
			var want []ingest.Event
			for i := range 3000 {
				want = append(want, ToolCall("trace:a", "", i))
			}
			put(t, st, want...)
			require.Equal(t, want, eventsOf(t, st, tenant, "trace:a")["trace:a"])
		},
		"nothing is shared with the caller": func(t *testing.T, st store.Store) {
			e := ToolCall("trace:a", "", 1)
			put(t, st, e)
			e.Call.Args[2] = 'X'
			e.Call.Tool = "changed"
			want := ToolCall("trace:a", "", 1)
			first := eventsOf(t, st, tenant, "trace:a")["trace:a"]
			require.Equal(t, []ingest.Event{want}, first)
			first[0].Call.Args[2] = 'X'
			require.Equal(t, []ingest.Event{want}, eventsOf(t, st, tenant, "trace:a")["trace:a"])
		},
		"events stops at the error of fn": func(t *testing.T, st store.Store) {
			put(t, st, ToolCall("trace:a", "", 1), ToolCall("trace:b", "", 2))
			stop, calls := errors.New("stop"), 0
			err := st.Events(t.Context(), tenant, []string{"trace:a", "trace:b"}, func(string, []ingest.Event) error {
				calls++
				return stop
			})
			require.ErrorIs(t, err, stop)
			require.Equal(t, 1, calls)
			require.NoError(t, st.Events(t.Context(), tenant, nil, func(string, []ingest.Event) error { return stop }))
		},
		"closed store answers errors": func(t *testing.T, st store.Store) {
			require.NoError(t, st.Ping(t.Context()))
			require.NoError(t, st.Close())
			require.NoError(t, st.Close())
			require.Error(t, st.Append(t.Context(), tenant, []ingest.Event{ToolCall("trace:a", "", 1)}))
			_, err := st.Dirty(t.Context(), tenant, everything, 1)
			require.Error(t, err)
			require.Error(t, st.Ping(t.Context()))
		},
	})
}

// isSubsequence tells whether part occurs in whole in order, other elements between.
func isSubsequence(part, whole []string) bool {
	for _, w := range whole {
		if len(part) > 0 && part[0] == w {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// identities lists the events' identities, in order.
func identities(events []ingest.Event) []string {
	ids := make([]string, len(events))
	for i := range events {
		ids[i] = events[i].Identity
	}
	return slices.Clip(ids)
}
