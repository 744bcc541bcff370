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
	removed   int // distinct assistant turns - 1
	tokens    float64
	cost      float64
	latencyMS float64
	averaged  bool // some figure is a total of the run divided by its model calls
}

const unknown = -1.0

// measureOccurrence sums the model calls that issued the occurrence's turns, except the first: that one decides to
// start, with a flow or without.
func measureOccurrence(run *ingest.AgentRun, calls []int) (measure, bool) {
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
	m := measure{removed: len(turns) - 1}
	if m.removed == 0 {
		// Nothing is saved, which is a figure only where figures are recorded at all.
		m.tokens, m.cost, m.latencyMS, _ = turnFigures(run, turns[0])
		m.tokens, m.cost, m.latencyMS = min(m.tokens, 0), min(m.cost, 0), min(m.latencyMS, 0)
		return m, true
	}
	for _, turn := range turns[1:] {
		tokens, cost, latency, averaged := turnFigures(run, turn)
		m.tokens, m.cost, m.latencyMS = sum(m.tokens, tokens), sum(m.cost, cost), sum(m.latencyMS, latency)
		m.averaged = m.averaged || averaged
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

// turnFigures is what the model calls of one turn used; where the run only has totals, an equal share of them.
func turnFigures(run *ingest.AgentRun, turn int32) (tokens, cost, latency float64, averaged bool) {
	tokens, cost, latency = unknown, unknown, unknown
	for i := range run.LLM {
		step := &run.LLM[i]
		if step.Turn != turn {
			continue
		}
		t, c, l := stepFigures(step)
		tokens, cost, latency = addKnown(tokens, t), addKnown(cost, c), addKnown(latency, l)
	}
	for i := range run.LLM {
		step := &run.LLM[i]
		if step.Turn != -1 || step.Count < 1 {
			continue
		}
		t, c, l := stepFigures(step)
		n := float64(step.Count)
		for _, f := range []struct {
			figure *float64
			total  float64
		}{{&tokens, t}, {&cost, c}, {&latency, l}} {
			if *f.figure < 0 && f.total >= 0 {
				*f.figure, averaged = f.total/n, true
			}
		}
	}
	return tokens, cost, latency, averaged
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

func stepFigures(step *ingest.LLMStep) (tokens, cost, latencyMS float64) {
	tokens, cost, latencyMS = unknown, unknown, unknown
	if step.InputTokens >= 0 && step.OutputTokens >= 0 {
		tokens = float64(step.InputTokens + step.OutputTokens)
	}
	if step.HasCost {
		cost = step.CostUSD
	}
	if step.Duration > 0 {
		latencyMS = float64(step.Duration) / float64(time.Millisecond)
	}
	return tokens, cost, latencyMS
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
	var calls, tokens, cost, latency []float64
	averaged := false
	for _, m := range measured {
		calls, tokens, cost, latency = append(calls, float64(m.removed)), append(tokens, m.tokens), append(cost, m.cost), append(latency, m.latencyMS)
		averaged = averaged || m.averaged
	}
	s.LLMCallsPerRun, s.TokensPerRun, s.CostUSDPerRun, s.LatencyMSPerRun = interval(calls), interval(tokens), interval(cost), interval(latency)
	if weeks := window.To.Sub(window.From).Hours() / (7 * 24); !window.From.IsZero() && !window.To.IsZero() && weeks > 0 {
		s.PerWeek = float64(p.Occurrences) / weeks
	}
	s.Basis = basis(s, len(measured), averaged)
	return s
}

func basis(s Savings, measured int, averaged bool) string {
	if measured == 0 {
		return "no recorded occurrence could be read, so nothing is measured"
	}
	text := fmt.Sprintf("mean over %d of %d recorded occurrences of the model calls between the first and the last step", measured, s.Occurrences)
	if averaged {
		text += "; some figures are totals of a run divided by its model calls"
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
