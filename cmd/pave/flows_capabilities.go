package main

import (
	"io"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type flowsCapabilitiesCmd struct{ pageFlags }

// Run lists the active flows that others find by their capability id.
func (c *flowsCapabilitiesCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListCapabilitiesWithResponse(e.ctx, &gen.ListCapabilitiesParams{Limit: c.Limit, Cursor: c.Cursor}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "CAPABILITY", "FLOW", "SIDE EFFECTS", "APPROVAL", "DESCRIPTION")
			t.Otherwise("no active flow has a capability id")
			for _, item := range resp.JSON200.Items {
				t.Row(item.ID, item.Name+"@"+item.Version, string(item.Safety.SideEffects), yesNo(item.Safety.RequiresApproval), output.Short(item.Description, 60))
			}
			if err := t.Flush(); err != nil {
				return err
			}
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}
