package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"pave/api"
	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/executor/flowtest"
	"pave/flows"
)

type flowsTestCmd struct {
	Paths []string `arg:"" name:"path" help:"Test files, folders with *.test.yaml, or NAME or NAME@VERSION of a registered flow for the recorded sessions it was promoted with."`
}

// Run runs golden flow tests; those of files need no server and no data directory. A case that fails is exit status 1.
func (c *flowsTestCmd) Run(e *env) error {
	report := &flowtest.Report{}
	for _, path := range c.Paths {
		found, err := c.one(e, path)
		if err != nil {
			return err
		}
		report.Passed, report.Failed = report.Passed+found.Passed, report.Failed+found.Failed
		report.Cases = append(report.Cases, found.Cases...)
	}
	if err := e.printValue(report, func(w io.Writer) error { return testTable(w, report) }); err != nil {
		return err
	}
	if !report.OK() {
		return errExit(api.ExitFailed)
	}
	return nil
}

func (c *flowsTestCmd) one(e *env, path string) (*flowtest.Report, error) {
	if _, err := os.Stat(path); err == nil || isFile(path) {
		suites, err := flowtest.Load(path)
		if err != nil {
			return nil, err
		}
		return flowtest.Run(e.ctx, suites, flowtest.Options{}), nil
	}
	var tests *gen.FlowTests
	err := e.withClient(func(cl *client) error {
		v, _, err := getFlow(e, cl, path)
		if err != nil {
			return err
		}
		resp, err := check(cl.GetFlowTestsWithResponse(e.ctx, v.Name, v.Version))
		if err == nil {
			tests = resp.JSON200
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(tests.Items) == 0 {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("no recorded session was kept as a test of %s: none showed its path when it was promoted", path))
	}
	return runRecorded(e, path, tests)
}

// runRecorded writes the tests of a registered flow as files, as anyone could keep them, and runs those.
func runRecorded(e *env, ref string, tests *gen.FlowTests) (*flowtest.Report, error) {
	dir, err := os.MkdirTemp("", "pave-tests-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	flow, err := parseFlow(tests.Flow)
	if err != nil {
		return nil, err
	}
	flow.Status = flows.StatusActive // what is tested is what it does, not whether it may run now
	doc, err := flow.MarshalJSON()
	if err != nil {
		return nil, err
	}
	suite := map[string]any{"flow": "flow.json", "tools": []string{"tools.yaml"}, "cases": []any{}}
	files := map[string][]byte{"flow.json": doc, "tools.yaml": toolDocuments(tests.Tools)}
	for i, item := range tests.Items {
		fixture := flowtest.Fixture{Version: 1}
		calls := map[string]int{}
		for _, c := range item.Calls {
			interaction := flowtest.Interaction{ToolName: c.Tool}
			if err := interaction.Input.UnmarshalJSON(c.Args); err != nil {
				return nil, err
			}
			if err := interaction.Output.UnmarshalJSON(c.Result); err != nil {
				return nil, err
			}
			fixture.Interactions = append(fixture.Interactions, interaction)
			calls[c.Tool]++
		}
		name := fmt.Sprintf("session-%d.json", i)
		if files[name], err = json.Marshal(fixture); err != nil {
			return nil, err
		}
		suite["cases"] = append(suite["cases"].([]any), map[string]any{"name": item.Name, "input": item.Input, "fixtures": name,
			"expect": map[string]any{"status": item.Status, "output": item.Output, "calls": calls}})
	}
	if files["recorded.test.yaml"], err = json.Marshal(suite); err != nil { // JSON is YAML
		return nil, err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	suites, err := flowtest.Load(filepath.Join(dir, "recorded.test.yaml"))
	if err != nil {
		return nil, err
	}
	report := flowtest.Run(e.ctx, suites, flowtest.Options{})
	for i := range report.Cases {
		report.Cases[i].File = ref
	}
	return report, nil
}

// toolDocuments joins tool documents to a tool file.
func toolDocuments(tools []gen.ToolDocument) []byte {
	var b strings.Builder
	for _, tool := range tools {
		b.WriteString("---\n")
		b.Write(tool)
		b.WriteByte('\n')
	}
	return []byte(b.String())
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
