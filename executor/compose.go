package executor

import (
	"errors"
	"fmt"
	"strings"

	"pave/flows"
	"pave/flows/schema"
)

// FlowSet looks up the flows that steps call. Without a version it is the flow's active version.
type FlowSet interface {
	Flow(name, version string) (*flows.Flow, bool)
}

// DefaultMaxCompositionDepth is how deep flows may call each other.
const DefaultMaxCompositionDepth = 10

// Reasons of a CompositionError.
const (
	CompositionCycle   = "cycle"
	CompositionTooDeep = "max_depth_exceeded"
	CompositionUnknown = "unknown_flow"
)

// CompositionError says why flows cannot call each other as they are written (flows.CWFlowComposition).
type CompositionError struct {
	Flow   string
	Reason string
	Step   int // position of the root flow's step that leads there
	Detail string
}

func (e *CompositionError) Error() string {
	return fmt.Sprintf("Invalid flow composition for '%s' (%s): %s", e.Flow, e.Reason, e.Detail)
}

// Unwrap makes errors.Is find the catalogue's entry.
func (e *CompositionError) Unwrap() error { return flows.CWFlowComposition }

// CheckComposition checks that the flows which a flow calls, directly or through others, exist, call nobody that
// called them, and nest at most maxDepth levels (0: DefaultMaxCompositionDepth, negative: none). The error is a
// *CompositionError.
func CheckComposition(flow *flows.Flow, set FlowSet, maxDepth int) error {
	switch {
	case maxDepth == 0:
		maxDepth = DefaultMaxCompositionDepth
	case maxDepth < 0:
		maxDepth = 0
	}
	w := &compositionWalk{root: flow, set: set, max: maxDepth, heights: map[string]int{}}
	_, err := w.visit(flow, nil)
	return err
}

type compositionWalk struct {
	root    *flows.Flow
	set     FlowSet
	max     int
	step    int            // of the root
	heights map[string]int // levels below flows that have been walked
}

// visit returns how many levels of flows lie below one. path holds the flows above it.
func (w *compositionWalk) visit(flow *flows.Flow, path []*flows.Flow) (height int, err error) {
	path = append(path[:len(path):len(path)], flow)
	for i := range flow.Steps {
		if flow == w.root && len(path) == 1 {
			w.step = i
		}
		ref := flow.Steps[i].FlowName
		if ref == "" {
			continue
		}
		sub, ok := lookFlow(w.set, ref)
		if len(path) > w.max && !ok {
			return 0, w.fail(CompositionTooDeep, "nesting exceeds max_composition_depth=%d: %s", w.max, chainOf(path, ref))
		}
		if !ok {
			return 0, w.fail(CompositionUnknown, "step references unregistered sub-flow '%s'", ref)
		}
		for _, above := range path {
			if above.Name == sub.Name && above.Version == sub.Version {
				return 0, w.fail(CompositionCycle, "circular sub-flow reference: %s", chainOf(path, sub.Name))
			}
		}
		below, known := w.heights[sub.Name+"@"+sub.Version]
		if len(path) > w.max {
			return 0, w.fail(CompositionTooDeep, "nesting exceeds max_composition_depth=%d: %s", w.max, chainOf(path, sub.Name))
		}
		if !known || len(path)+below > w.max { // then again, to name the way that is too long
			if below, err = w.visit(sub, path); err != nil {
				return 0, err
			}
			w.heights[sub.Name+"@"+sub.Version] = below
		}
		height = max(height, below+1)
	}
	return height, nil
}

func (w *compositionWalk) fail(reason, format string, args ...any) error {
	return &CompositionError{Flow: w.root.Name, Reason: reason, Step: w.step, Detail: fmt.Sprintf(format, args...)}
}

func chainOf(path []*flows.Flow, last string) string {
	names := make([]string, 0, len(path)+1)
	for _, f := range path {
		names = append(names, f.Name)
	}
	return strings.Join(append(names, last), " -> ")
}

// lookFlow finds "name" or "name@version".
func lookFlow(set FlowSet, ref string) (*flows.Flow, bool) {
	if set == nil {
		return nil, false
	}
	name, version, _ := strings.Cut(ref, "@")
	flow, ok := set.Flow(name, version)
	return flow, ok && flow != nil
}

// subflow is the flow that a step calls.
type subflow struct {
	plan    *Plan
	refused string // why it cannot run, "" when it can
}

