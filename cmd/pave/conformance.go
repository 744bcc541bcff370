package main

import (
	"io"

	"pave/api"
	"pave/cmd/pave/internal/conformance"
)

type conformanceCmd struct {
	Dir string `arg:"" help:"Folder of vector files (*.json)." placeholder:"DIR"`
}

// Run runs the vectors and leaves with status 1 when one failed.
func (c *conformanceCmd) Run(e *env) error {
	report, err := conformance.Run(e.ctx, c.Dir)
	if err != nil {
		return err
	}
	if err := e.printValue(report, func(w io.Writer) error { return report.Write(w) }); err != nil {
		return err
	}
	if report.Failed() > 0 {
		return errExit(api.ExitFailed)
	}
	return nil
}
