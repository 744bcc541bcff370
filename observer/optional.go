package observer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
)

// Limits of the search for optional steps.
const (
	maxOptional   = 24 // pairs of paths looked at
	optionalProbe = 32 // occurrences of each at the first look, which reads one result each
)

// optional is a path that agents walk with and without one of its inner steps: both ways are frequent and have the same
// steps around it.
type optional struct {
	whole, short *path
	step         int
}

// runOptional looks among pairs for steps that agents leave out where the result of the step before tells so, and makes one
// flow of both ways, with a guard.
func (m *miner) runOptional(ctx context.Context, src Source, pairs []optional) error {
	told, err := m.told(ctx, src, pairs)
	if err != nil {
		return fmt.Errorf("look at what is before optional steps: %w", err)
	}
	for i := range pairs {
		o := &pairs[i]
		if !told[i] || slices.ContainsFunc(m.proved, func(p proof) bool { return p.optional != nil && contains(p.stats.tokens, o.whole.tokens) }) {
			continue
		}
		if err := m.proveOptional(ctx, src, o); err != nil {
			return err
		}
	}
	return nil
}

// optionals lists the pairs, those first in which both ways are walked most.
func (m *miner) optionals() []optional {
	at := make(map[string]int, len(m.all))
	for i := range m.all {
		at[tokenKey(m.all[i].tokens)] = i
	}
	var out []optional
	for i := range m.all {
		p := &m.all[i]
		for k := 1; k+1 < p.level; k++ {
			if p.tokens[k] == p.tokens[k-1] || p.tokens[k] == p.tokens[k+1] {
				continue // which of two equal calls is left out cannot be told
			}
			j, ok := at[tokenKey(slices.Delete(slices.Clone(p.tokens), k, k+1))]
			if !ok {
				continue
			}
			q := &m.all[j]
			if p.occ+q.occ >= minGuardCases && min(p.occ, q.occ) >= minGuardSide && (p.closed || q.closed) {
				out = append(out, optional{whole: p, short: q, step: k})
			}
		}
	}
	rarer := func(o *optional) int { return min(o.whole.occ, o.short.occ) * (o.whole.level - 1) }
	slices.SortFunc(out, func(a, b optional) int {
		return cmp.Or(cmp.Compare(rarer(&b), rarer(&a)), slices.Compare(a.whole.tokens, b.whole.tokens), cmp.Compare(a.step, b.step))
	})
	return out[:min(len(out), maxOptional)]
}

// bothWays are the censuses of a pair.
func (m *miner) bothWays(o *optional) []*census {
	return m.census([]piece{{path: m.index(o.whole.level, o.whole.id)}, {path: m.index(o.short.level, o.short.id)}})
}

// befores are a few occurrences of the step before the optional one, where agents took it and where they left it out.
func (m *miner) befores(o *optional) []sample {
	var samples []sample
	for _, c := range m.bothWays(o) {
		s := sample{tools: m.names(o.whole.tokens[o.step-1 : o.step]), kept: true}
		for _, w := range c.good.take(optionalProbe) {
			s.windows = append(s.windows, window{stretch: w.stretch, at: w.at + uint32(o.step-1)})
		}
		samples = append(samples, s)
	}
	return samples
}

// told takes a first look at pairs: whether the results before the step, in a few occurrences, tell the two ways apart.
func (m *miner) told(ctx context.Context, src Source, pairs []optional) ([]bool, error) {
	var samples []sample
	for i := range pairs {
		samples = append(samples, m.befores(&pairs[i])...)
	}
	m.infer.paths, m.infer.forms = newPathTable(), newDerivedTable()
	records, err := m.infer.readRecords(ctx, src, samples)
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(pairs))
	for i := range out {
		var cases []guardCase
		for way, of := range records[2*i : 2*i+2] {
			for n := range of {
				cases = append(cases, guardCase{session: of[n].session, result: of[n].before, runs: way == 0})
			}
		}
		out[i] = m.infer.guard(cases, false) != nil
	}
	return out, nil
}

