package observer

import (
	"math"
	"slices"
)

// Of many sessions all are counted, and the rest of a pass looks at a sample of them: a search that takes frequent paths
// from all and decides about them in a sample errs by no more than the sample does, and what is reported is counted in all
// again (compare Toivonen 1996, who counts the candidates of a sample in all).

// leastSampled is in how many sessions of a sample the rarest path may be expected.
const leastSampled = 50

// sampleSessions is how many sessions are looked at.
func (m *miner) sampleSessions() int {
	read := len(m.whole.sessions)
	n := max(m.options.SampleSessions, int(math.Ceil(leastSampled/float64(m.minSessions)*float64(read))))
	if m.options.SampleSessions < 0 || 4*n > 3*read { // a sample of nearly all saves nothing
		return read
	}
	return n
}

// minHere is the number of sessions that a path needs in the sample.
func (m *miner) minHere() int { return int(math.Ceil(float64(m.minSessions) / m.scale)) }

// scale makes figures of a sample those of all sessions.
func (p *path) scale(by float64) {
	if by == 1 {
		return
	}
	for _, n := range []*int{&p.occ, &p.sessions, &p.before, &p.after} {
		*n = int(math.Round(by * float64(*n)))
	}
	p.expected, p.excess, p.score, p.z = by*p.expected, by*p.excess, by*p.score, math.Sqrt(by)*p.z
}

// sampled is the log of n sessions or some more: whole bunches, those that samples are drawn from first.
func (log *calls) sampled(n int) *calls {
	order := slices.Sorted(slices.Values(log.order))
	last := order[n-1] | (1<<32 - 1) // the end of its bunch
	number := make([]uint32, len(log.sessions))
	out := &calls{tools: log.tools, nameless: log.nameless, sessions: make([]string, 0, n+n/8), order: make([]uint64, 0, n+n/8)}
	for s, at := range log.order {
		if at <= last {
			number[s] = uint32(len(out.sessions)) + 1
			out.sessions, out.order = append(out.sessions, log.sessions[s]), append(out.order, at)
		}
	}
	room := int(1.1 * float64(len(log.tok)) * float64(len(out.sessions)) / float64(len(log.sessions)))
	out.tok, out.pos, out.failed, out.joined = make([]uint32, 0, room), make([]uint32, 0, room), make([]bool, 0, room), make([]bool, 0, room)
	seq := -1 // of the log, the last one of out.seqs
	for s := range log.stretches() {
		session := number[log.session(uint32(s))]
		if session == 0 {
			continue
		}
		if at := int(log.origin[s]); at != seq {
			seq = at
			info := log.seqs[at]
			info.session = session - 1
			out.seqs = append(out.seqs, info)
		}
		from, to := log.starts[s], log.starts[s+1]
		out.starts, out.origin = append(out.starts, uint32(len(out.tok))), append(out.origin, uint32(len(out.seqs)-1))
		out.tok, out.pos = append(out.tok, log.tok[from:to]...), append(out.pos, log.pos[from:to]...)
		out.failed, out.joined = append(out.failed, log.failed[from:to]...), append(out.joined, log.joined[from:to]...)
	}
	out.starts = append(out.starts, uint32(len(out.tok)))
	return out
}

// recount gives chosen flows the figures of all sessions, where a sample was looked at. What a flow would have saved is
// estimated from the sample, by the ratio of its occurrences in all sessions to those in it.
func (m *miner) recount(chosen []proof) {
	if m.log == m.whole {
		for i := range chosen {
			chosen[i].counted = chosen[i].log
		}
		return
	}
	var plain, looping, gapped []*proof
	looked := make([]int, len(chosen))
	for i := range chosen {
		p := &chosen[i]
		looked[i] = p.census.occ
		switch {
		case p.gaps != nil:
			gapped = append(gapped, p)
		case p.log == m.loops:
			looping = append(looping, p)
		default:
			plain = append(plain, p)
		}
	}
	if len(plain) > 0 {
		m.recountPaths(m.whole, plain)
	}
	if len(looping) > 0 {
		m.recountPaths(foldLoops(m.whole, 1), looping)
	}
	m.recountGapped(gapped)
	for i := range chosen {
		p := &chosen[i]
		p.score *= float64(p.census.occ) / (m.scale * float64(looked[i]))
	}
}

// recountPaths counts the paths of flows in a log of all sessions, both ways of those with an optional step.
func (m *miner) recountPaths(log *calls, flows []*proof) {
	var sequences [][]uint32
	var of []*proof
	for _, p := range flows {
		sequences, of = append(sequences, p.stats.tokens), append(of, p)
		if p.optional != nil {
			sequences, of = append(sequences, p.optional.short.tokens), append(of, p)
		}
	}
	censuses := takeCensusOf(log, sequences, func(i int, w window) bool { return log.allows(w, of[i].each) }, 0, 0)
	for i := range censuses {
		p, c := of[i], &censuses[i]
		if p.counted != nil { // the other way
			p.census.join(c)
			p.stats.occ = p.census.occ
			p.stats.sessions = log.sessionsWith([][]uint32{p.stats.tokens, p.optional.short.tokens})
			continue
		}
		p.recounted(log, c)
	}
}

// recounted takes over the figures of a census of all sessions.
func (p *proof) recounted(log *calls, c *census) {
	stats := *p.stats
	stats.occ, stats.sessions = c.occ, c.sessions
	if stats.expected > 0 {
		stats.excess = float64(stats.occ) - stats.expected
		stats.z = stats.excess / math.Sqrt(max(stats.expected, 1e-9))
	}
	c.good = p.census.good
	p.stats, p.census, p.counted = &stats, c, log
}

// join adds the occurrences of another sequence in the same log.
func (c *census) join(d *census) {
	c.occ, c.failures = c.occ+d.occ, c.failures+d.failures
	for agent := range d.seen {
		c.seen[agent] = struct{}{}
	}
	c.agents = len(c.seen)
}

// recountGapped finds the occurrences of flows with other calls between their steps in all sessions.
func (m *miner) recountGapped(flows []*proof) {
	paths := make([]*gapPath, len(flows))
	for i, p := range flows {
		paths[i] = &gapPath{tokens: p.gaps.tokens}
	}
	m.gatherGapSpans(m.whole, paths)
	for i, p := range flows {
		p.gaps = paths[i]
		p.recounted(paths[i].log, &takeCensus(paths[i].log, [][]uint32{paths[i].tokens}, 0, 0)[0])
	}
}
