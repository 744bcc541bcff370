package main

import (
	"fmt"
	"io"
	"strings"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type promoteCmd struct {
	ID        string      `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
	AsVersion string      `help:"Version of the flow; 1.0.0 or the next one without it." env:"PAVE_FLOW_VERSION" name:"flow-version" placeholder:"SEMVER"`
	Rollout   callerShare `help:"Serve this share of the callers who name no version, such as 0.1 or 10%; the others stay with the version before, or go on by hand where there is none. pave flows rollout raises it. All without it." env:"PAVE_ROLLOUT" placeholder:"SHARE"`
}

// Run promotes the proposal as it is now.
func (c *promoteCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		p, err := getProposal(e, cl, c.ID)
		if err != nil {
			return err
		}
		resp, err := check(cl.PromoteProposalWithResponse(e.ctx, p.ID, &gen.PromoteProposalParams{IfMatch: etag(p.Revision)},
			gen.PromoteRequest{Version: c.AsVersion, Rollout: float64(c.Rollout)}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "promoted %s@%s (%s)\n", output.Clean(resp.JSON200.Name), output.Clean(resp.JSON200.Version), resp.JSON200.Status)
			if r := resp.JSON200.Rollout; r != nil && err == nil {
				_, err = fmt.Fprintf(w, "  %s\n", rolloutText(r))
			}
			if b := resp.JSON200.Bump; b != nil && err == nil {
				_, err = fmt.Fprintf(w, "  %s: %s\n", b.Level, output.Clean(strings.Join(b.Reasons, "; ")))
			}
			return err
		})
	})
}
