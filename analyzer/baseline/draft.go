package baseline

import (
	"fmt"
	"slices"
	"strings"

	"pave/flows"
)

// Draft is a flow drafted from a scored sequence, with what a reviewer must do by hand.
type Draft struct {
	Flow     *flows.Flow
	Warnings []string
}

// DraftFlow wires the first occurrence of the scored sequence as Observer does, arguments in alphabetical order.
func DraftFlow(events []AgentEvent, s Score) Draft {
	steps := make([]Step, len(s.Sequence))
	for i, tool := range s.Sequence {
		steps[i].Tool = tool
	}
	for _, g := range sessions(events) {
		if found := g.windows(s.Sequence); len(found) > 0 {
			for i := range steps {
				steps[i] = found[0].call(i).step()
				steps[i].Inputs = slices.Sorted(slices.Values(steps[i].Inputs))
			}
			break
		}
	}
	d := Draft{Warnings: slices.Clone(s.Warnings)}
	wired := wire(steps, func(step int, argument string) {
		d.Warnings = append(d.Warnings, fmt.Sprintf("Step %d ('%s') argument '%s' has no upstream producer; map it manually before promotion.",
			step, steps[step].Tool, argument))
	})
	parts := make([]string, len(s.Sequence))
	for i, tool := range s.Sequence {
		parts[i] = strings.NewReplacer(".", "_", "-", "_").Replace(tool)
	}
	tokens := (s.InputTokensSaved + s.OutputTokensSaved) * int64(s.Support)
	d.Flow = &flows.Flow{FormatVersion: flows.FormatVersion1, Type: flows.TypeFlow, Name: "draft__" + strings.Join(parts, "__"), Version: draftVersion,
		Description: fmt.Sprintf("Draft macro-flow mined from coding-agent traces: %s (support %d, score %s).", arrows(s.Sequence), s.Support, floatText(s.Score)),
		Steps:       wired, Status: flows.StatusActive,
		Governance: &flows.Governance{Lifecycle: flows.LifecycleDraft, ReplacesTools: s.Sequence, EstimatedModelCallsRemoved: s.ModelCallsRemoved * s.Support,
			EstimatedTokenSavings: &tokens, ReviewNotes: "recommendation=" + s.Recommendation}}
	return d
}

// Mismatch is a step of a past session that a flow would not have reproduced.
type Mismatch struct {
	SessionID string
	StepIndex int
	ToolName  string
	Reason    string
}

// BacktestReport says how past sessions fit a flow, by the shapes of calls only.
type BacktestReport struct {
	FlowName               string
	ExamplesTested         int
	PassedInputShape       int
	ProducedExpectedOutput int // shape fits and no call failed
	Mismatches             []Mismatch
}

// Backtest holds every occurrence of the flow's tools against the flow: mapped arguments must have been given, no call may have
// failed. Nothing is run and no output is compared.
func Backtest(flow *flows.Flow, events []AgentEvent) BacktestReport {
	r := BacktestReport{FlowName: flow.Name}
	sequence := make([]string, len(flow.Steps))
	for i := range flow.Steps {
		sequence[i] = flow.Steps[i].Name()
	}
	if len(sequence) == 0 {
		return r
	}
	for _, g := range sessions(events) {
		for _, w := range g.windows(sequence) {
			shape, output := true, true
			for i, name := range sequence {
				e := w.call(i)
				mismatch := func(reason string) {
					r.Mismatches = append(r.Mismatches, Mismatch{g.id, i, name, reason})
				}
				if missing := missingArguments(flow.Steps[i].InputMapping, e); len(missing) > 0 {
					shape = false
					mismatch("missing input field(s): " + strings.Join(missing, ", "))
				}
				if e.ResultStatus == statusError {
					output = false
					mismatch("step reported an error status")
				}
			}
			r.ExamplesTested++
			if shape {
				r.PassedInputShape++
			}
			if shape && output {
				r.ProducedExpectedOutput++
			}
		}
	}
	return r
}

func missingArguments(m flows.Mapping, e *AgentEvent) []string {
	var out []string
	for _, entry := range m {
		if !slices.Contains(e.ArgNames, entry.Target) {
			out = append(out, entry.Target)
		}
	}
	slices.Sort(out)
	return out
}
