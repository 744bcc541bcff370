package main

import (
	"fmt"
	"io"
	"strings"

	"pave/api"
	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type proposalsCmd struct {
	List     proposalsListCmd     `cmd:"" help:"The queue, best first."`
	Show     proposalsShowCmd     `cmd:"" help:"One proposal with all that a reviewer needs."`
	Viz      proposalsVizCmd      `cmd:"" help:"Draw what would run, with where each argument comes from."`
	Submit   proposalsSubmitCmd   `cmd:"" help:"Propose the flow of a file, made by a person or by another generator."`
	Edit     proposalsEditCmd     `cmd:"" help:"Replace the draft by a file's; earlier approvals are dismissed."`
	Assign   proposalsAssignCmd   `cmd:"" help:"Name who is to look at a proposal, its labels or the flow's owner."`
	Comment  proposalsCommentCmd  `cmd:"" help:"Remark on a proposal or on one place of its flow."`
	Comments proposalsCommentsCmd `cmd:"" help:"Read the remarks on a proposal."`
	Diff     proposalsDiffCmd     `cmd:"" help:"What differs from the version that runs."`
	Check    proposalsCheckCmd    `cmd:"" help:"Compile the draft and lay it over recorded sessions."`
	Reserve  proposalsReserveCmd  `cmd:"" help:"Say that you read a proposal, so that others take another one; for 15 minutes."`
	Release  proposalsReleaseCmd  `cmd:"" help:"End your reservation."`
	Approve  proposalsApproveCmd  `cmd:"" help:"Approve a proposal as it is now."`
	Reject   proposalsRejectCmd   `cmd:"" help:"Reject proposals; they do not come back unchanged."`
	Withdraw proposalsWithdrawCmd `cmd:"" help:"Take a proposal out of the queue."`
	Rejected proposalsRejectedCmd `cmd:"" help:"What is not proposed again, and what would lift that."`
}

type proposalsListCmd struct {
	State    string `help:"Only this state: ${enum}." env:"PAVE_STATE" enum:"open,all,proposed,in_review,changes_requested,approved,promoted,rejected,withdrawn,superseded" default:"open"`
	Source   string `help:"Only this source: miner, analyzer, submitted or external." env:"PAVE_SOURCE" enum:",miner,analyzer,submitted,external" default:""`
	Assignee string `help:"Only what this principal is to look at." env:"PAVE_ASSIGNEE" placeholder:"PRINCIPAL"`
	Sort     string `help:"Order: ${enum}." env:"PAVE_SORT" enum:"rank,score,created,updated,savings" default:"rank"`
	pageFlags
}

// Run lists proposals.
func (c *proposalsListCmd) Run(e *env) error {
	params := &gen.ListProposalsParams{Limit: c.Limit, Cursor: c.Cursor, Source: gen.ProposalSource(c.Source), Assignee: c.Assignee,
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
			t := output.NewTable(w, "ID", "STATE", "SOURCE", "FLOW", "PATH", "SEEN", "SESSIONS", "EXACT", "CALLS KNOWN", "LLM CALLS/RUN", "SAFETY", "APPROVALS", "UNBOUND")
			t.Otherwise("no proposal; pave mine makes them of recorded sessions, and --state all shows those that are closed")
			for _, p := range resp.JSON200.Items {
				exact, known := exactOrKnown(&p)
				t.Row(p.ID, string(p.State), string(p.Source), p.FlowName, output.Short(pathOf(p.Tools), 60),
					fmt.Sprint(p.Occurrences), fmt.Sprint(p.Sessions), exact, known,
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

// exactOrKnown is how often the mappings of a proposal held, or of one that takes whole calls how often callers knew several.
func exactOrKnown(p *gen.ProposalSummary) (exact, known string) {
	if b := p.Batch; b != nil {
		return "-", share(b.Several, b.Examined)
	}
	return share(p.Explained, p.Sampled), "-"
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
	ID      string   `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
	Digest  string   `help:"Approve only if this is still the digest; without it the current one." env:"PAVE_DIGEST"`
	Comment string   `help:"Remark for the record." env:"PAVE_COMMENT"`
	Safety  []string `help:"What a tool does whose safety nobody declared, and how you know: TOOL=LEVEL:REASON, where the level is none, read, write, external or destructive." env:"PAVE_SAFETY" placeholder:"DECLARATION" sep:"none"`
}

// Run approves.
func (c *proposalsApproveCmd) Run(e *env) error {
	body := gen.ReviewCreate{Verdict: gen.VerdictApprove, Digest: c.Digest, Comment: c.Comment}
	for _, entry := range c.Safety {
		tool, rest, ok := strings.Cut(entry, "=")
		level, reason, told := strings.Cut(rest, ":")
		if !ok || !told {
			return errUsage("--safety " + output.Clean(entry) + ": use TOOL=LEVEL:REASON\n")
		}
		body.Safety = append(body.Safety, gen.SafetyDeclaration{Tool: tool, SideEffects: gen.SideEffects(level), Reason: strings.TrimSpace(reason)})
	}
	return review(e, c.ID, body)
}

type proposalsReserveCmd struct {
	ID string `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
}

// Run reserves.
func (c *proposalsReserveCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ReserveProposalWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s is yours to read until %s\n", resp.JSON200.ID, when(resp.JSON200.Reservation.Until))
			return err
		})
	})
}

type proposalsReleaseCmd struct {
	ID string `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
}

// Run releases.
func (c *proposalsReleaseCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ReleaseProposalWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return stateLine(w, resp.JSON200) })
	})
}

type proposalsRejectCmd struct {
	IDs      []string `arg:"" name:"id" help:"Proposals: each its id, a unique beginning of it, or its flow's name."`
	Reason   string   `help:"Why; remembered with the rejection." required:"" env:"PAVE_REASON"`
	Changes  bool     `help:"Request changes instead of rejecting; of one proposal." env:"PAVE_CHANGES"`
	Feedback string   `help:"With --changes, what is wrong: mapping_wrong, schema_too_loose, not_a_flow or other." enum:",mapping_wrong,schema_too_loose,not_a_flow,other" default:"" env:"PAVE_FEEDBACK"`
}

// Run rejects. One proposal is rejected as it is now; of several each is decided for itself.
func (c *proposalsRejectCmd) Run(e *env) error {
	switch {
	case c.Feedback != "" && !c.Changes:
		return errUsage("--feedback goes with --changes")
	case len(c.IDs) > 1 && c.Changes:
		return errUsage("--changes is for one proposal at a time")
	case len(c.IDs) > 1:
		return c.many(e)
	case c.Changes:
		return review(e, c.IDs[0], gen.ReviewCreate{Verdict: gen.VerdictRequestChanges, Feedback: gen.Feedback(c.Feedback), Comment: c.Reason})
	}
	return review(e, c.IDs[0], gen.ReviewCreate{Verdict: gen.VerdictReject, Comment: c.Reason})
}

func (c *proposalsRejectCmd) many(e *env) error {
	body := gen.BulkReject{Reason: c.Reason}
	for _, id := range c.IDs {
		body.Items = append(body.Items, gen.BulkItem{ID: id})
	}
	refused := 0
	err := e.withClient(func(cl *client) error {
		resp, err := check(cl.BulkRejectProposalsWithResponse(e.ctx, body))
		if err != nil {
			return err
		}
		for _, o := range resp.JSON200.Items {
			if !o.Rejected {
				refused++
			}
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "PROPOSAL", "REJECTED", "WHY NOT")
			for _, o := range resp.JSON200.Items {
				t.Row(o.ID, yesNo(o.Rejected), o.Detail)
			}
			return t.Flush()
		})
	})
	if err == nil && refused > 0 {
		return errExit(api.ExitFailed)
	}
	return err
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
