package observer

import (
	"context"
	"fmt"
	"slices"
)

// probeOccurrences is the size of a first look at the values of a path that has many more occurrences.
const probeOccurrences = 24

// looks are the occurrences of a path that are examined at first, and all that are when these do not settle it.
func (m *miner) looks(c *census) (first, full []window) {
	full = m.readAlready(c.good.take(m.options.MaxSamples))
	if len(full) > 2*probeOccurrences {
		return m.readAlready(c.good.take(probeOccurrences)), full
	}
	return full, full
}

// mostRead is the share of the occurrences from which on those in sessions that were read stand for all.
const mostRead = 0.75

// readAlready are the windows in sessions that were read, of a log of many sessions, where these are most of them and
// enough: going back to a store for a few sessions costs as much as reading all that lies around them.
func (m *miner) readAlready(windows []window) []window {
	if !m.many() {
		return windows
	}
	read := make([]window, 0, len(windows))
	for _, w := range windows {
		if m.infer.kept.has(m.log.sessions[m.log.session(w.stretch)]) {
			read = append(read, w)
		}
	}
	if len(read) < smallSample || float64(len(read)) < mostRead*float64(len(windows)) {
		return windows
	}
	return read
}

// fullLooks is how many of the best candidates are looked at in full, as long as nothing settled them.
const fullLooks = 64

// foresee reads at once what the looks at the most likely candidates need: a store reads many sessions for little
// more than a few of each of its blocks.
func (m *miner) foresee(ctx context.Context, src Source, loops *loopSearch, pairs []optional) error {
	wanted := make([]bool, len(m.log.sessions))
	want := func(windows []window) {
		for _, w := range windows {
			wanted[m.log.session(w.stretch)] = true
		}
	}
	for n, c := range m.census(m.likely()) {
		first, full := m.looks(c)
		switch {
		case n < fullLooks: // few of the best are settled by a first look
			first = full
		case n < batchPatterns && len(full) > len(first): // nor are some of the next, for which most must do
			first = c.good.take(int(mostRead * float64(len(full))))
		}
		want(first)
	}
	if loops != nil {
		for _, c := range loops.censuses {
			want(c.good.take(m.options.MaxSamples))
		}
	}
	for i := range pairs {
		for _, s := range m.befores(&pairs[i]) {
			want(s.windows)
		}
	}
	var ids []string
	for s, id := range m.log.sessions {
		if wanted[s] {
			ids = append(ids, id)
		}
	}
	return m.infer.kept.read(ctx, src, ids, func(*keptSession) {})
}

// likely are the paths that are examined unless something proved before says otherwise.
func (m *miner) likely() []piece {
	var likely []piece
	for _, i := range m.ranked {
		if len(likely) < m.options.MaxEvaluated && !m.covered(i, likely) {
			likely = append(likely, piece{path: i})
		}
	}
	var order []int
	for i := range m.all {
		if m.all[i].closed && !m.stands(i) {
			order = append(order, i)
		}
	}
	return append(likely, m.savingMost(order, someWeak)...)
}

// maxCensus is how many paths are looked at in one scan of the log, before they are asked for; of more, only those that
// are.
const maxCensus = 8192

// census is what scans of the log find out about the paths.
func (m *miner) census(batch []piece) []*census {
	if m.censuses == nil {
		m.censuses = make([]*census, len(m.all))
		if len(m.all) <= maxCensus {
			m.scan(m.all)
		}
	}
	out := make([]*census, len(batch))
	var unknown []path
	for _, p := range batch {
		if m.censuses[p.path] == nil {
			unknown = append(unknown, m.all[p.path])
		}
	}
	if len(unknown) > 0 {
		m.scan(unknown)
	}
	for n, p := range batch {
		out[n] = m.censuses[p.path]
	}
	return out
}

func (m *miner) scan(paths []path) {
	sequences := make([][]uint32, len(paths))
	for i := range paths {
		sequences[i] = paths[i].tokens
	}
	taken := takeCensus(m.log, sequences, m.options.MaxSamples, m.options.PerSession)
	for i := range paths {
		m.censuses[m.index(paths[i].level, paths[i].id)] = &taken[i]
	}
}

// examine looks at the values of a batch and sorts it.
func (m *miner) examine(ctx context.Context, src Source, batch []piece) error {
	censuses := m.census(batch)
	full := make([]sample, len(batch))
	first := make([]sample, len(batch))
	for i := range batch {
		full[i].tools = m.names(m.all[batch[i].path].tokens)
		first[i].tools = full[i].tools
		first[i].windows, full[i].windows = m.looks(censuses[i])
	}
	evidences, err := m.infer.examine(ctx, src, first)
	if err != nil {
		return err
	}
	var again []int
	for i := range batch {
		if len(first[i].windows) < len(full[i].windows) && !m.settled(batch[i], evidences[i]) {
			again = append(again, i)
			first[len(again)-1] = full[i]
		}
	}
	more, err := m.infer.examine(ctx, src, first[:len(again)])
	if err != nil {
		return err
	}
	for n, i := range again {
		evidences[i] = more[n]
	}
	for i, p := range batch {
		m.judge(p, evidences[i], censuses[i])
	}
	m.options.Progress(Progress{Stage: "data flow", Done: len(m.tried), Total: min(m.options.MaxEvaluated, max(len(m.tried), len(m.ranked)))})
	return nil
}

