package main

import (
	"fmt"
	"io"
	"time"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/flows"
)

func invalidInput(message string) error { return flows.NewError(flows.CodeInvalid, message) }

type reportCmd struct {
	Kind string    `arg:"" optional:"" help:"${enum}. savings sums what runs avoided; the others are by day." enum:"savings,savings-by-day,coverage,drift,reliability,adoption,adoption-by-agent,activity,follows" default:"savings"`
	CSV  bool      `help:"As CSV; of reports by day." name:"csv" env:"PAVE_CSV"`
	From time.Time `help:"Only runs from this time on (RFC 3339, or a day of UTC)." env:"PAVE_FROM" placeholder:"TIME"`
	To   time.Time `help:"Only runs before this time (RFC 3339, or a day of UTC)." env:"PAVE_TO" placeholder:"TIME"`
}

// Run prints a report.
func (c *reportCmd) Run(e *env) error {
	switch c.Kind {
	case "savings":
	case "activity", "follows":
		return c.walks(e)
	default:
		return c.byDay(e)
	}
	if c.CSV {
		return errUsage("--csv: of reports by day; take savings-by-day")
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetSavingsReportWithResponse(e.ctx, &gen.GetSavingsReportParams{From: c.From, To: c.To}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return savingsTable(w, resp.JSON200) })
	})
}

func savingsTable(w io.Writer, r *gen.SavingsReport) error {
	if r.Total.Runs == 0 {
		_, err := fmt.Fprintln(w, "no flow has run in this time; pave flows list shows what could")
		return err
	}
	fmt.Fprintln(w, "MEASURED: what the replaced stretches used on average, times the runs (95 % interval)")
	t := output.NewTable(w, "FLOW", "RUNS", "OK", "FAILED", "HANDED BACK", "DENIED", "LLM CALLS AVOIDED", "TOKENS", "COST USD", "LATENCY S")
	row := func(name string, f gen.FlowSavings) {
		m := f.Measured
		if f.Runs == 0 { // nothing ran, so nothing was avoided, which is known
			t.Row(name, "0", "0", "0", "0", "0", "0", "0", "0", "0")
			return
		}
		t.Row(name, fmt.Sprint(f.Runs), fmt.Sprint(f.Succeeded), fmt.Sprint(f.Failed), fmt.Sprint(f.HandedBack), fmt.Sprint(f.Denied),
			sum(m.LlmCalls, "%.1f", 1), sum(m.Tokens, "%.0f", 1), sum(m.CostUsd, "%.4f", 1), sum(m.LatencyMs, "%.1f", 1000))
	}
	for _, f := range r.Flows {
		row(f.Flow+"@"+f.Version, f)
	}
	row("total", r.Total)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range r.Flows {
		fmt.Fprintf(w, "  %s: %s\n", output.Clean(f.Flow), output.Clean(f.Measured.Basis))
	}
	fmt.Fprintln(w, "\nESTIMATE: a configured profile of one model call, for comparison")
	t = output.NewTable(w, "FLOW", "LLM CALLS AVOIDED", "TOKENS", "COST USD", "LATENCY S")
	estimate := func(name string, s gen.EstimatedSavings) {
		t.Row(name, fmt.Sprint(s.LlmCalls), fmt.Sprintf("%.0f", s.Tokens), fmt.Sprintf("%.4f", s.CostUsd), fmt.Sprintf("%.1f", s.LatencyMs/1000))
	}
	for _, f := range r.Flows {
		estimate(f.Flow+"@"+f.Version, f.Estimate)
	}
	estimate("total", r.Total.Estimate)
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Repeats != nil && r.Repeats.Calls > 0 {
		fmt.Fprintf(w, "\nAPART: %d calls of %d sessions repeated the call before exactly; a cache would have answered them\n",
			r.Repeats.Calls, r.Repeats.Sessions)
	}
	return nil
}

// sum prints a summed figure with its bounds, in units of 1/scale.
func sum(f gen.Figure, format string, scale float64) string {
	switch {
	case !f.Known:
		return "unknown"
	case f.Low == f.High:
		return fmt.Sprintf(format, f.Mean/scale)
	}
	return fmt.Sprintf(format+" ("+format+" to "+format+")", f.Mean/scale, f.Low/scale, f.High/scale)
}
