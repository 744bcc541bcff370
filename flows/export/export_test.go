package export

import (
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
)

type toolSet map[string]*flows.Tool

func (t toolSet) Tool(name string) (*flows.Tool, bool) {
	tool, ok := t[name]
	return tool, ok
}

type schemaSet map[string]string

func (s schemaSet) Schema(name string) (flows.RawSchema, bool) {
	raw, ok := s[name]
	return flows.RawSchema(raw), ok
}

func contract(effects flows.SideEffects) *flows.SafetyContract {
	c := flows.DefaultSafety()
	c.SideEffects = effects
	return &c
}

var tools = toolSet{
	"find":   {Name: "find", InputSchema: flows.RawSchema(`{"title":"Find","type":"object","properties":{"email":{"type":"string","title":"Email"}},"required":["email"]}`), Safety: contract(flows.EffectRead)},
	"refund": {Name: "refund", Safety: contract(flows.EffectDestructive)},
	"riddle": {Name: "riddle"},
}

func flow(steps ...flows.Step) *flows.Flow {
	return &flows.Flow{Type: flows.TypeFlow, Name: "user_lookup", Version: "1.2.0", Description: "Finds a user.", Steps: steps}
}

func define(t *testing.T, f *flows.Flow, target Target, o Options) string {
	t.Helper()
	if o.Tools == nil {
		o.Tools = tools
	}
	out, err := Definition(f, target, o)
	require.NoError(t, err)
	return string(out)
}

func TestDefinitions(t *testing.T) {
	f := flow(flows.Step{ToolName: "find"})
	parameters := `{"type":"object","properties":{"email":{"type":"string","title":"Email"}},"required":["email"]}`
	assert.Equal(t, `{"type":"function","function":{"name":"user_lookup","description":"Finds a user.","parameters":`+parameters+`}}`, define(t, f, OpenAI, Options{}))
	assert.Equal(t, `{"name":"user_lookup","description":"Finds a user.","input_schema":`+parameters+`}`, define(t, f, Anthropic, Options{}))
	assert.Equal(t, `{"name":"user_lookup","description":"Finds a user. [lifecycle=active; version=1.2.0; side_effects=read; requires_approval=false]","inputSchema":`+parameters+
		`,"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`, define(t, f, MCP, Options{}))
	assert.Contains(t, define(t, f, Anthropic, Options{Name: "other"}), `{"name":"other"`)
}

func TestInputSchemaSources(t *testing.T) {
	f := flow(flows.Step{ToolName: "find"})
	parameters := func(o Options) string {
		var d struct {
			InputSchema json.RawMessage `json:"input_schema"`
		}
		require.NoError(t, json.Unmarshal([]byte(define(t, f, Anthropic, o)), &d))
		return string(d.InputSchema)
	}
	inferred := Options{Input: flows.RawSchema(`{"type":"object","properties":{"q":{}}}`)}
	assert.Equal(t, `{"type":"object","properties":{"q":{}}}`, parameters(inferred), "inferred before the first tool's")
	f.InputSchemaRef = "lookup"
	inferred.Schemas = schemaSet{"lookup": `{"properties":{"r":{}}}`}
	assert.Equal(t, `{"type":"object","properties":{"r":{}}}`, parameters(inferred), "declared by name before inferred")
	f.InputSchemaRef, f.InputSchema = "", flows.RawSchema(`{"title":"T","type":"object","properties":{"b":{},"token":{},"a":{}},"required":["token","b"]}`)
	f.DynamicParams = []string{"token"}
	assert.Equal(t, `{"type":"object","properties":{"b":{},"a":{}},"required":["b"]}`, parameters(inferred), "declared order, no dynamic params")
	f.InputSchema, f.Steps = nil, []flows.Step{{ToolName: "riddle"}}
	assert.Equal(t, `{"type":"object","properties":{}}`, parameters(Options{}))
}

