package replay

import (
	"maps"
	"slices"

	"pave/flows"
	"pave/flows/predicate"
	"pave/flows/value"
)

// Match is a flow laid over recorded calls that fit its tools, without user text, turn gap or error inside: (a) to (c)
// of an application. It is an application where every argument is what the flow would have passed and every input
// could be known.
type Match struct {
	Calls int // calls covered, from the start
	Saved int // distinct turns - 1
	// Exact: every recorded argument is predicted or an input, and nothing else would be passed (d).
	Exact bool
	// Known: the caller could give every input (e); KnownFree: so it could if free texts count as known.
	Known, KnownFree bool
	// Predicted counts the arguments that the flow derives from the second step on, Correct those that are as
	// recorded.
	Predicted, Correct int
	// Extra are the further calls that a for_each step would make where the agent stopped early.
	Extra int
	// Effects are the calls of tools with side effects that the run would make.
	Effects int
	// Inputs are the flow's inputs as the recorded arguments tell them.
	Inputs map[string]any
	// HandedBack: a guard ends the run before its last step.
	HandedBack bool

	arguments []verdict
	faults    []Fault
	single    bool // the caller gave whole calls, and one in all
}

// Reason says what keeps a match from being an application.
type Reason string

// Reasons of faults.
const (
	Wrong    Reason = "wrong"    // the flow would pass something else
	Unmapped Reason = "unmapped" // the flow would not pass it
	Unknown  Reason = "unknown"  // an input that the caller could not give
	FreeText Reason = "text"     // the same, a text that a model may write before the first step
)

// Fault is one thing that keeps a match from being an application. Arg is an argument of the step, or the name of an
// input that the step is the first to take; "" is the length of a for_each list.
type Fault struct {
	Step   int
	Arg    string
	Reason Reason
}

// verdict is the outcome of one predicted argument; arg "" is the length of a for_each list.
type verdict struct {
	step  int
	arg   string
	right bool
}

// Fits reports whether the match is an application. A run that a guard ends before it saved anything is none, nor is one
// that is given a single call.
func (m *Match) Fits() bool { return m.Exact && m.Known && !m.idle() }

// idle reports whether the run saves nothing that could be known before: a guard ends it before it saved anything, or its
// caller gives a list of one call.
func (m *Match) idle() bool { return (m.HandedBack || m.single) && m.Saved == 0 }

// useless reports whether nobody would call the flow there, so that the match is no window.
func (m *Match) useless() bool { return m.Exact && m.Known && m.idle() }

// walk is one way of laying a flow over the calls of a stretch from a position.
type walk struct {
	flow  *Flow
	known *history
	calls []call // from the start of the window

	pos     int
	done    []bool // steps that took their calls or are ruled out
	skipped []bool
	context map[string]any // outputs so far
	inputs  map[string]any
	absent  map[string]bool   // optional inputs that the caller leaves out
	late    map[string]int    // inputs that an argument of a step after the first told, and that step
	given   map[Argument]bool // arguments that told an input which the caller might have left out
	waiting []pending
	refused bool // the caller has something to say in the first call that the flow does not take
	m       Match
	left    *int // ways that may still be tried
}

// maxWays bounds the ways of laying one flow over one window. Parallel steps of one tool have as many ways as they have
// orders; those that differ only in inputs tell the same, so that the first few decide.
const maxWays = 64

// pending is an argument whose source needs inputs that no argument has told yet.
type pending struct {
	step     int
	entry    *flows.MappingEntry
	recorded any
	present  bool
	element  any
}

// at lays the flow over the calls of a stretch from a position; nil when they do not fit. Of several ways, which only
// flows with parallel steps have, the application of maxWays that saves most counts, else the first exact one, else the first.
func (f *Flow) at(s *Session, stretch []call, from int) *Match {
	if !f.mayFit(stretch[from:]) {
		return nil
	}
	w := &walk{flow: f, known: s.known, calls: stretch[from:], done: make([]bool, len(f.steps)), skipped: make([]bool, len(f.steps)),
		context: map[string]any{}, inputs: map[string]any{}, absent: map[string]bool{}, late: map[string]int{}, given: map[Argument]bool{}, m: Match{Exact: true}, left: new(maxWays)}
	return w.run()
}

// mayFit reports whether the tools of the calls do not rule the flow out.
func (f *Flow) mayFit(calls []call) bool {
	return (!f.straight || f.follows(calls)) && (!f.fixed || f.holds(calls))
}

// follows reports whether the calls begin with the tools of a straight flow, without an error.
func (f *Flow) follows(calls []call) bool {
	if len(calls) < len(f.steps) {
		return false
	}
	for k := range f.steps {
		if calls[k].tool != f.steps[k].tool || calls[k].failed {
			return false
		}
	}
	return true
}

