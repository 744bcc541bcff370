package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCases(t *testing.T) {
	cases, err := Cases(time.Now)
	require.NoError(t, err)
	var names []string
	for _, c := range cases {
		names = append(names, c.Name)
		assert.Positive(t, c.Steps)
		for range 2 { // the second run finds a warm cache
			require.NoError(t, c.Run())
		}
	}
	assert.Equal(t, []string{"linear_1", "linear_10", "linear_100", "dag_3x4", "linear_10_cached", "linear_10_checkpoint", "for_each_100", "floor_10"}, names)
}

func BenchmarkCases(b *testing.B) {
	cases, err := Cases(time.Now)
	require.NoError(b, err)
	for _, c := range cases {
		b.Run(c.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.Steps), "ns/step")
		})
	}
}
