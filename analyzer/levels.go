package analyzer

import (
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// dependencies lists for each step of the draft the earlier steps that it has to wait for: those whose result its mapping,
// its list or its guards read, and, where one of the two is not known to only read, those before it, since the order of
// effects is part of what was reviewed. Steps that others wait for already are left out (transitive reduction).
func (d *draft) dependencies() [][]int {
	reaches := make([][]bool, len(d.steps)) // step -> steps before it that it waits for, directly or not
	out := make([][]int, len(d.steps))
	for k := range d.steps {
		reaches[k] = make([]bool, k)
		for j := k - 1; j >= 0; j-- {
			if reaches[k][j] || !d.waits(k, j) {
				continue
			}
			out[k] = append(out[k], j)
			reaches[k][j] = true
			for i, through := range reaches[j] {
				reaches[k][i] = reaches[k][i] || through
			}
		}
		slices.Reverse(out[k])
	}
	return out
}

// waits reports whether step k has to wait for step j by itself.
func (d *draft) waits(k, j int) bool {
	return d.steps[k].reads(d.steps[j].key) || !d.steps[k].onlyReads() || !d.steps[j].onlyReads()
}

func (s *draftStep) onlyReads() bool {
	return s.tool.tool.Safety != nil && !flows.Exceeds(flows.Effects(s.tool.tool.Safety), flows.EffectRead)
}

// reads reports whether the step looks at the context key. A key that a text of an expression or a guard may mean counts.
func (s *draftStep) reads(key string) bool {
	if s.forEach != nil && valueReads(s.forEach, key) {
		return true
	}
	if slices.ContainsFunc(s.guards, func(guard string) bool { return mentionsKey(guard, key) }) {
		return true
	}
	return slices.ContainsFunc(s.mapping, func(e flows.MappingEntry) bool { return valueReads(&e.Value, key) })
}

func valueReads(v *flows.MappingValue, key string) bool {
	switch v.Kind {
	case flows.MapKey:
		return v.Ref == key
	case flows.MapPointer:
		first, _, _ := strings.Cut(strings.TrimPrefix(v.Ref, "/"), "/")
		return first == value.Escape(key)
	case flows.MapExpr:
		return mentionsKey(v.Ref, key)
	case flows.MapOptional:
		return v.Inner != nil && valueReads(v.Inner, key)
	}
	return false
}

// mentionsKey looks for the key as a word of an expression.
func mentionsKey(text, key string) bool {
	word := func(c byte) bool {
		return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	for from := 0; ; {
		i := strings.Index(text[from:], key)
		if i < 0 {
			return false
		}
		at, end := from+i, from+i+len(key)
		if (at == 0 || !word(text[at-1])) && (end == len(text) || !word(text[end])) {
			return true
		}
		from = at + 1
	}
}

// order makes the flow a DAG where steps need not wait for each other, so that they run side by side. A flow in
// which each step waits for the one before it stays a sequence.
func (d *draft) order(f *flows.Flow) {
	waits := d.dependencies()
	level, deepest := make([]int, len(waits)), 0
	for k := range waits {
		for _, j := range waits[k] {
			level[k] = max(level[k], level[j]+1)
		}
		deepest = max(deepest, level[k])
	}
	if deepest == len(waits)-1 {
		return
	}
	f.Type = flows.TypeDAGFlow
	for k := range f.Steps {
		f.Steps[k].StepID = d.steps[k].key
		for _, j := range waits[k] {
			f.Steps[k].DependsOn = append(f.Steps[k].DependsOn, d.steps[j].key)
		}
	}
}
