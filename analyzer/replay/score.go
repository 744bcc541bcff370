// Package replay scores flows on recorded sessions: which model calls they would have saved, had agents called them.
// It reads flows and sessions and knows nothing of how flows are found.
//
// A flow applies at a position of a stretch where (a) the next calls are of its tools, (b) nothing but calls of
// neighbouring turns lies between them, (c) none failed, (d) every recorded argument after the first call is what the
// flow would have passed, computed from the recorded results, and nothing else would have been passed, and (e) every
// input of the flow was knowable: the user had written it, an argument or result of an earlier turn holds it, or it is an
// argument of the first call. Of the first call (d) asks that constants are as recorded.
//
// An input whose default is null may be left out. The caller gives it where it knows a value that makes the flow pass
// what was recorded, and leaves it out where the flow does so without it, where it knows none, or where the next call is
// of none of the flow's steps. A guard may then hand back before the step; a run that hands back before it saved a model
// call is no window. A run that lacks a required input, or whose first call would have an argument that the input schema
// does not list, is refused before its first call, so it has no effects. What the caller gives is no prediction.
//
// Calls covered by disjoint applications
// save their distinct turns less one; where applications overlap, the choice that saves most counts.
package replay

import (
	"cmp"
	"slices"
)

// TopK are the numbers of reviewed flows at which the curve is taken.
var TopK = [...]int{5, 10, 20, 40}

// Outcome is what a list of flows would have done for sessions. Outcomes of several sessions add up.
type Outcome struct {
	Sessions, Calls            int
	LLMCalls, RecordedLLMCalls int
	RepeatTurns                int
	Saved, SavedFree, Covered  int // SavedFree: with free-text inputs counted as known
	SavedTop                   [len(TopK)]int
	Predicted, Correct         int // of the first flow of each sequence of tools that predicts anything
	AllPredicted, AllCorrect   int // of every flow
	Starts, Triggered          int // positions with the first tool of a flow; with an application
	Extra                      int // calls that supersets would add
	Windows, InexactWindows    int
	UnknownInputWindows        int   // of the inexact ones those that are exact but for inputs that the caller could not give
	DestructiveInexact         int   // calls with side effects that inexact applications would have made
	Recorded, Avoided          Usage // of all model calls, and of those that are saved
}

// Add adds another outcome.
func (o *Outcome) Add(p *Outcome) {
	o.Sessions += p.Sessions
	o.Calls += p.Calls
	o.LLMCalls += p.LLMCalls
	o.RecordedLLMCalls += p.RecordedLLMCalls
	o.RepeatTurns += p.RepeatTurns
	o.Saved += p.Saved
	o.SavedFree += p.SavedFree
	o.Covered += p.Covered
	for i := range o.SavedTop {
		o.SavedTop[i] += p.SavedTop[i]
	}
	o.Predicted += p.Predicted
	o.Correct += p.Correct
	o.AllPredicted += p.AllPredicted
	o.AllCorrect += p.AllCorrect
	o.Starts += p.Starts
	o.Triggered += p.Triggered
	o.Extra += p.Extra
	o.Windows += p.Windows
	o.InexactWindows += p.InexactWindows
	o.UnknownInputWindows += p.UnknownInputWindows
	o.DestructiveInexact += p.DestructiveInexact
	o.Recorded.Add(&p.Recorded)
	o.Avoided.Add(&p.Avoided)
}

// FlowOutcome is what is known of one flow over all sessions scored.
type FlowOutcome struct {
	Windows, Exact     int // windows that fit the tools, and those that are applications
	ExactSaved         int // turns that its applications would save, before flows compete
	Used, Saved        int // applications that the segmentation chose, and what they save
	Predicted, Correct int
	DestructiveInexact int
	Arguments          map[Argument]Rate
	// Faults counts the inexact windows by each of their faults, and the turns that they would have saved.
	Faults map[Fault]Loss
}

// Loss is what inexact windows would have saved.
type Loss struct{ Windows, Turns int }

// Argument is an argument of a flow's step in order of execution; Arg "" is the length of a for_each list.
type Argument struct {
	Step int
	Arg  string
}

