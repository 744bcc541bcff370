package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type deleteCmd struct {
	Sessions []string  `arg:"" optional:"" name:"session" help:"Sessions to delete."`
	User     string    `help:"Delete the sessions in which the metadata of a record names this user (user, user_id, user.id, enduser.id)." env:"PAVE_USER" placeholder:"USER"`
	From     time.Time `help:"Only sessions that started then or later (RFC 3339, or a day of UTC)." env:"PAVE_FROM" placeholder:"TIME"`
	To       time.Time `help:"Delete sessions that started before (RFC 3339, or a day of UTC)." env:"PAVE_TO" placeholder:"TIME"`
	Yes      bool      `help:"Delete; without it the command says what it would ask for." env:"PAVE_YES"`
}

// Help is shown by --help.
func (deleteCmd) Help() string {
	return `What is deleted cannot be brought back. What was made of it goes, too: golden tests, what proposals and mining passes
cite of it, and the values of the flow runs in its traces. Flows stay, with constants that many sessions shared, and so do
backups.`
}

// Run deletes recorded sessions and prints the receipt.
func (c *deleteCmd) Run(e *env) error {
	timed := !c.From.IsZero() || !c.To.IsZero()
	switch {
	case len(c.Sessions) == 0 && c.User == "" && !timed:
		return errUsage("say what to delete: sessions, --user or --to\n")
	case len(c.Sessions) > 0 && (c.User != "" || timed):
		return errUsage("name sessions, or give --user, --from and --to, not both")
	case timed && c.User == "" && c.To.IsZero():
		return errUsage("a deletion by time needs its end, --to")
	}
	if !c.Yes {
		return errUsage("this deletes " + c.asked() + " for good; add --yes to do it\n")
	}
	return e.withClient(func(cl *client) error {
		if len(c.Sessions) == 1 {
			resp, err := check(cl.DeleteSessionWithResponse(e.ctx, c.Sessions[0]))
			if err != nil {
				return err
			}
			return e.printReceipt(resp.GetBody(), resp.JSON200)
		}
		resp, err := check(cl.CreateDeletionWithResponse(e.ctx, &gen.CreateDeletionParams{},
			gen.DeletionCreate{Sessions: c.Sessions, User: c.User, From: c.From, To: c.To}))
		if err != nil {
			return err
		}
		return e.printReceipt(resp.GetBody(), resp.JSON200)
	})
}

// asked says in words what is to be deleted.
func (c *deleteCmd) asked() string {
	switch len(c.Sessions) {
	case 0:
	case 1:
		return "session " + output.Clean(c.Sessions[0])
	default:
		return fmt.Sprintf("%d named sessions", len(c.Sessions))
	}
	text := "every session"
	if c.User != "" {
		text += " of " + output.Clean(c.User)
	}
	if !c.From.IsZero() {
		text += " from " + when(c.From)
	}
	if !c.To.IsZero() {
		text += " before " + when(c.To)
	}
	return text
}

func (e *env) printReceipt(body []byte, r *gen.DeletionReceipt) error {
	return e.print(body, func(w io.Writer) error {
		fmt.Fprintf(w, "deleted %d sessions: %d events, %d tool calls among them (receipt %s)\n", r.Sessions, r.Events, r.ToolCalls, output.Clean(r.ID))
		if r.GoldenTests+r.Proposals+r.ReplayChecks+r.MiningRuns+r.Runs > 0 {
			fmt.Fprintf(w, "and what was made of them: %d golden tests, the values of %d flow runs, citations in %d proposals, %d replay checks and %d mining passes\n",
				r.GoldenTests, r.Runs, r.Proposals, r.ReplayChecks, r.MiningRuns)
		}
		if r.RunsOpen > 0 {
			fmt.Fprintf(w, "%d flow runs of them go on or wait and keep their values: pave runs cancel, then delete again\n", r.RunsOpen)
		}
		return nil
	})
}

type redactCmd struct {
	File string `arg:"" optional:"" default:"-" help:"JSON document; standard input without it." placeholder:"FILE"`
}

// Help is shown by --help.
func (redactCmd) Help() string {
	return "Nothing is stored. The settings are those of the data directory or the server."
}

func (c *redactCmd) read(e *env) ([]byte, error) {
	if c.File == "-" {
		return io.ReadAll(e.in)
	}
	return readFile("document", c.File)
}

// Run prints a document as it would be stored; what was hidden goes to standard error.
func (c *redactCmd) Run(e *env) error {
	body, err := c.read(e)
	if err != nil {
		return err
	}
	if !json.Valid(body) {
		return errUsage("the document is not JSON\n")
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.PreviewRedactionWithResponse(e.ctx, gen.RedactionPreviewCreate{Payload: body}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			for _, m := range resp.JSON200.Marks {
				fmt.Fprintf(e.err, "%s at %s\n", output.Clean(m.Kind), output.Clean(m.Pointer))
			}
			if len(resp.JSON200.Marks) == 0 {
				fmt.Fprintln(e.err, "nothing is hidden")
			}
			return output.JSON(w, resp.JSON200.Payload)
		})
	})
}
