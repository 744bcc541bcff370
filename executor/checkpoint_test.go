package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

// keeper keeps checkpoints as JSON, and every one that was ever saved.
type keeper struct {
	mu    sync.Mutex
	last  map[string][]byte
	every [][]byte
}

func newKeeper() *keeper { return &keeper{last: map[string][]byte{}} }

func (k *keeper) Save(_ context.Context, c *executor.Checkpoint) error {
	raw, err := json.Marshal(c)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last[c.RunID] = raw
	k.every = append(k.every, raw)
	return err
}

func (k *keeper) Load(_ context.Context, runID string) (*executor.Checkpoint, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	raw, ok := k.last[runID]
	if !ok {
		return nil, nil
	}
	c := new(executor.Checkpoint)
	return c, json.Unmarshal(raw, c)
}

func (k *keeper) Delete(_ context.Context, runID string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.last, runID)
	return nil
}

// approvals answers by the tool and place of a request; what it does not know is pending.
type approvals struct {
	mu     sync.Mutex
	answer map[string]executor.ApprovalDecision
	asked  []string
}

func (a *approvals) Approve(_ context.Context, r executor.ApprovalRequest) (executor.ApprovalDecision, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := r.Path + " " + r.ToolName
	a.asked = append(a.asked, key)
	if d, ok := a.answer[key]; ok {
		return d, nil
	}
	return executor.ApprovalDecision{Decision: executor.Pending}, nil
}

func (b *bench) needsApproval(name string, fn func(context.Context, map[string]any) (any, error)) {
	s := b.tool(name, "", "", fn).Safety
	s.SideEffects, s.RequiresApproval, s.ApprovalReason = flows.EffectWrite, true, "moves money"
}

func TestARunWaitsForItsApproval(t *testing.T) {
	b := newBench(t)
	calls := map[string]int{}
	count := func(name string) func(context.Context, map[string]any) (any, error) {
		return func(context.Context, map[string]any) (any, error) {
			calls[name]++
			return map[string]any{name: 1.0}, nil
		}
	}
	b.tool("look", "", "", count("look"))
	b.needsApproval("pay", count("pay"))
	kept, asked := newKeeper(), &approvals{answer: map[string]executor.ApprovalDecision{}}
	b.opts.Checkpoints, b.opts.Approver = kept, asked
	plan := b.plan("steps:\n\t- {tool_name: look}\n\t- {tool_name: pay, input_mapping: {amount: amount}}\n\t- {tool_name: look, output_mapping: {}}\n")
	r := executor.New(b.opts).Run(context.Background(), plan, executor.RunInput{Input: map[string]any{"amount": 2.0}, RunID: "R"})
	assert.Equal(t, executor.StatusAwaitingApproval, r.Status)
	assert.False(t, r.Success)
	require.Len(t, r.ExecutionLog, 1)
	require.Equal(t, []executor.ApprovalRequest{{RunID: "R", FlowName: "f", FlowVersion: "1.0.0", Path: "1", StepIndex: 1, ToolName: "pay",
		SideEffects: flows.EffectWrite, Reason: "moves money", Inputs: map[string]any{"amount": 2.0}}}, r.Awaiting)
	require.NotNil(t, r.Checkpoint)

	// Another process, with the plan compiled anew, asks again and goes on where the run waits.
	again, err := executor.New(b.opts).ResumeRun(context.Background(), plan, "R", executor.RunInput{})
	require.NoError(t, err)
	assert.Equal(t, executor.StatusAwaitingApproval, again.Status)
	asked.answer["1 pay"] = executor.ApprovalDecision{Decision: executor.Approve, Reason: "by ann"}
	done, err := executor.New(b.opts).ResumeRun(context.Background(), plan, "R", executor.RunInput{})
	require.NoError(t, err)
	require.True(t, done.Success, "%+v", done.ExecutionLog)
	assert.Equal(t, map[string]any{"amount": 2.0, "look": 1.0, "pay": 1.0}, done.FinalOutput, "numbers keep their kind over the wait")
	assert.Equal(t, map[string]int{"look": 2, "pay": 1}, calls, "what has run is not run again")
	assert.Equal(t, r.TraceID, done.TraceID)
	require.Len(t, done.ExecutionLog, 3)
	assert.Equal(t, "by ann", *done.ExecutionLog[1].Approval.Reason)
	assert.Empty(t, kept.last, "the checkpoint goes when the run ends")
	_, err = executor.New(b.opts).ResumeRun(context.Background(), plan, "R", executor.RunInput{})
	assert.ErrorIs(t, err, flows.CWCheckpointNotFound)

	asked.answer = map[string]executor.ApprovalDecision{"1 pay": {Decision: executor.Deny, Reason: "expired"}}
	denied := executor.New(b.opts).Run(context.Background(), plan, executor.RunInput{Input: map[string]any{"amount": 2.0}})
	assert.Equal(t, "CW-E029 Approval denied for tool 'pay' at step 1: expired.", code(denied.ExecutionLog[1]))
	assert.Equal(t, &executor.Approval{Decision: "deny", Reason: denied.ExecutionLog[1].Approval.Reason}, denied.ExecutionLog[1].Approval)
}

