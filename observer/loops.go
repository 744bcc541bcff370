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
	stats *path
	each  []bool
	saves int     // turns in occurrences that loop
	share float64 // of the occurrences, those that loop
}

// loopSearch is what is known of loops before values are read.
type loopSearch struct {
	table    *gramTable
	all      []path  // of the folded log
	looping  [][]int // of each of these, by step: sessions in which it loops
	paths    []loopPath
	censuses []census
}

// findLoops folds the loops of the log and picks the paths with loops that may be worth a look; nil when there are none.
func (m *miner) findLoops() *loopSearch {
	m.loops = foldLoops(m.log, m.minHere())
	if m.loops == nil {
		return nil
	}
	o := m.options
	table := count(m.loops, maxLoopSteps, uint32(m.minHere()))
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
	s := &loopSearch{table: table, all: all, looping: m.loopingSessions(all)}
	s.paths = m.loopPaths(all, s.steps(func(p *path, sessions int) bool {
		enough := m.minHere()
		if p.sessions < enough { // kept for what it is part of
			enough = max(leastGoingOn, p.sessions/2)
		}
		return sessions >= enough && 10*sessions >= p.sessions
	}))
	s.censuses = m.loopCensuses(s.paths)
	return s
}

// runLoops looks for steps that run once per element of a list.
func (m *miner) runLoops(ctx context.Context, src Source, s *loopSearch) error {
	if s == nil {
		return nil
	}
	infer := &inference{options: m.options, log: m.loops, seed: m.infer.seed, kept: m.infer.kept}
	samples := make([]sample, len(s.paths))
	for i := range s.paths {
		samples[i] = sample{tools: m.names(s.paths[i].stats.tokens), each: s.paths[i].each, windows: s.censuses[i].good.take(m.options.MaxSamples)}
	}
	evidences, err := infer.examine(ctx, src, samples)
	if err != nil {
		return err
	}
	for i, e := range evidences {
		if c := &s.censuses[i]; e.turns > 0 && 2*c.failures <= c.occ {
			m.proveLoop(s, i, e)
		}
	}
	return nil
}

// proveLoop keeps the flows of a path whose steps belong together.
func (m *miner) proveLoop(s *loopSearch, i int, e evidence) {
	stats := s.paths[i].stats
	confidence := []float64{}
	if stats.level > 1 {
		confidence = confidences(s.table, stats)
	}
	for _, v := range e.variants {
		if !linked(v.flow) && (s.paths[i].share < minLoopShare || stats.level > 1 && !stats.stands()) {
			continue
		}
		m.proved = append(m.proved, proof{log: m.loops, stats: stats, each: s.paths[i].each, confidence: confidence, flow: v.flow,
			partial: v.partial, turns: e.turns, windows: e.windows, fit: v.fit, census: &s.censuses[i]})
	}
}

// loopPaths picks paths that stand out, then those with the most turns in occurrences that loop.
func (m *miner) loopPaths(all []path, steps [][]bool) []loopPath {
	var out []loopPath
	sequences := make([][]uint32, 0, len(all))
	for i, each := range steps {
		if slices.Contains(each, true) {
			stats := all[i] // its counts become those of the windows with these loops
			out = append(out, loopPath{stats: &stats, each: each})
			sequences = append(sequences, all[i].tokens)
		}
	}
	windows, looping := make([]int, len(out)), make([]int, len(out))
	findEach(m.loops, sequences, func(i int, w window) {
		p := &out[i]
		if !m.loops.allows(w, p.each) {
			return
		}
		windows[i]++
		if _, n := m.loops.unfolded(w, p.stats.level); n > p.stats.level {
			p.saves += m.loops.turnsSaved(w, p.stats.level)
			looping[i]++
		}
	})
	for i := range out {
		out[i].share = float64(looping[i]) / float64(max(1, windows[i]))
	}
	out = slices.DeleteFunc(out, func(p loopPath) bool { return p.saves == 0 })
	first := func(p *loopPath) int { return rankBool(m.many() && p.stats.stands() && !p.stats.partOfMore()) }
	slices.SortFunc(out, func(a, b loopPath) int {
		return cmp.Or(cmp.Compare(first(&a), first(&b)), cmp.Compare(rankBool(a.stats.closed && a.stats.stands()), rankBool(b.stats.closed && b.stats.stands())),
			cmp.Compare(b.saves, a.saves), slices.Compare(a.stats.tokens, b.stats.tokens))
	})
	return out[:min(len(out), maxLoopPaths)]
}

// steps says of the steps of each path whether they run once per element: those that loop in enough sessions.
func (s *loopSearch) steps(enough func(p *path, sessions int) bool) [][]bool {
	out := make([][]bool, len(s.all))
	for i := range s.all {
		out[i] = make([]bool, s.all[i].level)
		for k, sessions := range s.looping[i] {
			out[i][k] = enough(&s.all[i], sessions)
		}
	}
	return out
}

// loopingSessions counts the sessions in which each step of each path loops.
func (m *miner) loopingSessions(all []path) [][]int {
	log := m.loops
	sequences, out, last := make([][]uint32, len(all)), make([][]int, len(all)), make([][]uint32, len(all))
	for i := range all {
		sequences[i], out[i], last[i] = all[i].tokens, make([]int, all[i].level), make([]uint32, all[i].level)
	}
	findEach(log, sequences, func(i int, w window) {
		session := log.session(w.stretch) + 1
		for k := range last[i] {
			if log.size(w.at+uint32(k)) > 1 && last[i][k] != session {
				last[i][k] = session
				out[i][k]++
			}
		}
	})
	return out
}

// loopCensuses are the censuses of the windows that the paths allow; the paths' counts become theirs.
func (m *miner) loopCensuses(paths []loopPath) []census {
	sequences := make([][]uint32, len(paths))
	for i := range paths {
		sequences[i] = paths[i].stats.tokens
	}
	allowed := func(i int, w window) bool { return m.loops.allows(w, paths[i].each) }
	out := takeCensusOf(m.loops, sequences, allowed, m.options.MaxSamples, m.options.PerSession)
	for i := range out {
		p := paths[i].stats
		p.occ, p.sessions = out[i].occ, out[i].sessions
		p.scale(m.scale)
	}
	return out
}
