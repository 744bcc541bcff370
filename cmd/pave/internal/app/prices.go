package app

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"gopkg.in/yaml.v3"

	"pave/executor"
)

// Prices say what the model that runs replace costs. Without provider and model the default profile counts.
type Prices struct {
	File           string // price table; "": the built-in one
	Provider       string
	Model          string
	OutputFraction float64 // share of output tokens in the blended price, within 0 and 1; 0: executor.DefaultOutputFraction
}

// priceFile is a price table:
//
//	as_of: 2026-11-01
//	prices:
//	  - {provider: openai, model: gpt-4o, input_per_mtok: 2.5, output_per_mtok: 10}
//	  - {provider: local, model: small, input_per_mtok: 0.1, output_per_mtok: 0.1, as_of: 2026-10-15}
//
// Prices are USD per million tokens; as_of is the day from which they were known, of the table or of one row.
type priceFile struct {
	AsOf   string     `yaml:"as_of"`
	Prices []priceRow `yaml:"prices"`
}

type priceRow struct {
	Provider string   `yaml:"provider"`
	Model    string   `yaml:"model"`
	Input    *float64 `yaml:"input_per_mtok"`
	Output   *float64 `yaml:"output_per_mtok"`
	AsOf     string   `yaml:"as_of"`
}

// profile is the cost profile of estimates: the one row that the options name, with its date.
func (p *Prices) profile() (executor.CostProfile, error) {
	table := executor.DefaultPrices()
	if p.File != "" {
		var err error
		if table, err = readPrices(p.File); err != nil {
			return executor.CostProfile{}, fmt.Errorf("prices.file: %w", err)
		}
	}
	switch {
	case p.Provider == "" && p.Model == "" && p.File == "":
		return executor.DefaultCostProfile, nil
	case p.Provider == "" || p.Model == "":
		return executor.CostProfile{}, errors.New("prices.provider, prices.model: name both, the model whose calls the flows replace")
	}
	fraction := p.OutputFraction
	if fraction == 0 {
		fraction = executor.DefaultOutputFraction
	}
	profile, err := executor.PricedProfile(table, executor.ModelKey{Provider: p.Provider, Model: p.Model}, fraction)
	if err != nil {
		return profile, fmt.Errorf("prices: %w", err)
	}
	return profile, nil
}

// readPrices reads a price table and checks every row.
func readPrices(path string) (map[executor.ModelKey]executor.Price, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc priceFile
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	table := make(map[executor.ModelKey]executor.Price, len(doc.Prices))
	for i, row := range doc.Prices {
		key := executor.ModelKey{Provider: row.Provider, Model: row.Model}
		price, err := row.price(doc.AsOf)
		if _, twice := table[key]; err == nil && twice {
			err = errors.New("this model has a row already")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: prices[%d] (%s %s): %w", path, i, row.Provider, row.Model, err)
		}
		table[key] = price
	}
	if len(table) == 0 {
		return nil, fmt.Errorf("%s: there is no price in it", path)
	}
	return table, nil
}

func (r *priceRow) price(asOf string) (executor.Price, error) {
	if r.Provider == "" || r.Model == "" {
		return executor.Price{}, errors.New("provider and model are needed")
	}
	for name, v := range map[string]*float64{"input_per_mtok": r.Input, "output_per_mtok": r.Output} {
		if v == nil || !(*v >= 0) || math.IsInf(*v, 0) {
			return executor.Price{}, fmt.Errorf("%s must be USD per million tokens, 0 or more", name)
		}
	}
	if r.AsOf != "" {
		asOf = r.AsOf
	}
	if _, err := time.Parse(time.DateOnly, asOf); err != nil {
		return executor.Price{}, errors.New("as_of must be a date such as 2026-11-01, of the table or of the row")
	}
	return executor.Price{InputPerMTok: *r.Input, OutputPerMTok: *r.Output, AsOf: asOf}, nil
}
