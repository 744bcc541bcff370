package flowtest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pave/executor"
	"pave/executor/bind/local"
	"pave/flows"
	"pave/flows/value"
)

// File is a flow with where it was read.
type File struct {
	Path     string
	Flow     *flows.Flow
	Warnings []flows.Warning
}

// Library holds the flows and tools of files. It is a FlowSet and a ToolSet; the tools that come with pave are always
// in it. It is immutable once it is read.
type Library struct {
	Files []File
	tools executor.Tools
}

var (
	_ executor.ToolSet = (*Library)(nil)
	_ executor.FlowSet = (*Library)(nil)
)

// Tool implements executor.ToolSet.
func (l *Library) Tool(name string) (*flows.Tool, bool) { return l.tools.Tool(name) }

// Flow implements executor.FlowSet; without a version it is the highest one.
func (l *Library) Flow(name, version string) (*flows.Flow, bool) {
	var found *flows.Flow
	for i := range l.Files {
		f := l.Files[i].Flow
		if f.Name != name || version != "" && f.Version != version {
			continue
		}
		if found == nil || compareVersions(f.Version, found.Version) > 0 {
			found = f
		}
	}
	return found, found != nil
}

// compareVersions orders semantic versions; others come before them, by their text.
func compareVersions(a, b string) int {
	x, errX := flows.ParseVersion(a)
	y, errY := flows.ParseVersion(b)
	switch {
	case errX == nil && errY == nil:
		return x.Compare(y)
	case errX == nil:
		return 1
	case errY == nil:
		return -1
	}
	return cmp.Compare(a, b)
}

// ReadLibrary reads flow files and tool files. Folders give their *.yaml, *.yml and *.flow.json; test files are left
// out, and so are tool files among flows and flow files among tools. All that is wrong is reported together, as one
// *flows.Error with a detail for each file.
func ReadLibrary(flowPaths, toolPaths []string) (*Library, error) {
	l := &Library{tools: executor.Tools{}}
	for _, tool := range local.Builtins() {
		l.tools[tool.Name] = tool
	}
	var problems []error
	declared := map[string]string{}
	problems = append(problems, each(toolPaths, func(path string, data []byte, explicit bool) error {
		if !explicit && !isToolFile(data, true) {
			return nil
		}
		tools, err := flows.ParseTools(data)
		for _, tool := range tools {
			if first, twice := declared[tool.Name]; twice {
				return fmt.Errorf("tool %s is declared in %s already", tool.Name, first)
			}
			declared[tool.Name], l.tools[tool.Name] = path, tool
		}
		return err
	})...)
	seen := map[string]string{}
	problems = append(problems, each(flowPaths, func(path string, data []byte, explicit bool) error {
		if !explicit && isToolFile(data, false) {
			return nil
		}
		flow, warnings, err := flows.ParseFlow(data)
		if err != nil {
			return err
		}
		id := flow.Name + "@" + flow.Version
		if first, twice := seen[id]; twice && first != path {
			return fmt.Errorf("flow %s is in %s already", id, first)
		} else if twice {
			return nil
		}
		seen[id] = path
		l.Files = append(l.Files, File{Path: path, Flow: flow, Warnings: warnings})
		return nil
	})...)
	return l, joined(problems)
}

// each calls read for every file of the paths and returns what went wrong, by file.
func each(paths []string, read func(path string, data []byte, explicit bool) error) []error {
	var problems []error
	for _, path := range paths {
		files, err := walk(path, isLibraryFile)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		explicit := len(files) == 1 && files[0] == path
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err == nil {
				err = read(filepath.Clean(file), data, explicit)
			}
			if err != nil {
				problems = append(problems, within(file, err))
			}
		}
	}
	return problems
}

func isLibraryFile(path string) bool {
	if isTest(path) {
		return false
	}
	ext := filepath.Ext(path)
	return ext == ".yaml" || ext == ".yml" || strings.HasSuffix(path, ".flow.json")
}

// isToolFile reports whether the first document of a file has a kind, as tool files do and flow files do not; broken
// says what to take a file for that cannot be read, so that its reader reports it.
func isToolFile(data []byte, broken bool) bool {
	docs, err := flows.Documents(data)
	if err != nil || len(docs) == 0 {
		return broken
	}
	members, _ := docs[0].(value.Members)
	_, ok := members.Get("kind")
	return ok
}

// within names the file of an error.
func within(file string, err error) error {
	out := &flows.Error{Code: flows.CodeOf(err), Message: file + ": " + err.Error(), Err: err}
	if out.Code == flows.CodeInternal {
		out.Code = flows.CodeInvalid
	}
	if known := new(flows.Error); errors.As(err, &known) {
		for _, d := range known.Details {
			d.Detail = file + ": " + d.Detail
			out.Details = append(out.Details, d)
		}
	}
	return out
}

func joined(problems []error) error {
	said := map[string]bool{} // a broken file may have been read as both
	problems = slices.DeleteFunc(problems, func(err error) bool {
		twice := said[err.Error()]
		said[err.Error()] = true
		return twice
	})
	if len(problems) < 2 {
		return errors.Join(problems...)
	}
	out := &flows.Error{Code: flows.CodeInvalid, Message: fmt.Sprintf("%d files cannot be read; the first: %v", len(problems), problems[0])}
	for _, p := range problems {
		out.Details = append(out.Details, flows.ErrorDetail{Code: string(flows.CodeOf(p)), Detail: p.Error()})
	}
	return out
}
