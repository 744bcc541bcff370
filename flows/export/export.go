// Package export writes flows as tool definitions for model APIs and MCP clients, so that a model can call a flow
// the way it calls any tool.
package export

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/value"
)

// Target is a form of tool definition.
type Target string

const (
	OpenAI    Target = "openai"
	Anthropic Target = "anthropic"
	MCP       Target = "mcp"
)

// Targets are all of them.
var Targets = []Target{OpenAI, Anthropic, MCP}

// Tools looks tools up by name.
type Tools interface {
	Tool(name string) (*flows.Tool, bool)
}

// Schemas looks up the schemas that *_schema_ref fields name.
type Schemas interface {
	Schema(name string) (flows.RawSchema, bool)
}

// Options of an export. Tools is required.
type Options struct {
	Tools   Tools
	Schemas Schemas // nil: no names resolve
	// Input is the input schema that compiling the flow inferred; it is used where the flow declares none.
	Input flows.RawSchema
	// Name is the definition's name, the flow's own where it is "".
	Name string
}

// names are the names that each target takes.
var names = map[Target]*regexp.Regexp{
	OpenAI:    regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`),
	Anthropic: regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`),
	MCP:       regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`),
}

// Definition is the tool definition of a flow, JSON with its fields in the target's usual order.
//
// The parameters are the flow's input schema, else the inferred one, else the first step's tool input, without the
// top-level title and without dynamic params, which are the server's to fill in. The error is a *flows.Error: an
// unknown target, a name that the target does not take, or no schema to be had (wraps flows.CWToolDefinition).
func Definition(flow *flows.Flow, target Target, o Options) (json.RawMessage, error) {
	taken, known := names[target]
	if !known {
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("unknown target %q: use one of %v", target, Targets))
	}
	name := o.Name
	if name == "" {
		name = flow.Name
	}
	if !taken.MatchString(name) {
		return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("%q is no name of a tool for %s (%s); give another name", name, target, taken))
	}
	parameters, err := input(flow, &o)
	if err != nil {
		return nil, err
	}
	parameters, err = object(parameters, flow.DynamicParams)
	if err != nil {
		return nil, err
	}
	switch target {
	case OpenAI:
		return encode(openAITool{Type: "function", Function: openAIFunction{Name: name, Description: flow.Description, Parameters: parameters}})
	case Anthropic:
		return encode(anthropicTool{Name: name, Description: flow.Description, InputSchema: parameters})
	}
	return mcpDefinition(flow, name, parameters, &o)
}

type openAITool struct {
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type anthropicTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type mcpTool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  mcpAnnotations  `json:"annotations"`
}

type mcpAnnotations struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
	OpenWorld   bool `json:"openWorldHint"`
}

func encode(v any) (json.RawMessage, error) {
	out, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode tool definition: %w", err)
	}
	return out, nil
}

func refuse(format string, args ...any) error {
	return &flows.Error{Code: flows.CodeInvalid, Message: fmt.Sprintf(format, args...), Err: flows.CWToolDefinition}
}

// input finds the flow's input schema.
func input(flow *flows.Flow, o *Options) (flows.RawSchema, error) {
	if len(flow.InputSchema) > 0 {
		return flow.InputSchema, nil
	}
	if flow.InputSchemaRef != "" {
		return named(o.Schemas, flow.Name, flow.InputSchemaRef)
	}
	if len(o.Input) > 0 {
		return o.Input, nil
	}
	if len(flow.Steps) == 0 {
		return nil, refuse("flow '%s' has no steps and no input schema; declare input_schema", flow.Name)
	}
	first := &flow.Steps[0]
	if first.FlowName != "" {
		return nil, refuse("flow '%s' begins with the sub-flow '%s' and has no input schema; declare input_schema", flow.Name, first.FlowName)
	}
	tool, ok := o.Tools.Tool(first.ToolName)
	switch {
	case !ok:
		return nil, refuse("flow '%s' has no input schema and its first tool '%s' is not registered; declare input_schema or apply the tool", flow.Name, first.ToolName)
	case len(tool.InputSchema) == 0:
		return flows.RawSchema(`{"type":"object"}`), nil
	}
	return tool.InputSchema, nil
}

func named(schemas Schemas, flow, ref string) (flows.RawSchema, error) {
	if schemas != nil {
		if raw, ok := schemas.Schema(ref); ok {
			return raw, nil
		}
	}
	return nil, refuse("flow '%s' refers to the schema '%s', which is not registered; write it inline or register it", flow, ref)
}

// object prepares a schema for the top of a definition: an object with properties, without a title, without the
// named properties.
func object(raw flows.RawSchema, without []string) (json.RawMessage, error) {
	tree, err := value.DecodeOrdered(raw, value.Limits{})
	members, ok := tree.(value.Members)
	if err != nil || !ok {
		return nil, refuse("the input schema is not a JSON Schema object")
	}
	out := make(value.Members, 0, len(members)+2)
	if _, typed := members.Get("type"); !typed {
		out = append(out, value.Member{Key: "type", Value: "object"})
	}
	for _, m := range members {
		switch m.Key {
		case "title":
			continue
		case "properties":
			m.Value = drop(m.Value, without)
		case "required":
			m.Value = dropNames(m.Value, without)
		}
		out = append(out, m)
	}
	if _, ok := members.Get("properties"); !ok {
		out = append(out, value.Member{Key: "properties", Value: value.Members{}})
	}
	return value.Encode(out), nil
}

func drop(v any, without []string) any {
	members, ok := v.(value.Members)
	if !ok {
		return v
	}
	return slices.DeleteFunc(slices.Clone(members), func(m value.Member) bool { return slices.Contains(without, m.Key) })
}

func dropNames(v any, without []string) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	return slices.DeleteFunc(slices.Clone(list), func(e any) bool {
		name, isText := e.(string)
		return isText && slices.Contains(without, name)
	})
}

func mcpDefinition(flow *flows.Flow, name string, parameters json.RawMessage, o *Options) (json.RawMessage, error) {
	safety := Safety(flow, o.Tools)
	tool := mcpTool{Name: name, InputSchema: parameters, Annotations: mcpAnnotations{Destructive: true, OpenWorld: true}}
	approval := false
	if safety != nil {
		approval = safety.RequiresApproval
		tool.Annotations = mcpAnnotations{
			ReadOnly:    safety.ReadOnly(),
			Destructive: safety.SideEffects == flows.EffectDestructive,
			Idempotent:  safety.Idempotent,
			OpenWorld:   flows.Exceeds(safety.SideEffects, flows.EffectWrite),
		}
	}
	lifecycle := flows.LifecycleActive
	if flow.Governance != nil {
		lifecycle = flow.Governance.Lifecycle
	}
	tool.Description = strings.TrimSpace(fmt.Sprintf("%s [lifecycle=%s; version=%s; side_effects=%s; requires_approval=%t]",
		flow.Description, lifecycle, flow.Version, flows.Effects(safety), approval)) // unknown counts as external
	output := flow.OutputSchema
	if len(output) == 0 && flow.OutputSchemaRef != "" {
		var err error
		if output, err = named(o.Schemas, flow.Name, flow.OutputSchemaRef); err != nil {
			return nil, err
		}
	}
	if len(output) > 0 {
		var err error
		if tool.OutputSchema, err = object(output, nil); err != nil {
			return nil, err
		}
	}
	return encode(tool)
}

// Safety is the flow's own contract or, where it has none, the merge of those of its tools, fallbacks and decision
// candidates. nil is unknown: a tool is not registered or has no contract, or a step is a sub-flow or a capability.
func Safety(flow *flows.Flow, tools Tools) *flows.SafetyContract {
	if flow.Safety != nil {
		return flow.Safety
	}
	var contracts []flows.SafetyContract
	for i := range flow.Steps {
		step := &flow.Steps[i]
		if step.ToolName == "" || step.StepType == "capability" {
			return nil
		}
		reached := append([]string{step.ToolName}, step.DecisionCandidates...)
		if fallback, ok := strings.CutPrefix(step.OnError, "fallback:"); ok {
			reached = append(reached, fallback)
		}
		for _, name := range reached {
			tool, ok := tools.Tool(name)
			if !ok || tool.Safety == nil {
				return nil
			}
			contracts = append(contracts, *tool.Safety)
		}
	}
	merged := flows.MergeSafety(contracts...)
	return &merged
}
