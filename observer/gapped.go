package observer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Limits of paths with other calls between their steps.
const (
	maxGapSteps   = 3   // steps
	maxBetween    = 4   // calls between two steps
	gapSessions   = 120 // sessions read to see which tools give others their values at a distance
	minGapValues  = 5   // different values that a tool must be seen to give another at a distance
	minGapSession = 3   // and sessions with one
	maxGapPairs   = 64  // pairs of tools looked at, and as many paths of three
	maxGapPaths   = 16  // paths examined
	maxGapped     = 5   // patterns: they come after all others
	minGapShare   = 0.5 // share of the occurrences with calls between that nothing else serves
)

// gapSpan is one occurrence of a path with gaps: the places of its calls in the log.
type gapSpan struct {
	stretch uint32
	at      [maxGapSteps]uint32
}

// runGapped looks for steps that take values from calls further back, with other calls between them, which sequences
// without gaps miss. Of all tools only those that were seen to give their values at a distance are considered. Such a flow
// makes its later calls earlier than agents did, so neither these nor the calls between may be known to change something.
func (m *miner) runGapped(ctx context.Context, src Source) error {
	if m.options.MaxEvaluated < 0 || m.options.Exactness < 0 {
		return nil
	}
	pairs, err := m.gapPairs(ctx, src)
	if err != nil {
		return fmt.Errorf("look for values that pass over other calls: %w", err)
	}
	var chains [][]uint32
	for _, a := range pairs {
		for _, b := range pairs {
			if a[1] == b[0] && b[1] != a[0] && len(chains) < maxGapPairs {
				chains = append(chains, []uint32{a[0], a[1], b[1]})
			}
		}
	}
	for _, p := range m.gapPaths(append(pairs, chains...)) {
		if err := m.proveGapped(ctx, src, p); err != nil {
			return fmt.Errorf("infer data flow over other calls: %w", err)
		}
	}
	return nil
}

// mayMove reports whether a tool may run before calls that agents made first: nothing is known that it changes.
func (m *miner) mayMove(tool uint32) bool { return !m.options.Effects(m.log.tools[tool]) }

// gapPairs are the pairs of tools of which the second takes a value from the first with other calls between them, in a
// sample of the sessions; those seen in most sessions first.
func (m *miner) gapPairs(ctx context.Context, src Source) ([][]uint32, error) {
	sample := sampler{want: gapSessions}
	stretches := map[string][]uint32{}
	last := uint32(0)
	for s := range m.log.stretches() {
		if session := m.log.session(uint32(s)); session+1 != last {
			last = session + 1
			sample.add(window{stretch: uint32(s), at: m.log.starts[s]}, m.log.order[session])
		}
	}
	for _, w := range sample.take(gapSessions) {
		stretches[m.log.sessions[m.log.session(w.stretch)]] = nil
	}
	for s := range m.log.stretches() {
		id := m.log.sessions[m.log.session(uint32(s))]
		if list, wanted := stretches[id]; wanted {
			stretches[id] = append(list, uint32(s))
		}
	}
	seen := map[[2]uint32]*passed{}
	infer := &inference{options: m.options, log: m.log, seed: m.infer.seed, kept: m.infer.kept, paths: newPathTable()}
	err := m.infer.kept.read(ctx, src, sortedIDs(stretches), func(t *keptSession) {
		view := infer.view(t)
		for _, stretch := range stretches[t.id] {
			m.passes(view, t, stretch, seen)
		}
	})
	if err != nil {
		return nil, err
	}
	var out [][]uint32
	for pair, p := range seen {
		if len(p.values) >= minGapValues && len(p.sessions) >= minGapSession {
			out = append(out, pair[:])
		}
	}
	slices.SortFunc(out, func(a, b []uint32) int {
		return cmp.Or(cmp.Compare(len(seen[[2]uint32(b)].sessions), len(seen[[2]uint32(a)].sessions)), slices.Compare(a, b))
	})
	return out[:min(len(out), maxGapPairs)], nil
}

