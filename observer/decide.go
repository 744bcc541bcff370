package observer

import (
	"cmp"
	"slices"
	"strings"
)

// smallSample is the number of occurrences from which a source may miss some: 22 of 22 is the first perfect count
// whose Wilson bound reaches 0.85.
const smallSample = 22

// accepted is the rule for hits of n: all of a few, or a Wilson lower bound for more.
func (o *Options) accepted(hits, n int) bool {
	if n < smallSample {
		return n >= 3 && hits == n
	}
	return wilsonLower(hits, n) >= o.MinHeld
}

// present is an argument in one occurrence.
type present struct {
	record int
	arg    *argRecord
}

// argument is an argument of one step over all records that have it.
type argument struct {
	name string
	step int
	each bool // a list of which the step takes one element after the other
	in   []present
}

// candidate is a source with its votes.
type candidate struct {
	source source
	held   int
	begins int // lists: how often the elements used were its first ones
	chance float64
}

// decide explains the arguments of one pattern from its records.
func (m *inference) decide(s sample, records []record) evidence {
	if len(records) == 0 {
		return evidence{}
	}
	e := evidence{windows: make([]window, len(records))}
	for i := range records {
		e.windows[i] = records[i].window
		e.turns += float64(m.log.turnsSaved(records[i].window, records[i].calls()))
	}
	e.turns /= float64(len(records))
	d := decision{inference: m, tools: s.tools, records: records, optional: s.optional, without: newBitset(len(records))}
	for i := range records {
		if records[i].without {
			d.without.add(i)
		}
	}
	d.risky = m.options.Exactness >= 0 && slices.ContainsFunc(s.tools, m.options.Effects)
	for k := range s.tools {
		best := 0.0
		arguments, ok := collect(records, k), true
		if s.each != nil && s.each[k] {
			if arguments, ok = elementwise(arguments); !ok {
				return evidence{}
			}
		}
		for _, arg := range arguments {
			x := d.explain(arg)
			best = max(best, x.bestCopy)
			e.mapped = e.mapped || k > 0 && x.sure
			if x.choice() && e.blocker == nil {
				flow := d.render(&x, option{kind: SourceChoice})
				e.cut, e.blocker = k, &flow
				e.always = x.always > 0
				e.clear = max(x.bestCopy, x.bestConst) < clearMiss && unknownShare(arg, d.having(k)) > 1-clearMiss
			}
			d.arguments = append(d.arguments, x)
		}
		e.unlinked = e.unlinked || k > 0 && best < clearMiss
	}
	e.variants = d.variants(e.blocker != nil)
	if s.optional > 0 {
		cases := make([]guardCase, len(records))
		for i := range records {
			cases[i] = guardCase{session: records[i].session, result: records[i].before, runs: !records[i].without}
		}
		e.guard = m.guard(cases, d.risky)
	}
	return e
}

// mostly is the presence from which on an argument counts as always given.
const mostly = 0.98

// collect gathers the arguments of step k by name.
func collect(records []record, k int) []argument {
	var out []argument
	at := map[string]int{}
	for r := range records {
		args := records[r].steps[k].args
		for i := range args {
			n, ok := at[args[i].name]
			if !ok {
				n = len(out)
				at[args[i].name] = n
				out = append(out, argument{name: args[i].name, step: k})
			}
			out[n].in = append(out[n].in, present{r, &args[i]})
		}
	}
	slices.SortFunc(out, func(a, b argument) int { return strings.Compare(a.name, b.name) })
	return out
}

// decision is the work on one pattern.
type decision struct {
	*inference
	tools     []string
	risky     bool // a step may change something
	records   []record
	optional  int // a step that the records without lack, 0 for none
	without   bitset
	arguments []explanation // by step and name
}

// having is the number of records with a step.
func (d *decision) having(step int) int {
	if step > 0 && step == d.optional {
		return len(d.records) - d.without.count()
	}
	return len(d.records)
}

// explanation is what is known of one argument.
type explanation struct {
	argument
	distinct  int
	ambiguous bool        // one value only, which a copy and a constant explain alike
	always    int         // occurrences with a value that would be a constant if a flow might hold it
	copies    []candidate // accepted, best first
	part      []candidate // seen in some occurrences, most votes first
	known     knowledge
	options   []option // the trusted source first, where there is one
	sure      bool     // there is one
	covered   bool     // in enough of the occurrences callers know it, or what tells it, or a source is there for those who do not
	// bestCopy and bestConst are the rates of the most successful source and of the most frequent value.
	bestCopy, bestConst float64
}

