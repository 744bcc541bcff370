package snippets

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/api/gen"
)

// An agent that calls a flow and exports its own telemetry: the flow call is known for one, what the tool's server tells
// of the inner step is tied to the run, and neither is mined beside the agent's own calls.
func TestNoEcho(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	const traceparent = "00-" + trace + "-b7ad6b7169203331-01"
	for way, c := range map[string]struct {
		name string // of the flow in the agent's telemetry
		call func(t *testing.T, s *service) (runID string)
	}{
		"over MCP": {"mcp__pave__order_state", func(t *testing.T, s *service) string {
			session := connect(t, s, s.key("service:agent", gen.ScopeRun), nil, nil)
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "order_state", Arguments: map[string]any{"order_id": "W1"}, Meta: mcp.Meta{"traceparent": traceparent}})
			require.NoError(t, err)
			return res.Meta["pave/run_id"].(string)
		}},
		"over MCP, in the header": {"pave.order_state", func(t *testing.T, s *service) string {
			session := connect(t, s, s.key("service:agent", gen.ScopeRun), map[string]string{"Traceparent": traceparent}, nil)
			return call(t, session, "order_state", map[string]any{"order_id": "W1"}).Meta["pave/run_id"].(string)
		}},
		"over REST": {"order_state", func(t *testing.T, s *service) string {
			done, err := s.as(s.key("service:agent", gen.ScopeRun)).RunFlowWithResponse(t.Context(), "order_state", &gen.RunFlowParams{}, gen.RunRequest{Input: []byte(`{"order_id":"W1"}`)},
				func(_ context.Context, r *http.Request) error { r.Header.Set("Traceparent", traceparent); return nil })
			require.NoError(t, err)
			require.Equal(t, 200, done.StatusCode(), string(done.Body))
			return done.JSON200.ID
		}},
	} {
		t.Run(way, func(t *testing.T) {
			s, desk := mcpService(t, nil, "order_state")
			noEcho(t, s, desk, c.call(t, s), trace, c.name)
		})
	}
}

// noEcho sends what the agent and the tool's server report of a run, and looks at what became of it.
func noEcho(t *testing.T, s *service, desk *shop, runID, trace, flow string) {
	parent, state, _ := strings.Cut(desk.parents[0], " ")
	require.Equal(t, trace, strings.Split(parent, "-")[1], "the caller's trace goes on to the tools")
	require.Equal(t, "pave="+runID, state)
	inner := strings.Split(parent, "-")[2]

	span := func(id, parent, state, tool, extra string) string {
		return fmt.Sprintf(`{"traceId":%q,"spanId":%q,"parentSpanId":%q,"traceState":%q,"name":"execute_tool %s","kind":1,"startTimeUnixNano":"1790000000000000000","endTimeUnixNano":"1790000001000000000",
			"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.name","value":{"stringValue":%q}},
			{"key":"gen_ai.conversation.id","value":{"stringValue":"talk"}},{"key":"gen_ai.tool.call.arguments","value":{"stringValue":"{}"}}%s]}`, trace, id, parent, state, tool, tool, extra)
	}
	body := `{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Join([]string{
		span("b7ad6b7169203331", "", "", flow, ""),              // the agent's own word on the flow call
		span("aaaaaaaaaaaaaaaa", inner, state, "get_order", ""), // the tool server's on the inner step
		span("cccccccccccccccc", "", "", "get_weather", ""),     // and a tool that the agent called itself
	}, ",") + `]}]}]}`
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.address+"/v1/traces", bytes.NewBufferString(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+s.key("service:telemetry", gen.ScopeIngest))
	r.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	_, err = s.client.StartMiningRunWithResponse(t.Context(), &gen.StartMiningRunParams{Wait: true}, gen.MiningRequest{})
	require.NoError(t, err)

	talk, err := s.client.GetSessionWithResponse(t.Context(), "talk")
	require.NoError(t, err)
	require.Equal(t, 200, talk.StatusCode(), string(talk.Body))
	kinds := map[string]string{}
	for _, run := range talk.JSON200.Runs {
		for _, c := range run.Calls {
			kinds[c.Tool] = string(c.OriginKind)
			if c.Tool == "get_order" {
				assert.Equal(t, runID, run.ID, "the inner step is tied to its run")
			}
		}
	}
	assert.Equal(t, map[string]string{flow: "flow_call", "get_order": "flow", "get_weather": "agent"}, kinds)
	observed, err := s.client.ListToolsWithResponse(t.Context(), &gen.ListToolsParams{})
	require.NoError(t, err)
	for _, tool := range observed.JSON200.Items {
		assert.NotContains(t, tool.Name, "order_state", "a flow is no tool that was observed")
	}
}
