package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/flows"
	"pave/flows/diff"
)

type toolsVersionsCmd struct {
	Name string `arg:"" help:"The tool's name."`
	Diff bool   `help:"Show what each version changed." env:"PAVE_TOOL_DIFF"`
}

// Run lists versions.
func (c *toolsVersionsCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListToolVersionsWithResponse(e.ctx, c.Name))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "REVISION", "SCHEMA", "DEFINITION", "SAFETY", "BY", "AT")
			for _, v := range resp.JSON200.Items {
				t.Row(fmt.Sprint(v.Revision), v.SchemaHash, v.DefinitionDigest[:min(12, len(v.DefinitionDigest))], dash(string(v.Safety)), v.UpdatedBy, when(v.UpdatedAt))
			}
			if err := t.Flush(); err != nil || !c.Diff {
				return err
			}
			return toolDiffs(w, resp.JSON200.Items)
		})
	})
}

// toolDiffs shows what each version of a tool changed, the newest first.
func toolDiffs(w io.Writer, versions []gen.Tool) error {
	for i := range len(versions) - 1 {
		var now, before flows.Tool
		if err := errors.Join(now.UnmarshalJSON(versions[i].Tool), before.UnmarshalJSON(versions[i+1].Tool)); err != nil {
			return err
		}
		d, err := diff.Tools(&before, &now)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\nrevision %d to %d; schemas changed: %s, side effects worse: %s\n%s", versions[i+1].Revision, versions[i].Revision,
			yesNo(d.Schemas), yesNo(d.Riskier), output.CleanLines(d.Unified))
	}
	return nil
}

type toolsServersCmd struct{}

// Run lists MCP servers.
func (c *toolsServersCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListMCPServersWithResponse(e.ctx))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			if len(resp.JSON200.Items) == 0 {
				_, err := fmt.Fprintln(w, "no MCP server; a tool file declares one (kind: MCPServer)")
				return err
			}
			for _, s := range resp.JSON200.Items {
				fmt.Fprintf(w, "%s (%s): %d tools\n", output.Clean(s.Name), s.Transport, len(s.Tools))
				if err := printDiscovered(w, s.Tools); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

type toolsDiscoverCmd struct {
	Server string `arg:"" name:"mcp-server" help:"The server's name in a tool file."`
}

// Run asks a server.
func (c *toolsDiscoverCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.DiscoverToolsWithResponse(e.ctx, gen.DiscoverRequest{Server: c.Server}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return printDiscovered(w, resp.JSON200.Items) })
	})
}

func printDiscovered(w io.Writer, tools []gen.DiscoveredTool) error {
	t := output.NewTable(w, "TOOL", "MATCH", "IN THE CATALOGUE", "WHAT TO DO")
	for _, d := range tools {
		todo := d.Reason
		switch d.Match {
		case gen.DiscoveredToolMatchNew, gen.DiscoveredToolMatchObserved, gen.DiscoveredToolMatchUnbound:
			todo = "pave tools pin " + d.ToolName
		case gen.DiscoveredToolMatchChanged:
			todo = "pave tools drift " + d.ToolName
		}
		t.Row(d.Remote, string(d.Match), dash(d.ToolName), dash(todo))
	}
	return t.Flush()
}

type toolsDriftCmd struct {
	Name string `arg:"" help:"The tool's name."`
}

// Run shows what differs.
func (c *toolsDriftCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetToolDriftWithResponse(e.ctx, c.Name))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			d := resp.JSON200
			if d.Equal {
				fmt.Fprintf(w, "%s is as it was accepted (%s)\n", output.Clean(c.Name), output.Clean(d.Against))
				return nil
			}
			fmt.Fprintf(w, "%s differs from what %s has now; schemas changed: %s, side effects worse: %s\n%s", output.Clean(c.Name),
				output.Clean(d.Against), yesNo(d.SchemasChanged), yesNo(d.Riskier), output.CleanLines(d.Unified))
			return nil
		})
	})
}

type toolsPinCmd struct {
	Name  string `arg:"" help:"The tool's name."`
	MCP   string `help:"The MCP server, when several list a tool of this name." env:"PAVE_MCP_SERVER" name:"mcp" placeholder:"SERVER"`
	Force bool   `help:"Accept a definition that does not take what agents were seen sending." env:"PAVE_PIN_FORCE"`
}

// Run accepts a definition.
func (c *toolsPinCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.PinToolWithResponse(e.ctx, c.Name, gen.PinRequest{Server: c.MCP, Force: c.Force}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return printApplied(w, resp.JSON200) })
	})
}

type toolsImportCmd struct {
	File    string `arg:"" help:"OpenAPI 3.0 or 3.1, JSON or YAML." type:"path"`
	BaseURL string `help:"Used instead of the document's first server." env:"PAVE_BASE_URL" name:"base-url" placeholder:"URL"`
	Prefix  string `help:"Put before each tool's name." env:"PAVE_PREFIX" placeholder:"TEXT"`
	Apply   bool   `help:"Declare the tools at once, instead of printing their tool file." env:"PAVE_APPLY"`
}

// Run imports a document.
func (c *toolsImportCmd) Run(e *env) error {
	doc, err := os.ReadFile(c.File)
	if err != nil {
		return flows.NewError(flows.CodeNotFound, "OpenAPI document: "+err.Error())
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ImportToolsWithBodyWithResponse(e.ctx, &gen.ImportToolsParams{BaseURL: c.BaseURL, Prefix: c.Prefix, Apply: c.Apply},
			"application/yaml", bytes.NewReader(doc)))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			for _, s := range resp.JSON200.Skipped {
				fmt.Fprintf(e.err, "left out %s: %s\n", output.Clean(s.Operation), output.Clean(s.Reason))
			}
			if c.Apply {
				return printApplied(w, &resp.JSON200.Applied)
			}
			for _, tool := range resp.JSON200.Tools {
				fmt.Fprintln(w, "---")
				if err := output.YAML(w, tool); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
