package observer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Verdict says what became of a path.
type Verdict string

const (
	VerdictPattern     Verdict = "pattern"      // it is a pattern for people to see
	VerdictSecondary   Verdict = "secondary"    // it is one that better ones leave little for
	VerdictBlocked     Verdict = "blocked"      // something blocks it: see Blocked
	VerdictServed      Verdict = "served"       // a pattern contains it
	VerdictGoesOn      Verdict = "goes_on"      // nearly always a longer path
	VerdictBranch      Verdict = "branch"       // agents decide on the way
	VerdictChance      Verdict = "chance"       // no more frequent than chance explains
	VerdictInfrequent  Verdict = "infrequent"   // in too few sessions
	VerdictAbsent      Verdict = "absent"       // it never occurs
	VerdictUnknownTool Verdict = "unknown_tool" // one of the tools is never called
	VerdictNotExamined Verdict = "not_examined" // frequent, but others came first up to the limit
)

// Explanation says why a path is or is not a pattern, and what would change that.
type Explanation struct {
	Tools       []string
	Verdict     Verdict
	Occurrences int // without overlaps
	Sessions    int
	Failures    int // occurrences with a failed call
	MinSessions int // that a path needs
	// StepConfidence is as in Pattern; Expected the occurrences by chance.
	StepConfidence []float64
	Expected       float64
	// Before and After are what surrounds its windows, most frequent first, at most five; "" is the end of the stretch.
	Before, After []Neighbour
	Pattern       *Pattern // VerdictPattern and VerdictSecondary
	Blocked       *Blocked // VerdictBlocked
	Detail        string   // why, in a sentence
	Unblock       string   // what would change it; "" where nothing needs to
}

// Neighbour is a tool beside a path with the number of windows.
type Neighbour struct {
	Tool    string
	Windows int
}

const maxNeighbours = 5

// Explain looks at one path in the sequences as they are now, and at what the last pass, by the same options, found. It
// reads all sequences once. last may be nil.
func Explain(ctx context.Context, src Source, last *Result, tools []string, options Options) (*Explanation, error) {
	o := options.withDefaults()
	raw, names, err := readAll(ctx, src, o)
	if err != nil {
		return nil, err
	}
	skip := toolSet(o.SkipTools)
	if last != nil {
		for _, n := range last.Noise {
			skip[n.Tool] = skip[n.Tool] || n.Skipped
		}
	}
	log := normalise(raw, names, skip)
	e := &explainer{log: log, options: o, last: last, Explanation: &Explanation{Tools: tools,
		MinSessions: int(o.minSessions(len(log.sessions)))}}
	e.explain()
	return e.Explanation, nil
}

type explainer struct {
	*Explanation
	log     *calls
	options Options
	last    *Result
	occ     []int // of the prefixes, by their length less one
}

func (e *explainer) verdict(v Verdict, unblock, detail string, args ...any) {
	e.Verdict, e.Detail, e.Unblock = v, fmt.Sprintf(detail, args...), unblock
}

func (e *explainer) explain() {
	tokens := make([]uint32, len(e.Tools))
	for i, name := range e.Tools {
		t, ok := slices.BinarySearch(e.log.tools, name)
		if !ok || !slices.Contains(e.log.tok, uint32(t)) {
			e.verdict(VerdictUnknownTool, "Check the name, or record sessions that call it.", "No session read has a call of %s that is not left out.%s", name, e.similar(name))
			return
		}
		tokens[i] = uint32(t)
	}
	e.count(tokens)
	switch {
	case e.gapped():
	case e.Occurrences == 0:
		e.absent(tokens)
	case e.inResult():
	case e.Sessions < e.MinSessions:
		e.verdict(VerdictInfrequent, fmt.Sprintf("%d more sessions with it, or a lower mining.min_sessions or mining.min_share.", e.MinSessions-e.Sessions),
			"It occurs in %d sessions, and a path needs %d.", e.Sessions, e.MinSessions)
	case e.served():
	case e.goesOn():
	default:
		e.strength()
	}
}

