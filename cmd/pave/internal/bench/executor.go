package bench

import (
	"context"
	"runtime"
	"slices"
	"time"

	"pave/executor/workload"
)

// Executor measures the steps of flows whose tool adds one in process.
type Executor struct{}

// ExecutorResult is `pave bench executor`.
type ExecutorResult struct {
	Head
	Cases []ExecutorCase `json:"cases"`
}

// ExecutorCase is one workload: medians over repetitions of 2,000 runs after 50 warm-up runs.
type ExecutorCase struct {
	Name          string  `json:"name"`
	Steps         int     `json:"steps"`
	CPUUsPerStep  float64 `json:"cpu_us_per_step"`
	AllocsPerStep float64 `json:"allocs_per_step"`
	BytesPerStep  float64 `json:"bytes_per_step"`
}

const (
	executorWarmUp      = 50
	executorRuns        = 2000
	executorRepetitions = 7
)

// Run implements Runner.
func (Executor) Run(ctx context.Context, env Env) (any, error) {
	res := ExecutorResult{Head: env.head("executor")}
	cases, err := workload.Cases(time.Now)
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		env.note("%s", c.Name)
		one, err := measureCase(ctx, c)
		if err != nil {
			return nil, err
		}
		res.Cases = append(res.Cases, one)
	}
	return res, nil
}

func measureCase(ctx context.Context, w workload.Case) (ExecutorCase, error) {
	for range executorWarmUp {
		if err := w.Run(); err != nil {
			return ExecutorCase{}, err
		}
	}
	var times, allocs, bytes []float64
	total := float64(executorRuns * w.Steps)
	for range executorRepetitions {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		used, _, err := measure(func() error {
			for range executorRuns {
				if err := w.Run(); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
		if err != nil {
			return ExecutorCase{}, err
		}
		runtime.ReadMemStats(&after)
		times = append(times, used.Seconds()*1e6/total)
		allocs = append(allocs, float64(after.Mallocs-before.Mallocs)/total)
		bytes = append(bytes, float64(after.TotalAlloc-before.TotalAlloc)/total)
	}
	return ExecutorCase{Name: w.Name, Steps: w.Steps, CPUUsPerStep: median(times), AllocsPerStep: median(allocs), BytesPerStep: median(bytes)}, nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