// Rate counts predictions and those that were right.
type Rate struct{ Right, Of int }

// Scorer scores sessions against flows in rank order, best first. It is not safe for concurrent use.
type Scorer struct {
	flows  []*Flow
	starts map[string][]int // tool -> flows that may begin with it, in rank order
	kept   *Matches         // nil: nothing is kept
	// ByFlow is parallel to the flows.
	ByFlow []FlowOutcome
}

// NewScorer returns a scorer of flows in rank order.
func NewScorer(flows []*Flow) *Scorer {
	sc := &Scorer{flows: flows, starts: map[string][]int{}, ByFlow: make([]FlowOutcome, len(flows))}
	for i, f := range flows {
		sc.ByFlow[i].Arguments, sc.ByFlow[i].Faults = map[Argument]Rate{}, map[Fault]Loss{}
		for _, tool := range f.starts() {
			sc.starts[tool] = append(sc.starts[tool], i)
		}
	}
	return sc
}

// Matches keeps what flows laid over sessions gave, for scorers of the same flows, by identity, and the same sessions. It is
// not safe for concurrent use.
type Matches struct {
	of map[laid]*Match
}

// laid is a flow laid over calls of a session.
type laid struct {
	flow          *Flow
	session       *Session
	stretch, from int
}

// NewMatches returns an empty Matches.
func NewMatches() *Matches { return &Matches{of: map[laid]*Match{}} }

// Keep makes the scorer keep its matches there and take those that are there already. It returns the scorer.
func (sc *Scorer) Keep(matches *Matches) *Scorer {
	sc.kept = matches
	return sc
}

// lay lays a flow over the calls of the n-th stretch from a position; nil when they do not fit.
func (sc *Scorer) lay(f *Flow, s *Session, n, from int) *Match {
	stretch := s.stretches[n]
	if !f.mayFit(stretch[from:]) {
		return nil
	}
	if sc.kept == nil {
		return f.at(s, stretch, from)
	}
	key := laid{f, s, n, from}
	m, known := sc.kept.of[key]
	if !known {
		m = f.at(s, stretch, from)
		sc.kept.of[key] = m
	}
	return m
}

// application is a flow that fits from a position of a stretch.
type application struct {
	flow  int
	from  int
	match *Match
}

// Session scores one session.
func (sc *Scorer) Session(s *Session) Outcome {
	out := Outcome{Sessions: 1, Calls: s.Calls, LLMCalls: s.LLMCalls, RecordedLLMCalls: s.RecordedLLMCalls, RepeatTurns: s.RepeatTurns, Recorded: s.Recorded}
	for n, stretch := range s.stretches {
		strict, free := sc.stretch(s, n, &out)
		for _, a := range best(len(stretch), strict) {
			out.Saved += a.match.Saved
			out.Covered += a.match.Calls
			spared := s.spared(stretch[a.from : a.from+a.match.Calls])
			out.Avoided.Add(&spared)
			sc.ByFlow[a.flow].Used++
			sc.ByFlow[a.flow].Saved += a.match.Saved
		}
		for _, a := range best(len(stretch), free) {
			out.SavedFree += a.match.Saved
		}
		for i, k := range TopK {
			top := slices.DeleteFunc(slices.Clone(strict), func(a application) bool { return a.flow >= k })
			for _, a := range best(len(stretch), top) {
				out.SavedTop[i] += a.match.Saved
			}
		}
	}
	return out
}

// stretch lays every flow over every position of a stretch, counts, and returns the applications, and those that also
// take free texts as known.
func (sc *Scorer) stretch(s *Session, n int, out *Outcome) (strict, free []application) {
	stretch := s.stretches[n]
	for from := range stretch {
		candidates := sc.starts[stretch[from].tool]
		if len(candidates) == 0 {
			continue
		}
		out.Starts++
		applies, extra := false, 0
		counted := map[string]bool{}
		for _, i := range candidates {
			m := sc.lay(sc.flows[i], s, n, from)
			if m == nil || m.useless() {
				continue
			}
			sc.count(i, m, out, counted)
			switch {
			case m.Fits():
				applies = true
				strict = append(strict, application{i, from, m})
				free = append(free, application{i, from, m})
			case m.Exact && m.KnownFree:
				free = append(free, application{i, from, m})
			case m.superset() && extra == 0:
				extra = m.Extra
			}
		}
		if applies {
			out.Triggered++
		} else {
			out.Extra += extra
		}
	}
	return strict, free
}

