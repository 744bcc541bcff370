package flows

import (
	"fmt"
	"slices"
	"strings"
)

// Reasons of a TopologyError, in the order in which they are looked for.
const (
	TopologyDuplicateStep     = "duplicate_step_id"
	TopologyUnknownDependency = "unknown_dependency"
	TopologyCycle             = "cycle"
	TopologyUnknownTarget     = "unknown_branch_target"
)

// TopologyError says why the steps of a DAG flow have no order (CWDAGDefinition).
type TopologyError struct {
	Flow   string
	Reason string
	Step   int    // position of the step in the flow
	Field  string // the field of that step that is wrong
	Detail string
}

func (e *TopologyError) Error() string {
	return fmt.Sprintf("Invalid DAG flow '%s' (%s): %s", e.Flow, e.Reason, e.Detail)
}

// Unwrap makes errors.Is find the catalogue's entry.
func (e *TopologyError) Unwrap() error { return CWDAGDefinition }

// Levels returns the positions of a flow's steps in order of execution, level by level: a step's level is one more
// than the highest level of its dependencies. The steps of a linear flow are levels of their own.
//
// Within level 0 steps stand in the order in which a scan over the steps mentions them first, a step before its
// dependencies and these in declaration order; within a later level by the position of their last dependency in the
// level before, then in declaration order. The error is a *TopologyError.
func Levels(f *Flow) ([][]int, error) {
	if f.Type != TypeDAGFlow {
		levels := make([][]int, len(f.Steps))
		for i := range levels {
			levels[i] = []int{i}
		}
		return levels, nil
	}
	g := &graph{flow: f, at: make(map[string]int, len(f.Steps))}
	if err := g.link(); err != nil {
		return nil, err
	}
	if err := g.rank(); err != nil {
		return nil, err
	}
	if err := g.checkBranches(); err != nil {
		return nil, err
	}
	return g.levels(), nil
}

// graph holds the dependencies of a DAG flow by position.
type graph struct {
	flow  *Flow
	at    map[string]int // step id -> position
	deps  [][]int        // distinct, in declaration order
	level []int
}

func (g *graph) fail(step int, reason, field, format string, args ...any) error {
	return &TopologyError{Flow: g.flow.Name, Reason: reason, Step: step, Field: field, Detail: fmt.Sprintf(format, args...)}
}

func (g *graph) link() error {
	for i := range g.flow.Steps {
		id := g.flow.Steps[i].StepID
		if _, twice := g.at[id]; twice {
			return g.fail(i, TopologyDuplicateStep, "step_id", "Step id '%s' appears more than once.", id)
		}
		g.at[id] = i
	}
	g.deps = make([][]int, len(g.flow.Steps))
	for i := range g.flow.Steps {
		s := &g.flow.Steps[i]
		for _, id := range s.DependsOn {
			d, ok := g.at[id]
			if !ok {
				return g.fail(i, TopologyUnknownDependency, "depends_on", "Step '%s' depends on unknown step id '%s'.", s.StepID, id)
			}
			g.deps[i] = append(g.deps[i], d)
		}
		slices.Sort(g.deps[i])
		g.deps[i] = slices.Compact(g.deps[i])
	}
	return nil
}

// rank computes the levels, without recursion so that a long chain costs no stack.
func (g *graph) rank() error {
	n := len(g.deps)
	waiting, dependents := make([]int, n), make([][]int, n)
	var ready []int
	for i, deps := range g.deps {
		if waiting[i] = len(deps); waiting[i] == 0 {
			ready = append(ready, i)
		}
		for _, d := range deps {
			dependents[d] = append(dependents[d], i)
		}
	}
	g.level = make([]int, n)
	for k := 0; k < len(ready); k++ {
		i := ready[k]
		for _, j := range dependents[i] {
			g.level[j] = max(g.level[j], g.level[i]+1)
			if waiting[j]--; waiting[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	if len(ready) == n {
		return nil
	}
	return g.cycle(waiting)
}

// cycle names one cycle among the steps that still wait for others.
func (g *graph) cycle(waiting []int) error {
	at := slices.IndexFunc(waiting, func(n int) bool { return n > 0 })
	seen := map[int]int{}
	var path []int
	for {
		if from, again := seen[at]; again {
			path = append(path[from:], at)
			break
		}
		seen[at] = len(path)
		path = append(path, at)
		at = g.deps[at][slices.IndexFunc(g.deps[at], func(d int) bool { return waiting[d] > 0 })]
	}
	names := make([]string, len(path))
	for i, p := range path {
		names[i] = g.flow.Steps[p].StepID
	}
	return g.fail(path[0], TopologyCycle, "depends_on", "Dependency cycle detected: %s.", strings.Join(names, " -> "))
}

func (g *graph) checkBranches() error {
	for i := range g.flow.Steps {
		s := &g.flow.Steps[i]
		targets := make([]string, 0, len(s.Branches)+1)
		for _, b := range s.Branches {
			targets = append(targets, b.TargetStepID)
		}
		field := "branches"
		if s.DefaultNext != "" {
			targets = append(targets, s.DefaultNext)
		}
		for k, id := range targets {
			if k == len(s.Branches) {
				field = "default_next"
			}
			t, ok := g.at[id]
			if !ok {
				return g.fail(i, TopologyUnknownTarget, field, "Step '%s' branch target '%s' is not a declared step.", s.StepID, id)
			}
			if !slices.Contains(g.deps[t], i) {
				return g.fail(i, TopologyUnknownTarget, field,
					"Step '%s' branch target '%s' is not a direct dependent (target must list '%s' in its depends_on).", s.StepID, id, s.StepID)
			}
		}
	}
	return nil
}

func (g *graph) levels() [][]int {
	var out [][]int
	position := make([]int, len(g.deps))
	for _, i := range g.mentions() {
		if g.level[i] == 0 {
			if out == nil {
				out = [][]int{nil}
			}
			position[i] = len(out[0])
			out[0] = append(out[0], i)
		}
	}
	for i, level := range g.level {
		for len(out) <= level {
			out = append(out, nil)
		}
		if level > 0 {
			out[level] = append(out[level], i)
		}
	}
	for level := 1; level < len(out); level++ {
		last := func(i int) int { // the last of its dependencies to end stands in the level before
			p := -1
			for _, d := range g.deps[i] {
				if g.level[d] == level-1 {
					p = max(p, position[d])
				}
			}
			return p
		}
		slices.SortStableFunc(out[level], func(a, b int) int { return last(a) - last(b) })
		for p, i := range out[level] {
			position[i] = p
		}
	}
	return out
}

// mentions lists the steps in the order of their first mention.
func (g *graph) mentions() []int {
	seen := make([]bool, len(g.deps))
	var out []int
	mention := func(i int) {
		if !seen[i] {
			seen[i] = true
			out = append(out, i)
		}
	}
	for i, deps := range g.deps {
		mention(i)
		for _, d := range deps {
			mention(d)
		}
	}
	return out
}
