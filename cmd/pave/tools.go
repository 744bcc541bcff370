package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/flows"
)

type toolsCmd struct {
	Apply      toolsApplyCmd      `cmd:"" help:"Create or update the tools of tool files."`
	List       toolsListCmd       `cmd:"" help:"List tools."`
	Show       toolsShowCmd       `cmd:"" help:"Show a tool as a tool file."`
	Versions   toolsVersionsCmd   `cmd:"" help:"List the definitions that a tool has had."`
	Servers    toolsServersCmd    `cmd:"" help:"List MCP servers and what they offered last."`
	Discover   toolsDiscoverCmd   `cmd:"" help:"Ask an MCP server for its tools."`
	Drift      toolsDriftCmd      `cmd:"" help:"Show how a tool's definition differs from the accepted one."`
	Pin        toolsPinCmd        `cmd:"" help:"Accept a server's definition of a tool, and bind the tool to it."`
	Import     toolsImportCmd     `cmd:"" help:"Make tools of the operations of an OpenAPI document."`
	Compatible toolsCompatibleCmd `cmd:"" help:"List which results fill which inputs of other tools, by their schemas."`
	Chains     toolsChainsCmd     `cmd:"" help:"List sequences of tools that their schemas allow."`
	Builtins   toolsBuiltinsCmd   `cmd:"" help:"Print the tool file of the tools that come with pave."`
}

type toolsApplyCmd struct {
	Paths    []string `arg:"" name:"path" help:"Tool files, or folders with *.yaml and *.yml."`
	Revision *int64   `help:"Of one tool: replace exactly this revision of it, 0 for none." env:"PAVE_REVISION" placeholder:"N"`
}

// Run applies all files as one change.
func (c *toolsApplyCmd) Run(e *env) error {
	doc, err := readToolFiles(c.Paths)
	if err != nil {
		return err
	}
	if c.Revision != nil {
		return c.one(e, doc)
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ApplyToolsWithBodyWithResponse(e.ctx, "application/yaml", bytes.NewReader(doc)))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return printApplied(w, resp.JSON200) })
	})
}

// one replaces one revision of one tool.
func (c *toolsApplyCmd) one(e *env, doc []byte) error {
	file, err := flows.ParseToolFile(doc)
	if err != nil {
		return err
	}
	if len(file.Tools) != 1 || len(file.Servers) > 0 {
		return errUsage("--revision is for a file with one tool\n")
	}
	body, err := json.Marshal(file.Tools[0])
	if err != nil {
		return err
	}
	params := &gen.PutToolParams{}
	if *c.Revision > 0 {
		params.IfMatch = etag(*c.Revision)
	}
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.PutToolWithBodyWithResponse(e.ctx, file.Tools[0].Name, params, "application/json", bytes.NewReader(body)))
		if flows.CodeOf(err) == flows.CodePrecondition {
			return flows.NewError(flows.CodePrecondition, fmt.Sprintf("there is a tool %s; --revision N replaces its revision N, which pave tools list shows", output.Clean(file.Tools[0].Name)))
		}
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s, revision %d\n", output.Clean(resp.JSON200.Name), resp.JSON200.Revision)
			return err
		})
	})
}

// printApplied says what a change of the catalogue did.
func printApplied(w io.Writer, report *gen.ToolApplyReport) error {
	t := output.NewTable(w, "TOOL", "CHANGE")
	for _, server := range report.Servers {
		t.Row(server.Name+" (MCP server)", string(server.Change))
	}
	for _, item := range report.Items {
		t.Row(item.Name, string(item.Change))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, flow := range report.FlowsToReview {
		fmt.Fprintf(w, "needs review now: %s\n", output.Clean(flow))
	}
	return nil
}

// readToolFiles joins tool files, in the order of their names inside a folder, as documents of one stream.
func readToolFiles(paths []string) ([]byte, error) {
	var doc bytes.Buffer
	for _, path := range paths {
		files, err := toolFiles(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				return nil, errUsage("tool file: " + err.Error())
			}
			if _, err := flows.ParseToolFile(raw); err != nil { // of the whole it would not say in which file
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			fmt.Fprintf(&doc, "---\n%s\n", raw)
		}
	}
	return doc.Bytes(), nil
}

func toolFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("no tool file or folder %q", path))
	}
	if err != nil {
		return nil, errUsage("tool file: " + err.Error())
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(filepath.Ext(p))) {
			files = append(files, p)
		}
		return err
	})
	if err != nil {
		return nil, errUsage("tool folder: " + err.Error())
	}
	if len(files) == 0 {
		return nil, errUsage(fmt.Sprintf("tool folder %s has no *.yaml or *.yml", path))
	}
	return files, nil
}

type toolsListCmd struct{ pageFlags }

// Run lists tools.
func (c *toolsListCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ListToolsWithResponse(e.ctx, &gen.ListToolsParams{Limit: c.Limit, Cursor: c.Cursor}))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error {
			t := output.NewTable(w, "TOOL", "ORIGIN", "BOUND", "SAFETY", "REVISION", "UPDATED")
			t.Otherwise("no tool; recorded calls bring some, and pave tools apply declares them")
			for _, tool := range resp.JSON200.Items {
				t.Row(tool.Name, string(tool.Origin), yesNo(tool.Bound), dash(string(tool.Safety)), fmt.Sprint(tool.Revision), when(tool.UpdatedAt))
			}
			if err := t.Flush(); err != nil {
				return err
			}
			more(w, resp.JSON200.NextCursor)
			return nil
		})
	})
}

type toolsShowCmd struct {
	Name string `arg:"" help:"The tool's name."`
}

// Run shows one tool.
func (c *toolsShowCmd) Run(e *env) error {
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.GetToolWithResponse(e.ctx, c.Name))
		if err != nil {
			return err
		}
		return e.print(resp.GetBody(), func(w io.Writer) error { return output.YAML(w, resp.JSON200.Tool) })
	})
}
