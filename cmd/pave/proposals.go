package main

import (
	"fmt"
	"io"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type proposalsCmd struct {
	List     proposalsListCmd     `cmd:"" help:"The queue, best first."`
	Show     proposalsShowCmd     `cmd:"" help:"One proposal with all that a reviewer needs."`
	Approve  proposalsApproveCmd  `cmd:"" help:"Approve a proposal as it is now."`
	Reject   proposalsRejectCmd   `cmd:"" help:"Reject a proposal; it does not come back unchanged."`
	Withdraw proposalsWithdrawCmd `cmd:"" help:"Take a proposal out of the queue."`
}

type proposalsListCmd struct {
	State  string `help:"Only this state: ${enum}." env:"PAVE_STATE" enum:"open,all,proposed,in_review,changes_requested,approved,promoted,rejected,withdrawn,superseded" default:"open"`
	Source string `help:"Only this source: miner or analyzer." env:"PAVE_SOURCE" enum:",miner,analyzer" default:""`
	Sort   string `help:"Order: ${enum}." env:"PAVE_SORT" enum:"rank,created" default:"rank"`
	pageFlags
}

// Run lists proposals.
func (c *proposalsListCmd) Run(e *env) error {
	params := &gen.ListProposalsParams{Limit: c.Limit, Cursor: c.Cursor, Source: gen.ProposalSource(c.Source),
		Sort: gen.ListProposalsParamsSort(c.Sort)}
	if c.State != "all" {
		params.State = gen.ListProposalsParamsState(c.State)
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListProposalsWithResponse(e.ctx, params))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "ID", "STATE", "SOURCE", "FLOW", "PATH", "SEEN", "SESSIONS", "EXACT", "LLM CALLS/RUN", "SAFETY", "APPROVALS", "UNBOUND")
			for _, p := range resp.JSON200.Items {
				t.Row(p.ID, string(p.State), string(p.Source), p.FlowName, output.Short(pathOf(p.Tools), 60),
					fmt.Sprint(p.Occurrences), fmt.Sprint(p.Sessions), share(p.Explained, p.Sampled),
					figure(p.Savings.LlmCallsPerRun, "%.1f"), string(p.Safety), fmt.Sprintf("%d/%d", p.Approvals, p.Needs), fmt.Sprint(len(p.Unbound)))
			}
			if err := t.Flush(); err != nil {
				return err
			}
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}

type proposalsShowCmd struct {
	ID string `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
}

// Run shows one proposal.
func (c *proposalsShowCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetProposalWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return showProposal(w, resp.JSON200) })
	})
}

type proposalsApproveCmd struct {
	ID      string `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
	Digest  string `help:"Approve only if this is still the digest; without it the current one." env:"PAVE_DIGEST"`
	Comment string `help:"Remark for the record." env:"PAVE_COMMENT"`
}

// Run approves.
func (c *proposalsApproveCmd) Run(e *env) error {
	return review(e, c.ID, gen.ReviewCreate{Verdict: gen.VerdictApprove, Digest: c.Digest, Comment: c.Comment})
}

type proposalsRejectCmd struct {
	ID      string `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
	Reason  string `help:"Why; remembered with the rejection." required:"" env:"PAVE_REASON"`
	Changes bool   `help:"Request changes instead of rejecting." env:"PAVE_CHANGES"`
}

// Run rejects.
func (c *proposalsRejectCmd) Run(e *env) error {
	verdict := gen.VerdictReject
	if c.Changes {
		verdict = gen.VerdictRequestChanges
	}
	return review(e, c.ID, gen.ReviewCreate{Verdict: verdict, Comment: c.Reason})
}

// review reads the proposal and sends a verdict on exactly what was read.
func review(e *env, id string, body gen.ReviewCreate) error {
	return e.withClient(func(cl *client) error {
		p, err := getProposal(e, cl, id)
		if err != nil {
			return err
		}
		if body.Digest == "" {
			body.Digest = p.Digest
		}
		resp, err := check(cl.ReviewProposalWithResponse(e.ctx, p.ID, &gen.ReviewProposalParams{IfMatch: etag(p.Revision)}, body))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return stateLine(w, resp.JSON200) })
	})
}

type proposalsWithdrawCmd struct {
	ID     string `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
	Reason string `help:"Why." env:"PAVE_REASON"`
}

// Run withdraws.
func (c *proposalsWithdrawCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		p, err := getProposal(e, cl, c.ID)
		if err != nil {
			return err
		}
		resp, err := check(cl.WithdrawProposalWithResponse(e.ctx, p.ID, &gen.WithdrawProposalParams{IfMatch: etag(p.Revision)},
			gen.WithdrawRequest{Reason: c.Reason}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return stateLine(w, resp.JSON200) })
	})
}

func getProposal(e *env, cl *client, id string) (*gen.Proposal, error) {
	resp, err := check(cl.GetProposalWithResponse(e.ctx, id))
	if err != nil {
		return nil, err
	}
	return resp.JSON200, nil
}

func stateLine(w io.Writer, p *gen.Proposal) error {
	_, err := fmt.Fprintf(w, "%s %s: %s, %d of %d approvals\n", p.ID, output.Clean(p.FlowName), p.State, p.Approvals, p.Needs)
	return err
}
