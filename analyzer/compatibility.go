package analyzer

import (
	"slices"
	"strings"
)

// Compatibility says that a field of one tool's result fills a required input of another tool, by their schemas and names.
type Compatibility struct {
	Producer string
	Pointer  string // into the producer's result, "" for a result that is the value itself
	Consumer string
	Input    string
	Rule     string  // how the names were matched
	Score    float64 // how telling the field is: 2 for an identifier, 1 for a telling name, 0 for a generic one
}

// Compatibilities compares all tools of a catalogue with each other, at most the first 2,000, and returns the fields that
// fit, by producer, consumer and input.
func Compatibilities(c Catalogue) []Compatibility {
	m := matrixOf(c)
	var out []Compatibility
	for p, consumers := range m.edges {
		for to, edges := range consumers {
			for _, e := range edges {
				out = append(out, Compatibility{Producer: m.tools[p].tool.Name, Pointer: e.field.pointer, Consumer: m.tools[to].tool.Name,
					Input: e.input.Name, Rule: e.field.rule, Score: e.score})
			}
		}
	}
	slices.SortFunc(out, func(a, b Compatibility) int { return strings.Compare(a.Key(), b.Key()) })
	return slices.CompactFunc(out, func(a, b Compatibility) bool { return a.Key() == b.Key() })
}

// Key tells compatibilities of one catalogue apart, and is what they are sorted by.
func (c *Compatibility) Key() string {
	return strings.Join([]string{c.Producer, c.Consumer, c.Input, c.Pointer}, "\x00")
}

// Chain is a sequence of tools in which each after the first gets at least one required input from the one before it, and
// all others from the chain or from its first tool's inputs.
type Chain struct {
	Tools []string
	Score float64 // how telling its fields are, less where tools are not known to only read
	Edges []SchemaEdge
}

// ChainQuery selects chains. From and To are tools that chains begin and end with, "" for any; MaxDepth is how many tools
// they have at most, 2 to 6, 0 for 4.
type ChainQuery struct {
	From, To string
	MaxDepth int
}

// DefaultChainDepth is the depth of a query that names none.
const DefaultChainDepth = 4

// Chains lists the chains of a catalogue, best first. The search stops at 20,000 of one query.
func Chains(c Catalogue, q ChainQuery) []Chain {
	m := matrixOf(c)
	if q.MaxDepth == 0 {
		q.MaxDepth = DefaultChainDepth
	}
	from := -1
	if q.From != "" {
		at, known := m.index[q.From]
		if !known {
			return nil
		}
		from = at
	}
	var out []Chain
	for _, found := range m.findFrom(q.MaxDepth, from) {
		names := m.names(found.tools)
		if q.To != "" && names[len(names)-1] != q.To {
			continue
		}
		chain := Chain{Tools: names, Score: found.score}
		for k, step := range found.edges {
			for _, e := range step {
				chain.Edges = append(chain.Edges, SchemaEdge{Producer: names[e.from], OutputField: e.field.pointer, Consumer: names[k+1],
					InputField: e.input.Name, Rule: e.field.rule})
			}
		}
		out = append(out, chain)
	}
	return out
}

func matrixOf(c Catalogue) *matrix {
	tools := newLookup(c)
	var all []*known
	for _, t := range c.Tools() {
		all = append(all, tools.tool(t.Name))
	}
	return newMatrix(all, nil)
}
