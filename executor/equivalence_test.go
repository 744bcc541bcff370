package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pave/executor"
	"pave/flows"
)

// pureTools are tools whose answer depends on their input only; some refuse some inputs.
func (b *bench) pureTools() {
	const x = `{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}`
	number := func(in map[string]any) int64 { return in["x"].(int64) }
	b.register("inc", x, `{"type":"object","properties":{"y":{"type":"integer"},"h":{"type":"number"}},"required":["y"]}`, func(_ context.Context, in map[string]any) (any, error) {
		return map[string]any{"y": number(in) + 1, "h": float64(number(in)) / 2}, nil
	}, false)
	b.tool("even", x, `{"type":"object","properties":{"y":{"type":"integer"}},"required":["y"]}`, func(_ context.Context, in map[string]any) (any, error) {
		if number(in)%2 != 0 {
			return nil, &executor.ToolError{Class: executor.ClassIO, Message: fmt.Sprintf("%d is odd", number(in))}
		}
		return map[string]any{"y": number(in)}, nil
	})
	b.register("list", x, `{"type":"object","properties":{"l":{"type":"array","items":{"type":"integer"}}},"required":["l"]}`, func(_ context.Context, in map[string]any) (any, error) {
		out := []any{}
		for i := range max(0, number(in)) % 4 {
			out = append(out, i)
		}
		return map[string]any{"l": out}, nil
	}, false)
	b.tool("never", x, "", fails(errors.New("never works")))
}

// drawFlow makes a flow of pure tools, linear or with random dependencies; parts of it may fail at run time.
func drawFlow(t *rapid.T, dag bool) *flows.Flow {
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	f := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "f", Version: "1.0.0",
		OnContextCollision: flows.CollisionPolicy(pick("policy", "overwrite", "warn", "error")), OnFailure: flows.OnFailure(pick("on_failure", "fail", "hand_back"))}
	if dag {
		f.Type = flows.TypeDAGFlow
	}
	n := rapid.IntRange(1, 7).Draw(t, "steps")
	for i := range n {
		s := flows.Step{ToolName: pick("tool", "inc", "inc", "even", "list", "never"), OnError: pick("on_error", "", "skip", "skip", "fallback:inc")}
		if rapid.IntRange(0, 5).Draw(t, "sub-flow") == 0 {
			s.ToolName, s.FlowName = "", pick("flow", "pair", "pair", "fan")
		}
		s.InputMapping = flows.Mapping{{Target: "x", Value: drawSource(t, i)}}
		if rapid.IntRange(0, 3).Draw(t, "merge") > 0 {
			s.OutputAs = fmt.Sprint("s", i)
		}
		if rapid.IntRange(0, 4).Draw(t, "each") == 0 {
			list := flows.MappingValue{Kind: flows.MapExpr, Ref: "[n, n + 1, n + 2]"}
			s.ForEach, s.As, s.MaxConcurrency = &list, "e", rapid.IntRange(0, 3).Draw(t, "at a time")
			s.InputMapping[0].Value = flows.Key("e")
		}
		if rapid.IntRange(0, 9).Draw(t, "guard") == 0 {
			s.Guard = "n > 2"
		}
		if rapid.IntRange(0, 4).Draw(t, "retry") == 0 {
			s.Retry = &flows.RetryPolicy{MaxRetries: 1, RetryableErrors: []string{"io"}}
		}
		if dag {
			s.StepID = fmt.Sprint("s", i)
			for d := range i {
				if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
					s.DependsOn = append(s.DependsOn, fmt.Sprint("s", d))
				}
			}
		}
		f.Steps = append(f.Steps, s)
	}
	if dag {
		drawBranches(t, f)
	}
	return f
}

func drawSource(t *rapid.T, step int) flows.MappingValue {
	sources := []flows.MappingValue{flows.Key("n"), flows.Key("secret"), flows.Const(int64(4)), {Kind: flows.MapExpr, Ref: "n * 2"}}
	for i := range step {
		sources = append(sources, flows.Pointer(fmt.Sprintf("/s%d/y", i)))
	}
	return rapid.SampledFrom(sources).Draw(t, "source")
}

