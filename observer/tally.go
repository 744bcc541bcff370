package observer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"pave/ingest/store"
)

// TallySource is a Source that keeps counts day by day, for one tenant. An event store fulfils it.
type TallySource interface {
	Source
	Days(ctx context.Context) ([]store.Day, error)
	Tally(ctx context.Context) (store.Tally, error)
	PutTally(ctx context.Context, t store.Tally) error
}

// maxTracked bounds the sequences that are counted day by day: of more, the longest are left to full passes, but for
// those of patterns.
const maxTracked = 50_000

// tallySet says what is counted of each day: the tools, sequences of them, and paths with folded loops. Prefixes of a
// sequence are in it, too.
type tallySet struct {
	Calls int      `json:"calls"` // that the full pass read
	Skip  []string `json:"skip,omitempty"`
	// Since is that of Options, which decides what is read of a day.
	Since map[string]time.Time `json:"since,omitempty"`
	Tools []string             `json:"tools"` // sorted; the numbers below are indexes
	Paths [][]uint32           `json:"paths"`
	Loops []loopSet            `json:"loops,omitempty"`
	// Walked are the paths, by their indexes, whose agents are told apart beside those of Loops: those of patterns.
	Walked []int `json:"walked,omitempty"`
	// Folded are sequences that are counted where loops are folded: see foldedPaths.
	Folded [][]uint32 `json:"folded,omitempty"`
}

type loopSet struct {
	Tools []uint32 `json:"tools"`
	Each  []bool   `json:"each"`
}

// tallySet chooses what is counted from now on: what was frequent, and what the patterns have.
func (m *miner) tallySet(chosen []proof, skip []string) *tallySet {
	set := &tallySet{Calls: m.whole.read, Skip: skip, Since: m.options.Since, Tools: m.whole.tools}
	have := map[string]int{}
	add := func(tokens []uint32) int {
		key := tokenKey(tokens)
		at, known := have[key]
		if !known {
			at = len(set.Paths)
			have[key] = at
			set.Paths = append(set.Paths, tokens)
		}
		return at
	}
	for n := 1; n < len(m.table.levels); n++ {
		for id := 1; id < len(m.table.levels[n]) && len(set.Paths) < maxTracked; id++ {
			add(m.table.tokens(n, uint32(id)))
		}
	}
	for i := range chosen {
		p := &chosen[i]
		if p.gaps != nil {
			continue
		}
		if p.log != m.log {
			set.Loops = append(set.Loops, loopSet{Tools: p.stats.tokens, Each: p.each})
			continue
		}
		at := 0
		for n := range p.stats.tokens {
			at = add(p.stats.tokens[:n+1])
		}
		if !slices.Contains(set.Walked, at) {
			set.Walked = append(set.Walked, at)
		}
	}
	set.Folded = foldedPaths(set.Loops)
	return set
}

// check makes sure that a set that was read can be used.
func (s *tallySet) check() error {
	sequences := slices.Concat(s.Paths, s.Folded)
	for _, l := range s.Loops {
		if len(l.Each) != len(l.Tools) {
			return errDamagedTally
		}
		sequences = append(sequences, l.Tools)
	}
	for _, tokens := range sequences {
		if len(tokens) == 0 || slices.ContainsFunc(tokens, func(t uint32) bool { return int(t) >= len(s.Tools) }) {
			return errDamagedTally
		}
	}
	if slices.ContainsFunc(s.Walked, func(i int) bool { return i < 0 || i >= len(s.Paths) }) {
		return errDamagedTally
	}
	return nil
}

var errDamagedTally = errors.New("the counts kept of mining are damaged; a full pass makes them anew")

// Totals of a day.
const (
	totalSessions = iota
	totalCalls
	totalStretches
	totalRepeats
	totalRetries
	totalFlowCalls
	totalSkipped
	totalTurns
	totalFollowers
	totalFoldedFollowers
	totals
)

