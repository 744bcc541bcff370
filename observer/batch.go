package observer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pave/flows/value"
)

// Flows that take whole calls. Where no value of one call tells the next, agents that know all that they want to ask for
// still make one model call for each of them. A flow to which its caller gives the calls saves these. It predicts nothing,
// so nothing is predicted wrongly: what callers cannot know before the first step they leave out, and the run hands back
// there. A person who decides about one looks at how often callers knew the calls.

// Limits of the search for batches.
const (
	maxBatches    = 300  // paths whose calls are looked at
	fewBatches    = 48   // the same of many sessions
	maxBatchSteps = 8    // a loop being one
	minPassed     = 0.05 // share of a tool's calls that have an argument, for callers to be able to give it
)

// Batch is how often callers could have given the calls of a pattern before its first step.
type Batch struct {
	Examined int // occurrences
	Several  int // of these, in which they knew the first call and at least the next
	Whole    int // and in which they knew all
	// Supporting and Contradicting are up to three sessions each in which they knew all calls, and the first one only.
	Supporting, Contradicting []string
}

// batchPath is a path whose callers may have known the calls.
type batchPath struct {
	log    *calls
	stats  *path
	each   []bool
	census *census
	// confidence of each step to be followed by the next.
	confidence []float64
	saves      int // turns, if they knew all
}

// runBatches looks at the calls of the paths that would save most.
func (m *miner) runBatches(ctx context.Context, src Source, loops *loopSearch) error {
	paths := m.batchPaths(loops)
	u := usage{}
	taken := make([]batchSample, len(paths))
	for i := range paths {
		taken[i] = batchSample{path: &paths[i], windows: m.readAlready(paths[i].census.good.take(m.options.MaxSamples))}
	}
	err := m.infer.inChunks(len(taken), func(i int) int { return len(taken[i].windows) }, func(from, to int) error {
		return m.infer.givable(ctx, src, taken[from:to], u)
	})
	if err != nil {
		return fmt.Errorf("read sessions: %w", err)
	}
	for i := range taken {
		if p, ok := taken[i].prove(m, u); ok {
			m.batches = append(m.batches, p)
		}
	}
	return nil
}

// batchPaths are the frequent paths with loops, and the plain ones without two neighbouring calls of one tool.
func (m *miner) batchPaths(loops *loopSearch) []batchPath {
	most := maxBatches
	if m.many() {
		most = fewBatches
	}
	var out []batchPath
	if loops != nil {
		paths := m.loopPaths(loops.all, loops.steps(func(p *path, sessions int) bool {
			return p.level <= maxBatchSteps && sessions > 0 // a list of one call does for the others
		}))
		paths = paths[:min(len(paths), most)]
		censuses := m.loopCensuses(paths)
		for i := range paths {
			p := &paths[i]
			b := batchPath{log: m.loops, stats: p.stats, each: p.each, census: &censuses[i], saves: p.saves}
			if p.stats.level > 1 {
				b.confidence = confidences(loops.table, p.stats)
			}
			out = append(out, b)
		}
	}
	var plain []piece
	for i := range m.all {
		p := &m.all[i]
		if p.level <= maxBatchSteps && len(slices.Compact(slices.Clone(p.tokens))) == p.level {
			plain = append(plain, piece{path: i})
		}
	}
	slices.SortFunc(plain, func(a, b piece) int { return m.compareSaving(a.path, b.path) })
	plain = plain[:min(len(plain), most)]
	for n, c := range m.census(plain) {
		p := &m.all[plain[n].path]
		out = append(out, batchPath{log: m.log, stats: p, census: c, confidence: m.stepConfidence(p), saves: p.occ * (p.level - 1)})
	}
	slices.SortStableFunc(out, func(a, b batchPath) int {
		return cmp.Or(cmp.Compare(b.saves, a.saves), slices.Compare(a.stats.tokens, b.stats.tokens))
	})
	return out[:min(len(out), most)]
}