func TestMCPSafety(t *testing.T) {
	annotations := func(f *flows.Flow) (mcpAnnotations, string) {
		var d mcpTool
		require.NoError(t, json.Unmarshal([]byte(define(t, f, MCP, Options{})), &d))
		return d.Annotations, d.Description
	}
	unknown := mcpAnnotations{Destructive: true, OpenWorld: true}
	for _, f := range []*flows.Flow{
		flow(flows.Step{ToolName: "riddle"}),
		flow(flows.Step{ToolName: "find"}, flows.Step{ToolName: "absent"}),
		flow(flows.Step{ToolName: "find"}, flows.Step{FlowName: "sub"}),
		flow(flows.Step{ToolName: "find", OnError: "fallback:riddle"}),
		flow(flows.Step{ToolName: "find", DecisionCandidates: []string{"find", "riddle"}}),
	} {
		got, description := annotations(f)
		assert.Equal(t, unknown, got)
		assert.Contains(t, description, "side_effects=external", "as the list of capabilities and the policy take it")
	}
	got, description := annotations(flow(flows.Step{ToolName: "find"}, flows.Step{ToolName: "refund"}))
	assert.Equal(t, mcpAnnotations{Destructive: true, Idempotent: true, OpenWorld: true}, got)
	assert.Contains(t, description, "side_effects=destructive")
	f := flow(flows.Step{ToolName: "riddle"})
	f.Safety = contract(flows.EffectWrite)
	f.Safety.RequiresApproval, f.Safety.Idempotent = true, false
	f.Governance = &flows.Governance{Lifecycle: flows.LifecycleReviewed}
	f.OutputSchema = flows.RawSchema(`{"title":"Out","type":"object","properties":{"a":{}}}`)
	got, description = annotations(f)
	assert.Equal(t, mcpAnnotations{}, got)
	assert.Equal(t, "Finds a user. [lifecycle=reviewed; version=1.2.0; side_effects=write; requires_approval=true]", description)
	assert.Contains(t, define(t, f, MCP, Options{}), `"outputSchema":{"type":"object","properties":{"a":{}}}`)
}

func TestDefinitionRefuses(t *testing.T) {
	named := flow(flows.Step{ToolName: "find"})
	named.Name = "shop.lookup"
	ref := flow(flows.Step{ToolName: "find"})
	ref.InputSchemaRef = "absent"
	for name, tc := range map[string]struct {
		flow   *flows.Flow
		target Target
		cause  error
	}{
		"empty":      {flow(), OpenAI, flows.CWToolDefinition},
		"sub-flow":   {flow(flows.Step{FlowName: "sub"}), Anthropic, flows.CWToolDefinition},
		"unknown":    {flow(flows.Step{ToolName: "absent"}), MCP, flows.CWToolDefinition},
		"schema ref": {ref, MCP, flows.CWToolDefinition},
		"name":       {named, OpenAI, nil},
		"target":     {flow(flows.Step{ToolName: "find"}), "gemini", nil},
	} {
		_, err := Definition(tc.flow, tc.target, Options{Tools: tools})
		assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err), name)
		if tc.cause != nil {
			assert.ErrorIs(t, err, tc.cause, name)
		}
	}
	assert.Contains(t, define(t, named, MCP, Options{}), "shop.lookup", "MCP takes dots")
}

// The parameters are a schema that compiles.
func TestParametersAreASchema(t *testing.T) {
	var d anthropicTool
	require.NoError(t, json.Unmarshal([]byte(define(t, flow(flows.Step{ToolName: "find"}), Anthropic, Options{})), &d))
	var doc any
	require.NoError(t, json.Unmarshal(d.InputSchema, &doc))
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("urn:parameters", doc))
	s, err := c.Compile("urn:parameters")
	require.NoError(t, err)
	assert.NoError(t, s.Validate(map[string]any{"email": "a@b"}))
	assert.Error(t, s.Validate(map[string]any{}))
}