// Window is a flow laid over calls of a session that fit its tools.
type Window struct {
	Flow  int   // index of the flow
	Calls []int // positions among the recorded calls of the session; of repeats the one whose result counts
	*Match
}

// Windows lists every window of every flow in a session, those of one flow by where they begin. They may overlap.
func (sc *Scorer) Windows(s *Session) []Window {
	var out []Window
	for n, stretch := range s.stretches {
		for from := range stretch {
			for _, i := range sc.starts[stretch[from].tool] {
				m := sc.lay(sc.flows[i], s, n, from)
				if m == nil || m.useless() {
					continue
				}
				w := Window{Flow: i, Match: m}
				for _, c := range stretch[from : from+m.Calls] {
					w.Calls = append(w.Calls, c.answer)
				}
				out = append(out, w)
			}
		}
	}
	return out
}

// superset reports whether the flow would have done what was recorded and more of the same.
func (m *Match) superset() bool {
	return m.Extra > 0 && m.Known && !slices.ContainsFunc(m.arguments, func(v verdict) bool { return !v.right && v.arg != "" })
}

// count notes the predictions of one window. counted holds the sequences of tools whose predictions were taken at
// this position.
func (sc *Scorer) count(flow int, m *Match, out *Outcome, counted map[string]bool) {
	f, by := sc.flows[flow], &sc.ByFlow[flow]
	by.Windows++
	out.Windows++
	by.Predicted += m.Predicted
	by.Correct += m.Correct
	out.AllPredicted += m.Predicted
	out.AllCorrect += m.Correct
	for _, v := range m.arguments {
		at := Argument{v.step, v.arg}
		r := by.Arguments[at]
		r.Of++
		if v.right {
			r.Right++
		}
		by.Arguments[at] = r
	}
	if m.Predicted > 0 && !counted[f.tools] {
		counted[f.tools] = true
		out.Predicted += m.Predicted
		out.Correct += m.Correct
	}
	if m.Fits() {
		by.Exact++
		by.ExactSaved += m.Saved
		return
	}
	out.InexactWindows++
	if m.Exact {
		out.UnknownInputWindows++
	}
	for _, fault := range m.faults {
		loss := by.Faults[fault]
		loss.Windows++
		loss.Turns += m.Saved
		by.Faults[fault] = loss
	}
	by.DestructiveInexact += m.Effects
	out.DestructiveInexact += m.Effects
}

// best chooses disjoint applications of the most turns saved; among equals the fewest, then those that start last.
func best(n int, all []application) []application {
	if len(all) == 0 {
		return nil
	}
	type state struct{ saved, used, choice int } // from a position on; choice is an index into all, -1 to go on
	byStart := slices.Clone(all)
	slices.SortStableFunc(byStart, func(a, b application) int { return cmp.Compare(a.from, b.from) })
	states := make([]state, n+1)
	at := len(byStart)
	for from := n - 1; from >= 0; from-- {
		next := states[from+1]
		states[from] = state{next.saved, next.used, -1}
		end := at
		for at > 0 && byStart[at-1].from == from {
			at--
		}
		for i := at; i < end; i++ {
			m := byStart[i].match
			rest := states[from+m.Calls]
			s := state{rest.saved + m.Saved, rest.used + 1, i}
			if s.saved > states[from].saved || s.saved == states[from].saved && s.used < states[from].used {
				states[from] = s
			}
		}
	}
	var out []application
	for from := 0; from < n; {
		i := states[from].choice
		if i < 0 {
			from++
			continue
		}
		out = append(out, byStart[i])
		from += byStart[i].match.Calls
	}
	return out
}
