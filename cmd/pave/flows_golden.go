package main

import (
	"fmt"
	"io"

	"pave/api"
	"pave/cmd/pave/internal/output"
	"pave/executor/flowtest"
)

type flowsTestCmd struct {
	Paths []string `arg:"" name:"path" help:"Test files, or folders with *.test.yaml."`
}

// Run runs golden flow tests; it needs no server and no data directory. A case that fails is exit status 1.
func (c *flowsTestCmd) Run(e *env) error {
	suites, err := flowtest.Load(c.Paths...)
	if err != nil {
		return err
	}
	report := flowtest.Run(e.ctx, suites, flowtest.Options{})
	if err := e.printValue(report, func(w io.Writer) error { return testTable(w, report) }); err != nil {
		return err
	}
	if !report.OK() {
		return errExit(api.ExitFailed)
	}
	return nil
}

func testTable(w io.Writer, report *flowtest.Report) error {
	for _, c := range report.Cases {
		verdict := "ok  "
		if !c.Passed {
			verdict = "FAIL"
		}
		fmt.Fprintf(w, "%s  %s: %s\n", verdict, output.Clean(c.File), output.Clean(c.Case))
		for _, f := range c.Failures {
			fmt.Fprintf(w, "      %s\n", output.Clean(f.String()))
		}
	}
	_, err := fmt.Fprintf(w, "%d passed, %d failed\n", report.Passed, report.Failed)
	return err
}
