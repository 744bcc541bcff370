package main

import (
	"encoding/json"
	"fmt"
	"io"

	"pave/api"
	"pave/api/gen"
	"pave/cmd/pave/internal/output"
	"pave/executor"
	"pave/executor/flowtest"
	"pave/flows"
)

type replayCmd struct {
	ID     string `arg:"" optional:"" help:"The run's id."`
	From   int    `help:"Take the outputs of the steps before this one from the record." env:"PAVE_REPLAY_FROM"`
	Verify string `help:"A run record, as pave run -o json prints it, to replay in this process instead." env:"PAVE_VERIFY" placeholder:"FILE"`
	Faked  bool   `help:"With --verify: the record answers instead of the tools." env:"PAVE_FAKED"`
	libraryFlags
	answerFlags
	paramFlags
}

// Run runs a recorded run again and reports what differs; any difference is exit status 1.
func (c *replayCmd) Run(e *env) error {
	if (c.ID == "") == (c.Verify == "") {
		return errUsage("give a run's id or --verify FILE")
	}
	if c.From < 0 {
		return errUsage(fmt.Sprintf("--from %d: steps are counted from 0", c.From))
	}
	if c.Verify == "" {
		if c.offline() || c.Faked || c.Force || c.Fixtures != "" {
			return errUsage("--tools, --flows, --fixtures, --faked and --force are for --verify")
		}
		return c.remote(e)
	}
	return c.local(e)
}

// remote replays a stored run in the service.
func (c *replayCmd) remote(e *env) error {
	body := gen.ReplayRequest{Mode: gen.ReplayRequestModeVerify}
	if c.From > 0 {
		body = gen.ReplayRequest{Mode: gen.ReplayRequestModeReuse, FromStep: c.From}
	}
	params, err := c.params()
	if err != nil {
		return err
	}
	body.DynamicParams = params
	return e.withClient(func(cl *client) error {
		resp, err := check(cl.ReplayRunWithResponse(e.ctx, c.ID, body))
		if err != nil {
			return err
		}
		report := new(executor.ReplayReport)
		if err := decodeExact(resp.GetBody(), report); err != nil {
			return fmt.Errorf("the server's report: %w", err)
		}
		return printReplay(e, resp.GetBody(), report)
	})
}

// local replays a record of a file.
func (c *replayCmd) local(e *env) error {
	params, err := c.paramValues()
	if err != nil {
		return err
	}
	data, err := readFile("run record", c.Verify)
	if err != nil {
		return err
	}
	recorded, err := readRecord(data)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Verify, err)
	}
	flow, err := c.recordedFlow(e, recorded)
	if err != nil {
		return err
	}
	plan, _, err := c.plan(e, flow)
	if err != nil {
		return err
	}
	var answers *flowtest.Player
	if c.Faked {
		answers = flowtest.NewPlayer(flowtest.FixtureOf(recorded, flow))
	}
	engine, forced, closeTools, err := c.engine(e, answers)
	if err != nil {
		return err
	}
	defer closeTools()
	report, err := engine.Replay(e.ctx, plan, recorded, executor.ReplayOptions{ReuseBefore: c.From, Force: forced, DynamicParams: params})
	if err != nil {
		return err
	}
	body, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return printReplay(e, body, report)
}

// recordedFlow is the flow version that a record names, of the files given or of the registry.
func (c *replayCmd) recordedFlow(e *env, r *executor.RunResult) (*flows.Flow, error) {
	ref := r.FlowName + "@" + r.FlowVersion
	if !c.offline() {
		return registeredFlow(e, ref)
	}
	library, err := c.library()
	if err != nil {
		return nil, err
	}
	flow, ok := library.Flow(r.FlowName, r.FlowVersion)
	if !ok {
		return nil, flows.NewError(flows.CodeNotFound, fmt.Sprintf("the record is one of flow %s, which is not in the files of --flows", ref))
	}
	return flow, nil
}

func printReplay(e *env, body []byte, report *executor.ReplayReport) error {
	if err := e.print(body, func(w io.Writer) error {
		if report.Match {
			_, err := fmt.Fprintf(w, "%s@%s: no difference in %d steps\n", output.Clean(report.Result.FlowName), output.Clean(report.Result.FlowVersion), len(report.Result.ExecutionLog))
			return err
		}
		t := output.NewTable(w, "STEP", "TOOL", "FIELD", "RECORDED", "NOW")
		for _, d := range report.Diffs {
			t.Row(fmt.Sprint(d.StepIndex), d.ToolName, d.Field, sideText(d.Expected), sideText(d.Actual))
		}
		return t.Flush()
	}); err != nil {
		return err
	}
	if !report.Match {
		return errExit(api.ExitFailed)
	}
	return nil
}

func sideText(v any) string {
	if v == nil {
		return "-"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return output.Short(string(text), 60)
}
