package transcript

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// expectedCall is a line of expected-calls.jsonl.
type expectedCall struct {
	Capture   string
	SessionID string `json:"session_id"`
	Seq       int
	Tool      string
	Args      any
	CallID    *string `json:"call_id"`
	Status    ingest.Status
	Error     *string
}

// TestCaptures imports every capture, each sub-folder as one import, and compares the calls with what is known of
// the recorded scenario.
func TestCaptures(t *testing.T) {
	dir := filepath.Join(root(t), "testdata", "otlp")
	expected := make(map[string][]expectedCall)
	for _, c := range lines[expectedCall](t, filepath.Join(dir, "expected-calls.jsonl")) {
		expected[c.Capture] = append(expected[c.Capture], c)
	}
	require.Len(t, expected, 10)
	for capture, want := range expected {
		folders := []string{filepath.Join(dir, capture)}
		entries, err := os.ReadDir(folders[0])
		require.NoError(t, err)
		if entries[0].IsDir() {
			folders = nil
			for _, e := range entries {
				folders = append(folders, filepath.Join(dir, capture, e.Name()))
			}
		}
		for _, folder := range folders {
			name, err := filepath.Rel(dir, folder)
			require.NoError(t, err)
			t.Run(name, func(t *testing.T) {
				events, report := load(t, Options{}, folder)
				require.Empty(t, report.Rejected)
				checkCapture(t, want, ingest.AssembleAll("t", events, ingest.AssembleOptions{}))
				if want[0].CallID == nil {
					return // parallel calls without ids are told apart by arrival
				}
				slices.Reverse(events)
				checkCapture(t, want, ingest.AssembleAll("t", events, ingest.AssembleOptions{}))
			})
		}
	}
}

// checkCapture compares by session; sessions that are traces have a name of their own in each run, so they are
// compared in order of time.
func checkCapture(t *testing.T, want []expectedCall, sessions []*ingest.Session) {
	var got []NormalisedCall
	slices.SortFunc(sessions, func(a, b *ingest.Session) int { return strings.Compare(sortKey(a), sortKey(b)) })
	for _, s := range sessions {
		require.Zero(t, s.Conflicts)
		got = append(got, Normalised(s)...)
	}
	require.Len(t, got, len(want))
	for i, w := range want {
		g := got[i]
		if w.SessionID == "trace:*" {
			require.True(t, strings.HasPrefix(g.SessionID, "trace:"), g.SessionID)
			g.SessionID = w.SessionID
		}
		args := "null"
		if g.Args != nil {
			args = string(g.Args)
		}
		require.Equal(t, []any{w.SessionID, w.Seq, w.Tool, w.CallID, w.Status, w.Error}, []any{g.SessionID, g.Seq, g.Tool, g.CallID, g.Status, g.Error})
		require.JSONEq(t, toJSON(t, w.Args), args)
	}
}

func sortKey(s *ingest.Session) string {
	if strings.HasPrefix(s.ID, "trace:") && len(s.Runs) > 0 && len(s.Runs[0].Calls) > 0 {
		return s.Runs[0].Calls[0].Start.String()
	}
	return s.ID
}
