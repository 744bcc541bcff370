package main

import (
	"fmt"
	"io"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type flowsProfileCmd struct {
	Flow string `arg:"" help:"NAME or NAME@VERSION."`
}

// Run shows how long the recorded runs of a flow and their steps took.
func (c *flowsProfileCmd) Run(e *env) error {
	name, version, _, err := flowRef(c.Flow)
	if err != nil {
		return err
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetFlowProfileWithResponse(e.ctx, name, &gen.GetFlowProfileParams{Version: version}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return profileTable(w, resp.JSON200) })
	})
}

func profileTable(w io.Writer, p *gen.FlowProfile) error {
	fmt.Fprintf(w, "%d runs, %d failed\n", p.Runs, p.Failed)
	t := output.NewTable(w, "STEP", "TOOL", "P50 MS", "P95 MS", "P99 MS", "MEAN MS", "DEVIATION", "FAILED", "SKIPPED", "CACHED", "RETRIES", "FALLBACKS")
	row := func(step, tool string, d gen.Durations, counts ...int) {
		deviation := fmt.Sprintf("%.1f", d.StddevMs)
		if d.Unsteady {
			deviation += " unsteady"
		}
		cells := []string{step, tool, fmt.Sprintf("%.1f", d.P50Ms), fmt.Sprintf("%.1f", d.P95Ms), fmt.Sprintf("%.1f", d.P99Ms), fmt.Sprintf("%.1f", d.MeanMs), deviation}
		for _, n := range counts {
			cells = append(cells, fmt.Sprint(n))
		}
		t.Row(cells...)
	}
	for _, s := range p.Steps {
		step := fmt.Sprint(s.StepIndex)
		if s.StepID != "" {
			step += " " + s.StepID
		}
		row(step, s.ToolName, s.Durations, s.Failed, s.Skipped, s.Cached, s.Retries, s.Fallbacks)
	}
	row("all", "", p.Total)
	return t.Flush()
}