// batchSample is a path with the occurrences that are looked at and, of each, what callers knew.
type batchSample struct {
	path    *batchPath
	windows []window
	seen    []givenCalls // parallel to windows
}

// givenCalls is what callers knew of the calls of an occurrence before the first one, which is their own.
type givenCalls struct {
	session      string
	known, calls int // the leading calls that they knew, and all; 0 calls: they could not be read
	args         []givenArg
}

// givenArg is an argument of a step with its values in all calls of the step.
type givenArg struct {
	step   int
	name   string
	values []uint64
	knew   bool // the caller all of them
}

// usage is what arguments the calls of tools have that were looked at.
type usage map[string]*toolUsage

type toolUsage struct {
	calls int
	args  map[string]int
}

func (u usage) note(tool string, args []string) {
	t := u[tool]
	if t == nil {
		t = &toolUsage{args: map[string]int{}}
		u[tool] = t
	}
	t.calls++
	for _, name := range args {
		t.args[name]++
	}
}

// names are the arguments that callers can give.
func (t *toolUsage) names() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(t.args)) {
		if float64(t.args[name]) >= minPassed*float64(t.calls) {
			out = append(out, name)
		}
	}
	return out
}

// givable reads the sessions of the samples once and finds out what callers knew.
func (m *inference) givable(ctx context.Context, src Source, samples []batchSample, u usage) error {
	wanted := map[string][]request{}
	for s := range samples {
		p := samples[s].path
		samples[s].seen = make([]givenCalls, len(samples[s].windows))
		for i, w := range samples[s].windows {
			id := p.log.sessions[p.log.session(w.stretch)]
			wanted[id] = append(wanted[id], request{s, i})
		}
	}
	return m.kept.read(ctx, src, slices.Sorted(maps.Keys(wanted)), func(t *keptSession) {
		view := m.view(t)
		noted := map[*callView]bool{}
		for _, r := range wanted[t.id] {
			s := &samples[r.sample]
			x, ok := view.givenOccurrence(s.path, s.windows[r.place])
			if !ok {
				continue
			}
			s.seen[r.place] = x.given()
			for k := range x.at {
				for _, c := range x.views(k) {
					if !noted[c] {
						noted[c] = true
						u.note(s.path.log.tools[s.path.stats.tokens[k]], c.names)
					}
				}
			}
		}
	})
}

// givenOccurrence decodes an occurrence. ok is false where the session no longer has its calls or lacks arguments.
func (v *sessionView) givenOccurrence(p *batchPath, w window) (x *examination, ok bool) {
	o := p.log.occurrence(w, p.stats.level)
	if o.RunIndex >= len(v.calls) || slices.Max(o.Calls) >= len(v.calls[o.RunIndex]) {
		return nil, false
	}
	for _, at := range o.Calls {
		if v.call(o.RunIndex, at).args == nil {
			return nil, false
		}
	}
	x = &examination{view: v, run: o.RunIndex, at: o.Steps(), each: p.each, first: slices.Min(o.Calls)}
	x.wave = v.session.runs[x.run].calls[x.first].wave
	return x, true
}

// views are the calls of step k.
func (x *examination) views(k int) []*callView {
	out := make([]*callView, len(x.at[k]))
	for i, at := range x.at[k] {
		out[i] = x.view.call(x.run, at)
	}
	return out
}

// given finds out which calls of an occurrence a caller could give before the first one.
func (x *examination) given() givenCalls {
	out := givenCalls{session: x.view.session.id}
	for k := range x.at {
		from := len(out.args)
		for n, c := range x.views(k) {
			knew := true
			for i, name := range c.names {
				at := from + slices.IndexFunc(out.args[from:], func(a givenArg) bool { return a.name == name })
				if at < from {
					at = len(out.args)
					out.args = append(out.args, givenArg{step: k, name: name, knew: true})
				}
				a := &out.args[at]
				a.values = append(a.values, c.hashes[i])
				if k > 0 || n > 0 {
					o, _ := x.origin(k, c.args[name])
					knew, a.knew = knew && o.known(), a.knew && o.known()
				}
			}
			if knew && out.known == out.calls {
				out.known++
			}
			out.calls++
		}
	}
	return out
}

