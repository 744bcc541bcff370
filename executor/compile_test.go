package executor_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

// TestDiagnostics covers what the golden vectors of group compile do not: pave's own checks, and pointers.
func TestDiagnostics(t *testing.T) {
	const head = "input_schema: {type: object, properties: {id: {type: string}, opt: {type: string}, dflt: {type: string, default: x}, nul: {type: [string, 'null']}}, required: [id, nul]}\n"
	cases := []struct {
		name string
		flow string
		want []string // severity issue pointer field
	}{
		{"clean", head + "steps:\n\t- {tool_name: user, input_mapping: {id: id, lang: dflt}, output_as: u}\n\t- {tool_name: user, input_mapping: {id: /u/name}, output_as: v}\n", nil},
		{"optional input", head + "steps:\n\t- {tool_name: user, input_mapping: {id: opt}, output_as: u}\n",
			[]string{"warning unproven_value /steps/0/input_mapping/id opt", "warning shadowed_key /steps/0/input_mapping/id id"}},
		{"optional input as $optional of an optional argument", head + "steps:\n\t- {tool_name: user, input_mapping: {id: id, lang: {$optional: opt}}, output_as: u}\n", nil},
		{"$optional of a required argument", head + "steps:\n\t- {tool_name: user, input_mapping: {id: {$optional: opt}}, output_as: u}\n",
			[]string{"warning unproven_value /steps/0/input_mapping/id id"}},
		{"null where none is taken", head + "steps:\n\t- {tool_name: user, input_mapping: {id: nul}, output_as: u}\n",
			[]string{"warning unproven_value /steps/0/input_mapping/id nul", "warning shadowed_key /steps/0/input_mapping/id id"}},
		{"null ruled out by the guard", head + "steps:\n\t- {tool_name: user, guard: nul != None and id == 'x', input_mapping: {id: nul}, output_as: u}\n",
			[]string{"warning shadowed_key /steps/0/input_mapping/id id"}},
		{"array index", head + "steps:\n\t- {tool_name: user, input_mapping: {id: id}, output_as: u}\n\t- {tool_name: user, input_mapping: {id: /u/orders/0}, output_as: v}\n",
			[]string{"warning unproven_value /steps/1/input_mapping/id /u/orders/0"}},
		{"pointer to nothing", head + "steps:\n\t- {tool_name: user, input_mapping: {id: id}, output_as: u}\n\t- {tool_name: user, input_mapping: {id: /u/zip}, output_as: v}\n",
			[]string{"error missing_mapping_key /steps/1/input_mapping/id /u/zip"}},
		{"pointer of the wrong type", head + "steps:\n\t- {tool_name: user, input_mapping: {id: id}, output_as: u}\n\t- {tool_name: user, input_mapping: {id: /u/age}, output_as: v}\n",
			[]string{"error type_mismatch /steps/1/input_mapping/id id"}},
		{"constant of the wrong type", head + "steps:\n\t- {tool_name: user, input_mapping: {id: {$const: 5}}, output_as: u}\n",
			[]string{"error type_mismatch /steps/0/input_mapping/id id"}},
		{"output_as collides", head + "steps:\n\t- {tool_name: user, input_mapping: {id: id}, output_as: id}\n",
			[]string{"warning context_collision /steps/0/output_as id"}},
		{"outputs of a step that may be skipped", head + "steps:\n\t- {tool_name: user, input_mapping: {id: id}, output_as: u, on_error: skip}\n\t- {tool_name: user, input_mapping: {id: /u/name}, output_as: v}\n",
			[]string{"warning unproven_value /steps/1/input_mapping/id /u/name"}},
		{"guard over an unknown name", head + "steps:\n\t- {tool_name: user, guard: 'nope == 1', input_mapping: {id: id}, output_as: u}\n",
			[]string{"error missing_mapping_key /steps/0/guard nope"}},
		{"guard over an optional name", head + "steps:\n\t- {tool_name: user, guard: 'opt == 1', input_mapping: {id: id}, output_as: u}\n",
			[]string{"warning unproven_value /steps/0/guard opt"}},
		{"retry of an unsafe tool", head + "steps:\n\t- {tool_name: pay, input_mapping: {id: id}, output_as: p, retry: {max_retries: 1}}\n",
			[]string{"warning unsafe_retry /steps/0/retry "}},
		{"returns", head + "steps:\n\t- {tool_name: user, input_mapping: {id: id}, output_as: u}\nreturns: {a: /u/name, b: /u/zip, c: nope, d: /u/orders/1}\n",
			[]string{"error missing_mapping_key /returns/b /u/zip", "error missing_mapping_key /returns/c nope", "warning unproven_value /returns/d /u/orders/1"}},
		{"output schema over returns", head + "output_schema: {type: object, properties: {a: {type: integer}, z: {}}, required: [a, z]}\nsteps:\n\t- {tool_name: user, input_mapping: {id: id}, output_as: u}\nreturns: {a: /u/name}\n",
			[]string{"error output_type_mismatch /output_schema a", "error output_schema_gap /output_schema z"}},
		{"open output", head + "steps:\n\t- {tool_name: open, input_mapping: {id: id}}\n\t- {tool_name: user, input_mapping: {id: unknown}, output_as: u}\n",
			[]string{"warning unproven_value /steps/1/input_mapping/id unknown", "warning shadowed_key /steps/1/input_mapping/id id"}},
		{"whole context that a tool refuses", head + "steps:\n\t- {tool_name: strict, output_as: s}\n",
			[]string{"error unknown_target_key /steps/0/input_mapping dflt", "error unknown_target_key /steps/0/input_mapping nul", "error unknown_target_key /steps/0/input_mapping opt"}},
		{"an argument that is never given need not exist", head + "steps:\n\t- {tool_name: strict, input_mapping: {id: id, no_arguments: {$optional: s}}, output_as: s}\n", nil},
		{"one that an earlier step of the same key gives", head + "steps:\n\t- {tool_name: user, input_mapping: {id: id}, output_as: s}\n\t- {tool_name: strict, input_mapping: {id: id, no_arguments: {$optional: s}}, output_as: s}\n",
			[]string{"error unknown_target_key /steps/1/input_mapping/no_arguments no_arguments", "warning context_collision /steps/1/output_as s"}},
		{"one that an input of the same name gives", head + "steps:\n\t- {tool_name: strict, input_mapping: {id: id, no_arguments: {$optional: opt}}, output_as: opt}\n",
			[]string{"error unknown_target_key /steps/0/input_mapping/no_arguments no_arguments", "warning context_collision /steps/0/output_as opt"}},
		{"undeclared inputs", "steps:\n\t- {tool_name: user, input_mapping: {id: who, lang: {$optional: language}}, output_as: u}\n\t- {tool_name: user, input_mapping: {id: who}, output_as: v}\n",
			[]string{"warning undeclared_input /steps/0/input_mapping/id who", "warning undeclared_input /steps/0/input_mapping/lang language"}},
		{"schema reference", "input_schema_ref: 'm:In'\nsteps: []\n", []string{"error unknown_schema /input_schema_ref "}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			const user = `{"type":"object","properties":{"id":{"type":"string"},"lang":{"type":"string"}},"required":["id"]}`
			b.tool("user", user, `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"orders":{"type":"array","items":{"type":"string"}}},"required":["name","age","orders"]}`, echo)
			b.tool("pay", user, valueInt, echo).Safety = nil
			b.tool("open", user, anyObject, echo)
			b.tool("strict", `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`, valueInt, echo)
			plan, found := executor.Compile(b.flow(tc.flow), b.tools, executor.CompileOptions{})
			require.NotNil(t, plan)
			var got []string
			for _, d := range found {
				got = append(got, fmt.Sprintf("%s %s %s %s", d.Severity, d.IssueType, d.Pointer, d.FieldName))
				assert.NotEmpty(t, d.Detail)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestInferredInputSchema(t *testing.T) {
	b := newBench(t)
	b.tool("user", `{"type":"object","properties":{"id":{"type":"string","maxLength":9},"lang":{"type":"string"}},"required":["id"]}`, "", echo)
	plan := b.plan("steps:\n\t- {tool_name: user, input_mapping: {id: who, lang: {$optional: language}}, output_as: u}\n\t- {tool_name: user, input_mapping: {id: /doc/id}, output_as: v}\n")
	assert.JSONEq(t, `{"type":"object","additionalProperties":true,"required":["who","doc"],
		"properties":{"who":{"type":"string","maxLength":9},"language":{"type":"string"},"doc":{}}}`, string(plan.InputSchema()))
	declared := b.plan("input_schema: {type: object, properties: {}}\nsteps: []\n")
	assert.JSONEq(t, `{"type":"object","properties":{}}`, string(declared.InputSchema()))
}

func TestWhatHasNoPlan(t *testing.T) {
	b := newBench(t)
	b.tool("t", "", "", echo)
	b.tool("broken", `{"type":"object","properties":{"a":{"type":"wat"}}}`, "", echo)
	step := func(s flows.Step) *flows.Flow {
		return &flows.Flow{Type: flows.TypeFlow, Name: "f", Steps: []flows.Step{s}}
	}
	expr := flows.MappingValue{Kind: flows.MapExpr, Ref: "1 +"}
	for _, tc := range []struct {
		flow    *flows.Flow
		issue   string
		pointer string
	}{
		{&flows.Flow{Type: flows.TypeDAGFlow, Name: "f", Steps: []flows.Step{{ToolName: "t", StepID: "a"}, {ToolName: "t", StepID: "b", DependsOn: []string{"c"}}}}, executor.IssueTopologyError, "/steps/1/depends_on"},
		{&flows.Flow{Type: flows.TypeDAGFlow, Name: "f", Steps: []flows.Step{{ToolName: "t", StepID: "a", Branches: []flows.Branch{{TargetStepID: "b", Predicate: "f(x)"}}}, {ToolName: "t", StepID: "b", DependsOn: []string{"a"}}}}, executor.IssuePredicateError, "/steps/0/branches/0/predicate"},
		{step(flows.Step{FlowName: "other"}), executor.IssueCompositionError, "/steps/0/flow_name"},
		{step(flows.Step{ToolName: "t", ForEach: &expr, As: "x"}), executor.IssueExpressionError, "/steps/0/for_each"},
		{step(flows.Step{ToolName: "t", InputMapping: flows.Mapping{{Target: "a/b", Value: flows.MappingValue{Kind: flows.MapOptional, Inner: &expr}}}}), executor.IssueExpressionError, "/steps/0/input_mapping/a~1b"},
		{&flows.Flow{Name: "f", Returns: flows.Mapping{{Target: "x", Value: expr}}}, executor.IssueExpressionError, "/returns/x"},
		{&flows.Flow{Name: "f", Steps: make([]flows.Step, executor.DefaultMaxSteps+1)}, executor.IssueTooManySteps, "/steps"},
		{step(flows.Step{ToolName: "broken"}), executor.IssueInvalidSchema, "/steps/0/tool_name"},
		{step(flows.Step{ToolName: "t", Guard: "f(x)"}), executor.IssuePredicateError, "/steps/0/guard"},
		{&flows.Flow{Name: "f", OutputSchema: flows.RawSchema(`{"type":7}`)}, executor.IssueInvalidSchema, "/output_schema"},
	} {
		plan, found := executor.Compile(tc.flow, b.tools, executor.CompileOptions{})
		assert.Nil(t, plan, tc.pointer)
		require.NotEmpty(t, found)
		assert.Equal(t, tc.issue, found[0].IssueType)
		assert.Equal(t, tc.pointer, found[0].Pointer)
		err := executor.CompileError("f", found)
		assert.Equal(t, flows.CodeCompile, flows.CodeOf(err))
		assert.Contains(t, err.Error(), tc.pointer)
	}
	assert.NoError(t, executor.CompileError("f", []executor.Diagnostic{{Severity: executor.SeverityWarning}}))
}

func TestPlanIsPinned(t *testing.T) {
	b := newBench(t)
	b.tool("a", "", "", returns(map[string]any{"x": int64(1)}))
	b.tool("fb", "", "", echo)
	plan := b.plan("steps:\n\t- {tool_name: a, on_error: 'fallback:fb'}\n\t- {tool_name: a, on_error: 'fallback:ghost'}\n")
	before := plan.Tools()
	delete(b.tools, "a")
	require.Len(t, before, 2)
	assert.Equal(t, []string{"a", "fb"}, []string{before[0].Name, before[1].Name})
	assert.Equal(t, before, plan.Tools())
}

// TestRecordFields pins the fields of results and records and their order.
func TestRecordFields(t *testing.T) {
	for _, tc := range []struct {
		of   any
		want string
	}{
		{executor.RunResult{}, "trace_schema_version flow_name flow_version success status final_output execution_log trace_id started_at ended_at total_duration_ms cost_report initial_input dry_run hand_back"},
		{executor.StepRecord{}, "step_index step_id tool_name inputs outputs error_type error_code error_message success started_at ended_at duration_ms retry_count retry_errors skipped cached fallback_used fallback_tool_name flow_name sub_result approval decision elements not_sent"},
		{executor.HandBack{}, "step_index step_id tool_name inputs reason"},
		{executor.CostReport{}, "steps_executed llm_calls_avoided latency_saved_ms cost_saved_usd actual_execution_ms profile"},
		{executor.CostProfile{}, "avg_llm_latency_ms avg_tokens_per_call cost_per_token_usd provider model price_as_of"},
	} {
		var got []string
		for f := range reflect.TypeOf(tc.of).Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
				got = append(got, name)
			}
		}
		assert.Equal(t, tc.want, strings.Join(got, " "), "%T", tc.of)
	}
	assert.Equal(t, "1.2", executor.TraceSchemaVersion)
}

// Dynamic params that a flow names are no inputs: they need no place in its input schema, and none is inferred for them.
func TestCompileKnowsDynamicParams(t *testing.T) {
	tool := &flows.Tool{Name: "send", InputSchema: flows.RawSchema(`{"type":"object","properties":{"token":{"type":"string"},"n":{"type":"integer"}},"required":["token","n"]}`),
		OutputSchema: flows.RawSchema(`{"type":"object"}`)}
	flow := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "f", Version: "1.0.0", Description: "d", DynamicParams: []string{"token"},
		InputSchema: flows.RawSchema(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
		Steps:       []flows.Step{{ToolName: "send", InputMapping: flows.Mapping{{Target: "token", Value: flows.Key("token")}, {Target: "n", Value: flows.Key("n")}}}}}
	plan, found := executor.Compile(flow, executor.Tools{"send": tool}, executor.CompileOptions{})
	require.NotNil(t, plan)
	require.False(t, executor.HasErrors(found), "%v", found)
	flow.InputSchema = nil
	plan, found = executor.Compile(flow, executor.Tools{"send": tool}, executor.CompileOptions{})
	require.False(t, executor.HasErrors(found), "%v", found)
	require.NotContains(t, string(plan.InputSchema()), "token")
	flow.DynamicParams = nil
	plan, _ = executor.Compile(flow, executor.Tools{"send": tool}, executor.CompileOptions{})
	require.Contains(t, string(plan.InputSchema()), "token")
}
