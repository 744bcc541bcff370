package transcript

import (
	"bufio"
	"encoding/json"
	"io"
	"time"

	"pave/ingest"
)

// NormalisedCall is one assembled tool call as `pave import --dry-run -o jsonl` prints it.
type NormalisedCall struct {
	SessionID string `json:"session_id"` // "trace:<id>" where the trace is the session
	// Seq counts the calls of the session from 0, over its agent runs.
	Seq        int             `json:"seq"`
	Turn       int32           `json:"turn"`
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args"`   // null when not captured
	Result     json.RawMessage `json:"result"` // null when not captured, or null
	CallID     *string         `json:"call_id"`
	Status     ingest.Status   `json:"status"`
	Error      *string         `json:"error"`
	Start      *time.Time      `json:"start"`
	DurationMS *float64        `json:"duration_ms"`
	Agent      string          `json:"agent"`
	Source     string          `json:"source"`
}

// Normalised lists a session's calls, run after run.
func Normalised(s *ingest.Session) []NormalisedCall {
	var calls []NormalisedCall
	for i := range s.Runs {
		run := &s.Runs[i]
		for j := range run.Calls {
			c := &run.Calls[j]
			n := NormalisedCall{SessionID: s.ID, Seq: len(calls), Turn: c.Turn, Tool: c.Tool, Args: c.Args, Result: c.Result,
				CallID: known(c.CallID), Status: c.Status, Error: known(c.Error), Agent: run.Agent, Source: c.Source}
			if !c.Start.IsZero() {
				n.Start = &c.Start
			}
			if c.Duration > 0 {
				ms := float64(c.Duration) / float64(time.Millisecond)
				n.DurationMS = &ms
			}
			calls = append(calls, n)
		}
	}
	return calls
}

func known(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// WriteNormalised writes the calls of the sessions, one a line.
func WriteNormalised(w io.Writer, sessions []*ingest.Session) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for _, s := range sessions {
		for _, c := range Normalised(s) {
			if err := enc.Encode(c); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}
