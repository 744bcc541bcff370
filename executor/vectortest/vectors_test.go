package vectortest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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

// frozen are the outcomes of the groups by verdict and, for divergences, by rule. A rule that takes more vectors than
// before has swallowed a failure.
var frozen = map[string]map[string]int{
	"executor":       {"exact": 96, "divergence: R17": 28, "divergence: R1": 1},
	"mapping":        {"exact": 45, "divergence: R1": 4, "divergence: R12": 3, "divergence: R2": 1},
	"collision":      {"exact": 18, "divergence: R1": 6},
	"fallback_retry": {"exact": 45, "divergence: R13": 2, "divergence: R16": 1, "divergence: R3": 1},
	"dag":            {"exact": 57, "divergence: R1": 1, "divergence: R5": 1},
	"composition":    {"exact": 33, "divergence: R1": 1, "divergence: R6": 2},
	"cost":           {"exact": 42, "divergence: R19": 3},
	"compile":        {"exact": 39, "divergence: R15": 13, "divergence: R5": 1},
	"additions":      {"exact": 22},
}

func TestVectors(t *testing.T) {
	dir := vectorDir(t)
	for group, want := range frozen {
		t.Run(group, func(t *testing.T) {
			vectors, err := Load(dir, group)
			require.NoError(t, err)
			counts := map[string]int{}
			for i := range vectors {
				out := Run(&vectors[i], time.Now)
				switch out.Verdict {
				case Fail:
					t.Errorf("%s: %s", out.ID, out.Note)
				case Exact:
					counts[string(Exact)]++
				default:
					counts[fmt.Sprintf("%s: %s", out.Verdict, out.Note)]++
				}
			}
			assert.Equal(t, want, counts)
		})
	}
}
