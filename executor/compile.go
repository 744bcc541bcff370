package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"pave/flows"
	"pave/flows/predicate"
	"pave/flows/schema"
	"pave/flows/value"
)

// ToolSet looks tools up by name.
type ToolSet interface {
	Tool(name string) (*flows.Tool, bool)
}

// SchemaSet looks up the schemas that *_schema_ref, input_contract and output_contract name.
type SchemaSet interface {
	Schema(name string) (flows.RawSchema, bool)
}

// Tools is a ToolSet in memory.
type Tools map[string]*flows.Tool

// Tool implements ToolSet.
func (t Tools) Tool(name string) (*flows.Tool, bool) {
	tool, ok := t[name]
	return tool, ok
}

// CompileOptions are the optional parts of Compile.
type CompileOptions struct {
	Schemas  SchemaSet // nil: no names resolve
	Flows    FlowSet   // nil: no step can call a flow
	MaxSteps int       // 0 means DefaultMaxSteps
	// MaxCompositionDepth bounds how deep flows call each other: 0 means DefaultMaxCompositionDepth, negative none.
	MaxCompositionDepth int
}

// Compile makes a flow ready to run and checks everything that can be known without running it: topology, tools,
// mappings, types, collisions, guards, branches, the flow's output. A flow with errors still has a plan when it can
// be started at all; what is wrong then fails the run where it matters. The plan is nil when its steps have no order,
// a predicate does not parse, or a schema is not one.
func Compile(flow *flows.Flow, tools ToolSet, opts CompileOptions) (*Plan, []Diagnostic) {
	c := &compiler{flow: flow, tools: tools, schemas: opts.Schemas, flows: opts.Flows, maxSteps: opts.MaxSteps, compiled: map[string]*toolPlan{}, subflows: map[string]*subflow{}}
	if c.maxSteps <= 0 {
		c.maxSteps = DefaultMaxSteps
	}
	c.maxDepth = opts.MaxCompositionDepth
	c.checkComposition()
	return c.compile()
}

// compile is Compile for one flow of a composition that has been checked.
func (c *compiler) compile() (*Plan, []Diagnostic) {
	flow := c.flow
	if !c.checkSize() {
		return nil, c.found
	}
	plan := &Plan{flow: flow, collision: flow.OnContextCollision, returns: mapping{entries: flow.Returns}}
	if plan.collision == "" {
		plan.collision = flows.CollisionWarn
	}
	plan.input = c.flowContract("input_schema", flow.InputSchema, flow.InputSchemaRef)
	plan.output = c.flowContract("output_schema", flow.OutputSchema, flow.OutputSchemaRef)
	plan.context = c.flowContract("context_schema", flow.ContextSchema, flow.ContextSchemaRef)
	plan.inputRaw, plan.outputRaw = c.inputRaw, c.outputRaw
	c.arrange(plan)
	input := newKnown(plan.input, readObject(c.inputRaw))
	input.allow(flow.DynamicParams)
	c.view = newView(plan, input)
	for i := range plan.steps {
		c.known = c.view.before(&plan.steps[i])
		c.checkStep(&plan.steps[i])
	}
	c.known = c.view.end()
	c.checkFlowOutput(plan)
	plan.inferred = c.inferredInput()
	if c.fatal {
		return nil, c.found
	}
	plan.pin()
	return plan, c.found
}

// arrange compiles the steps in their order of execution and links them. Steps without an order stay in the order of
// their declaration, so that the other checks can go on.
func (c *compiler) arrange(plan *Plan) {
	levels, err := flows.Levels(c.flow)
	if err != nil {
		c.fatal = true
		c.reportTopology(err)
		levels = make([][]int, len(c.flow.Steps))
		for i := range levels {
			levels[i] = []int{i}
		}
	}
	plan.steps = make([]stepPlan, 0, len(c.flow.Steps))
	for n, level := range levels {
		from := len(plan.steps)
		for _, at := range level {
			sp := c.step(at)
			sp.index, sp.level = len(plan.steps), n
			plan.steps = append(plan.steps, sp)
		}
		plan.levels = append(plan.levels, span{from, len(plan.steps)})
		plan.width = max(plan.width, len(level))
	}
	if c.flow.Type == flows.TypeDAGFlow {
		c.link(plan)
	}
}