// holds reports whether the calls begin with those of a fixed flow in any order, without an error.
func (f *Flow) holds(calls []call) bool {
	if len(calls) < len(f.steps) {
		return false
	}
	taken := make([]bool, len(f.steps))
	for i := range calls[:len(f.steps)] {
		k := -1
		for j := range f.steps {
			if !taken[j] && f.steps[j].tool == calls[i].tool {
				k = j
				break
			}
		}
		if k < 0 || calls[i].failed {
			return false
		}
		taken[k] = true
	}
	return true
}

// run goes on from the current state to the end of the flow.
func (w *walk) run() *Match {
	for {
		w.ruleOut()
		ready := w.ready()
		if len(ready) == 0 {
			return w.finish()
		}
		next := w.candidates(ready)
		if len(next) > 1 {
			return w.choose(ready, next)
		}
		k := -1
		if len(next) == 1 {
			k = next[0]
		}
		if m, ended := w.step(ready, k); ended {
			return m
		}
	}
}

// candidates are the ready steps that the next call may be.
func (w *walk) candidates(ready []int) []int {
	if w.pos >= len(w.calls) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(ready), func(k int) bool { return w.flow.steps[k].tool != w.calls[w.pos].tool })
}

// step lets step k, one of the ready ones, have the next call; k is -1 when none may. ended: the walk ends here, with m.
func (w *walk) step(ready []int, k int) (m *Match, ended bool) {
	back, ok := w.guarded(ready, k)
	switch {
	case back:
		w.m.HandedBack = true
		return w.finish(), true
	case !ok || k < 0 || !w.take(k):
		return nil, true
	}
	return nil, false
}

// choose tries each of several steps that the next call may be. Of the ways that are applications that which saves most
// counts, else the first exact one, else the first.
func (w *walk) choose(ready, next []int) *Match {
	var chosen *Match
	for _, k := range next {
		if *w.left <= 0 {
			break
		}
		*w.left--
		way := w.clone()
		m, ended := way.step(ready, k)
		if !ended && (chosen == nil || way.m.Exact) {
			m = way.run()
		}
		if m != nil && (chosen == nil || m.better(chosen)) {
			chosen = m
		}
		if chosen != nil && chosen.Fits() && !chosen.HandedBack {
			break // the whole flow: no way covers more
		}
	}
	return chosen
}

// better reports whether one way of laying a flow over a window counts before another, which came first.
func (m *Match) better(other *Match) bool {
	if m.Fits() != other.Fits() {
		return m.Fits()
	}
	if !m.Fits() {
		return m.Exact && !other.Exact
	}
	return m.Saved > other.Saved
}

func (w *walk) clone() *walk {
	c := *w
	c.done, c.skipped = slices.Clone(w.done), slices.Clone(w.skipped)
	c.context, c.inputs = maps.Clone(w.context), maps.Clone(w.inputs)
	c.absent, c.late, c.given = maps.Clone(w.absent), maps.Clone(w.late), maps.Clone(w.given)
	c.waiting = slices.Clone(w.waiting)
	c.m.arguments, c.m.faults = slices.Clone(w.m.arguments), slices.Clone(w.m.faults)
	return &c
}

// ruleOut marks the steps whose dependencies are all ruled out by branches.
func (w *walk) ruleOut() {
	if !w.flow.branching {
		return
	}
	for k := range w.flow.steps {
		s := &w.flow.steps[k]
		if !w.skipped[k] && len(s.deps) > 0 && !slices.ContainsFunc(s.deps, func(d int) bool { return !w.skipped[d] }) {
			w.skipped[k] = true
		}
		if w.skipped[k] {
			w.done[k] = true
		}
	}
}

// ready lists the steps that may come next.
func (w *walk) ready() []int {
	var out []int
	for k := range w.flow.steps {
		if !w.done[k] && !slices.ContainsFunc(w.flow.steps[k].deps, func(d int) bool { return !w.done[d] }) {
			out = append(out, k)
		}
	}
	return out
}

// guarded evaluates the guards of the steps that may come next, chosen being the one that has the next call. Those of its
// own tool, and those that an input decides which nothing has told yet, have their turn later. Where no step has the next
// call the caller has another one in mind, and leaves out what may be left out. back: a guard is false and the run ends
// here, all steps before its level being done and none of it. ok is false where a guard has no clear answer.
func (w *walk) guarded(ready []int, chosen int) (back, ok bool) {
	for _, k := range ready {
		s := &w.flow.steps[k]
		if k == chosen && w.pos > 0 && (s.forEach == nil || s.given != "") {
			w.tell(k)
		}
		switch {
		case s.guard == nil:
			continue
		case chosen < 0:
			w.leaveOutOf(s.guard)
		case k != chosen && (s.tool == w.flow.steps[chosen].tool || w.undecided(s.guard)):
			continue
		}
		holds, err := s.guard.Eval(w.everything(nil, ""))
		if err != nil {
			return false, false
		}
		if holds {
			continue
		}
		for i := range w.flow.steps {
			if before := w.flow.steps[i].level < s.level; w.done[i] != before && !w.skipped[i] {
				return false, false
			}
		}
		return true, true
	}
	return false, true
}

