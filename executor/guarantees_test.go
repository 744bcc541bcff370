package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

// The five data-integrity guarantees, one test per sentence about their mechanism, each on the four forms of a run.

// form runs a linear flow in one of the ways in which a flow can run.
type form func(t *testing.T, b *bench, linear *flows.Flow, input map[string]any) *executor.RunResult

var forms = map[string]form{
	"linear":   runLinear,
	"DAG":      runAsDAG,
	"resumed":  runResumed,
	"replayed": runReplayed,
}

func runLinear(t *testing.T, b *bench, f *flows.Flow, input map[string]any) *executor.RunResult {
	return executor.New(b.opts).Run(context.Background(), compiled(t, b, f), executor.RunInput{Input: input})
}

// runAsDAG runs the DAG in which each step waits for the one before it.
func runAsDAG(t *testing.T, b *bench, f *flows.Flow, input map[string]any) *executor.RunResult {
	chain := *f
	chain.Type, chain.Steps = flows.TypeDAGFlow, append([]flows.Step(nil), f.Steps...)
	for i := range chain.Steps {
		chain.Steps[i].StepID = fmt.Sprint("s", i)
		if i > 0 {
			chain.Steps[i].DependsOn = []string{fmt.Sprint("s", i-1)}
		}
	}
	return runLinear(t, b, &chain, input)
}

// runResumed goes on from the JSON of the first checkpoint, where the run got as far as one.
func runResumed(t *testing.T, b *bench, f *flows.Flow, input map[string]any) *executor.RunResult {
	kept := newKeeper()
	opts := b.opts
	opts.Checkpoints = kept
	engine, plan := executor.New(opts), compiled(t, b, f)
	whole := engine.Run(context.Background(), plan, executor.RunInput{Input: input})
	if len(kept.every) == 0 {
		return whole
	}
	var c executor.Checkpoint
	require.NoError(t, json.Unmarshal(kept.every[0], &c))
	resumed, err := engine.Resume(context.Background(), plan, &c, executor.RunInput{})
	require.NoError(t, err)
	return resumed
}

func runReplayed(t *testing.T, b *bench, f *flows.Flow, input map[string]any) *executor.RunResult {
	recorded := runLinear(t, b, f, input)
	report, err := executor.New(b.opts).Replay(context.Background(), compiled(t, b, f), recorded, executor.ReplayOptions{Force: true})
	require.NoError(t, err)
	require.Empty(t, report.Diffs)
	return report.Result
}

// onEveryForm runs a flow over tools in every form and lets check look at the result. The flow's first step is "start",
// which gives nothing, so that there is a checkpoint to resume from.
func onEveryForm(t *testing.T, flow string, input map[string]any, tools func(b *bench), check func(t *testing.T, r *executor.RunResult)) {
	for name, run := range forms {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.tool("start", "", "", returns(map[string]any{}))
			tools(b)
			check(t, run(t, b, b.flow(strings.Replace(flow, "steps:\n", "steps:\n\t- {tool_name: start}\n", 1)), input))
		})
	}
}

