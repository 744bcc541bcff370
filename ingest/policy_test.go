package ingest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
)

func TestFits(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "x", true}, {"*", "", true}, {"a", "a", true}, {"a", "b", false}, {"pay*", "payroll", true}, {"*_pii", "get_pii", true}, {"*_pii", "pii_get", false},
		{"a*b*c", "axxbyyc", true}, {"a*b*c", "acb", false}, {"otlp/*", "otlp/genai", true}, {"a*a", "a", false},
	} {
		require.Equal(t, c.want, fits(c.pattern, c.text), "%s %s", c.pattern, c.text)
	}
}

func TestPolicy(t *testing.T) {
	failure, err := NewFailureRule("otlp/codex", "", `(?i)^error|exited with code [1-9]`)
	require.NoError(t, err)
	_, err = NewFailureRule("", "", "(")
	require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
	store := &log{}
	rec := newTestRecorder(t, store, RecorderOptions{Policy: Policy{
		Capture:  []CaptureRule{{Tool: "payroll_*"}, {Agent: "hr"}, {Source: "otlp/quiet"}},
		Failures: []FailureRule{failure},
	}})
	event := func(id, tool, agent, source, result string) Event {
		e := call("s", id, `{"name":"Bob"}`)
		e.Agent, e.Source, e.Call.Tool, e.Call.Result = agent, source, tool, json.RawMessage(result)
		e.Metadata = json.RawMessage(`{"service":"svc","note":"Bob","tool_call_ids":["c"]}`)
		return e
	}
	said := Event{Kind: KindUserMessage, SessionID: "s", Agent: "hr", OriginKind: OriginAgent, User: &UserMessage{Text: "Bob"}}
	events := []Event{event("1", "payroll_get", "", "json", `"Bob"`), event("2", "find", "hr", "json", `"Bob"`), event("3", "find", "", "otlp/quiet", `"Bob"`),
		event("4", "find", "", "json", `"Error: no"`), event("5", "find", "", "otlp/codex", `"Error: no"`), event("6", "find", "", "otlp/codex", `{"text":"Process exited with code 12"}`), said}
	_, err = rec.Record(t.Context(), "t", events)
	require.NoError(t, err)
	got := store.events()
	for _, e := range got[:3] {
		require.NotContains(t, string(AppendRecord(nil, &e)), "Bob")
		require.Equal(t, StatusOK, e.Call.Status)
		require.JSONEq(t, `{"service":"svc","tool_call_ids":["c"]}`, string(e.Metadata))
	}
	require.Empty(t, got[6].User.Text)
	require.Equal(t, []Status{StatusOK, StatusError, StatusError}, []Status{got[3].Call.Status, got[4].Call.Status, got[5].Call.Status})
	require.Equal(t, "Error: no", got[4].Call.Error)
	require.NotNil(t, got[4].Call.Result)

	bare := func(args string) []Event {
		return []Event{{Kind: KindToolCall, OriginKind: OriginAgent, Call: &ToolCall{Tool: "payroll_get", Args: json.RawMessage(args), Status: StatusOK}}}
	}
	for _, args := range []string{`{"n":1}`, `{"n":2}`, `{"n":1}`} {
		_, err = rec.Record(t.Context(), "t", bare(args))
		require.NoError(t, err)
	}
	got = store.events()[7:]
	require.Len(t, got, 2, "two calls, of which one was sent twice")
	require.NotEqual(t, got[0].Identity, got[1].Identity)
	require.Nil(t, got[0].Call.Args)
}
