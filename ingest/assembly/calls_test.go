package assembly

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

func TestCallsArePagedOverSessions(t *testing.T) {
	s, now := open(t), t0
	record := recorder(t, s, &now, nil)
	var want []string // newest session first, each in its order
	for n := 29; n >= 0; n-- {
		session := fmt.Sprintf("s%02d", n)
		for i := range 3 {
			e := toolCall("t"+session, fmt.Sprint(i), session, fmt.Sprintf("tool%d", i), n*100+i)
			if n%2 == 0 && i == 2 {
				e.Call.Status = ingest.StatusError
			}
			record(e)
			want = append(want, session+"/"+e.Call.Tool)
		}
	}
	a := New(s, Options{})
	_, err := a.Run(t.Context(), "t", time.Time{})
	require.NoError(t, err)
	calls := Calls{Store: s, Loader: Loader{Store: s}}
	all := func(f CallFilter) (got []string, pages int) {
		for {
			page, err := calls.List(t.Context(), "t", f)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Items), f.Limit)
			for _, c := range page.Items {
				got = append(got, c.Session+"/"+c.Tool)
			}
			pages++
			if f.Cursor = page.Next; f.Cursor == "" {
				return got, pages
			}
		}
	}
	for _, limit := range []int{1, 4, 7, 90, 500} {
		got, _ := all(CallFilter{Limit: limit})
		require.Equal(t, want, got, limit)
	}
	got, pages := all(CallFilter{Limit: 10, Tool: "tool2", Status: ingest.StatusError})
	require.Len(t, got, 15)
	require.Equal(t, "s28/tool2", got[0])
	require.Equal(t, 2, pages)
	got, _ = all(CallFilter{Limit: 2, Session: "s07"})
	require.Equal(t, []string{"s07/tool0", "s07/tool1", "s07/tool2"}, got)
	got, _ = all(CallFilter{Limit: 5, From: t0.Add(2800 * time.Second)})
	require.Equal(t, want[:6], got)

	first, err := calls.List(t.Context(), "t", CallFilter{Limit: 1})
	require.NoError(t, err)
	_, err = a.Delete(t.Context(), "t", []string{"s29"})
	require.NoError(t, err)
	next, err := calls.List(t.Context(), "t", CallFilter{Limit: 1, Cursor: first.Next})
	require.NoError(t, err)
	require.Equal(t, "s28", next.Items[0].Session, "a session that is gone is passed over")
	require.Equal(t, "tool0", next.Items[0].Tool)
	for _, bad := range []string{"x", "!!", "LTE6Og", "YTo6"} {
		_, err := calls.List(t.Context(), "t", CallFilter{Cursor: bad})
		require.ErrorIs(t, err, store.ErrCursor, bad)
	}
}
