package executor

import (
	"fmt"
	"time"

	"pave/flows"
)

// visit is one step on its way through a run. Its record is a slot of the run's log. Steps of a level that run side
// by side each write their own visit and nothing else.
type visit struct {
	r        *run
	sp       *stepPlan
	rec      *StepRecord
	name     string         // of the tool or flow that it calls: a decision may have chosen it
	tool     *toolPlan      // nil: a flow, or a kernel's
	values   map[string]any // the context that the step sees
	resolved map[string]any // its arguments before validation
	outputs  map[string]any
	size     int // of outputs in bytes
	f        *failure
	started  time.Time
	finished time.Time
	key      string // of the step cache, "" when it is not used
	element  int    // from 1: the visit is one element of a for_each step
	ended    bool   // there is nothing (more) to execute
	ruledOut bool   // by a branch
	buffered bool   // events wait until it is the step's turn
	ran      bool   // it was executed
	restored bool   // it was executed before the run was resumed
	skips    bool   // the failure of an element is one that on_error: skip covers
	sent     bool   // something was called for it, or may have been
	*rare
}

// rare is what few visits need.
type rare struct {
	events   []Event // buffered ones
	elements []visit // of a for_each step
	partial  *StepCheckpoint
	inner    *Checkpoint       // of the flow that it calls, which waits
	awaiting []ApprovalRequest // what it waits for
	// fallbackApproval and fallbackDenied are the answer for the fallback, asked for with that for the tool.
	fallbackApproval *Approval
	fallbackDenied   *failure
}

// none is the rare part of visits that have none; it is never written.
var none rare

// special makes the visit's rare part its own, to be written.
func (v *visit) special() *rare {
	if v.rare == &none {
		v.rare = new(rare)
	}
	return v.rare
}

// emit hands an event to the run's listener, when it is the step's turn. Callers ask first whether there is one: events
// are large.
func (v *visit) emit(ev Event) {
	if v.buffered {
		r := v.special()
		r.events = append(r.events, v.r.label(ev))
		return
	}
	v.r.emit(ev)
}

// levels runs the plan level by level; false when the run has ended, or waits, before the last one.
func (r *run) levels() bool {
	for ; r.next < len(r.plan.levels); r.next++ {
		first := &r.plan.steps[r.plan.levels[r.next].from]
		if reason := r.ended(); reason != "" {
			return r.endWith(StatusCancelled, first.index, map[string]any{}, failCancelled(r.plan.flow.Name, first.index, reason))
		}
		if !r.level(r.next) {
			return false
		}
		if r.checkpointed() {
			r.save(r.checkpoint(r.next + 1))
		}
	}
	return true
}

// level runs the steps of one level. All of them see the context as it is before the level. What must be known
// before any of them starts (guards, inputs, gates) is found out in order; then they run side by side; then their
// records and outputs are taken in order, up to the first that failed. So the outcome does not depend on who ends
// first.
func (r *run) level(n int) bool {
	at := r.plan.levels[n]
	visits := r.open(at)
	if sp := r.guard(visits); sp != nil {
		r.result.ExecutionLog = r.result.ExecutionLog[:at.from]
		r.handBack(sp, sp.mapping.resolvable(r.vars.values), "guard is false: "+sp.step.Guard)
		return false
	}
	ready := r.prepare(visits)
	if !waits(ready) {
		r.execute(ready)
	}
	if waits(ready) {
		r.suspend(n, ready)
		return false
	}
	for i := range visits {
		v := &visits[i]
		if r.settle(v) {
			continue
		}
		r.result.ExecutionLog = r.result.ExecutionLog[:at.from+i+1]
		r.endAt(v.sp, v.rec, v.f)
		return false
	}
	return true
}

// waits reports whether a step must wait for an approval before any has failed.
func waits(visits []visit) bool {
	for i := range visits {
		if f := visits[i].f; f != nil {
			return f.pending
		}
	}
	return false
}

// open makes the visits of a level and their slots in the log.
func (r *run) open(at span) []visit {
	n := at.to - at.from
	if r.visits == nil {
		r.visits = make([]visit, r.plan.width)
	}
	if r.wide = n > 1; r.wide {
		if r.produced == nil {
			r.produced = map[string]int{}
		}
		clear(r.produced)
	}
	log := r.result.ExecutionLog[:at.to]
	r.result.ExecutionLog = log
	for i := range n {
		v, sp := &r.visits[i], &r.plan.steps[at.from+i]
		*v = visit{r: r, rare: &none, sp: sp, name: sp.name, rec: &log[at.from+i], values: r.vars.values, buffered: n > 1}
		rec := v.rec // its slot is empty, and large
		rec.StepIndex, rec.StepID, rec.ToolName, rec.RetryErrors = sp.index, sp.step.StepID, sp.name, noErrors
		if sp.step.FlowName != "" {
			v.rec.FlowName = &sp.name
		}
		v.ruledOut = r.rulesOut(sp)
		if r.from != nil && r.next == r.from.CompletedLevels {
			v.restoreStep(r.from.Level[sp.index])
		}
	}
	return r.visits[:n]
}