func sortedIDs(sessions map[string][]uint32) []string {
	ids := make([]string, 0, len(sessions))
	for id := range sessions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// passed is what was seen to pass from one tool to another.
type passed struct {
	values   map[uint64]bool
	sessions map[string]bool
}

// passes notes the values of a stretch that a call takes from the nearest call with them, where others are between the two.
func (m *miner) passes(view *sessionView, t *keptSession, stretch uint32, seen map[[2]uint32]*passed) {
	log := m.log
	run := log.seqs[log.origin[stretch]].run
	from := log.starts[stretch]
	for j := from + 2; j < log.starts[stretch+1]; j++ {
		if run >= len(t.runs) || int(log.pos[j]) >= len(t.runs[run].calls) || !m.mayMove(log.tok[j]) {
			continue
		}
		call := view.call(run, int(log.pos[j]))
		for k, name := range call.names {
			v, hash := call.args[name], call.hashes[k]
			if uninformative(v) {
				continue
			}
			i := j - 1
			for i > from && j-i <= maxBetween && !view.call(run, int(log.pos[i])).result.holds(v, hash) {
				i--
			}
			pair := [2]uint32{log.tok[i], log.tok[j]}
			if j-i == 1 || pair[0] == pair[1] || !view.call(run, int(log.pos[i])).result.holds(v, hash) {
				continue
			}
			p := seen[pair]
			if p == nil {
				p = &passed{map[uint64]bool{}, map[string]bool{}}
				seen[pair] = p
			}
			p.values[hash], p.sessions[t.id] = true, true
		}
	}
}

// gapPath is a path with gaps and its occurrences, with a log in which each of these is a stretch of its own.
type gapPath struct {
	tokens  []uint32
	occ     int
	free    int // occurrences with calls between that no proved path without gaps has in it
	spans   []gapSpan
	log     *calls
	between map[uint32]int // calls between the steps
	longest int            // most of them between two steps
}

// gapPaths counts the occurrences of the paths, and keeps those that have calls between their steps in enough sessions and
// in most occurrences; those first that would save most.
func (m *miner) gapPaths(paths [][]uint32) []*gapPath {
	found := make([]*gapPath, len(paths))
	sessions, last := make([]int, len(paths)), make([]uint32, len(paths))
	for i := range found {
		found[i] = &gapPath{tokens: paths[i]}
	}
	served := map[string]bool{}
	m.eachGapSpan(m.log, found, func(i int, s gapSpan) {
		p := found[i]
		p.occ++
		if !s.between(len(p.tokens)) || m.servedWhole(s, len(p.tokens), served) {
			return
		}
		p.free++
		if session := m.log.session(s.stretch) + 1; session != last[i] {
			last[i] = session
			sessions[i]++
		}
	})
	var out []*gapPath
	for i, p := range found {
		if sessions[i] >= m.minHere() && float64(p.free) >= minGapShare*float64(p.occ) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *gapPath) int {
		return cmp.Or(cmp.Compare(b.free*(len(b.tokens)-1), a.free*(len(a.tokens)-1)), slices.Compare(a.tokens, b.tokens))
	})
	out = out[:min(len(out), maxGapPaths)]
	m.gatherGapSpans(m.log, out)
	return out
}

// gatherGapSpans finds the occurrences of the paths in a log.
func (m *miner) gatherGapSpans(log *calls, paths []*gapPath) {
	m.eachGapSpan(log, paths, func(i int, s gapSpan) { paths[i].spans = append(paths[i].spans, s) })
	for _, p := range paths {
		p.build(log)
	}
}

// eachGapSpan calls fn with the occurrences of the paths in a log, without overlaps.
func (m *miner) eachGapSpan(log *calls, paths []*gapPath, fn func(i int, s gapSpan)) {
	byFirst := make([][]int, len(log.tools))
	for i, p := range paths {
		byFirst[p.tokens[0]] = append(byFirst[p.tokens[0]], i)
	}
	free := make([]uint32, len(paths))
	for s := range log.stretches() {
		for at := log.starts[s]; at < log.starts[s+1]; at++ {
			for _, i := range byFirst[log.tok[at]] {
				if at < free[i] {
					continue
				}
				if span, ok := m.withGaps(log, uint32(s), at, paths[i].tokens); ok {
					free[i] = span.at[len(paths[i].tokens)-1] + 1
					fn(i, span)
				}
			}
		}
	}
}

// withGaps finds the places of the steps from one on, each the next call of its tool within reach. ok is false where one
// is not there, or what is between may change something. A call of the tool before takes over its place.
func (m *miner) withGaps(log *calls, stretch, at uint32, tokens []uint32) (span gapSpan, ok bool) {
	span.stretch, span.at[0] = stretch, at
	end := log.starts[stretch+1]
	for k := 1; k < len(tokens); k++ {
		before := span.at[k-1]
		j := before + 1
		for ; j < end && j-before <= maxBetween+1 && log.tok[j] != tokens[k]; j++ {
			if log.tok[j] == tokens[k-1] || !m.mayMove(log.tok[j]) {
				return span, false
			}
		}
		if j >= end || j-before > maxBetween+1 || log.failed[j] {
			return span, false
		}
		span.at[k] = j
	}
	return span, true
}

