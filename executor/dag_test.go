package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

// dagPlan compiles a DAG flow written in YAML.
func (b *bench) dagPlan(text string) (*executor.Plan, []executor.Diagnostic) {
	b.t.Helper()
	head := "format_version: \"1.1\"\ntype: DAGFlow\nname: g\nversion: 1.0.0\ndescription: d\n"
	flow, _, err := flows.ParseFlow([]byte(head + strings.ReplaceAll(text, "\t", "  ")))
	require.NoError(b.t, err)
	return executor.Compile(flow, b.tools, executor.CompileOptions{})
}

func (b *bench) runDAG(text string, in executor.RunInput) *executor.RunResult {
	b.t.Helper()
	plan, found := b.dagPlan(text)
	require.NotNil(b.t, plan, "%v", found)
	return executor.New(b.opts).Run(context.Background(), plan, in)
}

func steps(r *executor.RunResult) string {
	var out []string
	for _, rec := range r.ExecutionLog {
		s := fmt.Sprintf("%d:%s", rec.StepIndex, rec.StepID)
		if rec.Skipped {
			s += " skipped"
		}
		if !rec.Success {
			s += " " + *rec.ErrorCode
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// TestSiblingsRunSideBySide: two steps that wait for each other can only end when both run at a time; their records
// and events stand in order all the same.
func TestSiblingsRunSideBySide(t *testing.T) {
	b := newBench(t)
	first, second := make(chan struct{}), make(chan struct{})
	b.tool("a", "", "", func(context.Context, map[string]any) (any, error) {
		close(first)
		<-second
		return map[string]any{"x": 1}, nil
	})
	b.tool("b", "", "", func(context.Context, map[string]any) (any, error) {
		<-first
		close(second)
		return map[string]any{"y": 2}, nil
	})
	var events []string
	r := b.runDAG(`
steps:
	- {step_id: A, tool_name: a}
	- {step_id: B, tool_name: b}
	- {step_id: C, tool_name: passthrough, depends_on: [A, B], output_mapping: {}}
`, executor.RunInput{OnEvent: func(e executor.Event) {
		events = append(events, fmt.Sprintf("%s %d", e.Kind, e.StepIndex))
	}})
	assert.Equal(t, "0:A, 1:B, 2:C CW-E001", steps(r))
	assert.Equal(t, []string{"flow_start 0", "step_start 0", "step_end 0", "step_start 1", "step_end 1", "step_end 2", "flow_end 0"}, events)
}

// TestAFailureEndsTheLevelInOrder: what runs beside a failed step ends, but records stop at the first failure in
// order, and nothing new starts.
func TestAFailureEndsTheLevelInOrder(t *testing.T) {
	for _, limit := range []int{1, 2, 8} {
		b := newBench(t)
		b.opts.Limits.MaxParallelSteps = limit
		b.tool("ok", "", "", returns(map[string]any{}))
		b.tool("slow", "", "", func(context.Context, map[string]any) (any, error) {
			time.Sleep(5 * time.Millisecond)
			return nil, errors.New("slow failure")
		})
		b.tool("fast", "", "", fails(errors.New("fast failure")))
		r := b.runDAG(`
steps:
	- {step_id: A, tool_name: ok}
	- {step_id: B, tool_name: slow}
	- {step_id: C, tool_name: fast}
	- {step_id: D, tool_name: ok}
`, executor.RunInput{})
		assert.Equal(t, executor.StatusFailed, r.Status)
		assert.Equal(t, "0:A, 1:B CW-E006", steps(r), "limit %d", limit)
	}
}

const branching = `
input_schema: {type: object, properties: {n: {type: integer}}, required: [n]}
steps:
	- step_id: P
		tool_name: p
		branches: [{target_step_id: X, predicate: n > 5}, {target_step_id: Y, predicate: n > 1}]
		default_next: Z
	- {step_id: X, tool_name: t, depends_on: [P], output_as: x}
	- {step_id: Y, tool_name: t, depends_on: [P], output_as: y}
	- {step_id: Z, tool_name: t, depends_on: [P], output_as: z}
	- {step_id: Y2, tool_name: t, depends_on: [Y], output_as: y2}
	- {step_id: J, tool_name: t, depends_on: [X, Y2], output_as: j}
`

func TestBranches(t *testing.T) {
	b := newBench(t)
	b.tool("p", "", "", returns(map[string]any{}))
	b.tool("t", "", "", returns(map[string]any{}))
	for n, want := range map[int]string{
		9: "0:P, 1:X, 2:Y skipped, 3:Z skipped, 4:Y2 skipped, 5:J",
		3: "0:P, 1:X skipped, 2:Y, 3:Z skipped, 4:Y2, 5:J",
		0: "0:P, 1:X skipped, 2:Y skipped, 3:Z, 4:Y2 skipped, 5:J skipped",
	} {
		r := b.runDAG(branching, executor.RunInput{Input: map[string]any{"n": n}})
		require.True(t, r.Success, "%+v", r.ExecutionLog)
		assert.Equal(t, want, steps(r), n)
	}
}

// TestGuardsOfALevel: a false guard hands the run back before any step of its level has started.
func TestGuardsOfALevel(t *testing.T) {
	b := newBench(t)
	calls := 0
	b.tool("t", "", "", func(context.Context, map[string]any) (any, error) { calls++; return map[string]any{}, nil })
	r := b.runDAG("steps:\n\t- {step_id: A, tool_name: t}\n\t- {step_id: B, tool_name: t, guard: 'n == 1', input_mapping: {v: n}}\n",
		executor.RunInput{Input: map[string]any{"n": int64(2)}})
	assert.Equal(t, executor.StatusHandedBack, r.Status)
	assert.Equal(t, &executor.HandBack{StepIndex: 1, StepID: "B", ToolName: "t", Inputs: map[string]any{"v": int64(2)}, Reason: "guard is false: n == 1"}, r.HandBack)
	assert.Empty(t, r.ExecutionLog)
	assert.Zero(t, calls)
}

func TestDAGDiagnostics(t *testing.T) {
	b := newBench(t)
	b.tool("t", valueInt, `{"type":"object","properties":{"r":{"type":"integer"}},"required":["r"]}`, echo)
	const head = "input_schema: {type: object, properties: {n: {type: integer}}, required: [n]}\nsteps:\n"
	step := func(id, more string) string {
		return "\t- {step_id: " + id + ", tool_name: t, input_mapping: {value: n}, " + more + "}\n"
	}
	for _, tc := range []struct {
		name, flow string
		want       []string
	}{
		{"siblings", step("A", "output_as: k") + step("B", "output_as: k"), []string{"error sibling_collision /steps/1/output_as k"}},
		{"levels may collide", step("A", "output_as: k") + step("B", "output_as: k, depends_on: [A]"), []string{"warning context_collision /steps/1/output_as k"}},
		{"unrelated steps are not seen", step("A", "output_as: a") + step("B", "output_as: b") + "\t- {step_id: C, tool_name: t, depends_on: [B], input_mapping: {value: /a/r}, output_as: c}\n",
			[]string{"error missing_mapping_key /steps/2/input_mapping/value /a/r"}},
		{"a branch's own chain is certain", "\t- {step_id: P, tool_name: t, input_mapping: {value: n}, output_as: p, branches: [{target_step_id: X, predicate: 'p[\"r\"] > 1'}]}\n" +
			step("X", "output_as: x, depends_on: [P]") + "\t- {step_id: X2, tool_name: t, depends_on: [X], input_mapping: {value: /x/r}, output_as: x2}\n", nil},
		{"a join cannot count on either side", "\t- {step_id: P, tool_name: t, input_mapping: {value: n}, output_as: p, branches: [{target_step_id: X, predicate: 'n > 1'}]}\n" +
			step("X", "output_as: x, depends_on: [P]") + step("Y", "output_as: y, depends_on: [P]") +
			"\t- {step_id: J, tool_name: t, depends_on: [X, Y], input_mapping: {value: /x/r}, output_as: j}\n",
			[]string{"warning unproven_value /steps/3/input_mapping/value /x/r"}},
		{"names of branches", "\t- {step_id: P, tool_name: t, input_mapping: {value: n}, output_as: p, branches: [{target_step_id: X, predicate: 'nope > 1'}]}\n" + step("X", "output_as: x, depends_on: [P]"),
			[]string{"error missing_mapping_key /steps/0/branches/0/predicate nope"}},
		{"topology does not hide the rest", "\t- {step_id: A, tool_name: ghost, depends_on: [A]}\n",
			[]string{"error topology_error /steps/0/depends_on cycle", "error missing_tool /steps/0/tool_name "}},
	} {
		_, found := b.dagPlan(head + tc.flow)
		var got []string
		for _, d := range found {
			got = append(got, fmt.Sprintf("%s %s %s %s", d.Severity, d.IssueType, d.Pointer, d.FieldName))
		}
		assert.Equal(t, tc.want, got, tc.name)
	}
}
