package analyzer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/schema"
	"pave/observer"
)

// minChainScore keeps out chains that stand on names alone and run through tools with unknown effects.
const minChainScore = 1

// maxChainsSeen bounds the search; it is far beyond what a real catalogue gives.
const maxChainsSeen = 20_000

// chain is a sequence of tools in which each one after the first is fed by the one before it.
type chain struct {
	tools []int
	edges [][]chainEdge // of step k+1, by required input
	score float64
}

// chainEdge fills one required input of a step from an earlier step of the chain.
type chainEdge struct {
	from int // position in the chain
	edge
}

// find lists the chains of two to depth tools, best first. Each step has its required inputs from steps before it
// or from the chain's own inputs, and at least one of them, by a telling name, from the step right before it.
func (m *matrix) find(depth int) []chain { return m.findFrom(depth, -1) }

// findFrom lists those that begin with one tool; -1 is any.
func (m *matrix) findFrom(depth, from int) []chain {
	var found []chain
	var extend func(tools []int, edges [][]chainEdge)
	extend = func(tools []int, edges [][]chainEdge) {
		if len(tools) > 1 {
			found = append(found, chain{tools: slices.Clone(tools), edges: slices.Clone(edges), score: m.score(tools, edges)})
		}
		if len(tools) == depth {
			return
		}
		last := tools[len(tools)-1]
		next := make([]int, 0, len(m.edges[last]))
		for c := range m.edges[last] {
			next = append(next, c)
		}
		slices.Sort(next)
		for _, c := range next {
			if len(found) >= maxChainsSeen {
				return
			}
			if slices.Contains(tools, c) || !m.bringsNews(tools, c) {
				continue
			}
			if filled, ok := m.fill(tools, c); ok {
				extend(append(tools, c), append(edges, filled))
			}
		}
	}
	for i := range m.tools {
		if from < 0 || i == from {
			extend([]int{i}, nil)
		}
	}
	slices.SortStableFunc(found, func(a, b chain) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(len(a.tools), len(b.tools)), slices.Compare(a.tools, b.tools))
	})
	return found
}

// fill finds a source for every required input of tool c after the chain: the chain's own inputs under the same
// name, else the nearest step that returns it.
func (m *matrix) fill(tools []int, c int) (filled []chainEdge, ok bool) {
	real := false
	for _, input := range m.needs[c] {
		if m.ins[tools[0]][normal(input.Name)] && m.firstHas(tools[0], input) {
			continue
		}
		best := chainEdge{from: -1}
		for at := len(tools) - 1; at >= 0 && best.from < 0; at-- {
			for _, e := range m.edges[tools[at]][c] {
				if e.input.Name == input.Name && (best.from < 0 || e.score > best.score) {
					best = chainEdge{at, e}
				}
			}
		}
		if best.from < 0 {
			return nil, false
		}
		filled = append(filled, best)
		real = real || best.from == len(tools)-1 && best.score > 0
	}
	return filled, real
}

// bringsNews is false for a look-up that only returns what the chain has seen already.
func (m *matrix) bringsNews(tools []int, c int) bool {
	if !split(m.tools[c].tool.Name).reads || len(m.outs[c]) == 0 {
		return true
	}
	return slices.ContainsFunc(m.outs[c], func(f outField) bool {
		return f.rule == ruleName && !m.ins[c][f.name] && !slices.ContainsFunc(tools, func(t int) bool { return m.has(t, f.name) }) ||
			f.pointer == "" && !slices.ContainsFunc(tools, func(t int) bool { return m.has(t, f.name) })
	})
}

// has reports whether the tool takes or returns a field of the name.
func (m *matrix) has(t int, name string) bool {
	return m.ins[t][name] || slices.ContainsFunc(m.outs[t], func(f outField) bool { return f.name == name })
}

// firstHas reports whether the first tool requires an input of the same name and type, so that the flow has it.
func (m *matrix) firstHas(first int, input schema.Field) bool {
	return slices.ContainsFunc(m.needs[first], func(f schema.Field) bool {
		ok, _ := schema.Assignable(f.Schema, input.Schema)
		return normal(f.Name) == normal(input.Name) && ok
	})
}

// score adds the best edge of each step, weighed down where a tool is not known to be read-only. What a name says
// counts in this order of suggestions only; what a flow may do is decided by declared safety.
func (m *matrix) score(tools []int, edges [][]chainEdge) float64 {
	total := 0.0
	for _, step := range edges {
		best := 0.0
		for _, e := range step {
			best = max(best, e.score)
		}
		total += best
	}
	for i, t := range tools {
		switch s := m.tools[t].tool.Safety; {
		case s == nil && split(m.tools[t].tool.Name).reads:
			total *= 0.9
		case s == nil:
			total *= 0.3
		case s.ReadOnly():
		case i < len(tools)-1:
			total *= 0.25 // an effect in the middle of a flow nobody ever walked
		default:
			total *= 0.6
		}
	}
	return total
}

