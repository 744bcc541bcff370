package vectortest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// vectorDir is testdata/vectors of the repository.
func vectorDir(t *testing.T) string {
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "testdata", "vectors")
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, parent, dir, "no go.mod above the test")
		dir = parent
	}
}

// TestVectors runs the groups of the executor: nothing may fail, and what is out of scope is counted by reason.
func TestVectors(t *testing.T) {
	dir := vectorDir(t)
	for _, group := range []string{"executor", "mapping", "collision", "fallback_retry", "dag", "composition", "cost", "compile", "additions"} {
		t.Run(group, func(t *testing.T) {
			vectors, err := Load(dir, group)
			require.NoError(t, err)
			require.NotEmpty(t, vectors)
			counts, notes := map[Verdict]int{}, map[string]int{}
			for i := range vectors {
				out := Run(&vectors[i], time.Now)
				counts[out.Verdict]++
				if out.Verdict == Fail {
					t.Errorf("%s: %s", out.ID, out.Note)
				} else if out.Verdict != Exact {
					notes[fmt.Sprintf("%s: %s", out.Verdict, out.Note)]++
				}
			}
			t.Logf("%d vectors: %v; %v", len(vectors), counts, notes)
		})
	}
}