const (
	object    = `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}`
	needsText = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`
)

// "Every field used by step N + 1 either exists in step N's validated output, in the accumulated context, or is a
// literal in the step's input_mapping."
func TestGuarantee1NoHallucination_EveryFieldIsAnOutputAContextKeyOrALiteral(t *testing.T) {
	onEveryForm(t, "steps:\n\t- {tool_name: give}\n\t- {tool_name: take, input_mapping: {fresh: a, earlier: given, fixed: {$const: seven}}}\n\t- {tool_name: take, input_mapping: {invented: nowhere}}\n",
		map[string]any{"given": "in"}, func(b *bench) {
			b.tool("give", "", object, returns(map[string]any{"a": int64(1), "made up": true}))
			b.tool("take", "", anyObject, returns(map[string]any{}))
		}, func(t *testing.T, r *executor.RunResult) {
			require.Len(t, r.ExecutionLog, 4)
			assert.Equal(t, map[string]any{"fresh": int64(1), "earlier": "in", "fixed": "seven"}, r.ExecutionLog[2].Inputs)
			assert.Equal(t, flows.CWInputMapping.Code, cw(r.ExecutionLog[3]))
		})
}

// "The per-step path is validate(input), fn(input), validate(output), context.update(output)."
func TestGuarantee1NoHallucination_ValidateCallValidateMerge(t *testing.T) {
	var seen []map[string]any
	onEveryForm(t, "steps:\n\t- {tool_name: give, input_mapping: {a: n}}\n", map[string]any{"n": "41"}, func(b *bench) {
		seen = nil
		b.tool("give", object, object, func(_ context.Context, in map[string]any) (any, error) {
			seen = append(seen, in)
			return map[string]any{"a": fmt.Sprint(in["a"].(int64) + 1)}, nil
		})
	}, func(t *testing.T, r *executor.RunResult) {
		for _, in := range seen {
			assert.Equal(t, map[string]any{"a": int64(41)}, in, "the call gets validated input")
		}
		assert.NotEmpty(t, seen)
		assert.Equal(t, map[string]any{"n": "41", "a": int64(42), "b": nil}, r.FinalOutput, "the merge gets validated output")
	})
}

// "No code path between the two validate calls can add or remove fields."
func TestGuarantee1NoHallucination_NothingBetweenTheValidations(t *testing.T) {
	open := `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":true}`
	onEveryForm(t, "on_context_collision: overwrite\nsteps:\n\t- {tool_name: mirror}\n", map[string]any{"a": int64(1), "x": []any{"y", nil}}, func(b *bench) {
		b.tool("mirror", open, open, echo)
	}, func(t *testing.T, r *executor.RunResult) {
		assert.Equal(t, r.ExecutionLog[1].Inputs, r.ExecutionLog[1].Outputs)
		assert.Equal(t, map[string]any{"a": int64(1), "x": []any{"y", nil}}, r.ExecutionLog[1].Outputs)
	})
}

// "The context is updated by direct assignment: no serialization round-trip, no schema inference, no field-name
// remapping."
func TestGuarantee1NoHallucination_DirectAssignment(t *testing.T) {
	strange := map[string]any{"Ünïcode Key": json.Number("123456789012345678901234567890"), "f": 0.1, "whole": 3.0, "n": int64(9007199254740993), "nested": map[string]any{"": nil}}
	onEveryForm(t, "steps:\n\t- {tool_name: give}\n", nil, func(b *bench) {
		b.tool("give", "", anyObject, returns(strange))
	}, func(t *testing.T, r *executor.RunResult) {
		assert.Equal(t, strange, r.FinalOutput)
	})
}

// "All fields declared in step N's output_schema are present in the context after step N completes."
func TestGuarantee2NoLoss_DeclaredFieldsArePresent(t *testing.T) {
	onEveryForm(t, "steps:\n\t- {tool_name: give}\n", nil, func(b *bench) {
		b.tool("give", "", object, returns(map[string]any{"a": int64(1)}))
	}, func(t *testing.T, r *executor.RunResult) {
		assert.Equal(t, map[string]any{"a": int64(1), "b": nil}, r.FinalOutput)
	})
}

// "The next step's input_mapping explicitly selects which fields are passed to it."
func TestGuarantee2NoLoss_TheMappingSelects(t *testing.T) {
	onEveryForm(t, "on_context_collision: overwrite\nsteps:\n\t- {tool_name: give}\n\t- {tool_name: mirror, input_mapping: {only: b}}\n\t- {tool_name: mirror}\n", nil, func(b *bench) {
		b.tool("give", "", object, returns(map[string]any{"a": int64(1), "b": "two"}))
		b.tool("mirror", "", anyObject, echo)
	}, func(t *testing.T, r *executor.RunResult) {
		assert.Equal(t, map[string]any{"only": "two"}, r.ExecutionLog[2].Inputs)
		assert.Equal(t, map[string]any{"a": int64(1), "b": "two", "only": "two"}, r.ExecutionLog[3].Inputs, "and without one nothing is left out")
	})
}

// "Keys present before the step remain in the context unless overwritten by a same-named output field."
func TestGuarantee2NoLoss_EarlierKeysRemain(t *testing.T) {
	onEveryForm(t, "on_context_collision: overwrite\nsteps:\n\t- {tool_name: give}\n", map[string]any{"a": int64(0), "kept": "yes"}, func(b *bench) {
		b.tool("give", "", object, returns(map[string]any{"a": int64(1)}))
	}, func(t *testing.T, r *executor.RunResult) {
		assert.Equal(t, map[string]any{"a": int64(1), "b": nil, "kept": "yes"}, r.FinalOutput)
	})
}