// proveOptional explains the arguments of both ways together, and keeps the flow where nothing is left to the model.
func (m *miner) proveOptional(ctx context.Context, src Source, o *optional) error {
	censuses := m.bothWays(o)
	s := sample{tools: m.names(o.whole.tokens), optional: o.step,
		windows: censuses[0].good.take(m.options.MaxSamples), short: censuses[1].good.take(m.options.MaxSamples)}
	evidences, err := m.infer.examine(ctx, src, []sample{s})
	if err != nil {
		return fmt.Errorf("infer data flow of an optional step: %w", err)
	}
	e := evidences[0]
	if e.guard == nil || e.blocker != nil || e.turns == 0 || len(e.variants) == 0 || e.variants[0].partial {
		return nil
	}
	v := e.variants[0]
	stats := o.both(m.log)
	failures := censuses[0].failures + censuses[1].failures
	if takesFrom(v.flow, o.step) || 2*failures > censuses[0].occ+censuses[1].occ || !stats.stands() && !linked(v.flow) {
		return nil
	}
	v.flow.Steps[o.step].When = e.guard
	agents := maps.Clone(censuses[0].seen)
	maps.Copy(agents, censuses[1].seen)
	c := &census{occ: censuses[0].occ + censuses[1].occ, good: censuses[0].good, failures: failures, agents: len(agents)}
	m.proved = append(m.proved, proof{log: m.log, stats: stats, optional: o, confidence: m.optionalConfidence(o), flow: v.flow,
		turns: e.turns, windows: e.windows, fit: v.fit, census: c, shortGood: censuses[1].good})
	return nil
}

// both are the figures of the two ways together.
func (o *optional) both(log *calls) *path {
	p, q := o.whole, o.short
	out := &path{level: p.level, tokens: p.tokens, occ: p.occ + q.occ, expected: p.expected + q.expected, excess: p.excess + q.excess,
		score: p.score + q.score, closed: true, significant: p.significant || q.significant, p: min(p.p, q.p)}
	out.z = max(p.z, q.z)
	out.sessions = log.sessionsWith([][]uint32{p.tokens, q.tokens})
	return out
}

// sessionsWith is the number of sessions with one of the sequences.
func (log *calls) sessionsWith(sequences [][]uint32) int {
	n, last := 0, uint32(0)
	tree := newPrefixTree(len(log.tools), sequences)
	for s := range log.stretches() {
		tree.walk(log, uint32(s), func(int, uint32, uint32) {
			if session := log.session(uint32(s)) + 1; session != last {
				last = session
				n++
			}
		})
	}
	return n
}

// optionalConfidence is that of the steps before the optional one by themselves, and of the others by both ways: how often
// either follows.
func (m *miner) optionalConfidence(o *optional) []float64 {
	whole, short := m.stepConfidence(o.whole), m.stepConfidence(o.short)
	out := slices.Clone(whole)
	out[o.step-1] = min(1, whole[o.step-1]+short[o.step-1])
	for k := o.step + 1; k < len(out); k++ {
		out[k] = (whole[k]*float64(o.whole.occ) + short[k-1]*float64(o.short.occ)) / float64(o.whole.occ+o.short.occ)
	}
	return out
}

// takesFrom reports whether a later step takes a value from a step.
func takesFrom(flow *DataFlow, step int) bool {
	return slices.ContainsFunc(flow.Steps[step+1:], func(s StepFlow) bool {
		return slices.ContainsFunc(s.Args, func(a ArgFlow) bool {
			switch a.Kind {
			case SourceOutput, SourceArg:
				return a.Step == step
			case SourceDerived:
				return a.Derived.List != "" && a.Derived.Step == step ||
					slices.ContainsFunc(a.Derived.Parts, func(p Part) bool { return p.Place && p.Step == step })
			}
			return false
		})
	})
}
