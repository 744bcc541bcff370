package main

import (
	"fmt"
	"io"

	"pave/api"
	"pave/cmd/pave/internal/app"
	"pave/cmd/pave/internal/output"
	"pave/flows"
)

type backupCmd struct {
	To string `arg:"" help:"Folder to make; it must be new or empty. It holds keys: keep it as safe as the data directory."`
}

// Run copies the data directory, also while a server works in it.
func (c *backupCmd) Run(e *env) error {
	m, err := app.Backup(e.ctx, e.g.DataDir, c.To, version)
	if err != nil {
		return err
	}
	return e.printValue(m, func(w io.Writer) error { return manifestTable(w, m) })
}

type restoreCmd struct {
	From string `arg:"" help:"Folder that pave backup made."`
}

// Run makes a data directory of a backup.
func (c *restoreCmd) Run(e *env) error {
	m, err := app.Restore(e.ctx, c.From, e.g.DataDir)
	if flows.CodeOf(err) == flows.CodeConflict {
		return fmt.Errorf("%w: the data directory is made with --data-dir", err)
	}
	if err != nil {
		return err
	}
	return e.printValue(m, func(w io.Writer) error { return manifestTable(w, m) })
}

func manifestTable(w io.Writer, m *app.Manifest) error {
	t := output.NewTable(w, "FILE", "BYTES", "SHA-256")
	for _, f := range m.Files {
		t.Row(f.Name, fmt.Sprint(f.Bytes), f.SHA256[:16])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if m.Note != "" {
		_, err := fmt.Fprintln(w, output.Clean(m.Note))
		return err
	}
	return nil
}

type doctorCmd struct{}

// Run looks at the data directory. A problem is exit status 1.
func (doctorCmd) Run(e *env) error {
	findings := app.Doctor(e.ctx, e.g.DataDir)
	bad := 0
	for _, f := range findings {
		if !f.OK {
			bad++
		}
	}
	if err := e.printValue(findings, func(w io.Writer) error {
		for _, f := range findings {
			mark := "ok     "
			if !f.OK {
				mark = "PROBLEM"
			}
			fmt.Fprintf(w, "%s  %s: %s\n", mark, output.Clean(f.Check), output.Clean(f.Detail))
			if f.Fix != "" {
				fmt.Fprintf(w, "         %s\n", output.Clean(f.Fix))
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if bad > 0 {
		return errExit(api.ExitFailed)
	}
	return nil
}
