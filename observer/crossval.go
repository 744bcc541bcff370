package observer

import (
	"hash/fnv"
	"slices"
)

// crossValidated is how often a mapping found in one half of the sessions is right in the other half, both ways, as a
// share of the occurrences: the best copy by votes where copies are asked for, else the most frequent value.
func (d *decision) crossValidated(a argument, copies bool) float64 {
	var halves [2][]present
	for _, p := range a.in {
		h := half(d.records[p.record].session)
		halves[h] = append(halves[h], p)
	}
	if len(halves[0]) == 0 || len(halves[1]) == 0 {
		return 0
	}
	right := 0
	for h := range halves {
		found, other := argument{name: a.name, step: a.step, in: halves[h]}, halves[1-h]
		if copies {
			best, ok := d.mostVoted(found)
			for _, p := range other {
				if ok && slices.Contains(p.arg.sources, best) {
					right++
				}
			}
			continue
		}
		value := mostFrequent(found)
		for _, p := range other {
			if p.arg.hash == value {
				right++
			}
		}
	}
	return float64(right) / float64(len(a.in))
}

// half deals sessions into two halves by their ids.
func half(session string) int { return int(sessionHash(session)>>7) & 1 }

func sessionHash(session string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(session))
	return h.Sum32()
}

// mostVoted is the source that explains most of the occurrences.
func (d *decision) mostVoted(a argument) (source, bool) {
	votes := map[source]int{}
	for _, p := range a.in {
		for _, s := range p.arg.sources {
			votes[s]++
		}
	}
	var best candidate
	for s, held := range votes {
		if c := (candidate{source: s, held: held}); best.held == 0 || d.prefer(a, c, best) < 0 {
			best = c
		}
	}
	return best.source, best.held > 0
}

// mostFrequent is the hash of the value seen most often; of several the one seen first.
func mostFrequent(a argument) uint64 {
	counts := map[uint64]int{}
	for _, p := range a.in {
		counts[p.arg.hash]++
	}
	var top uint64
	held := 0
	for _, p := range a.in {
		if counts[p.arg.hash] > held {
			top, held = p.arg.hash, counts[p.arg.hash]
		}
	}
	return top
}
