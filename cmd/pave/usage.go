package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type usageCmd struct {
	From time.Time `help:"Count from this time on (RFC 3339, or a day of UTC)." env:"PAVE_FROM" placeholder:"TIME"`
	To   time.Time `help:"Count before this time (RFC 3339, or a day of UTC)." env:"PAVE_TO" placeholder:"TIME"`
}

// Run says who used the installation.
func (c *usageCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetUsageWithResponse(e.ctx, &gen.GetUsageParams{From: c.From, To: c.To}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "PRINCIPAL", "KEYS", "LAST USED", "RUNS", "SUCCEEDED", "DRY RUNS", "CHANGES")
			for _, u := range resp.JSON200.Principals {
				t.Row(u.Principal, fmt.Sprint(u.Keys), when(u.LastUsedAt), fmt.Sprint(u.Runs), fmt.Sprint(u.Succeeded), fmt.Sprint(u.DryRuns), fmt.Sprint(u.Changes))
			}
			if err := t.Flush(); err != nil {
				return err
			}
			s := resp.JSON200.Stored
			_, err := fmt.Fprintf(w, "stored: %d sessions, %d tool calls, %d model calls, %d flow runs\n", s.Sessions, s.ToolCalls, s.LlmCalls, s.Runs)
			return err
		})
	})
}

type whoamiCmd struct{}

// Run says as whom the command line acts, and with which rights.
func (whoamiCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetMeWithResponse(e.ctx))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			scopes := make([]string, len(resp.JSON200.Scopes))
			for i, s := range resp.JSON200.Scopes {
				scopes[i] = string(s)
			}
			_, err := fmt.Fprintf(w, "%s: %s\n", output.Clean(resp.JSON200.Principal), dash(strings.Join(scopes, ", ")))
			return err
		})
	})
}
