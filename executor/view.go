package executor

import (
	"maps"
	"slices"

	"pave/flows"
)

// view says what each step of a plan can count on: the flow's input and what the steps before it contribute, all of
// them in a linear flow, its transitive dependencies in a DAG.
type view struct {
	plan  *Plan
	input *known // also inputs that the flow reads but does not declare
	all   *known // a linear flow's context so far, which is the same for everybody
	steps []contribution
}

type contribution struct {
	keys    []contributed
	rest    bool
	visited bool
	maySkip bool // branches may rule the step out
}

func newView(plan *Plan, input *known) *view {
	v := &view{plan: plan, input: input, steps: make([]contribution, len(plan.steps))}
	if !plan.dag() {
		v.all = input
	}
	return v
}

func (p *Plan) dag() bool { return p.flow.Type == flows.TypeDAGFlow }

// before is what a step finds in the context. A key is certain only where its step has run whenever this one runs.
func (v *view) before(sp *stepPlan) *known {
	if v.all != nil {
		return v.all
	}
	c := &v.steps[sp.index]
	c.maySkip = len(sp.deps) > 0
	for _, d := range sp.deps {
		if len(v.plan.steps[d].branches) > 0 {
			c.maySkip = true
			break
		}
		c.maySkip = c.maySkip && v.steps[d].maySkip
	}
	ancestors := v.ancestors(sp)
	return v.context(ancestors, v.certain(sp, map[int]bool{}))
}

// context is the input with the contributions of steps.
func (v *view) context(steps []int, certain map[int]bool) *known {
	k := &known{keys: maps.Clone(v.input.keys), declared: v.input.declared, rest: v.input.rest, open: v.input.open}
	for _, d := range steps {
		c := &v.steps[d]
		if !c.visited {
			continue // in a cycle
		}
		keys := c.keys
		if !certain[d] {
			keys = slices.Clone(keys)
			for i := range keys {
				keys[i].origin.certain = false
			}
		}
		k.add(keys, c.rest)
	}
	return k
}

// ancestors are a step's transitive dependencies in order of execution.
func (v *view) ancestors(sp *stepPlan) []int {
	seen := map[int]bool{sp.index: true}
	var out []int
	queue := slices.Clone(sp.deps)
	for len(queue) > 0 {
		d := queue[0]
		queue = queue[1:]
		if seen[d] {
			continue
		}
		seen[d] = true
		out = append(out, d)
		queue = append(queue, v.plan.steps[d].deps...)
	}
	slices.Sort(out)
	return out
}

// certain adds to seen the ancestors that have run whenever the step runs: those that branches cannot rule out, and a
// single dependency, without which the step would be ruled out too.
func (v *view) certain(sp *stepPlan, seen map[int]bool) map[int]bool {
	for _, d := range sp.deps {
		if !seen[d] && (len(sp.deps) == 1 || !v.steps[d].maySkip) {
			seen[d] = true
			v.certain(&v.plan.steps[d], seen)
		}
	}
	return seen
}

// after notes what a step contributes and returns the context with it.
func (v *view) after(sp *stepPlan, keys []contributed, rest bool) *known {
	c := &v.steps[sp.index]
	c.keys, c.rest, c.visited = keys, rest, true
	if v.all != nil {
		v.all.add(keys, rest)
		return v.all
	}
	own := v.before(sp)
	own.add(keys, rest)
	return own
}

// end is the context that the flow ends with.
func (v *view) end() *known {
	if v.all != nil {
		return v.all
	}
	steps, certain := make([]int, len(v.plan.steps)), map[int]bool{}
	for i := range steps {
		steps[i], certain[i] = i, !v.steps[i].maySkip
	}
	return v.context(steps, certain)
}

// sibling is the step before sp in its level that writes a key, nil when there is none.
func (v *view) sibling(sp *stepPlan, key string) *stepPlan {
	for i := v.plan.levels[sp.level].from; i < sp.index; i++ {
		if slices.ContainsFunc(v.steps[i].keys, func(c contributed) bool { return c.key == key }) {
			return &v.plan.steps[i]
		}
	}
	return nil
}

// written reports whether a step before sp, dependency or not, may have written a key.
func (v *view) written(sp *stepPlan, key string) bool {
	for i := range sp.index {
		if v.steps[i].rest || slices.ContainsFunc(v.steps[i].keys, func(c contributed) bool { return c.key == key }) {
			return true
		}
	}
	return false
}
