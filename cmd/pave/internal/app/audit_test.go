package app

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
)

// The audit log is read from either end, page by page, also while it grows; a cursor is good for its own direction only.
func TestAuditFromEitherEnd(t *testing.T) {
	a := open(t, nil)
	c := clientOf(t, a, "")
	for i := range 7 {
		newKey(t, a, fmt.Sprintf("service:s%d", i), time.Time{}, "read")
	}
	var first string // cursor of a page
	pages := func(order gen.ListAuditEventsParamsOrder) (seqs []int64) {
		cursor := ""
		for {
			page, err := c.ListAuditEventsWithResponse(t.Context(), &gen.ListAuditEventsParams{Order: order, Limit: 3, Cursor: cursor})
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, page.StatusCode(), string(page.Body))
			for _, e := range page.JSON200.Items {
				seqs = append(seqs, e.Seq)
			}
			if cursor = page.JSON200.NextCursor; cursor == "" {
				return seqs
			}
			if first == "" {
				first = cursor
				newKey(t, a, "service:late", time.Time{}, "read")
			}
		}
	}
	down := pages(gen.ListAuditEventsParamsOrderDesc)
	up := pages(gen.ListAuditEventsParamsOrderAsc)
	require.Len(t, up, len(down)+1, "one event came while the first list was read")
	require.Equal(t, int64(1), up[0])
	require.True(t, slices.IsSorted(up))
	slices.Reverse(down)
	require.Equal(t, up[:len(down)], down, "what came meanwhile moved nothing")
	for _, order := range []gen.ListAuditEventsParamsOrder{gen.ListAuditEventsParamsOrderAsc, ""} {
		wrong, err := c.ListAuditEventsWithResponse(t.Context(), &gen.ListAuditEventsParams{Order: order, Limit: 3, Cursor: first})
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, wrong.StatusCode())
	}
	none, err := c.ListAuditEventsWithResponse(t.Context(), &gen.ListAuditEventsParams{Order: "sideways"})
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, none.StatusCode())
}
