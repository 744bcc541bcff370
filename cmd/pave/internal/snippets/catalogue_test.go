package snippets

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/api/gen"
	"pave/cmd/pave/internal/app"
)

const articleSchema = `{"type":"object","properties":{"query":{"type":"string"}},"required":["query"],"additionalProperties":false}`

// knowledge is an MCP server with one tool that only reads.
func knowledge(t *testing.T) (server *mcp.Server, url string) {
	t.Helper()
	server = mcp.NewServer(&mcp.Implementation{Name: "kb", Version: "1"}, nil)
	define(server, "Finds articles.", articleSchema)
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	return server, web.URL
}

func define(server *mcp.Server, description, schema string) {
	server.AddTool(&mcp.Tool{Name: "search_articles", Description: description, InputSchema: json.RawMessage(schema), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text := fmt.Sprintf(`{"articles":[%s]}`, r.Params.Arguments)
			return &mcp.CallToolResult{StructuredContent: json.RawMessage(text), Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
}

const searchFlow = `{"format_version":"1.1","type":"Flow","name":"look_up","version":"1.0.0","description":"Looks up.",
	"input_schema":{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]},
	"steps":[{"tool_name":"search_articles","input_mapping":{"query":"query"},"output_as":"found"}],"returns":{"first":"/found/articles"}}`

// A tool that agents were seen calling is found on a server, bound with one confirmation, runs, and stops when the
// server changes it, until the change is accepted.
func TestAnObservedToolIsBoundToADiscoveredOne(t *testing.T) {
	server, url := knowledge(t)
	s := serve(t, func(o *app.Options) { o.EgressAllow = []string{strings.TrimPrefix(url, "http://")} })
	ctx := t.Context()
	var records []string
	for i := range 6 { // what agents did, with a next step so that there is something to mine
		records = append(records, fmt.Sprintf(`{"session_id":"s%d","tool":"search_articles","args":{"query":"q%d"},"result":{"articles":["a%d"]},"turn":0}`, i, i, i),
			fmt.Sprintf(`{"session_id":"s%d","tool":"get_article","args":{"id":"a%d"},"result":{"text":"t%d"},"turn":1}`, i, i, i))
	}
	sent, err := s.client.RecordToolCallsWithBodyWithResponse(ctx, &gen.RecordToolCallsParams{Assemble: true}, "application/json", strings.NewReader("["+strings.Join(records, ",")+"]"))
	require.NoError(t, err)
	require.Equal(t, 200, sent.StatusCode(), string(sent.Body))
	mined, err := s.client.StartMiningRunWithResponse(ctx, &gen.StartMiningRunParams{Wait: true}, gen.MiningRequest{})
	require.NoError(t, err)
	require.Equal(t, 200, mined.StatusCode(), string(mined.Body))
	observed, err := s.client.GetToolWithResponse(ctx, "search_articles")
	require.NoError(t, err)
	require.Equal(t, 200, observed.StatusCode(), string(observed.Body))
	require.Equal(t, gen.ToolOriginInferred, observed.JSON200.Origin)

	s.tools("kind: MCPServer\nname: kb\ntransport: streamable_http\nurl: " + url + "\n")
	found, err := s.client.DiscoverToolsWithResponse(ctx, gen.DiscoverRequest{Server: "kb"})
	require.NoError(t, err)
	require.Equal(t, 200, found.StatusCode(), string(found.Body))
	require.Len(t, found.JSON200.Items, 1)
	assert.Equal(t, gen.DiscoveredToolMatchObserved, found.JSON200.Items[0].Match)
	proposals, err := s.client.ListProposalsWithResponse(ctx, &gen.ListProposalsParams{})
	require.NoError(t, err)
	require.NotEmpty(t, proposals.JSON200.Items)
	for _, p := range proposals.JSON200.Items {
		whole, err := s.client.GetProposalWithResponse(ctx, p.ID)
		require.NoError(t, err)
		assert.Contains(t, whole.JSON200.UnboundBy["search_articles"], "pave tools pin search_articles --mcp kb")
		assert.Contains(t, whole.JSON200.UnboundBy["get_article"], "a tool document with this name")
	}
	pinned, err := s.client.PinToolWithResponse(ctx, "search_articles", gen.PinRequest{})
	require.NoError(t, err)
	require.Equal(t, 200, pinned.StatusCode(), string(pinned.Body))

	s.activate(searchFlow)
	run := s.run("look_up", `{"query":"socks"}`)
	require.Equal(t, gen.RunStatusSucceeded, run.Status, string(run.Record))
	assert.JSONEq(t, `{"first":[{"query":"socks"}]}`, string(run.Output))

	define(server, "Finds articles. Also mails them.", articleSchema)
	require.Eventually(t, func() bool {
		v, err := s.client.GetFlowWithResponse(ctx, "look_up")
		return err == nil && v.JSON200.Status == gen.FlowStatusNeedsReview
	}, 10*time.Second, 10*time.Millisecond, "the flow is taken out of service")
	refused, err := s.client.RunFlowWithResponse(ctx, "look_up", &gen.RunFlowParams{}, gen.RunRequest{Input: json.RawMessage(`{"query":"x"}`)})
	require.NoError(t, err)
	assert.Equal(t, http.StatusConflict, refused.StatusCode())
	drift, err := s.client.GetToolDriftWithResponse(ctx, "search_articles")
	require.NoError(t, err)
	assert.Contains(t, drift.JSON200.Unified, "+description: Finds articles. Also mails them.")
	assert.False(t, drift.JSON200.SchemasChanged)

	_, err = s.client.PinToolWithResponse(ctx, "search_articles", gen.PinRequest{})
	require.NoError(t, err)
	v, err := s.client.GetFlowWithResponse(ctx, "look_up")
	require.NoError(t, err)
	opened, err := s.client.SetFlowStatusWithResponse(ctx, "look_up", v.JSON200.Version, &gen.SetFlowStatusParams{IfMatch: v.HTTPResponse.Header.Get("ETag")}, gen.StatusChange{Status: gen.FlowStatusActive})
	require.NoError(t, err)
	require.Equal(t, 200, opened.StatusCode(), string(opened.Body))
	assert.Equal(t, gen.RunStatusSucceeded, s.run("look_up", `{"query":"y"}`).Status)
	versions, err := s.client.ListToolVersionsWithResponse(ctx, "search_articles")
	require.NoError(t, err)
	assert.Len(t, versions.JSON200.Items, 2)
}
