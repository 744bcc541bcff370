package snippets

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/api/gen"
	"pave/cmd/pave/internal/app"
)

// tools serves the HTTP tools of the flows below and remembers what it was asked.
type shop struct {
	mu      sync.Mutex
	parents []string
	refunds int
	waits   int
	block   chan struct{} // when set, /slow waits for it
	url     string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{block: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.parents = append(s.parents, r.Header.Get("Traceparent")+" "+r.Header.Get("Tracestate"))
		s.mu.Unlock()
		status := "delivered"
		if r.PathValue("id") == "W2" {
			status = "lost"
		}
		_, _ = fmt.Fprintf(w, `{"order_id":%q,"status":%q,"total":9007199254740993}`, r.PathValue("id"), status)
	})
	mux.HandleFunc("GET /customers", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("token") == "broken" {
			http.Error(w, `{"message":"no such customer"}`, http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprintf(w, `{"name":"Ann","seen_token":%q}`, r.URL.Query().Get("token"))
	})
	mux.HandleFunc("POST /refunds", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		s.refunds++
		s.mu.Unlock()
		_, _ = fmt.Fprint(w, `{"refunded":true}`)
	})
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.waits++
		s.mu.Unlock()
		select {
		case <-s.block:
		case <-r.Context().Done():
		}
		_, _ = fmt.Fprint(w, `{"ok":true}`)
	})
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

func (s *shop) toolFile() string {
	return strings.ReplaceAll(`
kind: Tool
name: get_order
input_schema: {type: object, properties: {order_id: {type: string}}, required: [order_id]}
output_schema: {type: object, properties: {order_id: {type: string}, status: {type: string}, total: {type: integer}}, required: [order_id, status, total]}
safety: {side_effects: read}
binding: {kind: http, url: "BASE/orders/{order_id}"}
---
kind: Tool
name: get_customer
input_schema: {type: object, properties: {token: {type: string}}, required: [token]}
output_schema: {type: object, properties: {name: {type: string}, seen_token: {type: string}}, required: [name, seen_token]}
safety: {side_effects: read}
binding: {kind: http, url: BASE/customers}
---
kind: Tool
name: refund
input_schema: {type: object, properties: {order_id: {type: string}}, required: [order_id]}
output_schema: {type: object, properties: {refunded: {type: boolean}}, required: [refunded]}
safety: {side_effects: write, idempotent: false}
binding: {kind: http, method: POST, url: BASE/refunds}
---
kind: Tool
name: wait
input_schema: {type: object}
output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]}
safety: {side_effects: read}
binding: {kind: http, url: BASE/slow}
---
kind: Tool
name: mystery
input_schema: {type: object}
output_schema: {type: object}
binding: {kind: http, url: BASE/slow}
`, "BASE", s.url)
}

// shopFlows are by name; order_state stops at its guard for order W2.
var shopFlows = map[string]string{
	"order_state": `{"format_version":"1.1","type":"Flow","name":"order_state","version":"1.0.0","description":"State of an order and its customer.","on_failure":"hand_back",
		"input_schema":{"type":"object","properties":{"order_id":{"type":"string"},"customer":{"type":"string"}},"required":["order_id"],"additionalProperties":false},
		"output_schema":{"type":"object","properties":{"state":{"type":"string"},"total":{"type":"integer"},"customer":{"type":"string"}},"required":["state","total","customer"]},
		"steps":[{"tool_name":"get_order","input_mapping":{"order_id":"order_id"},"output_as":"order"},
			{"tool_name":"get_customer","guard":"order[\"status\"] == \"delivered\"","input_mapping":{"token":"/order/order_id"},"output_as":"person"}],
		"returns":{"state":"/order/status","total":"/order/total","customer":"/person/name"}}`,
	"whoami": `{"format_version":"1.1","type":"Flow","name":"whoami","version":"1.0.0","description":"Who the token belongs to.","dynamic_params":["tenant_token"],
		"input_schema":{"type":"object","properties":{}},"steps":[{"tool_name":"get_customer","input_mapping":{"token":"tenant_token"},"output_as":"person"}],"returns":{"name":"/person/name","token":"/person/seen_token"}}`,
	"pay_back": `{"format_version":"1.1","type":"Flow","name":"pay_back","version":"1.0.0","description":"Refunds an order.",
		"input_schema":{"type":"object","properties":{"order_id":{"type":"string"}},"required":["order_id"]},
		"steps":[{"tool_name":"get_order","input_mapping":{"order_id":"order_id"},"output_as":"order"},{"tool_name":"refund","input_mapping":{"order_id":"/order/order_id"},"output_as":"done"}]}`,
	"unknown_effects": `{"format_version":"1.1","type":"Flow","name":"unknown_effects","version":"1.0.0","description":"Who knows.","input_schema":{"type":"object"},
		"steps":[{"tool_name":"mystery","input_mapping":{},"output_as":"done"}]}`,
	"fails": `{"format_version":"1.1","type":"Flow","name":"fails","version":"1.0.0","description":"Asks for a customer that is not there.",
		"input_schema":{"type":"object"},"steps":[{"tool_name":"get_customer","input_mapping":{"token":{"$const":"broken"}},"output_as":"person"}]}`,
	"dawdle": `{"format_version":"1.1","type":"Flow","name":"dawdle","version":"1.0.0","description":"Waits.","input_schema":{"type":"object"},
		"steps":[{"tool_name":"wait","input_mapping":{},"output_as":"done"}]}`,
}

