package httpbind

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
)

func TestDecider(t *testing.T) {
	good, seen := server(t, answers(http.StatusOK, "application/json", `{"tool":"b"}`))
	odd, _ := server(t, answers(http.StatusOK, "application/json", `{"choice":"b"}`))
	inv := invoker(t, Options{}, good, odd)
	request := executor.DecisionRequest{RunID: "R", TraceID: "T", FlowName: "f", StepIndex: 2, StepID: "s", DefaultToolName: "a",
		Candidates: []string{"a", "b"}, Context: map[string]any{"n": int64(9007199254740993)}}
	tool, err := NewDecider(inv, good.URL+"/decide").Decide(context.Background(), request)
	require.NoError(t, err)
	assert.Equal(t, "b", tool)
	assert.Equal(t, []string{"POST", "/decide"}, []string{seen.method, seen.path})
	assert.JSONEq(t, `{"run_id":"R","trace_id":"T","flow_name":"f","step_index":2,"step_id":"s","default_tool_name":"a","candidates":["a","b"],"context":{"n":9007199254740993}}`, seen.body)
	assert.Contains(t, seen.body, "9007199254740993")

	_, err = NewDecider(inv, odd.URL).Decide(context.Background(), request)
	var te *executor.ToolError
	require.ErrorAs(t, err, &te)
	assert.Equal(t, "invalid_answer", te.Code)

	// The endpoint is reached as tools are: not where the egress list does not allow it.
	_, err = NewDecider(invoker(t, Options{}), good.URL).Decide(context.Background(), request)
	require.ErrorAs(t, err, &te)
	assert.Equal(t, "egress_denied", te.Code)
}

func TestCheckURL(t *testing.T) {
	for text, says := range map[string]string{"https://h.example/decide": "", "http://127.0.0.1:9000": "", "ftp://h": "not a URL", "h.example": "not a URL",
		"https://u:p@h.example/x": "no password", "https://h.example/?q=1": "end with its path", "http://": "not a URL", "http://%zz": "not a URL"} {
		err := CheckURL(text)
		if says == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, says, text)
		}
	}
}
