package main

import (
	"fmt"
	"io"
	"strings"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/flows"
	"pave/flows/diff"
)

type proposalsSubmitCmd struct {
	File     string `arg:"" help:"Flow file."`
	External bool   `help:"Say that another generator made it, such as a model." env:"PAVE_EXTERNAL"`
}

// Run proposes a flow.
func (c *proposalsSubmitCmd) Run(e *env) error {
	doc, err := flowDocument(c.File)
	if err != nil {
		return err
	}
	body := gen.ProposalCreate{Flow: doc}
	if c.External {
		body.Source = gen.ProposalCreateSourceExternal
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.SubmitProposalWithResponse(e.ctx, nil, body))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return checkedLine(w, resp.JSON201) })
	})
}

// flowDocument reads a flow file as the API takes it.
func flowDocument(path string) ([]byte, error) {
	data, err := readFile("flow file", path)
	if err != nil {
		return nil, err
	}
	flow, _, err := flows.ParseFlow(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return flow.MarshalJSON()
}

// checkedLine says where a proposal stands and what its new draft would have done.
func checkedLine(w io.Writer, p *gen.Proposal) error {
	if err := stateLine(w, p); err != nil {
		return err
	}
	if p.ReplayCheck == nil {
		return nil
	}
	return replayTable(w, p.ReplayCheck)
}

type proposalsEditCmd struct {
	ID   string `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
	File string `arg:"" help:"Flow file with the new draft."`
}

// Run edits the draft.
func (c *proposalsEditCmd) Run(e *env) error {
	doc, err := flowDocument(c.File)
	if err != nil {
		return err
	}
	return update(e, c.ID, gen.ProposalUpdate{Flow: doc}, checkedLine)
}

type proposalsAssignCmd struct {
	ID       string   `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
	To       *string  `help:"Who is to look at it; \"\" for nobody." placeholder:"PRINCIPAL" env:"PAVE_ASSIGN_TO"`
	Label    []string `help:"Its labels from now on." env:"PAVE_LABEL" xor:"labels"`
	NoLabels bool     `help:"Take all labels off." env:"PAVE_NO_LABELS" xor:"labels"`
	Owner    *string  `help:"The flow's owner, who must approve a destructive flow." placeholder:"PRINCIPAL" env:"PAVE_OWNER"`
}

// Run assigns and labels.
func (c *proposalsAssignCmd) Run(e *env) error {
	body := gen.ProposalUpdate{Assignee: c.To, Owner: c.Owner}
	if len(c.Label) > 0 || c.NoLabels {
		labels := append([]string{}, c.Label...)
		body.Labels = &labels
	}
	if body.Assignee == nil && body.Owner == nil && body.Labels == nil {
		return errUsage("give --to, --label, --no-labels or --owner")
	}
	return update(e, c.ID, body, stateLine)
}

// update reads the proposal and changes exactly what was read.
func update(e *env, id string, body gen.ProposalUpdate, show func(io.Writer, *gen.Proposal) error) error {
	return e.withClient(func(cl *client) error {
		p, err := getProposal(e, cl, id)
		if err != nil {
			return err
		}
		resp, err := check(cl.UpdateProposalWithResponse(e.ctx, p.ID, &gen.UpdateProposalParams{IfMatch: etag(p.Revision)}, body))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return show(w, resp.JSON200) })
	})
}

type proposalsCommentCmd struct {
	ID   string `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
	Text string `arg:"" help:"The remark."`
	At   string `help:"JSON pointer into the flow, such as /steps/1/input_mapping." env:"PAVE_AT" placeholder:"POINTER"`
}

// Run makes a remark.
func (c *proposalsCommentCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.CommentProposalWithResponse(e.ctx, c.ID, nil, gen.CommentCreate{Pointer: c.At, Body: c.Text}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return commentLine(w, *resp.JSON201) })
	})
}

type proposalsCommentsCmd struct {
	ID string `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
}

