package observer

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
)

// batchPatterns is how many patterns are examined between two looks at what is redundant by now.
const batchPatterns = 160

// How many paths are examined that the null model explains, and that proved ones serve in part only.
const (
	someWeak     = 128
	someUnserved = 64
)

// Mine runs one pass: it reads and normalises the sequences, counts, selects, and infers the data flow of what it
// selected. The result depends on the recorded sessions and the options only, not on the order in which a store
// gives them. It runs in the calling goroutine; errors are those of the source and of ctx.
func Mine(ctx context.Context, src Source, options Options) (*Result, error) {
	o := options.withDefaults()
	raw, names, err := readAll(ctx, src, o)
	if err != nil {
		return nil, err
	}
	skip := toolSet(o.SkipTools)
	settle(len(raw.tools))
	log, leftOut := normalise(raw, names, skip), raw.leftOut
	again := o.SkipNoise && o.MaxEvaluated >= 0
	if !again {
		raw = nil
		settle(log.read)
	}
	m, err := mineLog(ctx, src, o, log, o.SkipTools)
	if err != nil {
		return nil, err
	}
	result := m.result()
	result.LeftOut = leftOut
	if !again {
		return result, nil
	}
	return m.withoutNoise(ctx, src, result, func(noise []string) *calls {
		for _, tool := range noise {
			skip[tool] = true
		}
		return normalise(raw, names, skip)
	})
}

// settle collects what the step before left of a large log: arrays that grew on the way are as large as those in use, and
// the next step would come on top of both.
func settle(calls int) {
	if calls > 1<<20 {
		runtime.GC()
	}
}

// mineLog counts and selects in a normalised log, and infers the data flow of what it selected.
func mineLog(ctx context.Context, src Source, o Options, log *calls, skipped []string) (*miner, error) {
	o = o.withSessions(len(log.sessions))
	minSessions := o.minSessions(len(log.sessions))
	table := count(log, o.MaxLength, minSessions)
	o.Progress(Progress{Stage: "count", Done: log.read, Total: log.read})
	m := newMiner(o, log, table, int(minSessions))
	m.skipped = skipped
	return m, m.run(ctx, src)
}

func toolSet(tools []string) map[string]bool {
	set := make(map[string]bool, len(tools))
	for _, tool := range tools {
		set[tool] = true
	}
	return set
}

// miner is the selection part of a pass.
type miner struct {
	options     Options
	minSessions int
	skipped     []string // tools left out of the log
	whole       *calls   // all that was read, which is counted
	log         *calls   // all, or of many sessions a sample, in which values and ways to go on are looked at
	scale       float64  // sessions read for each of the log
	table       *gramTable
	all         []path // every frequent path, by level and id
	offsets     []int  // level -> index in all of id 1
	ranked      []int  // closed and significant, best first
	infer       *inference
	loops       *calls // neighbouring calls of one tool folded; nil when there are none worth it
	// loopsOpen has the paths with folded loops that are part of more, by their tokens.
	loopsOpen map[string]bool

	tried    map[int]bool
	kept     int       // of the paths that may be examined, those for the most frequent ones of each length
	censuses []*census // by path, nil for what was not asked for
	pieces   []piece
	proved   []proof
	gapped   []proof // with other calls between the steps
	batches  []proof // whose callers give the calls
	blocked  []Blocked
	stops    [][]uint32 // paths that a choice at their last step blocks
}

// piece is a model-free part of a longer path.
type piece struct {
	path    int
	cutFrom []string
	rest    bool // looked at for what better paths leave over
}

// proof is a flow for a path.
type proof struct {
	log     *calls // that of the path: the plain one, or that with folded loops
	stats   *path
	each    []bool // steps that run once per element; nil for none
	cutFrom []string
	// optional is set for a path with a step that agents leave out now and then; shortGood are occurrences without it.
	optional  *optional
	shortGood sampler
	gaps      *gapPath // set for a path with other calls between its steps
	// batch is set where callers give the calls; then known has of each window how many they knew, from the first, and
	// saves what a run saves that makes these.
	batch        *Batch
	known, saves []int
	// confidence of each step to be followed by the next.
	confidence []float64
	counted    *calls // where its figures are from: like log, with all sessions; set for flows that are chosen
	flow       *DataFlow
	partial    bool
	secondary  bool // adds little to the flows before it: why, and what would change that
	why        string
	unblock    string
	turns      float64  // mean turns saved
	windows    []window // examined
	fit        bitset   // of these, where the flow fits
	census     *census
	score      float64
}

