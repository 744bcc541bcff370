package flowmcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
)

// ready are runs that have ended before they begin, so that what is left is the protocol.
type ready struct{ offer runs.Offer }

func (r *ready) Offers(context.Context, governance.Actor) ([]runs.Offer, error) {
	return []runs.Offer{r.offer}, nil
}

func (r *ready) Run(context.Context, governance.Actor, runs.Request) (*runs.Run, error) {
	return &runs.Run{ID: "r", Flow: "echo", Version: "1.0.0", State: executor.StatusSucceeded,
		Result: &executor.RunResult{Success: true, FinalOutput: map[string]any{"a": int64(7)}}}, nil
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serve is the server of one flow on a listener, and a function that sends one message in one session.
func serve(t testing.TB, r Runs) (post func(body string) string) {
	t.Helper()
	s := New(Options{Rate: 1e9, Runs: r})
	actor := governance.Actor{Tenant: "default", Principal: "service:bench", Scopes: []governance.Scope{governance.ScopeRun}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r, actor) }))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	t.Cleanup(func() { client.CloseIdleConnections(); _ = s.Close(); web.Close() })
	session := ""
	post = func(body string) string {
		r, err := http.NewRequest(http.MethodPost, web.URL, strings.NewReader(body))
		if err != nil {
			return err.Error()
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := client.Do(r)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error()
		}
		if session == "" {
			session = resp.Header.Get("Mcp-Session-Id")
		}
		return string(raw)
	}
	post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return post
}

func instant() *ready {
	safety := flows.DefaultSafety()
	return &ready{runs.Offer{Safety: &safety, Flow: &flows.Flow{Name: "echo", Version: "1.0.0", Governance: &flows.Governance{Lifecycle: flows.LifecycleActive}},
		Definition: []byte(`{"name":"echo","inputSchema":{"type":"object"}}`)}}
}

// call is a message; ids of one session that are answered at the same time must differ.
func call(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"a":7}}}`, id)
}

const echoed = `"structuredContent":{"a":7}`

// What the protocol costs a call beside its run; the client's part is in the figure.
func BenchmarkCall(b *testing.B) {
	post := serve(b, instant())
	before := cpu()
	for b.Loop() {
		if answer := post(call(2)); !strings.Contains(answer, echoed) {
			b.Fatal(answer)
		}
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// full runs at most so many at a time, and refuses the others as the run service does.
type full struct {
	*ready
	places chan struct{}
}

func (f *full) Run(ctx context.Context, actor governance.Actor, req runs.Request) (*runs.Run, error) {
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
		time.Sleep(time.Millisecond)
		return f.ready.Run(ctx, actor, req)
	default:
		return nil, flows.NewError(flows.CodeFull, "too many runs")
	}
}

// A thousand calls at once, of which few may run at a time, all come to their end.
func TestAThousandCallsAtOnce(t *testing.T) {
	post := serve(t, &full{instant(), make(chan struct{}, 64)})
	var all sync.WaitGroup
	var right atomic.Int64
	for i := range 1000 {
		all.Go(func() {
			if answer := post(call(i + 2)); strings.Contains(answer, echoed) {
				right.Add(1)
			} else {
				t.Log(answer)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1000, right.Load())
}

// Calls that have ended leave nothing behind.
func TestMemoryDoesNotGrowWithCalls(t *testing.T) {
	post := serve(t, instant())
	const n = 4000
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for i := range 200 {
		require.Contains(t, post(call(i+2)), echoed)
	}
	before := heap()
	for i := range n {
		post(call(i + 1000))
	}
	require.Less(t, float64(heap()-before)/n, 64.0, "bytes a call")
}
