package observer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"pave/ingest/store"
)

// result assembles what the pass found.
func (m *miner) result() *Result {
	log := m.whole
	r := &Result{From: m.options.Filter.From, To: m.options.Filter.To, Sessions: len(log.sessions), Calls: log.read,
		Stretches: log.stretches(), RepeatCalls: log.repeats, RetryCalls: log.retries, FlowCalls: log.flowCalls, EarlierCalls: log.earlier,
		SkippedCalls: log.skipped, LLMCalls: log.turns}
	r.Counted, r.NotExamined = m.table.sizes(), m.notExamined()
	chosen := m.choose()
	m.recount(chosen)
	for i, steady := range m.stability(chosen) {
		p := m.pattern(chosen[i])
		p.Stability = steady
		if !steady.Steady() && !p.Secondary {
			p.Secondary = true
			p.Why, p.Unblock = "it is a habit of the past", steadyAgain
			m.blocked = append(m.blocked, Blocked{Tools: p.Tools, Occurrences: p.Occurrences, Sessions: p.Sessions, Reason: "not_steady", Step: -1,
				Detail: fmt.Sprintf("It occurs in %d of the last %d weeks and is not on the rise: a habit of the past.",
					steady.Present, recentWeeks)})
		}
		r.Patterns = append(r.Patterns, p)
	}
	r.Blocked = m.blockedPaths(chosen)
	if m.options.Filter == (store.SequenceFilter{}) {
		r.tracked = m.tallySet(chosen, m.skipped)
	}
	return r
}

// choose ranks the proved flows by what each adds to those before it.
func (m *miner) choose() []proof {
	slices.SortStableFunc(m.proved, func(a, b proof) int {
		return cmp.Or(cmp.Compare(b.stats.score, a.stats.score), slices.Compare(m.names(a.stats.tokens), m.names(b.stats.tokens)))
	})
	c := &cover{log: m.log, placed: map[uint32][]span{}, saved: map[uint32]float64{}, flows: m.spans(m.proved)}
	noise := m.noise()
	served := func(p *proof) bool { return m.extended(p) || noise.explains(p) }
	first := func(i int) bool {
		p := &m.proved[i]
		return p.standsAlone() && !served(p)
	}
	proposed := &cover{log: m.log, placed: map[uint32][]span{}, saved: map[uint32]float64{}}
	var out []proof
	for _, r := range c.rank(m.options.MinGain/m.scale, first, m.options.MaxPatterns) {
		p := m.proved[r.flow]
		alone := c.flows[r.flow].alone
		batch := loops(p.flow) && !p.partial && 2*r.gain >= alone && !(m.many() && served(&p))
		p.score, p.secondary = m.scale*r.gain, r.tier > 0 && !batch
		if p.secondary {
			p.why, p.unblock = m.whySecondary(&p, m.scale*r.gain, m.scale*alone, noise.explains(&p))
		} else {
			proposed.pick(&c.flows[r.flow])
		}
		out = append(out, p)
	}
	out = append(out, m.gappedFlows(min(maxGapped, m.options.MaxPatterns-len(out)))...)
	return append(out, m.batchFlows(proposed, out, m.options.MaxPatterns-len(out))...)
}

// standsAlone reports whether a flow is for all occurrences of its path, its steps belong together, and it gives later
// steps something.
func (p *proof) standsAlone() bool {
	return !p.partial && (p.stats.stands() || linked(p.flow)) && !asksOnly(p.flow)
}

// whySecondary says why a flow comes after all that stand by themselves, and what would change that.
func (m *miner) whySecondary(p *proof, gain, alone float64, torn bool) (why, unblock string) {
	switch {
	case p.partial:
		return "it is for a part of the occurrences, and the others take their values elsewhere", "Occurrences that all take their values from the same places."
	case asksOnly(p.flow):
		return "callers would have to give all that its later steps need", "Values that one step takes from another."
	case !p.stats.stands() && !linked(p.flow):
		return fmt.Sprintf("no value links its steps, and %d occurrences are no more than chance explains (%.1f)", p.stats.occ, p.stats.expected),
			"Values that one step takes from another; or more sessions, if it is a routine."
	case m.extended(p):
		return "most of its occurrences are part of a longer path, or run a loop, for which there is a flow", "Occurrences outside the longer path."
	case torn:
		return "it is another flow, or a part of it, with a call lost, in between or beside it, no more often than chance leaves", "Occurrences beyond those."
	}
	return m.servedByOthers(gain, alone)
}