// undecided reports whether a guard reads an input that callers may leave out and that nothing has told yet.
func (w *walk) undecided(guard *predicate.Predicate) bool {
	return slices.ContainsFunc(guard.Names(), w.open)
}

// leaveOutOf leaves out the inputs of a guard that nothing has told yet.
func (w *walk) leaveOutOf(guard *predicate.Predicate) {
	for _, name := range guard.Names() {
		if w.open(name) {
			w.leaveOut(name)
		}
	}
}

// everything is the context as a step sees it.
func (w *walk) everything(element any, as string) map[string]any {
	all := maps.Clone(w.inputs)
	maps.Copy(all, w.context)
	if as != "" {
		all[as] = element
	}
	return all
}

// take lets a step have the next call, or calls. It reports whether they fit.
func (w *walk) take(k int) bool {
	s := &w.flow.steps[k]
	n := 1
	if s.forEach != nil {
		if n = w.group(k); n == 0 {
			return false
		}
	} else {
		w.compare(k, &w.calls[w.pos], nil)
	}
	taken := w.calls[w.pos : w.pos+n]
	results := make([]any, n)
	for i := range taken {
		if taken[i].failed {
			return false
		}
		results[i] = wrapped(taken[i].result)
	}
	if s.effect {
		w.m.Effects += n
	}
	w.pos += n
	w.done[k] = true
	if s.forEach != nil {
		w.merge(s, results)
	} else {
		w.merge(s, results[0])
	}
	return w.follow(k)
}

// wrapped is a result as it enters the context: what is no object lies under the key result.
func wrapped(result any) any {
	if _, ok := result.(map[string]any); ok {
		return result
	}
	return map[string]any{"result": result}
}

func (w *walk) merge(s *step, outputs any) {
	if s.as != "" {
		w.context[s.as] = outputs
		return
	}
	object, _ := outputs.(map[string]any)
	if s.flat {
		maps.Copy(w.context, object)
		return
	}
	for _, e := range s.outputs {
		if v, ok := object[e.OutputKey]; ok {
			w.context[e.ContextKey] = v
		}
	}
}

// follow selects a branch: every other step that depends on this one is ruled out.
func (w *walk) follow(k int) bool {
	s := &w.flow.steps[k]
	if len(s.branches) == 0 {
		return true
	}
	selected := s.next
	for _, b := range s.branches {
		holds, err := b.when.Eval(w.everything(nil, ""))
		if err != nil {
			return false
		}
		if holds {
			selected = b.target
			break
		}
	}
	if selected >= 0 {
		for _, d := range s.users {
			w.skipped[d] = w.skipped[d] || d != selected
		}
	}
	return true
}

// fault notes what the flow would do differently.
func (w *walk) fault(k int, arg string, why Reason) {
	w.m.Exact = false
	w.m.faults = append(w.m.faults, Fault{k, arg, why})
}

// finish settles what waited for inputs and whether the inputs could be known.
func (w *walk) finish() *Match {
	if w.pos == 0 {
		return nil
	}
	w.settle()
	m := &w.m
	refused := w.refused
	for name := range w.absent {
		_, told := w.inputs[name]
		refused = refused || w.flow.required[name] && !told
	}
	untold := w.neverTold()
	if refused || len(untold) > 0 {
		m.Effects = 0
	}
	m.Calls, m.Saved, m.Inputs = w.pos, turns(w.calls[:w.pos])-1, w.inputs
	m.single = w.pos == 1 && w.flow.steps[0].given != ""
	m.Known, m.KnownFree = true, true
	if w.flow.unchecked {
		m.Exact = true
		return m
	}
	for _, name := range untold {
		m.Known, m.KnownFree = false, false
		m.faults = append(m.faults, Fault{w.flow.firstReader(name), name, Unknown})
	}
	for name, k := range w.late {
		v := w.inputs[name]
		if w.givenAtStart(v) {
			continue
		}
		m.Known = false
		if isFreeText(v) {
			m.faults = append(m.faults, Fault{k, name, FreeText})
			continue
		}
		m.KnownFree = false
		m.faults = append(m.faults, Fault{k, name, Unknown})
	}
	return m
}

// neverTold lists the required inputs of a run that is handed back before a step tells them: what was recorded says nothing
// of what the caller would have given, and without them the run is refused.
func (w *walk) neverTold() []string {
	if !w.m.HandedBack {
		return nil
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(w.flow.required)) {
		if _, told := w.inputs[name]; !told {
			out = append(out, name)
		}
	}
	return out
}

// givenAtStart reports whether the caller could give the value: it was known before the turn of the first call or is an
// argument of that call. What calls of the same turn return, nobody had when it was made.
func (w *walk) givenAtStart(v any) bool {
	first := &w.calls[0]
	if w.known.knowable(v, first.asked) {
		return true
	}
	for _, a := range first.args {
		if value.Equal(a, v) {
			return true
		}
	}
	return allParts(v, w.givenAtStart)
}

// Faults lists what keeps the match from being an application, in the order of the steps; none when it is one.
func (m *Match) Faults() []Fault { return slices.Clone(m.faults) }
