package conformance

import (
	"fmt"
	"strconv"
	"strings"

	"pave/analyzer/baseline"
)

// serviceConfig is the configuration of a vector. Its services analyse when an action says so, unless the vector
// wants more.
type serviceConfig struct {
	AnalyzeOnToolChange      bool     `json:"analyze_on_tool_change"`
	MinTraceOccurrences      *int     `json:"min_trace_occurrences"`
	MinPatternLength         *int     `json:"min_pattern_length"`
	MinDeterminismScore      *float64 `json:"min_determinism_score"`
	AutoApproveDeterministic bool     `json:"auto_approve_deterministic"`
	MaxPendingProposals      *int     `json:"max_pending_proposals"`
}

func (c serviceConfig) config() baseline.ServiceConfig {
	out := baseline.DefaultServiceConfig()
	out.AnalyzeOnToolChange, out.AutoApproveDeterministic = c.AnalyzeOnToolChange, c.AutoApproveDeterministic
	set(&out.MinTraceOccurrences, c.MinTraceOccurrences)
	set(&out.MinPatternLength, c.MinPatternLength)
	set(&out.MinDeterminismScore, c.MinDeterminismScore)
	set(&out.MaxPendingProposals, c.MaxPendingProposals)
	return out
}

func checkService(v *vector) Outcome {
	var spec struct {
		Traces  tracesSpec
		Tools   []toolSpec
		Config  serviceConfig
		Actions []string
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	observer, err := baseline.NewObserver(nil)
	if err != nil {
		return failed("%v", err)
	}
	observer.Add(spec.Traces.traces()...)
	events := []any{}
	s := baseline.NewService(spec.Config.config(), observer, func(e baseline.Event) { events = append(events, eventForm(e)) })
	for _, t := range toolsOf(spec.Tools) {
		if err := s.RegisterTool(t); err != nil {
			return failed("tool %s: %v", t.Name, err)
		}
	}
	log := make([]any, len(spec.Actions))
	for i, action := range spec.Actions {
		if log[i], err = act(s, action); err != nil {
			return failed("action %q: %v", action, err)
		}
	}
	registered, proposals := []any{}, []any{}
	for _, f := range s.Registered() {
		registered = append(registered, []any{f.Name, f.Version, f.Status, lifecycleOf(f)})
	}
	for _, p := range s.Proposals() {
		proposals = append(proposals, []any{p.Flow.Name, p.Status})
	}
	m := s.Metrics()
	return v.compare(map[string]any{"log": log, "events": events, "registered": registered, "proposals": proposals,
		"metrics": map[string]any{"tools_monitored": m.ToolsMonitored, "traces_recorded": m.TracesRecorded, "patterns_detected": m.PatternsDetected,
			"flows_proposed": m.FlowsProposed, "flows_promoted": m.FlowsPromoted, "total_llm_calls_avoided": m.TotalLLMCallsAvoided}})
}

// act does one action and returns its entry of the log: the new proposals, what became of one, or the name of an
// error.
func act(s *baseline.Service, action string) (any, error) {
	verb, argument, _ := strings.Cut(action, ":")
	if verb == "analyze" {
		created, err := s.Analyze()
		rows := make([]any, len(created))
		for i, p := range created {
			rows[i] = []any{p.Flow.Name, p.Source, p.Confidence, p.Occurrences, p.EstimatedLLMCallsAvoided, p.Status}
		}
		return rows, err
	}
	id := "none"
	if i, err := strconv.Atoi(argument); err == nil && i >= 0 && i < len(s.Proposals()) {
		id = s.Proposals()[i].ID
	}
	var err error
	done := ""
	switch verb {
	case "approve":
		done, err = baseline.ProposalApproved, s.Approve(id)
	case "reject":
		done, err = baseline.ProposalRejected, s.Reject(id)
	default:
		return nil, fmt.Errorf("unknown action %q", verb)
	}
	if err == nil {
		return done, nil
	}
	if form := errorForm(err); form != nil {
		return form["error"], nil
	}
	return nil, err
}

// eventForm is [kind, its detail].
func eventForm(e baseline.Event) []any {
	var detail any
	switch e.Kind {
	case baseline.EventToolRegistered:
		detail = e.ToolName
	case baseline.EventTraceRecorded:
		detail = e.TracesTotal
	case baseline.EventAnalysisCompleted:
		detail = e.ProposalCount
	case baseline.EventProposalCreated:
		detail = e.Source
	case baseline.EventFlowPromoted:
		detail = e.Flow
	}
	return []any{e.Kind, detail}
}
