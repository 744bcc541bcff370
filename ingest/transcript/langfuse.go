package transcript

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"pave/ingest"
	"pave/ingest/rawjson"
)

// observation is an observation or, without a type, a trace of a Langfuse export.
type observation struct {
	ID        string          `json:"id"`
	TraceID   string          `json:"traceId"`
	SessionID string          `json:"sessionId"`
	Type      string          `json:"type"`
	Name      string          `json:"name"`
	Parent    string          `json:"parentObservationId"`
	Start     json.RawMessage `json:"startTime"`
	End       json.RawMessage `json:"endTime"`
	Input     json.RawMessage `json:"input"`
	Output    json.RawMessage `json:"output"`
	Level     string          `json:"level"`
	Status    string          `json:"statusMessage"`
	Model     string          `json:"model"`
	Usage     json.RawMessage `json:"usage"`
	Details   json.RawMessage `json:"usageDetails"`
	Cost      json.RawMessage `json:"calculatedTotalCost"`
	Nested    []observation   `json:"observations"`
	line      int
}

// langfuse imports exported traces and observations: {"traces", "observations"}, lists, or one a line. Observations of
// type TOOL are calls. Older data has no such type: there, in traces with model calls, spans without children are.
func (s *sink) langfuse(in *input) error {
	var all []observation
	var size int64
	var collect func(raw []byte, line int) error
	collect = func(raw []byte, line int) error {
		if size += int64(len(raw)); size > s.opts.Limits.Inflated {
			return errExportTooLarge
		}
		traces, observations := rawjson.Get(raw, "traces"), rawjson.Get(raw, "observations")
		if rawjson.Get(raw, "id") == nil && (traces != nil || observations != nil) {
			for _, list := range [][]byte{traces, observations} {
				rawjson.Elements(list, func(row []byte) bool {
					if err := collect(row, line); err != nil {
						s.reject(rejected(in, 0, line, err))
					}
					return true
				})
			}
			return nil
		}
		var o observation
		if err := json.Unmarshal(raw, &o); err != nil {
			return fmt.Errorf("%w: %w", errRun, err)
		}
		if o.ID == "" {
			return fmt.Errorf("%w: neither a trace nor an observation", errRun)
		}
		nested := o.Nested
		o.Nested, o.line = nil, line
		all = append(all, o)
		for i := range nested {
			nested[i].TraceID, nested[i].line = cmp.Or(nested[i].TraceID, o.ID), line
			all = append(all, nested[i])
		}
		return nil
	}
	err := s.documents(in, rawjson.Auto, func(raw []byte, _, line int) error { return collect(raw, line) })
	if err != nil {
		return err
	}
	tools := toolSpans(all)
	for i := range all {
		if e, ok := all[i].event(in, tools); ok {
			if err := s.add(e); err != nil {
				return err
			}
		}
	}
	return nil
}

var errExportTooLarge = errors.New("the export is larger than the limit; split it")

// toolSpans finds the spans that stand for tools in traces without observations of type TOOL: those without children, in
// traces with a generation.
func toolSpans(all []observation) map[string]bool {
	tools, generations, parents := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for i := range all {
		switch all[i].Type {
		case "TOOL":
			tools[all[i].TraceID] = true
		case "GENERATION":
			generations[all[i].TraceID] = true
		}
		parents[all[i].Parent] = true
	}
	spans := make(map[string]bool)
	for i := range all {
		o := &all[i]
		if o.Type == "SPAN" && generations[o.TraceID] && !tools[o.TraceID] && !parents[o.ID] && o.Input != nil {
			spans[o.ID] = true
		}
	}
	return spans
}

func (o *observation) event(in *input, tools map[string]bool) (ingest.Event, bool) {
	e := ingest.Event{Kind: ingest.KindSpan, TraceID: plainID(o.TraceID), SpanID: plainID(o.ID), ParentSpanID: plainID(o.Parent),
		Source: "file/langfuse", OriginKind: ingest.OriginAgent, Start: timeOf(o.Start), Metadata: in.provenance(o.line)}
	if end := timeOf(o.End); end.After(e.Start) && !e.Start.IsZero() {
		e.Duration = end.Sub(e.Start)
	}
	switch {
	case o.Type == "" && o.TraceID == "": // a trace
		e.TraceID, e.SpanID, e.SessionID = plainID(o.ID), "", o.SessionID
		e.Identity = ingest.DeriveIdentity("file", "trace", e.TraceID)
		e.Origin = "trace:" + e.TraceID
		return e, o.SessionID != ""
	case o.Type == "TOOL", tools[o.ID]:
		e.Kind, e.Call = ingest.KindToolCall, o.call()
	case o.Type == "GENERATION":
		e.Kind, e.LLM = ingest.KindLLMCall, o.generation()
	case o.Type == "AGENT":
		e.Agent, e.RunID = o.Name, e.SpanID
	}
	e.Origin = "trace:" + e.TraceID
	return e, e.TraceID != ""
}

func (o *observation) call() *ingest.ToolCall {
	c := &ingest.ToolCall{Tool: o.Name, Args: ingest.NormaliseArgs(o.Input), Status: ingest.StatusOK}
	if rawjson.Kind(o.Output) != 'n' {
		c.Result = ingest.NormaliseResult(o.Output)
	}
	if o.Level == "ERROR" {
		c.Status, c.Error = ingest.StatusError, o.Status
	}
	return c
}

func (o *observation) generation() *ingest.LLMCall {
	l := unknownUsage()
	l.Model = o.Model
	for _, usage := range []json.RawMessage{o.Usage, o.Details} {
		for name, to := range map[string]*int64{"input": &l.InputTokens, "output": &l.OutputTokens, "input_cached_tokens": &l.CachedTokens} {
			if n := count(rawjson.Get(usage, name)); n >= 0 {
				*to = n
			}
		}
	}
	if rawjson.Kind(o.Cost) == '0' {
		l.HasCost = json.Unmarshal(o.Cost, &l.CostUSD) == nil
	}
	return &l
}
