// Package assembly turns stored events into sessions and keeps the rows that mining and lists read up to date.
package assembly

import (
	"slices"
	"time"

	"pave/ingest"
	"pave/ingest/store"
)

// Row derives the stored row of a session: its summary and one sequence per agent run that made calls.
func Row(s *ingest.Session, watermark int64) store.SessionRow {
	row := store.SessionRow{ID: s.ID, Watermark: watermark}
	sum := &row.Summary
	sum.ID, sum.Conflicts = s.ID, s.Conflicts
	for i := range s.Runs {
		run := &s.Runs[i]
		if run.Agent != "" {
			sum.Agents = append(sum.Agents, run.Agent)
		}
		sum.UserTurns += len(run.Users)
		for j := range run.LLM {
			addLLM(sum, &run.LLM[j])
		}
		if len(run.Calls) > 0 {
			row.Sequences = append(row.Sequences, sequence(i, run, sum))
		}
	}
	slices.Sort(sum.Agents)
	sum.Agents = slices.Compact(sum.Agents)
	slices.Sort(sum.Sources)
	sum.Sources = slices.Compact(sum.Sources)
	return row
}

// sequence compacts a run's calls and counts them in the summary.
func sequence(index int, run *ingest.AgentRun, sum *ingest.SessionSummary) store.NamedSequence {
	n := len(run.Calls)
	seq := store.NamedSequence{RunIndex: index, Agent: run.Agent, Start: run.Calls[0].Start,
		Tools: make([]string, n), Turns: make([]int32, n), Flags: make([]ingest.CallFlag, n)}
	for i := range run.Calls {
		c := &run.Calls[i]
		seq.Tools[i], seq.Turns[i], seq.Flags[i] = c.Tool, c.Turn, c.Flags
		sum.ToolCalls++
		if c.Flags&ingest.FlagError != 0 {
			sum.Errors++
		}
		if c.Flags&ingest.FlagRepeat != 0 {
			sum.Repeats++
		}
		if !slices.Contains(sum.Sources, c.Source) {
			sum.Sources = append(sum.Sources, c.Source)
		}
		span(sum, c.Start, c.Duration)
	}
	return seq
}

func addLLM(sum *ingest.SessionSummary, step *ingest.LLMStep) {
	n := int64(step.Count)
	u := &sum.LLM
	u.Calls += n
	if step.InputTokens >= 0 || step.OutputTokens >= 0 {
		u.CallsWithTokens += n
		u.InputTokens += max(0, step.InputTokens)
		u.OutputTokens += max(0, step.OutputTokens)
		u.CachedTokens += max(0, step.CachedTokens)
	}
	if step.HasCost {
		u.CallsWithCost += n
		u.CostUSD += step.CostUSD
	}
	if step.Duration > 0 {
		u.CallsWithDuration += n
		u.Duration += step.Duration
	}
	span(sum, step.Start, step.Duration)
}

// span widens the summary's time by what happened from start on.
func span(sum *ingest.SessionSummary, start time.Time, duration time.Duration) {
	if start.IsZero() {
		return
	}
	if sum.Start.IsZero() || start.Before(sum.Start) {
		sum.Start = start
	}
	if end := start.Add(duration); end.After(sum.End) {
		sum.End = end
	}
}
