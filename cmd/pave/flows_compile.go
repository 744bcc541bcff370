package main

import (
	"bytes"
	"fmt"
	"io"

	"pave/api"
	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/executor"
	"pave/executor/flowtest"
	"pave/flows"
	"pave/governance/runs"
)

type flowsCompileCmd struct {
	File string `arg:"" help:"Flow file, or NAME or NAME@VERSION of a registered flow."`
	libraryFlags
}

// Run compiles a flow against registered tools, or against files, and prints what does not fit together. Errors are
// exit status 1.
func (c *flowsCompileCmd) Run(e *env) error {
	report, err := c.compile(e)
	if err != nil {
		return err
	}
	if err := e.printValue(report, func(w io.Writer) error { return compileTable(w, report) }); err != nil {
		return err
	}
	if !report.Ok {
		return errExit(api.ExitFailed)
	}
	return nil
}

func (c *flowsCompileCmd) compile(e *env) (*gen.CompileReport, error) {
	if c.offline() {
		flow, warnings, err := readFlow(e, c.File)
		if err != nil {
			return nil, err
		}
		library, err := c.library()
		if err != nil {
			return nil, err
		}
		return compileIn(library, flow, warnings), nil
	}
	data, err := flowBytes(e, c.File)
	if err != nil {
		return nil, err
	}
	var report *gen.CompileReport
	err = e.withClient(func(cl *client) error {
		resp, err := check(cl.CompileFlowWithBodyWithResponse(e.ctx, "application/yaml", bytes.NewReader(data)))
		if err == nil {
			report = resp.JSON200
		}
		return err
	})
	return report, err
}

// flowBytes is a flow file as it is, or the file of a registered flow.
func flowBytes(e *env, ref string) ([]byte, error) {
	if isFile(ref) {
		return readFile("flow file", ref)
	}
	flow, err := registeredFlow(e, ref)
	if err != nil {
		return nil, err
	}
	return flows.EncodeFlow(flow, flows.FormatYAML)
}

// compileIn compiles a flow against the files of a library.
func compileIn(library *flowtest.Library, flow *flows.Flow, warnings []flows.Warning) *gen.CompileReport {
	plan, found := executor.Compile(flow, library, executor.CompileOptions{Flows: library})
	compiled := &runs.Compiled{Flow: flow, Digest: flows.Digest(flow), Diagnostics: found, Plan: plan}
	if plan != nil {
		compiled.InputSchema, compiled.Unbound = plan.InputSchema(), plan.Unbound()
	}
	report := api.CompileReport(compiled, warnings)
	return &report
}

func compileTable(w io.Writer, r *gen.CompileReport) error {
	if len(r.Diagnostics) > 0 {
		if err := diagnosticTable(w, r.Diagnostics); err != nil {
			return err
		}
	}
	verdict := "compiles"
	if !r.Ok {
		verdict = "does not compile"
	}
	fmt.Fprintf(w, "%s@%s %s, digest %s\n", output.Clean(r.Flow), output.Clean(r.Version), verdict, r.Digest)
	for _, tool := range r.Unbound {
		fmt.Fprintf(w, "unbound: %s has no binding and cannot run yet\n", output.Clean(tool))
	}
	return nil
}

func diagnosticTable(w io.Writer, list []gen.Diagnostic) error {
	t := output.NewTable(w, "SEVERITY", "CODE", "AT", "MESSAGE")
	for _, d := range list {
		t.Row(string(d.Severity), d.Code, d.Pointer, d.Message)
	}
	return t.Flush()
}

type flowsCheckCmd struct {
	Paths []string `arg:"" name:"path" help:"Flow files or folders."`
	Tools []string `help:"Tool files or folders that the flows are compiled against." required:"" env:"PAVE_TOOL_FILES" placeholder:"PATH"`
}

// Run compiles every flow of the files against the tools of files; it needs no server and no data directory. One
// error in one flow is exit status 1.
func (c *flowsCheckCmd) Run(e *env) error {
	library, err := flowtest.ReadLibrary(c.Paths, c.Tools)
	if err != nil {
		return err
	}
	if len(library.Files) == 0 {
		return errUsage("there is no flow file in the paths given")
	}
	answer := checkAnswer{OK: true, Flows: []checkedFlow{}}
	for _, f := range library.Files {
		report := compileIn(library, f.Flow, f.Warnings)
		answer.Flows = append(answer.Flows, checkedFlow{File: f.Path, CompileReport: *report})
		answer.OK = answer.OK && report.Ok
	}
	if err := e.printValue(answer, answer.table); err != nil {
		return err
	}
	if !answer.OK {
		return errExit(api.ExitFailed)
	}
	return nil
}

type checkAnswer struct {
	OK    bool          `json:"ok"`
	Flows []checkedFlow `json:"flows"`
}

type checkedFlow struct {
	File string `json:"file"`
	gen.CompileReport
}

func (a checkAnswer) table(w io.Writer) error {
	t := output.NewTable(w, "FLOW", "RESULT", "ERRORS", "WARNINGS", "FILE")
	for _, f := range a.Flows {
		counts := map[gen.DiagnosticSeverity]int{}
		for _, d := range f.Diagnostics {
			counts[d.Severity]++
		}
		result := "ok"
		if !f.Ok {
			result = "FAIL"
		}
		t.Row(f.Flow+"@"+f.Version, result, fmt.Sprint(counts[gen.DiagnosticSeverityError]), fmt.Sprint(counts[gen.DiagnosticSeverityWarning]), f.File)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range a.Flows {
		for _, d := range f.Diagnostics {
			if d.Severity == gen.DiagnosticSeverityError {
				fmt.Fprintf(w, "%s%s: %s (%s)\n", output.Clean(f.File), output.Clean(d.Pointer), output.Clean(d.Message), d.Code)
			}
		}
	}
	return nil
}