// Run lists remarks.
func (c *proposalsCommentsCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListProposalCommentsWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			for _, r := range resp.JSON200.Items {
				if err := commentLine(w, r); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func commentLine(w io.Writer, c gen.Comment) error {
	where := output.Clean(c.Pointer)
	if where == "" {
		where = "the whole"
	}
	if c.Outdated {
		where += " (changed since)"
	}
	_, err := fmt.Fprintf(w, "%s  %s on %s: %s\n", when(c.At), output.Clean(c.Principal), where, output.CleanLines(c.Body))
	return err
}

type proposalsDiffCmd struct {
	ID      string `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
	Against string `help:"NAME@VERSION; without it the active version of the flow." env:"PAVE_AGAINST"`
}

// Run compares.
func (c *proposalsDiffCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.DiffProposalWithResponse(e.ctx, c.ID, &gen.DiffProposalParams{Against: c.Against}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			d := new(diff.Diff)
			if err := decodeExact(resp.GetBody(), d); err != nil {
				return err
			}
			return diffText(w, d)
		})
	})
}

type proposalsCheckCmd struct {
	ID    string `arg:"" help:"Proposal: its id, a unique beginning of it, or its flow's name."`
	Limit int    `help:"Newest sessions to read, at most 2000; 200 without it." env:"PAVE_LIMIT"`
	Last  bool   `help:"Show the last check instead of making one." env:"PAVE_LAST"`
}

// Run checks the draft against recorded sessions.
func (c *proposalsCheckCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		if c.Last {
			resp, err := check(cl.GetReplayCheckWithResponse(e.ctx, c.ID))
			if err != nil {
				return err
			}
			return e.print(resp.GetBody(), func(w io.Writer) error { return replayTable(w, resp.JSON200) })
		}
		resp, err := check(cl.CheckProposalWithResponse(e.ctx, c.ID, gen.ReplayCheckRequest{Limit: c.Limit}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return replayTable(w, resp.JSON200) })
	})
}

func replayTable(w io.Writer, c *gen.ReplayCheck) error {
	for _, p := range c.Problems {
		fmt.Fprintf(w, "does not compile: %s: %s (%s)\n", output.Clean(p.Pointer), output.Clean(p.Detail), output.Clean(p.Code))
	}
	if c.Note != "" {
		fmt.Fprintln(w, output.Clean(c.Note))
	}
	fmt.Fprintf(w, "%d sessions read, %d walks of this path: %d exact, %d diverged, %d with inputs that the caller could not know; %d become golden tests\n",
		c.Sessions, c.Windows, c.Exact, c.DivergedCount, c.BlockedCount, c.GoldenTests)
	if c.DestructiveMismatches > 0 {
		fmt.Fprintf(w, "%d calls with side effects would have been made that the agents did not make\n", c.DestructiveMismatches)
	}
	for _, list := range [][]gen.ReplayWindow{c.Diverged, c.Blocked} {
		for _, window := range list {
			var faults []string
			for _, f := range window.Faults {
				faults = append(faults, fmt.Sprintf("step %d %s %s", f.Step, f.Arg, f.Reason))
			}
			fmt.Fprintf(w, "  session %s: %s\n", output.Clean(window.SessionID), output.Clean(strings.Join(faults, ", ")))
		}
	}
	return nil
}

type proposalsRejectedCmd struct {
	Limit int `help:"Rows, at most 500." env:"PAVE_LIMIT" default:"50"`
}

// Run lists what is remembered of rejections.
func (c *proposalsRejectedCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListRejectionsWithResponse(e.ctx, &gen.ListRejectionsParams{Limit: c.Limit}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "PROPOSAL", "FLOW", "STATE", "BY", "AT", "WHY", "COMES BACK WHEN")
			t.Otherwise("nothing was rejected")
			for _, j := range resp.JSON200.Items {
				t.Row(j.ProposalID, j.FlowName, string(j.State), j.By, when(j.At), output.Short(j.Reason, 60), strings.Join(j.Lifts, "; or "))
			}
			return t.Flush()
		})
	})
}
