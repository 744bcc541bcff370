package observer

import (
	"maps"
	"slices"

	"pave/flows/value"
)

// Objects and lists that no earlier value equals as a whole may be built of earlier values: a copy or a constant for each
// leaf. What the leaves are is voted for leaf by leaf, among the values of one shape.

// maxLeavesBuilt bounds the leaves of a value that is taken apart.
const maxLeavesBuilt = 32

// takeApart notes the leaves of an object or a list that is an argument of step k, with their sources.
func (x *examination) takeApart(k int, a *argRecord) {
	if _, ok := a.value.(string); ok || slices.ContainsFunc(a.sources, func(s source) bool { return s.derived == 0 }) {
		return
	}
	seed := x.view.miner.seed
	var visit func(name string, v any) (shape any, ok bool)
	visit = func(name string, v any) (any, bool) {
		switch v := v.(type) {
		case map[string]any:
			shape := make(map[string]any, len(v))
			for _, key := range sortedKeys(v) {
				part, ok := visit(key, v[key])
				if !ok {
					return nil, false
				}
				shape[key] = part
			}
			return shape, true
		case []any:
			shape := make([]any, len(v))
			for i := range v {
				part, ok := visit(name, v[i])
				if !ok {
					return nil, false
				}
				shape[i] = part
			}
			return shape, true
		}
		if len(a.leaves) == maxLeavesBuilt {
			return nil, false
		}
		hash := hashOf(seed, v)
		a.leaves = append(a.leaves, argRecord{name: name, hash: hash, value: v, sources: x.sources(k, name, v, hash)})
		return int64(len(a.leaves) - 1), true
	}
	switch a.value.(type) {
	case map[string]any, []any:
		if shape, ok := visit(a.name, a.value); ok && len(a.leaves) > 0 {
			a.shape = shape
			return
		}
	}
	a.leaves = nil
}

// assemble adds to the sources of an argument the forms that build it, so that they are voted for like any other: the form
// that all occurrences give, and those that each half of the sessions gives alone, for what is found in one half to be tried
// on the other.
func (d *decision) assemble(a argument) {
	shapes := map[string][]present{}
	for _, p := range a.in {
		if p.arg.shape != nil {
			key := string(value.Encode(p.arg.shape))
			shapes[key] = append(shapes[key], p)
		}
	}
	if len(shapes) == 0 {
		return
	}
	ids := make([]string, len(d.records))
	for i := range d.records {
		ids[i] = d.records[i].session
	}
	side, _ := deal(ids)
	for _, key := range slices.Sorted(maps.Keys(shapes)) {
		alike := shapes[key]
		d.buildOf(a, alike, func(present) bool { return true })
		for h := range 2 {
			d.buildOf(a, alike, func(p present) bool { return int(side[p.record]) == h })
			d.buildOf(a, alike, func(p present) bool { return half(d.records[p.record].session) == h })
		}
	}
}

// buildOf finds the form that the wanted ones of occurrences of one shape give, and adds it wherever it holds.
func (d *decision) buildOf(a argument, alike []present, wanted func(present) bool) {
	f := form{kind: FormBuilt, shape: alike[0].arg.shape, constants: map[int]any{}}
	step := -1
	for i := range alike[0].arg.leaves {
		leaf := argument{name: alike[0].arg.leaves[i].name, step: a.step}
		for _, p := range alike {
			if wanted(p) {
				leaf.in = append(leaf.in, present{p.record, &p.arg.leaves[i]})
			}
		}
		if len(leaf.in) < minVotes {
			return
		}
		if distinct(leaf) == 1 {
			v := leaf.in[0].arg.value
			if !d.mayBeConstant(leaf, leaf.in[0].arg.hash, v) {
				return
			}
			f.constants[i] = v
			f.holes = append(f.holes, source{})
			continue
		}
		best, ok := d.mostVoted(leaf)
		if !ok {
			return
		}
		if step < 0 {
			step = best.step
		}
		f.holes = append(f.holes, best)
	}
	if step < 0 { // a constant as a whole
		return
	}
	built := source{step: step, derived: d.forms.id(f)}
	for _, p := range alike {
		if f.builds(p.arg) && !slices.Contains(p.arg.sources, built) {
			p.arg.sources = append(p.arg.sources, built)
		}
	}
}

// builds reports whether every leaf is what the form says.
func (f *form) builds(a *argRecord) bool {
	for i := range a.leaves {
		leaf := &a.leaves[i]
		if v, ok := f.constants[i]; ok {
			if !value.Equal(leaf.value, v) {
				return false
			}
		} else if !slices.Contains(leaf.sources, f.holes[i]) {
			return false
		}
	}
	return true
}
