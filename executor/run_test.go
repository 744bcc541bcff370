package executor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

func TestLinearRun(t *testing.T) {
	b := newBench(t)
	b.tool("user", `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`, "",
		returns(map[string]any{"name": "Ann", "orders": []any{"o1", "o2"}}))
	b.tool("order", `{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer"},"tag":{"type":"string"},"lang":{"type":"string"}},"required":["id","n"]}`, "", echo)
	profile := executor.DefaultCostProfile
	b.opts.CostProfile = &profile
	r := b.run(`
input_schema: {type: object, properties: {user: {type: string}, n: {type: integer}}, required: [user, n]}
on_context_collision: error
steps:
	- {tool_name: user, input_mapping: {id: user}, output_as: u}
	- tool_name: order
		input_mapping: {id: /u/orders/1, n: n, tag: {$const: "/u/name"}, lang: {$optional: /u/lang}}
		output_as: o
returns: {name: /u/name, order: o}
`, map[string]any{"user": "ann", "n": "7", "unknown": true})

	require.True(t, r.Success, "%+v", r.ExecutionLog)
	assert.Equal(t, executor.StatusSucceeded, r.Status)
	want := map[string]any{"id": "o2", "n": int64(7), "tag": "/u/name"}
	assert.Equal(t, map[string]any{"name": "Ann", "order": want}, r.FinalOutput)
	assert.Equal(t, map[string]any{"user": "ann", "n": int64(7)}, r.InitialInput, "the input is recorded coerced and pruned")
	assert.Equal(t, want, r.ExecutionLog[1].Inputs)
	assert.Equal(t, "id-2", r.TraceID)
	assert.InDelta(t, 0.03, r.CostReport.CostSavedUSD, 1e-12)
	r.CostReport.CostSavedUSD = 0
	assert.Equal(t, &executor.CostReport{StepsExecuted: 2, LLMCallsAvoided: 1, LatencySavedMS: 300,
		ActualExecutionMS: r.TotalDurationMS, Profile: profile}, r.CostReport)
	// start, (step start, step end) twice, end: readings of the clock one millisecond apart.
	assert.Equal(t, 5.0, r.TotalDurationMS)
	assert.Equal(t, 1.0, r.ExecutionLog[0].DurationMS)
}

func TestToolsCannotChangeRecordsOrContext(t *testing.T) {
	b := newBench(t)
	kept := map[string]any{"list": []any{int64(1)}, "deep": map[string]any{"k": "v"}}
	b.tool("produce", "", "", returns(kept))
	b.tool("typed", `{"type":"object","properties":{"list":{"type":"array"}},"required":["list"]}`,
		`{"type":"object","properties":{"list":{"type":"array"}},"required":["list"]}`, func(_ context.Context, in map[string]any) (any, error) {
			in["list"].([]any)[0] = "overwritten"
			in["extra"] = true
			return map[string]any{"list": in["list"]}, nil
		})
	b.tool("vandal", "", anyObject, func(_ context.Context, in map[string]any) (any, error) {
		in["p"].(map[string]any)["list"].([]any)[0] = "overwritten"
		in["p"].(map[string]any)["deep"] = nil
		kept["list"].([]any)[0] = "overwritten"
		kept["deep"].(map[string]any)["k"] = "overwritten"
		return map[string]any{}, nil
	})
	input := map[string]any{"caller": []any{"own"}}
	r := b.run(`
steps:
	- {tool_name: produce, output_as: p}
	- {tool_name: typed, input_mapping: {list: /p/list}, output_as: q}
	- {tool_name: vandal, output_as: v}
	- {tool_name: passthrough, output_as: last}
`, input)
	require.Equal(t, "CW-E001 Tool 'passthrough' is not registered.", code(r.ExecutionLog[3]))
	pristine := map[string]any{"list": []any{int64(1)}, "deep": map[string]any{"k": "v"}}
	assert.Equal(t, pristine, r.ExecutionLog[0].Outputs)
	assert.Equal(t, map[string]any{"list": []any{int64(1)}}, r.ExecutionLog[1].Inputs)
	assert.Equal(t, map[string]any{"list": []any{"overwritten"}}, r.ExecutionLog[1].Outputs, "a tool may return what it made of its own copy")
	assert.Equal(t, map[string]any{"p": pristine, "q": map[string]any{"list": []any{"overwritten"}}, "caller": []any{"own"}}, r.ExecutionLog[2].Inputs)
	input["caller"].([]any)[0] = "changed by the caller"
	assert.Equal(t, []any{"own"}, r.InitialInput["caller"])
}

