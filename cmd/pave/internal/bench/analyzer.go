package bench

import (
	"context"
	"runtime"

	"pave/analyzer/baseline"
	"pave/analyzer/baseline/workload"
	"pave/flows"
)

// Analyzer measures the analyzer of schemas over generated tools.
type Analyzer struct {
	Tools int
}

// AnalyzerResult is `pave bench analyzer`: medians of the CPU time of one call over fresh analyzers. Chains and
// suggestions include the matrix. suggest builds every flow and looks at it once; suggest_kept keeps all of them in memory. Reading
// the schemas has a figure of its own.
type AnalyzerResult struct {
	Head
	Tools            int     `json:"tools"`
	SchemasCPUMS     float64 `json:"schemas_cpu_ms"`
	MatrixCPUMS      float64 `json:"matrix_cpu_ms"`
	ChainsCPUMS      float64 `json:"chains_cpu_ms"`
	SuggestCPUMS     float64 `json:"suggest_cpu_ms"`
	SuggestKeptCPUMS float64 `json:"suggest_kept_cpu_ms"`
	Edges            int     `json:"edges"`
	Chains           int     `json:"chains"`
	Flows            int     `json:"flows"`
}

const analyzerRepetitions = 21

// Run implements Runner.
func (b Analyzer) Run(ctx context.Context, env Env) (any, error) {
	if err := atLeast("--tools", b.Tools, 0); err != nil {
		return nil, err
	}
	res := AnalyzerResult{Head: env.head("analyzer"), Tools: b.Tools}
	tools := workload.Tools(b.Tools)
	opts := baseline.DefaultChainOptions()
	for _, c := range []struct {
		into *float64
		run  func(*baseline.Analyzer) error
	}{
		{&res.SchemasCPUMS, func(*baseline.Analyzer) error { _, err := baseline.NewAnalyzer(tools); return err }},
		{&res.MatrixCPUMS, func(a *baseline.Analyzer) error { res.Edges = countEdges(a.CompatibilityMatrix()); return nil }},
		{&res.ChainsCPUMS, func(a *baseline.Analyzer) error {
			found, err := a.FindChains(opts)
			res.Chains = len(found)
			return err
		}},
		{&res.SuggestCPUMS, func(a *baseline.Analyzer) error {
			res.Flows = 0
			return a.EachFlow(opts, func(*flows.Flow) bool { res.Flows++; return true })
		}},
		{&res.SuggestKeptCPUMS, func(a *baseline.Analyzer) error { _, err := a.SuggestFlows(opts); return err }},
	} {
		var times []float64
		for range analyzerRepetitions {
			a, err := baseline.NewAnalyzer(tools)
			if err != nil {
				return nil, err
			}
			runtime.GC() // what came before is not this call's garbage
			used, _, err := measure(func() error { return c.run(a) })
			if err != nil {
				return nil, err
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			times = append(times, used.Seconds()*1e3)
		}
		*c.into = median(times)
	}
	return res, nil
}

func countEdges(matrix map[string][]string) int {
	n := 0
	for _, successors := range matrix {
		n += len(successors)
	}
	return n
}