// "The collision policy is enforced in one place, for every kind of flow."
func TestGuarantee2NoLoss_OneMergeWithOneCollisionPolicy(t *testing.T) {
	for policy, wantCode := range map[string]string{"overwrite": "", "warn": "", "error": flows.CWContextCollision.Code} {
		t.Run(policy, func(t *testing.T) {
			onEveryForm(t, "on_context_collision: "+policy+"\nsteps:\n\t- {tool_name: give}\n", map[string]any{"a": int64(1)}, func(b *bench) {
				b.tool("give", "", object, returns(map[string]any{"a": int64(1)}))
			}, func(t *testing.T, r *executor.RunResult) {
				last := r.ExecutionLog[len(r.ExecutionLog)-1]
				assert.Equal(t, wantCode, cw(last), "equal values collide too")
				assert.Equal(t, wantCode == "", r.Success)
				if wantCode != "" {
					assert.Contains(t, *last.ErrorMessage, "'a'")
					assert.Contains(t, *last.ErrorMessage, "'give'")
				}
			})
		})
	}
}

// "compile surfaces statically detectable collisions as a context_collision warning, suppressed when the policy is
// overwrite."
func TestGuarantee2NoLoss_CompileSurfacesCollisions(t *testing.T) {
	for policy, want := range map[flows.CollisionPolicy]bool{"overwrite": false, "warn": true, "error": true} {
		b := newBench(t)
		b.tool("give", "", object, returns(map[string]any{"a": int64(1)}))
		f := b.flow("input_schema: " + object + "\nsteps:\n\t- {tool_name: give, input_mapping: {x: a}}\n")
		for _, kind := range []string{flows.TypeFlow, flows.TypeDAGFlow} {
			f.Type, f.OnContextCollision, f.Steps[0].StepID = kind, policy, map[string]string{flows.TypeDAGFlow: "s"}[kind]
			_, found := executor.Compile(f, b.tools, executor.CompileOptions{})
			collides := false
			for _, d := range found {
				collides = collides || d.IssueType == executor.IssueContextCollision && d.FieldName == "a" && d.Severity == executor.SeverityWarning
			}
			assert.Equal(t, want, collides, "%s %s", kind, policy)
		}
	}
}

// "The input schema is applied unconditionally before the tool is called."
func TestGuarantee3TypeSafety_InputIsValidatedBeforeTheCall(t *testing.T) {
	onEveryForm(t, "steps:\n\t- {tool_name: take, input_mapping: {text: n}}\n\t- {tool_name: start}\n", map[string]any{"n": int64(5)}, func(b *bench) {
		b.tool("take", needsText, "", func(context.Context, map[string]any) (any, error) {
			t.Error("called with what does not fit")
			return map[string]any{}, nil
		})
	}, func(t *testing.T, r *executor.RunResult) {
		require.Len(t, r.ExecutionLog, 2, "nothing runs after it")
		assert.Equal(t, flows.CWSchemaValidation.Code, cw(r.ExecutionLog[1]))
	})
}

// "The output schema is applied unconditionally after the tool returns; mismatches are rejected before execution
// continues."
func TestGuarantee3TypeSafety_OutputIsValidatedBeforeTheRunGoesOn(t *testing.T) {
	onEveryForm(t, "steps:\n\t- {tool_name: give}\n\t- {tool_name: start}\n", nil, func(b *bench) {
		b.tool("give", "", needsText, returns(map[string]any{"text": int64(5)}))
	}, func(t *testing.T, r *executor.RunResult) {
		require.Len(t, r.ExecutionLog, 2)
		assert.Nil(t, r.ExecutionLog[1].Outputs)
		assert.Nil(t, r.FinalOutput)
		assert.Equal(t, flows.CWSchemaValidation.Code, cw(r.ExecutionLog[1]))
	})
}

// "Either raises SchemaValidationError with the step index, field name, and the underlying message."
func TestGuarantee3TypeSafety_TheErrorNamesStepFieldAndReason(t *testing.T) {
	onEveryForm(t, "steps:\n\t- {tool_name: give}\n", nil, func(b *bench) {
		b.tool("give", "", object, returns(map[string]any{"a": "x"}))
	}, func(t *testing.T, r *executor.RunResult) {
		last := r.ExecutionLog[1]
		assert.Equal(t, "SchemaValidationError", *last.ErrorType)
		assert.Equal(t, "Schema validation failed for tool 'give' at step 1: a: must be an integer: this text is not one [int_parsing]", *last.ErrorMessage)
	})
}

