package main

import (
	"encoding/json"
	"fmt"
	"io"

	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/executor"
	"pave/flows/advice"
	"pave/flows/value"
)

type flowsOptimizeCmd struct {
	Flow  string   `arg:"" help:"Flow file, or NAME or NAME@VERSION of a registered flow."`
	Trace []string `help:"Run records, as pave run -o json prints them, to look for results that never change." env:"PAVE_TRACE" placeholder:"FILE"`
	Runs  int      `help:"Recorded runs of a registered flow to look at." env:"PAVE_RUNS" default:"20"`
	libraryFlags
}

// Run says what could be better in a linear flow.
func (c *flowsOptimizeCmd) Run(e *env) error {
	flow, _, err := readFlow(e, c.Flow)
	if err != nil {
		return err
	}
	tools, err := c.toolSet(e)
	if err != nil {
		return err
	}
	outputs, err := c.outputs(e, flow.Name)
	if err != nil {
		return err
	}
	answer := struct {
		Flow        string              `json:"flow"`
		Version     string              `json:"version"`
		Suggestions []advice.Suggestion `json:"suggestions"`
	}{flow.Name, flow.Version, advice.Suggest(flow, tools, outputs)}
	if answer.Suggestions == nil {
		answer.Suggestions = []advice.Suggestion{}
	}
	return e.printValue(answer, func(w io.Writer) error {
		if len(answer.Suggestions) == 0 {
			_, err := fmt.Fprintln(w, "nothing to suggest")
			return err
		}
		t := output.NewTable(w, "CODE", "TITLE", "STEP", "MESSAGE")
		for _, s := range answer.Suggestions {
			t.Row(s.Code, s.Title, fmt.Sprint(s.StepIndex), s.Message)
		}
		return t.Flush()
	})
}

// outputs are those of the steps of recorded runs that succeeded, one run for each different input: of the files
// given, or of the registered flow.
func (c *flowsOptimizeCmd) outputs(e *env, name string) (out [][]map[string]any, err error) {
	inputs := map[string]bool{}
	add := func(record []byte) error {
		result, err := readRecord(record)
		if err != nil {
			return err
		}
		input := string(value.Canonical(result.InitialInput))
		if result.Success && !result.DryRun && result.FlowName == name && !inputs[input] {
			inputs[input] = true
			steps := make([]map[string]any, len(result.ExecutionLog))
			for i := range result.ExecutionLog {
				steps[i] = result.ExecutionLog[i].Outputs
			}
			out = append(out, steps)
		}
		return err
	}
	for _, path := range c.Trace {
		data, err := readFile("run record", path)
		if err != nil {
			return nil, err
		}
		if err := add(data); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(c.Trace) > 0 || isFile(c.Flow) || c.Runs < 1 {
		return out, nil
	}
	return out, e.withClient(func(cl *client) error {
		list, err := check(cl.ListRunsWithResponse(e.ctx, &gen.ListRunsParams{Flow: name, Status: gen.RunStatusSucceeded, Limit: min(c.Runs, maxPage)}))
		if err != nil {
			return err
		}
		for _, item := range list.JSON200.Items {
			run, err := check(cl.GetRunWithResponse(e.ctx, item.ID))
			if err != nil {
				return err
			}
			if err := add(run.JSON200.Record); err != nil {
				return err
			}
		}
		return nil
	})
}

// readRecord reads a run record, or the run around it, with exact numbers.
func readRecord(data []byte) (*executor.RunResult, error) {
	var run struct {
		Record json.RawMessage `json:"record"`
	}
	if json.Unmarshal(data, &run) == nil && len(run.Record) > 0 {
		data = run.Record
	}
	result := new(executor.RunResult)
	if err := decodeExact(data, result); err != nil {
		return nil, invalidInput("not a run record: " + err.Error())
	}
	if result.FlowName == "" || result.TraceSchemaVersion == "" {
		return nil, invalidInput("not a run record: it has no flow_name and trace_schema_version")
	}
	return result, nil
}
