package replay

import (
	"cmp"
	"slices"
	"strings"
)

// AllInputs are flows without any data flow, one for each sequence of tools that enough training sessions have: every
// argument is an input. The most frequent come first.
func (t *Training) AllInputs() []*Flow { return t.flows(false) }

// SequenceOnly are the k sequences of the training part whose occurrences have the most calls after the first, as
// flows whose arguments are not looked at at all.
func (t *Training) SequenceOnly(k int) []*Flow {
	all := t.flows(true)
	return all[:min(k, len(all))]
}

func (t *Training) flows(unchecked bool) []*Flow {
	var keys []string
	for key, s := range t.grams {
		if s.sessions >= minSessions {
			keys = append(keys, key)
		}
	}
	worth := func(key string) int { return t.occurring[key] * (len(t.sequences[key]) - 1) }
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(worth(b), worth(a)), strings.Compare(a, b)) })
	out := make([]*Flow, len(keys))
	for i, key := range keys {
		f := &Flow{Name: strings.Join(t.sequences[key], ">"), tools: "gram/" + key, straight: true, unchecked: unchecked}
		for k, tool := range t.sequences[key] {
			s := step{tool: tool, free: true, next: -1, effect: !ReadOnly(tool)}
			if k > 0 {
				s.deps = []int{k - 1}
				f.steps[k-1].users = []int{k}
			}
			f.steps = append(f.steps, s)
		}
		out[i] = f
	}
	return out
}