// between reports whether there are other calls between the n steps.
func (s *gapSpan) between(n int) bool { return s.at[n-1]-s.at[0] > uint32(n-1) }

// servedWhole reports whether a proved flow has all the calls from the first of the span to its last. known keeps answers.
func (m *miner) servedWhole(s gapSpan, n int, known map[string]bool) bool {
	tokens := m.log.tok[s.at[0] : s.at[n-1]+1]
	key := tokenKey(tokens)
	served, ok := known[key]
	if !ok {
		served = slices.ContainsFunc(m.proved, func(p proof) bool {
			return p.log == m.log && p.standsAlone() && contains(p.stats.tokens, tokens)
		})
		known[key] = served
	}
	return served
}

// build makes the log of the occurrences.
func (p *gapPath) build(log *calls) {
	p.between = map[uint32]int{}
	p.log = &calls{tools: log.tools, sessions: log.sessions, order: log.order, seqs: log.seqs, nameless: log.nameless}
	for _, s := range p.spans {
		p.log.starts = append(p.log.starts, uint32(len(p.log.tok)))
		p.log.origin = append(p.log.origin, log.origin[s.stretch])
		for k, at := range s.at[:len(p.tokens)] {
			joined := k > 0
			for j := s.at[max(0, k-1)] + 1; k > 0 && j <= at; j++ {
				joined = joined && log.joined[j]
				if j < at {
					p.between[log.tok[j]]++
				}
			}
			if k > 0 {
				p.longest = max(p.longest, int(at-s.at[k-1])-1)
			}
			p.log.tok = append(p.log.tok, log.tok[at])
			p.log.pos = append(p.log.pos, log.pos[at])
			p.log.failed = append(p.log.failed, log.failed[at])
			p.log.joined = append(p.log.joined, joined)
		}
	}
	p.log.starts = append(p.log.starts, uint32(len(p.log.tok)))
}

// proveGapped explains the arguments of a path with gaps, and keeps the flow where the model chooses nothing and every
// step takes a value from an earlier one.
func (m *miner) proveGapped(ctx context.Context, src Source, p *gapPath) error {
	o := m.options
	c := takeCensus(p.log, [][]uint32{p.tokens}, o.MaxSamples, o.PerSession)[0]
	infer := &inference{options: o, log: p.log, seed: m.infer.seed, kept: m.infer.kept}
	evidences, err := infer.examine(ctx, src, []sample{{tools: m.names(p.tokens), windows: c.good.take(o.MaxSamples)}})
	if err != nil {
		return err
	}
	e := evidences[0]
	if e.blocker != nil || e.turns == 0 || len(e.variants) == 0 || e.variants[0].partial || !linked(e.variants[0].flow) {
		return nil
	}
	stats := &path{level: len(p.tokens), tokens: p.tokens, occ: c.occ, sessions: c.sessions, closed: true}
	stats.scale(m.scale)
	v := e.variants[0]
	m.gapped = append(m.gapped, proof{log: p.log, stats: stats, gaps: p, flow: v.flow, turns: e.turns, windows: e.windows, fit: v.fit, census: &c,
		score: m.scale * float64(p.free) * e.turns * float64(v.fit.count()) / float64(len(e.windows))})
	return nil
}

// gappedFlows are the flows with gaps that save most; those whose steps a longer one has are left out.
func (m *miner) gappedFlows(most int) []proof {
	var out []proof
	slices.SortStableFunc(m.gapped, func(a, b proof) int { return cmp.Compare(b.stats.level, a.stats.level) })
	for _, p := range m.gapped {
		if !slices.ContainsFunc(out, func(q proof) bool { return q.stats.level > p.stats.level && inOrder(q.stats.tokens, p.stats.tokens) }) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b proof) int { return cmp.Compare(b.score, a.score) })
	return out[:max(0, min(len(out), most))]
}

// inOrder reports whether part lies in whole, with gaps or without.
func inOrder(whole, part []uint32) bool {
	for _, t := range whole {
		if len(part) > 0 && part[0] == t {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// gap describes what lies between the steps.
func (p *gapPath) gap() *Gap {
	g := &Gap{Longest: p.longest}
	for i := range p.spans {
		if p.spans[i].between(len(p.tokens)) {
			g.Occurrences++
		}
	}
	for t, n := range p.between {
		g.Tools = append(g.Tools, Neighbour{p.log.tools[t], n})
	}
	slices.SortFunc(g.Tools, func(a, b Neighbour) int {
		return cmp.Or(cmp.Compare(b.Windows, a.Windows), cmp.Compare(a.Tool, b.Tool))
	})
	g.Tools = g.Tools[:min(len(g.Tools), maxNeighbours)]
	return g
}
