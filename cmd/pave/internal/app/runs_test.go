package app

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
)

const payTools = builtinTools + `
---
kind: Tool
name: pay
input_schema: {type: object, properties: {amount: {type: integer}, token: {type: string}}, required: [amount]}
output_schema: {type: object, properties: {amount: {type: integer}}, required: [amount]}
safety: {side_effects: read, requires_approval: true, approval_reason: money}
binding: {kind: local, local: passthrough}
`

const payFlow = `{"format_version":"1.1","type":"Flow","name":"pay_back","version":"0.1.0","description":"Pays.","dynamic_params":["token"],
	"input_schema":{"type":"object","properties":{"amount":{"type":"integer"}},"required":["amount"]},
	"steps":[{"tool_name":"assert_equal","input_mapping":{"actual":"amount","expected":"amount"},"output_as":"checked"},
		{"tool_name":"pay","input_mapping":{"amount":"amount","token":{"$optional":"token"}},"output_as":"paid"}],
	"returns":{"amount":"/paid/amount"}}`

type sse struct{ id, event, data string }

// follow reads a stream of events from a real connection until it ends.
func follow(t *testing.T, url, key, after string) (events []sse, status int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return nil, 0
	}
	defer func() { _ = resp.Body.Close() }()
	var ev sse
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			ev.id = value
		case "event":
			ev.event = value
		case "data":
			ev.data = value
		case "":
			if ev != (sse{}) {
				events = append(events, ev)
			}
			ev = sse{}
		}
	}
	return events, resp.StatusCode
}

func TestRunsWaitAreDecidedAndFollowed(t *testing.T) {
	a := open(t, nil)
	activate(t, a, payFlow)
	server := httptest.NewServer(a.Handler())
	defer server.Close()
	reader, _ := newKey(t, a, "service:reader", time.Time{}, "read")
	secret, _ := newKey(t, a, "person:reviewer2", time.Time{}, "review", "read")
	c, reviewer := clientOf(t, a, ""), clientOf(t, a, secret)
	ctx := t.Context()

	run, err := c.RunFlowWithResponse(ctx, "pay_back", &gen.RunFlowParams{}, gen.RunRequest{Input: json.RawMessage(`{"amount":7}`), DynamicParams: json.RawMessage(`{"token":"tok-abcdef"}`)})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, run.StatusCode(), string(run.Body))
	require.Equal(t, gen.RunStatusAwaitingApproval, run.JSON200.Status)
	id := run.JSON200.ID
	url := server.URL + "/api/v1/runs/" + id + "/events"
	followed := make(chan []sse, 1)
	go func() {
		events, _ := follow(t, url, reader, "")
		followed <- events
	}()

	waiting, err := c.ListRunsWithResponse(ctx, &gen.ListRunsParams{State: gen.RunStatusAwaitingApproval})
	require.NoError(t, err)
	require.Len(t, waiting.JSON200.Items, 1)
	asked := waiting.JSON200.Items[0].Approvals
	require.Len(t, asked, 1)
	require.Equal(t, []any{"1", "pay", gen.RunApprovalDecisionPending, "money"}, []any{asked[0].Step, asked[0].ToolName, asked[0].Decision, asked[0].Why})
	require.JSONEq(t, `{"amount":7,"token":"***REDACTED***"}`, string(asked[0].Inputs))

	decide := func(as *gen.ClientWithResponses, etag string) *gen.DecideRunApprovalResponse {
		resp, err := as.DecideRunApprovalWithResponse(ctx, id, &gen.DecideRunApprovalParams{IfMatch: etag, Wait: "10s"}, gen.ApprovalDecision{Decision: "approve", Reason: "fine"})
		require.NoError(t, err)
		return resp
	}
	read, err := c.GetRunWithResponse(ctx, id)
	require.NoError(t, err)
	current := read.HTTPResponse.Header.Get("ETag")
	require.Equal(t, http.StatusPreconditionRequired, decide(reviewer, "").StatusCode())
	require.Equal(t, http.StatusPreconditionFailed, decide(reviewer, `"99"`).StatusCode())
	require.Equal(t, http.StatusForbidden, decide(c, current).StatusCode(), "whoever started it does not approve it")
	done := decide(reviewer, current)
	require.Equal(t, http.StatusOK, done.StatusCode(), string(done.Body))
	require.Equal(t, gen.RunStatusSucceeded, done.JSON200.Status)
	require.JSONEq(t, `{"amount":7}`, string(done.JSON200.Output))
	require.NotContains(t, string(done.Body), "tok-abcdef")
	require.Equal(t, http.StatusConflict, decide(reviewer, done.HTTPResponse.Header.Get("ETag")).StatusCode())

	events := <-followed
	require.NotEmpty(t, events)
	last := events[len(events)-1]
	require.Equal(t, "run", last.event)
	require.Contains(t, last.data, `"status":"succeeded"`)
	require.NotContains(t, last.data, "tok-abcdef")
	again, status := follow(t, url, reader, events[0].id)
	require.Equal(t, []any{http.StatusOK, 1, last.id}, []any{status, len(again), again[0].id})
	_, status = follow(t, url, reader, last.id)
	require.Equal(t, http.StatusNoContent, status)
	_, status = follow(t, url, reader, "x")
	require.Equal(t, http.StatusBadRequest, status)
}

