package app

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/api/gen"
	"pave/ingest"
)

// Agents report calls of flows by names that their clients make; by those that may be another server's tool only in a trace
// in which the flow ran.
func TestCallsOfFlowsAreKnown(t *testing.T) {
	a := open(t, func(o *Options) { o.MCP.Prefix = "acme_" })
	activate(t, a, checkFlow)
	run, err := clientOf(t, a, "").RunFlowWithResponse(t.Context(), "check_both", &gen.RunFlowParams{Traceparent: "00-" + callerTrace + "-" + callerSpan + "-01"},
		gen.RunRequest{Input: json.RawMessage(`{"a":1,"b":1}`)})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, run.StatusCode(), string(run.Body))
	kind := func(tool, trace string) ingest.OriginKind {
		e := ingest.Event{Kind: ingest.KindToolCall, OriginKind: ingest.OriginAgent, TraceID: trace, Call: &ingest.ToolCall{Tool: tool}}
		a.flowNames.classify(ingest.DefaultTenant, &e)
		return e.OriginKind
	}
	for _, tool := range []string{"check_both", "acme_check_both", "mcp__pave__check_both", "mcp__Pave__acme_check_both", "pave__check_both", "pave.check_both",
		"@pave/check_both", "pave:check_both", "mcp_pave_check_both", "pave_check_both", "pave-check_both", "our-pave_acme_check_both", "check_both_mcp_pave"} {
		require.Equal(t, ingest.OriginFlowCall, kind(tool, ""), tool)
	}
	for _, tool := range []string{"mcp__flows__check_both", "flows.check_both", "mcp_flows_check_both", "flows/acme_check_both", "check_both_mcp_flows"} {
		require.Equal(t, ingest.OriginFlowCall, kind(tool, callerTrace), tool)
		require.Equal(t, ingest.OriginAgent, kind(tool, ""), tool)
		require.Equal(t, ingest.OriginAgent, kind(tool, "00f067aa0ba902b700f067aa0ba902b7"), tool)
	}
	for _, tool := range []string{"both", "check_both_twice", "double_check_both", "pave", "pave__", "_mcp_pave", "mcp__pave__both", "mcp__pave__check_both_twice", "check_both_", "passthrough"} {
		require.Equal(t, ingest.OriginAgent, kind(tool, callerTrace), tool)
	}
}