// count fills in the figures.
func (e *explainer) count(tokens []uint32) {
	prefixes := make([][]uint32, len(tokens))
	for i := range prefixes {
		prefixes[i] = tokens[:i+1]
	}
	tree := newPrefixTree(len(e.log.tools), prefixes)
	e.occ = make([]int, len(tokens))
	free := make([]uint32, len(tokens))
	before, after := map[uint32]int{}, map[uint32]int{}
	end := uint32(len(e.log.tools))
	last, full := uint32(0), len(tokens)-1
	for s := range e.log.stretches() {
		from, to := e.log.starts[s], e.log.starts[s+1]
		tree.walk(e.log, uint32(s), func(k int, i, j uint32) {
			if i >= free[k] {
				free[k] = j
				e.occ[k]++
				if k == full && e.log.failed[j-1] {
					e.Failures++
				}
			}
			if k != full {
				return
			}
			if session := e.log.session(uint32(s)) + 1; session != last {
				last = session
				e.Sessions++
			}
			prev, next := end, end
			if i > from {
				prev = e.log.tok[i-1]
			}
			if j < to {
				next = e.log.tok[j]
			}
			before[prev]++
			after[next]++
		})
	}
	e.Occurrences = e.occ[full]
	for k := 1; k <= full; k++ {
		e.StepConfidence = append(e.StepConfidence, float64(e.occ[k])/float64(max(1, e.occ[k-1])))
	}
	e.Before, e.After = e.neighbours(before), e.neighbours(after)
	e.Expected = e.expected(tokens)
}

func (e *explainer) neighbours(counts map[uint32]int) []Neighbour {
	out := make([]Neighbour, 0, len(counts))
	for t, n := range counts {
		name := ""
		if int(t) < len(e.log.tools) {
			name = e.log.tools[t]
		}
		out = append(out, Neighbour{name, n})
	}
	slices.SortFunc(out, func(a, b Neighbour) int {
		return cmp.Or(cmp.Compare(b.Windows, a.Windows), strings.Compare(a.Tool, b.Tool))
	})
	return out[:min(len(out), maxNeighbours)]
}

func (e *explainer) expected(tokens []uint32) float64 {
	model := newNull(e.log, &gramTable{})
	var pairs [][]uint32
	for i := range len(tokens) - 1 {
		if pair := tokens[i : i+2]; !slices.ContainsFunc(pairs, func(p []uint32) bool { return slices.Equal(p, pair) }) {
			pairs = append(pairs, pair)
		}
	}
	tree := newPrefixTree(len(e.log.tools), pairs)
	for s := range e.log.stretches() {
		tree.walk(e.log, uint32(s), func(k int, _, _ uint32) { model.pairs[[2]uint32{pairs[k][0], pairs[k][1]}]++ })
	}
	for _, t := range tokens[:len(tokens)-1] {
		if model.continues[t] == 0 {
			return 0
		}
	}
	return model.expected(tokens)
}

// absent says how far the path is walked.
func (e *explainer) absent(tokens []uint32) {
	n := 0
	for n < len(e.occ) && e.occ[n] > 0 {
		n++
	}
	follows := map[uint32]int{}
	tree := newPrefixTree(len(e.log.tools), [][]uint32{tokens[:n]})
	for s := range e.log.stretches() {
		tree.walk(e.log, uint32(s), func(_ int, _, j uint32) {
			next := uint32(len(e.log.tools))
			if j < e.log.starts[s+1] {
				next = e.log.tok[j]
			}
			follows[next]++
		})
	}
	e.After = e.neighbours(follows)
	next := "the stretch ends"
	if t := e.After[0].Tool; t != "" {
		next = t + " follows"
	}
	e.verdict(VerdictAbsent, "Record sessions in which agents walk it without a user message or a text answer in between.",
		"%s occurs %d times and %s never follows it at once; most often %s.", arrow(e.Tools[:n]), e.occ[n-1], e.Tools[n], next)
}

// gapped looks for a pattern with other calls between the steps.
func (e *explainer) gapped() bool {
	if e.last == nil {
		return false
	}
	at := slices.IndexFunc(e.last.Patterns, func(p Pattern) bool { return p.Gap != nil && slices.Equal(p.Tools, e.Tools) })
	if at < 0 {
		return false
	}
	e.Pattern = &e.last.Patterns[at]
	e.verdict(VerdictPattern, "", "It is a pattern of %d occurrences with other calls between its steps, at most %d at a time; a flow for it makes its calls one right after the other and would have avoided %.0f model calls.",
		e.Pattern.Gap.Occurrences, e.Pattern.Gap.Longest, e.Pattern.Score)
	return true
}

// inResult looks among the patterns and the blocked paths of the last pass.
func (e *explainer) inResult() bool {
	if e.last == nil {
		return false
	}
	var found *Pattern
	for i := range e.last.Patterns {
		p := &e.last.Patterns[i]
		if slices.Equal(p.Tools, e.Tools) && (found == nil || found.Secondary && !p.Secondary) {
			found = p
		}
	}
	at := slices.IndexFunc(e.last.Blocked, func(b Blocked) bool { return slices.Equal(b.Tools, e.Tools) })
	switch {
	case found != nil && !found.Secondary:
		e.Pattern = found
		e.verdict(VerdictPattern, "", "It is a pattern; a flow for it would have avoided %.0f model calls that no better one does.", found.Score)
	case at >= 0:
		b := e.last.Blocked[at]
		e.Blocked, e.Pattern = &b, found
		e.verdict(VerdictBlocked, b.Unblock, "%s", b.Detail)
	case found != nil:
		e.Pattern = found
		e.verdict(VerdictSecondary, found.Unblock,
			"A flow for it works, but %s: it would avoid %.0f model calls that no better one does.", found.Why, found.Score)
	default:
		return e.stopped()
	}
	return true
}

