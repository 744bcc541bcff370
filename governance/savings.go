package governance

import (
	"context"
	"errors"
	"time"

	"pave/analyzer"
	"pave/flows"
	"pave/governance/store"
	eventstore "pave/ingest/store"
)

// EstimateProfile is the configured cost of one model call, used for the estimate beside the measured savings.
type EstimateProfile struct {
	LatencyMS       float64
	Tokens          float64
	CostPerTokenUSD float64
}

// DefaultEstimate is the base system's profile: 300 ms, 750 tokens, 0.00004 USD a token.
var DefaultEstimate = EstimateProfile{LatencyMS: 300, Tokens: 750, CostPerTokenUSD: 0.00004}

// SavingsReport says what flow runs saved. Dry runs are not in it.
type SavingsReport struct {
	From, To time.Time // zero: open
	Flows    []FlowSavings
	Total    FlowSavings // Flow and Version are empty
	// Repeats is a saving apart: calls that agents repeated exactly, which a cache would have answered; nil when
	// no mining pass has counted them.
	Repeats *RepeatSavings
}

// FlowSavings sums the runs of one flow version. The measured figures are what the replaced stretches used on
// average in the recorded sessions, times the runs: in full for a run that succeeded, by finished calls for one that was
// handed back and for every run of a flow that takes whole calls, nothing for one that failed.
type FlowSavings struct {
	Flow, Version                       string
	Runs, Succeeded, Failed, HandedBack int64
	Denied                              int64         // ended because an approval was denied, or not given in time
	RunTime                             time.Duration // measured, of all runs together
	LLMCalls                            Figure
	Tokens                              Figure
	CostUSD                             Figure
	LatencyMS                           Figure
	Basis                               string // one sentence: what was measured, what is unknown
	Estimate                            Estimate
}

// Figure is a sum with the bounds that the 95 % intervals of the means behind it give; the bounds of several
// flows are added, which is the cautious choice. Known is false when the recordings do not hold the quantity.
type Figure struct {
	Mean, Low, High float64
	Known           bool
}

// Estimate is what the configured profile says, not a measurement: max(0, finished steps - 1) model calls a run.
type Estimate struct {
	Label     string // always "estimate"
	LLMCalls  int64
	Tokens    float64
	CostUSD   float64
	LatencyMS float64
}

// RepeatSavings counts exact repeats that the newest mining pass folded.
type RepeatSavings struct {
	Calls    int
	Sessions int // sessions read
	At       time.Time
}

const noEvidence = "no recorded model calls stand behind this flow, so nothing is claimed as measured"

// Savings reports what runs that started in [from, to) saved; zero times leave a side open.
func (s *Service) Savings(ctx context.Context, actor Actor, from, to time.Time) (*SavingsReport, error) {
	if s.stats == nil {
		return nil, flows.NewError(flows.CodeUnavailable, "no event store is open, so there are no runs to report")
	}
	report := &SavingsReport{From: from, To: to}
	estimates := map[[2]string]int64{}
	savings := map[[2]string]analyzer.Savings{}
	tenant := tenantOf(actor)
	err := s.view(ctx, actor, ActionRead, func(r *store.Reader, tenant string, _ Policy) error {
		sums, err := r.RunEstimates(tenant, from, to)
		if err != nil {
			return err
		}
		for _, e := range sums {
			estimates[[2]string{e.Flow, e.Version}] = e.StepsSaved
		}
		rows, err := r.FlowVersions(tenant, "")
		if err != nil {
			return err
		}
		for _, row := range rows {
			var sv analyzer.Savings
			if err := decode(row.Savings, &sv); err != nil {
				return err
			}
			savings[[2]string{row.Name, row.Version}] = sv
		}
		report.Repeats, err = repeatsIn(r, tenant)
		return err
	})
	if err != nil {
		return nil, err
	}
	stats, err := s.stats.RunStats(ctx, tenant, from, to)
	if errors.Is(err, eventstore.ErrUnavailable) {
		return nil, &flows.Error{Code: flows.CodeUnavailable, Message: "the event store does not answer now; retry later", Err: err}
	}
	if err != nil {
		return nil, err
	}
	for _, stat := range stats {
		key := [2]string{stat.Flow, stat.Version}
		f := s.flowSavings(stat, savings[key], estimates[key])
		report.Flows = append(report.Flows, f)
		report.Total.add(f)
	}
	report.Total.Estimate.Label = estimateLabel
	return report, nil
}

const estimateLabel = "estimate"

func (s *Service) flowSavings(stat eventstore.RunStat, sv analyzer.Savings, steps int64) FlowSavings {
	calls := float64(steps)
	f := FlowSavings{
		Flow: stat.Flow, Version: stat.Version, Runs: stat.Runs, Succeeded: stat.Succeeded, Failed: stat.Failed, HandedBack: stat.HandedBack, Denied: stat.Denied,
		RunTime:   stat.SumDuration,
		LLMCalls:  figure(stat.LLMCallsAvoided, sv.LLMCallsPerRun),
		Tokens:    figure(stat.TokensAvoided, sv.TokensPerRun),
		CostUSD:   figure(stat.CostAvoidedUSD, sv.CostUSDPerRun),
		LatencyMS: figure(float64(stat.LatencyAvoided)/float64(time.Millisecond), sv.LatencyMSPerRun),
		Basis:     sv.Basis,
		Estimate: Estimate{Label: estimateLabel, LLMCalls: steps, Tokens: calls * s.estimate.Tokens,
			CostUSD: calls * s.estimate.Tokens * s.estimate.CostPerTokenUSD, LatencyMS: calls * s.estimate.LatencyMS},
	}
	if f.Basis == "" {
		f.Basis = noEvidence
	}
	return f
}

// figure scales the interval of one run's mean to the recorded sum.
func figure(sum float64, perRun analyzer.Interval) Figure {
	f := Figure{Mean: sum, Low: sum, High: sum, Known: perRun.Known > 0}
	if perRun.Mean != 0 {
		f.Low, f.High = sum*perRun.Low/perRun.Mean, sum*perRun.High/perRun.Mean
	}
	return f
}

func (f *FlowSavings) add(o FlowSavings) {
	f.Runs += o.Runs
	f.Succeeded += o.Succeeded
	f.Failed += o.Failed
	f.HandedBack += o.HandedBack
	f.Denied += o.Denied
	f.RunTime += o.RunTime
	f.LLMCalls.add(o.LLMCalls)
	f.Tokens.add(o.Tokens)
	f.CostUSD.add(o.CostUSD)
	f.LatencyMS.add(o.LatencyMS)
	f.Estimate.LLMCalls += o.Estimate.LLMCalls
	f.Estimate.Tokens += o.Estimate.Tokens
	f.Estimate.CostUSD += o.Estimate.CostUSD
	f.Estimate.LatencyMS += o.Estimate.LatencyMS
}

func (f *Figure) add(o Figure) {
	f.Mean += o.Mean
	f.Low += o.Low
	f.High += o.High
	f.Known = f.Known || o.Known
}

func repeatsIn(r *store.Reader, tenant string) (*RepeatSavings, error) {
	row, err := r.LastMiningRun(tenant, string(MiningDone))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	run, err := miningRun(row)
	if err != nil || run.Result == nil {
		return nil, err
	}
	return &RepeatSavings{Calls: run.Result.RepeatCalls, Sessions: run.Result.Sessions, At: row.Ended}, nil
}