// dayCounts are counts of one day, or of several together.
type dayCounts struct {
	totals [totals]uint64
	tools  [][3]uint64 // calls, of these with a call after them, and with one before them, in the stretch
	paths  [][4]uint64 // occurrences, distinct sessions, windows, occurrences with a failure
	loops  [][3]uint64 // occurrences, distinct sessions, occurrences with a failure
	agents walkers     // of the walked paths, then of the loops

	foldedTools [][3]uint64 // as tools, in the log with folded loops
	folded      [][2]uint64 // of the folded paths: occurrences and windows there
}

func (s *tallySet) zero() *dayCounts {
	return &dayCounts{tools: make([][3]uint64, len(s.Tools)), paths: make([][4]uint64, len(s.Paths)), loops: make([][3]uint64, len(s.Loops)),
		agents: make(walkers, len(s.Walked)+len(s.Loops)), foldedTools: make([][3]uint64, len(s.Tools)), folded: make([][2]uint64, len(s.Folded))}
}

func (c *dayCounts) add(d *dayCounts) {
	for i, n := range d.totals {
		c.totals[i] += n
	}
	addEach(c.tools, d.tools)
	addEach(c.paths, d.paths)
	addEach(c.loops, d.loops)
	c.agents.join(d.agents)
	addEach(c.foldedTools, d.foldedTools)
	addEach(c.folded, d.folded)
}

// addEach adds rows of counts.
func addEach[Row [2]uint64 | [3]uint64 | [4]uint64](to, from []Row) {
	for i := range from {
		for k := range len(from[i]) {
			to[i][k] += from[i][k]
		}
	}
}

// dayCounter counts days by one set.
type dayCounter struct {
	set         *tallySet
	token       map[string]uint32
	paths, loop *prefixTree
	folded      *prefixTree
	walked      []int // of each path: its index in set.Walked + 1, 0 for none
}

func newDayCounter(set *tallySet) *dayCounter {
	c := &dayCounter{set: set, token: make(map[string]uint32, len(set.Tools))}
	for i, name := range set.Tools {
		c.token[name] = uint32(i)
	}
	loops := make([][]uint32, len(set.Loops))
	for i := range loops {
		loops[i] = set.Loops[i].Tools
	}
	c.walked = make([]int, len(set.Paths))
	for i, at := range set.Walked {
		c.walked[at] = i + 1
	}
	// Tools that the set does not know share one token more.
	c.paths, c.loop = newPrefixTree(len(set.Tools)+1, set.Paths), newPrefixTree(len(set.Tools)+1, loops)
	c.folded = newPrefixTree(len(set.Tools)+1, set.Folded)
	return c
}

// count counts a day's log, whose tokens become those of the set.
func (c *dayCounter) count(log *calls) *dayCounts {
	to := make([]uint32, len(log.tools))
	for i, name := range log.tools {
		t, ok := c.token[name]
		if !ok {
			t = uint32(len(c.set.Tools))
		}
		to[i] = t
	}
	for i, t := range log.tok {
		log.tok[i] = to[t]
	}
	log.tools = append(slices.Clone(c.set.Tools), "")
	d := c.set.zero()
	d.totals = [totals]uint64{uint64(len(log.sessions)), uint64(log.read), uint64(log.stretches()), uint64(log.repeats), uint64(log.retries),
		uint64(log.flowCalls), uint64(log.skipped), uint64(log.turns), tallyTools(log, d.tools)}
	c.countPaths(log, d)
	c.countLoops(log, d)
	return d
}

func (c *dayCounter) countPaths(log *calls, d *dayCounts) {
	free, last := make([]uint32, len(d.paths)), make([]uint32, len(d.paths))
	agents := make([]walkerCount, len(c.set.Walked))
	for s := range log.stretches() {
		session, agent := log.session(uint32(s))+1, log.seqs[log.origin[s]].agent
		c.paths.walk(log, uint32(s), func(k int, from, to uint32) {
			n := &d.paths[k]
			n[2]++
			if from >= free[k] {
				free[k] = to
				n[0]++
				if log.failed[to-1] {
					n[3]++
				}
				if at := c.walked[k]; at > 0 {
					agents[at-1].add(agent)
				}
			}
			if last[k] != session {
				last[k] = session
				n[1]++
			}
		})
	}
	for i := range agents {
		d.agents[i] = agents[i].hashes(log)
	}
}

