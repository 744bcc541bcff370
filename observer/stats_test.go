package observer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Expected values from the closed forms, computed with exact fractions.
func TestStatistics(t *testing.T) {
	require.InDelta(t, 0.8513, wilsonLower(22, 22), 1e-4) // n/(n+z^2)
	require.InDelta(t, 0.5958, wilsonLower(9, 10), 1e-4)
	require.InDelta(t, 0.2366, wilsonLower(5, 10), 1e-4)
	require.Zero(t, wilsonLower(0, 0))
	require.InDelta(t, 0.7634, wilsonUpper(5, 10), 1e-4) // 1 - 0.2366
	require.InDelta(t, 0.1487, wilsonUpper(0, 22), 1e-4)
	require.Equal(t, 1.0, wilsonUpper(0, 0))

	require.InDelta(t, 0.080301, poissonTail(3, 1), 1e-6) // 1 - e^-1 (1 + 1 + 1/2)
	require.Equal(t, 1.0, poissonTail(5, 7))
	require.Zero(t, poissonTail(4, 0))
	require.Less(t, poissonTail(2000, 100), 1e-300)
	require.Greater(t, poissonTail(10_050, 10_000), 0.25)

	require.InDelta(t, 0.001, binomialTail(3, 3, 0.1), 1e-12)
	require.InDelta(t, 0.5, binomialTail(2, 3, 0.5), 1e-12)
	require.InDelta(t, 1-0.9*0.9*0.9, binomialTail(1, 3, 0.1), 1e-12)
	require.Equal(t, 1.0, binomialTail(3, 3, 1))
	require.Zero(t, binomialTail(1, 5, 0))

	// Benjamini and Hochberg's step-up: 0.03 is below 3/5 x 0.05... and the two largest are not.
	require.Equal(t, 0.03, benjaminiHochberg([]float64{0.5, 0.01, 0.2, 0.03, 0.02}, 0.05))
	require.Equal(t, -1.0, benjaminiHochberg([]float64{0.5, 0.2}, 0.05))
	require.Equal(t, -1.0, benjaminiHochberg(nil, 0.05))
}