// checkComposition reports flows that cannot call each other; such a flow has no plan.
func (c *compiler) checkComposition() {
	err := CheckComposition(c.flow, c.flows, c.maxDepth)
	var ce *CompositionError
	if errors.As(err, &ce) {
		c.fatal, c.flows = true, nil
		c.report(SeverityError, IssueCompositionError, ce.Step, c.flow.Steps[ce.Step].Name(), ce.Reason, stepPointer(ce.Step, "flow_name"), "%s", ce.Detail)
	}
}

// subflow compiles the flow that a step calls, once for all of its callers.
func (c *compiler) subflow(sp *stepPlan, ref string) {
	flow, ok := lookFlow(c.flows, ref)
	if !ok {
		return // reported with the composition
	}
	sp.name = flow.Name
	key := flow.Name + "@" + flow.Version
	sub, done := c.subflows[key]
	if !done {
		sub = &subflow{}
		inner := &compiler{flow: flow, tools: c.tools, schemas: c.schemas, flows: c.flows, subflows: c.subflows, maxSteps: c.maxSteps, compiled: map[string]*toolPlan{}}
		var found []Diagnostic
		sub.plan, found = inner.compile()
		if sub.plan == nil {
			sub.refused = CompileError(flow.Name, found).Error()
		} else if HasErrors(found) {
			sub.plan.broken = CompileError(flow.Name, found).Error()
		}
		if err := Gate(flow, false); err != nil {
			sub.refused = flows.CWFlowStatus.Code + " " + err.Error()
		}
		c.subflows[key] = sub
	}
	sp.sub = sub
	at := stepPointer(sp.at, "flow_name")
	if sub.refused != "" {
		c.report(SeverityError, IssueCompositionError, sp.at, sp.name, "", at, "sub-flow '%s' cannot run: %s", key, sub.refused)
	} else if sub.plan.broken != "" {
		c.report(SeverityError, IssueCompositionError, sp.at, sp.name, "", at, "%s", sub.plan.broken)
	}
	if sub.plan != nil {
		sp.callee = sub.plan.asCallee(sp.step.InputMapping)
		c.compiled[calleeKey(sp.name)] = sp.callee
	}
}

// calleeKey keeps flows apart from tools of the same name.
func calleeKey(flow string) string { return "flow\x00" + flow }

// asCallee is the flow as the checks of a step that calls it with a mapping see it: with the input schema that it has
// or needs, and what it returns as output schema. It is never called as a tool.
func (p *Plan) asCallee(arguments flows.Mapping) *toolPlan {
	tp := &toolPlan{tool: &flows.Tool{Name: p.flow.Name, InputSchema: p.InputSchema(), Safety: p.Safety()}}
	if len(tp.tool.InputSchema) > 0 {
		tp.in, _ = schema.Compile(tp.tool.InputSchema) // compiled before, or made by the compiler
	}
	var fields []schema.Field
	for _, key := range sortedKeys(p.final.keys) {
		o := p.final.keys[key]
		fields = append(fields, schema.Field{Name: key, Required: o.certain, Schema: o.schema})
		tp.outputs = append(tp.outputs, key)
	}
	open := p.final.open || p.final.rest != nil && p.final.rest.Admits("\x00")
	if p.input.schema == nil && p.flow.Returns == nil { // then arguments that no step reads stay in its context
		open = open || len(arguments) == 0
		for _, entry := range arguments {
			if _, known := p.final.keys[entry.Target]; !known {
				fields = append(fields, schema.Field{Name: entry.Target, Required: entry.Value.Kind != flows.MapOptional})
			}
		}
	}
	tp.out = schema.ObjectOf(fields, open)
	return tp
}

// Safety is the contract of running the whole flow: the one that it declares, else that of its tools together; nil
// is unknown.
func (p *Plan) Safety() *flows.SafetyContract {
	if p.flow.Safety != nil {
		return p.flow.Safety
	}
	var contracts []flows.SafetyContract
	for _, t := range p.Tools() {
		if t.Safety == nil {
			return nil
		}
		contracts = append(contracts, *t.Safety)
	}
	for i := range p.steps {
		if sp := &p.steps[i]; sp.primary == nil && (sp.sub == nil || sp.sub.plan == nil) {
			return nil
		}
	}
	merged := flows.MergeSafety(contracts...)
	return &merged
}
