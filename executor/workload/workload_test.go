package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func run(b *testing.B, c Case, err error) {
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Run(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.Steps), "ns/step")
}

func linear(b *testing.B, n int) {
	c, err := Linear(n, time.Now)
	run(b, c, err)
}

func BenchmarkLinear1(b *testing.B)   { linear(b, 1) }
func BenchmarkLinear10(b *testing.B)  { linear(b, 10) }
func BenchmarkLinear100(b *testing.B) { linear(b, 100) }

func BenchmarkFloor10(b *testing.B) {
	c, err := Floor(10, time.Now)
	run(b, c, err)
}

func TestCases(t *testing.T) {
	for _, build := range []func(int, func() time.Time) (Case, error){Linear, Floor} {
		for _, n := range []int{1, 10, 100} {
			c, err := build(n, time.Now)
			require.NoError(t, err)
			require.Equal(t, n, c.Steps)
			require.NoError(t, c.Run())
		}
	}
}