func drawBranches(t *rapid.T, f *flows.Flow) {
	for i := range f.Steps {
		var targets []string
		for _, s := range f.Steps {
			for _, d := range s.DependsOn {
				if d == f.Steps[i].StepID {
					targets = append(targets, s.StepID)
				}
			}
		}
		if len(targets) > 0 && rapid.IntRange(0, 2).Draw(t, "branches") == 0 {
			f.Steps[i].Branches = []flows.Branch{{TargetStepID: rapid.SampledFrom(targets).Draw(t, "target"), Predicate: "n > 3"}}
			if rapid.Bool().Draw(t, "default") {
				f.Steps[i].DefaultNext = rapid.SampledFrom(targets).Draw(t, "default target")
			}
		}
	}
}

// trace runs a plan and writes what can be observed of it without times and ids: result and events.
func trace(t testing.TB, opts executor.Options, plan *executor.Plan, input map[string]any) (string, *executor.RunResult) {
	var events []string
	r := executor.New(opts).Run(context.Background(), plan, executor.RunInput{Input: input, DynamicParams: secret, RunID: "R", OnEvent: func(e executor.Event) {
		events = append(events, fmt.Sprintf("%s %s %d %v", e.FlowName, e.Kind, e.StepIndex, e.Inputs))
	}})
	return masked(t, r) + strings.Join(events, "\n"), r
}

// subFlows are what drawn flows are composed of: a linear one that may fail, and a DAG around it with a branch, a fallback
// and a list.
func subFlows() flowSet {
	x := func(v flows.MappingValue) flows.Mapping { return flows.Mapping{{Target: "x", Value: v}} }
	pair := &flows.Flow{Type: flows.TypeFlow, Name: "pair", Version: "1.0.0", OnContextCollision: flows.CollisionOverwrite, Steps: []flows.Step{
		{ToolName: "inc", InputMapping: x(flows.Key("x"))}, {ToolName: "even", InputMapping: x(flows.Key("y"))}}}
	list := flows.Pointer("/l/l")
	fan := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeDAGFlow, Name: "fan", Version: "1.0.0", OnContextCollision: flows.CollisionOverwrite, Steps: []flows.Step{
		{StepID: "list", ToolName: "list", InputMapping: x(flows.Key("x")), OutputAs: "l", Branches: []flows.Branch{{TargetStepID: "each", Predicate: "x > 1"}}, DefaultNext: "one"},
		{StepID: "each", ToolName: "inc", DependsOn: []string{"list"}, ForEach: &list, As: "e", MaxConcurrency: 2, InputMapping: x(flows.Key("e")), OutputAs: "sums"},
		{StepID: "one", FlowName: "pair", DependsOn: []string{"list"}, InputMapping: x(flows.Key("secret")), OnError: "fallback:inc", OutputAs: "pair"}}}
	return flowSet{"pair": pair, "fan": fan}
}

// secret is the dynamic param of every drawn run.
var secret = map[string]any{"secret": int64(5)}

func compiled(t require.TestingT, b *bench, f *flows.Flow) *executor.Plan {
	plan, found := executor.Compile(f, b.tools, executor.CompileOptions{Flows: subFlows()})
	require.NotNil(t, plan, "%v", found)
	return plan
}

// stepID is a step id in the JSON of a record, with the comma before or after it.
var stepID = regexp.MustCompile(`,"step_id":"\d+"|"step_id":"\d+",`)

// TestLinearAndDAGAreOneEngine: a linear flow, and the DAG in which every step waits for the one before it, give the
// same records, events and output.
func TestLinearAndDAGAreOneEngine(t *testing.T) {
	b := newBench(t)
	b.pureTools()
	rapid.Check(t, func(rt *rapid.T) {
		linear := drawFlow(rt, false)
		chain := *linear
		chain.Type, chain.Steps = flows.TypeDAGFlow, append([]flows.Step(nil), linear.Steps...)
		for i := range chain.Steps {
			chain.Steps[i].StepID = fmt.Sprint(i)
			if i > 0 {
				chain.Steps[i].DependsOn = []string{fmt.Sprint(i - 1)}
			}
		}
		input := map[string]any{"n": rapid.Int64Range(0, 6).Draw(rt, "n")}
		want, _ := trace(t, b.opts, compiled(rt, b, linear), input)
		got, _ := trace(t, b.opts, compiled(rt, b, &chain), input)
		require.Equal(rt, want, stepID.ReplaceAllString(got, ""))
	})
}

