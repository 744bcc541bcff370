package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"

	"pave/api/gen"
	"pave/executor"
	"pave/flows/value"
	"pave/governance/runs"
)

// streamBuffer is how many events a slow reader may be behind before it loses some.
const streamBuffer = 256

// runStream answers a run with its events as they happen. The status is sent with the first of them: a run that does
// not start is answered as any error.
type runStream struct {
	start func(onEvent func(executor.Event)) (*runs.Run, error)
}

type runOutcome struct {
	run *runs.Run
	err error
}

// VisitRunFlowResponse implements gen.RunFlowResponseObject.
func (s *runStream) VisitRunFlowResponse(w http.ResponseWriter) error {
	lines := make(chan []byte, streamBuffer)
	ended := make(chan runOutcome, 1)
	var lost atomic.Int64
	go func() {
		defer close(lines)
		run, err := s.run(func(ev executor.Event) {
			select {
			case lines <- eventLine(&ev): // encoded here, because the run goes on with what the event points to
			default:
				lost.Add(1)
			}
		})
		ended <- runOutcome{run, err}
	}()
	defer func() { // the run never outlives the request, whatever happens here
		for range lines {
		}
	}()
	out := &ndjson{w: w, flush: http.NewResponseController(w)}
	dropped := func() {
		if n := lost.Swap(0); n > 0 {
			out.write(line(gen.RunEvent{Kind: gen.RunEventKindDropped, Count: int(n)}))
		}
	}
	for l := range lines {
		dropped()
		out.write(l)
	}
	end := <-ended
	if end.err != nil {
		return end.err
	}
	run, err := runOf(*end.run)
	if err != nil {
		return err
	}
	dropped()
	out.write(line(gen.RunEvent{Kind: gen.RunEventKindRun, Run: run}))
	return out.err
}

// run turns a panic into an error: the goroutine is outside of what recovers the handler.
func (s *runStream) run(onEvent func(executor.Event)) (run *runs.Run, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("run: panic: %v", p)
		}
	}()
	return s.start(onEvent)
}

// ndjson writes lines and sends each at once. After the first error, such as a reader that has gone, it writes no more.
type ndjson struct {
	w       http.ResponseWriter
	flush   *http.ResponseController
	started bool
	err     error
}

func (n *ndjson) write(line []byte) {
	if n.err != nil {
		return
	}
	if !n.started {
		n.started = true
		n.w.Header().Set("Content-Type", "application/x-ndjson")
		n.w.Header().Set("X-Accel-Buffering", "no") // proxies that would wait for the end
		n.w.WriteHeader(http.StatusOK)
	}
	if _, n.err = n.w.Write(line); n.err == nil {
		_ = n.flush.Flush() // a writer that cannot flush sends everything at the end
	}
}

func line(ev gen.RunEvent) []byte {
	out, err := json.Marshal(ev)
	if err != nil { // what a run holds is JSON
		out, _ = json.Marshal(gen.RunEvent{Kind: gen.RunEventKindDropped, Count: 1})
	}
	return append(out, '\n')
}

func eventLine(ev *executor.Event) []byte {
	out := gen.RunEvent{Kind: gen.RunEventKind(ev.Kind), FlowName: ev.FlowName, TraceID: ev.TraceID, Timestamp: utc(ev.Timestamp)}
	switch ev.Kind {
	case executor.EventFlowStart:
		out.TotalSteps = ev.TotalSteps
	case executor.EventStepStart:
		out.StepIndex, out.ToolName, out.Inputs = &ev.StepIndex, ev.ToolName, value.Encode(ev.Inputs)
	case executor.EventStepEnd:
		out.StepIndex, out.ToolName = &ev.StepIndex, ev.ToolName
		out.StepRecord, _ = json.Marshal(ev.StepRecord) // nil when it cannot be written, as it never is
	case executor.EventFlowEnd:
		out.Status = ev.Result.Status
	}
	return line(out)
}