// choice reports whether the model chooses the value: nothing explains it and callers do not know it.
func (x *explanation) choice() bool { return !x.sure && !x.known.knowable && !x.covered }

// first is the option that explains the argument over all occurrences: the trusted source, else an input, or leaving
// it out where that is right more often.
func (x *explanation) first() option {
	var best *option
	for i := range x.options {
		o := &x.options[i]
		if o.kind == SourceInput && !x.known.knowable || (o.given || o.asked) && !x.covered {
			continue
		}
		if best == nil || o.held.count() > best.held.count() && !(x.sure && (o.kind == SourceInput || o.given)) {
			best = o
		}
	}
	if x.choice() || best == nil {
		return option{kind: SourceChoice, held: newBitset(0)}
	}
	return *best
}

// explain finds the source of one argument. A source in doubt gives way to an input where callers know the value: a
// flow that is asked for one value more is worth more than one that is sometimes wrong.
func (d *decision) explain(a argument) explanation {
	if a.each {
		return d.explainEach(a)
	}
	d.assemble(a)
	d.believe(a)
	d.complete(a)
	x := explanation{argument: a, distinct: distinct(a)}
	x.copies = d.copies(a, &x)
	constant, constHeld := d.constant(a, &x)
	best, ok := d.best(a, x.copies)
	if x.distinct == 1 && constHeld > 0 {
		best, ok = d.named(a, x.copies, constant)
		x.ambiguous = ok || len(x.copies) > 0 && !uninformative(constant)
	}
	if constHeld == 0 {
		x.always = d.alwaysSame(a)
	}
	x.known = d.knowledge(a)
	switch {
	case ok && best.held >= constHeld && d.trusted(a, best, x.distinct, x.known) && d.validated(a, true, x.known):
		x.sure = true
		x.options = append(x.options, d.copyOption(a, best))
	case constHeld > 0 && d.trustedConst(a, constHeld, x.known) && d.validated(a, false, x.known):
		x.sure = true
		x.options = append(x.options, d.constOption(a, constant))
	}
	if d.risky && x.sure && a.step > 0 && !d.certain(&x) {
		x.sure, x.options = false, nil
	}
	x.options = append(x.options, d.others(&x)...)
	if d.having(a.step) < len(d.records) {
		for i := range x.options { // where the step is left out nothing is asked of its arguments
			x.options[i].held.join(d.without)
		}
	}
	for _, o := range x.options {
		x.covered = x.covered || (o.given || o.asked) && float64(o.held.count()) >= d.options.MinKnowable*float64(len(d.records))
	}
	return x
}

// certain reports whether a trusted source may stand alone where a wrong value does harm: what callers never know, what
// says too little for them to give it, or what always was the value.
func (d *decision) certain(x *explanation) bool {
	return x.known.trivial || d.always(x) || !slices.ContainsFunc(x.in, func(p present) bool { return p.arg.origin.known() })
}

// always reports whether no occurrence contradicts the trusted source: a constant in enough sessions, a copy on as many
// different values.
func (d *decision) always(x *explanation) bool {
	o := &x.options[0]
	if len(x.in) < d.having(x.step) || o.held.count() < len(d.records) {
		return false
	}
	if o.kind == SourceConst {
		return d.sessions(o.held) >= d.options.MinAlways
	}
	return x.distinct >= d.options.MinAlways
}

// trusted reports whether an accepted copy is exact enough to stand. Where callers know the value, a copy between
// different names that rests on few different values counts as a habit of those few cases, such as a way back whose
// origin is the destination of the way there. So does a repeated tool, which is asked for something else. One element of
// a longer list is what a model chooses, so that rule of place needs many different values, too.
func (d *decision) trusted(a argument, c candidate, distinct int, known knowledge) bool {
	_, _, last := d.paths.shape(c.source.path)
	few := distinct < smallSample
	switch {
	case c.source.derived > 0:
		if few && d.forms.forms[c.source.derived].byPlace() {
			return false
		}
		return distinct >= minDerived && d.rightIn(d.options.MinSure, c.held, len(a.in))
	case c.source.arg != "" && d.tools[c.source.step] == d.tools[a.step] && distinct < minRepeated:
		return false
	case d.picksElement(a, c.source):
		return !few && d.rightIn(d.options.MinSure, c.held, len(a.in))
	case known.knowable:
		return d.rightIn(d.options.MinSure, c.held, len(a.in)) && distinct >= minDistinct && (!few || sameName(last+c.source.arg, a.name))
	}
	return d.rightIn(d.options.MinExact, c.held, len(a.in))
}

