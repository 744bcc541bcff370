// Package runs is the run service: it admits a run of an approved flow, executes it with the deterministic engine,
// and keeps what happened. A run is written before it starts, after each level of its steps (as an encrypted checkpoint)
// and when it ends, so that it goes on after a crash where it was, or says that it was interrupted. Calls that need a
// person's approval make the run wait, over restarts too. Finished runs are copied to the event store for reports, and every call of a tool is
// recorded there as a tool call of a flow.
package runs

import (
	"encoding/json"
	"fmt"
	"time"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/store"
	eventstore "pave/ingest/store"
)

// States of a run beside the statuses of package executor.
const (
	StateRunning     = "running"
	StateInterrupted = "interrupted" // the process ended under it, or it cannot go on by itself
	// StateDenied is the end of a run whose flow would have failed because an approval was denied or not given in time:
	// people stopped it, and the flow did as it was told. The status of its result is executor.StatusFailed.
	StateDenied = "denied"
)

// Run is one flow run. Result is what happened: complete when Service.Run returns it, without the values of dynamic
// params except in the final output; redacted when it is read back; nil while the run goes on, in lists, and when it was
// interrupted; so far when it waits for approvals.
type Run struct {
	ID        string
	Flow      string
	Version   string
	State     string // StateRunning, StateInterrupted, StateDenied or a status of the result
	Caller    string // principal
	DryRun    bool
	Started   time.Time
	Ended     time.Time // zero while it runs or waits
	Result    *executor.RunResult
	Avoided   Avoided
	Approvals []Approval // that it asked for; nil in lists of runs that do not wait
	// Continuation says how to go on where a run did not reach its end: stopped at a guard, failed, was cancelled or waits;
	// nil when it did, and in lists.
	Continuation *Continuation
	Problem      *Problem // why it did not go on, where that is no step's failure
	Revision     int64    // rises with every change
	// Erased is when the values of the run were deleted with the session that it came from; zero when they were not.
	Erased time.Time
	// Replayed is set when an idempotency key gave an earlier run.
	Replayed bool

	auto    bool            // interrupted, and goes on by itself when the service starts
	started bool            // interrupted, and the next level may have been at work
	events  int64           // number of the last event
	calls   int             // recorded so far
	kept    json.RawMessage // the result as it was stored last
}

// Avoided is what the run saved by the averages of the stretches that its flow replaces; zero for dry runs and
// for runs that saved nothing.
type Avoided struct {
	LLMCalls float64
	Tokens   float64
	CostUSD  float64
	Latency  time.Duration
}

// body is the part of a run that is kept as JSON.
type body struct {
	Result  json.RawMessage `json:",omitempty"` // redacted
	Avoided Avoided
	Problem *Problem   `json:",omitempty"`
	Auto    bool       `json:",omitempty"`
	Started bool       `json:",omitempty"`
	Events  int64      `json:",omitempty"`
	Calls   int        `json:",omitempty"`
	Erased  *time.Time `json:",omitempty"` // when the values were deleted
}

func fromRow(row store.RunRow, withResult bool) (*Run, error) {
	run := &Run{ID: row.ID, Flow: row.Flow, Version: row.Version, State: row.State, Caller: row.Caller, DryRun: row.DryRun,
		Started: row.Started, Ended: row.Ended, Revision: row.Revision}
	var b body
	if err := json.Unmarshal(row.Body, &b); err != nil {
		return nil, fmt.Errorf("stored run %s: %w", row.ID, err)
	}
	run.Avoided, run.Problem, run.auto, run.started, run.events, run.calls = b.Avoided, b.Problem, b.Auto, b.Started, b.Events, b.Calls
	run.Erased = b.erasedAt()
	if !withResult || b.Result == nil {
		return run, nil
	}
	run.kept = b.Result
	var err error
	if run.Result, err = executor.DecodeResult(b.Result); err != nil {
		return nil, fmt.Errorf("stored run %s: %w", row.ID, err)
	}
	return run, nil
}

