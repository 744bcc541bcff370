package main

import (
	"fmt"
	"io"
	"strings"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type flowsStatusCmd struct {
	Flow        string `arg:"" help:"NAME@VERSION, or NAME for the active version."`
	Status      string `arg:"" help:"active, needs_review or disabled." enum:"active,needs_review,disabled"`
	Reason      string `help:"Why." env:"PAVE_REASON"`
	AcceptDrift bool   `help:"Activate although a pinned tool changed; pin it as it is now." env:"PAVE_ACCEPT_DRIFT"`
}

// Run sets the status of the version as it is now.
func (c *flowsStatusCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		v, _, err := getFlow(e, cl, c.Flow)
		if err != nil {
			return err
		}
		resp, err := check(cl.SetFlowStatusWithResponse(e.ctx, v.Name, v.Version, &gen.SetFlowStatusParams{IfMatch: etag(v.Revision)},
			gen.StatusChange{Status: gen.FlowStatus(c.Status), Reason: c.Reason, AcceptDrift: c.AcceptDrift}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return versionLine(w, resp.JSON200) })
	})
}

type flowsRollbackCmd struct {
	Flow        string `arg:"" help:"NAME."`
	To          string `help:"Version to run from now on; without it the newest before the active one." env:"PAVE_TO" placeholder:"VERSION"`
	Reason      string `help:"Why." env:"PAVE_REASON"`
	AcceptDrift bool   `help:"Pin that version's tools as they are now." env:"PAVE_ACCEPT_DRIFT"`
}

// Run rolls the flow back from the version that is active now.
func (c *flowsRollbackCmd) Run(e *env) error {
	if strings.Contains(c.Flow, "@") {
		return errUsage("give the flow's name, and the version to go to with --to")
	}
	return e.withClient(func(cl *client) error {
		v, _, err := getFlow(e, cl, c.Flow)
		if err != nil {
			return err
		}
		resp, err := check(cl.RollbackFlowWithResponse(e.ctx, v.Name, &gen.RollbackFlowParams{IfMatch: etag(v.Revision)},
			gen.Rollback{To: c.To, Reason: c.Reason, AcceptDrift: c.AcceptDrift}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return versionLine(w, resp.JSON200) })
	})
}

func versionLine(w io.Writer, v *gen.FlowVersion) error {
	_, err := fmt.Fprintf(w, "%s@%s: %s%s\n", output.Clean(v.Name), output.Clean(v.Version), v.Status,
		map[bool]string{true: ", the version that runs"}[v.Active])
	return err
}