// "Coercion rules apply: "5" is 5 where an integer is wanted."
func TestGuarantee3TypeSafety_CoercionIsPartOfTheContract(t *testing.T) {
	onEveryForm(t, "steps:\n\t- {tool_name: give}\n", nil, func(b *bench) {
		b.tool("give", "", object, returns(map[string]any{"a": "5", "b": "5"}))
	}, func(t *testing.T, r *executor.RunResult) {
		assert.Equal(t, map[string]any{"a": int64(5), "b": "5"}, r.FinalOutput)
	})
}

// "The same flow definition, initial_input and tools produce the same execution path and the same final output."
func TestGuarantee4Determinism_SamePathSameOutput(t *testing.T) {
	for name, run := range forms {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.pureTools()
			b.tool("start", "", "", returns(map[string]any{}))
			f := b.flow("on_context_collision: overwrite\nsteps:\n\t- {tool_name: start}\n\t- {tool_name: list, input_mapping: {x: n}, output_as: l}\n\t- {tool_name: inc, for_each: /l/l, as: e, max_concurrency: 3, input_mapping: {x: e}, output_as: sums}\n\t- {tool_name: even, input_mapping: {x: n}, on_error: \"fallback:inc\"}\n")
			want := masked(t, run(t, b, f, map[string]any{"n": int64(7)}))
			for range 20 {
				require.Equal(t, want, masked(t, run(t, b, f, map[string]any{"n": int64(7)})))
			}
		})
	}
}

// "Step ordering is the literal steps list."
func TestGuarantee4Determinism_OrderIsThatOfTheDefinition(t *testing.T) {
	onEveryForm(t, "steps:\n\t- {tool_name: c}\n\t- {tool_name: a}\n\t- {tool_name: b}\n", nil, func(b *bench) {
		for _, name := range []string{"a", "b", "c"} {
			b.tool(name, "", "", returns(map[string]any{name: true}))
		}
	}, func(t *testing.T, r *executor.RunResult) {
		var order []string
		for i, rec := range r.ExecutionLog {
			assert.Equal(t, i, rec.StepIndex)
			order = append(order, rec.ToolName)
		}
		assert.Equal(t, []string{"start", "c", "a", "b"}, order)
	})
}

// "For a DAG it is the topological sort, stable for a given graph."
func TestGuarantee4Determinism_TopologicalOrderIsStable(t *testing.T) {
	b := newBench(t)
	f := &flows.Flow{Type: flows.TypeDAGFlow, Name: "f", Version: "1.0.0"}
	for id, deps := range map[string][]string{"d": {"b", "c"}, "c": {"a"}, "b": {"a"}, "a": nil} {
		b.tool(id, "", "", returns(map[string]any{id: true}))
		f.Steps = append(f.Steps, flows.Step{StepID: id, ToolName: id, DependsOn: deps}) // in any order
	}
	var first string
	for range 20 {
		var order strings.Builder
		for _, rec := range runLinear(t, b, f, nil).ExecutionLog {
			order.WriteString(rec.ToolName)
		}
		if first == "" {
			first = order.String()
		}
		require.Equal(t, first, order.String())
	}
	assert.Contains(t, []string{"abcd", "acbd"}, first)
}

// "The executor invariants forbid LLM calls, network I/O and randomness inside the executor." Jitter of retries is the
// only chance, and it decides about waiting alone.
func TestGuarantee4Determinism_NoNetworkInsideTheExecutor(t *testing.T) {
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	looked := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, parser.ImportsOnly)
		require.NoError(t, err)
		looked++
		for _, spec := range file.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			assert.False(t, path == "net" || strings.HasPrefix(path, "net/") || path == "os/exec" || strings.HasPrefix(path, "pave/executor/"), "%s imports %s", e.Name(), path)
		}
	}
	assert.Greater(t, looked, 20)
}

