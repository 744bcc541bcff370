// Package workload builds the flows that measure the executor, for go benchmarks and for pave bench.
package workload

import (
	"context"
	"fmt"
	"sync"
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
	safety := flows.DefaultSafety()
	return &flows.Tool{Name: "inc", Description: "Adds one.", Safety: &safety, InputSchema: flows.RawSchema(incSchema), OutputSchema: flows.RawSchema(incSchema),
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
	return linear(n, fmt.Sprintf("linear_%d", n), executor.Options{Now: now})
}

// LinearCached is the case linear_<n>_cached: every step finds its outputs in the step cache.
func LinearCached(n int, now func() time.Time) (Case, error) {
	return linear(n, fmt.Sprintf("linear_%d_cached", n), executor.Options{Now: now, Cache: executor.NewMemoryCache(executor.CacheLimits{}, now)})
}

// LinearCheckpoint is the case linear_<n>_checkpoint: a checkpoint after every step, kept in memory as it is.
func LinearCheckpoint(n int, now func() time.Time) (Case, error) {
	return linear(n, fmt.Sprintf("linear_%d_checkpoint", n), executor.Options{Now: now, Checkpoints: &keeper{}})
}

func linear(n int, name string, opts executor.Options) (Case, error) {
	return newCase(name, n, LinearFlow(n), []*flows.Tool{Inc()}, opts, func(r *executor.RunResult) bool { return r.FinalOutput["value"] == int64(n) })
}

// keeper keeps the last checkpoint of one run at a time.
type keeper struct {
	mu   sync.Mutex
	last *executor.Checkpoint
}

func (k *keeper) Save(_ context.Context, c *executor.Checkpoint) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = c
	return nil
}

func (k *keeper) Load(context.Context, string) (*executor.Checkpoint, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last, nil
}

func (k *keeper) Delete(context.Context, string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = nil
	return nil
}

// DAG is the case dag_<levels>x<width>: levels of width tools {value} -> {t<level>_<i>}, each step depending on the
// whole level before it.
func DAG(levels, width int, now func() time.Time) (Case, error) {
	flow := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeDAGFlow, Name: fmt.Sprintf("dag_%dx%d", levels, width), Version: "1.0.0",
		OnContextCollision: flows.CollisionOverwrite, Status: flows.StatusActive}
	var tools []*flows.Tool
	var before []string
	for l := range levels {
		var level []string
		for i := range width {
			out := fmt.Sprintf("t%d_%d", l, i)
			tools = append(tools, &flows.Tool{Name: out, InputSchema: flows.RawSchema(incSchema),
				OutputSchema: flows.RawSchema(fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"integer"}},"required":[%q]}`, out, out)),
				Binding:      &flows.Binding{Kind: local.Kind, Local: out}})
			flow.Steps = append(flow.Steps, flows.Step{StepID: out, ToolName: out, DependsOn: before, InputMapping: flows.Mapping{{Target: "value", Value: flows.Key("value")}}})
			level = append(level, out)
		}
		before = level
	}
	last := before[len(before)-1]
	return newCase(flow.Name, levels*width, flow, tools, executor.Options{Now: now}, func(r *executor.RunResult) bool { return r.FinalOutput[last] == int64(1) })
}

// ForEach is the case for_each_<n>: one step over a list of n integers.
func ForEach(n int, now func() time.Time) (Case, error) {
	list := make([]any, n)
	for i := range list {
		list[i] = int64(i)
	}
	source := flows.Const(list)
	flow := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: fmt.Sprintf("for_each_%d", n), Version: "1.0.0", Status: flows.StatusActive,
		Steps: []flows.Step{{ToolName: "inc", ForEach: &source, As: "element", InputMapping: flows.Mapping{{Target: "value", Value: flows.Key("element")}}, OutputAs: "out"}}}
	return newCase(flow.Name, n, flow, []*flows.Tool{Inc()}, executor.Options{Now: now}, func(r *executor.RunResult) bool {
		out, _ := r.FinalOutput["out"].([]any)
		return len(out) == n
	})
}

// newCase compiles a flow over in-process tools that add one to value: inc under the key value, the others under their
// own name.
func newCase(name string, steps int, flow *flows.Flow, tools []*flows.Tool, opts executor.Options, ok func(*executor.RunResult) bool) (Case, error) {
	set, registry := executor.Tools{}, local.New()
	for _, tool := range tools {
		set[tool.Name] = tool
		out := tool.Name
		registry.RegisterReader(tool.Name, func(_ context.Context, input map[string]any) (any, error) {
			return map[string]any{out: input["value"].(int64) + 1}, nil
		}, true)
	}
	registry.RegisterReader("inc", inc, true)
	plan, diagnostics := executor.Compile(flow, set, executor.CompileOptions{})
	if err := executor.CompileError(flow.Name, diagnostics); err != nil {
		return Case{}, err
	}
	id := "00000000000000000000000000000001"
	opts.Invoker = executor.NewMux(map[string]executor.Invoker{local.Kind: registry})
	opts.NewID = func() string { return id }
	engine := executor.New(opts)
	input := map[string]any{"value": int64(0)}
	run := func() error {
		result := engine.Run(context.Background(), plan, executor.RunInput{Input: input})
		if !result.Success || !ok(result) {
			return fmt.Errorf("%s: status %s, output %v", name, result.Status, result.FinalOutput)
		}
		return nil
	}
	return Case{Name: name, Steps: steps, Run: run}, nil
}

// Cases are the measured cases in the order of their report.
func Cases(now func() time.Time) ([]Case, error) {
	var out []Case
	for _, build := range []func() (Case, error){
		func() (Case, error) { return Linear(1, now) },
		func() (Case, error) { return Linear(10, now) },
		func() (Case, error) { return Linear(100, now) },
		func() (Case, error) { return DAG(3, 4, now) },
		func() (Case, error) { return LinearCached(10, now) },
		func() (Case, error) { return LinearCheckpoint(10, now) },
		func() (Case, error) { return ForEach(100, now) },
		func() (Case, error) { return Floor(10, now) },
	} {
		c, err := build()
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
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