// mcpService is a service with the shop's flows active.
func mcpService(t *testing.T, change func(*app.Options), names ...string) (*service, *shop) {
	t.Helper()
	desk := newShop(t)
	s := serve(t, func(o *app.Options) {
		o.EgressAllow = []string{strings.TrimPrefix(desk.url, "http://")}
		if change != nil {
			change(o)
		}
	})
	s.tools(desk.toolFile())
	for _, name := range names {
		s.activate(shopFlows[name])
	}
	return s, desk
}

// connect is an MCP client of the service.
func connect(t *testing.T, s *service, key string, headers map[string]string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	session, err := dial(t, s, key, headers, o)
	require.NoError(t, err)
	return session
}

func dial(t *testing.T, s *service, key string, headers map[string]string, o *mcp.ClientOptions) (*mcp.ClientSession, error) {
	t.Helper()
	base := &http.Transport{}
	client := &http.Client{Transport: withHeaders{base, key, headers}}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test-agent", Version: "1"}, o).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: s.address + "/mcp", HTTPClient: client, MaxRetries: -1}, nil)
	if err == nil {
		t.Cleanup(func() { _ = session.Close(); base.CloseIdleConnections() })
	}
	base.CloseIdleConnections()
	return session, err
}

type withHeaders struct {
	next    http.RoundTripper
	key     string
	headers map[string]string
}

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if h.key != "" {
		r.Header.Set("Authorization", "Bearer "+h.key)
	}
	for k, v := range h.headers {
		r.Header.Set(k, v)
	}
	return h.next.RoundTrip(r)
}

func toolNames(t *testing.T, session *mcp.ClientSession) map[string]*mcp.Tool {
	t.Helper()
	out := map[string]*mcp.Tool{}
	for tool, err := range session.Tools(t.Context(), nil) {
		require.NoError(t, err)
		out[tool.Name] = tool
	}
	return out
}

func call(t *testing.T, session *mcp.ClientSession, name string, args any) *mcp.CallToolResult {
	t.Helper()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	require.NoError(t, err)
	return res
}

func text(res *mcp.CallToolResult) string { return res.Content[0].(*mcp.TextContent).Text }

