package analyzer

import (
	"fmt"
	"math"
	"strings"
	"time"

	"pave/ingest"
	"pave/observer"
)

// measure is what the model calls between the steps of one occurrence used. A negative figure is unknown.
type measure struct {
	calls     int
	removed   int // distinct assistant turns - 1
	tokens    float64
	cost      float64
	latencyMS float64
	averaged  bool   // some figure is a total of the run divided by its model calls
	pricedAt  string // date of the price table where a cost was computed from tokens
}

// Price is what a model costs in USD per million tokens, and the date of that price.
type Price struct {
	Input, Output float64
	AsOf          string
}

// PriceFunc looks a model up by the name that its calls report.
type PriceFunc func(model string) (Price, bool)

const unknown = -1.0

// measureOccurrence sums the model calls that issued the occurrence's turns, except the first: that one decides to
// start, with a flow or without.
func measureOccurrence(run *ingest.AgentRun, calls []int, price PriceFunc) (measure, bool) {
	var turns []int32
	for _, c := range calls {
		if c < 0 || c >= len(run.Calls) {
			return measure{}, false
		}
		turn := run.Calls[c].Turn
		known := false
		for _, t := range turns {
			known = known || t == turn
		}
		if !known {
			turns = append(turns, turn)
		}
	}
	if len(turns) == 0 {
		return measure{}, false
	}
	m := measure{calls: len(calls), removed: len(turns) - 1}
	if m.removed == 0 {
		// Nothing is saved, which is a figure only where figures are recorded at all.
		f := turnFigures(run, turns[0], price)
		m.tokens, m.cost, m.latencyMS = min(f.tokens, 0), min(f.cost, 0), min(f.latency, 0)
		return m, true
	}
	for _, turn := range turns[1:] {
		f := turnFigures(run, turn, price)
		m.tokens, m.cost, m.latencyMS = sum(m.tokens, f.tokens), sum(m.cost, f.cost), sum(m.latencyMS, f.latency)
		m.averaged = m.averaged || f.averaged
		m.pricedAt = max(m.pricedAt, f.pricedAt)
	}
	return m, true
}

// sum adds figures; one unknown part makes the sum unknown.
func sum(a, b float64) float64 {
	if a < 0 || b < 0 {
		return unknown
	}
	return a + b
}

// figures of model calls; a negative one is unknown.
type figures struct {
	tokens, cost, latency float64
	averaged              bool
	pricedAt              string
}

// turnFigures is what the model calls of one turn used; where the run only has totals, an equal share of them.
func turnFigures(run *ingest.AgentRun, turn int32, price PriceFunc) figures {
	out := figures{tokens: unknown, cost: unknown, latency: unknown}
	for i := range run.LLM {
		step := &run.LLM[i]
		if step.Turn != turn {
			continue
		}
		f := stepFigures(step, price)
		out.tokens, out.cost, out.latency = addKnown(out.tokens, f.tokens), addKnown(out.cost, f.cost), addKnown(out.latency, f.latency)
		out.pricedAt = max(out.pricedAt, f.pricedAt)
	}
	for i := range run.LLM {
		step := &run.LLM[i]
		if step.Turn != -1 || step.Count < 1 {
			continue
		}
		f := stepFigures(step, price)
		n := float64(step.Count)
		for _, share := range []struct {
			figure *float64
			total  float64
		}{{&out.tokens, f.tokens}, {&out.cost, f.cost}, {&out.latency, f.latency}} {
			if *share.figure < 0 && share.total >= 0 {
				*share.figure, out.averaged = share.total/n, true
			}
		}
		out.pricedAt = max(out.pricedAt, f.pricedAt)
	}
	return out
}

// addKnown adds b to a when it is known.
func addKnown(a, b float64) float64 {
	switch {
	case b < 0:
		return a
	case a < 0:
		return b
	}
	return a + b
}