// The least number of different values that show a copy to be no coincidence of one case, and the same between calls of
// one tool.
const (
	minDistinct = 3
	minDerived  = 5 // of values that are computed
	minRepeated = 8
)

// trustedConst is trusted for constants: a few equal values that callers know prove no constant.
func (d *decision) trustedConst(a argument, held int, known knowledge) bool {
	if !known.knowable {
		return d.rightIn(d.options.MinExact, held, len(a.in))
	}
	return d.rightIn(d.options.MinSure, held, len(a.in)) && (known.trivial || len(a.in) >= smallSample)
}

// validated reports whether mappings of the argument hold on sessions that they were not found in.
func (d *decision) validated(a argument, copies bool, k knowledge) bool {
	return a.step == 0 || !k.knowable || d.crossValidated(a, copies) >= d.options.Exactness
}

func (d *decision) rightIn(share float64, held, n int) bool {
	if d.risky {
		return held == n
	}
	return float64(held) >= share*float64(n)
}

// picksElement reports whether a source is one element of a list that had others in at least a tenth of the
// occurrences.
func (d *decision) picksElement(a argument, s source) bool {
	siblings := d.paths.siblings(s.path)
	if s.arg != "" || len(siblings) == 0 {
		return false
	}
	longer := 0
	for _, p := range a.in {
		if slices.ContainsFunc(siblings, func(path uint32) bool {
			_, ok := d.records[p.record].at(source{step: s.step, path: path})
			return ok
		}) {
			longer++
		}
	}
	return 10*longer >= len(a.in)
}

func distinct(a argument) int {
	seen := map[uint64]struct{}{}
	for _, p := range a.in {
		seen[p.arg.hash] = struct{}{}
	}
	return len(seen)
}

// copies counts the votes of the sources and keeps those that the acceptance rule takes, chance not yet considered.
func (d *decision) copies(a argument, x *explanation) []candidate {
	votes := map[source]int{}
	for _, p := range a.in {
		for _, s := range p.arg.sources {
			votes[s]++
		}
	}
	var out []candidate
	for s, held := range votes {
		x.bestCopy = max(x.bestCopy, float64(held)/float64(len(a.in)))
		if held < minVotes || d.reveals(a, s) {
			continue
		}
		if !d.forms.byWord(s.derived) { // some element nearly always has a word of its own
			x.part = append(x.part, candidate{source: s, held: held})
		}
		if d.options.accepted(held, len(a.in)) {
			out = append(out, candidate{source: s, held: held})
		}
	}
	for i := range out {
		if out[i].source.derived == 0 { // of others it decides nothing, and is told of the one that is taken
			out[i].chance = d.chance(a, out[i].source)
		}
	}
	slices.SortFunc(out, func(x, y candidate) int { return d.prefer(a, x, y) })
	slices.SortFunc(x.part, func(x, y candidate) int { return d.prefer(a, x, y) })
	return out
}

// minVotes is the least number of occurrences that a source must explain to be considered for a part of them.
const minVotes = 3

// prefer orders candidates best first: votes, then outputs before arguments, then agreeing names, fewer array
// indexes, shorter pointers, the nearest step, and at last the pointer itself.
func (d *decision) prefer(a argument, x, y candidate) int {
	depthX, indexesX, lastX := d.paths.shape(x.source.path)
	depthY, indexesY, lastY := d.paths.shape(y.source.path)
	return cmp.Or(
		cmp.Compare(y.held, x.held),
		cmp.Compare(rankBool(x.source.derived == 0), rankBool(y.source.derived == 0)),
		cmp.Compare(d.forms.rank(x.source.derived), d.forms.rank(y.source.derived)),
		cmp.Compare(rankBool(x.source.arg == ""), rankBool(y.source.arg == "")),
		cmp.Compare(rankBool(sameName(lastX+x.source.arg, a.name)), rankBool(sameName(lastY+y.source.arg, a.name))),
		cmp.Compare(indexesX, indexesY),
		cmp.Compare(depthX, depthY),
		cmp.Compare(y.source.step, x.source.step),
		strings.Compare(x.source.arg, y.source.arg),
		strings.Compare(d.paths.pointer(x.source.path, false), d.paths.pointer(y.source.path, false)),
		strings.Compare(x.source.sub, y.source.sub),
		cmp.Compare(x.source.derived, y.source.derived),
	)
}

