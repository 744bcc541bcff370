package advice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
)

type toolSet map[string]*flows.Tool

func (t toolSet) Tool(name string) (*flows.Tool, bool) {
	tool, ok := t[name]
	return tool, ok
}

func tool(name, output string, effects flows.SideEffects) *flows.Tool {
	t := &flows.Tool{Name: name, OutputSchema: flows.RawSchema(output)}
	if effects != "" {
		c := flows.DefaultSafety()
		c.SideEffects = effects
		t.Safety = &c
	}
	return t
}

var tools = toolSet{
	"double": tool("double", `{"type":"object","properties":{"value":{"type":"integer"}}}`, ""),
	"fetch":  tool("fetch", `{"type":"object","properties":{"doc":{"type":"object"},"at":{"type":"string"}}}`, flows.EffectRead),
	"book":   tool("book", `{"type":"object","properties":{"booking":{"type":"string"}}}`, flows.EffectWrite),
	"pay":    tool("pay", `{"type":"object","properties":{"receipt":{"type":"string"}}}`, flows.EffectExternal),
	"vague":  {Name: "vague"},
}

func suggest(t *testing.T, steps, more string, runs ...[]map[string]any) []Suggestion {
	t.Helper()
	flow, _, err := flows.ParseFlow([]byte(`{"format_version":"1.1","type":"Flow","name":"f","description":"d","steps":[` + steps + `]` + more + `}`))
	require.NoError(t, err)
	return Suggest(flow, tools, runs)
}

func codes(found []Suggestion) []string {
	var out []string
	for _, s := range found {
		out = append(out, s.Code+" "+s.Title+" "+s.ToolName)
	}
	return out
}

func TestSuggestions(t *testing.T) {
	double := `{"tool_name":"double","input_mapping":{"n":"n"}}`
	fetch := `{"tool_name":"fetch","input_mapping":{"n":"n"}}`
	for name, tc := range map[string]struct {
		steps, more string
		want        []string
	}{
		"clean":                {double + `,{"tool_name":"fetch","input_mapping":{"n":"value"}}`, "", nil},
		"whole context":        {`{"tool_name":"double"}`, "", []string{"CW001 wasteful-passthrough double"}},
		"whole context reads":  {double + `,{"tool_name":"fetch"}`, "", []string{"CW001 wasteful-passthrough fetch"}},
		"independent":          {double + "," + fetch, "", []string{"CW002 parallelizable-pair double", "CW003 dead-step double"}},
		"pointer reads":        {fetch + `,{"tool_name":"double","input_mapping":{"n":"/doc/a"}}`, "", nil},
		"optional reads":       {fetch + `,{"tool_name":"double","input_mapping":{"n":{"$optional":"/doc/a"}}}`, "", nil},
		"expression reads":     {fetch + `,{"tool_name":"double","input_mapping":{"n":{"$expr":"size(doc.a)"}}}`, "", nil},
		"guard reads":          {fetch + `,{"tool_name":"double","guard":"at == \"x\"","input_mapping":{"n":"n"}}`, "", nil},
		"loop reads":           {fetch + `,{"tool_name":"double","for_each":"/doc/list","as":"e","input_mapping":{"n":"e"}}`, "", nil},
		"loop variable is own": {`{"tool_name":"double","input_mapping":{"n":"n"},"output_as":"e"},{"tool_name":"fetch","for_each":"/l","as":"e","input_mapping":{"n":"e"}}`, "", []string{"CW002 parallelizable-pair double", "CW003 dead-step double"}},
		"returns read":         {double + "," + fetch, `,"returns":{"v":"value"}`, []string{"CW002 parallelizable-pair double"}},
		"nothing merged":       {`{"tool_name":"double","input_mapping":{"n":"n"},"output_mapping":{}},` + fetch, "", nil},
		"renamed":              {`{"tool_name":"double","input_mapping":{"n":"n"},"output_mapping":{"x":"value"}},{"tool_name":"fetch","input_mapping":{"n":"x"}}`, "", nil},
		"side effects":         {`{"tool_name":"book","input_mapping":{"n":"n"}},{"tool_name":"pay","input_mapping":{"n":"n"}}`, "", nil},
		"one side effect":      {`{"tool_name":"book","input_mapping":{"n":"n"}},` + fetch, "", []string{"CW002 parallelizable-pair book"}},
		"no schema":            {`{"tool_name":"vague","input_mapping":{"n":"n"}},` + fetch, "", nil},
		"constants only":       {double + `,{"tool_name":"fetch","input_mapping":{"n":5}}`, "", []string{"CW003 dead-step double"}},
	} {
		assert.Equal(t, tc.want, codes(suggest(t, tc.steps, tc.more)), name)
	}
}

func TestMessages(t *testing.T) {
	found := suggest(t, `{"tool_name":"fetch","input_mapping":{"n":"n"}},{"tool_name":"double","input_mapping":{"n":"n"}}`, "")
	require.Len(t, found, 2)
	assert.Equal(t, "Step 0 ('fetch') outputs ['at', 'doc'] but no downstream step reads them. Remove the step or wire it into a downstream input_mapping.", found[1].Message)
	assert.Contains(t, found[0].Message, "Steps 0 ('fetch') and 1 ('double')")
}

func TestSameOutputs(t *testing.T) {
	one := map[string]any{"value": int64(1)}
	steps := `{"tool_name":"double","input_mapping":{"n":"n"}},{"tool_name":"fetch","input_mapping":{"n":"value"}}`
	assert.Empty(t, suggest(t, steps, "", []map[string]any{one}), "one run says nothing")
	found := suggest(t, steps, "", []map[string]any{one, {"doc": "a"}}, []map[string]any{{"value": 1.0}, {"doc": "b"}})
	assert.Equal(t, []string{"CW004 cacheable-step double"}, codes(found))
	assert.Empty(t, suggest(t, steps, "", []map[string]any{one}, []map[string]any{nil}))
}

func TestDAGAndUnknownTools(t *testing.T) {
	assert.Empty(t, Suggest(&flows.Flow{Type: flows.TypeDAGFlow, Steps: []flows.Step{{ToolName: "double"}}}, tools, nil))
	flow := &flows.Flow{Type: flows.TypeFlow, Steps: []flows.Step{{ToolName: "double"}, {ToolName: "fetch"}}}
	assert.Equal(t, []string{"CW001 wasteful-passthrough double", "CW001 wasteful-passthrough fetch"}, codes(Suggest(flow, nil, nil)))
}
