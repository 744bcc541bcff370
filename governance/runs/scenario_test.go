package runs_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/governance/runs"
)

// grid is a flow of levels of width steps, each of which adds one to the input, and needs the level before it. Width 1 is a
// linear flow.
func grid(levels, width int, safe bool) (*flows.Flow, []*flows.Tool) {
	flow := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeDAGFlow, Name: "grid", Version: "0.1.0", Description: "Adds.",
		InputSchema: flows.RawSchema(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}
	var tools []*flows.Tool
	var before []string
	for l := range levels {
		var level []string
		for i := range width {
			name := fmt.Sprintf("t%d_%d", l, i)
			from := flows.Key("n")
			if l > 0 {
				from = flows.Pointer("/" + before[0] + "/n")
			}
			flow.Steps = append(flow.Steps, flows.Step{StepID: name, ToolName: name, DependsOn: before, OutputAs: name,
				InputMapping: flows.Mapping{{Target: "n", Value: from}}})
			made := tool(name, `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`, `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
			if !safe {
				made.Safety.SideEffects, made.Safety.Idempotent, made.Safety.SafeToRetry, made.Safety.Cacheable = flows.EffectWrite, false, false, false
			}
			tools, level = append(tools, made), append(level, name)
		}
		before = level
	}
	if width == 1 {
		flow.Type = flows.TypeFlow
		for i := range flow.Steps {
			flow.Steps[i].StepID, flow.Steps[i].DependsOn = "", nil
		}
	}
	flow.Returns = flows.Mapping{{Target: "n", Value: flows.Pointer("/" + before[0] + "/n")}}
	return flow, tools
}

// D2: the process is killed at every step of a flow of ten steps and of a DAG of four levels. Finished steps are not run
// again; what may have been called and is idempotent runs once more, what is not waits for somebody's decision; in the end
// the output is that of a run which nothing interrupted.
func TestScenarioD2KilledAtEveryStep(t *testing.T) {
	for _, shape := range []struct{ levels, width int }{{10, 1}, {4, 2}} {
		for _, safe := range []bool{true, false} {
			t.Run(fmt.Sprintf("%dx%d, safe %t", shape.levels, shape.width, safe), func(t *testing.T) {
				b := newBench(t, nil)
				flow, tools := grid(shape.levels, shape.width, safe)
				_, err := b.gov.ApplyTools(ctx, admin, tools)
				require.NoError(t, err)
				b.activate(t, flow)
				whole := b.gridRun(t, tools, "")
				require.Equal(t, executor.StatusSucceeded, whole.run.State)
				require.EqualValues(t, 1<<60+shape.levels, whole.run.Result.FinalOutput["n"])
				for at := range tools {
					if !safe && at%shape.width > 0 {
						continue // the first of a level is enough where nothing goes on by itself
					}
					b.killedAt(t, tools, at, shape.width, safe, whole.run)
				}
			})
		}
	}
}

// gridOutcome is a run of the grid and how often each of its tools was called.
type gridOutcome struct {
	run   *runs.Run
	calls map[string]*atomic.Int64
}

// gridRun runs the grid; the process is killed when the tool kill is called.
func (b *bench) gridRun(t testing.TB, tools []*flows.Tool, kill string) gridOutcome {
	out := gridOutcome{calls: map[string]*atomic.Int64{}}
	var dead atomic.Bool // what the killed process would go on with does not happen
	for _, tool := range tools {
		calls := new(atomic.Int64)
		out.calls[tool.Name] = calls
		b.tools.Register(tool.Name, func(_ context.Context, in map[string]any) (any, error) {
			if !dead.Load() && calls.Add(1) == 1 && tool.Name == kill {
				dead.Store(true)
				b.kill(t)
			}
			return map[string]any{"n": in["n"].(int64) + 1}, nil
		}, true)
	}
	run, err := b.Run(ctx, ci, runs.Request{Flow: "grid", Input: map[string]any{"n": int64(1) << 60}})
	if kill == "" {
		require.NoError(t, err)
	}
	dead.Store(false)
	out.run = run
	return out
}

func (b *bench) killedAt(t *testing.T, tools []*flows.Tool, at, width int, safe bool, whole *runs.Run) {
	name := tools[at].Name
	killed := b.gridRun(t, tools, name)
	b.reopen(t)
	page, err := b.List(ctx, ci, runs.Filter{Flow: "grid", Limit: 1})
	require.NoError(t, err)
	id := page.Items[0].ID
	require.Equal(t, runs.StateInterrupted, page.Items[0].State, name)
	resumed, err := b.Recover(ctx, tenant)
	require.NoError(t, err)
	if safe {
		require.Equal(t, 1, resumed, name)
	} else {
		require.Zero(t, resumed, name)
		waits, err := b.Get(ctx, ci, id)
		require.NoError(t, err)
		require.Equal(t, runs.StateInterrupted, waits.State)
		require.Contains(t, waits.Problem.Message, name)
		_, err = b.Resume(ctx, ci, id, runs.ResumeRequest{})
		refused(t, flows.CodeConflict, err, "repeat_unsafe")
		require.EqualValues(t, 1, killed.calls[name].Load(), "nothing was repeated meanwhile")
		_, err = b.Resume(ctx, ci, id, runs.ResumeRequest{RepeatUnsafe: true})
		require.NoError(t, err)
	}
	var done *runs.Run
	require.Eventually(t, func() bool {
		done, err = b.Get(ctx, ci, id)
		return err == nil && done.State == executor.StatusSucceeded
	}, patience, 1e6, name)
	require.Equal(t, whole.Result.FinalOutput, done.Result.FinalOutput, name)
	require.Len(t, done.Result.ExecutionLog, len(tools), name)
	for i, tool := range tools {
		calls := killed.calls[tool.Name].Load()
		switch {
		case i/width == at/width: // of the level that was at work
			require.LessOrEqual(t, calls, int64(2), "%s, killed at %s", tool.Name, name)
			if i == at {
				require.EqualValues(t, 2, calls, "%s runs once more", name)
			}
		default:
			require.EqualValues(t, 1, calls, "%s, killed at %s", tool.Name, name)
		}
	}
	b.nothingKept(t, id)
}