// "The executor maintains exactly one context per run: it accumulates validated outputs of each step."
func TestGuarantee5ValidatedContext_OneContextPerRun(t *testing.T) {
	onEveryForm(t, "steps:\n\t- {tool_name: give}\n\t- {tool_name: add, input_mapping: {a: a}, output_mapping: {second: a}}\n\t- {tool_name: whole, output_as: seen}\n", map[string]any{"in": true}, func(b *bench) {
		b.tool("give", "", object, returns(map[string]any{"a": int64(1), "dropped": "undeclared"}))
		b.tool("add", object, object, func(_ context.Context, in map[string]any) (any, error) {
			return map[string]any{"a": in["a"].(int64) + 1}, nil
		})
		b.tool("whole", "", anyObject, echo)
	}, func(t *testing.T, r *executor.RunResult) {
		context := map[string]any{"in": true, "a": int64(1), "b": nil, "second": int64(2)}
		assert.Equal(t, context, r.FinalOutput["seen"])
		assert.Equal(t, context, r.ExecutionLog[3].Inputs)
	})
}

// "Step records capture the inputs and outputs for that step", whatever later tools do with what they are given.
func TestGuarantee5ValidatedContext_RecordsAreOfTheirStep(t *testing.T) {
	onEveryForm(t, "on_context_collision: overwrite\nsteps:\n\t- {tool_name: give}\n\t- {tool_name: spoil}\n", nil, func(b *bench) {
		b.tool("give", "", anyObject, returns(map[string]any{"list": []any{int64(1)}}))
		b.tool("spoil", "", anyObject, func(_ context.Context, in map[string]any) (any, error) {
			in["list"].([]any)[0] = "spoiled"
			return map[string]any{"own": in["list"]}, nil
		})
	}, func(t *testing.T, r *executor.RunResult) {
		assert.Equal(t, []any{int64(1)}, r.ExecutionLog[1].Outputs["list"])
		assert.Equal(t, []any{int64(1)}, r.ExecutionLog[2].Inputs["list"])
		assert.Equal(t, map[string]any{"list": []any{int64(1)}, "own": []any{"spoiled"}}, r.FinalOutput)
	})
}

// "When flow-level schemas are set, the initial input and the final merged output are validated too; this surfaces as
// records with step_index -1 and len(steps)."
func TestGuarantee5ValidatedContext_FlowSchemasAreRecords(t *testing.T) {
	t.Run("input", func(t *testing.T) {
		onEveryForm(t, "input_schema: "+needsText+"\nsteps:\n\t- {tool_name: give}\n", map[string]any{"text": int64(1)}, func(b *bench) {
			b.tool("give", "", "", returns(map[string]any{}))
		}, func(t *testing.T, r *executor.RunResult) {
			require.Len(t, r.ExecutionLog, 1)
			assert.Equal(t, -1, r.ExecutionLog[0].StepIndex)
			assert.Equal(t, "f", r.ExecutionLog[0].ToolName)
			assert.Equal(t, flows.CWSchemaValidation.Code, cw(r.ExecutionLog[0]))
		})
	})
	t.Run("output", func(t *testing.T) {
		onEveryForm(t, "output_schema: "+needsText+"\nsteps:\n\t- {tool_name: give}\n", nil, func(b *bench) {
			b.tool("give", "", anyObject, returns(map[string]any{"text": int64(1)}))
		}, func(t *testing.T, r *executor.RunResult) {
			last := r.ExecutionLog[len(r.ExecutionLog)-1]
			assert.Equal(t, 2, last.StepIndex)
			assert.Equal(t, "f", last.ToolName)
			assert.Equal(t, flows.CWSchemaValidation.Code, cw(last))
			assert.False(t, r.Success)
			assert.Nil(t, r.FinalOutput)
		})
	})
}

// "The rule about siblings is unconditional: two steps of one level that produce the same key fail whatever the policy."
func TestGuarantee2NoLoss_SiblingsNeverOverwriteEachOther(t *testing.T) {
	for _, policy := range []flows.CollisionPolicy{"overwrite", "warn", "error"} {
		b := newBench(t)
		b.tool("give", "", object, returns(map[string]any{"a": int64(1)}))
		f := &flows.Flow{Type: flows.TypeDAGFlow, Name: "f", Version: "1.0.0", OnContextCollision: policy,
			Steps: []flows.Step{{StepID: "x", ToolName: "give"}, {StepID: "y", ToolName: "give"}}}
		plan, _ := executor.Compile(f, b.tools, executor.CompileOptions{})
		require.NotNil(t, plan)
		r := executor.New(b.opts).Run(context.Background(), plan, executor.RunInput{})
		assert.False(t, r.Success)
		assert.Equal(t, flows.CWFlowExecution.Code, cw(r.ExecutionLog[len(r.ExecutionLog)-1]), policy)
	}
}