func newMiner(o Options, log *calls, table *gramTable, minSessions int) *miner {
	m := &miner{options: o, minSessions: minSessions, whole: log, log: log, scale: 1, table: table, tried: map[int]bool{}}
	if n := m.sampleSessions(); n < len(log.sessions) && o.MaxEvaluated >= 0 {
		m.log = log.sampled(n)
		m.scale = float64(len(log.sessions)) / float64(len(m.log.sessions))
	}
	m.infer = &inference{options: o, log: m.log, seed: maphash.MakeSeed(), kept: newKeptSessions()}
	m.all = measure(table, newNull(log, table), o.Delta, o.FDR, m.many())
	m.offsets = make([]int, len(table.levels)+1)
	for n := 2; n < len(table.levels); n++ {
		m.offsets[n+1] = m.offsets[n] + len(table.levels[n]) - 1
	}
	for i := range m.all {
		if p := &m.all[i]; p.closed && p.significant && p.score > 0 {
			m.ranked = append(m.ranked, i)
		}
	}
	slices.SortFunc(m.ranked, func(a, b int) int { return m.compare(a, b) })
	return m
}

// compare orders paths best first: by score, then by occurrences, then by tools. Of many sessions those that are no part
// of more come first: a part that noise tore off a longer routine occurs more often than the whole of it and would cover it.
func (m *miner) compare(a, b int) int {
	x, y := &m.all[a], &m.all[b]
	if m.many() && x.partOfMore() != y.partOfMore() {
		return cmp.Compare(rankBool(!x.partOfMore()), rankBool(!y.partOfMore()))
	}
	return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(y.occ, x.occ), slices.Compare(x.tokens, y.tokens))
}

// many reports whether so many sessions were read that noise can be told from what agents do on purpose.
func (m *miner) many() bool { return len(m.whole.sessions) > manySessions }

// index finds the path of a gram.
func (m *miner) index(level int, id uint32) int { return m.offsets[level] + int(id) - 1 }

// run examines candidates, best first, in batches: those that stand out, and where they are too many the most frequent
// ones of each length; then frequent ones that do not, whose values may still prove a routine, then what remains unserved. What a choice cuts gives its parts back as candidates.
func (m *miner) run(ctx context.Context, src Source) error {
	if m.options.MaxEvaluated < 0 {
		return nil
	}
	loops, pairs := m.findLoops(), m.optionals()
	if err := m.foresee(ctx, src, loops, pairs); err != nil {
		return fmt.Errorf("read sessions: %w", err)
	}
	if len(m.ranked) > m.options.MaxEvaluated {
		m.kept = m.options.MaxEvaluated / fairShare
	}
	next := func() []piece { return m.nextBatch(batchPatterns) }
	fair := func() []piece { m.kept = 0; return m.fair(batchPatterns) }
	weak := func() []piece { return m.weak(someWeak) }
	unserved := func() []piece { return m.unserved(someUnserved) }
	rest := func() []piece { return m.rest(batchPatterns) }
	for _, stage := range []struct {
		batch func() []piece
		once  bool
	}{{next, false}, {fair, false}, {weak, true}, {next, false}, {unserved, true}, {next, false}, {rest, m.many()}} {
		for {
			batch := stage.batch()
			if len(batch) == 0 {
				break
			}
			if err := m.examine(ctx, src, batch); err != nil {
				return fmt.Errorf("infer data flow: %w", err)
			}
			if stage.once {
				break
			}
		}
	}
	if err := m.runLoops(ctx, src, loops); err != nil {
		return fmt.Errorf("infer data flow of loops: %w", err)
	}
	if err := m.runOptional(ctx, src, pairs); err != nil {
		return err
	}
	if err := m.runGapped(ctx, src); err != nil {
		return err
	}
	return m.runBatches(ctx, src, loops)
}

// weak are the most frequent closed paths that the null model explains.
func (m *miner) weak(limit int) []piece {
	return m.take(limit, func(i int) bool { return !m.stands(i) && !m.covered(i, nil) })
}

// unserved are paths inside a proved one that occur much more often than it: for the rest of their occurrences people
// want to know what is in the way.
func (m *miner) unserved(limit int) []piece {
	return m.take(limit, func(i int) bool {
		p := &m.all[i]
		served := 0
		for _, c := range m.proved {
			if q := c.stats; len(q.tokens) > len(p.tokens) && contains(q.tokens, p.tokens) {
				served = max(served, q.occ)
			}
		}
		return served > 0 && 3*served < 2*p.occ
	})
}

// rest are the other frequent paths: what better ones leave over may be worth a flow.
func (m *miner) rest(limit int) []piece {
	var order []int
	for i := range m.all {
		if !m.tried[i] {
			order = append(order, i)
		}
	}
	batch := m.best(order, limit)
	for n := range batch {
		batch[n].rest = true
	}
	return batch
}

