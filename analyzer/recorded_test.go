package analyzer

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/ingest"
	"pave/ingest/transcript"
	"pave/observer"
)

// recorded reads a set of recorded sessions, or skips.
func recorded(t testing.TB, name string) []ingest.Session {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		require.NotEqual(t, root, filepath.Dir(root), "no go.mod above the test")
		root = filepath.Dir(root)
	}
	path := filepath.Join(root, "..", "shared", "data", "calls", name+".jsonl")
	if _, err := os.Stat(path); err != nil {
		t.Skip("recorded data not present: " + name)
	}
	var events []ingest.Event
	_, err = transcript.Import(context.Background(), []string{path}, transcript.Options{}, func(batch []ingest.Event) error {
		events = append(events, batch...)
		return nil
	})
	require.NoError(t, err)
	var sessions []ingest.Session
	for _, s := range ingest.AssembleAll(ingest.DefaultTenant, events, ingest.AssembleOptions{}) {
		sessions = append(sessions, *s)
	}
	return sessions
}

// propose runs a whole pass over sessions in memory, without declared tools.
func propose(t testing.TB, sessions []ingest.Session) ([]Candidate, *Inferrer) {
	t.Helper()
	ctx := context.Background()
	src := observer.NewMemory(sessions)
	mined, err := observer.Mine(ctx, src, observer.Options{})
	require.NoError(t, err)
	inf := NewInferrer()
	for i := range sessions {
		inf.ObserveSession(&sessions[i])
	}
	candidates, err := Propose(ctx, mined, NewCatalogue(nil, inf.Tools()), src, Options{Values: inf, Dropped: func(d Dropped) {
		t.Logf("dropped %v: %s", d.Tools, d.Reason)
	}})
	require.NoError(t, err)
	return candidates, inf
}

func TestProposeOnRecordedSessions(t *testing.T) {
	for name, want := range map[string][]string{
		"tau-retail":  {"miner/linear/find_user_id_by_name_zip>get_user_details", "miner/linear/find_user_id_by_email>get_user_details"},
		"tau-airline": nil,
	} {
		t.Run(name, func(t *testing.T) {
			sessions := recorded(t, name)
			candidates, inf := propose(t, sessions)
			for _, tool := range inf.Tools() {
				if tool.InputSchema != nil {
					assert.NotNil(t, compiled(tool.InputSchema), tool.Name)
				}
				if tool.OutputSchema != nil {
					assert.NotNil(t, compiled(tool.OutputSchema), tool.Name)
				}
			}
			var mined []string
			for i := range candidates {
				c := &candidates[i]
				checkCandidate(t, c)
				if c.Source == SourceMiner {
					mined = append(mined, c.PatternKey)
				}
				text, err := flows.EncodeFlow(c.Flow, flows.FormatYAML)
				require.NoError(t, err)
				t.Logf("%s rank %d score %.1f saves %+v\n%v\n%s", c.PatternKey, c.Rank, c.Score, c.Savings, c.Warnings, text)
			}
			for _, key := range want {
				assert.Contains(t, mined[:min(10, len(mined))], key)
			}
			again, _ := propose(t, sessions)
			require.Len(t, again, len(candidates))
			for i := range again {
				assert.Equal(t, candidates[i].Digest, again[i].Digest)
				assert.Equal(t, candidates[i].PatternKey, again[i].PatternKey)
			}
		})
	}
}

// checkCandidate holds for every candidate: it parses, is its own fixed point and says what it stands on.
func checkCandidate(t *testing.T, c *Candidate) {
	t.Helper()
	for _, format := range []flows.Format{flows.FormatYAML, flows.FormatJSON} {
		text, err := flows.EncodeFlow(c.Flow, format)
		require.NoError(t, err)
		parsed, warnings, err := flows.ParseFlow(text)
		require.NoError(t, err, "%s", text)
		assert.Empty(t, warnings)
		assert.Equal(t, c.Flow, parsed, "%s", text)
		assert.Equal(t, c.Digest, flows.Digest(parsed))
	}
	assert.NotEmpty(t, c.Savings.Basis)
	assert.NotEmpty(t, c.Flow.Description)
	assert.Equal(t, flows.StatusNeedsReview, c.Flow.Status)
	assert.Equal(t, flows.LifecycleSuggested, c.Flow.Governance.Lifecycle)
}
