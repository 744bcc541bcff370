package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pave/api/gen"
	"pave/executor"
	"pave/executor/flowtest"
	"pave/flows"
)

// libraryFlags name the files that a command works with instead of what is registered.
type libraryFlags struct {
	Tools []string `help:"Tool files or folders to take instead of the registered tools." env:"PAVE_TOOL_FILES" placeholder:"PATH"`
	Flows []string `help:"Flow files or folders in which sub-flows are found, with --tools." env:"PAVE_FLOWS" placeholder:"PATH"`
}

// offline reports whether the command works on files alone.
func (l *libraryFlags) offline() bool { return len(l.Tools)+len(l.Flows) > 0 }

// isFile reports whether a reference to a flow is a file rather than a name.
func isFile(ref string) bool {
	if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(ref)) || strings.ContainsRune(ref, filepath.Separator) {
		return true
	}
	info, err := os.Stat(ref)
	return err == nil && !info.IsDir()
}

// readFlow reads a flow from a file or, by NAME or NAME@VERSION, from the registry.
func readFlow(e *env, ref string) (*flows.Flow, []flows.Warning, error) {
	if !isFile(ref) {
		flow, err := registeredFlow(e, ref)
		return flow, nil, err
	}
	data, err := readFile("flow file", ref)
	if err != nil {
		return nil, nil, err
	}
	flow, warnings, err := flows.ParseFlow(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", ref, err)
	}
	return flow, warnings, nil
}

// readFile reads a file that the command line names.
func readFile(what, path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("no %s %q", what, path))
	}
	if err != nil {
		return nil, errUsage(what + ": " + err.Error())
	}
	return data, nil
}

func registeredFlow(e *env, ref string) (flow *flows.Flow, err error) {
	err = e.withClient(func(cl *client) error {
		v, _, err := getFlow(e, cl, ref)
		if err != nil {
			return err
		}
		flow, err = parseFlow(v.Flow)
		return err
	})
	return flow, err
}

// library reads flow files and the files of the flags.
func (l *libraryFlags) library(flowPaths ...string) (*flowtest.Library, error) {
	return flowtest.ReadLibrary(append(flowPaths, l.Flows...), l.Tools)
}

// toolSet is the tools of the flags' files or, without any, the registered ones.
func (l *libraryFlags) toolSet(e *env) (executor.ToolSet, error) {
	if l.offline() {
		return l.library()
	}
	tools := executor.Tools{}
	err := e.withClient(func(cl *client) error {
		return eachPage(func(cursor string) (string, error) {
			resp, err := check(cl.ListToolsWithResponse(e.ctx, &gen.ListToolsParams{Limit: maxPage, Cursor: cursor}))
			if err != nil {
				return "", err
			}
			for _, item := range resp.JSON200.Items {
				tool := new(flows.Tool)
				if err := json.Unmarshal(item.Tool, tool); err != nil {
					return "", fmt.Errorf("the server's tool document %s: %w", item.Name, err)
				}
				tools[tool.Name] = tool
			}
			return resp.JSON200.NextCursor, nil
		})
	})
	return tools, err
}

// maxPage is the largest page of a list.
const maxPage = 500

// eachPage reads pages until there is no next one.
func eachPage(read func(cursor string) (next string, err error)) error {
	for cursor := ""; ; {
		next, err := read(cursor)
		if err != nil || next == "" {
			return err
		}
		cursor = next
	}
}
