package main

import (
	"fmt"
	"io"

	"pave/cmd/pave/internal/output"
	"pave/flows/diff"
)

type flowsDiffCmd struct {
	Old string `arg:"" help:"NAME, NAME@VERSION or a flow file."`
	New string `arg:"" help:"NAME, NAME@VERSION or a flow file."`
}

// Run compares two flows.
func (c *flowsDiffCmd) Run(e *env) error {
	before, _, err := readFlow(e, c.Old)
	if err != nil {
		return err
	}
	after, _, err := readFlow(e, c.New)
	if err != nil {
		return err
	}
	d, err := diff.Flows(before, after)
	if err != nil {
		return err
	}
	return e.printValue(d, func(w io.Writer) error { return diffText(w, d) })
}

func diffText(w io.Writer, d *diff.Diff) error {
	switch {
	case d.Equal:
		_, err := fmt.Fprintf(w, "%s and %s are equal\n", output.Clean(d.Old), output.Clean(d.New))
		return err
	case d.Behaviour:
		fmt.Fprintf(w, "%d differences; what the flow does differs, so approvals of one are not for the other\n", len(d.Changes))
	default:
		fmt.Fprintf(w, "%d differences; what the flow does is the same\n", len(d.Changes))
	}
	_, err := io.WriteString(w, output.CleanLines(d.Unified))
	return err
}
