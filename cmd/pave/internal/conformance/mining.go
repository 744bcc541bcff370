package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"pave/analyzer/baseline"
	"pave/flows"
)

// tracesSpec are the traces of a vector: calls in order.
type tracesSpec [][]struct {
	Tool    string
	Inputs  map[string]any
	Outputs map[string]any
}

func (spec tracesSpec) traces() []baseline.Trace {
	out := make([]baseline.Trace, len(spec))
	for i, calls := range spec {
		out[i].ID = fmt.Sprintf("trace-%d", i)
		for _, c := range calls {
			out[i].Steps = append(out[i].Steps, baseline.Step{Tool: c.Tool,
				Inputs: slices.Sorted(maps.Keys(c.Inputs)), Outputs: slices.Sorted(maps.Keys(c.Outputs))})
		}
	}
	return out
}

// observerParams are the arguments of the observer; absent ones take their default.
type observerParams struct {
	MaxTraces        *int  `json:"max_traces"`
	MinOccurrences   *int  `json:"min_occurrences"`
	MinLength        *int  `json:"min_length"`
	MaxLength        *int  `json:"max_length"`
	CollapseSubsumed *bool `json:"collapse_subsumed"`
}

func (p observerParams) options() baseline.ObserverOptions {
	opts := baseline.DefaultObserverOptions()
	set(&opts.MinOccurrences, p.MinOccurrences)
	set(&opts.MinLength, p.MinLength)
	opts.MaxLength = p.MaxLength
	if p.CollapseSubsumed != nil {
		opts.KeepSubsumed = !*p.CollapseSubsumed
	}
	return opts
}

func set[T any](into, given *T) {
	if given != nil {
		*into = *given
	}
}

