package executor

import (
	"fmt"
	"strconv"

	"pave/flows"
)

// callFlow runs the flow of a step once, as a run of its own within the step's: its events stand in the same stream,
// its result is part of the step's record, and it inherits cancellation and dry run.
func (v *visit) callFlow() (map[string]any, int, *failure) {
	r, sub := v.r, v.sp.sub
	if sub == nil || sub.refused != "" {
		reason := "the flow is not registered"
		if sub != nil {
			reason = sub.refused
		}
		return nil, 0, failFlow("Sub-flow '%s' was refused: %s", v.sp.name, reason)
	}
	inner := r.e.newRun(r.ctx, sub.plan, RunInput{Input: v.resolved, RunID: r.runID, TraceID: r.e.newID(),
		DryRun: r.in.DryRun, DryRunUnsupported: r.in.DryRunUnsupported, DynamicParams: r.dynamic, CacheScope: r.in.CacheScope, OnEvent: v.forward()})
	inner.path, inner.replay = v.path()+"/", v.replayed()
	if v.partial != nil {
		inner.from, v.special().partial = v.partial.Flow, nil
	}
	if inner.from != nil {
		inner.result.TraceID = inner.from.TraceID
		inner.result.InitialInput = inner.from.InitialInput
	}
	v.sent = true
	inner.start()
	result := inner.result
	if result.Status == StatusAwaitingApproval {
		v.special().inner, v.special().awaiting = result.Checkpoint, result.Awaiting
		return nil, 0, &failure{pending: true}
	}
	v.rec.SubResult, v.rec.Inputs = result, result.InitialInput
	switch result.Status {
	case StatusSucceeded:
		outputs, size, err := snapshotObject(result.FinalOutput)
		if err != nil {
			return nil, 0, failFlow("Sub-flow '%s' failed: its output %v", v.sp.name, err)
		}
		return outputs, size, nil
	case StatusCancelled:
		return nil, 0, failCancelled(r.plan.flow.Name, v.sp.index, r.ended())
	case StatusHandedBack:
		return nil, 0, failFlow("Sub-flow '%s' was handed back: %s", v.sp.name, result.HandBack.Reason)
	}
	f := failFlow("Sub-flow '%s' failed.", v.sp.name)
	if inner.failure != nil {
		f.class, f.typ = inner.failure.class, inner.failure.typ
	}
	return nil, 0, f
}

// replayed is the record of the flow that a replayed step called, nil where nothing is replayed.
func (v *visit) replayed() *replay {
	if v.r.replay == nil {
		return nil
	}
	rec := v.r.recorded(v.sp.index)
	if rec != nil && v.element > 0 {
		if v.element > len(rec.Elements) {
			rec = nil
		} else {
			rec = &rec.Elements[v.element-1]
		}
	}
	if rec == nil || rec.SubResult == nil {
		return &replay{}
	}
	return &replay{log: rec.SubResult.ExecutionLog}
}

// path is the place of a step, or of an element of it, in the whole run: see CallInfo.Path.
func (v *visit) path() string {
	p := strconv.Itoa(v.sp.index)
	if v.element > 0 {
		p += ":" + strconv.Itoa(v.element-1)
	}
	if v.r.path != "" {
		p = v.r.path + p
	}
	return p
}

// forward hands the events of an inner run on, nil when nobody listens.
func (v *visit) forward() func(Event) {
	if v.r.in.OnEvent == nil {
		return nil
	}
	return func(ev Event) {
		if v.buffered {
			r := v.special()
			r.events = append(r.events, ev)
		} else {
			v.r.in.OnEvent(ev)
		}
	}
}

func failFlow(format string, args ...any) *failure {
	message := fmt.Sprintf(format, args...)
	return &failure{cw: flows.CWFlowExecution, message: message, raw: message, class: ClassOther}
}

// count adds a finished step's record to what the run has executed. A flow that a step called counts with its own
// records.
func (r *run) count(rec *StepRecord) {
	executed, finished := countRecords(rec)
	r.executed += executed
	r.finished += finished
}

func countRecords(rec *StepRecord) (executed, finished int) {
	inner := func(rec *StepRecord) {
		e, f := countRecords(rec)
		executed, finished = executed+e, finished+f
	}
	switch {
	case rec.SubResult != nil:
		for i := range rec.SubResult.ExecutionLog {
			inner(&rec.SubResult.ExecutionLog[i])
		}
		if !rec.FallbackUsed {
			return executed, finished
		}
	case rec.FlowName != nil && len(rec.Elements) > 0:
		for i := range rec.Elements {
			inner(&rec.Elements[i])
		}
		return executed, finished
	}
	executed++
	if rec.Success && !rec.Skipped {
		finished++
	}
	return executed, finished
}
