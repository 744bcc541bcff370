package snippets

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"pave/api/gen"
)

// versionOf runs a flow as the API's caller says and tells the version that ran.
func versionOf(t *testing.T, c *gen.ClientWithResponses, params gen.RunFlowParams, session string) string {
	t.Helper()
	done, err := c.RunFlowWithResponse(t.Context(), "order_state", &params, gen.RunRequest{Input: json.RawMessage(`{"order_id":"W1"}`), SessionID: session})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, done.StatusCode(), string(done.Body))
	return done.JSON200.Version
}

// A new version gets the share of the callers that the promotion says; who it is goes by session, trace, idempotency key
// or principal. Which these are was computed by another program.
func TestRolloutOverTheAPI(t *testing.T) {
	s, _ := mcpService(t, nil, "order_state")
	agent := s.as(s.key("service:agent", "run"))
	other := s.as(s.key("service:a", "run"))
	v := s.rollOut(strings.Replace(shopFlows["order_state"], "State of an order", "The state of an order", 1), 0.3)
	require.Equal(t, &gen.Rollout{Version: "1.0.1", Share: 0.3, RestVersion: "1.0.0"}, v.Rollout)
	require.Equal(t, 0.3, v.Share)

	newer := func(of func(i int) string) (out []int) {
		for i := range 12 {
			if of(i) == "1.0.1" {
				out = append(out, i)
			}
		}
		return out
	}
	bySession := func(i int) string { return versionOf(t, agent, gen.RunFlowParams{}, fmt.Sprintf("c%d", i)) }
	require.Equal(t, []int{0, 2, 3, 10}, newer(bySession))
	require.Equal(t, []int{3, 5, 6, 9, 11}, newer(func(i int) string {
		return versionOf(t, agent, gen.RunFlowParams{Traceparent: fmt.Sprintf("00-%032x-00f067aa0ba902b7-01", i+1)}, "")
	}))
	require.Equal(t, []int{2, 4, 5, 9}, newer(func(i int) string {
		return versionOf(t, agent, gen.RunFlowParams{IdempotencyKey: fmt.Sprintf("k%d", i)}, "")
	}))
	require.Equal(t, []string{"1.0.1", "1.0.0"}, []string{versionOf(t, agent, gen.RunFlowParams{}, ""), versionOf(t, other, gen.RunFlowParams{}, "")})

	// Each version is counted for itself.
	report, err := s.client.GetReportWithResponse(t.Context(), gen.GetReportParamsKindReliability, &gen.GetReportParams{})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, report.StatusCode(), string(report.Body))
	var table struct {
		Items []struct {
			Version string
			Runs    int
		}
	}
	require.NoError(t, json.Unmarshal(report.Body, &table))
	runs := map[string]int{}
	for _, row := range table.Items {
		runs[row.Version] += row.Runs
	}
	require.Equal(t, map[string]int{"1.0.1": 4 + 5 + 4 + 1, "1.0.0": 8 + 7 + 8 + 1}, runs)

	set := func(share float64, version, match string) *gen.SetFlowRolloutResponse {
		done, err := s.client.SetFlowRolloutWithResponse(t.Context(), "order_state", &gen.SetFlowRolloutParams{IfMatch: match}, gen.RolloutChange{Version: version, Rollout: share, Reason: "no failures"})
		require.NoError(t, err)
		return done
	}
	read := fmt.Sprintf(`"%d"`, v.Revision)
	require.Equal(t, http.StatusPreconditionRequired, set(0.6, "1.0.1", "").StatusCode())
	require.Equal(t, http.StatusPreconditionFailed, set(0.6, "1.0.1", `"1"`).StatusCode())
	require.Equal(t, http.StatusPreconditionFailed, set(0.6, "1.0.0", read).StatusCode())
	for _, share := range []float64{0, -1, 1.5} {
		require.Equal(t, http.StatusBadRequest, set(share, "1.0.1", read).StatusCode())
	}
	raised := set(0.6, "1.0.1", read)
	require.Equal(t, http.StatusOK, raised.StatusCode(), string(raised.Body))
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 10}, newer(bySession))
	list, err := s.client.ListFlowsWithResponse(t.Context(), &gen.ListFlowsParams{})
	require.NoError(t, err)
	flow := list.JSON200.Items[0]
	require.Equal(t, &gen.Rollout{Version: "1.0.1", Share: 0.6, RestVersion: "1.0.0"}, flow.Rollout)
	require.Equal(t, []float64{0.4, 0.6}, []float64{flow.Versions[0].Share, flow.Versions[1].Share})

	whole := set(1, "1.0.1", raised.HTTPResponse.Header.Get("ETag"))
	require.Equal(t, http.StatusOK, whole.StatusCode(), string(whole.Body))
	require.Nil(t, whole.JSON200.Rollout)
	require.Len(t, newer(bySession), 12)
	require.Equal(t, http.StatusConflict, set(0.5, "1.0.1", whole.HTTPResponse.Header.Get("ETag")).StatusCode())
}

