package flows_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pave/flows"
)

// dag builds a flow from "id:dep,dep" words.
func dag(words ...string) *flows.Flow {
	f := &flows.Flow{Type: flows.TypeDAGFlow, Name: "g"}
	for _, w := range words {
		id, deps, _ := strings.Cut(w, ":")
		s := flows.Step{ToolName: "t", StepID: id}
		if deps != "" {
			s.DependsOn = strings.Split(deps, ",")
		}
		f.Steps = append(f.Steps, s)
	}
	return f
}

func TestLevels(t *testing.T) {
	for _, tc := range []struct {
		flow *flows.Flow
		want string
	}{
		{&flows.Flow{Steps: make([]flows.Step, 3)}, "[[0] [1] [2]]"},
		{dag(), "[]"},
		{dag("A", "B:A", "C:A", "D:B,C"), "[[0] [1 2] [3]]"},
		{dag("D:C", "C:B", "B:A", "A"), "[[3] [2] [1] [0]]"},
		// D mentions Z before A mentions itself.
		{dag("D:Z", "A", "Z"), "[[2 1] [0]]"},
		// The longest path decides: D waits for A only, C for B.
		{dag("A", "B:A", "C:A,B", "D:A"), "[[0] [1 3] [2]]"},
		// X waits for the second of level 0, Y for the first.
		{dag("P", "Q", "X:Q", "Y:P,P"), "[[0 1] [3 2]]"},
		// Several dependencies first mentioned by one step: declaration order.
		{dag("S:B,A", "A", "B"), "[[1 2] [0]]"},
	} {
		got, err := flows.Levels(tc.flow)
		require.NoError(t, err)
		assert.Equal(t, tc.want, fmt.Sprint(got))
	}
}

func TestTopologyErrors(t *testing.T) {
	branching := func(target, dflt string) *flows.Flow {
		f := dag("A", "B:A", "C")
		f.Steps[0].Branches = []flows.Branch{{TargetStepID: target, Predicate: "True"}}
		f.Steps[0].DefaultNext = dflt
		return f
	}
	for _, tc := range []struct {
		flow                  *flows.Flow
		reason, field, detail string
		step                  int
	}{
		{dag("A", "A:Z"), flows.TopologyDuplicateStep, "step_id", "Step id 'A' appears more than once.", 1},
		{dag("A:A,Z"), flows.TopologyUnknownDependency, "depends_on", "Step 'A' depends on unknown step id 'Z'.", 0},
		{dag("A:A"), flows.TopologyCycle, "depends_on", "Dependency cycle detected: A -> A.", 0},
		{dag("R", "A:R,C", "B:A", "C:B"), flows.TopologyCycle, "depends_on", "Dependency cycle detected: A -> C -> B -> A.", 1},
		{branching("Z", ""), flows.TopologyUnknownTarget, "branches", "Step 'A' branch target 'Z' is not a declared step.", 0},
		{branching("C", ""), flows.TopologyUnknownTarget, "branches", "Step 'A' branch target 'C' is not a direct dependent (target must list 'A' in its depends_on).", 0},
		{branching("B", "C"), flows.TopologyUnknownTarget, "default_next", "Step 'A' branch target 'C' is not a direct dependent (target must list 'A' in its depends_on).", 0},
	} {
		_, err := flows.Levels(tc.flow)
		var te *flows.TopologyError
		require.ErrorAs(t, err, &te)
		assert.Equal(t, flows.TopologyError{Flow: "g", Reason: tc.reason, Step: tc.step, Field: tc.field, Detail: tc.detail}, *te)
		assert.True(t, errors.Is(err, flows.CWDAGDefinition))
		assert.Equal(t, "Invalid DAG flow 'g' ("+tc.reason+"): "+tc.detail, err.Error())
	}
}

// TestLevelsRespectDependencies: every step stands exactly once, one level below its lowest dependency.
func TestLevelsRespectDependencies(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(rt, "n")
		place := rapid.Permutation(func() (p []int) {
			for i := range n {
				p = append(p, i)
			}
			return
		}()).Draw(rt, "declaration")
		f := &flows.Flow{Type: flows.TypeDAGFlow, Name: "g", Steps: make([]flows.Step, n)}
		for i := range n {
			s := &f.Steps[place[i]]
			s.StepID = fmt.Sprint("s", i)
			for d := range i {
				if rapid.IntRange(0, 3).Draw(rt, "edge") == 0 {
					s.DependsOn = append(s.DependsOn, fmt.Sprint("s", d))
				}
			}
		}
		levels, err := flows.Levels(f)
		require.NoError(rt, err)
		level := map[string]int{}
		for l, steps := range levels {
			require.NotEmpty(rt, steps)
			for _, at := range steps {
				_, twice := level[f.Steps[at].StepID]
				require.False(rt, twice)
				level[f.Steps[at].StepID] = l
			}
		}
		require.Len(rt, level, n)
		for _, s := range f.Steps {
			want := 0
			for _, d := range s.DependsOn {
				want = max(want, level[d]+1)
			}
			require.Equal(rt, want, level[s.StepID], s.StepID)
		}
	})
}
