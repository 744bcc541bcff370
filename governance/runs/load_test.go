package runs_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/governance/runs"
)

// heap is what is live after collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A thousand runs of ten steps at once do not mix, and what they leave in memory does not grow with their number.
func TestScenarioE4ThousandRunsAtOnce(t *testing.T) {
	const atOnce, more, steps = 1000, 300, 10
	b := newBench(t, func(o *runs.Options) { o.Recorder, o.MaxPerPrincipal = nil, atOnce })
	b.chain(t, steps, true)
	wave := func(runsAtOnce int, base int64) {
		var wg sync.WaitGroup
		for i := range runsAtOnce {
			wg.Go(func() {
				n := base + int64(i)*1000
				run, err := b.Run(ctx, ci, runs.Request{Flow: "count", Input: map[string]any{"n": n}})
				if err != nil {
					t.Error(err)
					return
				}
				if got := run.Result.FinalOutput["n"]; run.State != executor.StatusSucceeded || got != n+steps {
					t.Errorf("run %d: %s, %v", i, run.State, got)
				}
			})
		}
		wg.Wait()
	}
	wave(atOnce, 0)
	first := heap()
	wave(more, 1<<40)
	second := heap()
	t.Logf("heap after %d and %d runs: %d and %d KiB", atOnce, atOnce+more, first>>10, second>>10)
	const slack = 1 << 20 // of caches of the stores; the records of 300 runs are more than 2 MiB
	require.Less(t, second-first, int64(slack), "bytes that %d more runs left", more)
}
