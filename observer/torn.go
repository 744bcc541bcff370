package observer

import (
	"math"
	"slices"
)

// noise tells, of many sessions, which flows are others with what noise made of them.
type noise struct {
	miner *miner
	torn  map[*calls]*tears // by log
}

// noise looks at the flows proved in a log in which it can be told from what agents do on purpose; nil elsewhere.
func (m *miner) noise() *noise {
	if !m.many() {
		return nil
	}
	n := &noise{miner: m, torn: map[*calls]*tears{m.log: m.tears(m.log)}}
	if m.loops != nil {
		n.torn[m.loops] = m.tears(m.loops)
	}
	return n
}

// explains reports whether a flow is what noise tore off another, or another with a call beside it.
func (n *noise) explains(p *proof) bool {
	if n == nil {
		return false
	}
	if n.torn[p.log].torn(p.stats.tokens, p.stats.occ) || n.miner.loose(p) {
		return true
	}
	loops := n.torn[n.miner.loops]
	return p.log == n.miner.log && loops != nil && loops.torn(folded(p.stats.tokens), p.stats.occ)
}

// loose reports whether the first or the last step only happens to be there: no value passes between it and the others,
// most occurrences of these are without it, and they are part of a flow that stands alone.
func (m *miner) loose(p *proof) bool {
	last := p.stats.level - 1
	if last < 2 {
		return false
	}
	return 2*p.stats.occ < p.stats.after && !p.flow.passes(func(from, _ int) bool { return from == 0 }) && m.stepsStand(p, 1, last+1) ||
		2*p.stats.occ < p.stats.before && !p.flow.passes(func(_, to int) bool { return to == last }) && m.stepsStand(p, 0, last)
}

// stepsStand reports whether these steps of p, but not all of them, are in another flow that stands alone.
func (m *miner) stepsStand(p *proof, from, to int) bool {
	return slices.ContainsFunc(m.proved, func(q proof) bool {
		all, some := p.stats.tokens, p.stats.tokens[from:to]
		if q.log != p.log {
			if q.log != m.loops {
				return false
			}
			all, some = folded(all), folded(some)
		}
		return q.standsAlone() && contains(q.stats.tokens, some) && !contains(q.stats.tokens, all)
	})
}

// folded is a sequence with neighbouring calls of one tool as one.
func folded(tokens []uint32) []uint32 { return slices.Compact(slices.Clone(tokens)) }

// passes reports whether a value passes from one step to another as wanted.
func (f *DataFlow) passes(wanted func(from, to int) bool) bool {
	for k, step := range f.Steps {
		if step.Each != nil && step.Each.Kind == SourceOutput && wanted(step.Each.Step, k) {
			return true
		}
		for _, a := range step.Args {
			switch {
			case (a.Kind == SourceOutput || a.Kind == SourceArg) && wanted(a.Step, k):
				return true
			case a.Kind == SourceDerived && a.Derived.passes(func(from int) bool { return wanted(from, k) }):
				return true
			}
		}
	}
	return false
}

// passes reports whether a value is made of one of a step as wanted.
func (d *Derived) passes(wanted func(from int) bool) bool {
	return d.Form == FormSelect && wanted(d.Step) || slices.ContainsFunc(d.Parts, func(p Part) bool { return p.Place && wanted(p.Step) })
}

// tears finds flows that are another flow with one step lost or one call in between, as noise leaves them. A step that
// agents leave out on purpose is one step; noise loses all steps alike, so a flow counts as torn only where the inner
// steps of the whole are lost about as often, the less frequent half of them, too.
type tears struct {
	wholes []whole
}

// whole is a flow with how often each of its parts is found, and the share that loses one certain inner step.
type whole struct {
	tokens []uint32
	lost   float64
	parts  map[string]int // tokens of at least minTorn steps without gaps -> occurrences
}

// minTorn is the least number of steps of a part that a torn flow is compared with; tornTolerance how much more often
// than the whole is torn on average it may occur.
const (
	minTorn       = 3
	tornTolerance = 2.5
)

// tears looks at the flows that stand by themselves and are no part of more.
func (m *miner) tears(log *calls) *tears {
	t := &tears{}
	var sequences [][]uint32
	seen := map[string]bool{}
	for i := range m.proved {
		p := &m.proved[i]
		key := tokenKey(p.stats.tokens)
		if p.log != log || p.stats.level < minTorn+1 || seen[key] || !p.standsAlone() || p.stats.partOfMore() {
			continue
		}
		seen[key] = true
		t.wholes = append(t.wholes, whole{tokens: p.stats.tokens, parts: map[string]int{}})
		sequences = append(sequences, pieces(p.stats.tokens)...)
		sequences = append(sequences, losses(p.stats.tokens)...)
	}
	if len(sequences) == 0 {
		return t
	}
	places, at := findAll(log, sequences), 0
	for i := range t.wholes {
		w := &t.wholes[i]
		for _, part := range pieces(w.tokens) {
			w.parts[tokenKey(part)] = int(math.Round(m.scale * float64(len(places[at]))))
			at++
		}
		var lost []int
		for range losses(w.tokens) {
			lost = append(lost, len(places[at]))
			at++
		}
		slices.Sort(lost)
		w.lost = m.scale * float64(lost[(len(lost)-1)/2]) / math.Max(1, float64(w.parts[tokenKey(w.tokens)]))
	}
	return t
}

// pieces are the parts of a sequence without gaps, of at least minTorn steps, the whole among them.
func pieces(tokens []uint32) (out [][]uint32) {
	for from := range tokens {
		for to := from + minTorn; to <= len(tokens); to++ {
			out = append(out, tokens[from:to])
		}
	}
	return out
}

// losses are the sequence without each of its inner steps.
func losses(tokens []uint32) (out [][]uint32) {
	for k := 1; k < len(tokens)-1; k++ {
		out = append(out, without(tokens, k))
	}
	return out
}

func without(tokens []uint32, k int) []uint32 {
	return slices.Delete(slices.Clone(tokens), k, k+1)
}

// torn reports whether noise explains the sequence: a part of a whole with one inner step lost, or with one call more.
func (t *tears) torn(tokens []uint32, occ int) bool {
	for i := range t.wholes {
		w := &t.wholes[i]
		if w.lost == 0 {
			continue
		}
		explains := func(part []uint32) bool {
			n := w.parts[tokenKey(part)]
			return n > occ && float64(occ) <= tornTolerance*w.lost*float64(n)
		}
		for _, part := range pieces(w.tokens) {
			if len(part) == len(tokens)+1 && slices.ContainsFunc(losses(part), func(l []uint32) bool { return slices.Equal(l, tokens) }) && explains(part) {
				return true
			}
		}
		if len(tokens) > minTorn && slices.ContainsFunc(losses(tokens), explains) {
			return true
		}
	}
	return false
}
