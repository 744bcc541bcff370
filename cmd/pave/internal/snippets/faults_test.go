package snippets

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/api/gen"
	"pave/cmd/pave/internal/app"
)

// payFlow has one step whose effect must not happen twice; it asks for three attempts all the same where RETRY says so.
const payFlow = `{"format_version":"1.1","type":"Flow","name":"pay","version":"1.0.0","description":"Pays.",
	"input_schema":{"type":"object","properties":{"amount":{"type":"integer"}},"required":["amount"]},
	"steps":[{"tool_name":"pay","input_mapping":{"amount":"amount"},"output_as":"receipt"RETRY}]}`

const retried = `,"retry":{"max_retries":2,"backoff_seconds":0.01}`

// stepRecord is what a fault leaves in the record of its step.
type stepRecord struct {
	Success      bool
	ToolName     string          `json:"tool_name"`
	Outputs      json.RawMessage `json:"outputs"`
	ErrorCode    string          `json:"error_code"`
	ErrorMessage string          `json:"error_message"`
	RetryCount   int             `json:"retry_count"`
}

// kept reads the record of a run's only step back.
func (s *service) kept(id string) (run *gen.Run, step stepRecord) {
	s.t.Helper()
	got, err := s.client.GetRunWithResponse(s.t.Context(), id)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, got.StatusCode(), string(got.Body))
	var record struct {
		ExecutionLog []stepRecord `json:"execution_log"`
	}
	require.NoError(s.t, json.Unmarshal(got.JSON200.Record, &record))
	require.Len(s.t, record.ExecutionLog, 1, string(got.JSON200.Record))
	return got.JSON200, record.ExecutionLog[0]
}

// A tool server that is broken or hostile fails the step of its call, says how in the record, and is asked once.
func TestFaultsOfAToolServer(t *testing.T) {
	var private atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { private.Add(1) }))
	t.Cleanup(inside.Close)
	var asked atomic.Int64
	var behave atomic.Pointer[http.HandlerFunc]
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // only then does its context end with the connection
		(*behave.Load())(w, r)
	}))
	t.Cleanup(outside.Close)
	s := serve(t, func(o *app.Options) { o.EgressAllow = []string{strings.TrimPrefix(outside.URL, "http://")} })
	s.tools(strings.ReplaceAll(`
kind: Tool
name: pay
input_schema: {type: object, properties: {amount: {type: integer}}, required: [amount]}
output_schema: {type: object, properties: {paid: {type: boolean}}, required: [paid]}
safety: {side_effects: write, idempotent: false}
timeout_seconds: 0.3
max_output_size: 65536
binding: {kind: http, method: POST, url: BASE/payments}
`, "BASE", outside.URL))
	s.activate(strings.Replace(payFlow, "RETRY", "", 1))
	for _, c := range []struct {
		name    string
		server  http.HandlerFunc
		code    string
		message string
	}{
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "CW-E008", "exceeded timeout of 0.3s"},
		{"answers garbage", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>\x00\xff{") }, "CW-E006", "[invalid_answer]"},
		{"grows", func(w http.ResponseWriter, _ *http.Request) {
			for range 1 << 20 {
				if _, err := fmt.Fprint(w, strings.Repeat(" ", 1<<16)); err != nil {
					return
				}
			}
		}, "CW-E009", "output size exceeds max 65536"},
		{"redirects to a private address", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL, http.StatusTemporaryRedirect)
		}, "CW-E006", "redirects are not followed"},
		{"changes its schema in the middle of the day", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"paid":"yes, twice"}`) }, "CW-E004", "paid: must be a boolean"},
		{"breaks off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "CW-E006", "broke off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			behave.Store(&c.server)
			before := asked.Load()
			run := s.run("pay", `{"amount":7}`)
			require.Equal(t, gen.RunStatusFailed, run.Status)
			kept, step := s.kept(run.ID)
			assert.Equal(t, gen.RunStatusFailed, kept.Status)
			assert.Equal(t, "pay", step.ToolName)
			assert.Equal(t, c.code, step.ErrorCode, step.ErrorMessage)
			assert.Contains(t, step.ErrorMessage, c.message)
			assert.Equal(t, "null", string(step.Outputs))
			assert.EqualValues(t, 1, asked.Load()-before, "it is asked once")
			assert.Contains(t, kept.HandBackText, "What remains: pay.")
		})
	}
	assert.Zero(t, private.Load(), "nobody went inside")
	good := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"paid":true}`) })
	behave.Store(&good)
	require.Equal(t, gen.RunStatusSucceeded, s.run("pay", `{"amount":7}`).Status, "the faults were the server's")
}

