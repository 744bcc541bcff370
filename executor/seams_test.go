package executor_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

type deciderFunc func(context.Context, executor.DecisionRequest) (string, error)

func (f deciderFunc) Decide(ctx context.Context, d executor.DecisionRequest) (string, error) {
	return f(ctx, d)
}

func TestDecisions(t *testing.T) {
	b := newBench(t)
	b.tool("short", "", "", returns(map[string]any{"v": "short"}))
	b.tool("long", "", "", returns(map[string]any{"v": "long"}))
	var asked []executor.DecisionRequest
	b.opts.Decider = deciderFunc(func(_ context.Context, d executor.DecisionRequest) (string, error) {
		asked = append(asked, d)
		d.Context["n"] = "changed"
		if d.StepIndex == 2 {
			panic("no route")
		}
		return "long", nil
	})
	const step = "\t- {tool_name: short, decision_candidates: [short, long, gone]}\n"
	plan, found := executor.Compile(b.flow("on_context_collision: overwrite\nsteps:\n"+step+"\t- {tool_name: short, output_mapping: {}}\n"+step), b.tools, executor.CompileOptions{})
	require.NotNil(t, plan)
	require.True(t, executor.HasErrors(found), "a candidate that nobody knows is reported")
	assert.Equal(t, "gone", found[0].ToolName)
	r := executor.New(b.opts).Run(context.Background(), plan, executor.RunInput{Input: map[string]any{"n": int64(1)}})
	require.Len(t, asked, 2)
	assert.Equal(t, []string{"short", "long", "gone"}, asked[0].Candidates)
	assert.Equal(t, "long", r.ExecutionLog[0].ToolName)
	assert.Equal(t, map[string]any{"v": "long"}, r.ExecutionLog[0].Outputs)
	assert.Equal(t, map[string]any{"n": int64(1)}, r.ExecutionLog[0].Inputs, "what the decider changes is its own copy")
	assert.Nil(t, r.ExecutionLog[1].Decision)
	assert.Equal(t, "CW-E031 Decision callback for step 2 (default tool 'short') failed: callback raised error: panic: no route", code(r.ExecutionLog[2]))
}

func TestDecisionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.tool("short", "", "", returns(map[string]any{"v": "short"}))
		b.tool("long", "", "", returns(map[string]any{"v": "long"}))
		b.opts.Decider = deciderFunc(func(context.Context, executor.DecisionRequest) (string, error) {
			time.Sleep(time.Minute) // deaf to its context
			return "long", nil
		})
		plan := b.plan("steps:\n\t- {tool_name: short, decision_candidates: [short, long]}\n")
		for onTimeout, want := range map[string]string{"": "CW-E049 Decision callback for step 0 (default tool 'short') exceeded its timeout of 1s.", executor.OnTimeoutDefault: ""} {
			b.opts.Decisions = executor.DecisionPolicy{Timeout: time.Second, OnTimeout: onTimeout}
			engine := executor.New(b.opts)
			r := engine.Run(context.Background(), plan, executor.RunInput{})
			assert.Equal(t, want, code(r.ExecutionLog[0]))
			running, total := engine.AbandonedCalls()
			assert.Equal(t, [2]int64{1, 1}, [2]int64{running, total})
			if want == "" {
				assert.True(t, r.ExecutionLog[0].Decision.TimedOut)
				assert.Equal(t, "short", r.ExecutionLog[0].Decision.Chosen)
			}
			time.Sleep(2 * time.Minute)
			running, _ = engine.AbandonedCalls()
			assert.Zero(t, running)
		}
	})
}

type guardFunc func(executor.GuardrailCall) error

func (f guardFunc) Check(_ context.Context, g executor.GuardrailCall) error { return f(g) }

func TestGuardrails(t *testing.T) {
	b := newBench(t)
	b.tool("a", "", "", returns(map[string]any{"secret": "x"}))
	b.tool("bad", "", "", fails(errors.New("no")))
	var seen []string
	block := ""
	b.opts.Guardrail = guardFunc(func(g executor.GuardrailCall) error {
		key := fmt.Sprintf("%s %s %v", g.Stage, g.ToolName, g.Outputs)
		seen = append(seen, key)
		if key == block {
			return &executor.ToolError{Type: "Leak", Message: "not that"}
		}
		return nil
	})
	const text = "steps:\n\t- {tool_name: bad, on_error: 'fallback:a'}\n"
	r := b.run(text, nil)
	require.True(t, r.Success)
	all := []string{"input bad map[]", "input a map[]", "output a map[secret:x]"}
	assert.Equal(t, all, seen)
	for i, want := range []string{"Guardrail blocked tool 'bad' at step 0: input", "Guardrail blocked tool 'a' at step 0: input", "Guardrail blocked tool 'a' at step 0: output"} {
		block = all[i]
		r := b.run(text, nil)
		assert.Equal(t, "CW-E052 "+want+" guardrail raised Leak: not that", code(r.ExecutionLog[0]))
		assert.Nil(t, r.ExecutionLog[0].Outputs)
	}
	block = all[0]
	r = b.run("steps:\n\t- {tool_name: bad, on_error: skip}\n", nil)
	assert.Equal(t, "CW-E052", cw(r.ExecutionLog[0]), "on_error does not cover a guardrail")
}