// stepFigures reads one record of model calls. A cost that was not recorded is computed from the tokens where the
// model has a price; cached input has none in the tables and is left out, so that savings are rather understated.
func stepFigures(step *ingest.LLMStep, price PriceFunc) figures {
	f := figures{tokens: unknown, cost: unknown, latency: unknown}
	if step.InputTokens >= 0 && step.OutputTokens >= 0 {
		f.tokens = float64(step.InputTokens + step.OutputTokens)
	}
	if step.HasCost {
		f.cost = step.CostUSD
	} else if f.tokens >= 0 && price != nil {
		if p, ok := price(step.Model); ok {
			fresh := step.InputTokens - max(0, step.CachedTokens)
			f.cost, f.pricedAt = (float64(max(0, fresh))*p.Input+float64(step.OutputTokens)*p.Output)/1e6, p.AsOf
		}
	}
	if step.Duration > 0 {
		f.latency = float64(step.Duration) / float64(time.Millisecond)
	}
	return f
}

// interval is the mean of the known figures with its normal 95 % interval: mean +- 1.96 s/sqrt(n), never below 0.
func interval(values []float64) Interval {
	var known []float64
	for _, v := range values {
		if v >= 0 {
			known = append(known, v)
		}
	}
	n := float64(len(known))
	if n == 0 {
		return Interval{}
	}
	total := 0.0
	for _, v := range known {
		total += v
	}
	mean := total / n
	squares := 0.0
	for _, v := range known {
		squares += (v - mean) * (v - mean)
	}
	half := 0.0
	if n > 1 {
		half = 1.96 * math.Sqrt(squares/(n-1)) / math.Sqrt(n)
	}
	return Interval{Mean: mean, Low: max(0, mean-half), High: mean + half, Known: len(known)}
}

// savings sums up the measured occurrences of a pattern.
func savings(p *observer.Pattern, window Window, measured []measure) Savings {
	s := Savings{Occurrences: p.Occurrences}
	if b := p.Batch; b != nil { // elsewhere callers would have nothing to give it
		s.Occurrences = int(math.Round(float64(p.Occurrences) * float64(b.Several) / float64(b.Examined)))
	}
	var made, calls, tokens, cost, latency []float64
	averaged, pricedAt := false, ""
	for _, m := range measured {
		made, calls, tokens, cost, latency = append(made, float64(m.calls)), append(calls, float64(m.removed)), append(tokens, m.tokens), append(cost, m.cost), append(latency, m.latencyMS)
		averaged, pricedAt = averaged || m.averaged, max(pricedAt, m.pricedAt)
	}
	s.LLMCallsPerRun, s.TokensPerRun, s.CostUSDPerRun, s.LatencyMSPerRun = interval(calls), interval(tokens), interval(cost), interval(latency)
	s.CallsPerRun, s.PerCall = interval(made), p.Batch != nil
	if weeks := window.To.Sub(window.From).Hours() / (7 * 24); !window.From.IsZero() && !window.To.IsZero() && weeks > 0 {
		s.PerWeek = float64(s.Occurrences) / weeks
	}
	s.Basis = basis(s, len(measured), averaged, pricedAt)
	if b := p.Batch; b != nil {
		s.Basis = fmt.Sprintf("callers could have given more than the first call in %d of %d examined occurrences, and a run saves by the calls that it is given; %s", b.Several, b.Examined, s.Basis)
	}
	return s
}

func basis(s Savings, measured int, averaged bool, pricedAt string) string {
	if measured == 0 {
		return "no recorded occurrence could be read, so nothing is measured"
	}
	text := fmt.Sprintf("mean over %d of %d recorded occurrences of the model calls between the first and the last step", measured, s.Occurrences)
	if averaged {
		text += "; some figures are totals of a run divided by its model calls"
	}
	if pricedAt != "" {
		text += "; cost from tokens at the prices of " + pricedAt + ", cached input left out"
	}
	var missing, partly []string
	for _, f := range []struct {
		name string
		i    Interval
	}{{"tokens", s.TokensPerRun}, {"cost", s.CostUSDPerRun}, {"latency", s.LatencyMSPerRun}} {
		switch {
		case f.i.Known == 0:
			missing = append(missing, f.name)
		case f.i.Known < measured:
			partly = append(partly, f.name)
		}
	}
	if len(partly) > 0 {
		text += "; recorded for a part of them: " + strings.Join(partly, ", ")
	}
	if len(missing) > 0 {
		text += "; not recorded: " + strings.Join(missing, ", ")
	}
	return text
}
