package observer

// foldedPaths are what is counted of the log with folded loops for the strength of the loops: how each goes on, and which of
// its tools follow each other.
func foldedPaths(loops []loopSet) [][]uint32 {
	var out [][]uint32
	have := map[string]bool{}
	add := func(tokens []uint32) {
		if key := tokenKey(tokens); !have[key] {
			have[key] = true
			out = append(out, tokens)
		}
	}
	for _, l := range loops {
		for n := range l.Tools {
			add(l.Tools[:n+1])
			if n > 0 {
				add(l.Tools[n-1 : n+1])
			}
		}
	}
	return out
}

// tallyTools counts the calls of each tool that the rows are for, of these those with a call after them and those with one
// before them in the stretch, and returns how many calls follow another.
func tallyTools(log *calls, rows [][3]uint64) (followers uint64) {
	for s := range log.stretches() {
		from, to := log.starts[s], log.starts[s+1]
		for i := from; i < to; i++ {
			if i > from {
				followers++
			}
			t := int(log.tok[i])
			if t == len(rows) {
				continue
			}
			rows[t][0]++
			if i+1 < to {
				rows[t][1]++
			}
			if i > from {
				rows[t][2]++
			}
		}
	}
	return followers
}

// countFolded counts the folded paths in the log with folded loops.
func (c *dayCounter) countFolded(log *calls, d *dayCounts) {
	d.totals[totalFoldedFollowers] = tallyTools(log, d.foldedTools)
	free := make([]uint32, len(d.folded))
	for s := range log.stretches() {
		c.folded.walk(log, uint32(s), func(k int, from, to uint32) {
			n := &d.folded[k]
			n[1]++
			if from >= free[k] {
				free[k] = to
				n[0]++
			}
		})
	}
}

// lattice is what days counted of sequences of one log: how often they occur, and what chance makes of them.
type lattice struct {
	at    map[string]int // sequence -> its number
	occ   func(i int) uint64
	model *null
}

// occurrences are those of a sequence, 0 where it is not counted.
func (l *lattice) occurrences(tokens []uint32) uint64 {
	if i, ok := l.at[tokenKey(tokens)]; ok {
		return l.occ(i)
	}
	return 0
}

// talliedNull is the model of chance of counts by tool and of windows of the sequences.
func talliedNull(tools [][3]uint64, followers uint64, sequences [][]uint32, windows func(i int) uint64) *null {
	m := &null{occ: make([]float64, len(tools)), continues: make([]float64, len(tools)), follows: make([]float64, len(tools)),
		pairs: map[[2]uint32]uint32{}}
	for t, n := range tools {
		m.occ[t], m.continues[t], m.follows[t] = float64(n[0]), float64(n[1]), float64(n[2])/max(1, float64(followers))
	}
	for i, tokens := range sequences {
		if len(tokens) == 2 {
			m.pairs[[2]uint32{tokens[0], tokens[1]}] = uint32(windows(i))
		}
	}
	return m
}

func numbered(sequences [][]uint32) map[string]int {
	at := make(map[string]int, len(sequences))
	for i, tokens := range sequences {
		at[tokenKey(tokens)] = i
	}
	return at
}