// prove makes a flow of the path, unless nothing could be read or its calls fail too often.
func (s *batchSample) prove(m *miner, u usage) (proof, bool) {
	b := s.path
	p := proof{log: b.log, stats: b.stats, each: b.each, confidence: b.confidence, census: b.census, batch: &Batch{}}
	for i, seen := range s.seen {
		if seen.calls == 0 {
			continue
		}
		saved := b.log.turnsSavedBy(s.windows[i], seen.known)
		p.windows, p.known, p.saves = append(p.windows, s.windows[i]), append(p.known, seen.known), append(p.saves, saved)
		p.turns += float64(saved)
		p.batch.add(seen)
	}
	if len(p.windows) == 0 || 2*b.census.failures > b.census.occ {
		return p, false
	}
	p.turns /= float64(len(p.windows))
	p.flow = s.flow(m.names(b.stats.tokens), u)
	p.flow.Sampled, p.flow.Explained, p.flow.Applicable = p.batch.Examined, p.batch.Several, p.batch.Several
	return p, true
}

func (b *Batch) add(seen givenCalls) {
	b.Examined++
	switch {
	case seen.known == seen.calls:
		b.Several, b.Whole = b.Several+1, b.Whole+1
		cite(&b.Supporting, seen.session)
	case seen.known > 1:
		b.Several++
	default:
		cite(&b.Contradicting, seen.session)
	}
}

// turnsSavedBy is what a run saves that makes the first calls of a window, loops unfolded.
func (log *calls) turnsSavedBy(w window, calls int) int {
	if log.base != nil {
		return log.base.turnsSaved(window{stretch: w.stretch, at: log.head[w.at]}, calls)
	}
	return log.turnsSaved(w, calls)
}

// flow says what callers give: the arguments of the first call by their names, an object for each later one, a list of
// objects where a step loops.
func (s *batchSample) flow(tools []string, u usage) *DataFlow {
	flow := &DataFlow{Steps: make([]StepFlow, len(tools))}
	taken := map[string]bool{}
	for k, tool := range tools {
		step, use := &flow.Steps[k], u[tool]
		loops := s.path.each != nil && s.path.each[k]
		name := ""
		switch {
		case loops:
			name = inputName(taken, tool, "_calls")
			step.Each = &EachFlow{Kind: SourceInput, Input: name, Evidence: s.evidence(k, "")}
			flow.Inputs = append(flow.Inputs, Input{Name: name, Step: k, List: true, Calls: true, Required: k == 0, Origin: "whole calls"})
		case k > 0:
			name = inputName(taken, tool, "_call")
			flow.Inputs = append(flow.Inputs, Input{Name: name, Step: k, Calls: true, Origin: "whole calls"})
		}
		for _, arg := range use.names() {
			a := ArgFlow{Arg: arg, Presence: float64(use.args[arg]) / float64(use.calls), Kind: SourceInput, Input: name,
				Pointer: "/" + value.Escape(arg), Evidence: s.evidence(k, arg)}
			switch {
			case loops:
				a.Kind, a.Input = SourceElement, ""
			case k == 0:
				a.Input, a.Pointer = inputName(taken, arg, ""), ""
				flow.Inputs = append(flow.Inputs, Input{Name: a.Input, Arg: arg, Required: a.Presence == 1, Origin: "first step"})
			}
			step.Args = append(step.Args, a)
		}
	}
	return flow
}

// evidence says how often callers knew an argument of step k, of "" all of them.
func (s *batchSample) evidence(k int, arg string) (e Evidence) {
	values := map[uint64]struct{}{}
	for i := range s.seen {
		present, knew := false, true
		for _, a := range s.seen[i].args {
			if a.step != k || arg != "" && a.name != arg {
				continue
			}
			present, knew = true, knew && a.knew
			for _, v := range a.values {
				values[v] = struct{}{}
			}
		}
		if !present {
			continue
		}
		e.Present++
		if knew {
			e.Held++
			cite(&e.Supporting, s.seen[i].session)
		} else {
			cite(&e.Contradicting, s.seen[i].session)
		}
	}
	e.Distinct = len(values)
	return e
}

