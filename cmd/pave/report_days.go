package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

// byDay prints a report by day.
func (c *reportCmd) byDay(e *env) error {
	params := &gen.GetReportParams{From: c.From, To: c.To}
	kind := gen.GetReportParamsKind(c.Kind)
	if c.CSV {
		params.Format = gen.GetReportParamsFormatCsv
		return e.withClient(func(cl *client) error {
			resp, err := cl.GetReport(e.ctx, kind, params)
			return e.copyAnswer(resp, err)
		})
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetReportWithResponse(e.ctx, kind, params))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			var report struct {
				Columns []string
				Items   []map[string]any
			}
			if err := decodeExact(resp.GetBody(), &report); err != nil {
				return err
			}
			titles := make([]string, len(report.Columns))
			for i, column := range report.Columns {
				titles[i] = strings.ToUpper(strings.ReplaceAll(column, "_", " "))
			}
			if len(report.Items) == 0 {
				return nothingInTime(w)
			}
			t := output.NewTable(w, titles...)
			for _, item := range report.Items {
				cells := make([]string, len(report.Columns))
				for i, column := range report.Columns {
					cells[i] = cell(column, item[column])
				}
				t.Row(cells...)
			}
			return t.Flush()
		})
	})
}

// nothingInTime says that a report has no line, and where what is missing may be.
func nothingInTime(w io.Writer) error {
	_, err := fmt.Fprintln(w, "nothing to report in this time; a session counts once it was assembled, and by day only where its calls have a start")
	return err
}

// shares are columns that are parts of a whole.
const shares = " failure_rate coverage realised conformance adoption "

func cell(column string, v any) string {
	n, ok := v.(json.Number)
	if !ok {
		return fmt.Sprint(v)
	}
	f, err := n.Float64()
	switch {
	case err != nil || !strings.Contains(n.String(), ".") && !strings.Contains(shares, " "+column+" "):
		return n.String()
	case strings.Contains(shares, " "+column+" "):
		return fmt.Sprintf("%.1f%%", 100*f)
	}
	return fmt.Sprintf("%.2f", f)
}

// walks prints what agents do by themselves: their days, or which tool follows which.
func (c *reportCmd) walks(e *env) error {
	if c.CSV {
		return errUsage("--csv: not of activity and follows")
	}
	return e.withClient(func(cl *client) error {
		if c.Kind == "activity" {
			resp, err := check(cl.GetActivityReportWithResponse(e.ctx, &gen.GetActivityReportParams{From: c.From, To: c.To}))
			if err != nil {
				return err
			}
			return e.print(resp.GetBody(), func(w io.Writer) error {
				if len(resp.JSON200.Days) == 0 {
					return nothingInTime(w)
				}
				t := output.NewTable(w, "DAY", "AGENT", "CALLS", "SESSIONS")
				for _, d := range resp.JSON200.Days {
					t.Row(d.Day.String(), dash(d.Agent), fmt.Sprint(d.Calls), fmt.Sprint(d.Sessions))
				}
				return t.Flush()
			})
		}
		resp, err := check(cl.GetFollowsWithResponse(e.ctx, &gen.GetFollowsParams{From: c.From, To: c.To}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			if len(resp.JSON200.Edges) == 0 {
				return nothingInTime(w)
			}
			t := output.NewTable(w, "FROM", "TO", "COUNT", "OF ALL")
			for _, x := range resp.JSON200.Edges {
				t.Row(x.From, x.To, fmt.Sprint(x.Count), fmt.Sprintf("%.1f%%", 100*x.Confidence))
			}
			return t.Flush()
		})
	})
}