func TestRecordsAreIdenticalOverRuns(t *testing.T) {
	run := func() string {
		b := newBench(t)
		b.tool("many", "", anyObject, func(_ context.Context, in map[string]any) (any, error) {
			out := map[string]any{}
			for _, k := range strings.Split("zyxwvutsrqponmlkjihgfedcba", "") {
				out[k] = map[string]any{"k": k, "n": 1.5, "list": []any{k, nil, true}}
			}
			return out, nil
		})
		b.tool("bad", `{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}}}`, "", echo)
		r := b.run("steps:\n\t- {tool_name: many}\n\t- {tool_name: many}\n\t- {tool_name: bad, input_mapping: {a: /a, b: /b}}\non_context_collision: warn\n", nil)
		data, err := json.Marshal(r)
		require.NoError(t, err)
		return string(data)
	}
	first := run()
	assert.Contains(t, first, "CW-E004")
	for range 20 {
		require.Equal(t, first, run())
	}
}

func TestRetries(t *testing.T) {
	flaky := func(times int, err error) func(context.Context, map[string]any) (any, error) {
		calls := 0
		return func(context.Context, map[string]any) (any, error) {
			if calls++; calls <= times {
				return nil, err
			}
			return map[string]any{"calls": calls}, nil
		}
	}
	cases := []struct {
		name   string
		err    error
		retry  string
		ok     bool
		slept  []time.Duration
		errors []string
	}{
		{"class listed", &executor.ToolError{Class: executor.ClassIO, Code: "http_status", Message: "503"}, "{max_retries: 3, backoff_seconds: 1, backoff_multiplier: 2, max_backoff_seconds: 1.5, retryable_errors: [io]}", true,
			[]time.Duration{time.Second, 1500 * time.Millisecond}, []string{"503 [http_status]", "503 [http_status]"}},
		{"class not listed", &executor.ToolError{Class: executor.ClassOther, Message: "no"}, "{max_retries: 3, retryable_errors: [io, timeout]}", false, nil, []string{"no"}},
		{"unknown class is other", &executor.ToolError{Class: "strange", Message: "no"}, "{max_retries: 2, backoff_seconds: 0, retryable_errors: [other]}", true, nil, []string{"no", "no"}},
		{"plain error is other", errors.New("plain"), "{max_retries: 2, backoff_seconds: 0.5, backoff_multiplier: 1, retryable_errors: [other]}", true,
			[]time.Duration{500 * time.Millisecond, 500 * time.Millisecond}, []string{"plain", "plain"}},
		{"exact type", &executor.ToolError{Class: executor.ClassIO, Type: "KeyError", Message: "k"}, "{max_retries: 2, backoff_seconds: 0, retryable_errors: [\"builtins:LookupError\"]}", false, nil, []string{"k"}},
		{"exhausted", &executor.ToolError{Class: executor.ClassTimeout, Message: "t"}, "{max_retries: 1, backoff_seconds: 0, retryable_errors: [timeout]}", false, nil, []string{"t", "t"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.tool("t", "", "", flaky(2, tc.err))
			r := b.run("steps:\n\t- {tool_name: t, retry: "+tc.retry+"}\n", nil)
			assert.Equal(t, tc.ok, r.Success, "%+v", r.ExecutionLog)
			assert.Equal(t, tc.slept, b.slept)
			assert.Equal(t, tc.errors, r.ExecutionLog[0].RetryErrors)
		})
	}
}

