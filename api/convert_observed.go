package api

import (
	"math"
	"time"

	"pave/analyzer"
	"pave/api/gen"
	"pave/flows/value"
	"pave/governance"
	"pave/ingest"
	"pave/observer"
)

// utc is how times are answered: UTC with milliseconds; the zero time stays zero and is left out.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

// list maps a slice; nil becomes an empty list, so that a required list is never null.
func list[T, U any](in []T, convert func(T) U) []U {
	out := make([]U, len(in))
	for i, v := range in {
		out[i] = convert(v)
	}
	return out
}

// finite keeps a statistic that JSON can hold.
func finite(f float64) float64 {
	switch {
	case math.IsNaN(f):
		return 0
	case math.IsInf(f, 0):
		return math.Copysign(math.MaxFloat64, f)
	}
	return f
}

func present[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}

func sessionSummary(s ingest.SessionSummary) gen.SessionSummary {
	return gen.SessionSummary{
		ID: s.ID, Agents: present(s.Agents), Start: utc(s.Start), End: utc(s.End), ToolCalls: s.ToolCalls,
		Errors: s.Errors, Repeats: s.Repeats, UserTurns: s.UserTurns, Conflicts: s.Conflicts, Sources: s.Sources,
		Llm: gen.LlmUsage{
			Calls: s.LLM.Calls, InputTokens: s.LLM.InputTokens, OutputTokens: s.LLM.OutputTokens,
			CachedTokens: s.LLM.CachedTokens, CallsWithTokens: s.LLM.CallsWithTokens, CostUsd: s.LLM.CostUSD,
			CallsWithCost: s.LLM.CallsWithCost, DurationMs: s.LLM.Duration.Milliseconds(),
			CallsWithDuration: s.LLM.CallsWithDuration,
		},
	}
}

func session(s *ingest.Session) gen.Session {
	return gen.Session{ID: s.ID, Ended: s.Ended, AtLimit: s.AtLimit, Conflicts: s.Conflicts, Runs: list(s.Runs, agentRun)}
}

func agentRun(r ingest.AgentRun) gen.AgentRun {
	return gen.AgentRun{
		ID: r.ID, Agent: r.Agent, ParentCall: r.ParentCall, Calls: list(r.Calls, sessionCall),
		LlmCalls: list(r.LLM, llmStep),
		UserMessages: list(r.Users, func(u ingest.UserTurn) gen.UserTurn {
			return gen.UserTurn{Before: u.Before, Text: u.Text}
		}),
	}
}

var flagNames = []struct {
	flag ingest.CallFlag
	name gen.SessionCallFlags
}{
	{ingest.FlagBreak, gen.SessionCallFlagsBreak},
	{ingest.FlagError, gen.SessionCallFlagsError},
	{ingest.FlagRepeat, gen.SessionCallFlagsRepeat},
	{ingest.FlagParallel, gen.SessionCallFlagsParallel},
	{ingest.FlagNotAgent, gen.SessionCallFlagsNotAgent},
	{ingest.FlagRequested, gen.SessionCallFlagsRequested},
}

func sessionCall(c ingest.Call) gen.SessionCall {
	out := gen.SessionCall{
		Seq: c.Seq, Turn: int(c.Turn), Tool: c.Tool, CallID: c.CallID, Args: c.Args, Result: c.Result,
		Status: gen.SessionCallStatus(c.Status), Error: c.Error, Truncated: c.Truncated, Start: utc(c.Start),
		DurationMs: c.Duration.Milliseconds(), Source: c.Source, OriginKind: gen.SessionCallOriginKind(c.Origin),
		TraceID: c.TraceID, SpanID: c.SpanID, Metadata: c.Metadata,
	}
	if out.Status == "" {
		out.Status = gen.SessionCallStatus(ingest.StatusUnknown)
	}
	for _, f := range flagNames {
		if c.Flags&f.flag != 0 {
			out.Flags = append(out.Flags, f.name)
		}
	}
	return out
}

