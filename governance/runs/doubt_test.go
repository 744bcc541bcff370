package runs_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/governance/runs"
)

// What a run that stopped says of the step it stopped at: a call that changes something and may have happened is not named
// as what comes next, neither at once nor when the run is read back.
func TestACallThatMayHaveHappenedIsNotNext(t *testing.T) {
	answering := func(v any, err error) func(context.Context, map[string]any) (any, error) {
		return func(context.Context, map[string]any) (any, error) { return v, err }
	}
	broke := &executor.ToolError{Class: executor.ClassIO, Message: "the connection broke"}
	unsent := &executor.ToolError{Class: executor.ClassTimeout, Code: "no_worker", Message: "nobody came", NotSent: true}
	first := func(then, later error) func(context.Context, map[string]any) (any, error) {
		calls := 0
		return func(context.Context, map[string]any) (any, error) {
			if calls++; calls == 1 {
				return nil, then
			}
			return nil, later
		}
	}
	retried := func(f *flows.Flow) {
		f.Steps[1].Retry = &flows.RetryPolicy{MaxRetries: 1, BackoffMultiplier: 1, RetryableErrors: []string{executor.ClassIO, executor.ClassTimeout}}
	}
	for name, c := range map[string]struct {
		safe   bool
		second func(context.Context, map[string]any) (any, error)
		change func(*flows.Flow)
		doubt  bool
	}{
		"it broke off":              {false, answering(nil, broke), nil, true},
		"its answer does not fit":   {false, answering(map[string]any{"n": "done"}, nil), nil, true},
		"its text is not a code":    {false, answering(nil, &executor.ToolError{Class: executor.ClassIO, Message: "the order says [no_worker]"}), nil, true},
		"a code of the tool's own":  {false, answering(nil, &executor.ToolError{Class: executor.ClassOther, Code: "no_worker", Message: "of the tool"}), nil, true},
		"it only reads":             {true, answering(nil, broke), nil, false},
		"it was not sent":           {false, answering(nil, unsent), nil, false},
		"one of its tries was sent": {false, first(broke, unsent), retried, true},
		"none of its tries was":     {false, first(unsent, unsent), retried, false},
		"only its fallback was not": {false, answering(nil, broke), func(f *flows.Flow) { f.Steps[1].OnError = "fallback:spare" }, true},
		"its output has no place": {false, answering(map[string]any{"n": int64(1)}, nil), func(f *flows.Flow) {
			f.Steps[1].OutputAs, f.Steps[1].OutputMapping = "", []flows.OutputEntry{{ContextKey: "n", OutputKey: "n"}}
			f.Steps[2].InputMapping[0].Value, f.OnContextCollision = flows.Key("n"), flows.CollisionError
		}, true},
		"its input does not fit": {false, nil, func(f *flows.Flow) {
			f.InputSchema = flows.RawSchema(`{"type":"object","properties":{"n":{"type":"integer"},"any":{}},"required":["n","any"]}`)
			f.Steps[1].InputMapping[0].Value = flows.Key("any")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			flow, tools := grid(3, 1, c.safe)
			_, err := b.gov.ApplyTools(ctx, admin, tools)
			require.NoError(t, err)
			if c.change != nil {
				c.change(flow)
			}
			spare := tool("spare", `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`, `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
			_, err = b.gov.ApplyTools(ctx, admin, []*flows.Tool{spare})
			require.NoError(t, err)
			b.tools.Register("spare", answering(nil, unsent), true)
			b.activate(t, flow)
			b.tools.Register("t0_0", answering(map[string]any{"n": int64(1)}, nil), true)
			b.tools.Register("t1_0", c.second, true)
			run, err := b.Run(ctx, ci, runs.Request{Flow: "grid", Input: map[string]any{"n": int64(0), "any": "three"}})
			require.NoError(t, err)
			require.Equal(t, executor.StatusFailed, run.State)
			kept, err := b.Get(ctx, ci, run.ID)
			require.NoError(t, err)
			for _, told := range []*runs.Continuation{run.Continuation, kept.Continuation} {
				require.Equal(t, "t1_0", told.Next.Tool)
				require.Equal(t, c.doubt, told.Next.MayHaveHappened)
				if c.doubt {
					require.Contains(t, told.Text(), `It failed, but may have happened: t1_0 (step 2) with {"n":1}.`)
					require.Contains(t, told.Text(), "Find out whether it did before you call t1_0 again.")
					require.NotContains(t, told.Text(), "Next would be")
				} else {
					require.Contains(t, told.Text(), "Next would be t1_0 (step 2) with ")
				}
			}
		})
	}
}