func rankBool(first bool) int {
	if first {
		return 0
	}
	return 1
}

// chance is the rate at which the source equals the argument across sessions: the source of one occurrence paired
// with the argument of another session's. Of a derived source the occurrences in which it gave the argument stand for all.
func (d *decision) chance(a argument, s source) float64 {
	type cell struct {
		session string
		hash    uint64
	}
	sources, bySession := map[uint64]int{}, map[cell]int{}
	perSession := map[string]int{}
	total := 0
	has := func(r int, h uint64) {
		sources[h]++
		bySession[cell{d.records[r].session, h}]++
		perSession[d.records[r].session]++
		total++
	}
	for r := range d.records {
		if h, ok := d.records[r].at(s); ok {
			has(r, h)
		}
	}
	if s.derived > 0 {
		for _, p := range a.in {
			if slices.Contains(p.arg.sources, s) {
				has(p.record, p.arg.hash)
			}
		}
	}
	equal, pairs := 0, 0
	for _, p := range a.in {
		id := d.records[p.record].session
		equal += sources[p.arg.hash] - bySession[cell{id, p.arg.hash}]
		pairs += total - perSession[id]
	}
	if pairs == 0 {
		return 1
	}
	return float64(equal) / float64(pairs)
}

// at returns the hash of the value that a source has in this record.
func (r *record) at(s source) (uint64, bool) {
	if s.derived > 0 {
		return 0, false
	}
	step := &r.steps[s.step]
	if s.arg != "" {
		i, ok := slices.BinarySearchFunc(step.args, s.arg, func(a argRecord, name string) int { return strings.Compare(a.name, name) })
		if !ok {
			return 0, false
		}
		return step.args[i].hash, true
	}
	i := slices.Index(step.result.paths, s.path)
	if i < 0 {
		return 0, false
	}
	return step.result.hashes[i], true
}

// best is the preferred source that is better than chance; the level is shared among the sources tried.
func (d *decision) best(a argument, copies []candidate) (candidate, bool) {
	for _, c := range copies {
		if c.source.derived > 0 {
			if distinct(a) >= minDistinct { // a computed value is no coincidence where it changes with its source
				return c, true
			}
			continue
		}
		if binomialTail(c.held, len(a.in), c.chance) < d.options.ChanceLevel/float64(len(copies)) {
			return c, true
		}
	}
	return candidate{}, false
}

// constant returns the most frequent value and how often it was seen, 0 when it cannot be a constant of the flow: too
// rare, of too few sessions, or personal.
func (d *decision) constant(a argument, x *explanation) (v any, held int) {
	top := mostFrequent(a)
	for _, p := range a.in {
		if p.arg.hash == top {
			held++
		}
	}
	x.bestConst = float64(held) / float64(len(a.in))
	if !d.options.accepted(held, len(a.in)) {
		return nil, 0
	}
	i := slices.IndexFunc(a.in, func(p present) bool { return p.arg.hash == top })
	if v = a.in[i].arg.value; !d.mayBeConstant(a, top, v) {
		return nil, 0
	}
	return v, held
}

// alwaysSame is in how many occurrences an argument has the value that nearly all have and that may be no constant, 0
// where there is none.
func (d *decision) alwaysSame(a argument) int {
	top := mostFrequent(a)
	held := 0
	for _, p := range a.in {
		if p.arg.hash == top {
			held++
		}
	}
	if !d.options.accepted(held, len(a.in)) || !d.rightIn(d.options.MinSure, held, len(a.in)) {
		return 0
	}
	return held
}

// named is the choice where only one value was ever seen, so that a copy and a constant cannot be told apart: a copy
// where the names agree, else the constant.
func (d *decision) named(a argument, copies []candidate, constant any) (candidate, bool) {
	for _, c := range copies {
		_, _, last := d.paths.shape(c.source.path)
		if c.source.derived == 0 && c.held == len(a.in) && sameName(last+c.source.arg, a.name) && !uninformative(constant) {
			return c, true
		}
	}
	return candidate{}, false
}
