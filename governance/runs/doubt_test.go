package runs_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/governance/runs"
)

// What a run that stopped says of the step it stopped at: a call that changes something and may have happened is not named
// as what comes next, neither at once nor when the run is read back.
func TestACallThatMayHaveHappenedIsNotNext(t *testing.T) {
	answering := func(v any, err error) func(context.Context, map[string]any) (any, error) {
		return func(context.Context, map[string]any) (any, error) { return v, err }
	}
	for name, c := range map[string]struct {
		safe   bool
		second func(context.Context, map[string]any) (any, error)
		doubt  bool
	}{
		"it broke off":              {false, answering(nil, &executor.ToolError{Class: executor.ClassIO, Message: "the connection broke"}), true},
		"its answer does not fit":   {false, answering(map[string]any{"n": "done"}, nil), true},
		"it only reads":             {true, answering(nil, &executor.ToolError{Class: executor.ClassIO, Message: "the connection broke"}), false},
		"it was not sent":           {false, answering(nil, &executor.ToolError{Class: executor.ClassTimeout, Code: "no_worker", Message: "nobody came"}), false},
		"it was not let to a place": {false, answering(nil, &executor.ToolError{Class: executor.ClassOther, Code: "egress_denied", Message: "not there"}), false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			flow, tools := grid(3, 1, c.safe)
			_, err := b.gov.ApplyTools(ctx, admin, tools)
			require.NoError(t, err)
			b.activate(t, flow)
			b.tools.Register("t0_0", answering(map[string]any{"n": int64(1)}, nil), true)
			b.tools.Register("t1_0", c.second, true)
			run, err := b.Run(ctx, ci, runs.Request{Flow: "grid", Input: map[string]any{"n": int64(0)}})
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
					require.Contains(t, told.Text(), `Next would be t1_0 (step 2) with {"n":1}.`)
				}
			}
		})
	}
}
