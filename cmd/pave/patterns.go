package main

import (
	"encoding/json"
	"fmt"
	"io"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
)

type patternsCmd struct {
	List        patternsListCmd        `cmd:"" help:"List what the last pass found, best first."`
	Show        patternsShowCmd        `cmd:"" help:"Show one pattern with where each argument comes from."`
	Occurrences patternsOccurrencesCmd `cmd:"" help:"List where a pattern occurs."`
}

type patternsListCmd struct{ pageFlags }

// Run lists patterns.
func (c *patternsListCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListPatternsWithResponse(e.ctx, &gen.ListPatternsParams{Limit: c.Limit, Cursor: c.Cursor}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "PATTERN", "PATH", "OCCURRENCES", "SESSIONS", "SCORE")
			t.Otherwise("no pattern; pave mine looks for them")
			for _, p := range resp.JSON200.Items {
				t.Row(p.ID, output.Short(pathOf(p.Tools), 80), fmt.Sprint(p.Occurrences), fmt.Sprint(p.Sessions), fmt.Sprintf("%.1f", p.Score))
			}
			if err := t.Flush(); err != nil {
				return err
			}
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}

type patternsShowCmd struct {
	ID string `arg:"" help:"The pattern's id."`
}

// Run shows a pattern.
func (c *patternsShowCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetPatternWithResponse(e.ctx, c.ID))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			p := resp.JSON200
			fmt.Fprintf(w, "%s\n%d occurrences in %d sessions, %.1f by chance\n", output.Clean(pathOf(p.Tools)), p.Occurrences, p.Sessions, p.Expected)
			if p.DataFlow == nil {
				_, err := fmt.Fprintln(w, "its values were not examined")
				return err
			}
			return output.JSON(w, mustJSON(p.DataFlow))
		})
	})
}

// mustJSON encodes what was decoded from JSON.
func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode an answer: %v", err))
	}
	return raw
}

type patternsOccurrencesCmd struct {
	ID string `arg:"" help:"The pattern's id."`
	pageFlags
}

// Run lists occurrences.
func (c *patternsOccurrencesCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListPatternOccurrencesWithResponse(e.ctx, c.ID, &gen.ListPatternOccurrencesParams{Limit: c.Limit, Cursor: c.Cursor}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "SESSION", "RUN", "CALLS")
			for _, o := range resp.JSON200.Items {
				t.Row(o.SessionID, fmt.Sprint(o.RunIndex), fmt.Sprint(o.Calls))
			}
			if err := t.Flush(); err != nil {
				return err
			}
			fmt.Fprintf(w, "%d of %d occurrences were kept\n", len(resp.JSON200.Items), resp.JSON200.Total)
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}

type toolsCompatibleCmd struct {
	Tool string `arg:"" optional:"" help:"Only what this tool gives or takes."`
	pageFlags
}

// Run lists which results fill which inputs.
func (c *toolsCompatibleCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetCompatibilityWithResponse(e.ctx, &gen.GetCompatibilityParams{Tool: c.Tool, Limit: c.Limit, Cursor: c.Cursor}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "TOOL", "FIELD", "FILLS", "INPUT", "SCORE", "BY")
			t.Otherwise("no result fills an input of another tool, by their schemas")
			for _, x := range resp.JSON200.Items {
				t.Row(x.Producer, dash(x.Pointer), x.Consumer, x.Input, fmt.Sprintf("%.1f", x.Score), x.Rule)
			}
			if err := t.Flush(); err != nil {
				return err
			}
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}

type toolsChainsCmd struct {
	From     string `help:"Only chains that begin with this tool." env:"PAVE_CHAIN_FROM" placeholder:"TOOL"`
	To       string `help:"Only chains that end with this tool." env:"PAVE_CHAIN_TO" placeholder:"TOOL"`
	MaxDepth int    `help:"How many tools at most, 2 to 6." env:"PAVE_MAX_DEPTH" default:"4"`
	pageFlags
}

// Run lists chains.
func (c *toolsChainsCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListChainsWithResponse(e.ctx, &gen.ListChainsParams{From: c.From, To: c.To, MaxDepth: c.MaxDepth, Limit: c.Limit, Cursor: c.Cursor}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "CHAIN", "SCORE")
			t.Otherwise("no sequence of tools fits together, by their schemas")
			for _, x := range resp.JSON200.Items {
				t.Row(pathOf(x.Tools), fmt.Sprintf("%.1f", x.Score))
			}
			if err := t.Flush(); err != nil {
				return err
			}
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}
