package observer

import "math/bits"

// gram is one frequent sequence of n tokens. Its first n-1 and last n-1 tokens are grams of the level before, so
// the grams of all levels form the lattice that closedness and cuts walk.
type gram struct {
	prefix, suffix uint32 // ids on the level before; unused on level 1
	last           uint32 // last token
	occ            uint32 // non-overlapping occurrences, leftmost greedy per stretch
	sessions       uint32 // distinct sessions
	windows        uint32 // occurrences with overlaps
}

// gramTable holds levels[n], the frequent sequences of length n; id 0 of each level means none. Ids follow the
// order of first occurrence, so they are the same in every pass over the same log.
type gramTable struct {
	levels [][]gram
}

// count mines all frequent sequences of length 1..maxLen level by level: a sequence is the pair of its two frequent
// parts one shorter, so keys are exact for any number of tools and only places where both parts are frequent
// are visited. Support is in distinct sessions. Memory is that of one level's candidates plus the frequent ones.
func count(log *calls, maxLen int, minSessions uint32) *gramTable {
	table := &gramTable{levels: [][]gram{nil}}
	ids := make([]uint32, len(log.tok)+1) // id of the gram of the level before that starts here, 0 = none
	active := countTools(log, table, ids, minSessions)
	next := newPairIndex()
	for n := 2; n <= maxLen && len(active) > 0; n++ {
		var level []gram
		level, active = countLevel(log, table.levels[n-1], ids, active, uint32(n), minSessions, next)
		if len(level) <= 1 {
			break
		}
		table.levels = append(table.levels, level)
	}
	return table
}

// countTools makes level 1 and returns the positions at which a frequent tool is followed by another call of its
// stretch.
func countTools(log *calls, table *gramTable, ids []uint32, minSessions uint32) []uint32 {
	type tally struct{ occ, sessions, last uint32 }
	tallies := make([]tally, len(log.tools))
	for s := range log.stretches() {
		session := log.session(uint32(s)) + 1
		for _, t := range log.tok[log.starts[s]:log.starts[s+1]] {
			y := &tallies[t]
			y.occ++
			if y.last != session {
				y.last = session
				y.sessions++
			}
		}
	}
	level := []gram{{}}
	id := make([]uint32, len(log.tools))
	for t, y := range tallies {
		if y.sessions >= minSessions {
			id[t] = uint32(len(level))
			level = append(level, gram{last: uint32(t), occ: y.occ, sessions: y.sessions, windows: y.occ})
		}
	}
	table.levels = append(table.levels, level)
	active := make([]uint32, 0, len(log.tok))
	for s := range log.stretches() {
		from, to := log.starts[s], log.starts[s+1]
		for i := from; i < to; i++ {
			if ids[i] = id[log.tok[i]]; ids[i] != 0 && i+1 < to {
				active = append(active, i)
			}
		}
	}
	return active
}

// pairTally counts one candidate of a level.
type pairTally struct {
	key                    uint64
	occ, windows, sessions uint32
	lastSession, freeFrom  uint32 // freeFrom: first position that does not overlap the last counted occurrence
}

// countLevel counts the pairs (gram at i, gram at i+1) over the active positions, keeps the frequent ones, and
// rewrites ids and active for the next level. active is reused.
func countLevel(log *calls, before []gram, ids, active []uint32, n, minSessions uint32, index *pairIndex) ([]gram, []uint32) {
	index.reset()
	candidate := index.places(len(active)) // index into tallies + 1 of the candidate at active[k], 0 = none
	stretch, end, session := -1, uint32(0), uint32(0)
	for k, i := range active {
		for i >= end {
			stretch++
			end, session = log.starts[stretch+1], 0
		}
		p, q := ids[i], ids[i+1]
		if q == 0 {
			candidate[k] = 0
			continue
		}
		if session == 0 {
			session = log.session(uint32(stretch)) + 1
		}
		c := index.find(uint64(p)<<32 | uint64(q))
		candidate[k] = c + 1
		y := &index.tallies[c]
		y.windows++
		if i >= y.freeFrom {
			y.occ++
			y.freeFrom = i + n
		}
		if y.lastSession != session {
			y.lastSession = session
			y.sessions++
		}
	}
	level := []gram{{}}
	final := make([]uint32, len(index.tallies)+1)
	for c := range index.tallies {
		y := &index.tallies[c]
		p, q := uint32(y.key>>32), uint32(y.key)
		if y.sessions < minSessions && !(n > 2 && goesOn(y, &before[p], &before[q], minSessions)) {
			continue
		}
		final[c+1] = uint32(len(level))
		level = append(level, gram{prefix: p, suffix: q, last: before[q].last, occ: y.occ, sessions: y.sessions, windows: y.windows})
	}
	return level, relabel(ids, active, candidate, final)
}

