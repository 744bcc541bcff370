package observer

import (
	"cmp"
	"context"
	"slices"
)

// Limits of paths with loops.
const (
	maxLoopSteps = 12  // steps, a loop being one
	maxLoopPaths = 300 // examined
)

// minLoopShare is the share of its occurrences in which a path must loop where nothing links its steps: by chance some
// calls follow one of their own kind.
const minLoopShare = 0.2

// foldLoops makes neighbouring calls of one tool one group: a loop over something. The stretches stay the same. nil
// means that no tool loops in enough sessions.
func foldLoops(log *calls, minSessions int) *calls {
	f := &calls{tools: log.tools, base: log, sessions: log.sessions, order: log.order, seqs: log.seqs, origin: log.origin}
	looping := map[uint32]map[uint32]struct{}{}
	worth := false
	for s := range log.stretches() {
		f.starts = append(f.starts, uint32(len(f.tok)))
		for i := log.starts[s]; i < log.starts[s+1]; {
			j := i + 1
			for j < log.starts[s+1] && log.tok[j] == log.tok[i] {
				j++
			}
			if j > i+1 && !worth {
				if looping[log.tok[i]] == nil {
					looping[log.tok[i]] = map[uint32]struct{}{}
				}
				looping[log.tok[i]][log.session(uint32(s))] = struct{}{}
				worth = len(looping[log.tok[i]]) >= minSessions
			}
			f.head = append(f.head, i)
			f.tok = append(f.tok, log.tok[i])
			f.failed = append(f.failed, log.failed[j-1])
			i = j
		}
	}
	if !worth {
		return nil
	}
	f.starts = append(f.starts, uint32(len(f.tok)))
	f.head = append(f.head, uint32(len(log.tok)))
	return f
}

func (log *calls) size(group uint32) uint32 { return log.head[group+1] - log.head[group] }

// allows reports whether only the steps marked are loops in a window.
func (log *calls) allows(w window, each []bool) bool {
	if log.base == nil {
		return true
	}
	for k, loops := range each {
		if !loops && log.size(w.at+uint32(k)) > 1 {
			return false
		}
	}
	return true
}

// loopPath is a path of the folded log.
type loopPath struct {
	stats   *path
	each    []bool
	windows []window
	saves   int     // turns in occurrences that loop
	share   float64 // of the occurrences, those that loop
}

// runLoops looks for steps that run once per element of a list.
func (m *miner) runLoops(ctx context.Context, src Source) error {
	o := m.options
	if o.MaxEvaluated < 0 {
		return nil
	}
	minSessions := m.minSessions
	m.loops = foldLoops(m.log, minSessions)
	if m.loops == nil {
		return nil
	}
	table := count(m.loops, maxLoopSteps, uint32(minSessions))
	all := measure(table, newNull(m.loops, table), o.Delta, o.FDR, m.many())
	for id := 1; id < len(table.levels[1]); id++ {
		g := &table.levels[1][id]
		all = append(all, path{level: 1, id: uint32(id), tokens: []uint32{g.last}, occ: int(g.occ), sessions: int(g.sessions), closed: true})
	}
	m.loopsOpen = map[string]bool{}
	for i := range all {
		if all[i].partOfMore() {
			m.loopsOpen[tokenKey(all[i].tokens)] = true
		}
	}
	paths := m.loopPaths(all, minSessions)
	infer := &inference{options: o, log: m.loops, seed: m.infer.seed, kept: m.infer.kept}
	samples := make([]sample, len(paths))
	censuses := make([]*census, len(paths))
	for i := range paths {
		p := &paths[i]
		censuses[i] = m.loopCensus(p)
		samples[i] = sample{tools: m.names(p.stats.tokens), each: p.each, windows: censuses[i].good.take(o.MaxSamples)}
	}
	evidences, err := infer.examine(ctx, src, samples)
	if err != nil {
		return err
	}
	for i, e := range evidences {
		if e.turns == 0 || 2*censuses[i].failures > paths[i].stats.occ {
			continue
		}
		stats := paths[i].stats
		confidence := []float64{}
		if stats.level > 1 {
			confidence = confidences(table, stats)
		}
		for _, v := range e.variants {
			if !linked(v.flow) && (paths[i].share < minLoopShare || stats.level > 1 && !stats.stands()) {
				continue
			}
			m.proved = append(m.proved, proof{log: m.loops, stats: stats, each: paths[i].each, confidence: confidence, flow: v.flow,
				partial: v.partial, turns: e.turns, windows: e.windows, fit: v.fit, census: censuses[i]})
		}
	}
	return nil
}

// loopPaths picks paths that stand out, then those with the most turns in occurrences that loop. Steps that loop in enough sessions, and in a
// tenth of those of the path, run once per element.
func (m *miner) loopPaths(all []path, minSessions int) []loopPath {
	sequences := make([][]uint32, len(all))
	for i := range all {
		sequences[i] = all[i].tokens
	}
	places := findAll(m.loops, sequences)
	var out []loopPath
	for i := range all {
		p := loopPath{stats: &all[i], each: make([]bool, all[i].level)}
		last, sessions := make([]uint32, p.stats.level), make([]int, p.stats.level)
		for _, w := range places[i] {
			for k := range p.each {
				if s := m.loops.session(w.stretch) + 1; m.loops.size(w.at+uint32(k)) > 1 && last[k] != s {
					last[k] = s
					sessions[k]++
				}
			}
		}
		enough := minSessions
		if p.stats.sessions < minSessions { // kept for what it is part of
			enough = max(leastGoingOn, p.stats.sessions/2)
		}
		for k, n := range sessions {
			p.each[k] = n >= enough && 10*n >= p.stats.sessions
		}
		if !slices.Contains(p.each, true) {
			continue
		}
		looping := 0
		for _, w := range places[i] {
			if !m.loops.allows(w, p.each) {
				continue
			}
			p.windows = append(p.windows, w)
			if _, n := m.loops.unfolded(w, p.stats.level); n > p.stats.level {
				p.saves += m.loops.turnsSaved(w, p.stats.level)
				looping++
			}
		}
		p.share = float64(looping) / float64(max(1, len(p.windows)))
		if p.saves > 0 {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b loopPath) int {
		return cmp.Or(cmp.Compare(rankBool(m.many() && a.stats.stands() && !a.stats.partOfMore()), rankBool(m.many() && b.stats.stands() && !b.stats.partOfMore())), cmp.Compare(rankBool(a.stats.closed && a.stats.stands()), rankBool(b.stats.closed && b.stats.stands())),
			cmp.Compare(b.saves, a.saves), slices.Compare(a.stats.tokens, b.stats.tokens))
	})
	return out[:min(len(out), maxLoopPaths)]
}

// loopCensus is the census of the windows that the path allows; the path's counts become theirs.
func (m *miner) loopCensus(p *loopPath) *census {
	c := &census{good: sampler{want: m.options.MaxSamples}, seen: map[uint32]struct{}{}}
	occ, sessions, last := 0, 0, uint32(0)
	for _, w := range p.windows {
		if w.at >= c.freeFrom {
			occ++
			if s := m.loops.session(w.stretch) + 1; s != last {
				last = s
				sessions++
			}
		}
		c.visit(m.loops, w.stretch, w.at, w.at+uint32(p.stats.level), m.options.PerSession)
	}
	c.agents = len(c.seen)
	p.stats.occ, p.stats.sessions = occ, sessions
	return c
}