// TestRunsCanBeRepeated: a run stopped after any level and resumed, from the JSON of its checkpoint, is the run that
// was not stopped; and a replay of any run finds no difference.
func TestRunsCanBeRepeated(t *testing.T) {
	ended := map[string]int{}
	b := newBench(t)
	b.pureTools()
	rapid.Check(t, func(rt *rapid.T) {
		plan := compiled(rt, b, drawFlow(rt, rapid.Bool().Draw(rt, "dag")))
		input := map[string]any{"n": rapid.Int64Range(0, 6).Draw(rt, "n")}
		kept := newKeeper()
		opts := b.opts
		opts.Checkpoints = kept
		engine := executor.New(opts)
		_, whole := trace(t, opts, plan, input)
		ended[whole.Status]++
		for _, raw := range kept.every {
			var c executor.Checkpoint
			require.NoError(rt, json.Unmarshal(raw, &c))
			r, err := engine.Resume(context.Background(), plan, &c, executor.RunInput{DynamicParams: secret})
			require.NoError(rt, err)
			require.Equal(rt, masked(t, executor.Redact(whole, secret)), masked(t, executor.Redact(r, secret)), "after level %d", c.CompletedLevels)
			require.Equal(rt, whole.FinalOutput, r.FinalOutput)
		}
		data, err := executor.EncodeResult(whole)
		require.NoError(rt, err)
		recorded, err := executor.DecodeResult(data)
		require.NoError(rt, err)
		report, err := engine.Replay(context.Background(), plan, recorded, executor.ReplayOptions{DynamicParams: secret})
		require.NoError(rt, err)
		require.Empty(rt, report.Diffs)
	})
	t.Logf("%v", ended)
	for _, status := range []string{executor.StatusSucceeded, executor.StatusFailed, executor.StatusHandedBack} {
		assert.Positive(t, ended[status], status)
	}
}

// TestTracesAreByteEqual: 100 runs give one trace, however many processors there are.
func TestTracesAreByteEqual(t *testing.T) {
	b := newBench(t)
	b.pureTools()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	rapid.Check(t, func(rt *rapid.T) {
		if !rapid.Bool().Draw(rt, "some") {
			return // a hundred runs each: fewer flows
		}
		plan := compiled(rt, b, drawFlow(rt, true))
		input := map[string]any{"n": rapid.Int64Range(0, 6).Draw(rt, "n")}
		want, _ := trace(t, b.opts, plan, input)
		for _, processors := range []int{1, 2, 8} {
			runtime.GOMAXPROCS(processors)
			for range 34 {
				got, _ := trace(t, b.opts, plan, input)
				require.Equal(rt, want, got)
			}
		}
	})
}

// TestConcurrentRunsDoNotMix: a thousand runs of one plan at a time each see their own values only.
func TestConcurrentRunsDoNotMix(t *testing.T) {
	b := newBench(t)
	b.pureTools()
	flow := &flows.Flow{Type: flows.TypeFlow, Name: "f", Version: "1.0.0", OnContextCollision: flows.CollisionOverwrite}
	for range 10 {
		flow.Steps = append(flow.Steps, flows.Step{ToolName: "inc", InputMapping: flows.Mapping{{Target: "x", Value: flows.Key("y")}}})
	}
	plan, engine := compiled(t, b, flow), executor.New(b.opts)
	var runs sync.WaitGroup
	outputs := make([]any, 1000)
	for i := range outputs {
		runs.Go(func() {
			outputs[i] = engine.Run(context.Background(), plan, executor.RunInput{Input: map[string]any{"y": int64(i)}}).FinalOutput["y"]
		})
	}
	runs.Wait()
	for i, y := range outputs {
		require.Equal(t, int64(i+10), y)
	}
}
