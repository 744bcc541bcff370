package executor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPriceOfModel(t *testing.T) {
	prices := DefaultPrices()
	prices[ModelKey{"reseller", "gpt-4o"}] = Price{3, 12, "2026-05-01"}
	for _, c := range []struct {
		model string
		input float64 // 0: unknown
	}{
		{"gpt-4o", 2.50}, {"gpt-4o-2024-08-06", 2.50}, {"gpt-4o-mini", 0.15}, {"gpt-4o-mini-2024-07-18", 0.15},
		{"gpt-4o-audio", 0}, {"gpt-4", 0}, {"", 0}, {"claude-opus-4-7@20260401", 15},
	} {
		p, ok := PriceOfModel(prices, c.model)
		require.Equal(t, c.input != 0, ok, c.model)
		require.Equal(t, c.input, p.InputPerMTok, c.model)
	}
}