// leastGoingOn is the least number of sessions of a sequence that is kept because its parts go on in it.
const leastGoingOn = 12

// goesOn reports whether a sequence that is too rare by itself is how both of its parts nearly always go on: noise makes a
// long routine rarer with every step, so its last steps are kept down to a quarter of the support. A share that may be
// as large counts as large: there are few occurrences.
func goesOn(y *pairTally, prefix, suffix *gram, minSessions uint32) bool {
	return y.sessions >= max(leastGoingOn, minSessions/4) &&
		wilsonUpper(int(y.occ), int(prefix.occ)) >= mostGoOn && wilsonUpper(int(y.occ), int(suffix.occ)) >= mostGoOn
}

// relabel writes the ids of the new level and keeps the positions that have one. A position whose gram is gone
// gets 0, also where it was active only as somebody's second part.
func relabel(ids, active, candidate, final []uint32) []uint32 {
	clear(ids)
	kept := active[:0]
	for k, i := range active {
		if id := final[candidate[k]]; id != 0 {
			ids[i] = id
			kept = append(kept, i)
		}
	}
	return kept
}

// sizes is the number of frequent sequences by length.
func (t *gramTable) sizes() []int {
	out := make([]int, len(t.levels))
	for n, level := range t.levels {
		out[n] = max(0, len(level)-1)
	}
	return out
}

// tokens writes the token sequence of gram id on level n.
func (t *gramTable) tokens(n int, id uint32) []uint32 {
	out := make([]uint32, n)
	for ; n > 0; n-- {
		g := &t.levels[n][id]
		out[n-1] = g.last
		id = g.prefix
	}
	return out
}

// prefix returns the id of the first keep tokens of gram id on level n.
func (t *gramTable) prefix(n int, id uint32, keep int) uint32 {
	for ; n > keep; n-- {
		id = t.levels[n][id].prefix
	}
	return id
}

// suffix is prefix from the other end.
func (t *gramTable) suffix(n int, id uint32, keep int) uint32 {
	for ; n > keep; n-- {
		id = t.levels[n][id].suffix
	}
	return id
}

// pairIndex maps pairs of ids to dense tallies: open addressing with linear probing over 16-byte slots, tallies in
// order of first sight, so that frequent pairs lie together.
type pairIndex struct {
	slots   []pairSlot
	shift   uint
	tallies []pairTally
	place   []uint32
}

// places is room for n numbers, used again for each level.
func (x *pairIndex) places(n int) []uint32 {
	if n > cap(x.place) {
		x.place = make([]uint32, n)
	}
	return x.place[:n]
}

type pairSlot struct {
	key   uint64
	tally uint32 // index + 1; 0 = empty
}

const pairIndexBits = 12

func newPairIndex() *pairIndex {
	return &pairIndex{slots: make([]pairSlot, 1<<pairIndexBits), shift: 64 - pairIndexBits}
}

func (x *pairIndex) reset() {
	clear(x.slots)
	x.tallies = x.tallies[:0]
}

// home is the slot where a key's probe starts: Fibonacci hashing of the folded key.
func (x *pairIndex) home(key uint64) uint64 {
	hi, lo := bits.Mul64(key^0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
	return (hi ^ lo) >> x.shift
}

// find returns the tally of key, made when it is new.
func (x *pairIndex) find(key uint64) uint32 {
	mask := uint64(len(x.slots) - 1)
	for i := x.home(key); ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.tally == 0 {
			x.tallies = append(x.tallies, pairTally{key: key})
			*s = pairSlot{key: key, tally: uint32(len(x.tallies))}
			if 2*len(x.tallies) > len(x.slots) {
				x.grow()
			}
			return uint32(len(x.tallies) - 1)
		}
		if s.key == key {
			return s.tally - 1
		}
	}
}

func (x *pairIndex) grow() {
	x.slots = make([]pairSlot, 2*len(x.slots))
	x.shift--
	mask := uint64(len(x.slots) - 1)
	for t := range x.tallies {
		i := x.home(x.tallies[t].key)
		for x.slots[i].tally != 0 {
			i = (i + 1) & mask
		}
		x.slots[i] = pairSlot{key: x.tallies[t].key, tally: uint32(t) + 1}
	}
}
