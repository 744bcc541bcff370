package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCursor(t *testing.T) {
	for _, p := range []Position{
		{ID: "s"},
		{},
		{Start: time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC), ID: "trace:\x00é"},
		{Start: time.Date(1969, 12, 31, 23, 59, 59, 1, time.UTC), ID: ""},
	} {
		got, err := ParseCursor(p.Cursor())
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	for _, bad := range []string{"", "x", "%%", "AAAA", "AQ", "AQI", "AQEAAA", "AQAA=", "AQAA\n", "A\rQAA"} {
		_, err := ParseCursor(bad)
		require.ErrorIs(t, err, ErrCursor, bad)
	}
}

// Whatever parses is the cursor of what it parsed to.
func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add(Position{ID: "s"}.Cursor())
	f.Add(Position{Start: time.Unix(1, 2), ID: "s"}.Cursor())
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseCursor(s)
		if err != nil {
			require.ErrorIs(t, err, ErrCursor)
			return
		}
		require.Equal(t, s, p.Cursor())
	})
}