// settled reports whether a first look decides, so that more occurrences would not change the verdict. Of many sessions
// it must do for what the others leave over.
func (m *miner) settled(p piece, e evidence) bool {
	return p.rest && m.many() || len(e.windows) == 0 || e.blocker != nil && e.clear || !m.stands(p.path) && e.unlinked
}

// judge sorts an examined path: proved, or blocked and cut. A path that is blocked as a whole may still give flows for
// a part of its occurrences.
func (m *miner) judge(p piece, e evidence, c *census) {
	path := &m.all[p.path]
	tools := m.names(path.tokens)
	last := path.level - 1
	switch {
	case 2*c.failures > c.occ:
		m.block(p, "errors", last, fmt.Sprintf("%s fails in %d of %d occurrences; a flow would fail as often.",
			tools[last], c.failures, c.occ))
		return
	case c.occ == 0: // of a sample, which has calls of many days
		m.block(p, "not_sampled", -1, fmt.Sprintf("None of its occurrences is in the sample of %d of %d sessions whose values were looked at, as is usual where they lie close together in time.",
			len(m.log.sessions), len(m.whole.sessions)))
		return
	case len(e.windows) == 0:
		m.block(p, "no_values", -1,
			"The arguments of these calls were not recorded; record arguments and results to prove where they come from.")
		return
	case e.blocker != nil:
		m.blockChoice(p, tools, e)
	case e.turns == 0:
		m.block(p, "no_saving", -1, "The model asks for all of these calls at once, so a flow saves no model call.")
		return
	case !m.stands(p.path) && !linked(e.variants[0].flow):
		reason, step, detail := m.insignificant(path)
		m.block(p, reason, step, detail)
	}
	for _, v := range e.variants {
		m.proved = append(m.proved, proof{log: m.log, stats: path, confidence: m.stepConfidence(path), cutFrom: p.cutFrom,
			flow: v.flow, partial: v.partial, turns: e.turns, windows: e.windows, fit: v.fit, census: c})
	}
}

// stands reports whether a path is more than the null model explains.
func (m *miner) stands(i int) bool { return m.all[i].stands() }

func (p *path) stands() bool { return p.significant && p.score > 0 }

// linked reports whether every step after the first takes a value from an earlier one: then the steps belong
// together however often others follow.
func linked(flow *DataFlow) bool {
	return len(flow.Steps) > 1 && !slices.ContainsFunc(flow.Steps[1:], func(s StepFlow) bool {
		return !slices.ContainsFunc(s.Args, func(a ArgFlow) bool {
			copied := a.Kind == SourceOutput || a.Kind == SourceArg || a.Kind == SourceDerived || a.Kind == SourceElement && s.Each.Kind == SourceOutput
			return copied && a.Evidence.Distinct > 1
		})
	})
}

// block reports a path; one that was looked at for what the others leave over is not news.
func (m *miner) block(from piece, reason string, step int, detail string) *Blocked {
	p := &m.all[from.path]
	if from.rest {
		return &Blocked{}
	}
	m.blocked = append(m.blocked, Blocked{Tools: m.names(p.tokens), Occurrences: p.occ, Sessions: p.sessions,
		Reason: reason, Step: step, Detail: detail})
	return &m.blocked[len(m.blocked)-1]
}

// blockChoice reports the path and gives back its parts: the path up to the choice, to see whether it is in the way
// there too; what comes before it; and what starts with it, where the choice is an argument of the first step.
func (m *miner) blockChoice(from piece, tools []string, e evidence) {
	p := &m.all[from.path]
	b := m.block(from, "choice", e.cut, fmt.Sprintf(
		"%s of step %d (%s): %s.",
		e.blocker.Arg, e.cut+1, tools[e.cut], e.blocker.Evidence.Note))
	b.Arg = e.blocker.Arg
	known := 1 - float64(e.blocker.Evidence.Present-e.blocker.Evidence.Held)/float64(len(e.windows))
	b.Unblock = fmt.Sprintf("A rule that tells the value of %s; or callers who know it before %s in %.0f %% of the occurrences, not in %.0f %% as now: then it is an input.",
		b.Arg, tools[0], 100*m.options.MinKnowable, 100*known)
	if !e.mapped {
		b.Unblock = fmt.Sprintf("A rule that tells the value of %s. Callers who know it would not do: they would have to give all that the later steps need.", b.Arg)
	}
	if e.always {
		b.Unblock = fmt.Sprintf("A %s that has the value by itself, as the binding of a tool can; or users who say it before %s.", tools[e.cut], tools[0])
	}
	if from.rest {
		return
	}
	if e.cut+1 == p.level {
		m.stops = append(m.stops, p.tokens)
	} else {
		m.pieces = append(m.pieces, piece{path: m.index(e.cut+1, m.table.prefix(p.level, p.id, e.cut+1))})
	}
	if e.cut >= 2 {
		m.pieces = append(m.pieces, piece{path: m.index(e.cut, m.table.prefix(p.level, p.id, e.cut)), cutFrom: tools})
	}
	if rest := p.level - e.cut; rest >= 2 {
		m.pieces = append(m.pieces, piece{path: m.index(rest, m.table.suffix(p.level, p.id, rest)), cutFrom: tools})
	}
}
