package main

import (
	"fmt"
	"io"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type deadLettersCmd struct {
	List   deadLettersListCmd   `cmd:"" help:"List telemetry requests that could not be read."`
	Retry  deadLettersRetryCmd  `cmd:"" help:"Take requests again as if they were sent now."`
	Delete deadLettersDeleteCmd `cmd:"" help:"Drop requests."`
}

type deadLettersListCmd struct{}

// Run lists all letters.
func (deadLettersListCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		page := gen.DeadLetterPage{Items: []gen.DeadLetter{}}
		if err := cl.eachDeadLetter(e, func(l gen.DeadLetter) { page.Items = append(page.Items, l) }); err != nil {
			return err
		}
		return e.printValue(page, func(w io.Writer) error {
			t := output.NewTable(w, "ID", "RECEIVED", "SIGNAL", "ENCODING", "BYTES", "REASON")
			t.Otherwise("no request is kept that could not be read")
			for _, l := range page.Items {
				t.Row(l.ID, when(l.ReceivedAt), l.Signal, l.Encoding, fmt.Sprint(l.Bytes), l.Reason)
			}
			return t.Flush()
		})
	})
}

// eachDeadLetter pages through the letters.
func (cl *client) eachDeadLetter(e *env, fn func(gen.DeadLetter)) error {
	params := &gen.ListDeadLettersParams{}
	for {
		resp, err := check(cl.ListDeadLettersWithResponse(e.ctx, params))
		if err != nil {
			return err
		}
		for _, l := range resp.JSON200.Items {
			fn(l)
		}
		if params.Cursor = resp.JSON200.NextCursor; params.Cursor == "" {
			return nil
		}
	}
}

type deadLettersRetryCmd struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Letters to take again."`
	All bool     `help:"All of them." env:"PAVE_ALL"`
}

// retriedLetter is what became of a letter that was taken again.
type retriedLetter struct {
	ID string `json:"id"`
	*gen.DeadLetterRetry
}

// Run takes letters again; those that still cannot be read stay, and make the command fail after all were tried.
func (c *deadLettersRetryCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		ids := c.IDs
		switch {
		case c.All && len(ids) > 0, !c.All && len(ids) == 0:
			return errUsage("name the letters to take again, or give --all\n")
		case c.All:
			if err := cl.eachDeadLetter(e, func(l gen.DeadLetter) { ids = append(ids, l.ID) }); err != nil {
				return err
			}
		}
		taken := []retriedLetter{}
		var failed []error
		for _, id := range ids {
			resp, err := check(cl.RetryDeadLetterWithResponse(e.ctx, id))
			if err != nil {
				failed = append(failed, err)
				fmt.Fprintf(e.err, "%s stays: %s\n", output.Clean(id), output.Clean(err.Error()))
				continue
			}
			taken = append(taken, retriedLetter{id, resp.JSON200})
		}
		if err := e.printValue(taken, func(w io.Writer) error {
			if len(ids) == 0 {
				fmt.Fprintln(w, "no request is kept that could not be read")
			}
			for _, l := range taken {
				fmt.Fprintf(w, "%s: %d records, %d recorded, %d filtered, %d rejected\n", output.Clean(l.ID), l.Records, l.Events, l.Filtered, l.Rejected)
			}
			return nil
		}); err != nil {
			return err
		}
		if len(failed) > 0 {
			return fmt.Errorf("%d of %d letters stay, the first because: %w", len(failed), len(ids), failed[0])
		}
		return nil
	})
}

type deadLettersDeleteCmd struct {
	IDs []string `arg:"" name:"id" help:"Letters to drop."`
}

// Run drops letters.
func (c *deadLettersDeleteCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		for _, id := range c.IDs {
			if _, err := check(cl.DeleteDeadLetterWithResponse(e.ctx, id)); err != nil {
				return err
			}
		}
		return nil
	})
}
