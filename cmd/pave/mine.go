package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"pave/api/gen"
)

type mineCmd struct {
	From        time.Time `help:"Only sessions from this time on (RFC 3339)." env:"PAVE_FROM" format:"2006-01-02T15:04:05Z07:00"`
	To          time.Time `help:"Only sessions before this time (RFC 3339)." env:"PAVE_TO" format:"2006-01-02T15:04:05Z07:00"`
	MinSessions int       `help:"A path must occur in this many sessions; 0 takes the default." env:"PAVE_MIN_SESSIONS"`
	MaxLength   int       `help:"Longest path, 2 to 16; 0 takes the default." env:"PAVE_MAX_LENGTH"`
}

// Run mines and waits for the end of the pass.
func (c *mineCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.StartMiningRunWithResponse(e.ctx, &gen.StartMiningRunParams{Wait: true},
			gen.MiningRequest{From: c.From, To: c.To, MinSessions: c.MinSessions, MaxLength: c.MaxLength}))
		if err != nil {
			return err
		}
		if resp.StatusCode() != http.StatusOK {
			return fmt.Errorf("the pass did not end in time; see GET %s", resp.HTTPResponse.Header.Get("Location"))
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return mineTable(w, resp.JSON200) })
	})
}

func mineTable(w io.Writer, m *gen.MiningRun) error {
	fmt.Fprintf(w, "mining run %s %s\n", m.ID, m.Status)
	fmt.Fprintf(w, "read       %d sessions, %d tool calls in %d stretches, issued in %d model turns, %d exact repeats\n",
		m.Sessions, m.Calls, m.Stretches, m.LlmCalls, m.RepeatCalls)
	fmt.Fprintf(w, "found      %d patterns, %d candidates, %d blocked paths\n", m.Patterns, m.Candidates, m.Blocked)
	p := m.Proposals
	_, err := fmt.Fprintf(w, "proposals  %d new, %d returned, %d updated, %d changed, %d unchanged, %d suppressed, %d over the cap\n",
		p.Created, p.Returned, p.Updated, p.Changed, p.Unchanged, p.Suppressed, p.Capped)
	return err
}
