package executor_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pave/executor"
	"pave/executor/bind/local"
	"pave/flows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a small world: tools as Go functions, and an engine over them.
type bench struct {
	t     *testing.T
	tools executor.Tools
	reg   *local.Registry
	opts  executor.Options
	slept []time.Duration
	mu    sync.Mutex
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, tools: executor.Tools{}, reg: local.New()}
	var ids, ticks atomic.Int64
	start := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	b.opts = executor.Options{
		Invoker: executor.NewMux(map[string]executor.Invoker{local.Kind: b.reg}),
		// Every reading of the clock is a millisecond later than the one before.
		Now:   func() time.Time { return start.Add(time.Duration(ticks.Add(1)) * time.Millisecond) },
		NewID: func() string { return fmt.Sprintf("id-%d", ids.Add(1)) },
		Sleep: func(ctx context.Context, d time.Duration) error {
			b.mu.Lock()
			b.slept = append(b.slept, d)
			b.mu.Unlock()
			return ctx.Err()
		},
	}
	return b
}

// tool registers a tool. Schemas are JSON; "" is none.
func (b *bench) tool(name, in, out string, fn local.Func) *flows.Tool {
	b.t.Helper()
	return b.register(name, in, out, fn, true)
}

func (b *bench) register(name, in, out string, fn local.Func, prompt bool) *flows.Tool {
	safety := flows.DefaultSafety()
	tool := &flows.Tool{Name: name, Binding: &flows.Binding{Kind: local.Kind}, Safety: &safety}
	if in != "" {
		tool.InputSchema = flows.RawSchema(in)
	}
	if out != "" {
		tool.OutputSchema = flows.RawSchema(out)
	}
	b.tools[name] = tool
	b.reg.Register(name, fn, prompt)
	return tool
}

// flow reads a flow in YAML.
func (b *bench) flow(text string) *flows.Flow {
	b.t.Helper()
	head := "format_version: \"1.1\"\ntype: Flow\nname: f\nversion: 1.0.0\ndescription: d\n"
	flow, _, err := flows.ParseFlow([]byte(head + strings.ReplaceAll(text, "\t", "  ")))
	require.NoError(b.t, err)
	return flow
}

func (b *bench) plan(text string) *executor.Plan {
	b.t.Helper()
	plan, found := executor.Compile(b.flow(text), b.tools, executor.CompileOptions{})
	require.NotNil(b.t, plan, "%v", found)
	return plan
}

func (b *bench) run(text string, input map[string]any) *executor.RunResult {
	b.t.Helper()
	return executor.New(b.opts).Run(context.Background(), b.plan(text), executor.RunInput{Input: input})
}

const (
	anyObject = `{"type":"object","additionalProperties":true}`
	valueInt  = `{"type":"object","properties":{"value":{"type":"integer"}},"required":["value"]}`
)

func echo(_ context.Context, input map[string]any) (any, error) { return input, nil }

func returns(v any) local.Func {
	return func(context.Context, map[string]any) (any, error) { return v, nil }
}

func fails(err error) local.Func {
	return func(context.Context, map[string]any) (any, error) { return nil, err }
}

// code is a record's error code and message.
func code(r executor.StepRecord) string {
	if r.ErrorCode == nil {
		return ""
	}
	return *r.ErrorCode + " " + *r.ErrorMessage
}

// cw is a record's error code alone.
func cw(r executor.StepRecord) string {
	code, _, _ := strings.Cut(code(r), " ")
	return code
}
