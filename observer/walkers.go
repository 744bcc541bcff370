package observer

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// walkers are the distinct agents that walk each of several paths: for each, the 64-bit hashes of their names, rising.
// Sets of several days join to that of all, as numbers of agents do not.
type walkers [][]uint64

// agentHash is the same in every process.
func agentHash(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint64(sum[:])
}

// join adds the agents of other, which is of the same paths.
func (w walkers) join(other walkers) {
	for i, agents := range other {
		fresh := false
		for _, a := range agents {
			if _, known := slices.BinarySearch(w[i], a); !known {
				fresh = true
				break
			}
		}
		if fresh {
			both := append(slices.Clone(w[i]), agents...)
			slices.Sort(both)
			w[i] = slices.Compact(both)
		}
	}
}

// encode appends the distinct agents of all paths, then of each path which of these, by their distances.
func (w walkers) encode(b []byte) []byte {
	all := slices.Concat(w...)
	slices.Sort(all)
	all = slices.Compact(all)
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, a := range all {
		b = binary.BigEndian.AppendUint64(b, a)
	}
	for _, agents := range w {
		last := -1
		for _, a := range agents {
			at, _ := slices.BinarySearch(all, a)
			b = binary.AppendUvarint(b, uint64(at-last))
			last = at
		}
		b = append(b, 0)
	}
	return b
}

// walkers reads what encode wrote into w.
func (r *tallyReader) walkers(w walkers) {
	n := r.next()
	if n > uint64(len(r.b)/8) {
		r.bad = true
		return
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = binary.BigEndian.Uint64(r.b[8*i:])
		if i > 0 && all[i] <= all[i-1] {
			r.bad = true
		}
	}
	r.b = r.b[8*n:]
	for i := range w {
		r.steps(len(all), func(at int) { w[i] = append(w[i], all[at]) })
	}
}

// walkerCount collects the agents of one path in one log.
type walkerCount struct {
	last uint32 // the one before, + 1
	seen map[uint32]struct{}
}

func (c *walkerCount) add(agent uint32) {
	if agent+1 == c.last { // most are of the one before
		return
	}
	c.last = agent + 1
	if c.seen == nil {
		c.seen = map[uint32]struct{}{}
	}
	c.seen[agent] = struct{}{}
}

// hashes are the agents' names hashed.
func (c *walkerCount) hashes(log *calls) []uint64 {
	var out []uint64
	for agent := range c.seen {
		out = append(out, agentHash(log.agents[agent]))
	}
	slices.Sort(out)
	return out
}