func TestBackoffJitterAndBounds(t *testing.T) {
	p := flows.RetryPolicy{BackoffSeconds: 2, BackoffMultiplier: 3, Jitter: true}
	assert.Equal(t, 3*time.Second, executor.Backoff(&p, 2, 0.5))
	p.MaxBackoffSeconds = 4
	assert.Equal(t, 6*time.Second, executor.Backoff(&p, 9, 1.5), "jitter spreads the capped delay")
	p = flows.RetryPolicy{BackoffSeconds: 1e300, BackoffMultiplier: 10}
	assert.Positive(t, executor.Backoff(&p, 1000, 1), "no overflow")
}

func TestOutputs(t *testing.T) {
	cyclic := map[string]any{}
	cyclic["self"] = cyclic
	limit := 20
	cases := []struct {
		name     string
		out      string
		fn       any
		cap      *int
		want     map[string]any
		wantCode string
	}{
		{"Go values become JSON values", "", map[string]any{"i": 7, "s": []string{"a"}, "f": float32(0.5), "n": json.Number("12"), "m": map[string]int{"x": 1}}, nil,
			map[string]any{"i": int64(7), "s": []any{"a"}, "f": 0.5, "n": int64(12), "m": map[string]any{"x": int64(1)}}, ""},
		{"big integers stay exact", "", map[string]any{"n": json.Number("123456789012345678901")}, nil, map[string]any{"n": json.Number("123456789012345678901")}, ""},
		{"list is wrapped", `{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]}`, []any{int64(1)}, nil, map[string]any{"result": []any{int64(1)}}, ""},
		{"null is wrapped without a schema", "", nil, nil, map[string]any{"result": nil}, ""},
		{"list where an object is declared", valueInt, []any{int64(1)}, nil, nil, "CW-E004"},
		{"not finite", "", map[string]any{"x": math.Inf(1)}, nil, nil, "CW-E006"},
		{"cyclic", "", cyclic, nil, nil, "CW-E006"},
		{"no JSON", "", make(chan int), nil, nil, "CW-E006"},
		{"at the cap", "", map[string]any{"k": "é34567"}, &limit, map[string]any{"k": "é34567"}, ""},
		{"past the cap", "", map[string]any{"k": "é345678"}, &limit, nil, "CW-E009"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.tool("t", "", tc.out, returns(tc.fn)).MaxOutputSize = tc.cap
			r := b.run("steps:\n\t- {tool_name: t}\n", nil)
			if tc.wantCode != "" {
				assert.False(t, r.Success)
				assert.Equal(t, tc.wantCode, cw(r.ExecutionLog[0]), code(r.ExecutionLog[0]))
				return
			}
			require.True(t, r.Success, code(r.ExecutionLog[0]))
			assert.Equal(t, tc.want, r.FinalOutput)
		})
	}
}

func TestPanicIsAFailedRecord(t *testing.T) {
	for _, prompt := range []bool{true, false} {
		b := newBench(t)
		b.register("t", "", "", func(context.Context, map[string]any) (any, error) { panic("kaboom") }, prompt)
		r := b.run("steps:\n\t- {tool_name: t}\n", nil)
		assert.Equal(t, "CW-E006 Execution error in tool 't' at step 0: tool panicked: kaboom [tool_panic]", code(r.ExecutionLog[0]))
	}
}