// TestWaitingInsideLevelsFlowsAndElements: approvals are asked for at once, steps that have ended beside a waiting one
// do not run again, and a flow that waits within an element goes on there.
func TestWaitingInsideLevelsFlowsAndElements(t *testing.T) {
	b := newBench(t)
	var mu sync.Mutex
	calls := map[string]int{}
	count := func(_ context.Context, in map[string]any) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		calls[fmt.Sprint(in["x"])]++
		return map[string]any{"y": in["x"]}, nil
	}
	b.tool("look", "", "", count)
	b.needsApproval("pay", count)
	kept, asked := newKeeper(), &approvals{answer: map[string]executor.ApprovalDecision{}}
	b.opts.Checkpoints, b.opts.Approver = kept, asked
	set := flowSet{"in": b.named("in", "steps:\n\t- {tool_name: look, input_mapping: {x: a}}\n\t- {tool_name: pay, input_mapping: {x: b}, guard: 'b != \"free\"', output_as: paid}\n")}
	head := "format_version: \"1.1\"\ntype: DAGFlow\nname: g\nversion: 1.0.0\ndescription: d\n"
	flow, _, err := flows.ParseFlow([]byte(head + `
steps:
  - {step_id: A, tool_name: look, input_mapping: {x: {$const: beside}}, output_as: a}
  - {step_id: B, flow_name: in, for_each: xs, as: x, max_concurrency: 2, input_mapping: {a: x, b: {$expr: "x + '!'"}}, output_as: b}
  - {step_id: C, tool_name: look, depends_on: [A, B], input_mapping: {x: {$const: last}}, output_as: c}
`))
	require.NoError(t, err)
	plan, found := executor.Compile(flow, b.tools, executor.CompileOptions{Flows: set})
	require.NotNil(t, plan, "%v", found)
	in := executor.RunInput{Input: map[string]any{"xs": []any{"p", "q"}}, RunID: "R"}
	r := executor.New(b.opts).Run(context.Background(), plan, in)
	require.Equal(t, executor.StatusAwaitingApproval, r.Status)
	require.Len(t, r.Awaiting, 2)
	assert.Equal(t, "1:0/1", r.Awaiting[0].Path)
	assert.Equal(t, "1:1/1", r.Awaiting[1].Path)

	asked.answer["1:1/1 pay"] = executor.ApprovalDecision{Decision: executor.Approve}
	r, err = executor.New(b.opts).ResumeRun(context.Background(), plan, "R", executor.RunInput{})
	require.NoError(t, err)
	require.Equal(t, executor.StatusAwaitingApproval, r.Status)
	require.Len(t, r.Awaiting, 1, "the other element has gone on")
	asked.answer["1:0/1 pay"] = executor.ApprovalDecision{Decision: executor.Approve}
	r, err = executor.New(b.opts).ResumeRun(context.Background(), plan, "R", executor.RunInput{})
	require.NoError(t, err)
	require.True(t, r.Success, "%+v", r.ExecutionLog)
	assert.Equal(t, map[string]int{"beside": 1, "p": 1, "q": 1, "p!": 1, "q!": 1, "last": 1}, calls)

	// The same run without waiting gives the same records.
	calls = map[string]int{}
	whole := executor.New(b.opts).Run(context.Background(), plan, in)
	assert.Equal(t, masked(t, whole), masked(t, r))
}

