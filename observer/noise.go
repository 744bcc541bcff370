package observer

import (
	"cmp"
	"context"
	"math"
	"slices"

	"pave/ingest"
)

// NoiseTool is a tool that agents call anywhere: what precedes a call of it and what follows it go together as they
// would without it, and no value passes through it.
type NoiseTool struct {
	Tool  string
	Calls int
	// Dependence is I(before; after), in bits, of the calls around one call of the tool; Without is the same of
	// neighbouring calls. Both are corrected for the size of the sample (Miller and Madow 1955).
	Dependence, Without float64
	// Skipped is set where the result is that of a pass without the tool.
	Skipped bool
}

// Limits of the search for noise.
const (
	minNoiseCalls     = 30   // calls of a tool between two others before it is judged
	noiseSessions     = 60   // sessions whose values are read for a tool
	maxNoiseTools     = 8    // tools looked at, those called most
	noiseKeeps        = 0.7  // share of I(before; after) that a call between must leave
	noiseTells        = 0.25 // share of the uncertainty of what follows that the tool itself may take away
	noiseCarries      = 0.02 // share of its calls through which a value may pass
	carriedWithin     = 10   // calls after it that are searched for a value of its result
	noiseExactnessTol = 0.005
)

// withoutNoise looks for tools that are noise, mines the log that without gives for them, and returns the better of
// the two results: more model calls avoided by flows for people to see, and the mappings at least as exact.
func (m *miner) withoutNoise(ctx context.Context, src Source, plain *Result, without func(noise []string) *calls) (*Result, error) {
	found, err := m.findNoise(ctx, src)
	if err != nil || len(found) == 0 {
		return plain, err
	}
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].Tool
	}
	quiet, err := mineLog(ctx, src, m.options, without(names), append(slices.Clone(m.skipped), names...))
	if err != nil {
		return nil, err
	}
	result := quiet.result()
	result.LeftOut = plain.LeftOut
	best := plain
	if worth(result) > worth(plain) && exactness(result) >= exactness(plain)-noiseExactnessTol {
		best = result
		for i := range found {
			found[i].Skipped = true
		}
	}
	best.Noise = found
	return best, nil
}

// worth is the model calls that the flows of a result would have avoided, those left out of a queue and those that make do
// with other calls between their steps apart.
func worth(r *Result) float64 {
	sum := 0.0
	for i := range r.Patterns {
		if !r.Patterns[i].Secondary && r.Patterns[i].Gap == nil && r.Patterns[i].Batch == nil {
			sum += r.Patterns[i].Score
		}
	}
	return sum
}

// exactness is the share of the examined occurrences in which all mappings of a flow held at once.
func exactness(r *Result) float64 {
	held, all := 0, 0
	for i := range r.Patterns {
		if d := r.Patterns[i].DataFlow; d != nil && !r.Patterns[i].Secondary && r.Patterns[i].Gap == nil && r.Patterns[i].Batch == nil {
			held, all = held+d.Explained, all+d.Sampled
		}
	}
	return float64(held) / float64(max(1, all))
}

