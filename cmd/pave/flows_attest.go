package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"pave/api"
	"pave/cmd/pave/internal/app"
	"pave/cmd/pave/internal/output"
	"pave/executor"
	"pave/executor/flowtest"
	"pave/flows/value"
)

// answerFlags say who answers the calls of a run outside of the service.
type answerFlags struct {
	Fixtures string `help:"Recorded calls that answer instead of the tools." env:"PAVE_FIXTURES" placeholder:"FILE"`
	Force    bool   `help:"Call tools that are not known to be read-only too." env:"PAVE_FORCE"`
}

// engine makes an engine that keeps nothing. forced says that no tool can be harmed, or that the user does not mind.
func (a *answerFlags) engine(e *env, answers *flowtest.Player) (engine *executor.Engine, forced bool, closeTools func(), err error) {
	if a.Fixtures != "" {
		fixture, err := flowtest.ReadFixture(a.Fixtures)
		if err != nil {
			return nil, false, nil, err
		}
		answers = flowtest.NewPlayer(fixture)
		answers.Loop = true
	}
	options := app.Options{DataDir: e.g.DataDir, EgressAllow: e.g.EgressAllow, Runs: e.g.RunSettings.options()}
	if answers == nil { // a nil *Player in the interface would not be nil
		engine, closeTools, err = app.LocalEngine(options, nil)
		return engine, a.Force, closeTools, err
	}
	engine, closeTools, err = app.LocalEngine(options, answers)
	return engine, true, closeTools, err
}

type flowsAttestCmd struct {
	Flow    string   `arg:"" help:"Flow file, or NAME or NAME@VERSION of a registered flow."`
	N       int      `help:"Inputs; those that are not given are generated from the input schema." name:"n" env:"PAVE_N" default:"10"`
	Repeats int      `help:"Runs of each input, at least 2." env:"PAVE_REPEATS" default:"3"`
	Seed    uint64   `help:"Seed of the generated inputs." env:"PAVE_SEED" default:"1"`
	Inputs  []string `help:"Inputs to run first: JSON text or files." name:"input" sep:"none" env:"PAVE_INPUTS" placeholder:"FILE|JSON"`
	libraryFlags
	answerFlags
}

// Run runs a flow several times on several inputs, in this process, and reports whether the runs agreed. Runs that
// disagree or fail are exit status 1.
func (c *flowsAttestCmd) Run(e *env) error {
	flow, _, err := readFlow(e, c.Flow)
	if err != nil {
		return err
	}
	plan, found, err := c.plan(e, flow)
	if err != nil {
		return err
	}
	if err := executor.CompileError(flow.Name, found); err != nil {
		return err
	}
	o := executor.AttestOptions{N: c.N, Repeats: c.Repeats, Seed: c.Seed,
		Host: map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH, "go": runtime.Version(), "pave": version}}
	for _, text := range c.Inputs {
		input, err := (&runCmd{Input: text}).readInput(e)
		if err != nil {
			return err
		}
		v, err := value.Decode(input)
		if err != nil {
			return invalidInput("the input is not JSON: " + err.Error())
		}
		o.Inputs = append(o.Inputs, v.(map[string]any)) // readInput takes objects only
	}
	engine, forced, closeTools, err := c.engine(e, nil)
	if err != nil {
		return err
	}
	defer closeTools()
	o.Force = forced
	report, err := engine.Attest(e.ctx, plan, o)
	if err != nil {
		return err
	}
	if err := e.printValue(report, func(w io.Writer) error { return attestationText(w, report) }); err != nil {
		return err
	}
	if !report.ObservedDeterministic {
		return errExit(api.ExitFailed)
	}
	return nil
}

func attestationText(w io.Writer, a *executor.Attestation) error {
	verdict := "all runs agreed"
	if !a.ObservedDeterministic {
		verdict = fmt.Sprintf("runs of %d inputs disagreed or failed", len(a.Divergences))
	}
	fmt.Fprintf(w, "%s@%s: %d inputs, %d runs each, seed %d: %s\n", output.Clean(a.FlowName), output.Clean(a.FlowVersion), a.Inputs, a.Repeats, a.Seed, verdict)
	for _, d := range a.Divergences {
		input, err := json.Marshal(d.InputPayload)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  input %d, step %d: %s\n    %s\n", d.InputIndex, d.DivergingStep, output.Clean(d.ErrorMessage), output.Clean(output.Short(string(input), 200)))
	}
	_, err := fmt.Fprintf(w, "flow %s\noutputs %s\n", a.FlowFingerprint, a.AggregateFingerprint)
	return err
}