// masked is a result's JSON without times and ids.
func masked(t testing.TB, r *executor.RunResult) string {
	data, err := executor.EncodeResult(r)
	require.NoError(t, err)
	var tree any
	require.NoError(t, json.Unmarshal(data, &tree))
	var mask func(v any)
	mask = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range []string{"started_at", "ended_at", "duration_ms", "total_duration_ms", "actual_execution_ms", "trace_id"} {
				delete(v, k)
			}
			for _, e := range v {
				mask(e)
			}
		case []any:
			for _, e := range v {
				mask(e)
			}
		}
	}
	mask(tree)
	out, err := json.Marshal(tree)
	require.NoError(t, err)
	return string(out)
}

func TestResumeFromEveryCheckpoint(t *testing.T) {
	b := newBench(t)
	b.tool("p", "", "", returns(map[string]any{}))
	b.tool("t", "", "", returns(map[string]any{"v": 1.0}))
	profile := executor.DefaultCostProfile
	b.opts.CostProfile = &profile
	plan, _ := b.dagPlan(branching)
	for _, n := range []int64{0, 3, 9} {
		kept := newKeeper()
		b.opts.Checkpoints = kept
		whole := executor.New(b.opts).Run(context.Background(), plan, executor.RunInput{Input: map[string]any{"n": n}})
		require.True(t, whole.Success)
		require.Len(t, kept.every, 4)
		for _, raw := range kept.every {
			var c executor.Checkpoint
			require.NoError(t, json.Unmarshal(raw, &c))
			r, err := executor.New(b.opts).Resume(context.Background(), plan, &c, executor.RunInput{})
			require.NoError(t, err)
			assert.Equal(t, masked(t, whole), masked(t, r), "after level %d", c.CompletedLevels)
		}
	}
}

func TestResumeRefuses(t *testing.T) {
	b := newBench(t)
	kept := newKeeper()
	b.opts.Checkpoints, b.opts.KeepCheckpoints = kept, true
	b.tool("ok", "", "", echo)
	bad := true
	b.tool("bad", valueInt, "", func(context.Context, map[string]any) (any, error) {
		if bad {
			return nil, errors.New("no")
		}
		return map[string]any{"done": true}, nil
	})
	const text = "steps:\n\t- {tool_name: ok}\n\t- {tool_name: bad, input_mapping: {value: v}}\n"
	plan := b.plan(text)
	r := executor.New(b.opts).Run(context.Background(), plan, executor.RunInput{RunID: "R", Input: map[string]any{"v": 1}})
	require.Equal(t, executor.StatusFailed, r.Status)
	engine := executor.New(b.opts)

	other := *b.flow(text)
	other.Version = "2.0.0"
	changed, _ := executor.Compile(&other, b.tools, executor.CompileOptions{})
	_, err := engine.ResumeRun(context.Background(), changed, "R", executor.RunInput{})
	assert.ErrorIs(t, err, flows.CWCheckpointDrift)
	b.tools["bad"].OutputSchema = flows.RawSchema(valueInt)
	_, err = engine.ResumeRun(context.Background(), b.plan(text), "R", executor.RunInput{})
	require.ErrorIs(t, err, flows.CWCheckpointDrift)
	assert.Contains(t, err.Error(), "tool 'bad' has changed")
	assert.Equal(t, flows.CodeConflict, flows.CodeOf(err))
	b.tools["bad"].OutputSchema = nil

	c, err := kept.Load(context.Background(), "R")
	require.NoError(t, err)
	c.SnapshotVersion = "2"
	_, err = engine.Resume(context.Background(), plan, c, executor.RunInput{})
	assert.ErrorIs(t, err, flows.CWCheckpointVersion)
	b.opts.Checkpoints = nil
	_, err = executor.New(b.opts).ResumeRun(context.Background(), plan, "R", executor.RunInput{})
	assert.ErrorIs(t, err, flows.CWCheckpointNotConfigured)
	c.SnapshotVersion, c.CompletedSteps = "1", 7
	r, err = engine.Resume(context.Background(), plan, c, executor.RunInput{})
	require.NoError(t, err)
	assert.Equal(t, "CW-E018", cw(r.ExecutionLog[0]), "a damaged checkpoint fails the run")

	bad = false
	r, err = engine.ResumeRun(context.Background(), b.plan(text), "R", executor.RunInput{})
	require.NoError(t, err)
	assert.True(t, r.Success)
}