func TestStepCache(t *testing.T) {
	b := newBench(t)
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	cache := executor.NewMemoryCache(executor.CacheLimits{Entries: 2, TTL: time.Minute}, func() time.Time { return now })
	b.opts.Cache = cache
	calls := 0
	count := func(_ context.Context, in map[string]any) (any, error) {
		calls++
		return map[string]any{"n": calls, "l": []any{in["value"]}}, nil
	}
	b.tool("count", valueInt, "", count)
	b.tool("write", valueInt, "", count).Safety.SideEffects = flows.EffectWrite
	engine := executor.New(b.opts)
	run := func(tool string, v int, in executor.RunInput) *executor.RunResult {
		in.Input = map[string]any{"value": v}
		return engine.Run(context.Background(), b.plan("steps:\n\t- {tool_name: "+tool+", output_as: o}\n"), in)
	}
	first := run("count", 1, executor.RunInput{})
	second := run("count", 1, executor.RunInput{})
	assert.True(t, second.ExecutionLog[0].Cached)
	assert.Equal(t, first.ExecutionLog[0].Outputs, second.ExecutionLog[0].Outputs)
	assert.False(t, run("count", 1, executor.RunInput{CacheScope: "other"}).ExecutionLog[0].Cached, "scopes do not share")
	assert.False(t, run("count", 1, executor.RunInput{DryRun: true}).ExecutionLog[0].Cached)
	run("write", 1, executor.RunInput{})
	assert.False(t, run("write", 1, executor.RunInput{}).ExecutionLog[0].Cached, "a tool that writes is called every time")
	now = now.Add(time.Minute)
	assert.False(t, run("count", 1, executor.RunInput{}).ExecutionLog[0].Cached, "expired")
	for v := range 5 {
		run("count", v, executor.RunInput{})
	}
	assert.Equal(t, 2, cache.Len())
	assert.True(t, run("count", 4, executor.RunInput{}).ExecutionLog[0].Cached)
	assert.False(t, run("count", 0, executor.RunInput{}).ExecutionLog[0].Cached, "evicted")
}

func TestCacheBytes(t *testing.T) {
	c := executor.NewMemoryCache(executor.CacheLimits{Bytes: 100}, time.Now)
	c.Put("big", map[string]any{}, 98)
	assert.Equal(t, 0, c.Len(), "larger than the cache with its key")
	c.Put("k1", map[string]any{"v": 1}, 48)
	c.Put("k2", map[string]any{}, 48)
	_, size, ok := c.Get("k1")
	assert.True(t, ok)
	assert.Equal(t, 48, size)
	c.Put("k3", map[string]any{}, 10)
	_, _, ok = c.Get("k2")
	assert.False(t, ok, "used least recently")
	c.Put("k1", map[string]any{}, 1)
	assert.Equal(t, 2, c.Len())
}

func TestPreviews(t *testing.T) {
	b := newBench(t)
	pay := b.tool("pay", "", "", func(context.Context, map[string]any) (any, error) {
		t.Error("a dry run has no side effects")
		return nil, nil
	})
	pay.Safety.SideEffects, pay.Safety.SupportsDryRun = flows.EffectWrite, true
	b.reg.RegisterPreview("pay", returns(map[string]any{"would": "pay"}))
	plan := b.plan("steps:\n\t- {tool_name: pay}\n")
	r := executor.New(b.opts).Run(context.Background(), plan, executor.RunInput{DryRun: true})
	require.True(t, r.Success)
	assert.Equal(t, map[string]any{"would": "pay"}, r.FinalOutput)
	b.reg.RegisterPreview("pay", fails(errors.New("no idea")))
	r = executor.New(b.opts).Run(context.Background(), b.plan("steps:\n\t- {tool_name: pay, on_error: skip}\n"), executor.RunInput{DryRun: true})
	assert.Equal(t, "CW-E006 Execution error in tool 'pay' at step 0: no idea", code(r.ExecutionLog[0]), "on_error does not cover a preview")
	assert.False(t, r.Success)
}

type kernelFunc func(executor.CapabilityCall) (map[string]any, error)

func (f kernelFunc) InvokeCapability(_ context.Context, c executor.CapabilityCall) (map[string]any, error) {
	return f(c)
}

func TestCapabilities(t *testing.T) {
	b := newBench(t)
	const text = "steps:\n\t- {step_id: A, tool_name: c, step_type: capability, capability_id: shop.quote, input_mapping: {n: n}, output_as: q, retry: {max_retries: 1, backoff_seconds: 0}}\n"
	r := b.runDAG(text, executor.RunInput{Input: map[string]any{"n": 1}})
	assert.Contains(t, code(r.ExecutionLog[0]), "CW-E006 Execution error in tool 'c' at step 0: Step 'A' has step_type='capability' and no kernel")
	var mu sync.Mutex
	var keys []string
	b.opts.Kernel = kernelFunc(func(c executor.CapabilityCall) (map[string]any, error) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, c.IdempotencyKey)
		if len(keys) == 1 {
			return nil, &executor.ToolError{Class: executor.ClassIO, Message: "down"}
		}
		return map[string]any{"id": c.CapabilityID, "n": c.Inputs["n"]}, nil
	})
	r = b.runDAG(text, executor.RunInput{Input: map[string]any{"n": 1}, RunID: "R"})
	require.True(t, r.Success, "%+v", r.ExecutionLog)
	assert.Equal(t, map[string]any{"n": int64(1), "q": map[string]any{"id": "shop.quote", "n": int64(1)}}, r.FinalOutput)
	assert.Equal(t, []string{"R-0", "R-0"}, keys)
	b.opts.Kernel = kernelFunc(func(executor.CapabilityCall) (map[string]any, error) { panic("kernel") })
	r = b.runDAG(text, executor.RunInput{Input: map[string]any{"n": 1}})
	assert.Equal(t, "CW-E032 Capability 'shop.quote' failed at step 0 (attempt 2): panic: kernel", code(r.ExecutionLog[0]))
}