// A run that waits goes on in the next process over the same data directory.
func TestApprovalAfterARestart(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(t.Context(), Options{DataDir: dir, LocalPrincipal: "local:tester"})
	require.NoError(t, err)
	activate(t, first, payFlow)
	secret, _ := newKey(t, first, "person:reviewer2", time.Time{}, "review", "read")
	run, err := clientOf(t, first, "").RunFlowWithResponse(t.Context(), "pay_back", &gen.RunFlowParams{}, gen.RunRequest{Input: json.RawMessage(`{"amount":9007199254740993}`)})
	require.NoError(t, err)
	require.Equal(t, gen.RunStatusAwaitingApproval, run.JSON200.Status)
	require.NoError(t, first.Close())

	second := open(t, func(o *Options) { o.DataDir = dir })
	reviewer := clientOf(t, second, secret)
	read, err := reviewer.GetRunWithResponse(t.Context(), run.JSON200.ID)
	require.NoError(t, err)
	done, err := reviewer.DecideRunApprovalWithResponse(t.Context(), run.JSON200.ID, &gen.DecideRunApprovalParams{IfMatch: read.HTTPResponse.Header.Get("ETag"), Wait: "10s"},
		gen.ApprovalDecision{Step: "1", Decision: "approve"})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, done.StatusCode(), string(done.Body))
	require.Equal(t, gen.RunStatusSucceeded, done.JSON200.Status)
	require.JSONEq(t, `{"amount":9007199254740993}`, string(done.JSON200.Output))
	require.Contains(t, string(done.JSON200.Output), "9007199254740993")
}

const guardedFlow = `{"format_version":"1.1","type":"Flow","name":"guarded","version":"0.1.0","description":"Stops.",
	"input_schema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]},
	"steps":[{"tool_name":"passthrough","output_as":"one"},{"tool_name":"passthrough","output_as":"two"},
		{"tool_name":"assert_equal","guard":"a < 5","input_mapping":{"actual":"a","expected":"b"},"output_as":"three"}],
	"returns":{"two":"/two/b","three":"/three/equal"}}`

// A run whose guard is false gives the outputs so far, the next step with its inputs and the reason; it saved the turn
// between its two finished steps and no other.
func TestHandedBackRunTellsWhereToGoOn(t *testing.T) {
	a := open(t, nil)
	activate(t, a, guardedFlow)
	c := clientOf(t, a, "")
	run, err := c.RunFlowWithResponse(t.Context(), "guarded", &gen.RunFlowParams{}, gen.RunRequest{Input: json.RawMessage(`{"a":7,"b":8}`)})
	require.NoError(t, err)
	require.Equal(t, gen.RunStatusHandedBack, run.JSON200.Status)
	require.JSONEq(t, `{"two":8}`, string(run.JSON200.Output))
	require.Equal(t, []int{2, 2}, []int{run.JSON200.Steps, run.JSON200.StepsDone})
	require.Contains(t, run.JSON200.ErrorMessage, "a < 5")
	for name, record := range map[string]json.RawMessage{"answered": run.JSON200.Record, "kept": func() json.RawMessage {
		kept, err := c.GetRunWithResponse(t.Context(), run.JSON200.ID)
		require.NoError(t, err)
		return kept.JSON200.Record
	}()} {
		var r struct {
			Success  bool
			HandBack struct {
				StepIndex int    `json:"step_index"`
				ToolName  string `json:"tool_name"`
				Inputs    json.RawMessage
				Reason    string
			} `json:"hand_back"`
			Cost struct {
				Avoided int `json:"llm_calls_avoided"`
			} `json:"cost_report"`
		}
		require.NoError(t, json.Unmarshal(record, &r))
		require.Equal(t, []any{false, 2, "assert_equal", "guard is false: a < 5", 1},
			[]any{r.Success, r.HandBack.StepIndex, r.HandBack.ToolName, r.HandBack.Reason, r.Cost.Avoided}, name)
		require.JSONEq(t, `{"actual":7,"expected":8}`, string(r.HandBack.Inputs), name)
	}
}
