package api

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
)

// Pages stay whole and without repeats while names come and go between them.
func TestPageByNameIsStable(t *testing.T) {
	self := func(s string) string { return s }
	names := []string{"a", "b", "c", "d", "e"}
	page, cursor, err := pageByName(names, self, 2, "")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, page)
	changed := []string{"a", "aa", "c", "d", "e"} // b is gone, aa is new and before the cursor
	page, cursor, err = pageByName(changed, self, 2, cursor)
	require.NoError(t, err)
	require.Equal(t, []string{"c", "d"}, page)
	page, cursor, err = pageByName(changed, self, 2, cursor)
	require.NoError(t, err)
	require.Equal(t, []string{"e"}, page)
	require.Empty(t, cursor)
	_, _, err = pageByName(names, self, 2, "%%%")
	require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
}

func TestOffsetCursorBelongsToItsPass(t *testing.T) {
	n, err := parseOffset(offsetCursor("p1", 3), "p1", 5)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	_, err = parseOffset(offsetCursor("p1", 3), "p2", 5)
	require.Equal(t, flows.CodeStale, flows.CodeOf(err))
	_, err = parseOffset(offsetCursor("p1", 9), "p1", 5)
	require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
}

func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add(offsetCursor("p1", 3))
	f.Add("cDE6LTE")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, cursor string) {
		if n, err := parseOffset(cursor, "p1", 5); err == nil {
			require.True(t, n >= 0 && n <= 5, fmt.Sprint(n))
		}
		if n, err := parseAuditCursor(cursor); err == nil {
			require.GreaterOrEqual(t, n, int64(0))
		}
		page, _, err := pageByName([]string{"a", "b"}, func(s string) string { return s }, 1, cursor)
		if err == nil {
			require.LessOrEqual(t, len(page), 1)
		}
	})
}

func TestIfMatch(t *testing.T) {
	for header, want := range map[string]int64{`"3"`: 3, `W/"3"`: 3, `3`: 3, `"0"`: 0} {
		got, err := ifMatch(header, 0)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Equal(t, `"3"`, etag(3))
	for header, code := range map[string]flows.Code{"": flows.CodePrecondition, "*": flows.CodePrecondition, `"0"`: flows.CodeStale,
		`"-1"`: flows.CodeStale, `"x"`: flows.CodeStale} {
		_, err := ifMatch(header, 1)
		require.Equal(t, code, flows.CodeOf(err), "revision 0 is no object's that was read: %s", header)
	}
}