// A flow may ask for attempts of a call whose effect must not happen twice: over HTTP they all carry one key, by which a
// server does once what it is asked for three times.
func TestRetriesOfAToolServerCarryOneKey(t *testing.T) {
	var asked atomic.Int64
	var paid sync.Map // by key
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		paid.Store(r.Header.Get("Idempotency-Key"), true)
		switch asked.Add(1) {
		case 1: // it is paid, and the answer is lost
			panic(http.ErrAbortHandler)
		case 2:
			<-r.Context().Done()
		default:
			fmt.Fprint(w, `{"paid":true}`)
		}
	}))
	t.Cleanup(bank.Close)
	s := serve(t, func(o *app.Options) { o.EgressAllow = []string{strings.TrimPrefix(bank.URL, "http://")} })
	s.tools(`
kind: Tool
name: pay
input_schema: {type: object, properties: {amount: {type: integer}}, required: [amount]}
output_schema: {type: object, properties: {paid: {type: boolean}}, required: [paid]}
safety: {side_effects: write, idempotent: false}
timeout_seconds: 0.3
binding: {kind: http, method: POST, url: ` + bank.URL + `/payments}
`)
	s.activate(strings.Replace(payFlow, "RETRY", retried, 1))
	run := s.run("pay", `{"amount":7}`)
	require.Equal(t, gen.RunStatusSucceeded, run.Status, string(run.Record))
	_, step := s.kept(run.ID)
	assert.Equal(t, 2, step.RetryCount)
	assert.EqualValues(t, 3, asked.Load())
	var keys []any
	paid.Range(func(key, _ any) bool { keys = append(keys, key); return true })
	assert.Equal(t, []any{run.ID + "-0"}, keys)
}

// An MCP server that restarts under a call leaves its outcome unknown: the record says so, the call is not made again, and
// the next run reaches the new server.
func TestAnMCPServerThatRestartsUnderACall(t *testing.T) {
	var paid atomic.Int64
	var broke atomic.Bool
	var web *httptest.Server
	fresh := func() http.Handler {
		server := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)
		server.AddTool(&mcp.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object","properties":{"amount":{"type":"integer"}},"required":["amount"]}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if paid.Add(1); broke.CompareAndSwap(false, true) {
					go web.CloseClientConnections()
					time.Sleep(100 * time.Millisecond)
				}
				return &mcp.CallToolResult{StructuredContent: json.RawMessage(`{"paid":true}`), Content: []mcp.Content{&mcp.TextContent{Text: `{"paid":true}`}}}, nil
			})
		t.Cleanup(func() {
			for session := range server.Sessions() {
				_ = session.Close()
			}
		})
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	}
	var handler atomic.Pointer[http.Handler]
	before := fresh()
	handler.Store(&before)
	web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	s := serve(t, func(o *app.Options) { o.EgressAllow = []string{strings.TrimPrefix(web.URL, "http://")} })
	s.tools(`
kind: MCPServer
name: bank
transport: streamable_http
url: ` + web.URL + `
---
kind: Tool
name: pay
input_schema: {type: object, properties: {amount: {type: integer}}, required: [amount]}
output_schema: {type: object, properties: {paid: {type: boolean}}, required: [paid]}
safety: {side_effects: write, idempotent: false}
timeout_seconds: 5
binding: {kind: mcp, server: bank, tool: pay}
`)
	s.activate(strings.Replace(payFlow, "RETRY", retried, 1))
	run := s.run("pay", `{"amount":7}`)
	require.Equal(t, gen.RunStatusFailed, run.Status)
	_, step := s.kept(run.ID)
	assert.Contains(t, step.ErrorMessage, "[outcome_unknown]")
	assert.Zero(t, step.RetryCount)
	assert.EqualValues(t, 1, paid.Load(), "what may have happened is not done again, also where the flow asks for retries")

	after := fresh() // knows no session of before
	handler.Store(&after)
	require.Equal(t, gen.RunStatusSucceeded, s.run("pay", `{"amount":7}`).Status)
	assert.EqualValues(t, 2, paid.Load())
}
