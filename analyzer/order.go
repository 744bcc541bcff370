package analyzer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pave/flows"
)

// mergeOrders joins candidates whose flows differ only in the order of steps that need not wait for each other: agents walk
// them in several orders, and one flow does what all of these do. The best stays, under a key that is the same whichever of
// the orders that is. What it joined is told as dropped.
func mergeOrders(all []Candidate, dropped func(Dropped)) []Candidate {
	first := map[string]int{}
	out := all[:0]
	for _, c := range all {
		work, orderless := workOf(c.Flow)
		if !orderless || strings.Contains(c.PatternKey, "#") || c.Evidence.Pattern.Gap != nil {
			c.Rank = len(out)
			out = append(out, c)
			continue
		}
		own := c.PatternKey
		c.PatternKey = string(SourceMiner) + "/linear/" + strings.Join(byLevel(c.Flow, markedTools(c.Evidence.Pattern)), ">")
		if own != c.PatternKey {
			c.Orders = []string{own}
		}
		if at, known := first[work]; known {
			out[at].join(&c, own)
			dropped(Dropped{Tools: c.Evidence.Pattern.Tools, Code: DroppedOrder, Reason: fmt.Sprintf(
				"the flow for %s does the same, in whichever order its independent steps run", strings.Join(out[at].Evidence.Pattern.Tools, " > "))})
			continue
		}
		first[work] = len(out)
		c.Rank = len(out)
		out = append(out, c)
	}
	return out
}

// join takes over what another order of the same flow adds.
func (c *Candidate) join(other *Candidate, key string) {
	if key != c.PatternKey {
		c.Orders = append(c.Orders, key)
	}
	c.Score += other.Score
	c.Savings.Occurrences += other.Savings.Occurrences
	c.Savings.PerWeek += other.Savings.PerWeek
	p := other.Evidence.Pattern
	c.Warnings = append(c.Warnings, fmt.Sprintf("agents walk its independent steps in another order, too: %s in %d occurrences of %d sessions, which are not in the figures of the pattern",
		strings.Join(p.Tools, " > "), p.Occurrences, p.Sessions))
}

// workOf is what a flow of independent steps does, in a form that is the same for every order of them. ok is false for a
// flow whose steps have one order, and for one with branches.
func workOf(f *flows.Flow) (work string, ok bool) {
	if f.Type != flows.TypeDAGFlow || slices.ContainsFunc(f.Steps, func(s flows.Step) bool { return len(s.Branches) > 0 }) {
		return "", false
	}
	plain := *f
	plain.Name, plain.Description, plain.Evidence, plain.Governance = "", "", nil, nil
	plain.InputSchema = nil // follows from what the steps take
	plain.Returns = slices.Clone(f.Returns)
	slices.SortFunc(plain.Returns, func(a, b flows.MappingEntry) int { return strings.Compare(a.Target, b.Target) })
	plain.Steps = slices.Clone(f.Steps)
	for i := range plain.Steps {
		plain.Steps[i].DependsOn = slices.Sorted(slices.Values(plain.Steps[i].DependsOn))
	}
	slices.SortFunc(plain.Steps, func(a, b flows.Step) int { return strings.Compare(a.StepID, b.StepID) })
	return flows.Digest(&plain), true
}

// byLevel orders names of the flow's steps by the level that the steps run in, and by themselves inside a level.
func byLevel(f *flows.Flow, names []string) []string {
	levels, err := flows.Levels(f)
	if err != nil {
		return names // the flow does not compile, and nobody will see it
	}
	level := make([]int, len(names))
	for n, steps := range levels {
		for _, k := range steps {
			level[k] = n
		}
	}
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(level[a], level[b]), strings.Compare(names[a], names[b]))
	})
	out := make([]string, len(names))
	for i, k := range order {
		out[i] = names[k]
	}
	return out
}