func llmStep(l ingest.LLMStep) gen.LlmStep {
	out := gen.LlmStep{Turn: int(l.Turn), Model: l.Model, Count: int(l.Count), Start: utc(l.Start), DurationMs: l.Duration.Milliseconds(),
		InputTokens: known(l.InputTokens), OutputTokens: known(l.OutputTokens), CachedTokens: known(l.CachedTokens)}
	if l.HasCost {
		out.CostUsd = &l.CostUSD
	}
	return out
}

// known drops the -1 that stands for an unknown count.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// Pattern is the wire form of a mined pattern.
func Pattern(p observer.Pattern) gen.Pattern {
	return gen.Pattern{
		ID: governance.PatternID(p.Tools), Tools: present(p.Tools), Occurrences: p.Occurrences, Sessions: p.Sessions, Agents: p.Agents,
		StepConfidence: p.StepConfidence, Expected: p.Expected, Excess: p.Excess, Z: finite(p.Z), Score: finite(p.Score),
		Success: p.Success, SuccessLower: p.SuccessLower, TurnsSaved: p.TurnsSaved, CutFrom: p.CutFrom,
		Partial: p.Partial, Secondary: p.Secondary, Why: p.Why, Stability: stability(p.Stability), Gap: gap(p.Gap), Batch: batch(p.Batch),
		DataFlow: dataFlow(p.DataFlow), Examples: list(p.Examples, occurrence),
	}
}

func batch(b *observer.Batch) *gen.PatternBatch {
	if b == nil {
		return nil
	}
	return &gen.PatternBatch{Examined: b.Examined, Several: b.Several, Whole: b.Whole, Supporting: present(b.Supporting), Contradicting: present(b.Contradicting)}
}

func gap(g *observer.Gap) *gen.PatternGap {
	if g == nil {
		return nil
	}
	return &gen.PatternGap{Occurrences: g.Occurrences, Longest: g.Longest, Tools: list(g.Tools, patternNeighbour)}
}

func patternNeighbour(n observer.Neighbour) gen.PatternNeighbour {
	return gen.PatternNeighbour{Tool: n.Tool, Windows: n.Windows}
}

func stability(s *observer.Stability) *gen.Stability {
	if s == nil {
		return nil
	}
	out := &gen.Stability{Present: s.Present, Rising: s.Rising, Steady: s.Steady(), Variation: s.Variation, Drift: s.Drift, Drifts: s.Drifts()}
	for _, w := range s.Weeks {
		out.Weeks = append(out.Weeks, struct {
			Occurrences int       `json:"occurrences"`
			Start       time.Time `json:"start"`
		}{Occurrences: w.Occurrences, Start: utc(w.Start)})
	}
	return out
}

func occurrence(o observer.Occurrence) gen.Occurrence {
	return gen.Occurrence{SessionID: o.SessionID, RunIndex: o.RunIndex, Calls: present(o.Calls)}
}

func dataFlow(d *observer.DataFlow) *gen.DataFlow {
	if d == nil {
		return nil
	}
	return &gen.DataFlow{
		Sampled: d.Sampled, Explained: d.Explained, Applicable: d.Applicable, HeldOut: heldOut(d.HeldOut),
		Steps: list(d.Steps, func(s observer.StepFlow) []gen.ArgFlow {
			return list(s.Args, func(a observer.ArgFlow) gen.ArgFlow { return argFlow(a, s.Each) })
		}),
		Inputs: list(d.Inputs, func(in observer.Input) gen.FlowInput {
			return gen.FlowInput{Name: in.Name, Step: in.Step, Arg: in.Arg, Origin: in.Origin, Required: in.Required,
				Examples: list(in.Examples, func(v any) gen.JSON { return value.Encode(v) })}
		}),
		Guards: guards(d),
	}
}