func TestLimits(t *testing.T) {
	b := newBench(t)
	b.opts.Limits = executor.Limits{MaxSteps: 3, MaxOutputBytes: 100, MaxContext: 150}
	b.tool("t", "", anyObject, returns(map[string]any{"k": strings.Repeat("x", 60)}))
	b.tool("big", "", anyObject, returns(map[string]any{"k": strings.Repeat("x", 100)}))
	assert.Equal(t, "CW-E009 Tool 'big' output size 109 exceeds max 100.", code(b.run("steps:\n\t- {tool_name: big}\n", nil).ExecutionLog[0]))
	step := "\t- {tool_name: t, output_as: %}\n"
	steps := func(n int) string {
		text := "steps:\n"
		for i := range n {
			text += strings.Replace(step, "%", string(rune('a'+i)), 1)
		}
		return text
	}
	assert.True(t, b.run(steps(2), nil).Success)
	r := b.run(steps(3), nil)
	require.Len(t, r.ExecutionLog, 3)
	assert.Equal(t, "CW-E009 The context of flow 'f' grew to 209 bytes at step 2 ('t'), above the limit of 150.", code(r.ExecutionLog[2]))
	r = b.run(steps(4), nil)
	require.Len(t, r.ExecutionLog, 1)
	assert.Equal(t, "CW-E017 Flow 'f' has 4 steps, above the limit max_steps of 3.", code(r.ExecutionLog[0]))
}

func TestHandBack(t *testing.T) {
	b := newBench(t)
	b.tool("user", "", "", returns(map[string]any{"name": "Ann", "status": "new"}))
	b.tool("boom", `{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`, "", fails(&executor.ToolError{Class: "io", Message: "down"}))
	t.Run("guard", func(t *testing.T) {
		r := b.run(`
steps:
	- {tool_name: user, output_as: u}
	- {tool_name: boom, guard: 'u["status"] == "old"', input_mapping: {id: n, extra: /u/missing}}
returns: {who: /u/name, later: /boom/x}
`, map[string]any{"n": int64(1)})
		assert.False(t, r.Success)
		assert.Equal(t, executor.StatusHandedBack, r.Status)
		assert.Len(t, r.ExecutionLog, 1, "a false guard has no record")
		assert.Equal(t, map[string]any{"who": "Ann"}, r.FinalOutput)
		assert.Equal(t, &executor.HandBack{StepIndex: 1, ToolName: "boom", Inputs: map[string]any{"id": int64(1)}, Reason: `guard is false: u["status"] == "old"`}, r.HandBack)
	})
	t.Run("failed step", func(t *testing.T) {
		const text = "steps:\n\t- {tool_name: user, output_as: u}\n\t- {tool_name: boom, input_mapping: {id: n}}\n"
		r := b.run(text+"on_failure: hand_back\n", map[string]any{"n": "5"})
		assert.Equal(t, executor.StatusHandedBack, r.Status)
		require.Len(t, r.ExecutionLog, 2)
		assert.False(t, r.ExecutionLog[1].Success)
		assert.Equal(t, &executor.HandBack{StepIndex: 1, ToolName: "boom", Inputs: map[string]any{"id": int64(5)},
			Reason: "step failed: CW-E006 Execution error in tool 'boom' at step 1: down"}, r.HandBack)
		assert.Equal(t, map[string]any{"n": "5", "u": map[string]any{"name": "Ann", "status": "new"}}, r.FinalOutput)

		r = b.run(text, map[string]any{"n": "5"})
		assert.Equal(t, executor.StatusFailed, r.Status)
		assert.Nil(t, r.FinalOutput)
		assert.Nil(t, r.HandBack)
	})
	t.Run("guard that cannot be evaluated", func(t *testing.T) {
		r := b.run("steps:\n\t- {tool_name: user, guard: 'n < \"x\"'}\n", map[string]any{"n": int64(1)})
		require.Len(t, r.ExecutionLog, 1)
		assert.Equal(t, executor.StatusFailed, r.Status)
		assert.Equal(t, "CW-E036", cw(r.ExecutionLog[0]))
	})
}

