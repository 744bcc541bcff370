// Package workload builds the flows that measure the executor, for go benchmarks and for pave bench.
package workload

import (
	"context"
	"fmt"
	"time"

	"pave/executor"
	"pave/executor/bind/local"
	"pave/flows"
	"pave/flows/schema"
)

// Case is one measured run: Run executes it once and fails when the outcome is not the expected one.
type Case struct {
	Name  string
	Steps int
	Run   func() error
}

const incSchema = `{"type":"object","properties":{"value":{"type":"integer"}},"required":["value"]}`

// Inc is the tool {value: integer} -> {value: integer} that adds one, in process.
func Inc() *flows.Tool {
	return &flows.Tool{Name: "inc", Description: "Adds one.", InputSchema: flows.RawSchema(incSchema), OutputSchema: flows.RawSchema(incSchema),
		Binding: &flows.Binding{Kind: local.Kind, Local: "inc"}}
}

func inc(_ context.Context, input map[string]any) (any, error) {
	return map[string]any{"value": input["value"].(int64) + 1}, nil
}

// LinearFlow is n steps of inc with the mapping value: value and policy overwrite.
func LinearFlow(n int) *flows.Flow {
	steps := make([]flows.Step, n)
	for i := range steps {
		steps[i] = flows.Step{ToolName: "inc", InputMapping: flows.Mapping{{Target: "value", Value: flows.Key("value")}}}
	}
	return &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: fmt.Sprintf("linear_%d", n), Version: "1.0.0",
		Steps: steps, OnContextCollision: flows.CollisionOverwrite, Status: flows.StatusActive}
}

// Linear is the case linear_<n>: a run of LinearFlow with no sinks.
func Linear(n int, now func() time.Time) (Case, error) {
	flow := LinearFlow(n)
	plan, diagnostics := executor.Compile(flow, executor.Tools{"inc": Inc()}, executor.CompileOptions{})
	if err := executor.CompileError(flow.Name, diagnostics); err != nil {
		return Case{}, err
	}
	registry := local.New()
	registry.Register("inc", inc, true)
	id := "00000000000000000000000000000001"
	engine := executor.New(executor.Options{Invoker: executor.NewMux(map[string]executor.Invoker{local.Kind: registry}),
		Now: now, NewID: func() string { return id }})
	input := map[string]any{"value": int64(0)}
	want := int64(n)
	run := func() error {
		result := engine.Run(context.Background(), plan, executor.RunInput{Input: input})
		if !result.Success || result.FinalOutput["value"] != want {
			return fmt.Errorf("%s: status %s, output %v, want value %d", flow.Name, result.Status, result.FinalOutput, want)
		}
		return nil
	}
	return Case{Name: flow.Name, Steps: n, Run: run}, nil
}

// Floor is the case floor_<n>: the same compiled schemas called by hand in a loop, with a map merge and a record a
// step. No engine can do the same work with less.
func Floor(n int, now func() time.Time) (Case, error) {
	s, err := schema.Compile(flows.RawSchema(incSchema))
	if err != nil {
		return Case{}, err
	}
	name, want := fmt.Sprintf("floor_%d", n), int64(n)
	run := func() error {
		vars := map[string]any{"value": int64(0)}
		log := make([]executor.StepRecord, 0, n)
		for i := range n {
			started := now()
			in, bad := s.Apply(map[string]any{"value": vars["value"]})
			if bad != nil {
				return fmt.Errorf("%s: %v", name, bad)
			}
			raw, err := inc(context.Background(), in.(map[string]any))
			if err != nil {
				return err
			}
			out, bad := s.Apply(raw)
			if bad != nil {
				return fmt.Errorf("%s: %v", name, bad)
			}
			outputs := out.(map[string]any)
			for k, v := range outputs {
				vars[k] = v
			}
			ended := now()
			log = append(log, executor.StepRecord{StepIndex: i, ToolName: "inc", Inputs: in.(map[string]any), Outputs: outputs, Success: true,
				StartedAt: started, EndedAt: ended, DurationMS: ended.Sub(started).Seconds() * 1000})
		}
		if vars["value"] != want || len(log) != n {
			return fmt.Errorf("%s: output %v after %d records", name, vars, len(log))
		}
		return nil
	}
	return Case{Name: name, Steps: n, Run: run}, nil
}