func (c *dayCounter) countLoops(log *calls, d *dayCounts) {
	if len(d.loops) == 0 {
		return
	}
	folded := foldLoops(log, 1)
	if folded == nil { // nothing loops here
		folded = log
	}
	c.countFolded(folded, d)
	free, last := make([]uint32, len(d.loops)), make([]uint32, len(d.loops))
	agents := make([]walkerCount, len(d.loops))
	for s := range folded.stretches() {
		session, agent := folded.session(uint32(s))+1, folded.seqs[folded.origin[s]].agent
		c.loop.walk(folded, uint32(s), func(k int, from, to uint32) {
			n := &d.loops[k]
			if from < free[k] || !folded.allows(window{stretch: uint32(s), at: from}, c.set.Loops[k].Each) {
				return
			}
			free[k] = to
			n[0]++
			if folded.failed[to-1] {
				n[2]++
			}
			agents[k].add(agent)
			if last[k] != session {
				last[k] = session
				n[1]++
			}
		})
	}
	for k := range agents {
		d.agents[len(c.set.Walked)+k] = agents[k].hashes(log)
	}
}

// tallyForm is the first byte of encoded counts.
const tallyForm = 2

// encode writes the counts, rows of zeros left out.
func (c *dayCounts) encode() []byte {
	b := []byte{tallyForm}
	for _, n := range c.totals {
		b = binary.AppendUvarint(b, n)
	}
	last := -1
	row := func(i int, values []uint64) {
		if !slices.ContainsFunc(values, func(n uint64) bool { return n > 0 }) {
			return
		}
		b = binary.AppendUvarint(b, uint64(i-last))
		last = i
		for _, n := range values {
			b = binary.AppendUvarint(b, n)
		}
	}
	end := func() { b, last = append(b, 0), -1 }
	for i := range c.tools {
		row(i, c.tools[i][:])
	}
	end()
	for i := range c.paths {
		row(i, c.paths[i][:])
	}
	end()
	for i := range c.loops {
		row(i, c.loops[i][:])
	}
	end()
	for i := range c.foldedTools {
		row(i, c.foldedTools[i][:])
	}
	end()
	for i := range c.folded {
		row(i, c.folded[i][:])
	}
	end()
	return c.agents.encode(b)
}

// decode reads counts of the set.
func (s *tallySet) decode(b []byte) (*dayCounts, error) {
	if len(b) == 0 || b[0] != tallyForm {
		return nil, errDamagedTally
	}
	r := tallyReader{b: b[1:]}
	d := s.zero()
	for i := range d.totals {
		d.totals[i] = r.next()
	}
	r.rows(len(d.tools), func(i int) []uint64 { return d.tools[i][:] })
	r.rows(len(d.paths), func(i int) []uint64 { return d.paths[i][:] })
	r.rows(len(d.loops), func(i int) []uint64 { return d.loops[i][:] })
	r.rows(len(d.foldedTools), func(i int) []uint64 { return d.foldedTools[i][:] })
	r.rows(len(d.folded), func(i int) []uint64 { return d.folded[i][:] })
	r.walkers(d.agents)
	if r.bad || len(r.b) > 0 {
		return nil, errDamagedTally
	}
	return d, nil
}

type tallyReader struct {
	b   []byte
	bad bool
}

func (r *tallyReader) next() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > math.MaxInt64 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

// rows reads rows with numbers below n, those of zeros left out.
func (r *tallyReader) rows(n int, row func(i int) []uint64) {
	r.steps(n, func(at int) {
		values := row(at)
		for k := range values {
			values[k] = r.next()
		}
	})
}

// steps reads rising numbers below n by their distances, up to a zero.
func (r *tallyReader) steps(n int, each func(at int)) {
	at := -1
	for !r.bad {
		step := r.next()
		if step == 0 {
			return
		}
		if step > uint64(n-1-at) {
			r.bad = true
			return
		}
		at += int(step)
		each(at)
	}
}

func (s *tallySet) encode() ([]byte, error) { return json.Marshal(s) }

func decodeSet(b []byte) (*tallySet, error) {
	s := new(tallySet)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%w: %v", errDamagedTally, err)
	}
	return s, s.check()
}