func TestFlowSchemas(t *testing.T) {
	b := newBench(t)
	b.tool("t", "", anyObject, returns(map[string]any{"x": "no number"}))
	const text = "input_schema: {type: object, properties: {n: {type: integer}}, required: [n]}\nsteps:\n\t- {tool_name: t}\n"
	r := b.run(text, map[string]any{"n": "x"})
	require.Len(t, r.ExecutionLog, 1)
	assert.Equal(t, -1, r.ExecutionLog[0].StepIndex)
	assert.Equal(t, "CW-E004", cw(r.ExecutionLog[0]))
	assert.Equal(t, map[string]any{"n": "x"}, r.InitialInput)

	r = b.run(text+"output_schema: {type: object, properties: {y: {type: integer}}, required: [y]}\nreturns: {y: x}\n", map[string]any{"n": 1})
	require.Len(t, r.ExecutionLog, 2)
	assert.Equal(t, 1, r.ExecutionLog[1].StepIndex)
	assert.Contains(t, code(r.ExecutionLog[1]), "flow_output 'f' at step 1: y: ", "the output schema describes what returns projects")
	assert.Nil(t, r.FinalOutput)

	r = b.run(text+"returns: {y: missing}\n", map[string]any{"n": 1})
	assert.Equal(t, "CW-E005 Input mapping key 'missing' not found for tool 'f' at step 1.", code(r.ExecutionLog[1]))
}

func TestUnresolvedSchemaReference(t *testing.T) {
	b := newBench(t)
	b.tool("t", "", "", returns(map[string]any{"x": int64(1)}))
	r := b.run("output_schema_ref: \"m:Out\"\nsteps:\n\t- {tool_name: t}\n", nil)
	require.Len(t, r.ExecutionLog, 2)
	assert.Equal(t, "CW-E017 Schema 'm:Out' of flow_output 'f' is not registered.", code(r.ExecutionLog[1]))
	assert.True(t, r.ExecutionLog[0].Success, "the partial trace is kept")
}

func TestDryRun(t *testing.T) {
	b := newBench(t)
	calls := 0
	count := func(context.Context, map[string]any) (any, error) { calls++; return map[string]any{"x": calls}, nil }
	b.tool("read", "", "", count).Safety.SideEffects = flows.EffectRead
	b.tool("write", "", "", count).Safety.SideEffects = flows.EffectWrite
	b.tool("unknown", "", "", count).Safety = nil
	plan := b.plan("steps:\n\t- {tool_name: read}\n\t- {tool_name: write, output_mapping: {y: x}}\n\t- {tool_name: unknown}\n")
	engine := executor.New(b.opts)
	r := engine.Run(context.Background(), plan, executor.RunInput{DryRun: true})
	require.True(t, r.Success)
	assert.True(t, r.DryRun)
	assert.Equal(t, 1, calls)
	assert.Equal(t, []bool{false, true, true}, []bool{r.ExecutionLog[0].Skipped, r.ExecutionLog[1].Skipped, r.ExecutionLog[2].Skipped})
	r = engine.Run(context.Background(), plan, executor.RunInput{DryRun: true, DryRunUnsupported: executor.DryRunAbort})
	assert.Len(t, r.ExecutionLog, 2)
	assert.False(t, r.ExecutionLog[1].Skipped)
	assert.Contains(t, code(r.ExecutionLog[1]), "dry-run abort")
}

func TestSafetyGate(t *testing.T) {
	b := newBench(t)
	called := false
	fn := func(context.Context, map[string]any) (any, error) { called = true; return map[string]any{}, nil }
	b.tool("pay", "", "", fn).Safety.RequiresApproval = true
	b.tool("unknown", "", "", fn).Safety = nil
	assert.True(t, b.run("steps:\n\t- {tool_name: pay}\n", nil).Success, "advisory unless safety is strict")
	called = false
	b.opts.StrictSafety, b.opts.MaxSideEffects = true, flows.EffectWrite
	assert.Equal(t, "CW-E029", cw(b.run("steps:\n\t- {tool_name: pay, on_error: skip}\n", nil).ExecutionLog[0]))
	assert.Equal(t, "CW-E030 Tool 'unknown' at step 0 has side-effect level 'external' which exceeds the configured ceiling 'write'.",
		code(b.run("steps:\n\t- {tool_name: unknown, on_error: skip}\n", nil).ExecutionLog[0]))
	assert.False(t, called)
}