// stopped looks for a choice at the start of the path that blocks all that starts so.
func (e *explainer) stopped() bool {
	for i := range e.last.Blocked {
		b := e.last.Blocked[i]
		if b.Reason == "choice" && len(b.Tools) < len(e.Tools) && slices.Equal(b.Tools, e.Tools[:len(b.Tools)]) {
			e.Blocked = &b
			e.verdict(VerdictBlocked, b.Unblock, "It begins with %s, which is blocked: %s", arrow(b.Tools), b.Detail)
			return true
		}
	}
	return false
}

func (e *explainer) served() bool {
	if e.last == nil {
		return false
	}
	for i := range e.last.Patterns {
		p := &e.last.Patterns[i]
		if p.Secondary {
			continue
		}
		if k := p.optionalStep(); k >= 0 && slices.Equal(slices.Delete(slices.Clone(p.Tools), k, k+1), e.Tools) {
			e.verdict(VerdictServed, "", "It is the pattern %s without its optional step %s.", arrow(p.Tools), p.Tools[k])
			return true
		}
		whole, part := p.Tools, e.Tools
		longer := len(part) > len(whole)
		if longer {
			whole, part = part, whole
		}
		if !within(whole, part) {
			continue
		}
		if longer {
			e.verdict(VerdictServed, "", "It contains the pattern %s, which occurs %d times against %d and is proposed instead.", arrow(p.Tools), p.Occurrences, e.Occurrences)
		} else {
			e.verdict(VerdictServed, "", "It is a part of the pattern %s.", arrow(p.Tools))
		}
		return true
	}
	return false
}

// optionalStep is the step that agents leave out now and then, -1 when there is none.
func (p *Pattern) optionalStep() int {
	if p.DataFlow == nil {
		return -1
	}
	return slices.IndexFunc(p.DataFlow.Steps, func(s StepFlow) bool { return s.When != nil })
}

// within reports whether part lies in whole without gaps.
func within(whole, part []string) bool {
	for i := 0; i+len(part) <= len(whole); i++ {
		if slices.Equal(whole[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

func (e *explainer) goesOn() bool {
	for i, list := range [][]Neighbour{e.After, e.Before} {
		side := [...]string{"is followed by", "follows"}[i]
		if n := list[0]; n.Tool != "" && float64(n.Windows) >= (1-e.options.Delta)*float64(e.Occurrences) {
			e.verdict(VerdictGoesOn, "Nothing: look at the longer path.", "In %d of its %d occurrences it %s %s: the longer path is looked at instead.",
				min(n.Windows, e.Occurrences), e.Occurrences, side, n.Tool)
			return true
		}
	}
	return false
}

// strength is the verdict on a frequent path that no list has.
func (e *explainer) strength() {
	weakest := 0
	for k, c := range e.StepConfidence {
		if c < e.StepConfidence[weakest] {
			weakest = k
		}
	}
	switch {
	case e.StepConfidence[weakest] < branchBelow:
		b := Blocked{Tools: e.Tools, Reason: "branch", Step: weakest + 1}
		e.verdict(VerdictBranch, b.remedy(),
			"After step %d (%s) only %.0f %% of the occurrences go on with %s: the agent decides there.",
			weakest+1, e.Tools[weakest], 100*e.StepConfidence[weakest], e.Tools[weakest+1])
	case float64(e.Occurrences) <= e.Expected:
		e.verdict(VerdictChance, "More sessions, if it is a routine.", "It occurs %d times where %.1f are expected by chance.", e.Occurrences, e.Expected)
	default:
		e.verdict(VerdictNotExamined, "A higher mining.max_evaluated, or a new pass.", "It is frequent, and the last pass did not examine it: others came first, or it is newer than the pass.")
	}
}

// similar names tools whose names have the same words, for a name that is not there.
func (e *explainer) similar(name string) string {
	var near []string
	plain := plainName(name)
	for _, tool := range e.log.tools {
		if other := plainName(tool); tool != name && plain != "" && (strings.Contains(other, plain) || strings.Contains(plain, other) && other != "") {
			near = append(near, tool)
		}
	}
	if len(near) == 0 {
		return ""
	}
	return " Did you mean " + strings.Join(near[:min(3, len(near))], ", ") + "?"
}
