package executor

import (
	"fmt"

	"pave/flows"
)

// NewCostReport is the profile estimate of a run (base system, section Cost; rule R19). executed counts the
// step records, finished those that succeeded without being skipped: only they save a call.
//
//	avoided = max(0, finished-1); latency_saved_ms = avoided * avg_llm_latency_ms
//	cost_saved_usd = avoided * avg_tokens_per_call * cost_per_token_usd
func NewCostReport(p CostProfile, executed, finished int, actualMS float64) *CostReport {
	avoided := max(0, finished-1)
	return &CostReport{
		StepsExecuted:     executed,
		LLMCallsAvoided:   avoided,
		LatencySavedMS:    float64(avoided) * p.AvgLLMLatencyMS,
		CostSavedUSD:      float64(avoided) * p.AvgTokensPerCall * p.CostPerTokenUSD,
		ActualExecutionMS: actualMS,
		Profile:           p,
	}
}

// Price is what a model costs, in USD per million tokens, as of a date.
type Price struct {
	InputPerMTok  float64
	OutputPerMTok float64
	AsOf          string
}

// ModelKey names a model of a provider.
type ModelKey struct{ Provider, Model string }

// DefaultOutputFraction is the share of output tokens that a blended price assumes.
const DefaultOutputFraction = 0.5

// DefaultPrices is the base system's price table. Services should load current prices from configuration.
func DefaultPrices() map[ModelKey]Price {
	const asOf = "2026-05-01"
	return map[ModelKey]Price{
		{"openai", "gpt-4o"}:               {2.50, 10, asOf},
		{"openai", "gpt-4o-mini"}:          {0.15, 0.60, asOf},
		{"anthropic", "claude-opus-4-7"}:   {15, 75, asOf},
		{"anthropic", "claude-sonnet-4-6"}: {3, 15, asOf},
		{"anthropic", "claude-haiku-4-5"}:  {0.80, 4, asOf},
		{"google", "gemini-2.5-pro"}:       {1.25, 10, asOf},
		{"google", "gemini-2.5-flash"}:     {0.30, 2.50, asOf},
		{"aws-bedrock", "claude-opus-4-7"}: {15, 75, asOf},
	}
}

// PricedProfile is DefaultCostProfile with the blended price of one model:
// (input*(1-f) + output*f) / 1e6 USD a token, f being the fraction of output tokens, within [0,1].
func PricedProfile(prices map[ModelKey]Price, key ModelKey, outputFraction float64) (CostProfile, error) {
	if key.Provider == "" || key.Model == "" {
		return CostProfile{}, fmt.Errorf("a price needs both provider and model, got provider %q and model %q", key.Provider, key.Model)
	}
	if !(outputFraction >= 0 && outputFraction <= 1) {
		return CostProfile{}, fmt.Errorf("the fraction of output tokens must be within 0 and 1, got %v", outputFraction)
	}
	price, ok := prices[key]
	if !ok {
		return CostProfile{}, &PriceError{Key: key}
	}
	p := DefaultCostProfile
	p.CostPerTokenUSD = (price.InputPerMTok*(1-outputFraction) + price.OutputPerMTok*outputFraction) / 1e6
	p.Provider, p.Model, p.PriceAsOf = &key.Provider, &key.Model, &price.AsOf
	return p, nil
}

// PriceError is flows.CWCostProfile: the price table does not know the model.
type PriceError struct{ Key ModelKey }

func (e *PriceError) Error() string {
	return fmt.Sprintf("no price is known for model %q of provider %q; add it to the price table", e.Key.Model, e.Key.Provider)
}

// Unwrap makes errors.Is find the catalogue's entry.
func (e *PriceError) Unwrap() error { return flows.CWCostProfile }
