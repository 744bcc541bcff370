package observer

import (
	"context"
	"math"
	"testing"
)

// AllTracked is the result with every sequence that is tracked as a pattern, agents included.
func AllTracked(r *Result) *Result {
	out, tracked := *r, *r.tracked
	out.Patterns, out.tracked, tracked.Walked = nil, &tracked, nil
	for i, tokens := range r.tracked.Paths {
		tracked.Walked = append(tracked.Walked, i)
		var p Pattern
		for _, t := range tokens {
			p.Tools = append(p.Tools, r.tracked.Tools[t])
		}
		out.Patterns = append(out.Patterns, p)
	}
	return &out
}

// Figures are those of a pattern that follow from counts.
type Figures struct {
	Occurrences, Sessions int
	Agents                int
	Confidence            []float64
	Expected, Success     float64
}

// FiguresOf takes them from a pattern, expectations rounded to nine digits.
func FiguresOf(p *Pattern) Figures {
	return Figures{p.Occurrences, p.Sessions, p.Agents, p.StepConfidence, math.Round(p.Expected*1e9) / 1e9, p.Success}
}

// CountsOf counts the patterns in all sequences of src as a full pass does.
func CountsOf(t *testing.T, src Source, patterns *Result, o Options) map[string]Figures {
	t.Helper()
	ctx := context.Background()
	raw, names, err := readAll(ctx, src, Options{MaxCalls: math.MaxInt, Since: o.Since})
	if err != nil {
		t.Fatal(err)
	}
	log := normalise(raw, names, nil)
	table := count(log, o.MaxLength, 1)
	model := newNull(log, table)
	of := map[string]gramAt{}
	for n := 1; n < len(table.levels); n++ {
		for id := 1; id < len(table.levels[n]); id++ {
			of[tokenKey(table.tokens(n, uint32(id)))] = gramAt{n, uint32(id)}
		}
	}
	occ := func(tokens []uint32) float64 {
		at, ok := of[tokenKey(tokens)]
		if !ok {
			return 0
		}
		return float64(table.levels[at.level][at.id].occ)
	}
	out := map[string]Figures{}
	for i := range patterns.Patterns {
		p := Pattern{Tools: patterns.Patterns[i].Tools}
		if tokens, ok := tokensOf(log, p.Tools); ok && model.occ[tokens[0]] > 0 {
			p.StepConfidence = make([]float64, len(tokens)-1)
			p.Expected = model.expected(tokens)
			if at, ok := of[tokenKey(tokens)]; ok {
				g := table.levels[at.level][at.id]
				c := takeCensus(log, [][]uint32{tokens}, 1, 1)[0]
				p.Occurrences, p.Sessions, p.Agents = int(g.occ), int(g.sessions), c.agents
				p.Success = float64(p.Occurrences-c.failures) / float64(p.Occurrences)
			}
			for n := 1; n < len(tokens); n++ {
				p.StepConfidence[n-1] = occ(tokens[:n+1]) / max(1, occ(tokens[:n]))
			}
		}
		out[arrow(p.Tools)] = FiguresOf(&p)
	}
	return out
}

type gramAt struct {
	level int
	id    uint32
}