func (m *miner) servedByOthers(gain, alone float64) (why, unblock string) {
	return fmt.Sprintf("better flows serve %.0f of the %.0f model calls that it would avoid alone", alone-gain, alone),
		"More occurrences outside of what the better flows serve."
}

// extended reports whether a flow for a longer path does what this one does, and nearly as often, or runs a loop of it
// for each element.
func (m *miner) extended(p *proof) bool {
	folded := p.stats.tokens
	if p.log == m.log {
		folded = slices.Compact(slices.Clone(folded))
	}
	loops := len(folded) < len(p.stats.tokens)
	open := p.stats.partOfMore() || m.loopsOpen[tokenKey(folded)]
	if !open && !loops {
		return false
	}
	return slices.ContainsFunc(m.proved, func(q proof) bool {
		switch {
		case !q.standsAlone():
			return false
		case q.log == p.log:
			return open && len(q.stats.tokens) > len(p.stats.tokens) && contains(q.stats.tokens, p.stats.tokens)
		}
		return q.log == m.loops && (loops || len(q.stats.tokens) > len(folded)) && contains(q.stats.tokens, folded)
	})
}

// tokenKey is a sequence as a key.
func tokenKey(tokens []uint32) string {
	key := make([]byte, 0, 4*len(tokens))
	for _, t := range tokens {
		key = binary.LittleEndian.AppendUint32(key, t)
	}
	return string(key)
}

// spans finds the places where flows may run. Where an occurrence was examined it is known whether the flow
// fits; elsewhere it saves what it saves on average.
func (m *miner) spans(flows []proof) []coverFlow {
	out := make([]coverFlow, len(flows))
	for _, log := range []*calls{m.log, m.loops} {
		if log == nil {
			continue
		}
		var sequences [][]uint32
		number := map[*path]int{}
		for i := range flows {
			p := &flows[i]
			if _, known := number[p.stats]; p.log == log && !known {
				number[p.stats] = len(sequences)
				sequences = append(sequences, p.stats.tokens)
			}
		}
		places := findAll(log, sequences)
		for i := range flows {
			p := &flows[i]
			if p.log != log {
				continue
			}
			spans := p.spans(places[number[p.stats]], p.stats.level)
			if p.batch != nil { // these end where callers did not know more
				out[i] = coverFlow{weight: 1}
				out[i].add(spans)
				continue
			}
			out[i] = coverFlow{spans: spans, weight: weight(p.flow)}
			if o := p.optional; o != nil {
				out[i].add(p.spans(findAll(log, [][]uint32{o.short.tokens})[0], o.short.level))
			}
		}
	}
	return out
}

func (p *proof) spans(places []window, n int) (out []span) {
	examined := make(map[uint32]int, len(p.windows))
	for r, w := range p.windows {
		examined[w.at] = r
	}
	share := p.share(n)
	for _, w := range places {
		if !p.log.allows(w, p.each) {
			continue
		}
		b, length := p.log.unfolded(w, n)
		s := span{stretch: w.stretch, from: b.at, to: b.at + uint32(length), saves: float64(p.log.turnsSaved(w, n))}
		switch r, known := examined[w.at]; {
		case !known:
			s.saves *= share
		case p.batch != nil:
			s.to, s.saves = b.at+uint32(p.known[r]), float64(p.saves[r])
		case !p.fit.has(r):
			continue
		}
		if s.saves > 0 {
			out = append(out, s)
		}
	}
	return out
}

// share is what the flow saves of the turns of its occurrences of n steps, by those that were examined.
func (p *proof) share(n int) float64 {
	if p.batch == nil {
		return float64(p.fit.count()) / float64(len(p.windows))
	}
	saved, turns := 0, 0
	for r, w := range p.windows {
		saved, turns = saved+p.saves[r], turns+p.log.turnsSaved(w, n)
	}
	return float64(saved) / float64(max(1, turns))
}

