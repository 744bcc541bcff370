package api

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/governance"
)

// Rows are objects whose members are the cells, whatever text is in them; a report without rows has none.
func TestReportDocument(t *testing.T) {
	report := &governance.Report{Kind: governance.ReportAdoption, From: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Columns: []string{"day", "flow", "runs", "share"},
		Rows: [][]any{{"2026-01-02", "a \"quoted\"\n<name> \x00 é", int64(-7), 0.1}, {"2026-01-03", "", int64(1) << 60, 1e21}}}
	out, err := reportDocument(report)
	require.NoError(t, err)
	require.JSONEq(t, `{"kind":"adoption","columns":["day","flow","runs","share"],"from":"2026-01-02T03:04:05Z","items":[
		{"day":"2026-01-02","flow":"a \"quoted\"\n<name> \u0000 é","runs":-7,"share":0.1},
		{"day":"2026-01-03","flow":"","runs":1152921504606846976,"share":1000000000000000000000}]}`, string(out))
	require.Contains(t, string(out), `"runs":1152921504606846976`, "to the last digit")

	out, err = reportDocument(&governance.Report{Kind: governance.ReportDrift, Columns: []string{"day"}})
	require.NoError(t, err)
	require.True(t, json.Valid(out))
	require.JSONEq(t, `{"kind":"drift","columns":["day"],"items":[]}`, string(out))
}
