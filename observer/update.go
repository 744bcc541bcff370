package observer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"pave/ingest/store"
)

// ErrNoTally: no full pass has kept counts by day yet, or what it kept cannot be read; only a full pass can go on.
var ErrNoTally = errors.New("no counts by day are kept")

// Increment says what an incremental pass did.
type Increment struct {
	Days  int // that had changed and were counted anew
	Calls int // read for that
	// NewPaths are sequences that are frequent in one of these days alone and were not at the last full pass: only a full
	// pass can take them in.
	NewPaths int
	// Growth is the number of calls now, as a multiple of those of the last full pass.
	Growth float64
}

// Track keeps the counts of every day, by what a full pass over all days found, so that Update can go on from there. A
// result that is not of such a pass is not tracked.
func (r *Result) Track(ctx context.Context, src TallySource) error {
	if r.tracked == nil {
		return nil
	}
	encoded, err := r.tracked.encode()
	if err != nil {
		return err
	}
	days, err := src.Days(ctx)
	if err != nil {
		return fmt.Errorf("read days: %w", err)
	}
	t := store.Tally{Set: encoded}
	counter := newDayCounter(r.tracked)
	for _, day := range days {
		log, err := readDay(ctx, src, day.Day, r.tracked)
		if err != nil {
			return err
		}
		t.Days = append(t.Days, store.DayTally{Day: day.Day, Version: day.Version, Counts: counter.count(log).encode()})
	}
	return src.PutTally(ctx, t)
}

// readDay reads and normalises the sequences of a day's sessions as the full pass did that chose the set.
func readDay(ctx context.Context, src Source, day int32, set *tallySet) (*calls, error) {
	raw, names, err := readAll(ctx, src, Options{Filter: store.SequenceFilter{OfDay: &day}, MaxCalls: math.MaxInt, Since: set.Since})
	if err != nil {
		return nil, err
	}
	return normalise(raw, names, toolSet(set.Skip)), nil
}

// Update is an incremental pass: it counts the days anew that changed since the counts were kept, and returns the last
// full result with the counts of now. They are exactly those that a full pass would count for the same sequences,
// whatever order sessions came in. Which patterns there are and where their arguments come from stays as it was; scores
// grow with the occurrences. Options are those of the full pass. Errors: ErrNoTally, those of the source, and of ctx.
func Update(ctx context.Context, src TallySource, last *Result, options Options) (*Result, Increment, error) {
	o := options.withDefaults()
	var inc Increment
	kept, err := src.Tally(ctx)
	if err != nil {
		return nil, inc, fmt.Errorf("read counts: %w", err)
	}
	if kept.Set == nil || last == nil {
		return nil, inc, ErrNoTally
	}
	set, err := decodeSet(kept.Set)
	if err != nil {
		return nil, inc, errors.Join(ErrNoTally, err)
	}
	u := &updater{set: set, counter: newDayCounter(set), sum: set.zero(), options: o, increment: &inc, fresh: map[string]bool{}}
	u.watch(last)
	changed, err := u.days(ctx, src, kept)
	if err != nil {
		return nil, inc, err
	}
	if len(changed) > 0 {
		if err := src.PutTally(ctx, store.Tally{Days: changed}); err != nil {
			return nil, inc, fmt.Errorf("keep counts: %w", err)
		}
	}
	inc.NewPaths = len(u.fresh)
	inc.Growth = float64(u.sum.totals[totalCalls]) / float64(max(1, set.Calls))
	return u.apply(last), inc, nil
}

// updater sums up days and brings a result up to date.
type updater struct {
	set       *tallySet
	counter   *dayCounter
	options   Options
	increment *Increment
	sum       *dayCounts
	path      map[string]int // sequence -> index in set.Paths
	fresh     map[string]bool
	of        []tallied // of each pattern
	weeks     map[int32]bool
}

// tallied is where a pattern's counts lie, and its occurrences by week.
type tallied struct {
	path, loop int // index, -1 for none
	agents     int // in the sets of agents, -1 for none
	weekly     map[int32]int
}