// guards are those of the optional steps.
func guards(d *observer.DataFlow) (out []gen.StepGuard) {
	for k := range d.Steps {
		g := d.Steps[k].When
		if g == nil {
			continue
		}
		to := gen.StepGuard{Step: k, Pointer: g.Pointer, Test: gen.StepGuardTest(g.Test), Not: g.Not, Taken: g.Taken, Evidence: argEvidence(g.Evidence)}
		if g.Test != observer.GuardFilled {
			to.Value = value.Encode(g.Value)
		}
		out = append(out, to)
	}
	return out
}

// heldOut is nil where it was not measured.
func heldOut(h observer.HeldOut) *gen.HeldOut {
	if h.Windows == 0 {
		return nil
	}
	return &gen.HeldOut{Windows: h.Windows, Exact: h.Exact, Predictions: h.Predictions, Right: h.Right}
}

// argFlow is the wire form of an argument's source; each is the list that its step runs over, nil for none.
func argFlow(a observer.ArgFlow, each *observer.EachFlow) gen.ArgFlow {
	out := gen.ArgFlow{
		Arg: a.Arg, Kind: gen.ArgFlowKind(a.Kind), Presence: a.Presence, Input: a.Input, Pointer: a.Pointer, Step: -1,
		Evidence: argEvidence(a.Evidence),
	}
	switch a.Kind {
	case observer.SourceConst:
		out.Value = value.Encode(a.Value)
	case observer.SourceOutput, observer.SourceArg, observer.SourceDerived:
		out.Step = a.Step
	case observer.SourceElement:
		if each == nil {
			break
		}
		out.Input, out.Pointer = each.Input, each.Pointer+"/*"+a.Pointer
		if each.Kind == observer.SourceOutput {
			out.Step = each.Step
		}
	}
	return out
}

func argEvidence(e observer.Evidence) gen.ArgEvidence {
	return gen.ArgEvidence{Present: e.Present, Held: e.Held, Distinct: e.Distinct, Chance: e.Chance, Ambiguous: e.Ambiguous,
		Supporting: e.Supporting, Contradicting: e.Contradicting, Note: e.Note}
}

// Blocked is the wire form of a blocked path.
func Blocked(b observer.Blocked) gen.Blocked {
	return gen.Blocked{Tools: present(b.Tools), Occurrences: b.Occurrences, Sessions: b.Sessions, Reason: b.Reason,
		Step: b.Step, Arg: b.Arg, Detail: b.Detail, Unblock: b.Unblock}
}

func interval(i analyzer.Interval) gen.Interval {
	return gen.Interval{Mean: i.Mean, Low: i.Low, High: i.High, Known: i.Known}
}

// Savings is the wire form of expected savings.
func Savings(s analyzer.Savings) gen.Savings {
	out := gen.Savings{
		Occurrences: s.Occurrences, LlmCallsPerRun: interval(s.LLMCallsPerRun), TokensPerRun: interval(s.TokensPerRun),
		CostUsdPerRun: interval(s.CostUSDPerRun), LatencyMsPerRun: interval(s.LatencyMSPerRun), PerWeek: s.PerWeek, PerCall: s.PerCall, Basis: s.Basis,
	}
	if s.CallsPerRun.Known > 0 {
		calls := interval(s.CallsPerRun)
		out.CallsPerRun = &calls
	}
	return out
}

// Evidence is the wire form of what stands behind a candidate.
func Evidence(e analyzer.Evidence) gen.Evidence {
	out := gen.Evidence{From: utc(e.Window.From), To: utc(e.Window.To), Sessions: e.Window.Sessions, Calls: e.Window.Calls,
		SchemaEdges: list(e.SchemaEdges, schemaEdge)}
	if e.Pattern != nil {
		p := Pattern(*e.Pattern)
		out.Pattern = &p
	}
	return out
}

func schemaEdge(x analyzer.SchemaEdge) gen.SchemaEdge {
	return gen.SchemaEdge{Producer: x.Producer, OutputField: x.OutputField, Consumer: x.Consumer, InputField: x.InputField, Rule: x.Rule}
}
