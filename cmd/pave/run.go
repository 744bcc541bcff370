package main

import (
	"bytes"
	"cmp"
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
	DryRun         bool   `help:"Change nothing: tools that only read are called, the others are skipped. A tool that needs an approval asks for it here, too." env:"PAVE_DRY_RUN"`
	Stream         bool   `help:"Show the run's events as they happen; with -o jsonl as lines on standard output." env:"PAVE_STREAM"`
	Abort          bool   `help:"With --dry-run: end at a tool that has side effects and no preview, instead of skipping it." env:"PAVE_ABORT"`
	Wait           string `help:"Let the run go on by itself and wait no longer than this for its end, such as 10s; only with a server." env:"PAVE_WAIT" placeholder:"TIME"`
	Force          bool   `help:"Run NAME@VERSION although it is not active, to look into it; needs the scope promote, and the audit log has it." env:"PAVE_RUN_FORCE"`
	Session        string `help:"The conversation that the run belongs to; a flow that is being rolled out keeps one version for it." env:"PAVE_SESSION" placeholder:"ID"`
	IdempotencyKey string `help:"Run once for this key; repeats get the first answer." env:"PAVE_IDEMPOTENCY_KEY"`
	paramFlags
}

// Run runs a flow and prints its final output; with -o json or yaml the whole record.
func (c *runCmd) Run(e *env) error {
	input, err := c.readInput(e)
	if err != nil {
		return err
	}
	params, err := c.params()
	if err != nil {
		return err
	}
	name, version, _, err := flowRef(c.Flow)
	if err != nil {
		return err
	}
	if c.Abort && !c.DryRun {
		return errUsage("--abort is for --dry-run")
	}
	body := gen.RunRequest{Version: version, SessionID: c.Session, Force: c.Force, Input: input, DynamicParams: params, DryRun: c.DryRun}
	if c.Abort {
		body.DryRunUnsupported = gen.RunRequestDryRunUnsupportedAbort
	}
	return e.withClient(func(cl *client) error {
		if c.Wait != "" && cl.local {
			return errUsage("--wait is for runs that a server goes on with; start one with pave serve")
		}
		run, err := c.run(e, cl, name, body)
		if err != nil {
			return err
		}
		return outcome(e, run)
	})
}

// outcome is the exit status of a run, with the reason for people where it did not succeed. Waiting for an approval is
// status 1 too: there is no output yet.
func outcome(e *env, run *gen.Run) error {
	switch run.Status {
	case gen.RunStatusSucceeded:
		return nil
	case gen.RunStatusAwaitingApproval:
		fmt.Fprintf(e.err, "pave: run %s of %s@%s waits for approval:\n", run.ID, output.Clean(run.Flow), output.Clean(run.Version))
		for i := range run.Approvals {
			if a := &run.Approvals[i]; a.Decision == gen.RunApprovalDecisionPending {
				fmt.Fprintf(e.err, "  step %s calls %s (%s) with %s until %s\n", a.Step, output.Clean(a.ToolName), a.SideEffects,
					output.Clean(output.Short(string(a.Inputs), 200)), when(a.ExpiresAt))
			}
		}
		fmt.Fprintf(e.err, "another principal decides with: pave runs approve %s, or pave runs deny %s\n", run.ID, run.ID)
		return errExit(api.ExitFailed)
	}
	fmt.Fprintf(e.err, "pave: run %s of %s@%s: %s", run.ID, output.Clean(run.Flow), output.Clean(run.Version), run.Status)
	if why := whyEnded(run); why != "" {
		fmt.Fprintf(e.err, ": %s", why)
	}
	fmt.Fprintln(e.err)
	if run.Status == gen.RunStatusHandedBack {
		for line := range strings.Lines(run.HandBackText) { // what was done, and what would be next with which inputs
			fmt.Fprintf(e.err, "  %s\n", output.Clean(strings.TrimSuffix(line, "\n")))
		}
	}
	if run.Status == gen.RunStatusRunning {
		fmt.Fprintf(e.err, "it goes on; follow it with: pave runs events %s\n", run.ID)
		return nil
	}
	if inputRefused(run.Record) {
		return errExit(api.ExitInvalid)
	}
	return errExit(api.ExitFailed)
}

// whyEnded is the message and the code of a run that did not succeed, "" when there is neither. A run that was handed
// back has no code.
func whyEnded(run *gen.Run) string {
	why := output.Clean(run.ErrorMessage)
	if run.ErrorCode != "" {
		why = strings.TrimSpace(fmt.Sprintf("%s (%s)", why, output.Clean(run.ErrorCode)))
	}
	return why
}

// run runs the flow and prints the answer.
func (c *runCmd) run(e *env, cl *client, name string, body gen.RunRequest) (run *gen.Run, err error) {
	var answer []byte
	if c.Stream {
		if run, err = c.stream(e, cl, name, body); err != nil || e.g.Output == output.FormatLines {
			return run, err
		}
		if answer, err = json.Marshal(run); err != nil {
			return nil, err
		}
	} else {
		resp, err := check(cl.RunFlowWithResponse(e.ctx, name, &gen.RunFlowParams{IdempotencyKey: c.IdempotencyKey, Wait: c.Wait}, body))
		if err != nil {
			return nil, err
		}
		run, answer = cmp.Or(resp.JSON200, resp.JSON202), resp.GetBody()
	}
	return run, printOutput(e, answer, run)
}

// printOutput prints what a run gave; with -o json or yaml the whole run.
func printOutput(e *env, answer []byte, run *gen.Run) error {
	return e.print(answer, func(w io.Writer) error {
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