func (c *compiler) reportTopology(err error) {
	var te *flows.TopologyError
	if errors.As(err, &te) {
		c.report(SeverityError, IssueTopologyError, te.Step, c.flow.Steps[te.Step].Name(), te.Reason, stepPointer(te.Step, te.Field), "%s", te.Detail)
	}
}

// link resolves step ids to positions. Ids that nobody has were reported with the topology.
func (c *compiler) link(plan *Plan) {
	at := make(map[string]int, len(plan.steps))
	for i := range plan.steps {
		at[plan.steps[i].step.StepID] = i
	}
	for i := range plan.steps {
		sp := &plan.steps[i]
		for _, id := range sp.step.DependsOn {
			if d, ok := at[id]; ok && !slices.Contains(sp.deps, d) {
				sp.deps = append(sp.deps, d)
				plan.steps[d].dependents = append(plan.steps[d].dependents, i)
			}
		}
		if next, ok := at[sp.step.DefaultNext]; ok && sp.step.DefaultNext != "" {
			sp.next = next
		}
		for k, b := range sp.step.Branches {
			when := c.predicate(sp, b.Predicate, stepPointer(sp.at, "branches", strconv.Itoa(k), "predicate"))
			sp.branches = append(sp.branches, branch{target: at[b.TargetStepID], when: when})
			plan.branching = true
		}
	}
}

// predicate parses a condition; one that does not parse keeps the flow from having a plan.
func (c *compiler) predicate(sp *stepPlan, text, pointer string) *predicate.Predicate {
	p, err := predicate.Parse(text)
	if err != nil {
		c.fatal = true
		c.report(SeverityError, IssuePredicateError, sp.at, sp.name, "", pointer, "%v", err)
		return nil
	}
	return p
}

// compiler is the state of one Compile.
type compiler struct {
	flow                *flows.Flow
	tools               ToolSet
	schemas             SchemaSet
	flows               FlowSet
	maxSteps            int
	maxDepth            int
	compiled            map[string]*toolPlan // by tool name, flows by calleeKey
	subflows            map[string]*subflow  // by name@version, shared by all flows of the composition
	found               []Diagnostic
	fatal               bool
	inputRaw, outputRaw flows.RawSchema
	view                *view
	current             *stepPlan // the step that is checked, nil for the flow as a whole
	known               *known    // what the context holds before the step at hand
	inputs              []undeclared
}

