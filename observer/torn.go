package observer

import (
	"math"
	"slices"
)

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
			w.parts[tokenKey(part)] = len(places[at])
			at++
		}
		var lost []int
		for range losses(w.tokens) {
			lost = append(lost, len(places[at]))
			at++
		}
		slices.Sort(lost)
		w.lost = float64(lost[(len(lost)-1)/2]) / math.Max(1, float64(w.parts[tokenKey(w.tokens)]))
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
