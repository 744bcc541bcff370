package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"pave/api"
	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/flows"
	"pave/governance"
)

type auditCmd struct {
	List   auditListCmd   `cmd:"" help:"Who changed what, oldest first, or newest with --order desc."`
	Export auditExportCmd `cmd:"" help:"Write the whole log as NDJSON."`
	Verify auditVerifyCmd `cmd:"" help:"Check the hash chain, of the log or of an exported file."`
}

type auditListCmd struct {
	Order string `help:"asc is oldest first, desc newest first." enum:"asc,desc" default:"asc" env:"PAVE_ORDER"`
	pageFlags
}

// Run lists events.
func (c *auditListCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListAuditEventsWithResponse(e.ctx, &gen.ListAuditEventsParams{Order: gen.ListAuditEventsParamsOrder(c.Order), Limit: c.Limit, Cursor: c.Cursor}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "SEQ", "AT", "ACTOR", "ACTION", "OBJECT", "DETAIL")
			for _, a := range resp.JSON200.Items {
				t.Row(fmt.Sprint(a.Seq), when(a.At), a.Actor, a.Action, a.Object, output.Short(string(a.Detail), 80))
			}
			if err := t.Flush(); err != nil {
				return err
			}
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}

type auditExportCmd struct {
	To string `help:"File to write; standard output without it." env:"PAVE_EXPORT_TO" placeholder:"FILE"`
}

// Run exports the log.
func (c *auditExportCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := cl.ExportAuditEvents(e.ctx)
		if c.To == "" {
			return e.copyAnswer(resp, err)
		}
		f, created := os.OpenFile(c.To, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if created != nil {
			return errUsage("exported log: " + created.Error())
		}
		to := *e
		to.out = f
		return errors.Join(to.copyAnswer(resp, err), f.Close())
	})
}

type auditVerifyCmd struct {
	File string `arg:"" optional:"" help:"Exported log; without it the log itself."`
}

// Run verifies. A broken chain is exit status 1.
func (c *auditVerifyCmd) Run(e *env) error {
	if c.File != "" {
		return c.file(e)
	}
	intact := true
	err := e.withClient(func(cl *client) error {
		resp, err := check(cl.VerifyAuditLogWithResponse(e.ctx))
		if err != nil {
			return err
		}
		intact = resp.JSON200.Intact
		return e.print(resp.GetBody(), func(w io.Writer) error { return verdictLine(w, resp.JSON200) })
	})
	if err == nil && !intact {
		return errExit(api.ExitFailed)
	}
	return err
}

func (c *auditVerifyCmd) file(e *env) error {
	f, err := os.Open(c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return flows.NewError(flows.CodeNotFound, fmt.Sprintf("no exported log %q", c.File))
	}
	if err != nil {
		return errUsage("exported log: " + err.Error())
	}
	defer func() { _ = f.Close() }()
	n, last, err := governance.VerifyAuditFile(f)
	verdict := gen.AuditVerification{Intact: err == nil, Events: n}
	if err != nil {
		verdict.Detail = err.Error()
	}
	if err := e.printValue(verdict, func(w io.Writer) error {
		if err := verdictLine(w, &verdict); err != nil || !verdict.Intact {
			return err
		}
		_, err := fmt.Fprintf(w, "the last sum is %s; it must be that of the server's event %d\n", last, n)
		return err
	}); err != nil {
		return err
	}
	if !verdict.Intact {
		return errExit(api.ExitFailed)
	}
	return nil
}

func verdictLine(w io.Writer, v *gen.AuditVerification) error {
	if !v.Intact {
		_, err := fmt.Fprintf(w, "BROKEN: %s\n", output.Clean(v.Detail))
		return err
	}
	_, err := fmt.Fprintf(w, "intact: %d events, each as it was written\n", v.Events)
	return err
}
