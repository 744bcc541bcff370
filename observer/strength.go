package observer

import (
	"math"
	"slices"
)

// path is a frequent sequence of at least two tools with its strength.
type path struct {
	level  int
	id     uint32
	tokens []uint32

	occ, sessions    int
	expected, excess float64
	z, score, p      float64
	before, after    int     // occurrences of what remains without the last step, and without the first
	goesOn           float64 // share of the occurrences that the most frequent extension by one step has
	part             bool    // that is most of them
	closed           bool    // no extension has nearly all
	significant      bool    // the multiple test of its length takes it
}

// null is the model of what follows what without a routine. Its transitions are those of an order-1 Markov model
// with one correction: a tool that has one habitual successor is not chance but the routine that is looked for, so
// a transition of probability P among the continuations is charged min(P, 1-P), yet never less than the base rate
// of the tool. With P <= 1/2 everywhere this is the order-1 expectation N(t1) prod N(ti,ti+1)/N(ti).
type null struct {
	occ       []float64            // calls of the tool
	continues []float64            // calls of the tool that another call of the stretch follows
	follows   []float64            // share of the tool among calls that follow another
	pairs     map[[2]uint32]uint32 // windows of each frequent pair
}

func newNull(log *calls, table *gramTable) *null {
	n := len(log.tools)
	m := &null{occ: make([]float64, n), continues: make([]float64, n), follows: make([]float64, n), pairs: map[[2]uint32]uint32{}}
	followers := 0
	for s := range log.stretches() {
		from, to := log.starts[s], log.starts[s+1]
		for i := from; i < to; i++ {
			m.occ[log.tok[i]]++
			if i+1 < to {
				m.continues[log.tok[i]]++
				m.follows[log.tok[i+1]]++
				followers++
			}
		}
	}
	for t := range m.follows {
		m.follows[t] /= max(1, float64(followers))
	}
	if len(table.levels) > 2 {
		for id := 1; id < len(table.levels[2]); id++ {
			t := table.tokens(2, uint32(id))
			m.pairs[[2]uint32{t[0], t[1]}] = table.levels[2][id].windows
		}
	}
	return m
}

// expected is the number of occurrences of the sequence under the model.
func (m *null) expected(tokens []uint32) float64 {
	e := m.occ[tokens[0]]
	for i := 1; i < len(tokens); i++ {
		a, b := tokens[i-1], tokens[i]
		p := float64(m.pairs[[2]uint32{a, b}]) / m.continues[a]
		e *= m.continues[a] / m.occ[a] * max(m.follows[b], min(p, 1-p))
	}
	return e
}

// measure makes the paths of all frequent sequences, with closedness at delta and significance at false discovery
// rate q within each length. In a log with noise a share that by chance may be that of most occurrences is taken for it.
func measure(table *gramTable, model *null, delta, q float64, noisy bool) []path {
	var all []path
	for n := 2; n < len(table.levels); n++ {
		level := table.levels[n]
		extension := strongestExtension(table, n)
		first := len(all)
		var ps []float64
		for id := 1; id < len(level); id++ {
			g := &level[id]
			p := path{level: n, id: uint32(id), tokens: table.tokens(n, uint32(id)), occ: int(g.occ), sessions: int(g.sessions)}
			p.expected = model.expected(p.tokens)
			p.excess = float64(p.occ) - p.expected
			p.z = p.excess / math.Sqrt(max(p.expected, 1e-9))
			p.score = p.excess * float64(n-1)
			p.p = poissonTail(p.occ, p.expected)
			p.before, p.after = int(table.levels[n-1][g.prefix].occ), int(table.levels[n-1][g.suffix].occ)
			p.goesOn = float64(extension[id]) / float64(g.occ)
			p.part = p.goesOn >= mostGoOn || noisy && wilsonUpper(int(extension[id]), p.occ) >= mostGoOn
			p.closed = p.goesOn < 1-delta
			ps = append(ps, p.p)
			all = append(all, p)
		}
		limit := benjaminiHochberg(ps, q)
		for i := first; i < len(all); i++ {
			all[i].significant = all[i].p <= limit
		}
	}
	return all
}

// partOfMore reports whether most occurrences go on in one way: beside a flow for the longer path this one is a part of
// it that noise tore off.
func (p *path) partOfMore() bool { return p.part }

// mostGoOn is the share from which on most occurrences go on in one way: noise of a tenth a step leaves 0.8.
const mostGoOn = 0.7

// strongestExtension is, for each gram of level n, the most occurrences of a sequence one step longer at either end.
func strongestExtension(table *gramTable, n int) []uint32 {
	best := make([]uint32, len(table.levels[n]))
	if n+1 < len(table.levels) {
		for _, g := range table.levels[n+1][1:] {
			best[g.prefix] = max(best[g.prefix], g.occ)
			best[g.suffix] = max(best[g.suffix], g.occ)
		}
	}
	return best
}

// contains reports whether part lies inside whole without gaps.
func contains(whole, part []uint32) bool {
	for i := 0; i+len(part) <= len(whole); i++ {
		if slices.Equal(whole[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// redundant reports whether one of the two sequences lies inside the other.
func redundant(a, b []uint32) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	return contains(a, b)
}