// watch finds the patterns in the set.
func (u *updater) watch(last *Result) {
	u.path, u.weeks = numbered(u.set.Paths), map[int32]bool{}
	for i := range last.Patterns {
		p := &last.Patterns[i]
		t := tallied{path: -1, loop: -1, agents: -1, weekly: map[int32]int{}}
		if tokens, ok := u.tokens(p.Tools); ok && p.optionalStep() < 0 && p.Gap == nil { // these have no count of their own
			if p.DataFlow != nil && loops(p.DataFlow) {
				t.loop = slices.IndexFunc(u.set.Loops, func(l loopSet) bool { return slices.Equal(l.Tools, tokens) && sameLoops(p.DataFlow, l.Each) })
				if t.loop >= 0 {
					t.agents = len(u.set.Walked) + t.loop
				}
			} else if at, ok := u.path[tokenKey(tokens)]; ok {
				t.path, t.agents = at, slices.Index(u.set.Walked, at)
			}
		}
		u.of = append(u.of, t)
	}
}

// sameLoops reports whether the steps that loop in the flow are among those that the counts take as loops.
func sameLoops(flow *DataFlow, each []bool) bool {
	for k := range flow.Steps {
		if flow.Steps[k].Each != nil && (k >= len(each) || !each[k]) {
			return false
		}
	}
	return len(flow.Steps) == len(each)
}

func (u *updater) tokens(tools []string) ([]uint32, bool) {
	out := make([]uint32, len(tools))
	for i, name := range tools {
		t, ok := u.counter.token[name]
		if !ok {
			return nil, false
		}
		out[i] = t
	}
	return out, true
}

// days sums up all days and returns those that were counted anew.
func (u *updater) days(ctx context.Context, src TallySource, kept store.Tally) (changed []store.DayTally, err error) {
	days, err := src.Days(ctx)
	if err != nil {
		return nil, fmt.Errorf("read days: %w", err)
	}
	known := make(map[int32]store.DayTally, len(kept.Days))
	for _, d := range kept.Days {
		known[d.Day] = d
	}
	var logs []*calls
	for _, day := range days {
		var counts *dayCounts
		if k, ok := known[day.Day]; ok && k.Version == day.Version {
			counts, _ = u.set.decode(k.Counts) // damaged counts are made anew
		}
		if counts == nil {
			log, err := readDay(ctx, src, day.Day, u.set)
			if err != nil {
				return nil, err
			}
			logs = append(logs, log)
			u.increment.Days, u.increment.Calls = u.increment.Days+1, u.increment.Calls+log.read
			own := *log // counting renames the tokens
			own.tok = slices.Clone(log.tok)
			counts = u.counter.count(&own)
			changed = append(changed, store.DayTally{Day: day.Day, Version: day.Version, Counts: counts.encode()})
		}
		u.sum.add(counts)
		u.byWeek(day.Day, counts)
	}
	for _, log := range logs {
		u.lookForNew(log)
	}
	return changed, nil
}

func (u *updater) byWeek(day int32, counts *dayCounts) {
	if until := u.options.Until; day == noDay || !until.IsZero() && day > dayOf(until) {
		return
	}
	week := weekOf(day)
	u.weeks[week] = true
	for i := range u.of {
		switch t := &u.of[i]; {
		case t.path >= 0:
			t.weekly[week] += int(counts.paths[t.path][0])
		case t.loop >= 0:
			t.weekly[week] += int(counts.loops[t.loop][0])
		}
	}
}

// lookForNew finds the sequences that are frequent in one day alone and not counted so far.
func (u *updater) lookForNew(log *calls) {
	table := count(log, u.options.MaxLength, u.options.minSessions(int(u.sum.totals[totalSessions])))
	for n := 2; n < len(table.levels); n++ {
		for id := 1; id < len(table.levels[n]); id++ {
			var names []string
			for _, t := range table.tokens(n, uint32(id)) {
				names = append(names, log.tools[t])
			}
			tokens, ok := u.tokens(names)
			if ok {
				_, ok = u.path[tokenKey(tokens)]
			}
			if !ok {
				u.fresh[arrow(names)] = true
			}
		}
	}
}

