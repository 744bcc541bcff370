package replay

import (
	"time"

	"pave/ingest"
)

// Usage sums what model calls used, each figure over those of which it was recorded. Usages add up.
type Usage struct {
	Calls                                int
	Tokens, CostUSD, Seconds             float64
	TokenCalls, CostCalls, DurationCalls int // model calls with the figure
}

// Add adds another usage.
func (u *Usage) Add(v *Usage) {
	u.Calls += v.Calls
	u.Tokens += v.Tokens
	u.CostUSD += v.CostUSD
	u.Seconds += v.Seconds
	u.TokenCalls += v.TokenCalls
	u.CostCalls += v.CostCalls
	u.DurationCalls += v.DurationCalls
}

// usageOf is what one record of model calls used.
func usageOf(step *ingest.LLMStep) Usage {
	n := max(1, int(step.Count))
	u := Usage{Calls: n}
	if step.InputTokens >= 0 && step.OutputTokens >= 0 {
		u.Tokens, u.TokenCalls = float64(step.InputTokens+step.OutputTokens), n
	}
	if step.HasCost {
		u.CostUSD, u.CostCalls = step.CostUSD, n
	}
	if step.Duration > 0 {
		u.Seconds, u.DurationCalls = step.Duration.Seconds(), n
	}
	return u
}

// mean is one call of a sum, with the figures that the sum has.
func (u *Usage) mean() Usage {
	out := Usage{Calls: 1}
	share := func(figure float64, calls int) (float64, int) {
		if calls == 0 {
			return 0, 0
		}
		return figure / float64(calls), 1
	}
	out.Tokens, out.TokenCalls = share(u.Tokens, u.TokenCalls)
	out.CostUSD, out.CostCalls = share(u.CostUSD, u.CostCalls)
	out.Seconds, out.DurationCalls = share(u.Seconds, u.DurationCalls)
	return out
}

// meter finds the usage of the turns of a session. Where a turn's own was not recorded it is the mean of the totals of
// the run.
type meter struct {
	turns  map[int32]*Usage
	totals Usage // of records that stand for the whole run
}

func newMeter(run *ingest.AgentRun) *meter {
	m := &meter{turns: map[int32]*Usage{}}
	for i := range run.LLM {
		step, u := &run.LLM[i], usageOf(&run.LLM[i])
		if step.Turn < 0 {
			m.totals.Add(&u)
			continue
		}
		if m.turns[step.Turn] == nil {
			m.turns[step.Turn] = &Usage{}
		}
		m.turns[step.Turn].Add(&u)
	}
	return m
}

func (m *meter) turn(turn int32) Usage {
	mean := m.totals.mean()
	own := m.turns[turn]
	if own == nil {
		return mean
	}
	u := *own
	if u.TokenCalls == 0 {
		u.Tokens, u.TokenCalls = mean.Tokens, mean.TokenCalls
	}
	if u.CostCalls == 0 {
		u.CostUSD, u.CostCalls = mean.CostUSD, mean.CostCalls
	}
	if u.DurationCalls == 0 {
		u.Seconds, u.DurationCalls = mean.Seconds, mean.DurationCalls
	}
	return u
}

// Lasted says how long the whole session was, for sessions whose model calls have no durations: each has an equal share then.
// It is not safe for concurrent use with scoring.
func (s *Session) Lasted(d time.Duration) {
	if s.Recorded.DurationCalls > 0 || d <= 0 || s.RecordedLLMCalls == 0 {
		return
	}
	s.Recorded.Seconds, s.Recorded.DurationCalls = d.Seconds(), s.RecordedLLMCalls
	for wave := range s.used {
		s.used[wave].Seconds, s.used[wave].DurationCalls = d.Seconds()/float64(s.RecordedLLMCalls), 1
	}
}

// spared is the usage of the turns that an application of calls saves: all but the first, which decides to call the flow.
func (s *Session) spared(calls []call) (u Usage) {
	for i := 1; i < len(calls); i++ {
		if calls[i].wave != calls[i-1].wave {
			u.Add(&s.used[calls[i].wave])
		}
	}
	return u
}
