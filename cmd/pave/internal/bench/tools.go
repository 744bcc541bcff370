package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"pave/cmd/pave/internal/app"
	"pave/executor"
)

// Tools measures flows that agents call over MCP, and tools that workers serve. This process serves, with keys, and runs
// and records every run as `pave serve` does, in SQLite; the clients and the worker are child processes, whose CPU is not
// counted.
type Tools struct {
	Calls  int // over MCP, as many in process, and a worker's
	Memory int // between the two looks at memory
}

// ToolsResult is `pave bench tools`. CPU is that of the process that serves, a call; rounds of calls over MCP, in process
// and of a worker take turns, and each figure is the median of its rounds, a difference that of the differences.
type ToolsResult struct {
	Head
	Calls               int         `json:"calls"`
	AtATime             int         `json:"at_a_time"` // calls, in all but concurrent_1000
	MCPCallCPUUs        float64     `json:"mcp_call_cpu_us"`
	InProcessCPUUs      float64     `json:"in_process_cpu_us"` // the same run of the same flow without MCP
	MCPOverheadCPUUs    float64     `json:"mcp_overhead_cpu_us"`
	WorkerRunCPUUs      float64     `json:"worker_run_cpu_us"` // a run in process whose one step a worker serves, which answers with its next poll
	WorkerRoundtripUs   float64     `json:"worker_roundtrip_cpu_us"`
	Concurrent          AtOnce      `json:"concurrent_1000"`
	MemoryAfterHundredK MemoryDrift `json:"memory_after_100k_calls"`
}

// AtOnce is how calls fared that came at the same time.
type AtOnce struct {
	OK        int     `json:"ok"`
	Failed    int     `json:"failed"`
	WallS     float64 `json:"wall_s"`
	PeakRSSMB float64 `json:"peak_rss_mb"` // of the process that serves
}

// MemoryDrift is the memory of the process that serves before and after calls, each time after a collection.
type MemoryDrift struct {
	Calls int `json:"calls"`
	MemoryMB
	Goroutines int `json:"goroutines_more"`
}

const (
	toolsAtATime = 8
	toolsRounds  = 7
	toolsAtOnce  = 1000
	toolsWarmUp  = 2000
)

// Run implements Runner.
func (b Tools) Run(ctx context.Context, env Env) (_ any, err error) {
	if err := cmp.Or(atLeast("--calls", b.Calls, 1), atLeast("--memory", b.Memory, 1)); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pave-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := serveTools(ctx, env, filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	res := ToolsResult{Head: env.head("tools"), Calls: b.Calls, AtATime: toolsAtATime}
	if err := b.cpu(ctx, s, &res); err != nil {
		return nil, err
	}
	env.note("%d calls at once", toolsAtOnce)
	if res.Concurrent, err = b.atOnce(ctx, s); err != nil {
		return nil, err
	}
	env.note("memory before and after %d calls", b.Memory)
	res.MemoryAfterHundredK, err = b.memory(ctx, s)
	return res, err
}

// cpu measures rounds of calls in turn.
func (b Tools) cpu(ctx context.Context, s *toolServer, res *ToolsResult) error {
	agent, err := s.child(ctx, toolsAtATime, "agent")
	if err != nil {
		return err
	}
	worker, err := s.child(ctx, toolsAtATime, "worker")
	if err != nil {
		return errors.Join(err, agent.end())
	}
	each := max(1, b.Calls/toolsRounds)
	ways := []struct {
		name  string
		calls func(n int) error
		into  *float64
	}{
		{"over MCP", agent.all, &res.MCPCallCPUUs},
		{"in process", func(n int) error { return s.runs(ctx, echoName, n) }, &res.InProcessCPUUs},
		{"of a worker", func(n int) error { return s.runs(ctx, workerName, n) }, &res.WorkerRunCPUUs},
	}
	took := make([][]float64, len(ways))
	for round := range toolsRounds + 1 {
		for i, way := range ways {
			n := each
			if round == 0 {
				n = toolsWarmUp
			}
			s.env.note("%d calls %s", n, way.name)
			used, _, err := measure(func() error { return way.calls(n) })
			if err != nil {
				return errors.Join(fmt.Errorf("calls %s: %w", way.name, err), agent.end(), worker.end())
			}
			if round > 0 {
				took[i] = append(took[i], used.Seconds()*1e6/float64(n))
			}
		}
	}
	for i, way := range ways {
		*way.into = median(took[i])
	}
	// What else the machine does changes slowly, so a round is compared with the one beside it.
	res.MCPOverheadCPUUs, res.WorkerRoundtripUs = beside(took[0], took[1]), beside(took[2], took[1])
	return errors.Join(agent.end(), worker.end())
}

// beside is the median of what rounds cost more than their neighbours.
func beside(rounds, base []float64) float64 {
	more := make([]float64, len(rounds))
	for i := range rounds {
		more[i] = rounds[i] - base[i]
	}
	return median(more)
}

func (b Tools) atOnce(ctx context.Context, s *toolServer) (AtOnce, error) {
	agent, err := s.child(ctx, toolsAtOnce, "agent")
	if err != nil {
		return AtOnce{}, err
	}
	peak := resetPeakRSS()
	done, err := agent.calls(toolsAtOnce)
	if done.Failed > 0 {
		s.env.note("the first call that failed: %s", done.Problem)
	}
	return AtOnce{OK: done.OK, Failed: done.Failed, WallS: done.WallS, PeakRSSMB: peak()}, errors.Join(err, agent.end())
}

func (b Tools) memory(ctx context.Context, s *toolServer) (res MemoryDrift, err error) {
	agent, err := s.child(ctx, toolsAtATime, "agent")
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, agent.end()) }()
	look := func() (rss, heap float64, goroutines int, err error) {
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		rss, err = residentMB(os.Getpid())
		return rss, float64(m.HeapAlloc) / (1 << 20), runtime.NumGoroutine(), err
	}
	if err := agent.all(toolsWarmUp); err != nil {
		return res, err
	}
	var before, after int
	if res.RSSMBStart, res.HeapMBStart, before, err = look(); err != nil {
		return res, err
	}
	if err := agent.all(b.Memory); err != nil {
		return res, err
	}
	res.Calls = b.Memory
	res.RSSMBEnd, res.HeapMBEnd, after, err = look()
	res.Goroutines = after - before
	return res, err
}

