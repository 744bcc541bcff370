package runs

import (
	"fmt"
	"strings"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
)

// Continuation tells the caller of a run that did not reach its end how to go on instead of starting again: what is
// done, what is known, what remains.
type Continuation struct {
	Reason string
	Done   []DoneStep
	// Known is the run's context so far, as the flow's returns project it.
	Known map[string]any
	// Next is the step at which the run stopped; nil when it is not known.
	Next *NextStep
	// Remaining are the tools, or flows, of the steps that did not finish, in order; the first is that of Next.
	Remaining []string
}

// DoneStep is a step that succeeded.
type DoneStep struct {
	Step    string // its id, else its number from 1
	Tool    string
	Outputs map[string]any
}

// NextStep is the step that would have come. Inputs are nil when they could not be made.
type NextStep struct {
	Step   string
	Tool   string
	Inputs map[string]any
	// MayHaveHappened says that the step's call changes something and was, or may have been, made.
	MayHaveHappened bool
}

// continuation describes a run that ended before its end; nil for one that succeeded.
func continuation(flow *flows.Flow, result *executor.RunResult) *Continuation {
	if result == nil || result.Success {
		return nil
	}
	c := &Continuation{Known: result.FinalOutput, Reason: "the run was " + result.Status}
	finished := map[int]bool{}
	for i := range result.ExecutionLog {
		rec := &result.ExecutionLog[i]
		switch {
		case rec.Success:
			finished[rec.StepIndex] = true
			if !rec.Skipped {
				c.Done = append(c.Done, DoneStep{stepName(flow, rec.StepIndex), rec.ToolName, rec.Outputs})
			}
		case c.Next == nil && rec.ErrorMessage != nil:
			c.Reason = *rec.ErrorMessage
			c.Next = &NextStep{Step: stepName(flow, rec.StepIndex), Tool: rec.ToolName, Inputs: rec.Inputs}
		}
	}
	if back := result.HandBack; back != nil {
		c.Reason, c.Next = back.Reason, &NextStep{Step: stepName(flow, back.StepIndex), Tool: back.ToolName, Inputs: back.Inputs}
	}
	for i := range flow.Steps {
		if !finished[i] {
			c.Remaining = append(c.Remaining, flow.Steps[i].Name())
		}
	}
	return c
}

// NotStarted describes a run that did not begin, for a caller who is to walk the flow's path by hand.
func NotStarted(flow *flows.Flow, reason string, input map[string]any) *Continuation {
	c := &Continuation{Reason: reason, Known: input}
	for i := range flow.Steps {
		c.Remaining = append(c.Remaining, flow.Steps[i].Name())
	}
	if len(flow.Steps) > 0 {
		c.Next = &NextStep{Step: stepName(flow, 0), Tool: flow.Steps[0].Name()}
	}
	return c
}

func stepName(flow *flows.Flow, index int) string {
	if index >= 0 && index < len(flow.Steps) && flow.Steps[index].StepID != "" {
		return flow.Steps[index].StepID
	}
	return fmt.Sprint(index + 1)
}

// maxQuoted bounds one value in the text.
const maxQuoted = 4000

// Text says the same in words, for a model that reads.
func (c *Continuation) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The flow stopped before its end: %s\n", c.Reason)
	doubt := c.Next != nil && c.Next.MayHaveHappened
	switch {
	case len(c.Done) == 0 && doubt:
		b.WriteString("Nothing is known to be done.\n")
	case len(c.Done) == 0:
		b.WriteString("Nothing was done yet.\n")
	default:
		b.WriteString("Done, do not repeat:\n")
		for _, d := range c.Done {
			fmt.Fprintf(&b, "- %s (step %s) gave %s\n", d.Tool, d.Step, quoted(d.Outputs))
		}
	}
	if c.Next != nil {
		begin := "Next would be %s (step %s)"
		if doubt {
			begin = "It failed, but may have happened: %s (step %s)"
		}
		fmt.Fprintf(&b, begin, c.Next.Tool, c.Next.Step)
		if c.Next.Inputs != nil {
			fmt.Fprintf(&b, " with %s", quoted(c.Next.Inputs))
		}
		b.WriteString(".\n")
	}
	if doubt {
		fmt.Fprintf(&b, "Find out whether it did before you call %s again.\n", c.Next.Tool)
	}
	if len(c.Remaining) > 0 {
		fmt.Fprintf(&b, "What remains: %s. Continue from there.\n", strings.Join(c.Remaining, ", "))
	}
	return b.String()
}

func quoted(v any) string {
	text := string(value.Encode(v))
	if len(text) > maxQuoted {
		return strings.ToValidUTF8(text[:maxQuoted], "") + "… (whole in the structured content)"
	}
	return text
}
