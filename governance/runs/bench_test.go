package runs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/governance/runs"
)

// BenchmarkRun is one admitted, executed, kept and archived run of a two-step flow, without recorded calls, whose
// group commit waits for others on purpose.
func BenchmarkRun(b *testing.B) {
	s := newBench(b, func(o *runs.Options) { o.Recorder = nil })
	for b.Loop() {
		run, err := s.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input})
		require.NoError(b, err)
		require.True(b, run.Result.Success)
	}
}
