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
	inner := r.e.newRun(r.ctx, sub.plan, RunInput{Input: v.resolved, RunID: r.runID + "/" + v.place(), TraceID: r.e.newID(),
		DryRun: r.in.DryRun, DryRunUnsupported: r.in.DryRunUnsupported, OnEvent: v.forward()})
	inner.start()
	result := inner.result
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

// place tells the calls of a run apart in ids of inner runs.
func (v *visit) place() string { return strconv.Itoa(v.sp.index) }

// forward hands the events of an inner run on, nil when nobody listens.
func (v *visit) forward() func(Event) {
	if v.r.in.OnEvent == nil {
		return nil
	}
	return func(ev Event) {
		if v.buffered {
			v.events = append(v.events, ev)
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
	own := rec.Success && !rec.Skipped
	if rec.SubResult == nil {
		executed = 1
	} else {
		for i := range rec.SubResult.ExecutionLog {
			e, f := countRecords(&rec.SubResult.ExecutionLog[i])
			executed, finished = executed+e, finished+f
		}
		if !rec.FallbackUsed {
			return executed, finished
		}
		executed++
	}
	if own {
		finished++
	}
	return executed, finished
}
