package baseline

import (
	"slices"

	"pave/flows"
)

// SuggestFlows makes a flow of every chain of at least MinDepth tools, in the order of FindChains. The first step
// maps all arguments of its tool to themselves, later steps those that the step right before returns. Flows lie in
// blocks of memory and share mappings and steps: they must not be changed in place.
func (a *Analyzer) SuggestFlows(opts ChainOptions) ([]*flows.Flow, error) {
	var out []*flows.Flow
	var free []flows.Flow
	var steps []flows.Step // the steps of the last flow and what is free behind them
	var last []int         // its path
	err := a.eachChain(opts, func(b *flowBuilder, path []int) bool {
		n := len(path)
		if before := len(last); n != before+1 || len(steps) < n || !slices.Equal(last, path[:before]) {
			if steps = steps[before:]; len(steps) < n {
				steps = make([]flows.Step, max(stepsInBlock, n))
			}
		} // else the flow goes on where the last one ends
		if len(free) == 0 {
			free = make([]flows.Flow, flowsInBlock)
		}
		kept := &free[0]
		kept.Steps, free = steps[:n:n], free[1:]
		b.build(kept, path)
		out, last = append(out, kept), append(last[:0], path...)
		return true
	})
	return out, err
}

// A block of flows and one of steps have some 30 KB each.
const (
	flowsInBlock = 64
	stepsInBlock = 96
)

// EachFlow is SuggestFlows for callers that look at each flow once: thousands are usual. A flow and its Steps are only
// valid during the call; false ends the search.
func (a *Analyzer) EachFlow(opts ChainOptions, visit func(*flows.Flow) bool) error {
	var lent flows.Flow
	var steps []flows.Step
	return a.eachChain(opts, func(b *flowBuilder, path []int) bool {
		steps = slices.Grow(steps[:0], len(path))
		lent.Steps = steps[:len(path)]
		b.build(&lent, path)
		return visit(&lent)
	})
}

// eachChain hands out the chains that become flows, with what builds them; false ends the search.
func (a *Analyzer) eachChain(opts ChainOptions, visit func(*flowBuilder, []int) bool) error {
	if opts.MinDepth < 1 {
		return invalid("min_depth must be >= 1, got %d.", opts.MinDepth)
	}
	chains, err := a.search(opts)
	if err != nil {
		return err
	}
	b := &flowBuilder{a: a, first: make([]flows.Mapping, len(a.names)), next: make([]map[int]flows.Mapping, len(a.names))}
	for path := range chains {
		if len(path) >= opts.MinDepth && !visit(b, path) {
			break
		}
	}
	return nil
}

// flowBuilder builds flows and keeps the mappings that many have in common.
type flowBuilder struct {
	a     *Analyzer
	first []flows.Mapping         // of a tool that begins a flow
	next  []map[int]flows.Mapping // producer -> consumer
	text  []byte
}

// build writes the flow of a path into f, which has a step for each of its tools. f is empty, or of build.
func (b *flowBuilder) build(f *flows.Flow, path []int) {
	for i, tool := range path {
		step := &f.Steps[i]
		step.ToolName = b.a.names[tool]
		if i == 0 {
			step.InputMapping = b.begin(tool)
		} else {
			step.InputMapping = b.follow(path[i-1], tool)
		}
	}
	f.FormatVersion, f.Type, f.Version, f.Status = flows.FormatVersion1, flows.TypeFlow, draftVersion, flows.StatusActive
	b.text = b.text[:0]
	b.join(f.Steps, namePrefix, nameSeparator, "")
	n := len(b.text)
	b.join(f.Steps, "Auto-suggested flow from ChainAnalyzer: ", arrow, ".")
	texts := string(b.text) // one string for both
	f.Name, f.Description = texts[:n], texts[n:]
}

// join adds the names of the steps' tools to the text.
func (b *flowBuilder) join(steps []flows.Step, before, separator, after string) {
	b.text = append(b.text, before...)
	for i := range steps {
		if i > 0 {
			b.text = append(b.text, separator...)
		}
		b.text = append(b.text, steps[i].ToolName...)
	}
	b.text = append(b.text, after...)
}

func (b *flowBuilder) begin(tool int) flows.Mapping {
	if b.first[tool] == nil {
		b.first[tool] = identity(fieldNames(b.a.inputs[tool]))
	}
	return b.first[tool]
}

func (b *flowBuilder) follow(producer, consumer int) flows.Mapping {
	if b.next[producer] == nil {
		b.next[producer] = map[int]flows.Mapping{}
	}
	m, known := b.next[producer][consumer]
	if !known {
		m = identity(slices.DeleteFunc(fieldNames(b.a.inputs[consumer]), func(name string) bool { return !hasField(b.a.output[producer], name) }))
		b.next[producer][consumer] = m
	}
	return m
}
