package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pave/ingest"
	"pave/ingest/python"
	"pave/ingest/rawjson"
)

// langSmithRun is a run of a LangSmith export. Its session_id is the project and not read.
type langSmithRun struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	RunType   string          `json:"run_type"`
	Start     json.RawMessage `json:"start_time"`
	End       json.RawMessage `json:"end_time"`
	Inputs    json.RawMessage `json:"inputs"`
	Outputs   json.RawMessage `json:"outputs"`
	Error     json.RawMessage `json:"error"`
	Parent    string          `json:"parent_run_id"`
	Trace     string          `json:"trace_id"`
	Order     string          `json:"dotted_order"`
	Input     json.RawMessage `json:"prompt_tokens"`
	Output    json.RawMessage `json:"completion_tokens"`
	TotalCost json.RawMessage `json:"total_cost"`
	Extra     struct {
		Metadata json.RawMessage `json:"metadata"`
	} `json:"extra"`
}

// langSmith imports exported runs: a list, one a line, or {"runs": [...]}. Tool runs are calls, llm runs model calls;
// the session is that of the run's own metadata, else of its parents', else the trace.
func (s *sink) langSmith(in *input) error {
	return s.rows(in, "runs", func(raw []byte, line int) error {
		var r langSmithRun
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("%w: %w", errRun, err)
		}
		if r.ID == "" || r.RunType == "" {
			return fmt.Errorf("%w: a run has an id and a run_type", errRun)
		}
		return s.add(r.event(in.provenance(line)))
	})
}

func (r *langSmithRun) event(metadata json.RawMessage) ingest.Event {
	e := ingest.Event{Kind: ingest.KindSpan, TraceID: plainID(cmp.Or(r.Trace, r.ID)), SpanID: plainID(r.ID), ParentSpanID: plainID(r.Parent),
		Source: "file/langsmith", OriginKind: ingest.OriginAgent, Start: timeOf(r.Start), Metadata: metadata}
	e.Origin = "trace:" + e.TraceID
	for _, name := range []string{"thread_id", "session_id", "conversation_id"} {
		e.SessionID = cmp.Or(e.SessionID, bare(rawjson.Get(r.Extra.Metadata, name)))
	}
	if e.Start.IsZero() {
		e.Start = r.orderTime()
	}
	if end := timeOf(r.End); end.After(e.Start) && !e.Start.IsZero() {
		e.Duration = end.Sub(e.Start)
	}
	switch r.RunType {
	case "tool":
		e.Kind, e.Call = ingest.KindToolCall, r.call()
	case "llm":
		l := unknownUsage()
		l.Model = rawjson.Text(rawjson.Get(r.Extra.Metadata, "ls_model_name"))
		l.InputTokens, l.OutputTokens = count(r.Input), count(r.Output)
		if cost := strings.Trim(string(r.TotalCost), `"`); cost != "" && cost != "null" {
			l.HasCost = json.Unmarshal([]byte(cost), &l.CostUSD) == nil
		}
		e.Kind, e.LLM = ingest.KindLLMCall, &l
	}
	return e
}

func (r *langSmithRun) call() *ingest.ToolCall {
	c := &ingest.ToolCall{Tool: r.Name, Args: ingest.NormaliseArgs(unwrapInputs(r.Inputs)), Status: ingest.StatusUnknown}
	output := r.Outputs
	if inner := rawjson.Get(output, "output"); inner != nil {
		output = inner
	}
	if content := rawjson.Get(output, "content"); content != nil && rawjson.Get(output, "tool_call_id") != nil {
		c.CallID = rawjson.Text(rawjson.Get(output, "tool_call_id"))
		output = content
	}
	if output != nil && rawjson.Kind(output) != 'n' {
		c.Result, c.Status = resultContent(output), ingest.StatusOK
		if rawjson.Kind(output) == '{' {
			c.Result = output
		}
	}
	if rawjson.Kind(r.Error) == '"' && len(r.Error) > 2 || rawjson.Kind(r.Error) == '{' {
		c.Status, c.Error = ingest.StatusError, cmp.Or(rawjson.Text(r.Error), string(r.Error))
	}
	return c
}

// unwrapInputs takes {"input": text} for what the text holds, JSON or a dict as Python writes it.
func unwrapInputs(inputs []byte) []byte {
	input := rawjson.Text(rawjson.Get(inputs, "input"))
	if input == "" {
		return inputs
	}
	if raw, ok := rawjson.Contained(input, rawjson.Limits{}); ok {
		return raw
	}
	if trimmed := strings.TrimSpace(input); strings.HasPrefix(trimmed, "{") {
		if raw, err := python.JSON(trimmed); err == nil && rawjson.Kind(raw) == '{' {
			return raw
		}
	}
	return inputs
}

// orderTime reads the start out of the last part of dotted_order: 20261130T090000123456Z<run id>.
func (r *langSmithRun) orderTime() time.Time {
	last := r.Order[strings.LastIndexByte(r.Order, '.')+1:]
	const layout = "20060102T150405.000000"
	if len(last) < 22 || last[21] != 'Z' {
		return time.Time{}
	}
	t, err := time.Parse(layout, last[:15]+"."+last[15:21])
	if err != nil {
		return time.Time{}
	}
	return storable(t)
}

// plainID writes an id as telemetry does.
func plainID(id string) string { return strings.ToLower(strings.ReplaceAll(id, "-", "")) }

// rows calls fn with the elements of a list, the lines of a file, or the elements of the member of one object.
func (s *sink) rows(in *input, member string, fn func(raw []byte, line int) error) error {
	return s.documents(in, rawjson.Auto, func(raw []byte, _, line int) error {
		list := rawjson.Get(raw, member)
		if rawjson.Kind(list) != '[' {
			return fn(raw, line)
		}
		index := 0
		var stop error
		rawjson.Elements(list, func(row []byte) bool {
			if err := fn(row, line); err != nil && s.stopped == nil {
				s.reject(rejected(in, index, line, err))
			}
			stop = s.stopped
			index++
			return stop == nil
		})
		return stop
	})
}