func TestFlowsAreToolsOfMCPClients(t *testing.T) {
	s, desk := mcpService(t, nil, "order_state", "pay_back", "unknown_effects")
	s.activate(shopFlows["fails"])
	session := connect(t, s, s.key("service:agent", gen.ScopeRun), nil, nil)
	tools := toolNames(t, session)
	require.Len(t, tools, 2, "writing and unknown flows are above the ceiling")
	tool := tools["order_state"]
	assert.Contains(t, tool.Description, "State of an order")
	assert.True(t, tool.Annotations.ReadOnlyHint)

	res := call(t, session, "order_state", map[string]any{"order_id": "W1"})
	require.False(t, res.IsError, text(res))
	assert.JSONEq(t, `{"state":"delivered","total":9007199254740993,"customer":"Ann"}`, text(res))
	assert.Contains(t, text(res), "9007199254740993", "numbers stay whole")
	assert.Equal(t, "Ann", res.StructuredContent.(map[string]any)["customer"])
	runID := res.Meta["pave/run_id"].(string)
	kept, err := s.client.GetRunWithResponse(t.Context(), runID)
	require.NoError(t, err)
	assert.Equal(t, "service:agent", kept.JSON200.Caller)

	// The guard does not hold for W2: the model is told how to go on, and partial savings are counted by steps.
	res = call(t, session, "order_state", map[string]any{"order_id": "W2"})
	require.False(t, res.IsError)
	assert.Contains(t, text(res), "Done, do not repeat:\n- get_order (step 1) gave")
	assert.Contains(t, text(res), "What remains: get_customer.")
	stopped := res.StructuredContent.(map[string]any)["flow_stopped"].(map[string]any)
	assert.Equal(t, "handed_back", stopped["status"])
	assert.Equal(t, []any{"get_customer"}, stopped["remaining"])
	assert.Equal(t, map[string]any{"step": "2", "tool": "get_customer", "inputs": map[string]any{"token": "W2"}}, stopped["next"])
	assert.Equal(t, "lost", stopped["known"].(map[string]any)["state"])

	rest := s.run("order_state", `{"order_id":"W2"}`)
	failed := s.run("fails", `{}`)
	assert.Equal(t, gen.RunStatusHandedBack, rest.Status)
	assert.Contains(t, rest.HandBackText, "What remains: get_customer.")
	assert.Contains(t, string(rest.HandBack), `"remaining":["get_customer"]`)
	kept, err = s.client.GetRunWithResponse(t.Context(), rest.ID)
	require.NoError(t, err)
	// Read back it is the same, but that values which look like secrets are redacted.
	secret := regexp.MustCompile(`\[redacted:secret:[0-9a-f]+\]`)
	assert.JSONEq(t, string(rest.HandBack), secret.ReplaceAllString(string(kept.JSON200.HandBack), "W2"))
	assert.Equal(t, rest.HandBackText, secret.ReplaceAllString(kept.JSON200.HandBackText, "W2"))
	assert.Equal(t, gen.RunStatusFailed, failed.Status)
	kept, err = s.client.GetRunWithResponse(t.Context(), failed.ID)
	require.NoError(t, err)
	assert.Contains(t, kept.JSON200.HandBackText, "Nothing was done yet.", "a run that failed says so too, as it did at first")
	assert.Equal(t, failed.HandBackText, secret.ReplaceAllString(kept.JSON200.HandBackText, "broken"))
	assert.Contains(t, string(kept.JSON200.HandBack), `"status":"failed"`)
	assert.NotContains(t, string(kept.JSON200.Record), `"hand_back":{`, "the flow itself did not hand it back")

	res = call(t, session, "order_state", map[string]any{"order_id": 7})
	assert.True(t, res.IsError, "a bad argument is told to the model")
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "pay_back", Arguments: map[string]any{"order_id": "W1"}})
	require.Error(t, err, "a hidden flow cannot be called either")
	assert.Zero(t, desk.refunds)
}

// The caller's trace goes through pave to the tools, which are told the run that they work for.
func TestTraceContextPasses(t *testing.T) {
	s, desk := mcpService(t, nil, "order_state")
	session := connect(t, s, s.key("service:agent", gen.ScopeRun), nil, nil)
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "order_state", Arguments: map[string]any{"order_id": "W1"},
		Meta: mcp.Meta{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}})
	require.NoError(t, err)
	desk.mu.Lock()
	defer desk.mu.Unlock()
	require.Len(t, desk.parents, 1)
	assert.Regexp(t, `^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01 pave=`+res.Meta["pave/run_id"].(string)+`$`, desk.parents[0])
}