// guard evaluates the guards of a level and returns the first step whose guard is false. A guard that cannot be
// evaluated fails its step when it is the step's turn.
func (r *run) guard(visits []visit) *stepPlan {
	for i := range visits {
		v := &visits[i]
		if v.ruledOut || v.restored {
			continue
		}
		holds, f := v.sp.checkGuard(r.vars.values)
		if f == nil && !holds {
			return v.sp
		}
		v.f = f
	}
	return nil
}

// prepare readies steps in order until one fails, and returns the visits up to that one: no later step runs.
func (r *run) prepare(visits []visit) []visit {
	for i := range visits {
		v := &visits[i]
		if v.ruledOut {
			v.ended = true
			v.rec.Inputs = map[string]any{}
			v.rec.skip()
			continue
		}
		if !v.restored {
			v.prepare()
		}
		if v.f != nil {
			v.ended = true
			if !v.f.pending {
				return visits[:i+1]
			}
		}
	}
	return visits
}

// execute runs what has been prepared, side by side within the engine's limit.
func (r *run) execute(visits []visit) {
	live := 0
	for i := range visits {
		if !visits[i].ended {
			live++
		}
	}
	if live > 1 {
		parallel(len(visits), r.e.limits.MaxParallelSteps, func(i int) bool { return visits[i].run() })
		return
	}
	for i := range visits {
		if !visits[i].run() {
			return
		}
	}
}

// run executes a step unless there is nothing to execute. It reports whether later steps may start.
func (v *visit) run() bool {
	if !v.ended {
		v.execute()
	}
	return v.f.letsOn()
}

// settle takes the outcome of a step: merges its outputs, follows its branches, completes its record. It reports
// whether the run goes on.
func (r *run) settle(v *visit) bool {
	rec := v.rec
	if v.ruledOut {
		now := r.e.now()
		rec.Success, rec.StartedAt, rec.EndedAt = true, stamp(now), stamp(now)
		r.count(rec)
		return true
	}
	if v.f == nil && !rec.Skipped {
		rec.Outputs = v.outputs
		v.f = r.merge(v)
	}
	if v.f == nil {
		v.f = r.follow(v)
	}
	if rec.Inputs == nil {
		rec.Inputs = map[string]any{}
	}
	if rec.Success = v.f == nil; !rec.Success {
		v.fail(rec)
	}
	r.close(v)
	r.count(rec)
	for i := range v.events {
		r.deliver(v.events[i])
	}
	v.buffered = false
	if r.in.OnEvent != nil {
		v.emit(Event{Kind: EventStepEnd, StepIndex: v.sp.index, ToolName: rec.ToolName, StepRecord: rec})
	}
	return rec.Success
}

// fail puts the failure of a visit into its record.
func (v *visit) fail(rec *StepRecord) {
	v.f.write(rec)
	rec.NotSent = !v.sent
}

// rulesOut reports whether branches keep a step from running: another step was selected in its place, or all of
// its dependencies are ruled out.
func (r *run) rulesOut(sp *stepPlan) bool {
	if r.skipped == nil {
		if !r.plan.branching {
			return false
		}
		r.skipped = make([]bool, len(r.plan.steps))
	}
	if r.skipped[sp.index] || len(sp.deps) == 0 {
		return r.skipped[sp.index]
	}
	for _, d := range sp.deps {
		if !r.skipped[d] {
			return false
		}
	}
	r.skipped[sp.index] = true
	return true
}

// follow selects the branch of a step that has some: the first whose predicate holds over the context with the
// step's own outputs, else the default. Every other direct dependent is ruled out; without a selection none is.
func (r *run) follow(v *visit) *failure {
	if len(v.sp.branches) == 0 {
		return nil
	}
	selected := v.sp.next
	for i := range v.sp.branches {
		holds, err := v.sp.branches[i].when.Eval(r.vars.values)
		if err != nil {
			v.rec.Outputs = nil
			message := err.Error()
			return &failure{cw: flows.CWPredicateSyntax, message: message, raw: message, class: ClassOther}
		}
		if holds {
			selected = v.sp.branches[i].target
			break
		}
	}
	if selected < 0 {
		return nil
	}
	for _, d := range v.sp.dependents {
		if d != selected {
			r.skipped[d] = true
		}
	}
	return nil
}

// claim notes the keys that a step merges: two steps of one level must not write the same key, whatever the policy.
// The later one's record keeps its inputs only.
func (r *run) claim(v *visit, projected map[string]any) *failure {
	if !r.wide {
		return nil
	}
	for _, key := range v.contextKeys(projected) {
		if _, taken := r.produced[key]; taken {
			rec := v.rec
			*rec = StepRecord{StepIndex: rec.StepIndex, StepID: rec.StepID, ToolName: v.sp.name, FlowName: rec.FlowName, Inputs: rec.Inputs, RetryErrors: noErrors}
			return failExecution(v.sp.name, v.sp.index, &ToolError{Class: ClassOther,
				Message: fmt.Sprintf("Key '%s' produced by both '%s' and a sibling step in the same DAG level. Use distinct output keys or sequential steps.", key, v.sp.name)})
		}
		r.produced[key] = v.sp.index
	}
	return nil
}
