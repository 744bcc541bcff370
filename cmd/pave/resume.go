package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

// settleTime is how long the commands wait for a run that goes on.
const settleTime = "10m"

type resumeCmd struct {
	ID           string `arg:"" help:"The run's id."`
	RepeatUnsafe bool   `help:"Call tools again that may have been called when the run was interrupted and are not safe to call twice." env:"PAVE_REPEAT_UNSAFE"`
	paramFlags
}

// Run goes on with an interrupted run and prints its output as pave run does.
func (c *resumeCmd) Run(e *env) error {
	params, err := c.params()
	if err != nil {
		return err
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ResumeRunWithResponse(e.ctx, c.ID, &gen.ResumeRunParams{Wait: settleTime},
			gen.ResumeRequest{DynamicParams: params, RepeatUnsafe: c.RepeatUnsafe}))
		if err != nil {
			return err
		}
		run := cmp.Or(resp.JSON200, resp.JSON202)
		return errors.Join(printOutput(e, resp.GetBody(), run), outcome(e, run))
	})
}

type decision struct {
	ID     string `arg:"" help:"The run's id."`
	Step   string `help:"The step to decide, where more than one waits." env:"PAVE_STEP"`
	Reason string `help:"Why; recorded with the step." env:"PAVE_REASON"`
}

type runsApproveCmd struct{ decision }

// Run approves a call; the run's output follows when it goes on to its end.
func (c *runsApproveCmd) Run(e *env) error { return c.decide(e, gen.ApprovalDecisionDecisionApprove) }

type runsDenyCmd struct{ decision }

// Run denies a call.
func (c *runsDenyCmd) Run(e *env) error { return c.decide(e, gen.ApprovalDecisionDecisionDeny) }

// decide reads the run and decides on exactly what was read. A denied run that has failed is what was asked for.
func (c *decision) decide(e *env, answer gen.ApprovalDecisionDecision) error {
	return e.withClient(func(cl *client) error {
		read, err := check(cl.GetRunWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		resp, err := check(cl.DecideRunApprovalWithResponse(e.ctx, c.ID, &gen.DecideRunApprovalParams{IfMatch: etag(read.JSON200.Revision), Wait: settleTime},
			gen.ApprovalDecision{Step: c.Step, Decision: answer, Reason: c.Reason}))
		if err != nil {
			return err
		}
		run := cmp.Or(resp.JSON200, resp.JSON202)
		if err := printOutput(e, resp.GetBody(), run); err != nil {
			return err
		}
		err = outcome(e, run)
		if answer == gen.ApprovalDecisionDecisionDeny {
			return nil
		}
		return err
	})
}

type runsCancelCmd struct {
	ID string `arg:"" help:"The run's id."`
}

// Run cancels a run.
func (c *runsCancelCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.CancelRunWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s %s\n", resp.JSON200.ID, resp.JSON200.Status)
			return err
		})
	})
}

type runsEventsCmd struct {
	ID    string `arg:"" help:"The run's id."`
	After string `help:"Only events after the one with this number." env:"PAVE_AFTER" placeholder:"N"`
}

// Run follows a run to its end, with an event a line, or as a YAML document.
func (c *runsEventsCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := cl.StreamRunEvents(e.ctx, c.ID, &gen.StreamRunEventsParams{LastEventID: c.After})
		if err != nil {
			return requestError(err)
		}
		defer func() { _ = resp.Body.Close() }()
		return eachEvent(resp, func(data string) error { return c.show(e, data) })
	})
}

func (c *runsEventsCmd) show(e *env, data string) error {
	switch e.g.Output {
	case output.FormatLines, output.FormatJSON:
		return output.Lines(e.out, []byte(data))
	case output.FormatYAML:
		if _, err := io.WriteString(e.out, "---\n"); err != nil {
			return err
		}
		return output.YAML(e.out, []byte(data))
	}
	var ev gen.RunEvent
	if err := json.Unmarshal([]byte(data), &ev); err != nil {
		return fmt.Errorf("the server's event: %w", err)
	}
	showEvent(e.out, &ev)
	if ev.Kind == gen.RunEventKindRun {
		fmt.Fprintf(e.out, "%s %s\n", ev.Run.ID, ev.Run.Status)
	}
	return nil
}