// finished counts the steps that succeeded without being skipped.
func finished(result *executor.RunResult) int {
	n := 0
	for i := range result.ExecutionLog {
		if rec := &result.ExecutionLog[i]; rec.Success && !rec.Skipped {
			n++
		}
	}
	return n
}

// calls counts the calls of the finished steps; a step that runs once per element makes one for each.
func calls(flow *flows.Flow, result *executor.RunResult) int {
	n := 0
	for i := range result.ExecutionLog {
		rec := &result.ExecutionLog[i]
		if !rec.Success || rec.Skipped {
			continue
		}
		if at := rec.StepIndex; at < 0 || at >= len(flow.Steps) || flow.Steps[at].ForEach == nil {
			n++
			continue
		}
		for k := range rec.Elements {
			if e := &rec.Elements[k]; e.Success && !e.Skipped {
				n++
			}
		}
	}
	return n
}

// spared is what a run saved as a part of the flow's averages: all of them where it succeeded, unless these go by the
// calls. One that was handed back after k of n calls spared the agent k-1 of the n-1 decisions between them, n being the
// calls of the recorded occurrences or, where these were not counted, the steps; it never counts for more than a whole
// run. Others spared nothing.
func spared(v *governance.FlowVersion, result *executor.RunResult) float64 {
	s := &v.Savings
	switch {
	case result.Status == executor.StatusSucceeded && !s.PerCall:
		return 1
	case result.Status != executor.StatusSucceeded && result.Status != executor.StatusHandedBack:
		return 0
	}
	done, of := finished(result), float64(len(v.Flow.Steps))
	if s.CallsPerRun.Known > 0 {
		done, of = calls(v.Flow, result), s.CallsPerRun.Mean
	}
	if of <= 1 {
		return 0
	}
	share := float64(max(0, done-1)) / (of - 1)
	if s.PerCall {
		return share
	}
	return min(1, share)
}

// avoided takes of the flow's averages what the run spared.
func avoided(v *governance.FlowVersion, result *executor.RunResult) Avoided {
	share := spared(v, result)
	s := &v.Savings
	return Avoided{
		LLMCalls: share * s.LLMCallsPerRun.Mean,
		Tokens:   share * s.TokensPerRun.Mean,
		CostUSD:  share * s.CostUSDPerRun.Mean,
		Latency:  time.Duration(share * s.LatencyMSPerRun.Mean * float64(time.Millisecond)),
	}
}

// exported is a stored run as the event store keeps it.
func exported(row store.RunRow) (eventstore.Run, error) {
	run, err := fromRow(row, true)
	if err != nil {
		return eventstore.Run{}, err
	}
	return forArchive(run, run.Result), nil
}

// forArchive is a run that was stored with a result as the event store keeps it.
func forArchive(run *Run, stored *executor.RunResult) eventstore.Run {
	out := eventstore.Run{ID: run.ID, Flow: run.Flow, Version: run.Version, Status: run.State, Caller: run.Caller, Start: run.Started,
		Duration: run.Ended.Sub(run.Started), Result: run.kept, LLMCallsAvoided: run.Avoided.LLMCalls,
		TokensAvoided: run.Avoided.Tokens, CostAvoidedUSD: run.Avoided.CostUSD, LatencyAvoided: run.Avoided.Latency}
	if stored != nil {
		out.Steps, out.StepsDone = len(stored.ExecutionLog), finished(stored)
		out.ErrorCode = errorCode(stored)
	}
	if run.Problem != nil {
		out.ErrorCode = run.Problem.Code
	}
	return out
}

// errorCode is the code of the last record that failed, "" when the run did not fail.
func errorCode(result *executor.RunResult) string {
	if result.Success {
		return ""
	}
	for i := len(result.ExecutionLog) - 1; i >= 0; i-- {
		if code := result.ExecutionLog[i].ErrorCode; code != nil {
			return *code
		}
	}
	return ""
}