func TestTheListChangesOnPromotion(t *testing.T) {
	s, _ := mcpService(t, nil, "order_state")
	changed := make(chan struct{}, 10)
	session := connect(t, s, s.key("service:agent", gen.ScopeRun), nil, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
	require.Len(t, toolNames(t, session), 1)
	for len(changed) > 0 { // of the list's first reading
		<-changed
	}
	s.activate(shopFlows["dawdle"])
	require.Eventually(t, func() bool { return len(changed) > 0 }, 10*time.Second, 10*time.Millisecond, "nobody was told")
	require.Contains(t, toolNames(t, session), "dawdle")
	v, err := s.client.GetFlowWithResponse(t.Context(), "order_state")
	require.NoError(t, err)
	_, err = s.client.SetFlowStatusWithResponse(t.Context(), "order_state", v.JSON200.Version, &gen.SetFlowStatusParams{IfMatch: v.HTTPResponse.Header.Get("ETag")}, gen.StatusChange{Status: gen.FlowStatusDisabled})
	require.NoError(t, err)
	require.NotContains(t, toolNames(t, session), "order_state")
}

func TestTheGateOfMCP(t *testing.T) {
	s, _ := mcpService(t, func(o *app.Options) { o.MCP.Rate = 5 }, "order_state")
	_, err := dial(t, s, "", nil, nil)
	require.Error(t, err)
	_, err = dial(t, s, s.key("service:reader", gen.ScopeRead), nil, nil)
	require.Error(t, err)
	session := connect(t, s, s.key("service:agent", gen.ScopeRun), nil, nil)
	call(t, session, "order_state", map[string]any{"order_id": "W1"})
	refused := false
	for range 40 {
		if _, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "order_state", Arguments: map[string]any{"order_id": "W1"}}); err != nil {
			refused = true
			break
		}
	}
	require.True(t, refused, "forty calls at once are more than five a second")
	require.Eventually(t, func() bool { // decisions are written in batches
		events, err := s.client.ListAuditEventsWithResponse(t.Context(), &gen.ListAuditEventsParams{Limit: 500})
		if err != nil || events.JSON200 == nil {
			return false
		}
		seen := map[string]bool{}
		for _, ev := range events.JSON200.Items {
			if strings.HasPrefix(ev.Action, "mcp.") {
				seen[ev.Action+" "+ev.Actor+" "+string(ev.Detail)] = true
			}
		}
		return seen[`mcp.request anonymous {"allowed":false,"reason":"unauthenticated"}`] && seen[`mcp.request service:reader {"allowed":false,"reason":"forbidden"}`] &&
			seen[`mcp.call service:agent {"allowed":true}`] && seen[`mcp.request service:agent {"allowed":false,"reason":"rate_limited"}`]
	}, 10*time.Second, 50*time.Millisecond)
}

// Dynamic params come from a header or from a secret bound to the caller, are in no schema and in no record.
func TestDynamicParamsOverMCP(t *testing.T) {
	t.Setenv("PAVE_TEST_TOKEN", "canary-of-the-server")
	s, _ := mcpService(t, func(o *app.Options) { o.MCP.Params = []string{"service:bound tenant_token=PAVE_TEST_TOKEN"} }, "whoami")
	free := connect(t, s, s.key("service:free", gen.ScopeRun), map[string]string{"Pave-Param-tenant_token": "canary-of-the-client"}, nil)
	schema, err := json.Marshal(toolNames(t, free)["whoami"])
	require.NoError(t, err)
	assert.NotContains(t, string(schema), "tenant_token")
	res := call(t, free, "whoami", nil)
	assert.Contains(t, text(res), "canary-of-the-client")
	kept, err := s.client.GetRunWithResponse(t.Context(), res.Meta["pave/run_id"].(string))
	require.NoError(t, err)
	assert.NotContains(t, string(kept.Body), "canary")
	res = call(t, connect(t, s, s.key("service:bound", gen.ScopeRun), nil, nil), "whoami", nil)
	assert.Contains(t, text(res), "canary-of-the-server")
	res = call(t, connect(t, s, s.key("service:none", gen.ScopeRun), nil, nil), "whoami", nil)
	assert.True(t, res.IsError)
	assert.Contains(t, text(res), "Pave-Param-tenant_token")
}