func checkObserver(v *vector) Outcome {
	var spec struct {
		Traces tracesSpec
		Params observerParams
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	observe := func() (any, error) {
		o, err := baseline.NewObserver(spec.Params.MaxTraces)
		if err != nil {
			return nil, err
		}
		o.Add(spec.Traces.traces()...)
		found, err := o.SuggestFlows(spec.Params.options())
		if err != nil {
			return nil, err
		}
		suggestions := make([]any, len(found))
		for i := range found {
			suggestions[i] = suggestionForm(&found[i])
		}
		return map[string]any{"retained": o.Len(), "suggestions": suggestions}, nil
	}
	return v.compare(outcomeOf(observe()))
}

func suggestionForm(s *baseline.Suggestion) map[string]any {
	form := flowForm(s.Flow)
	maps.Copy(form, map[string]any{"tools": s.Tools, "occurrences": s.Occurrences, "traces_with_pattern": s.TracesWithPattern, "confidence": s.Confidence,
		"estimated_llm_calls_avoided": s.EstimatedLLMCallsAvoided(), "example_trace_id": s.Example.ID,
		"replaces_tools": s.Flow.Governance.ReplacesTools, "estimated_model_calls_removed": s.Flow.Governance.EstimatedModelCallsRemoved})
	return form
}

func flowForm(f *flows.Flow) map[string]any {
	return map[string]any{"name": f.Name, "version": f.Version, "description": f.Description, "lifecycle": lifecycleOf(f), "status": f.Status, "steps": stepsForm(f)}
}

func checkAnalyzer(v *vector) Outcome {
	if v.Kind == "suggest_optimizations" {
		return checkOptimizations(v)
	}
	if v.Kind != "" {
		return failed("unknown kind %q", v.Kind)
	}
	var spec struct {
		Tools  []toolSpec
		Params struct {
			MaxDepth   *int `json:"max_depth"`
			MinDepth   *int `json:"min_depth"`
			Start, End *string
			Mappings   synonyms
		}
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	opts := baseline.DefaultChainOptions()
	set(&opts.MaxDepth, spec.Params.MaxDepth)
	set(&opts.MinDepth, spec.Params.MinDepth)
	opts.Start, opts.End = spec.Params.Start, spec.Params.End
	analyze := func() (any, error) {
		a, err := baseline.NewAnalyzer(toolsOf(spec.Tools))
		if err != nil {
			return nil, err
		}
		chains, err := a.FindChains(opts)
		if err != nil {
			return nil, err
		}
		suggested, err := a.SuggestFlows(opts)
		if err != nil {
			return nil, err
		}
		flowForms := make([]any, len(suggested))
		for i, f := range suggested {
			flowForms[i] = flowForm(f)
		}
		adapted := []any{}
		for _, m := range a.SuggestSchemaMappings(spec.Params.Mappings) {
			adapted = append(adapted, map[string]any{"producer": m.Producer, "consumer": m.Consumer, "field_mappings": mappingForm(m.FieldMappings), "warnings": m.Warnings})
		}
		return map[string]any{"matrix": a.CompatibilityMatrix(), "chains": append([][]string{}, chains...), "suggested_flows": flowForms, "schema_mappings": adapted}, nil
	}
	return v.compare(outcomeOf(analyze()))
}

// synonyms are field names that mean the same, by the consumer's name; as they are or as the argument of that name.
type synonyms map[string][]string

// UnmarshalJSON implements json.Unmarshaler.
func (s *synonyms) UnmarshalJSON(data []byte) error {
	var named struct{ Synonyms map[string][]string }
	if json.Unmarshal(data, &named) == nil && named.Synonyms != nil {
		*s = named.Synonyms
		return nil
	}
	return json.Unmarshal(data, (*map[string][]string)(s))
}

func checkOptimizations(v *vector) Outcome {
	var spec struct {
		Tools  []toolSpec
		Flow   json.RawMessage
		Traces []struct {
			Steps []baseline.RecordedStep
		}
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	flow, _, err := flows.ParseFlow(spec.Flow)
	if err != nil {
		return failed("flow: %v", err)
	}
	runs := make([][]baseline.RecordedStep, len(spec.Traces))
	for i := range spec.Traces {
		runs[i] = spec.Traces[i].Steps
	}
	found, err := baseline.SuggestOptimizations(flow, toolsOf(spec.Tools), runs)
	if err != nil {
		return failed("%v", err)
	}
	suggestions := make([]any, len(found))
	for i, f := range found {
		var tool any
		if f.ToolName != "" { // else the step runs a flow
			tool = f.ToolName
		}
		suggestions[i] = map[string]any{"code": f.Code, "title": f.Title, "step_index": f.StepIndex, "tool_name": tool, "message": f.Message}
	}
	return v.compare(map[string]any{"suggestions": suggestions})
}

func checkTraceScoring(v *vector) Outcome {
	var spec struct {
		JSONL  string
		Params observerParams
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	switch v.Kind {
	case "parse":
		return v.compare(outcomeOf(eventForms(spec.JSONL)))
	case "":
		return v.compare(outcomeOf(scoreForms(spec.JSONL, spec.Params)))
	}
	return failed("unknown kind %q", v.Kind)
}

func eventForms(text string) (any, error) {
	events, err := baseline.ParseAgentTrace(text)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(events))
	for i, e := range events {
		out[i] = map[string]any{"session_id": e.SessionID, "turn_id": orNull(e.TurnID), "event": e.Event, "tool": orNull(e.Tool), "args": orEmpty(e.Args),
			"result_status": orNull(e.ResultStatus), "output_keys": append([]string{}, e.OutputKeys...), "input_tokens": e.InputTokens, "output_tokens": e.OutputTokens,
			"latency_ms": e.LatencyMS, "tool_source": orNull(e.ToolSource), "timestamp": orNull(e.Timestamp), "metadata": e.Metadata}
	}
	return out, nil
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// scoreForms mines, scores, drafts and backtests every repeated sequence of a log.
func scoreForms(text string, params observerParams) (any, error) {
	events, err := baseline.ParseAgentTrace(text)
	if err != nil {
		return nil, err
	}
	o, err := baseline.NewObserver(params.MaxTraces)
	if err != nil {
		return nil, err
	}
	o.Add(baseline.Traces(events)...)
	found, err := o.SuggestFlows(params.options())
	if err != nil {
		return nil, err
	}
	out := make([]any, len(found))
	for i := range found {
		score, err := baseline.ScoreCandidate(events, found[i].Tools)
		if err != nil {
			return nil, err
		}
		draft := baseline.DraftFlow(events, score)
		out[i] = map[string]any{"tools": found[i].Tools, "score": scoreForm(&score), "backtest": backtestForm(baseline.Backtest(draft.Flow, events)),
			"draft": map[string]any{"name": draft.Flow.Name, "description": draft.Flow.Description, "lifecycle": lifecycleOf(draft.Flow),
				"steps": stepsForm(draft.Flow), "warnings": append([]string{}, draft.Warnings...)}}
	}
	return out, nil
}

func scoreForm(s *baseline.Score) map[string]any {
	return map[string]any{"sequence": s.Sequence, "support": s.Support, "sessions": s.Sessions, "success_rate": s.SuccessRate,
		"model_calls_removed_per_run": s.ModelCallsRemoved, "estimated_input_tokens_saved": s.InputTokensSaved, "estimated_output_tokens_saved": s.OutputTokensSaved,
		"schema_stability": s.SchemaStability, "determinism": s.Determinism, "safety_level": s.SafetyLevel, "recommendation": s.Recommendation,
		"score": s.Score, "warnings": append([]string{}, s.Warnings...)}
}

func backtestForm(r baseline.BacktestReport) map[string]any {
	mismatches := make([]any, len(r.Mismatches))
	for i, m := range r.Mismatches {
		mismatches[i] = map[string]any{"session_id": m.SessionID, "step_index": m.StepIndex, "tool_name": m.ToolName, "reason": m.Reason}
	}
	return map[string]any{"flow_name": r.FlowName, "examples_tested": r.ExamplesTested, "passed_input_shape": r.PassedInputShape,
		"produced_expected_output": r.ProducedExpectedOutput, "mismatches": mismatches}
}
