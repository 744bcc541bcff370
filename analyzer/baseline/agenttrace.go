package baseline

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"pave/flows"
	"pave/flows/value"
)

// Kinds of agent events.
const (
	EventToolCall  = "tool_call"
	EventModelCall = "model_call"
)

// defaultSession holds the events that name no session.
const defaultSession = "__default__"

// AgentEvent is one line of an agent's log. Empty strings and nil pointers were not recorded; of results only the names of their
// fields are kept.
type AgentEvent struct {
	SessionID    string
	TurnID       string
	Event        string // EventToolCall or EventModelCall
	Tool         string
	Args         map[string]any
	ArgNames     []string // of Args, in the order of the line
	ResultStatus string
	OutputKeys   []string
	InputTokens  *int64
	OutputTokens *int64
	LatencyMS    *float64
	ToolSource   string
	Timestamp    string         // RFC 3339; without an offset where the line has none
	Metadata     map[string]any // every other key of the line
}

// knownEventKeys are the keys that do not go to the metadata.
var knownEventKeys = []string{"session_id", "turn_id", "event", "tool", "tool_name", "args", "inputs", "result_status", "status",
	"output_keys", "outputs", "input_tokens", "output_tokens", "latency_ms", "tool_source", "timestamp"}

// LineError says which line of a log is malformed. It wraps flows.CWTraceImport.
type LineError struct {
	Line   int // from 1
	Reason string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Unwrap is CW-E035.
func (e *LineError) Unwrap() error { return flows.CWTraceImport }

// ParseAgentTrace reads a log of one JSON object per line; blank lines are skipped. The error is a *LineError.
func ParseAgentTrace(text string) ([]AgentEvent, error) {
	var out []AgentEvent
	for i, line := range splitLines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		event, err := parseEvent(line)
		if err != nil {
			return nil, &LineError{Line: i + 1, Reason: err.Error()}
		}
		out = append(out, event)
	}
	return out, nil
}

// splitLines splits at every separator that the base system takes for one, and keeps empty lines for their numbers.
func splitLines(text string) []string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var lines []string
	for {
		end := strings.IndexFunc(text, isLineEnd)
		if end < 0 {
			return append(lines, text)
		}
		lines = append(lines, text[:end])
		_, width := utf8.DecodeRuneInString(text[end:])
		text = text[end+width:]
	}
}

func isLineEnd(r rune) bool {
	return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

func parseEvent(line string) (AgentEvent, error) {
	decoded, err := value.DecodeOrdered([]byte(line), value.Limits{})
	if err != nil {
		return AgentEvent{}, fmt.Errorf("invalid JSON (%w)", err)
	}
	members, ok := decoded.(value.Members)
	if !ok {
		return AgentEvent{}, errors.New("expected a JSON object")
	}
	r := eventReader{members}
	e := AgentEvent{SessionID: r.text("session_id"), TurnID: r.text("turn_id"), Event: EventToolCall, ResultStatus: r.text("result_status", "status"),
		InputTokens: r.integer("input_tokens"), OutputTokens: r.integer("output_tokens"), LatencyMS: r.number("latency_ms"),
		ToolSource: r.text("tool_source"), Metadata: map[string]any{}}
	if e.SessionID == "" {
		e.SessionID = defaultSession
	}
	if kind, ok := r.first("event"); ok {
		if e.Event, _ = kind.(string); e.Event != EventToolCall && e.Event != EventModelCall {
			return e, fmt.Errorf("unknown event kind '%s'", scalarText(kind))
		}
	}
	tool, _ := r.first("tool", "tool_name")
	e.Tool, _ = tool.(string)
	if e.Tool == "" && e.Event == EventToolCall {
		return e, errors.New("tool_call is missing a 'tool' name")
	}
	args, recorded := r.first("args", "inputs")
	named, isObject := args.(value.Members)
	if recorded && !isObject {
		return e, errors.New("'args' must be a JSON object")
	}
	e.Args, _ = value.Plain(named).(map[string]any)
	e.ArgNames = keysOf(named)
	e.OutputKeys = r.outputKeys()
	if stamp, ok := r.first("timestamp"); ok {
		if text, isText := stamp.(string); isText {
			e.Timestamp = isoTime(text)
		}
	}
	for _, m := range members {
		if !slices.Contains(knownEventKeys, m.Key) {
			e.Metadata[m.Key] = value.Plain(m.Value)
		}
	}
	return e, nil
}

// eventReader reads the members of one line.
type eventReader struct{ members value.Members }

// first is the value of the first of the keys that the line has, null included.
func (r eventReader) first(keys ...string) (any, bool) {
	for _, key := range keys {
		if v, ok := r.members.Get(key); ok {
			return v, true
		}
	}
	return nil, false
}

// text is a value as text; null is none.
func (r eventReader) text(keys ...string) string {
	v, ok := r.first(keys...)
	if !ok || v == nil {
		return ""
	}
	return scalarText(v)
}

// number is a number; booleans and texts are none.
func (r eventReader) number(key string) *float64 {
	v, _ := r.first(key)
	var f float64
	switch v := v.(type) {
	case int64:
		f = float64(v)
	case float64:
		f = v
	case json.Number:
		var err error
		if f, err = v.Float64(); err != nil {
			return nil
		}
	default:
		return nil
	}
	return &f
}

// integer is a number without its fraction.
func (r eventReader) integer(key string) *int64 {
	v, _ := r.first(key)
	n, whole := v.(int64)
	if !whole {
		f := r.number(key)
		if f == nil {
			return nil
		}
		// Counts of tokens beyond 2^62 are no counts; they are cut so that sums stay defined.
		n = int64(max(-math.MaxInt64/2, min(math.MaxInt64/2, *f)))
	}
	return &n
}

// outputKeys are the recorded names of a result's fields.
func (r eventReader) outputKeys() []string {
	keys, _ := r.first("output_keys")
	if keys == nil {
		outputs, _ := r.first("outputs")
		members, _ := outputs.(value.Members)
		return keysOf(members)
	}
	list, _ := keys.([]any)
	var out []string
	for _, k := range list {
		out = append(out, scalarText(k))
	}
	return out
}

func keysOf(members value.Members) []string {
	var out []string
	for _, m := range members {
		out = append(out, m.Key)
	}
	return out
}

// scalarText writes a value as Python's str does; objects and lists as JSON.
func scalarText(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return floatText(v)
	}
	return string(value.Encode(v))
}

// Traces groups the tool calls by session, in the order in which sessions first appear, for an Observer.
func Traces(events []AgentEvent) []Trace {
	var out []Trace
	index := map[string]int{}
	for i := range events {
		e := &events[i]
		if e.Event != EventToolCall {
			continue
		}
		at, known := index[e.SessionID]
		if !known {
			at = len(out)
			index[e.SessionID] = at
			out = append(out, Trace{ID: e.SessionID})
		}
		out[at].Steps = append(out[at].Steps, e.step())
	}
	return out
}

func (e *AgentEvent) step() Step {
	return Step{Tool: e.Tool, Inputs: e.ArgNames, Outputs: e.OutputKeys}
}
