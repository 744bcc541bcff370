package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
)

// cpu is the time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perCall reports CPU per operation of what fn does.
func perCall(b *testing.B, fn func()) {
	b.Helper()
	for range 20 { // connections, plans
		fn()
	}
	before := cpu()
	for b.Loop() {
		fn()
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

const echoFlow = `{"format_version":"1.1","type":"Flow","name":"echo_flow","version":"1.0.0","description":"Echo.","input_schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
	"steps":[{"tool_name":"assert_equal","input_mapping":{"actual":"a","expected":"a"},"output_as":"same"}],"returns":{"a":"a"}}`

// served is an App with the echo flow on a listener, and a function that sends one request with its answer.
func served(b *testing.B) (a *App, post func(path, body string) string) {
	b.Helper()
	a = openBench(b)
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- a.Serve(ctx, ServeOptions{Listen: "127.0.0.1:0", Ready: func(at string) { ready <- at }})
	}()
	address := <-ready
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1200, MaxConnsPerHost: 0}}
	b.Cleanup(func() {
		client.CloseIdleConnections()
		stop()
		require.NoError(b, <-ended)
	})
	var session sync.Map
	return a, func(path, body string) string {
		r, err := http.NewRequest(http.MethodPost, address+path, strings.NewReader(body))
		require.NoError(b, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if id, ok := session.Load("id"); ok {
			r.Header.Set("Mcp-Session-Id", id.(string))
		}
		resp, err := client.Do(r)
		require.NoError(b, err)
		raw, err := io.ReadAll(resp.Body)
		require.NoError(b, err)
		_ = resp.Body.Close()
		if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
			session.LoadOrStore("id", id)
		}
		return string(raw)
	}
}

func openBench(b *testing.B) *App {
	b.Helper()
	a, err := Open(b.Context(), Options{DataDir: b.TempDir(), LocalPrincipal: "local:tester", NoAuth: true, Solo: true, MCP: MCPOptions{Rate: 1e9}, Runs: RunOptions{MaxConcurrent: 64}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, a.Close()) })
	require.NoError(b, a.ApplyTools(b.Context(), []byte(builtinTools)))
	flow, _, err := flows.ParseFlow([]byte(echoFlow))
	require.NoError(b, err)
	p, err := a.gate.Submit(b.Context(), a.localActor(), flow)
	require.NoError(b, err)
	_, err = a.gate.Review(b.Context(), a.localActor(), p.ID, governance.ReviewRequest{Verdict: governance.VerdictApprove, Digest: p.Digest}) // in solo mode
	require.NoError(b, err)
	_, err = a.gate.Promote(b.Context(), a.localActor(), p.ID, governance.PromoteRequest{})
	require.NoError(b, err)
	return a
}

const callEcho = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo_flow","arguments":{"a":7}}}`

func initialize(post func(path, body string) string) {
	post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	post("/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// A run of a flow, in process.
func BenchmarkFlowInProcess(b *testing.B) {
	a := openBench(b)
	perCall(b, func() {
		run, err := a.runs.Run(b.Context(), a.localActor(), runs.Request{Flow: "echo_flow", Input: map[string]any{"a": int64(7)}})
		require.NoError(b, err)
		require.Equal(b, executor.StatusSucceeded, run.State)
	})
}

// The same run as an MCP call over loopback; the client's part is in the figure.
func BenchmarkFlowOverMCP(b *testing.B) {
	_, post := served(b)
	initialize(post)
	n := 1
	perCall(b, func() {
		n++
		if answer := post("/mcp", fmt.Sprintf(callEcho, n)); !strings.Contains(answer, `"structuredContent":{"a":7}`) {
			b.Fatal(answer)
		}
	})
}

// A call through a worker pool: poll, result and the call itself; the worker's part is in the figure.
func BenchmarkWorkerRoundTrip(b *testing.B) {
	a, post := served(b)
	tool := &flows.Tool{Name: "t", Binding: &flows.Binding{Kind: flows.BindWorker, Pool: "bench"}}
	perCall(b, func() {
		done := make(chan error, 1)
		go func() {
			_, err := a.tools.workers.Invoke(context.Background(), tool, map[string]any{"a": int64(1)}, executor.CallInfo{RunID: "r", Attempt: 1})
			done <- err
		}()
		call := post("/api/v1/workers/bench/poll", `{"worker":"w"}`)
		_, rest, _ := strings.Cut(call, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		post("/api/v1/worker-calls/"+id+"/result", `{"result":{"ok":true}}`)
		require.NoError(b, <-done)
	})
}
