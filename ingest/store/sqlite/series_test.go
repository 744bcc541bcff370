package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sums by day are read from an index that has all of them; lists of sessions come sorted from theirs.
func TestSessionIndexes(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "events.db"), Options{})
	plan := func(query string, args ...any) (text string) {
		rows, err := s.read.Query("EXPLAIN QUERY PLAN "+query, args...)
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var id, parent, unused int
			var detail string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
			text += detail + "\n"
		}
		require.NoError(t, rows.Err())
		return text
	}
	require.Contains(t, plan("SELECT "+dayOf+" AS day, count(*), sum(tool_calls), sum(llm_calls) FROM sessions WHERE tenant = "+tenantID+
		" AND start <> 0 GROUP BY day", tenant), "COVERING INDEX sessions_start")
	list := plan("SELECT session, summary FROM sessions WHERE tenant = "+tenantID+" ORDER BY start DESC, session LIMIT 50", tenant)
	require.Contains(t, list, "INDEX sessions_start")
	require.NotContains(t, list, "TEMP B-TREE")
}
