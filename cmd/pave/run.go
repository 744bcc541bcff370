package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"pave/api"
	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/flows"
	"pave/flows/value"
)

// maxInput bounds an input file; the server has its own limits.
const maxInput = 16 << 20

type runCmd struct {
	Flow           string `arg:"" help:"NAME or NAME@VERSION."`
	Input          string `help:"The flow's input: JSON text, a file, or - for standard input." env:"PAVE_INPUT" default:"{}" placeholder:"FILE|JSON|-"`
	DryRun         bool   `help:"Change nothing: tools that only read are called, the others are skipped." env:"PAVE_DRY_RUN"`
	Stream         bool   `help:"Show the run's events as they happen; with -o jsonl as lines on standard output." env:"PAVE_STREAM"`
	IdempotencyKey string `help:"Run once for this key; repeats get the first answer." env:"PAVE_IDEMPOTENCY_KEY"`
}

// Run runs a flow and prints its final output; with -o json or yaml the whole record.
func (c *runCmd) Run(e *env) error {
	input, err := c.readInput(e)
	if err != nil {
		return err
	}
	name, version, _ := strings.Cut(c.Flow, "@")
	return e.withClient(func(cl *client) error {
		run, err := c.run(e, cl, name, gen.RunRequest{Version: version, Input: input, DryRun: c.DryRun})
		if err != nil {
			return err
		}
		if run.Status == gen.RunStatusSucceeded {
			return nil
		}
		fmt.Fprintf(e.err, "pave: run %s of %s@%s: %s", run.ID, output.Clean(run.Flow), output.Clean(run.Version), run.Status)
		if run.ErrorCode != "" || run.ErrorMessage != "" {
			fmt.Fprintf(e.err, ": %s (%s)", output.Clean(run.ErrorMessage), output.Clean(run.ErrorCode))
		}
		fmt.Fprintln(e.err)
		if inputRefused(run.Record) {
			return errExit(api.ExitInvalid)
		}
		return errExit(api.ExitFailed)
	})
}

// run runs the flow and prints the answer.
func (c *runCmd) run(e *env, cl *client, name string, body gen.RunRequest) (run *gen.Run, err error) {
	var answer []byte
	if c.Stream {
		if run, err = c.stream(e, cl, name, body); err != nil || e.g.Output == formatLines {
			return run, err
		}
		if answer, err = json.Marshal(run); err != nil {
			return nil, err
		}
	} else {
		resp, err := check(cl.RunFlowWithResponse(e.ctx, name, &gen.RunFlowParams{IdempotencyKey: c.IdempotencyKey}, body))
		if err != nil {
			return nil, err
		}
		run, answer = resp.JSON200, resp.GetBody()
	}
	return run, e.print(answer, func(w io.Writer) error {
		if run.Status != gen.RunStatusSucceeded {
			return nil
		}
		return output.JSON(w, run.Output)
	})
}

// inputRefused reports whether a run ended before its first step, because the input does not fit the flow's schema.
func inputRefused(record json.RawMessage) bool {
	var r struct {
		Log []struct {
			StepIndex int     `json:"step_index"`
			ErrorCode *string `json:"error_code"`
		} `json:"execution_log"`
	}
	return json.Unmarshal(record, &r) == nil && len(r.Log) == 1 && r.Log[0].StepIndex < 0 &&
		r.Log[0].ErrorCode != nil && *r.Log[0].ErrorCode == flows.CWSchemaValidation.Code
}

// readInput takes JSON text (it starts with a brace), a file or standard input.
func (c *runCmd) readInput(e *env) ([]byte, error) {
	var raw []byte
	text := strings.TrimSpace(c.Input)
	switch {
	case strings.HasPrefix(text, "{"):
		raw = []byte(text)
	case text == "-":
		data, err := io.ReadAll(io.LimitReader(e.in, maxInput+1))
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		raw = data
	default:
		f, err := os.Open(text)
		if err != nil {
			return nil, errUsage("--input is neither a JSON object nor a file: " + err.Error())
		}
		data, err := io.ReadAll(io.LimitReader(f, maxInput+1))
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("input file: %w", err)
		}
		raw = data
	}
	v, err := value.DecodeStrict(bytes.TrimSpace(raw))
	if err != nil {
		return nil, invalidInput("the input is not JSON: " + err.Error())
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, invalidInput("the input of a flow is a JSON object")
	}
	return raw, nil
}