func TestEvents(t *testing.T) {
	b := newBench(t)
	b.tool("t", "", "", returns(map[string]any{"x": int64(1)}))
	plan := b.plan("steps:\n\t- {tool_name: t}\n\t- {tool_name: t, input_mapping: {a: missing}}\n")
	var got []string
	r := executor.New(b.opts).Run(context.Background(), plan, executor.RunInput{TraceID: "tr", OnEvent: func(e executor.Event) {
		assert.Equal(t, "f", e.FlowName)
		assert.Equal(t, "tr", e.TraceID)
		got = append(got, string(e.Kind)+" "+e.ToolName)
		if e.Kind == executor.EventFlowEnd {
			assert.Equal(t, executor.StatusFailed, e.Result.Status)
		}
		panic("a listener's mistake")
	}})
	assert.Equal(t, executor.StatusFailed, r.Status)
	assert.Equal(t, []string{"flow_start ", "step_start t", "step_end t", "step_end t", "flow_end "}, got)
}

func TestCollisionsAreLogged(t *testing.T) {
	b := newBench(t)
	var out bytes.Buffer
	b.opts.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b.tool("t", "", `{"type":"object","properties":{"b":{},"a":{},"c":{}}}`, returns(map[string]any{"a": "secret-a", "b": 1, "c": 1}))
	b.run("steps:\n\t- {tool_name: t}\n", map[string]any{"a": 1, "b": 2})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2)
	assert.Contains(t, lines[0], "context_key=b", "in declaration order")
	assert.Contains(t, lines[1], "context_key=a")
	assert.NotContains(t, out.String(), "secret-a")
}

func TestMux(t *testing.T) {
	b := newBench(t)
	b.tool("unbound", "", "", echo).Binding = nil
	b.tool("elsewhere", "", "", echo).Binding = &flows.Binding{Kind: "worker", Pool: "p"}
	b.tool("gone", "", "", echo).Binding.Local = "gone_for_good"
	for _, name := range []string{"unbound", "elsewhere", "gone"} {
		r := b.run("steps:\n\t- {tool_name: "+name+"}\n", nil)
		assert.Contains(t, code(r.ExecutionLog[0]), "[unbound_tools]")
	}
	assert.Equal(t, []string{"unbound"}, b.plan("steps:\n\t- {tool_name: unbound, on_error: \"fallback:gone\"}\n").Unbound())
}

func TestGate(t *testing.T) {
	for status, open := range map[flows.Status]bool{flows.StatusActive: true, "": true, flows.StatusNeedsReview: false, flows.StatusDisabled: false} {
		flow := &flows.Flow{Name: "f", Status: status}
		err := executor.Gate(flow, false)
		assert.Equal(t, open, err == nil, "%q: %v", status, err)
		if err != nil {
			assert.Equal(t, flows.CodeFlowStatus, flows.CodeOf(err))
			assert.ErrorIs(t, err, flows.CWFlowStatus)
		}
		assert.NoError(t, executor.Gate(flow, true))
	}
}

func TestEngineIsSafeForConcurrentUse(t *testing.T) {
	b := newBench(t)
	b.register("inc", valueInt, valueInt, func(_ context.Context, in map[string]any) (any, error) {
		return map[string]any{"value": in["value"].(int64) + 1}, nil
	}, false)
	plan := b.plan("on_context_collision: overwrite\nsteps:\n" + strings.Repeat("\t- {tool_name: inc, input_mapping: {value: value}}\n", 5))
	engine := executor.New(b.opts)
	var wg sync.WaitGroup
	for i := range int64(16) {
		wg.Go(func() {
			for range 20 {
				r := engine.Run(context.Background(), plan, executor.RunInput{Input: map[string]any{"value": i}})
				assert.Equal(t, map[string]any{"value": i + 5}, r.FinalOutput)
			}
		})
	}
	wg.Wait()
}