// apply gives the result the counts of now.
func (u *updater) apply(last *Result) *Result {
	r := *last
	t := u.sum.totals
	r.Sessions, r.Calls, r.Stretches = int(t[totalSessions]), int(t[totalCalls]), int(t[totalStretches])
	r.RepeatCalls, r.RetryCalls, r.FlowCalls = int(t[totalRepeats]), int(t[totalRetries]), int(t[totalFlowCalls])
	r.SkippedCalls, r.LLMCalls = int(t[totalSkipped]), int(t[totalTurns])
	r.Patterns = slices.Clone(last.Patterns)
	plain := &lattice{at: u.path, occ: func(i int) uint64 { return u.sum.paths[i][0] },
		model: talliedNull(u.sum.tools, t[totalFollowers], u.set.Paths, func(i int) uint64 { return u.sum.paths[i][2] })}
	folded := &lattice{at: numbered(u.set.Folded), occ: func(i int) uint64 { return u.sum.folded[i][0] },
		model: talliedNull(u.sum.foldedTools, t[totalFoldedFollowers], u.set.Folded, func(i int) uint64 { return u.sum.folded[i][1] })}
	for i := range r.Patterns {
		switch p, of := &r.Patterns[i], &u.of[i]; {
		case of.path >= 0:
			n := u.sum.paths[of.path]
			p.recount(int(n[0]), int(n[1]), int(n[3]))
			u.agents(p, of)
			p.strengthen(u.set.Paths[of.path], plain)
			p.Stability = u.stability(of, p.Stability)
		case of.loop >= 0:
			n := u.sum.loops[of.loop]
			p.recount(int(n[0]), int(n[1]), int(n[2]))
			u.agents(p, of)
			if tokens := u.set.Loops[of.loop].Tools; len(tokens) > 1 { // a loop by itself has neither
				p.strengthen(tokens, folded)
			}
			p.Stability = u.stability(of, p.Stability)
		}
	}
	r.Blocked = slices.Clone(last.Blocked)
	for i := range r.Blocked {
		b := &r.Blocked[i]
		if tokens, ok := u.tokens(b.Tools); ok {
			if at, ok := u.path[tokenKey(tokens)]; ok {
				b.Occurrences, b.Sessions = int(u.sum.paths[at][0]), int(u.sum.paths[at][1])
			}
		}
	}
	return &r
}

// agents sets how many agents walk the pattern, where they were told apart.
func (u *updater) agents(p *Pattern, of *tallied) {
	if of.agents >= 0 {
		p.Agents = len(u.sum.agents[of.agents])
	}
}

// recount sets what follows from occurrences, sessions and failures.
func (p *Pattern) recount(occ, sessions, failures int) {
	if p.Occurrences > 0 {
		p.Score *= float64(occ) / float64(p.Occurrences)
	}
	p.Occurrences, p.Sessions = occ, sessions
	p.Success, p.SuccessLower = float64(occ-failures)/float64(max(1, occ)), wilsonLower(occ-failures, occ)
}

// strengthen computes step confidences and the comparison with the null model anew.
func (p *Pattern) strengthen(tokens []uint32, l *lattice) {
	if l.model.occ[tokens[0]] == 0 {
		return
	}
	p.Expected = l.model.expected(tokens)
	p.Excess = float64(p.Occurrences) - p.Expected
	p.Z = p.Excess / math.Sqrt(max(p.Expected, 1e-9))
	p.StepConfidence = make([]float64, len(tokens)-1)
	for n := 1; n < len(tokens); n++ {
		p.StepConfidence[n-1] = float64(l.occurrences(tokens[:n+1])) / float64(max(1, l.occurrences(tokens[:n])))
	}
}

// stability is that of the weeks of now; the drift is the last known.
func (u *updater) stability(t *tallied, last *Stability) *Stability {
	if len(u.weeks) < 2 {
		return last
	}
	first, final := int32(math.MaxInt32), int32(math.MinInt32)
	for week := range u.weeks {
		first, final = min(first, week), max(final, week)
	}
	first = max(first, final-maxWeeks+1)
	weekly := make([]int, final-first+1)
	for week, n := range t.weekly {
		if week >= first {
			weekly[week-first] = n
		}
	}
	drift := 0.0
	if last != nil {
		drift = last.Drift
	}
	return newStability(weekly, first, drift)
}