// A client that cancels ends its run; one that goes away leaves a run with its record.
func TestClientsThatCancelAndClientsThatGo(t *testing.T) {
	s, desk := mcpService(t, nil, "dawdle")
	key := s.key("service:agent", gen.ScopeRun)
	session := connect(t, s, key, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "dawdle"})
	require.ErrorIs(t, err, context.Canceled)
	states := func() map[gen.RunStatus]int {
		out := map[gen.RunStatus]int{}
		list, err := s.client.ListRunsWithResponse(t.Context(), &gen.ListRunsParams{})
		require.NoError(t, err)
		for _, run := range list.JSON200.Items {
			out[run.Status]++
		}
		return out
	}
	require.Eventually(t, func() bool { return states()[gen.RunStatusCancelled] == 1 }, 10*time.Second, 20*time.Millisecond, "%v", states())
	var mu sync.Mutex
	var wires []net.Conn
	wire := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		mu.Lock()
		defer mu.Unlock()
		wires = append(wires, conn)
		return conn, err
	}}
	other, err := mcp.NewClient(&mcp.Implementation{Name: "goes", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: s.address + "/mcp", HTTPClient: &http.Client{Transport: withHeaders{wire, key, nil}}, MaxRetries: -1}, nil)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := other.CallTool(context.Background(), &mcp.CallToolParams{Name: "dawdle"})
		ended <- err
	}()
	require.Eventually(t, func() bool { return states()[gen.RunStatusRunning] == 1 }, 10*time.Second, 20*time.Millisecond)
	mu.Lock()
	for _, conn := range wires {
		_ = conn.Close()
	}
	mu.Unlock()
	require.Error(t, <-ended)
	close(desk.block)
	require.Eventually(t, func() bool { return states()[gen.RunStatusRunning] == 0 }, 10*time.Second, 20*time.Millisecond, "%v", states())
	assert.Equal(t, map[gen.RunStatus]int{gen.RunStatusCancelled: 1, gen.RunStatusSucceeded: 1}, states(), "what went on without its client has the record of what it did")
	desk.mu.Lock()
	assert.Equal(t, 2, desk.waits, "each run made its call once")
	desk.mu.Unlock()
	_ = other.Close()
	wire.CloseIdleConnections()
}

// The exports of active flows: an OpenAPI document, and tool definitions.
func TestExportsOfActiveFlows(t *testing.T) {
	s, _ := mcpService(t, nil, "order_state", "pay_back")
	doc, err := s.client.ExportOpenAPIWithResponse(t.Context())
	require.NoError(t, err)
	imported, err := s.client.ImportToolsWithBodyWithResponse(t.Context(), &gen.ImportToolsParams{BaseURL: s.address, Prefix: "pave_"}, "application/json", strings.NewReader(string(doc.Body)))
	require.NoError(t, err)
	require.Equal(t, 200, imported.StatusCode(), string(imported.Body))
	require.Len(t, imported.JSON200.Tools, 2)
	assert.Contains(t, string(imported.JSON200.Tools[0]), "/api/v1/flows/order_state/runs")
	for target, field := range map[gen.ExportToolsParamsFor]string{gen.ExportToolsParamsForOpenai: `"parameters"`, gen.ExportToolsParamsForAnthropic: `"input_schema"`, gen.ExportToolsParamsForMcp: `"inputSchema"`} {
		defs, err := s.client.ExportToolsWithResponse(t.Context(), &gen.ExportToolsParams{For: target})
		require.NoError(t, err)
		require.Len(t, *defs.JSON200, 2, string(defs.Body))
		assert.Contains(t, string(defs.Body), field)
	}
}

// pave mcp serves the same over standard input and output: with the data directory, and through the server that holds it.
func TestPaveMCPOverStandardInput(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	program := filepath.Join(t.TempDir(), "pave")
	build := exec.Command("go", "build", "-o", program, "pave/cmd/pave")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	dir := ""
	s, _ := mcpService(t, func(o *app.Options) { dir = o.DataDir }, "order_state")
	check := func(env ...string) {
		cmd := exec.Command(program, "mcp")
		cmd.Env = append(append(os.Environ(), "PAVE_DATA="+dir, "PAVE_CONFIG="), env...)
		session, err := mcp.NewClient(&mcp.Implementation{Name: "editor", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
		require.NoError(t, err)
		defer func() { _ = session.Close() }()
		require.Contains(t, toolNames(t, session), "order_state")
		res := call(t, session, "order_state", map[string]any{"order_id": "W2"})
		assert.Contains(t, text(res), "What remains")
	}
	check() // through the server
	allow := strings.TrimPrefix(s.shopURL(t), "http://")
	s.stop()
	check("PAVE_EGRESS_ALLOW=" + allow)
}

// shopURL is where the flows' tools are, from their definitions.
func (s *service) shopURL(t *testing.T) string {
	t.Helper()
	tool, err := s.client.GetToolWithResponse(t.Context(), "wait")
	require.NoError(t, err)
	var doc struct{ Binding struct{ URL string } }
	require.NoError(t, json.Unmarshal(tool.JSON200.Tool, &doc))
	return strings.TrimSuffix(doc.Binding.URL, "/slow")
}
