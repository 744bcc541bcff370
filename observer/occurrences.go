package observer

import "math/bits"

// window is one occurrence in the normalised log: the calls [at, at+n) of a stretch.
type window struct {
	stretch, at uint32
}

// census is what one pass over the log finds out about a sequence beyond its counts.
type census struct {
	occ, sessions int // occurrences without overlaps, and distinct sessions with one
	failures      int // of these occurrences, those with a failed call
	agents        int
	good          sampler // occurrences without a failure, at most perSession of each session

	freeFrom, last uint32 // scan state: first position after the last occurrence; session + 1 seen last
	inSession      int
	agent          uint32 // seen last
	seen           map[uint32]struct{}
}

// takeCensus scans the log once for all the sequences.
func takeCensus(log *calls, sequences [][]uint32, samples, perSession int) []census {
	return takeCensusOf(log, sequences, func(int, window) bool { return true }, samples, perSession)
}

// takeCensusOf is takeCensus of the windows that are allowed.
func takeCensusOf(log *calls, sequences [][]uint32, allowed func(sequence int, w window) bool, samples, perSession int) []census {
	out := make([]census, len(sequences))
	for i := range out {
		out[i] = census{good: sampler{want: samples}, seen: map[uint32]struct{}{}}
	}
	tree := newPrefixTree(len(log.tools), sequences)
	for s := range log.stretches() {
		tree.walk(log, uint32(s), func(k int, from, to uint32) {
			if from >= out[k].freeFrom && allowed(k, window{stretch: uint32(s), at: from}) {
				out[k].visit(log, uint32(s), from, to, perSession)
			}
		})
	}
	for i := range out {
		out[i].agents = len(out[i].seen)
	}
	return out
}

// findAll finds the windows of the sequences as findEach does.
func findAll(log *calls, sequences [][]uint32) [][]window {
	out := make([][]window, len(sequences))
	findEach(log, sequences, func(k int, w window) { out[k] = append(out[k], w) })
	return out
}

// findEach calls fn with the windows of the sequences without a failure, overlapping ones, too, at most maxSpans a
// stretch.
func findEach(log *calls, sequences [][]uint32, fn func(sequence int, w window)) {
	type tally struct{ stretch, windows uint32 } // stretch + 1, and how many windows it had so far
	here := make([]tally, len(sequences))
	tree := newPrefixTree(len(log.tools), sequences)
	for s := range log.stretches() {
		tree.walk(log, uint32(s), func(k int, from, to uint32) {
			if here[k].stretch != uint32(s)+1 {
				here[k] = tally{stretch: uint32(s) + 1}
			}
			if here[k].windows < maxSpans && !log.failed[to-1] {
				here[k].windows++
				fn(k, window{stretch: uint32(s), at: from})
			}
		})
	}
}

// visit counts the window [from, to), which does not overlap the last one.
func (c *census) visit(log *calls, stretch, from, to uint32, perSession int) {
	c.freeFrom = to
	c.occ++
	session := log.session(stretch)
	if s := session + 1; s != c.last {
		c.last, c.inSession = s, 0
		c.sessions++
	}
	if agent := log.seqs[log.origin[stretch]].agent; len(c.seen) == 0 || agent != c.agent { // most are of the one before
		c.agent = agent
		c.seen[agent] = struct{}{}
	}
	if log.failed[to-1] { // a stretch ends after a failure, so only the last call can be one
		c.failures++
		return
	}
	if c.inSession++; c.inSession <= perSession {
		c.good.add(window{stretch: stretch, at: from}, log.order[session])
	}
}

// prefixTree finds all of several sequences in one walk.
type prefixTree struct {
	roots    []uint32   // by token; 0 = none
	children []treeSlot // open addressing with linear probing
	shift    uint
	ends     [][]int // node -> sequences that end there
}

// treeSlot leads from a node (upper half of the key) by a token (lower half) to a child, 0 for an empty slot.
type treeSlot struct {
	key   uint64
	child uint32
}

func newPrefixTree(tools int, sequences [][]uint32) *prefixTree {
	nodes := 1
	for _, seq := range sequences {
		nodes += len(seq)
	}
	size := bits.Len(uint(2 * nodes))
	t := &prefixTree{roots: make([]uint32, tools), children: make([]treeSlot, 1<<size), shift: uint(64 - size), ends: [][]int{nil}}
	for k, seq := range sequences {
		node := t.roots[seq[0]]
		if node == 0 {
			node = t.grow()
			t.roots[seq[0]] = node
		}
		for _, tok := range seq[1:] {
			slot := t.slot(node, tok)
			if slot.child == 0 {
				*slot = treeSlot{key: uint64(node)<<32 | uint64(tok), child: t.grow()}
			}
			node = slot.child
		}
		t.ends[node] = append(t.ends[node], k)
	}
	return t
}

// slot is that of a child, or the empty one where it would be.
func (t *prefixTree) slot(node, tok uint32) *treeSlot {
	key := uint64(node)<<32 | uint64(tok)
	mask := uint64(len(t.children) - 1)
	for i := key * 0x9E3779B97F4A7C15 >> t.shift; ; i++ { // Fibonacci hashing
		if s := &t.children[i&mask]; s.child == 0 || s.key == key {
			return s
		}
	}
}

// walk calls fn with every window [from, to) of a sequence in a stretch.
func (t *prefixTree) walk(log *calls, stretch uint32, fn func(sequence int, from, to uint32)) {
	from, to := log.starts[stretch], log.starts[stretch+1]
	for i := from; i < to; i++ {
		node := t.roots[log.tok[i]]
		for j := i + 1; node != 0; j++ {
			for _, k := range t.ends[node] {
				fn(k, i, j)
			}
			if j == to {
				break
			}
			node = t.slot(node, log.tok[j]).child
		}
	}
}

func (t *prefixTree) grow() uint32 {
	t.ends = append(t.ends, nil)
	return uint32(len(t.ends) - 1)
}

// occurrence names the calls of a window in its session.
func (log *calls) occurrence(w window, n int) Occurrence {
	if log.base != nil {
		b, m := log.unfolded(w, n)
		o := log.base.occurrence(b, m)
		for i := int(w.at); i < int(w.at)+n; i++ {
			o.Sizes = append(o.Sizes, int(log.head[i+1]-log.head[i]))
		}
		return o
	}
	seq := log.seqs[log.origin[w.stretch]]
	o := Occurrence{SessionID: log.sessions[seq.session], RunIndex: seq.run, Calls: make([]int, n)}
	for i := range n {
		o.Calls[i] = int(log.pos[int(w.at)+i])
	}
	return o
}

// without names the calls of a window that lacks one of n steps.
func (log *calls) without(w window, n, step int) Occurrence {
	o := log.occurrence(w, n-1)
	for k := range n {
		size := 1
		if k == step {
			size = 0
		}
		o.Sizes = append(o.Sizes, size)
	}
	return o
}

// unfolded is a window and its length in the log without folding.
func (log *calls) unfolded(w window, n int) (window, int) {
	if log.base == nil {
		return w, n
	}
	from := log.head[w.at]
	return window{stretch: w.stretch, at: from}, int(log.head[int(w.at)+n] - from)
}

// turnsSaved is the number of assistant turns of a window less one.
func (log *calls) turnsSaved(w window, n int) int {
	if log.base != nil {
		w, n = log.unfolded(w, n)
		log = log.base
	}
	turns := 0
	for i := int(w.at) + 1; i < int(w.at)+n; i++ {
		if !log.joined[i] {
			turns++
		}
	}
	return turns
}
