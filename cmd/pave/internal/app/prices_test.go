package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func writePrices(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prices.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const ownPrices = `as_of: 2026-11-01
prices:
  - {provider: openai, model: gpt-4o, input_per_mtok: 2, output_per_mtok: 8}
  - {provider: local, model: small, input_per_mtok: 0, output_per_mtok: 0.4, as_of: 2026-10-15}
`

func TestPriceTableIsTheUsers(t *testing.T) {
	file := writePrices(t, ownPrices)
	p := Prices{File: file, Provider: "openai", Model: "gpt-4o"}
	profile, err := p.profile()
	require.NoError(t, err)
	require.InDelta(t, 5e-6, profile.CostPerTokenUSD, 1e-15, "(2+8)/2 a million")
	require.Equal(t, []string{"openai", "gpt-4o", "2026-11-01"}, []string{*profile.Provider, *profile.Model, *profile.PriceAsOf})
	p = Prices{File: file, Provider: "local", Model: "small", OutputFraction: 0.25}
	profile, err = p.profile()
	require.NoError(t, err)
	require.InDelta(t, 1e-7, profile.CostPerTokenUSD, 1e-18)
	require.Equal(t, "2026-10-15", *profile.PriceAsOf)
	p = Prices{Provider: "google", Model: "gemini-2.5-pro"}
	profile, err = p.profile()
	require.NoError(t, err)
	require.Equal(t, "2026-05-01", *profile.PriceAsOf, "the built-in table")
	profile, err = (&Prices{}).profile()
	require.NoError(t, err)
	require.Nil(t, profile.Provider)
}

func TestPriceTableFaultsAreNamed(t *testing.T) {
	row := "as_of: 2026-11-01\nprices:\n  - "
	for text, says := range map[string]string{
		row + "{provider: a, model: b, input_per_mtok: 1}":                            "prices[0] (a b): output_per_mtok",
		row + "{provider: a, model: b, input_per_mtok: -1, output_per_mtok: 1}":       "input_per_mtok",
		row + "{provider: a, input_per_mtok: 1, output_per_mtok: 1}":                  "provider and model",
		row + "{provider: a, model: b, input: 1}":                                     "input",
		"prices:\n  - {provider: a, model: b, input_per_mtok: 1, output_per_mtok: 1}": "as_of",
		"as_of: 2026-11-01\nprices: []":                                               "no price",
		"prices: 3":                                                                   "cannot unmarshal",
		row + "{provider: a, model: b, input_per_mtok: 1, output_per_mtok: 1}\n  - {provider: a, model: b, input_per_mtok: 1, output_per_mtok: 1}": "prices[1] (a b): this model has a row already",
	} {
		p := Prices{File: writePrices(t, text), Provider: "a", Model: "b"}
		_, err := p.profile()
		require.ErrorContains(t, err, says, text)
		require.ErrorContains(t, err, "prices.file", text)
	}
	for says, p := range map[string]Prices{
		"name both":                         {Provider: "openai"},
		"no price is known for model \"x\"": {Provider: "openai", Model: "x"},
		"fraction":                          {Provider: "openai", Model: "gpt-4o", OutputFraction: 2},
		"prices.file":                       {File: "none.yaml", Provider: "openai", Model: "gpt-4o"},
	} {
		_, err := p.profile()
		require.ErrorContains(t, err, says)
	}
}

func TestRunOptionsNameWhatIsWrong(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, make([]byte, 31), 0o600))
	o := RunOptions{CheckpointKey: key, Kernels: []string{"crm."}, Decisions: Decisions{URL: "ftp://x"}, Prices: Prices{Provider: "p"}, ApprovalExpiry: -1}
	problems := o.Check()
	require.Len(t, problems, 5)
	for i, says := range []string{"prices.provider", "runs.kernels", "runs.decisions.url", "runs.checkpoint_key", "runs.approval_expiry"} {
		require.Contains(t, problems[i], says)
	}
	require.Empty(t, (&RunOptions{Kernels: []string{"crm.=http://127.0.0.1:9000", "=https://k.example"}}).Check())
}