func (c *compiler) report(severity Severity, issue string, step int, tool, field, pointer, format string, args ...any) {
	c.found = append(c.found, Diagnostic{Severity: severity, IssueType: issue, StepIndex: step, ToolName: tool, FieldName: field,
		Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
}

func stepPointer(index int, parts ...string) string {
	return value.Pointer(append([]string{"steps", strconv.Itoa(index)}, parts...)).String()
}

// checkSize refuses flows with too many steps.
func (c *compiler) checkSize() bool {
	n := len(c.flow.Steps)
	if n > c.maxSteps {
		c.report(SeverityError, IssueTooManySteps, n, c.flow.Name, "", "/steps", "the flow has %d steps, above the limit of %d; split it", n, c.maxSteps)
	}
	return n <= c.maxSteps
}

// flowContract compiles a schema of the flow, given inline or by name.
func (c *compiler) flowContract(field string, inline flows.RawSchema, ref string) contract {
	pointer := "/" + field
	if len(inline) == 0 {
		pointer += "_ref"
	}
	contract, raw := c.contract(len(c.flow.Steps), c.flow.Name, pointer, inline, ref)
	switch field {
	case "input_schema":
		c.inputRaw = raw
	case "output_schema":
		c.outputRaw = raw
	}
	return contract
}

func (c *compiler) contract(step int, tool, pointer string, raw flows.RawSchema, ref string) (contract, flows.RawSchema) {
	if len(raw) == 0 && ref == "" {
		return contract{}, nil
	}
	if len(raw) == 0 {
		named, ok := flows.RawSchema(nil), false
		if c.schemas != nil {
			named, ok = c.schemas.Schema(ref)
		}
		if !ok {
			c.report(SeverityError, IssueUnknownSchema, step, tool, "", pointer, "schema %q is not registered; write the schema inline or register it", ref)
			return contract{ref: ref}, nil
		}
		raw = named
	}
	s, err := schema.Compile(raw)
	if err != nil {
		c.fatal = true
		c.report(SeverityError, IssueInvalidSchema, step, tool, "", pointer, "%v", err)
		return contract{}, nil
	}
	return contract{schema: s}, raw
}

// stepCapability is the step_type of steps that a kernel runs.
const stepCapability = "capability"

// step compiles one step. What it cannot find stays nil in the plan and is reported.
func (c *compiler) step(i int) stepPlan {
	s := &c.flow.Steps[i]
	sp := stepPlan{at: i, next: -1, step: s, name: s.Name(), mapping: mapping{entries: s.InputMapping}}
	switch {
	case s.StepType == stepCapability:
		sp.capability = true
		sp.callee = &toolPlan{tool: &flows.Tool{Name: sp.name}} // of unknown schemas
	case s.FlowName != "":
		c.subflow(&sp, s.FlowName)
	default:
		sp.primary = c.tool(i, s.ToolName, stepPointer(i, "tool_name"))
		sp.callee = sp.primary
	}
	if sp.onError, sp.fallbackName = parseOnError(s.OnError); sp.onError == onErrorFallback {
		sp.fallback = c.tool(i, sp.fallbackName, stepPointer(i, "on_error"))
	}
	for _, name := range s.DecisionCandidates {
		if sp.candidates == nil {
			sp.candidates = map[string]*toolPlan{}
		}
		sp.candidates[name] = c.tool(i, name, stepPointer(i, "decision_candidates"))
	}
	if s.ForEach != nil {
		sp.each = newEach(s)
	}
	sp.inContract, _ = c.contract(i, sp.name, stepPointer(i, "input_contract"), nil, s.InputContract)
	sp.outContract, _ = c.contract(i, sp.name, stepPointer(i, "output_contract"), nil, s.OutputContract)
	if s.Guard != "" {
		sp.guard = c.predicate(&sp, s.Guard, stepPointer(i, "guard"))
	}
	return sp
}

// tool looks a tool up and compiles its schemas, once per name; nil when it is not there.
func (c *compiler) tool(step int, name, pointer string) *toolPlan {
	if tp, ok := c.compiled[name]; ok {
		return tp
	}
	var tp *toolPlan
	if tool, ok := c.tools.Tool(name); ok && tool != nil {
		var err error
		if tp, err = newToolPlan(tool); err != nil {
			c.fatal = true
			c.report(SeverityError, IssueInvalidSchema, step, name, "", pointer, "tool '%s': %v", name, err)
			return nil
		}
	}
	c.compiled[name] = tp
	return tp
}

// objectDoc is what checks need of an object schema's text beyond its compiled form.
type objectDoc struct {
	Properties           map[string]json.RawMessage
	AdditionalProperties json.RawMessage
}

func readObject(raw flows.RawSchema) objectDoc {
	var doc objectDoc
	if len(raw) > 0 {
		_ = json.Unmarshal(raw, &doc) // the schema has been compiled; anything but an object has no properties
	}
	return doc
}

func (d objectDoc) forbidsExtras() bool { return string(d.AdditionalProperties) == "false" }

// defaultsToNull reports whether an absent property becomes null.
func (d objectDoc) defaultsToNull(property string) bool {
	var doc map[string]json.RawMessage
	return json.Unmarshal(d.Properties[property], &doc) == nil && string(doc["default"]) == "null"
}

func (d objectDoc) hasDefault(property string) bool {
	var doc struct{ Default json.RawMessage }
	return json.Unmarshal(d.Properties[property], &doc) == nil && len(doc.Default) > 0 && string(doc.Default) != "null"
}