// Agents have one list of tools, whoever they are: what a rollout leaves out is handed back before its first step, for a
// session always or never, and there is no run of it.
func TestRolloutOfAFirstVersionOverMCP(t *testing.T) {
	s, _ := mcpService(t, nil)
	s.rollOut(shopFlows["order_state"], 0.5)
	key := s.key("service:agent", gen.ScopeRun)
	ran, left := 0, 0
	for range 40 { // sessions have random names: all on one side is less likely than 1 in 10^11
		if ran > 0 && left > 0 {
			break
		}
		session := connect(t, s, key, nil, nil)
		require.Contains(t, toolNames(t, session), "order_state")
		first := call(t, session, "order_state", map[string]any{"order_id": "W1"})
		require.False(t, first.IsError, text(first))
		for range 3 { // through the library or not
			require.Equal(t, first.Meta["pave/status"], call(t, session, "order_state", map[string]any{"order_id": "W1"}).Meta["pave/status"])
		}
		progress := &mcp.CallToolParams{Name: "order_state", Arguments: map[string]any{"order_id": "W1"}}
		progress.SetProgressToken("p")
		again, err := session.CallTool(t.Context(), progress)
		require.NoError(t, err)
		require.Equal(t, first.Meta["pave/status"], again.Meta["pave/status"])
		if first.Meta["pave/status"] == "succeeded" {
			ran += 5
			continue
		}
		left++
		require.Equal(t, "outside_rollout", first.Meta["pave/status"])
		stopped := first.StructuredContent.(map[string]any)["flow_stopped"].(map[string]any)
		require.Equal(t, []any{"handed_back", []any{}, []any{"get_order", "get_customer"}, map[string]any{"order_id": "W1"},
			map[string]any{"step": "1", "tool": "get_order", "inputs": nil}},
			[]any{stopped["status"], stopped["done"], stopped["remaining"], stopped["known"], stopped["next"]})
		require.NotContains(t, stopped, "run_id")
		require.Contains(t, text(first), "this one is not among them")
		require.Contains(t, text(first), "What remains: get_order, get_customer.")
	}
	require.NotZero(t, ran)
	require.NotZero(t, left)
	runs, err := s.client.ListRunsWithResponse(t.Context(), &gen.ListRunsParams{Limit: 500})
	require.NoError(t, err)
	require.Len(t, runs.JSON200.Items, ran)

	refused, err := s.client.RunFlowWithResponse(t.Context(), "order_state", &gen.RunFlowParams{}, gen.RunRequest{Input: json.RawMessage(`{"order_id":"W1"}`), SessionID: "o3"})
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, refused.StatusCode(), string(refused.Body))
	require.EqualValues(t, "outside_rollout", refused.ApplicationProblemJSONDefault.Code)
	done, err := s.client.RunFlowWithResponse(t.Context(), "order_state", &gen.RunFlowParams{}, gen.RunRequest{Version: "1.0.0", Input: json.RawMessage(`{"order_id":"W1"}`), SessionID: "o3"})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, done.StatusCode(), "who names a version gets it")
}
