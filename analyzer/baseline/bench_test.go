package baseline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/analyzer/baseline"
	"pave/analyzer/baseline/workload"
	"pave/flows"
)

// BenchmarkAnalyzer measures each operation over 500 tools on fresh analyzers; reading the schemas is not counted.
func BenchmarkAnalyzer(b *testing.B) {
	tools := workload.Tools(500)
	for name, op := range map[string]func(*baseline.Analyzer) error{
		"matrix": func(a *baseline.Analyzer) error { a.CompatibilityMatrix(); return nil },
		"chains": func(a *baseline.Analyzer) error { _, err := a.FindChains(baseline.DefaultChainOptions()); return err },
		"suggest": func(a *baseline.Analyzer) error {
			return a.EachFlow(baseline.DefaultChainOptions(), func(*flows.Flow) bool { return true })
		},
		"suggest kept": func(a *baseline.Analyzer) error { _, err := a.SuggestFlows(baseline.DefaultChainOptions()); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				a, err := baseline.NewAnalyzer(tools)
				require.NoError(b, err)
				b.StartTimer()
				require.NoError(b, op(a))
			}
		})
	}
}