func TestDynamicParamsStayOutOfWhatIsKept(t *testing.T) {
	b := newBench(t)
	const secret = "s3cr3t-token"
	b.tool("ok", "", "", echo)
	bad := true
	b.tool("bad", "", "", func(_ context.Context, in map[string]any) (any, error) {
		if bad {
			return nil, fmt.Errorf("refused %v", in["t"])
		}
		return in, nil
	})
	kept := newKeeper()
	b.opts.Checkpoints, b.opts.KeepCheckpoints = kept, true
	var seen []string
	in := executor.RunInput{RunID: "R", Input: map[string]any{"n": 1, "token": "from the input"}, DynamicParams: map[string]any{"token": secret, "pin": 1234},
		OnEvent: func(e executor.Event) {
			raw, err := json.Marshal(e)
			assert.NoError(t, err)
			seen = append(seen, string(raw))
		}}
	plan := b.plan("dynamic_params: [token, pin]\nsteps:\n\t- {tool_name: ok, input_mapping: {t: token, u: {$expr: \"'Bearer ' + token\"}, pin: pin}, output_mapping: {}}\n\t- {tool_name: bad, input_mapping: {t: token}, output_as: o}\n")
	r := executor.New(b.opts).Run(context.Background(), plan, in)
	require.Equal(t, executor.StatusFailed, r.Status)
	assert.Equal(t, map[string]any{"t": secret, "u": "Bearer " + secret, "pin": int64(1234)}, r.ExecutionLog[0].Inputs, "the caller sees true values")
	assert.NotContains(t, strings.Join(seen, "\n"), secret)
	assert.NotContains(t, string(kept.last["R"]), secret)
	stored, err := executor.EncodeResult(executor.Redact(r, in.DynamicParams))
	require.NoError(t, err)
	assert.NotContains(t, string(stored), secret)
	assert.Contains(t, string(stored), `"u":"Bearer ***REDACTED***"`)
	assert.Contains(t, string(stored), `"pin":"***REDACTED***"`)
	assert.Contains(t, string(stored), `refused ***REDACTED***`)

	_, err = executor.New(b.opts).ResumeRun(context.Background(), plan, "R", executor.RunInput{DynamicParams: map[string]any{"token": secret}})
	require.ErrorContains(t, err, "dynamic param 'pin' is not kept")
	bad = false
	r, err = executor.New(b.opts).ResumeRun(context.Background(), plan, "R", in)
	require.NoError(t, err)
	require.True(t, r.Success)
	assert.Equal(t, map[string]any{"n": int64(1), "token": secret, "pin": int64(1234), "o": map[string]any{"t": secret}}, r.FinalOutput)
}

func TestResultJSONKeepsValues(t *testing.T) {
	b := newBench(t)
	b.tool("t", "", "", returns(map[string]any{"f": 1.0, "i": int64(9007199254740993), "b": json.Number("123456789012345678901"), "l": []any{2.0, nil}}))
	r := b.run("on_failure: hand_back\nsteps:\n\t- {tool_name: t, output_as: o}\n\t- {tool_name: t, guard: '1 == 2', input_mapping: {x: /o/f}}\n", map[string]any{"in": 3.0})
	data, err := executor.EncodeResult(r)
	require.NoError(t, err)
	back, err := executor.DecodeResult(data)
	require.NoError(t, err)
	assert.Equal(t, r, back)
	old, err := executor.DecodeResult([]byte(`{"trace_schema_version":"1.1","success":false,"execution_log":[{"step_index":0,"tool_name":"t","error_type":"InputMappingError","success":false}]}`))
	require.NoError(t, err)
	assert.Equal(t, executor.StatusFailed, old.Status)
	assert.Equal(t, "CW-E005", *old.ExecutionLog[0].ErrorCode)
	for _, broken := range []string{"", "null", "[]", `{"final_output":[1]}`} {
		_, err := executor.DecodeResult([]byte(broken))
		assert.Error(t, err, broken)
	}
}