// coldChains picks the chains that become candidates: not covered by a mined flow or a mined refusal, no part of a
// better one, and not all from one tool.
func (m *matrix) coldChains(mined *observer.Result, opts Options) []chain {
	const perFirst = 3
	var covered [][]string
	if mined != nil {
		for i := range mined.Patterns {
			if mined.Patterns[i].Batch == nil { // these say nothing of what one call tells the next
				covered = append(covered, mined.Patterns[i].Tools)
			}
		}
	}
	var out []chain
	starts := map[int]int{}
	for _, c := range m.find(opts.MaxDepth) {
		if len(out) == opts.MaxChains || c.score < minChainScore {
			break
		}
		names := m.names(c.tools)
		if starts[c.tools[0]] == perFirst || refuted(mined, names) ||
			slices.ContainsFunc(covered, func(other []string) bool { return position(other, names) >= 0 }) {
			continue
		}
		starts[c.tools[0]]++
		covered = append(covered, names)
		out = append(out, c)
	}
	return out
}

func (m *matrix) names(tools []int) []string {
	out := make([]string, len(tools))
	for i, t := range tools {
		out[i] = m.tools[t].tool.Name
	}
	return out
}

// refuted reports whether recorded values show that the model chooses an argument of one of the chain's steps when
// it follows the step before.
func refuted(mined *observer.Result, chain []string) bool {
	return mined != nil && slices.ContainsFunc(mined.Blocked, func(b observer.Blocked) bool {
		return b.Reason == "choice" && b.Step > 0 && b.Step < len(b.Tools) && position(chain, b.Tools[b.Step-1:b.Step+1]) >= 0
	})
}

// position is where part first stands in whole without gaps, -1 when it does not.
func position(whole, part []string) int {
	for i := 0; i+len(part) <= len(whole); i++ {
		if slices.Equal(whole[i:i+len(part)], part) {
			return i
		}
	}
	return -1
}

// draft writes a chain as a flow whose inputs are the required inputs of the first tool.
func (m *matrix) draft(c chain) (*draft, []SchemaEdge) {
	names := m.names(c.tools)
	d := &draft{}
	var inputs []string
	for _, f := range m.needs[c.tools[0]] {
		inputs = append(inputs, f.Name)
	}
	for i, key := range outputKeys(names, inputs) {
		tool := m.tools[c.tools[i]]
		s := draftStep{tool: tool, key: key}
		if tool.out != nil {
			_, s.wrapped = bareResult(tool.out)
		}
		d.steps = append(d.steps, s)
	}
	for _, f := range m.needs[c.tools[0]] {
		d.input(draftInput{name: f.Name, tool: m.tools[c.tools[0]], arg: f.Name, required: true})
		d.steps[0].mapArg(f.Name, flows.Key(f.Name))
	}
	var edges []SchemaEdge
	for k := 1; k < len(c.tools); k++ {
		edges = append(edges, m.connect(d, c, k)...)
	}
	for k := range d.steps {
		slices.SortFunc(d.steps[k].mapping, func(a, b flows.MappingEntry) int { return strings.Compare(a.Target, b.Target) })
		d.mapNothing(k)
	}
	return d, edges
}

// connect maps the required inputs of step k.
func (m *matrix) connect(d *draft, c chain, k int) []SchemaEdge {
	var edges []SchemaEdge
	step := &d.steps[k]
	for _, input := range m.needs[c.tools[k]] {
		i := slices.IndexFunc(c.edges[k-1], func(e chainEdge) bool { return e.input.Name == input.Name })
		if i < 0 { // an input of the flow, under the name that the first tool has for it
			for _, f := range m.needs[c.tools[0]] {
				if normal(f.Name) == normal(input.Name) {
					step.mapArg(input.Name, flows.Key(f.Name))
				}
			}
			continue
		}
		e := c.edges[k-1][i]
		from := &d.steps[e.from]
		from.used = append(from.used, e.field.pointer)
		step.mapArg(input.Name, from.output(e.field.pointer))
		if _, proven, _ := from.schemaAt(e.field.pointer); !proven {
			d.warn("%s may return no %s, which %s needs", from.tool.tool.Name, input.Name, step.tool.tool.Name)
		}
		edges = append(edges, SchemaEdge{Producer: from.tool.tool.Name, OutputField: e.field.pointer, Consumer: step.tool.tool.Name, InputField: input.Name, Rule: e.field.rule})
	}
	return edges
}

func describeChain(tools []string) string {
	return fmt.Sprintf("Calls %s without a model call in between. Built from tool schemas.", strings.Join(tools, ", then "))
}
