package baseline

import (
	"iter"
	"slices"
	"strings"
	"sync"

	"pave/flows"
)

// Analyzer finds tools that can follow each other by their schemas alone. It is immutable and safe for concurrent
// use.
type Analyzer struct {
	names  []string
	index  map[string]int
	inputs [][]field
	output [][]field

	matrix func() [][]int // successors of each tool, computed once
}

// NewAnalyzer reads the schemas of the tools. Two tools of one name are an error.
func NewAnalyzer(tools []*flows.Tool) (*Analyzer, error) {
	a := &Analyzer{index: map[string]int{}}
	var duplicates []string
	for i, t := range tools {
		if _, exists := a.index[t.Name]; exists {
			duplicates = append(duplicates, t.Name)
			continue
		}
		a.index[t.Name] = i
		in, err := fieldsOf(t.InputSchema)
		if err != nil {
			return nil, invalid("tool '%s': input schema: %v", t.Name, err)
		}
		out, err := fieldsOf(t.OutputSchema)
		if err != nil {
			return nil, invalid("tool '%s': output schema: %v", t.Name, err)
		}
		a.names, a.inputs, a.output = append(a.names, t.Name), append(a.inputs, in), append(a.output, out)
	}
	if len(duplicates) > 0 {
		slices.Sort(duplicates)
		return nil, invalid("Duplicate tool names supplied to ChainAnalyzer: %s.", listText(slices.Compact(duplicates)))
	}
	a.matrix = sync.OnceValue(a.compatible)
	return a, nil
}

// CompatibilityMatrix lists the tools that may follow each tool, in the order in which tools were given. B may follow A
// when A returns every required argument of B, and whatever A returns under the name of an argument of B has
// exactly its type.
func (a *Analyzer) CompatibilityMatrix() map[string][]string {
	out := make(map[string][]string, len(a.names))
	for i, successors := range a.matrix() {
		names := make([]string, len(successors))
		for k, s := range successors {
			names[k] = a.names[s]
		}
		out[a.names[i]] = names
	}
	return out
}

// producer is one tool that returns a field.
type producer struct {
	tool     int
	declared string
}

// compatible counts, for each consumer, the required arguments that each producer has, through an index over field
// names.
func (a *Analyzer) compatible() [][]int {
	byName := map[string][]producer{}
	for i, fields := range a.output {
		for _, f := range fields {
			byName[f.name] = append(byName[f.name], producer{i, f.declared})
		}
	}
	successors := make([][]int, len(a.names))
	found := make([]int, len(a.names)) // required arguments found, -1 where a type is wrong
	for consumer, fields := range a.inputs {
		clear(found)
		needed := 0
		for _, f := range fields {
			if f.required {
				needed++
			}
			for _, p := range byName[f.name] {
				switch {
				case p.declared != f.declared:
					found[p.tool] = -1
				case f.required && found[p.tool] >= 0:
					found[p.tool]++
				}
			}
		}
		for p, n := range found {
			if n == needed && p != consumer {
				successors[p] = append(successors[p], consumer)
			}
		}
	}
	return successors
}

// ChainOptions bound the search of chains.
type ChainOptions struct {
	MaxDepth   int // tools, at least 1
	MinDepth   int // tools of a suggested flow, at least 1
	Start, End *string
}

// DefaultChainOptions are chains of up to three tools, and flows of two or three.
func DefaultChainOptions() ChainOptions { return ChainOptions{MaxDepth: 3, MinDepth: 2} }

// FindChains lists the chains of tools in the order of a depth-first search: no tool twice, every beginning of a
// chain is a chain.
func (a *Analyzer) FindChains(opts ChainOptions) ([][]string, error) {
	found, err := a.search(opts)
	if err != nil {
		return nil, err
	}
	var chains [][]string
	for path := range found {
		chain := make([]string, len(path))
		for i, tool := range path {
			chain[i] = a.names[tool]
		}
		chains = append(chains, chain)
	}
	return chains, nil
}

// search yields each chain as positions of tools; a slice is only valid until the next one.
func (a *Analyzer) search(opts ChainOptions) (iter.Seq[[]int], error) {
	if opts.MaxDepth < 1 {
		return nil, invalid("max_depth must be >= 1, got %d.", opts.MaxDepth)
	}
	starts, end := make([]int, len(a.names)), -1
	for i := range starts {
		starts[i] = i
	}
	if opts.Start != nil {
		start, known := a.index[*opts.Start]
		if !known {
			return nil, invalid("Unknown start tool: '%s'.", *opts.Start)
		}
		starts = []int{start}
	}
	if opts.End != nil {
		var known bool
		if end, known = a.index[*opts.End]; !known {
			return nil, invalid("Unknown end tool: '%s'.", *opts.End)
		}
	}
	return func(yield func([]int) bool) {
		w := walk{matrix: a.matrix(), maxDepth: opts.MaxDepth, end: end, yield: yield}
		for _, start := range starts {
			if !w.visit(start) {
				return
			}
		}
	}, nil
}

// walk is one depth-first search.
type walk struct {
	matrix   [][]int
	maxDepth int
	end      int // the last tool of every chain, -1 for any
	yield    func([]int) bool
	path     []int
}

// visit yields the chains that go on with a tool; false stops the search.
func (w *walk) visit(tool int) bool {
	w.path = append(w.path, tool)
	if (w.end < 0 || tool == w.end) && !w.yield(w.path) {
		return false
	}
	if len(w.path) < w.maxDepth {
		for _, next := range w.matrix[tool] {
			if !slices.Contains(w.path, next) && !w.visit(next) {
				return false
			}
		}
	}
	w.path = w.path[:len(w.path)-1]
	return true
}

func fieldNames(fields []field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}

func hasField(fields []field, name string) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return f.name == name })
}

// listText writes names as a Python list.
func listText(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "'" + n + "'"
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