// Flows and tools of the bench: one flow with a step of pave itself, one with a step of a worker.
const (
	echoName   = "echo_flow"
	workerName = "worker_flow"
	workerPool = "bench"
	workerTool = `
kind: Tool
name: echo
schema_version: "1"
description: Gives a back.
input_schema: {type: object, properties: {a: {type: integer}}, required: [a]}
output_schema: {type: object, properties: {a: {type: integer}}, required: [a]}
safety: {side_effects: none, idempotent: true, safe_to_retry: true}
binding: {kind: worker, pool: ` + workerPool + `}
---
kind: Tool
name: assert_equal
schema_version: "1"
description: Whether two values are equal.
input_schema: {type: object, properties: {actual: {}, expected: {}}, required: [actual, expected]}
output_schema: {type: object, properties: {equal: {type: boolean}}, required: [equal]}
safety: {side_effects: none, idempotent: true, safe_to_retry: true}
binding: {kind: local}
`
	echoFlow = `{"format_version":"1.1","type":"Flow","name":"echo_flow","version":"1.0.0","description":"Gives a back.",
 "input_schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
 "steps":[{"tool_name":"assert_equal","input_mapping":{"actual":"a","expected":"a"},"output_as":"same"}],"returns":{"a":"a"}}`
	workerFlow = `{"format_version":"1.1","type":"Flow","name":"worker_flow","version":"1.0.0","description":"Gives a back, of a worker.",
 "input_schema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
 "steps":[{"tool_name":"echo","input_mapping":{"a":"a"},"output_as":"echoed"}],"returns":{"a":"a"}}`
)

// toolServer is the service under measurement.
type toolServer struct {
	env     Env
	app     *app.App
	address string
	key     string
	stop    func() error
}

func serveTools(ctx context.Context, env Env, dir string) (*toolServer, error) {
	a, err := app.Open(ctx, app.Options{DataDir: dir, Solo: true, Logger: slog.New(slog.DiscardHandler), Version: env.Version, MCP: app.MCPOptions{Rate: 1e9}})
	if err != nil {
		return nil, err
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- a.Serve(serving, app.ServeOptions{Listen: "127.0.0.1:0", Ready: func(at string) { ready <- at }})
	}()
	s := &toolServer{env: env, app: a, stop: func() error { end(); return errors.Join(<-ended, a.Close()) }}
	select {
	case s.address = <-ready:
	case err := <-ended:
		end()
		return nil, errors.Join(err, a.Close())
	}
	if s.key, err = app.AdminKey(dir); err == nil {
		err = a.ApplyTools(ctx, []byte(workerTool))
	}
	for _, flow := range []string{echoFlow, workerFlow} {
		if err == nil {
			err = a.Activate(ctx, []byte(flow))
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// runs runs a flow so often in process, as many at a time as come over MCP.
func (s *toolServer) runs(ctx context.Context, flow string, n int) error {
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, toolsAtATime)
	var all sync.WaitGroup
	for range toolsAtATime {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				run, err := s.app.RunFlow(ctx, flow, map[string]any{"a": int64(7)})
				if err == nil && run.State != executor.StatusSucceeded {
					err = fmt.Errorf("run %s of %s is %s", run.ID, flow, run.State)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// callers is a child process of clients or workers.
type callers struct{ *child }

// child starts `pave bench call`, which says a line when it is ready.
func (s *toolServer) child(ctx context.Context, atATime int, role string) (*callers, error) {
	cmd := exec.CommandContext(ctx, s.env.Program, "bench", "call", "--url", s.address, "--role", role, "--at-a-time", fmt.Sprint(atATime))
	cmd.Env = append(os.Environ(), "PAVE_CONFIG=", "PAVE_KEY="+s.key)
	cmd.Stderr = os.Stderr
	started, err := startChild(cmd)
	if err != nil {
		return nil, err
	}
	c := &callers{started}
	if !c.lines.Scan() {
		return nil, errors.Join(errors.New("the client process ended early"), c.end())
	}
	return c, nil
}

// calls lets the child make so many calls.
func (c *callers) calls(n int) (done Called, err error) {
	if _, err := fmt.Fprintln(c.in, n); err != nil {
		return done, err
	}
	if !c.lines.Scan() {
		return done, errors.New("the client process ended early")
	}
	return done, json.Unmarshal(c.lines.Bytes(), &done)
}

// all lets the child make so many calls, none of which may fail.
func (c *callers) all(n int) error {
	done, err := c.calls(n)
	if err == nil && done.Failed > 0 {
		err = fmt.Errorf("%d of %d calls failed, the first: %s", done.Failed, n, done.Problem)
	}
	return err
}

// Called is what a child says of the calls that it made.
type Called struct {
	OK      int     `json:"ok"`
	Failed  int     `json:"failed"`
	WallS   float64 `json:"wall_s"`
	Problem string  `json:"problem,omitempty"` // of the first that failed
}
