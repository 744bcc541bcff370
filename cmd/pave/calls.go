package main

import (
	"fmt"
	"io"
	"time"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type callsCmd struct {
	Session string    `help:"Only calls of this session." env:"PAVE_CALL_SESSION"`
	Agent   string    `help:"Only calls of this agent." env:"PAVE_AGENT"`
	Tool    string    `help:"Only calls of this tool." env:"PAVE_CALL_TOOL"`
	Status  string    `help:"Only calls that ended so: ok, error, unknown or requested." env:"PAVE_CALL_STATUS"`
	From    time.Time `help:"Only sessions that started then or later (RFC 3339, or a day of UTC)." env:"PAVE_FROM" placeholder:"TIME"`
	To      time.Time `help:"Only sessions that started before (RFC 3339, or a day of UTC)." env:"PAVE_TO" placeholder:"TIME"`
	pageFlags
}

// Run lists calls.
func (c *callsCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListToolCallsWithResponse(e.ctx, &gen.ListToolCallsParams{Session: c.Session, Agent: c.Agent, Tool: c.Tool,
			Status: gen.CallStatus(c.Status), From: c.From, To: c.To, Limit: c.Limit, Cursor: c.Cursor}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			if len(resp.JSON200.Items) == 0 {
				_, err := fmt.Fprintln(w, "no calls; a session is listed once it was assembled: when nothing came for a minute, at its recorded end, or by pave mine")
				return err
			}
			t := output.NewTable(w, "SESSION", "AGENT", "SEQ", "TOOL", "STATUS", "STARTED", "MS", "CALL ID")
			for _, l := range resp.JSON200.Items {
				t.Row(l.SessionID, l.Agent, fmt.Sprint(l.Call.Seq), l.Call.Tool, string(l.Call.Status), when(l.Call.Start), fmt.Sprint(l.Call.DurationMs), l.Call.CallID)
			}
			if err := t.Flush(); err != nil {
				return err
			}
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}