// inputName is a name that is not taken: the last part of a tool's name, with what else tells it apart.
func inputName(taken map[string]bool, name, suffix string) string {
	name = name[strings.LastIndexAny(name, "./:")+1:]
	if suffix != "" {
		name = strings.Map(func(r rune) rune {
			if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
				return r
			}
			return '_'
		}, name)
		if name == "" || name[0] >= '0' && name[0] <= '9' {
			name = "_" + name
		}
	}
	if name == "" { // what ends in a separator
		name = "value"
	}
	out := name + suffix
	for n := 2; taken[out]; n++ {
		out = fmt.Sprintf("%s%s_%d", name, suffix, n)
	}
	taken[out] = true
	return out
}

// minBatchGain is the share that a batch must add to what the flows before it save, those that are proposed among them, to be
// worth a look: batches are convenient rather than sure, and there is no end to small ones.
const minBatchGain = 0.02

// batchFlows ranks the batches by what each adds to the flows that are proposed, which taken has, and to the batches
// before it. Those that are not worth a look are secondary.
func (m *miner) batchFlows(taken *cover, chosen []proof, most int) []proof {
	taken.flows = m.spans(m.batches)
	var out []proof
	total := 0.0
	for _, saved := range taken.saved {
		total += saved
	}
	for _, r := range taken.rank(m.options.MinGain/m.scale, func(i int) bool { return m.batches[i].worthwhile() }, most) {
		p := m.batches[r.flow]
		p.score = m.scale * r.gain
		total += r.gain
		alone := slices.ContainsFunc(chosen, func(c proof) bool {
			return !c.secondary && c.log == p.log && slices.Equal(c.stats.tokens, p.stats.tokens) && asksAll(c.flow)
		})
		p.secondary = true
		switch {
		case !p.worthwhile():
			p.why = fmt.Sprintf("callers knew more than the first call in %d of %d occurrences only", p.batch.Several, p.batch.Examined)
			p.unblock = "Callers who know the calls more often."
		case alone:
			p.why, p.unblock = "there is a flow for which callers give the one value that differs from call to call", "Rejecting that flow."
		case r.tier > 0:
			p.why, p.unblock = m.servedByOthers(p.score, m.scale*taken.flows[r.flow].alone)
		case r.gain < minBatchGain*total:
			p.why = fmt.Sprintf("it would avoid %.0f model calls, and the flows before it %.0f", p.score, m.scale*(total-r.gain))
			p.unblock = "More occurrences."
		default:
			p.secondary = false
		}
		out = append(out, p)
	}
	return out
}

// worthwhile reports whether callers know several of the calls mostly; or, where a step loops or they follow each other
// more often than by chance, often enough.
func (p *proof) worthwhile() bool {
	b := p.batch
	return 2*b.Several >= b.Examined || 5*b.Several >= b.Examined && (p.stats.stands() || p.each != nil)
}

// batchExamples are occurrences, cut to the calls that callers knew where they knew several.
func (p *proof) batchExamples(most int) []Occurrence {
	var out []Occurrence
	for i, w := range p.windows {
		if p.known[i] < 2 || len(out) == most {
			continue
		}
		o := p.log.occurrence(w, p.stats.level)
		o.Calls = o.Calls[:p.known[i]]
		left := p.known[i]
		for k, n := range o.Sizes {
			o.Sizes[k] = min(n, left)
			left -= o.Sizes[k]
		}
		if o.Sizes == nil {
			o.Sizes = make([]int, p.stats.level)
			for k := range p.known[i] {
				o.Sizes[k] = 1
			}
		}
		out = append(out, o)
	}
	return out
}