// findNoise lists the tools that are noise, those called most first.
func (m *miner) findNoise(ctx context.Context, src Source) ([]NoiseTool, error) {
	log := m.log
	counts := m.whole.inner()
	var order []uint32
	for t, n := range counts {
		if n >= minNoiseCalls {
			order = append(order, uint32(t))
		}
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	var out []NoiseTool
	pairs := log.pairs()
	for _, t := range order[:min(len(order), maxNoiseTools)] {
		n := NoiseTool{Tool: log.tools[t], Calls: counts[t]}
		if !log.indifferent(t, pairs, &n) {
			continue
		}
		carried, err := m.carries(ctx, src, t)
		if err != nil {
			return nil, err
		}
		if carried <= noiseCarries {
			out = append(out, n)
		}
	}
	return out, nil
}

// inner counts the calls of each tool between two others.
func (log *calls) inner() []int {
	counts := make([]int, len(log.tools))
	for s := range log.stretches() {
		for i := log.starts[s] + 1; i+1 < log.starts[s+1]; i++ {
			counts[log.tok[i]]++
		}
	}
	return counts
}

// pairs counts the neighbouring calls of stretches.
func (log *calls) pairs() jointCounts {
	pairs := jointCounts{}
	for s := range log.stretches() {
		for i := log.starts[s]; i+1 < log.starts[s+1]; i++ {
			pairs.add(log.tok[i], log.tok[i+1])
		}
	}
	return pairs
}

// indifferent reports whether the sequence looks the same with and without the calls of tool t. pairs are those of the
// log.
func (log *calls) indifferent(t uint32, pairs jointCounts, n *NoiseTool) bool {
	around, direct, follows, after := jointCounts{}, jointCounts{}, map[uint32]int{}, map[uint32]int{}
	for pair, count := range pairs {
		switch {
		case pair[1] == t:
		case pair[0] == t:
			after[pair[1]] += count
		default:
			follows[pair[1]] += count
			direct[pair] = count
		}
	}
	for s := range log.stretches() {
		for i := log.starts[s] + 1; i+1 < log.starts[s+1]; i++ {
			if log.tok[i] == t && log.tok[i-1] != t && log.tok[i+1] != t {
				around.add(log.tok[i-1], log.tok[i+1])
			}
		}
	}
	n.Dependence, n.Without = around.information(), direct.information()
	told := divergence(after, follows)
	return n.Without > 0 && n.Dependence >= noiseKeeps*n.Without && told <= noiseTells*entropyOf(follows)
}

// jointCounts are pairs of tokens with their counts.
type jointCounts map[[2]uint32]int

func (c jointCounts) add(a, b uint32) { c[[2]uint32{a, b}]++ }

// information is the mutual information of the two sides in bits.
func (c jointCounts) information() float64 {
	left, right := map[uint32]int{}, map[uint32]int{}
	for pair, n := range c {
		left[pair[0]] += n
		right[pair[1]] += n
	}
	return max(0, entropyOf(left)+entropyOf(right)-entropyOf(c))
}

// entropyOf is the entropy in bits of a distribution given by counts, with the correction of Miller and Madow.
func entropyOf[K comparable](counts map[K]int) float64 {
	h, total := plainEntropy(counts)
	if total == 0 {
		return 0
	}
	return h + float64(len(counts)-1)/(2*math.Ln2*float64(total))
}

// plainEntropy is the entropy in bits of the counts' shares, and their total.
func plainEntropy[K comparable](counts map[K]int) (h float64, total int) {
	sorted := make([]int, 0, len(counts)) // a sum in the order of a map would differ in its last digits
	for _, n := range counts {
		sorted = append(sorted, n)
		total += n
	}
	slices.Sort(sorted)
	for _, n := range sorted {
		p := float64(n) / float64(total)
		h -= p * math.Log2(p)
	}
	return h, total
}

// divergence is the Jensen-Shannon divergence in bits of two distributions given by counts, weighted by their totals,
// less what two samples of one distribution differ by on average.
func divergence(a, b map[uint32]int) float64 {
	both := map[uint32]int{}
	for _, counts := range []map[uint32]int{a, b} {
		for k, n := range counts {
			both[k] += n
		}
	}
	ha, na := plainEntropy(a)
	hb, nb := plainEntropy(b)
	h, n := plainEntropy(both)
	if na == 0 || nb == 0 {
		return 0
	}
	total := float64(n)
	chance := float64(len(both)-1) / (2 * math.Ln2 * total)
	return max(0, h-float64(na)/total*ha-float64(nb)/total*hb-chance)
}

// carries is the share of the calls of tool t through which a value passes: an argument that equals an earlier value
// of the run, or a value of its result that a later call takes. It reads a sample of the sessions.
func (m *miner) carries(ctx context.Context, src Source, t uint32) (float64, error) {
	ids := m.sessionsWith(t)
	name, calls, carried := m.log.tools[t], 0, 0
	infer := &inference{options: m.options, log: m.log, seed: m.infer.seed, kept: m.infer.kept, paths: newPathTable()}
	err := src.Sessions(ctx, ids, func(s *ingest.Session) error {
		view := infer.view(newKeptSession(s))
		for r := range s.Runs {
			for i := range s.Runs[r].Calls {
				if s.Runs[r].Calls[i].Tool == name {
					calls++
					if view.passes(r, i) {
						carried++
					}
				}
			}
		}
		return ctx.Err()
	})
	return float64(carried) / float64(max(1, calls)), err
}

// sessionsWith is a sample of the sessions with a tool, the same at every pass over the same log.
func (m *miner) sessionsWith(t uint32) []string {
	sample := sampler{want: noiseSessions}
	last := uint32(0)
	for s := range m.log.stretches() {
		session := m.log.session(uint32(s))
		if last != session+1 && slices.Contains(m.log.tok[m.log.starts[s]:m.log.starts[s+1]], t) {
			last = session + 1
			sample.add(window{stretch: uint32(s), at: m.log.starts[s]}, m.log.order[session])
		}
	}
	var ids []string
	for _, w := range sample.take(noiseSessions) {
		ids = append(ids, m.log.sessions[m.log.session(w.stretch)])
	}
	slices.Sort(ids)
	return ids
}

// passes reports whether a value that means something goes into a call from before it, or out of it into a later one.
func (v *sessionView) passes(run, i int) bool {
	c := v.call(run, i)
	for j := max(0, i-carriedWithin); j < i; j++ {
		before := v.call(run, j)
		for k, name := range c.names {
			if arg := c.args[name]; !uninformative(arg) && before.result.holds(arg, c.hashes[k]) {
				return true
			}
		}
	}
	calls := v.calls[run]
	for j := i + 1; j < min(len(calls), i+1+carriedWithin); j++ {
		after := v.call(run, j)
		for k, name := range after.names {
			if arg := after.args[name]; !uninformative(arg) && c.result.holds(arg, after.hashes[k]) {
				return true
			}
		}
	}
	return false
}
