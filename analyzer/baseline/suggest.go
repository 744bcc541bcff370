package baseline

import (
	"slices"

	"pave/flows"
)

// SuggestFlows makes a flow of every chain of at least MinDepth tools, in the order of FindChains. The first step
// maps all arguments of its tool to themselves, later steps those that the step right before returns. Flows share
// their mappings.
func (a *Analyzer) SuggestFlows(opts ChainOptions) ([]*flows.Flow, error) {
	var out []*flows.Flow
	err := a.EachFlow(opts, func(f *flows.Flow) bool {
		kept := *f
		kept.Steps = slices.Clone(f.Steps)
		out = append(out, &kept)
		return true
	})
	return out, err
}

// EachFlow is SuggestFlows for callers that look at each flow once: thousands are usual. A flow and its Steps are only
// valid during the call; false ends the search.
func (a *Analyzer) EachFlow(opts ChainOptions, visit func(*flows.Flow) bool) error {
	if opts.MinDepth < 1 {
		return invalid("min_depth must be >= 1, got %d.", opts.MinDepth)
	}
	chains, err := a.search(opts)
	if err != nil {
		return err
	}
	b := flowBuilder{a: a, first: make([]flows.Mapping, len(a.names)), next: make([]map[int]flows.Mapping, len(a.names))}
	for path := range chains {
		if len(path) >= opts.MinDepth && !visit(b.build(path)) {
			break
		}
	}
	return nil
}

// flowBuilder builds one flow after the other in the same memory and keeps the mappings that many have in common.
type flowBuilder struct {
	a     *Analyzer
	first []flows.Mapping         // of a tool that begins a flow
	next  []map[int]flows.Mapping // producer -> consumer

	flow  flows.Flow
	steps []flows.Step
	names []string
	text  []byte
}

func (b *flowBuilder) build(path []int) *flows.Flow {
	b.steps, b.names = b.steps[:0], b.names[:0]
	for i, tool := range path {
		step := flows.Step{ToolName: b.a.names[tool]}
		if i == 0 {
			step.InputMapping = b.begin(tool)
		} else {
			step.InputMapping = b.follow(path[i-1], tool)
		}
		b.steps, b.names = append(b.steps, step), append(b.names, step.ToolName)
	}
	b.flow = flows.Flow{FormatVersion: flows.FormatVersion1, Type: flows.TypeFlow, Name: b.join(namePrefix, nameSeparator, ""), Version: draftVersion,
		Description: b.join("Auto-suggested flow from ChainAnalyzer: ", arrow, "."), Steps: b.steps, Status: flows.StatusActive}
	return &b.flow
}

// join writes the names of the flow's tools in one go.
func (b *flowBuilder) join(before, separator, after string) string {
	b.text = append(b.text[:0], before...)
	for i, name := range b.names {
		if i > 0 {
			b.text = append(b.text, separator...)
		}
		b.text = append(b.text, name...)
	}
	return string(append(b.text, after...))
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
