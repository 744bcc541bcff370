package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// replay is the record that a run follows.
type replay struct {
	log   []StepRecord
	reuse int // steps before this index take their outputs from the record
}

// ReplayOptions says how a recorded run is run again.
type ReplayOptions struct {
	// ReuseBefore takes the outputs of the steps before this index from the record instead of calling their tools, as
	// far as they succeeded there. It must stand at the beginning of a level.
	ReuseBefore int
	// SkipCompare runs without looking for differences.
	SkipCompare bool
	// Redact brings both sides to the form in which the record was stored, before they are compared; nil compares as
	// they are.
	Redact func(*RunResult) *RunResult
	// Force replays tools that have side effects, or unknown ones.
	Force         bool
	DynamicParams map[string]any
	OnEvent       func(Event)
}

// StepDiff is one difference between a record and its replay. StepIndex is that of the record, -1 for the whole run;
// Field is "outputs.<key>", the name of a record's field, or "record" where one side lacks the step. A side that lacks
// the field is nil.
type StepDiff struct {
	StepIndex int    `json:"step_index"`
	ToolName  string `json:"tool_name"`
	Field     string `json:"field"`
	Expected  any    `json:"expected"`
	Actual    any    `json:"actual"`
}

// ReplayReport is the outcome of a replay. Diffs are in the order of steps, then of fields.
type ReplayReport struct {
	Result *RunResult `json:"result"`
	Match  bool       `json:"match"`
	Diffs  []StepDiff `json:"diffs"`
}

// Replay runs a recorded run again, with its input and its decisions, and compares outcome by outcome. The plan must be
// that of the recorded flow version. Tools that are not known to be read-only are refused unless forced. A failed
// replay is data in the report; the error is a *flows.Error about a replay that cannot start.
func (e *Engine) Replay(ctx context.Context, plan *Plan, recorded *RunResult, o ReplayOptions) (*ReplayReport, error) {
	if recorded.FlowName != plan.flow.Name || recorded.FlowVersion != plan.flow.Version {
		return nil, &flows.Error{Code: flows.CodeConflict, Err: flows.CWCheckpointDrift, Message: fmt.Sprintf("the record is one of flow '%s@%s', not of '%s@%s'; replay it with the version that it ran",
			recorded.FlowName, recorded.FlowVersion, plan.flow.Name, plan.flow.Version)}
	}
	if err := plan.readOnly("replay", o.Force); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.limits.MaxRunTime, errRunTime)
	defer cancel()
	r := e.newRun(ctx, plan, RunInput{Input: recorded.InitialInput, DryRun: recorded.DryRun, DynamicParams: o.DynamicParams, OnEvent: redactEvents(o.OnEvent, o.DynamicParams)})
	r.replay = &replay{log: recorded.ExecutionLog, reuse: o.ReuseBefore}
	r.start()
	report := &ReplayReport{Result: r.result, Match: true, Diffs: []StepDiff{}}
	if o.SkipCompare {
		return report, nil
	}
	expected, actual := recorded, r.result
	if o.Redact != nil {
		expected, actual = o.Redact(expected), o.Redact(actual)
	}
	report.Diffs = append(report.Diffs, compareResults(expected, actual)...)
	report.Match = len(report.Diffs) == 0
	return report, nil
}

// readOnly refuses plans with tools that may change something, unless forced.
func (p *Plan) readOnly(what string, force bool) error {
	if force {
		return nil
	}
	names := slices.Clone(p.capabilities)
	for _, t := range p.tools {
		if t.Safety == nil || !t.Safety.ReadOnly() {
			names = append(names, t.Name)
		}
	}
	if names == nil {
		return nil
	}
	return flows.NewError(flows.CodeForbidden, fmt.Sprintf("%s calls tools again, and these are not known to be read-only: %s; fake them, or force it", what, strings.Join(names, ", ")))
}

// recorded is the record of a step, nil where there is none.
func (r *run) recorded(index int) *StepRecord {
	if r.replay == nil {
		return nil
	}
	for i := range r.replay.log {
		if rec := &r.replay.log[i]; rec.StepIndex == index && index < len(r.plan.steps) {
			return rec
		}
	}
	return nil
}

// reused is the record that stands in for a step's call, nil where the step runs.
func (r *run) reused(index int) *StepRecord {
	if r.replay == nil || index >= r.replay.reuse {
		return nil
	}
	if rec := r.recorded(index); rec != nil && rec.Success {
		return rec
	}
	return nil
}

// recordedDecision is the decision that a replayed run made.
func (r *run) recordedDecision(index int) *Decision {
	if rec := r.recorded(index); rec != nil {
		return rec.Decision
	}
	return nil
}

// recordedApproval is the approval that a replayed run got.
func (r *run) recordedApproval(index int) *Approval {
	if rec := r.recorded(index); rec != nil && rec.Approval != nil && rec.Approval.Decision == Approve {
		return rec.Approval
	}
	return nil
}

func compareResults(expected, actual *RunResult) []StepDiff {
	var out []StepDiff
	differ := func(index int, tool, field string, e, a any) {
		if !value.Equal(e, a) {
			out = append(out, StepDiff{index, tool, field, e, a})
		}
	}
	n := max(len(expected.ExecutionLog), len(actual.ExecutionLog))
	for i := range n {
		switch {
		case i >= len(actual.ExecutionLog):
			rec := &expected.ExecutionLog[i]
			out = append(out, StepDiff{rec.StepIndex, rec.ToolName, "record", "present", nil})
			continue
		case i >= len(expected.ExecutionLog):
			rec := &actual.ExecutionLog[i]
			out = append(out, StepDiff{rec.StepIndex, rec.ToolName, "record", nil, "present"})
			continue
		}
		e, a := &expected.ExecutionLog[i], &actual.ExecutionLog[i]
		differ(e.StepIndex, e.ToolName, "tool_name", e.ToolName, a.ToolName)
		differ(e.StepIndex, e.ToolName, "success", e.Success, a.Success)
		differ(e.StepIndex, e.ToolName, "skipped", e.Skipped, a.Skipped)
		differ(e.StepIndex, e.ToolName, "fallback_used", e.FallbackUsed, a.FallbackUsed)
		differ(e.StepIndex, e.ToolName, "error_code", orNil(e.ErrorCode), orNil(a.ErrorCode))
		for _, key := range unionKeys(e.Outputs, a.Outputs) {
			differ(e.StepIndex, e.ToolName, "outputs."+key, e.Outputs[key], a.Outputs[key])
		}
	}
	differ(-1, expected.FlowName, "status", expected.Status, actual.Status)
	for _, key := range unionKeys(expected.FinalOutput, actual.FinalOutput) {
		differ(-1, expected.FlowName, "final_output."+key, expected.FinalOutput[key], actual.FinalOutput[key])
	}
	return out
}

func orNil(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

func unionKeys(a, b map[string]any) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
