package analyzer

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/observer"
)

// BenchmarkObserve infers the schemas of the tools of the recorded retail sessions.
func BenchmarkObserve(b *testing.B) {
	sessions := recorded(b, "tau-retail")
	calls := 0
	for b.Loop() {
		inf := NewInferrer()
		for i := range sessions {
			inf.ObserveSession(&sessions[i])
		}
		calls = 0
		for _, o := range inf.tools {
			calls += min(o.samples, maxInferSamples)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*calls), "us/call")
}

// BenchmarkPropose drafts, checks and measures the candidates of the recorded retail sessions.
func BenchmarkPropose(b *testing.B) {
	sessions := recorded(b, "tau-retail")
	src := observer.NewMemory(sessions)
	mined, err := observer.Mine(context.Background(), src, observer.Options{})
	require.NoError(b, err)
	inf := NewInferrer()
	for i := range sessions {
		inf.ObserveSession(&sessions[i])
	}
	catalogue := NewCatalogue(nil, inf.Tools())
	for b.Loop() {
		if _, err := Propose(context.Background(), mined, catalogue, src, Options{Values: inf}); err != nil {
			b.Fatal(err)
		}
	}
}
