package baseline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pave/analyzer/baseline"
	"pave/analyzer/baseline/workload"
	"pave/flows"
)

// tool makes a tool of fields such as "id:integer" and "note?:string"; the type may be a JSON Schema.
func tool(name, inputs, outputs string) *flows.Tool {
	return &flows.Tool{Name: name, InputSchema: object(inputs), OutputSchema: object(outputs)}
}

func object(fields string) flows.RawSchema {
	var properties, required []string
	for field := range strings.FieldsSeq(fields) {
		field, declared, _ := strings.Cut(field, ":")
		bare, optional := strings.CutSuffix(field, "?")
		if !strings.HasPrefix(declared, "{") {
			declared = fmt.Sprintf(`{"type":%q}`, declared)
		}
		properties = append(properties, fmt.Sprintf("%q:%s", bare, declared))
		if !optional {
			required = append(required, fmt.Sprintf("%q", bare))
		}
	}
	return flows.RawSchema(`{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `]}`)
}

func analyzerOf(t testing.TB, tools ...*flows.Tool) *baseline.Analyzer {
	t.Helper()
	a, err := baseline.NewAnalyzer(tools)
	require.NoError(t, err)
	return a
}

// Which declarations are the same type.
func TestTypeEquality(t *testing.T) {
	for _, c := range []struct {
		out, in string
		equal   bool
	}{
		{`integer`, `integer`, true},
		{`integer`, `number`, false},
		{`integer`, `boolean`, false},
		{`{"type":["integer","null"]}`, `{"anyOf":[{"type":"null"},{"type":"integer"}]}`, true},
		{`{"type":["integer","null"]}`, `integer`, false},
		{`{"enum":["a","b"]}`, `{"enum":["b","a"]}`, true},
		{`{"enum":["a"]}`, `{"const":"a"}`, true},
		{`{"enum":[1]}`, `{"enum":["1"]}`, false},
		{`{"type":"array"}`, `{"type":"array","items":{"type":"string"}}`, false},
		{`{"type":"array","items":{"type":"string","minLength":1}}`, `{"type":"array","items":{"type":"string"}}`, true},
		{`{}`, `{}`, true},
		{`{}`, `string`, false},
		{`object`, `{"type":"object","properties":{"a":{"type":"integer"}}}`, false},
		{`{"type":"object","properties":{"a":{"type":"integer"},"b":{}}}`, `{"type":"object","properties":{"b":{},"a":{"type":"integer","minimum":3}}}`, true},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, `{"type":"object","properties":{"a":{"type":"integer"}}}`, false},
		{`{"type":"object","additionalProperties":{"type":"integer"}}`, `object`, false},
	} {
		a := analyzerOf(t, tool("x", "", "v:"+c.out), tool("y", "v:"+c.in, ""))
		assert.Equal(t, c.equal, len(a.CompatibilityMatrix()["x"]) == 1, "%s to %s", c.out, c.in)
	}
}

func TestReferencesAreFollowed(t *testing.T) {
	x := tool("x", "", "v:integer")
	y := &flows.Tool{Name: "y", InputSchema: flows.RawSchema(`{"type":"object","properties":{"v":{"$ref":"#/$defs/n"},"w":{"$ref":"#/$defs/loop"}},"required":["v"],
		"$defs":{"n":{"type":"integer"},"loop":{"$ref":"#/$defs/loop"}}}`)}
	assert.Equal(t, []string{"y"}, analyzerOf(t, x, y).CompatibilityMatrix()["x"])
}

func TestAnalyzerErrors(t *testing.T) {
	_, err := baseline.NewAnalyzer([]*flows.Tool{tool("b", "", ""), tool("a", "", ""), tool("b", "", ""), tool("a", "", "")})
	assert.EqualError(t, err, "Duplicate tool names supplied to ChainAnalyzer: ['a', 'b'].")
	_, err = baseline.NewAnalyzer([]*flows.Tool{{Name: "a", InputSchema: flows.RawSchema(`{`)}})
	assert.ErrorContains(t, err, "tool 'a': input schema")
	_, err = baseline.NewAnalyzer([]*flows.Tool{{Name: "a", OutputSchema: flows.RawSchema(`{`)}})
	assert.ErrorContains(t, err, "tool 'a': output schema")
	assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
}

// The index over fields finds the pairs that comparing every tool with every other finds.
func TestMatrixAgainstTheDefinition(t *testing.T) {
	field := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"a", "b", "c", "a?", "b?", "c?"}).Draw(t, "name") + ":" + rapid.SampledFrom([]string{"integer", "string"}).Draw(t, "type")
	})
	fields := rapid.SliceOfNDistinct(field, 0, 3, func(f string) byte { return f[0] })
	rapid.Check(t, func(t *rapid.T) {
		type declared struct{ in, out []string }
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) declared { return declared{fields.Draw(t, "in"), fields.Draw(t, "out")} }), 0, 6).Draw(t, "tools")
		tools := make([]*flows.Tool, len(all))
		want := map[string][]string{}
		for i, d := range all {
			tools[i] = tool(fmt.Sprint(i), strings.Join(d.in, " "), strings.Join(d.out, " "))
			want[tools[i].Name] = []string{}
			for k, other := range all {
				if i != k && follows(d.out, other.in) {
					want[tools[i].Name] = append(want[tools[i].Name], fmt.Sprint(k))
				}
			}
		}
		a, err := baseline.NewAnalyzer(tools)
		require.NoError(t, err)
		assert.Equal(t, want, a.CompatibilityMatrix())
	})
}

func follows(out, in []string) bool {
	types := map[string]string{}
	for _, f := range out {
		name, declared, _ := strings.Cut(strings.ReplaceAll(f, "?", ""), ":")
		types[name] = declared
	}
	for _, f := range in {
		name, declared, _ := strings.Cut(f, ":")
		bare, optional := strings.CutSuffix(name, "?")
		got, returned := types[bare]
		if returned && got != declared || !returned && !optional {
			return false
		}
	}
	return true
}

// Flows of EachFlow are only lent; SuggestFlows owns its own.
func TestSuggestedFlowsAreIndependent(t *testing.T) {
	a := analyzerOf(t, tool("x", "k:string", "v:integer"), tool("y", "v:integer", "w:integer"), tool("z", "w:integer", ""))
	kept, err := a.SuggestFlows(baseline.DefaultChainOptions())
	require.NoError(t, err)
	var names []string
	for _, f := range kept {
		parts := []string{}
		for i := range f.Steps {
			parts = append(parts, f.Steps[i].ToolName)
		}
		assert.Equal(t, "suggested__"+strings.Join(parts, "__"), f.Name)
		assert.Equal(t, "Auto-suggested flow from ChainAnalyzer: "+strings.Join(parts, " → ")+".", f.Description)
		names = append(names, f.Name)
	}
	assert.Equal(t, []string{"suggested__x__y", "suggested__x__y__z", "suggested__y__z"}, names)
	assert.Equal(t, flows.Mapping{{Target: "v", Value: flows.Key("v")}}, kept[1].Steps[1].InputMapping)

	seen := 0
	require.NoError(t, a.EachFlow(baseline.DefaultChainOptions(), func(*flows.Flow) bool { seen++; return seen < 2 }))
	assert.Equal(t, 2, seen)
}

// What lies in shared blocks is what each flow alone would be, of any depth.
func TestKeptFlowsAreThoseLent(t *testing.T) {
	a, err := baseline.NewAnalyzer(workload.Tools(300))
	require.NoError(t, err)
	for _, opts := range []baseline.ChainOptions{{MaxDepth: 5, MinDepth: 1}, {MaxDepth: 4, MinDepth: 3}, baseline.DefaultChainOptions()} {
		kept, err := a.SuggestFlows(opts)
		require.NoError(t, err)
		n := 0
		require.NoError(t, a.EachFlow(opts, func(lent *flows.Flow) bool {
			require.Equal(t, *lent, *kept[n])
			n++
			return true
		}))
		require.Len(t, kept, n)
		require.Greater(t, n, 100)
	}
}

func TestSchemaMappings(t *testing.T) {
	mappings := func(synonyms map[string][]string, tools ...*flows.Tool) (out []string) {
		for _, m := range analyzerOf(t, tools...).SuggestSchemaMappings(synonyms) {
			for _, f := range m.FieldMappings {
				out = append(out, m.Producer+">"+m.Consumer+" "+f.Target+"="+f.Value.Ref)
			}
			out = append(out, m.Warnings...)
		}
		return out
	}
	x := tool("x", "zz:string", "customer_id:string count:integer Ready:boolean")
	assert.Equal(t, []string{"x>y count=count", "'y.count' ← 'x.count' (name: exact-name, type: compatible)"}, mappings(nil, x, tool("y", "count:number q?:string", "")))
	assert.Equal(t, []string{"x>y id=customer_id", "'y.id' ← 'x.customer_id' (name: synonym, type: exact)"},
		mappings(map[string][]string{"id": {"nothing", "customer_id"}}, x, tool("y", "id:string", "")))
	assert.Equal(t, []string{"x>y customerID=customer_id", "x>y count=count", "'y.customerID' ← 'x.customer_id' (name: normalized-name, type: exact)"},
		mappings(nil, x, tool("y", "customerID:string count:integer", "")))
	assert.Empty(t, mappings(nil, x, tool("y", "count:number zz:string", "")), "a required argument without a match")
	assert.Empty(t, mappings(nil, x, tool("y", "id:string", "")), "no synonym")
	assert.Empty(t, mappings(nil, x, tool("y", "count:boolean", "")), "another category")
	assert.Empty(t, mappings(nil, x, tool("y", "ready:boolean count:string", "")), "one of two")
	assert.Empty(t, mappings(nil, x, tool("y", "count:integer", "")), "an exact pair")
}

func TestCacheableSteps(t *testing.T) {
	flow := &flows.Flow{Type: flows.TypeFlow, Steps: []flows.Step{
		{ToolName: "a", InputMapping: flows.Mapping{{Target: "x", Value: flows.Key("x")}}},
		{ToolName: "b", InputMapping: flows.Mapping{{Target: "x", Value: flows.Key("x")}}}}}
	run := func(a, b any, success bool) []baseline.RecordedStep {
		return []baseline.RecordedStep{{Success: true, Outputs: a}, {Success: success, Outputs: b}}
	}
	found, err := baseline.SuggestOptimizations(flow, nil, [][]baseline.RecordedStep{run(map[string]any{"v": int64(1)}, "y", true), run(map[string]any{"v": 1.0}, "z", true)})
	require.NoError(t, err)
	assert.Equal(t, []baseline.Optimization{{Code: baseline.CodeCacheable, Title: "cacheable-step", StepIndex: 0, ToolName: "a",
		Message: "Step 0 ('a') returned identical output across all 2 observed traces — candidate for caching."}}, found)
	for name, runs := range map[string][][]baseline.RecordedStep{
		"one run":    {run(1, 1, true)},
		"failed":     {run("p", 1, false), run("q", 1, false)},
		"incomplete": {run("p", 1, true), {}},
	} {
		found, err := baseline.SuggestOptimizations(flow, nil, runs)
		require.NoError(t, err)
		assert.Empty(t, found, name)
	}
}