// weight lowers the rank of flows whose later steps ask the caller for values, since that work stays with the caller.
func weight(flow *DataFlow) float64 {
	mapped, late := lateArgs(flow)
	return float64(1+mapped) / float64(1+mapped+late)
}

// asksOnly reports whether the caller gives all that later steps need: such a flow only makes calls one after the
// other.
func asksOnly(flow *DataFlow) bool {
	mapped, late := lateArgs(flow)
	return mapped == 0 && late > 0
}

// asksAll reports whether callers give every value.
func asksAll(flow *DataFlow) bool {
	mapped, _ := lateArgs(flow)
	return mapped == 0
}

// loops reports whether a step runs once for each element of a list. Such a flow replaces a series of model calls
// even where the caller gives the list.
func loops(flow *DataFlow) bool {
	return slices.ContainsFunc(flow.Steps, func(s StepFlow) bool { return s.Each != nil })
}

// lateArgs counts the arguments of later steps that the flow fills, and those that the caller gives.
func lateArgs(flow *DataFlow) (mapped, asked int) {
	for k, step := range flow.Steps {
		if step.Each != nil && step.Each.Kind == SourceInput {
			asked++
		}
		for _, a := range step.Args {
			switch {
			case k == 0 || a.Kind == SourceElement && step.Each.Kind == SourceInput:
			case a.Kind == SourceInput:
				asked++
			default:
				mapped++
			}
		}
	}
	return mapped, asked
}

// serving finds the chosen pattern that makes path i redundant, -1 when there is none.
func (m *miner) serving(chosen []proof, i int) int {
	return slices.IndexFunc(chosen, func(c proof) bool {
		return c.log == m.log && c.batch == nil && redundant(c.stats.tokens, m.all[i].tokens)
	})
}

func (m *miner) pattern(p proof) Pattern {
	stats := p.stats
	good := stats.occ - p.census.failures
	out := Pattern{Tools: m.names(stats.tokens), Occurrences: stats.occ, Sessions: stats.sessions, Agents: p.census.agents,
		StepConfidence: p.confidence, Expected: stats.expected, Excess: stats.excess, Z: stats.z, Score: p.score,
		Success: float64(good) / float64(stats.occ), SuccessLower: wilsonLower(good, stats.occ),
		TurnsSaved: p.turns, Partial: p.partial, Secondary: p.secondary, Why: p.why, Unblock: p.unblock, DataFlow: p.flow, CutFrom: p.cutFrom}
	for _, w := range p.census.good.take(m.options.MaxExamples) {
		out.Examples = append(out.Examples, p.log.occurrence(w, stats.level))
	}
	if p.gaps != nil {
		out.Gap = p.gaps.gap()
	}
	if p.batch != nil {
		out.Batch, out.Examples = p.batch, p.batchExamples(m.options.MaxExamples)
	}
	if o := p.optional; o != nil {
		short := max(1, m.options.MaxExamples*o.short.occ/stats.occ) // as many of each way as agents walk it
		out.Examples = out.Examples[:min(len(out.Examples), max(1, m.options.MaxExamples-short))]
		for _, w := range p.shortGood.take(short) {
			out.Examples = append(out.Examples, p.log.without(w, stats.level, o.step))
		}
	}
	return out
}

// stepConfidence is occ(t0..tk+1) / occ(t0..tk) for each k.
func (m *miner) stepConfidence(p *path) []float64 { return confidences(m.table, p) }

func confidences(table *gramTable, p *path) []float64 {
	out := make([]float64, p.level-1)
	occ := float64(table.levels[p.level][p.id].occ)
	for n := p.level - 1; n >= 1; n-- {
		before := float64(table.levels[n][table.prefix(p.level, p.id, n)].occ)
		out[n-1] = occ / before
		occ = before
	}
	return out
}

