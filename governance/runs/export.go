package runs

import (
	"encoding/json"
	"time"

	eventstore "pave/ingest/store"
)

// Exporter is told of every run that was executed and has ended; dry runs are left out. Export is called on the run's
// goroutine and must return at once; the value is the exporter's.
type Exporter interface {
	Export(run *Finished)
}

// Finished is a run that has ended, as others may see it.
type Finished struct {
	ID              string
	Flow, Version   string
	State           string
	Started, Ended  time.Time
	TraceID         string // "" when it is not known; it is in the result, too
	ParentSpanID    string // the caller's span in the trace, "" when it is not known
	ErrorCode       string // "" when it did not fail
	LLMCallsAvoided float64
	Result          json.RawMessage // executor.RunResult, redacted; nil when nothing is known of its steps
}

// export hands the end of a run to the exporter.
func (s *Service) export(l *live, run eventstore.Run) {
	if s.exporter == nil || l.run.DryRun {
		return
	}
	out := &Finished{ID: run.ID, Flow: run.Flow, Version: run.Version, State: run.Status, Started: run.Start, Ended: l.run.Ended,
		ErrorCode: run.ErrorCode, LLMCallsAvoided: run.LLMCallsAvoided, Result: run.Result}
	if l.begun != nil {
		out.TraceID, out.ParentSpanID = l.begun.TraceID, l.begun.ParentSpanID
	}
	s.exporter.Export(out)
}