// take picks the closed paths that were not tried and are not blocked at their start, those that would save most
// first, and marks them as tried.
func (m *miner) take(limit int, wanted func(i int) bool) []piece {
	var order []int
	for i := range m.all {
		if m.all[i].closed && !m.tried[i] && m.stopOf(i) < 0 && wanted(i) {
			order = append(order, i)
		}
	}
	return m.best(order, limit)
}

// best takes the paths that would save most and marks them as tried.
func (m *miner) best(order []int, limit int) []piece {
	batch := m.savingMost(order, min(limit, m.room()))
	for _, p := range batch {
		m.tried[p.path] = true
	}
	return batch
}

// savingMost are the paths that would save most, which it sorts.
func (m *miner) savingMost(order []int, limit int) []piece {
	slices.SortFunc(order, m.compareSaving)
	batch := make([]piece, max(0, min(limit, len(order))))
	for n := range batch {
		batch[n] = piece{path: order[n]}
	}
	return batch
}

// compareSaving orders paths by the turns that a flow for all their occurrences would save, most first.
func (m *miner) compareSaving(a, b int) int {
	x, y := &m.all[a], &m.all[b]
	return cmp.Or(cmp.Compare(y.occ*(y.level-1), x.occ*(x.level-1)), slices.Compare(x.tokens, y.tokens))
}

// nextBatch takes the waiting pieces, then the best candidates that nothing proved or picked makes redundant.
func (m *miner) nextBatch(limit int) []piece {
	limit = min(limit, m.room())
	var batch []piece
	for len(m.pieces) > 0 && len(batch) < limit {
		p := m.pieces[0]
		m.pieces = m.pieces[1:]
		if !m.tried[p.path] {
			m.tried[p.path] = true
			batch = append(batch, p)
		}
	}
	for _, i := range m.ranked {
		if len(batch) == limit {
			break
		}
		if m.open(i, batch) {
			m.tried[i] = true
			batch = append(batch, piece{path: i})
		}
	}
	return batch
}

// room is how many more paths may be examined now.
func (m *miner) room() int { return max(0, m.options.MaxEvaluated-len(m.tried)-m.kept) }

// open reports whether a candidate waits to be examined.
func (m *miner) open(i int, batch []piece) bool {
	return !m.tried[i] && !m.covered(i, batch) && m.stopOf(i) < 0
}

// fairShare of the paths that are examined is kept where candidates are more: one in so many.
const fairShare = 4

// fair takes candidates of each length in turn, those that occur most often first: where a log has more long sequences
// than are examined, each of which would save more, a shorter routine that stands out among its like has its turn, too.
func (m *miner) fair(limit int) []piece {
	limit = min(limit, m.room())
	queues := make([][]int, len(m.table.levels))
	for _, i := range m.ranked {
		if !m.tried[i] {
			queues[m.all[i].level] = append(queues[m.all[i].level], i)
		}
	}
	for _, queue := range queues {
		slices.SortStableFunc(queue, func(a, b int) int { return cmp.Compare(m.all[b].occ, m.all[a].occ) })
	}
	var batch []piece
	for more := true; more; {
		more = false
		for level, queue := range queues {
			for len(queue) > 0 && len(batch) < limit && !m.open(queue[0], batch) {
				queue = queue[1:]
			}
			if len(queue) > 0 && len(batch) < limit {
				m.tried[queue[0]] = true
				batch, queue, more = append(batch, piece{path: queue[0]}), queue[1:], true
			}
			queues[level] = queue
		}
	}
	return batch
}

// notExamined counts the candidates that the limit left, parts of flows apart.
func (m *miner) notExamined() int {
	n := 0
	if m.options.MaxEvaluated >= 0 && m.room() == 0 {
		for _, i := range m.ranked {
			if m.open(i, nil) {
				n++
			}
		}
	}
	return n
}

func (m *miner) covered(i int, batch []piece) bool {
	tokens := m.all[i].tokens
	return slices.ContainsFunc(m.proved, func(p proof) bool { return redundant(p.stats.tokens, tokens) }) ||
		slices.ContainsFunc(batch, func(p piece) bool { return redundant(m.all[p.path].tokens, tokens) })
}

// stopOf finds the blocked path that this one starts with, -1 when there is none.
func (m *miner) stopOf(i int) int {
	tokens := m.all[i].tokens
	return slices.IndexFunc(m.stops, func(stop []uint32) bool {
		return len(tokens) >= len(stop) && slices.Equal(tokens[:len(stop)], stop)
	})
}

func (m *miner) names(tokens []uint32) []string {
	out := make([]string, len(tokens))
	for i, t := range tokens {
		out[i] = m.log.tools[t]
	}
	return out
}