// blockedPaths lists the frequent, delta-closed paths that are not patterns: those that would save most first, and at
// the end those that a pattern replaces or that were not looked at.
func (m *miner) blockedPaths(chosen []proof) []Blocked {
	out := slices.DeleteFunc(m.blocked, func(b Blocked) bool { return m.explainedByStop(b.Tools) })
	for i := range m.all {
		if p := &m.all[i]; p.closed && !m.tried[i] && m.stopOf(i) < 0 {
			if b, ok := m.whyNot(p, i, chosen); ok {
				out = append(out, b)
			}
		}
	}
	slices.SortFunc(out, func(a, b Blocked) int {
		return cmp.Or(cmp.Compare(minor(a), minor(b)),
			cmp.Compare(b.Occurrences*(len(b.Tools)-1), a.Occurrences*(len(a.Tools)-1)), slices.Compare(a.Tools, b.Tools))
	})
	out = out[:min(len(out), m.options.MaxBlocked)]
	for i := range out {
		if out[i].Unblock == "" {
			out[i].Unblock = out[i].remedy()
		}
	}
	return out
}

// remedy is what would unblock the path.
func (b *Blocked) remedy() string {
	switch b.Reason {
	case "branch":
		return fmt.Sprintf("Sessions in which %s follows in %.0f %%; or a value that it takes from a step before it, for a flow of its own that callers choose.",
			b.Tools[b.Step], 100*branchBelow)
	case "errors":
		return fmt.Sprintf("A %s that fails in at most half of its calls there.", b.Tools[len(b.Tools)-1])
	case "no_values":
		return "Recorded arguments and results of these tools."
	case "not_significant":
		return "More sessions, if it is a routine; or values that one step takes from another."
	case "not_steady":
		return steadyAgain
	case "not_sampled":
		return "A higher mining.sample_sessions; a negative one looks at all sessions."
	case "no_saving":
		return "Nothing, as long as the model asks for all of them at once."
	case "support":
		return "A higher mining.max_evaluated."
	}
	return ""
}

// steadyAgain is what would make a habit of the past one of today.
var steadyAgain = fmt.Sprintf("Occurrences in %d of the last %d weeks.", steadyWeeks, recentWeeks)

// explainedByStop reports whether a shorter path that is listed blocks this one at its start.
func (m *miner) explainedByStop(tools []string) bool {
	return slices.ContainsFunc(m.stops, func(stop []uint32) bool {
		return len(stop) < len(tools) && slices.Equal(m.names(stop), tools[:len(stop)])
	})
}

func minor(b Blocked) int { return rankBool(b.Reason != "redundant" && b.Reason != "support") }

// whyNot explains a path that was not examined. Parts of a chosen pattern are served by it and not listed.
func (m *miner) whyNot(p *path, i int, chosen []proof) (Blocked, bool) {
	b := Blocked{Tools: m.names(p.tokens), Occurrences: p.occ, Sessions: p.sessions, Step: -1}
	if c := m.serving(chosen, i); c >= 0 {
		served := chosen[c].stats.tokens
		if len(served) > len(p.tokens) {
			return b, false
		}
		b.Reason = "redundant"
		b.Detail = fmt.Sprintf("It contains a pattern that saves more (%s), which is proposed instead.", arrow(m.names(served)))
		return b, true
	}
	if !m.stands(i) {
		b.Reason, b.Step, b.Detail = m.insignificant(p)
		return b, true
	}
	b.Reason = "support"
	b.Detail = fmt.Sprintf("It was not examined: %d other paths were, which is the limit.", len(m.tried))
	return b, true
}

// branchBelow is the step confidence below which what comes next is a decision.
const branchBelow = 0.6

func (m *miner) insignificant(p *path) (reason string, step int, detail string) {
	tools := m.names(p.tokens)
	confidence := m.stepConfidence(p)
	weakest := 0
	for k, c := range confidence {
		if c < confidence[weakest] {
			weakest = k
		}
	}
	if confidence[weakest] < branchBelow {
		return "branch", weakest + 1, fmt.Sprintf(
			"After step %d (%s) only %.0f %% of the occurrences go on with %s: the agent decides there.",
			weakest+1, tools[weakest], 100*confidence[weakest], tools[weakest+1])
	}
	return "not_significant", -1, fmt.Sprintf(
		"It occurs %d times where %.1f are expected by chance; more sessions would show whether it is a routine.", p.occ, p.expected)
}

func arrow(tools []string) string {
	s := tools[0]
	for _, t := range tools[1:] {
		s += " > " + t
	}
	return s
}
