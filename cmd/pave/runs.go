package main

import (
	"encoding/json"
	"fmt"
	"io"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/executor"
)

type runsCmd struct {
	List   runsListCmd   `cmd:"" help:"Flow runs, newest first."`
	Show   runsShowCmd   `cmd:"" help:"One run with its steps."`
	Viz    runsVizCmd    `cmd:"" help:"Draw the flow of a run with what the run did."`
	Lesson runsLessonCmd `cmd:"" help:"What a run has to teach, for a reviewer."`

	Approve runsApproveCmd `cmd:"" help:"Approve a call that a run waits for, and let it go on."`
	Deny    runsDenyCmd    `cmd:"" help:"Deny a call that a run waits for."`
	Cancel  runsCancelCmd  `cmd:"" help:"End a run that goes on or waits."`
	Events  runsEventsCmd  `cmd:"" help:"Follow the events of a run."`
}

type runsListCmd struct {
	Flow   string `help:"Only runs of this flow." env:"PAVE_FLOW"`
	Status string `help:"Only runs in this state: running, awaiting_approval, interrupted, succeeded, failed, handed_back, denied or cancelled." env:"PAVE_STATUS"`
	pageFlags
}

// Run lists runs.
func (c *runsListCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListRunsWithResponse(e.ctx, &gen.ListRunsParams{Flow: c.Flow, Status: gen.RunStatus(c.Status), Limit: c.Limit, Cursor: c.Cursor}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "ID", "FLOW", "STATUS", "STARTED", "MS", "CALLER", "LLM CALLS AVOIDED")
			t.Otherwise("no run")
			for _, r := range resp.JSON200.Items {
				status := string(r.Status)
				if r.DryRun {
					status += " (dry run)"
				}
				t.Row(r.ID, r.Flow+"@"+r.Version, status, when(r.StartedAt), fmt.Sprint(r.DurationMs), r.Caller, fmt.Sprintf("%.1f", r.LlmCallsAvoided))
			}
			if err := t.Flush(); err != nil {
				return err
			}
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}

type runsShowCmd struct {
	ID string `arg:"" help:"The run's id."`
}

// Run shows one run.
func (c *runsShowCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetRunWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return showRun(w, resp.JSON200) })
	})
}

func showRun(w io.Writer, r *gen.Run) error {
	fmt.Fprintf(w, "%s  %s@%s  %s\n", r.ID, output.Clean(r.Flow), output.Clean(r.Version), r.Status)
	fmt.Fprintf(w, "by %s, started %s, %d ms, %d steps recorded, %d of them done\n", dash(output.Clean(r.Caller)), when(r.StartedAt), r.DurationMs, r.Steps, r.StepsDone)
	if why := whyEnded(r); why != "" {
		fmt.Fprintln(w, why)
	}
	if err := showApprovals(w, r.Approvals); err != nil || len(r.Record) == 0 {
		return err
	}
	record, err := readRecord(r.Record)
	if err != nil {
		return err
	}
	t := output.NewTable(w, "STEP", "TOOL", "RESULT", "MS", "RETRIES", "INPUTS", "OUTPUTS")
	for i := range record.ExecutionLog {
		s := &record.ExecutionLog[i]
		step := fmt.Sprint(s.StepIndex)
		if s.StepID != "" {
			step += " " + s.StepID
		}
		t.Row(step, s.ToolName, stepResult(s), fmt.Sprintf("%.1f", s.DurationMS), fmt.Sprint(s.RetryCount), compact(s.Inputs), compact(s.Outputs))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if h := record.HandBack; h != nil {
		fmt.Fprintf(w, "handed back before step %d (%s): %s\n  inputs %s\n", h.StepIndex, output.Clean(h.ToolName), output.Clean(h.Reason), output.Clean(compact(h.Inputs)))
	}
	if len(r.Output) > 0 {
		return output.JSON(w, r.Output)
	}
	return nil
}

func showApprovals(w io.Writer, approvals []gen.RunApproval) error {
	if len(approvals) == 0 {
		return nil
	}
	t := output.NewTable(w, "APPROVAL", "TOOL", "SIDE EFFECTS", "DECISION", "BY", "UNTIL", "INPUTS")
	for i := range approvals {
		a := &approvals[i]
		t.Row(a.Step, a.ToolName, string(a.SideEffects), string(a.Decision), dash(a.DecidedBy), when(a.ExpiresAt), output.Short(string(a.Inputs), 60))
	}
	return t.Flush()
}

func stepResult(s *executor.StepRecord) string {
	switch {
	case !s.Success && s.ErrorCode != nil:
		return *s.ErrorCode
	case !s.Success:
		return "failed"
	case s.Skipped:
		return "skipped"
	case s.Cached:
		return "cached"
	case s.FallbackUsed && s.FallbackToolName != nil:
		return "by " + *s.FallbackToolName
	}
	return "ok"
}

// compact is a value on one short line.
func compact(v map[string]any) string {
	if v == nil {
		return "-"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return output.Short(string(text), 60)
}

type runsLessonCmd struct {
	ID string `arg:"" help:"The run's id."`
}

// Run prints the lesson of a run.
func (c *runsLessonCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetRunLessonWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return lessonText(w, resp.GetBody()) })
	})
}

func lessonText(w io.Writer, body []byte) error {
	var l struct {
		Summary      string  `json:"summary"`
		ErrorMessage *string `json:"error_message"`
		Evidence     []struct {
			StepIndex int     `json:"step_index"`
			ToolName  string  `json:"tool_name"`
			Success   bool    `json:"success"`
			ErrorType *string `json:"error_type"`
		} `json:"evidence"`
	}
	if err := json.Unmarshal(body, &l); err != nil {
		return fmt.Errorf("the server's lesson: %w", err)
	}
	fmt.Fprintln(w, output.Clean(l.Summary))
	if l.ErrorMessage != nil {
		fmt.Fprintln(w, output.Clean(*l.ErrorMessage))
	}
	t := output.NewTable(w, "STEP", "TOOL", "RESULT")
	for _, s := range l.Evidence {
		result := "ok"
		if !s.Success {
			result = "failed"
			if s.ErrorType != nil {
				result = *s.ErrorType
			}
		}
		t.Row(fmt.Sprint(s.StepIndex), s.ToolName, result)
	}
	return t.Flush()
}
