package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pave/flows"
	"pave/flows/predicate"
	"pave/flows/schema"
)

// Plan is a flow made ready to run: tools looked up, schemas compiled, guards parsed. It pins what it found: later
// changes of tools or of the flow's status do not reach it. A Plan is immutable and safe for concurrent use.
type Plan struct {
	flow      *flows.Flow
	steps     []stepPlan // in order of execution
	levels    []span     // of steps that run side by side; a linear flow has one step in each
	width     int        // steps of the widest level
	branching bool       // a step has branches
	input     contract
	output    contract
	context   contract
	returns   mapping
	collision flows.CollisionPolicy
	inferred  flows.RawSchema
	inputRaw  flows.RawSchema
	outputRaw flows.RawSchema
	tools     []*flows.Tool
	flows     []*flows.Flow
	// capabilities are the ids that a kernel runs.
	capabilities []string
	digests      map[string]string // of the flow and those that it calls, by name@version
	hashes       map[string]string // schema hashes of the tools
	final        *known            // what the flow returns
	broken       string            // the first error of a flow that others call, "" when it compiles
}

// InputSchema is what a caller should send: the flow's declared input schema or, where it declares none, the one
// inferred from what its steps read. nil when the declared one is a reference that does not resolve.
func (p *Plan) InputSchema() flows.RawSchema {
	if p.inferred != nil {
		return p.inferred
	}
	return p.inputRaw
}

// Flow is the flow that was compiled; it must not be changed.
func (p *Plan) Flow() *flows.Flow { return p.flow }

// Tools lists the distinct tools that the plan may call, fallbacks, candidates and those of the flows that it calls
// included, in step order.
func (p *Plan) Tools() []*flows.Tool { return slices.Clone(p.tools) }

// Flows lists the distinct flows that the plan calls, directly or through others, in step order.
func (p *Plan) Flows() []*flows.Flow { return slices.Clone(p.flows) }

// pin notes what the plan was made of. The plans of the flows that it calls have been pinned before.
func (p *Plan) pin() {
	addTool := func(t *flows.Tool) {
		if !slices.Contains(p.tools, t) {
			p.tools = append(p.tools, t)
		}
	}
	for i := range p.steps {
		sp := &p.steps[i]
		called := []*toolPlan{sp.primary, sp.fallback}
		for _, name := range sp.step.DecisionCandidates {
			called = append(called, sp.candidates[name])
		}
		for _, tp := range called {
			if tp != nil {
				addTool(tp.tool)
			}
		}
		if sp.capability {
			p.capabilities = append(p.capabilities, sp.step.CapabilityID)
		}
		if sp.sub == nil || sp.sub.plan == nil {
			continue
		}
		p.capabilities = append(p.capabilities, sp.sub.plan.capabilities...)
		for _, t := range sp.sub.plan.tools {
			addTool(t)
		}
		for _, f := range append([]*flows.Flow{sp.sub.plan.flow}, sp.sub.plan.flows...) {
			if !slices.Contains(p.flows, f) {
				p.flows = append(p.flows, f)
			}
		}
	}
	p.digests, p.hashes = map[string]string{p.flow.Name + "@" + p.flow.Version: flows.Digest(p.flow)}, map[string]string{}
	for _, f := range p.flows {
		p.digests[f.Name+"@"+f.Version] = flows.Digest(f)
	}
	for _, t := range p.tools {
		p.hashes[t.Name] = flows.SchemaHash(t)
	}
}

// Unbound lists the tools of the plan that have no binding: a flow with such tools cannot run.
func (p *Plan) Unbound() []string {
	var out []string
	for _, t := range p.Tools() {
		if t.Binding == nil {
			out = append(out, t.Name)
		}
	}
	return out
}

type onError uint8

const (
	onErrorFail onError = iota
	onErrorSkip
	onErrorFallback
)

const fallbackPrefix = "fallback:"

// span is a range of a plan's steps.
type span struct{ from, to int }

// stepPlan is one step of a plan.
type stepPlan struct {
	index        int // position in order of execution, as records number steps
	at           int // position in the flow, as diagnostics number steps
	level        int
	step         *flows.Step
	name         string
	primary      *toolPlan // nil: the tool is not registered, or the step calls a flow
	sub          *subflow  // nil: the step calls a tool, or an unknown flow
	callee       *toolPlan // what checks know of the tool or flow; nil: nothing
	mapping      mapping
	each         *each // nil: the step runs once
	guard        *predicate.Predicate
	onError      onError
	fallbackName string
	fallback     *toolPlan // nil: not registered, or none
	candidates   map[string]*toolPlan
	capability   bool
	inContract   contract
	outContract  contract
	deps         []int // positions in order of execution
	dependents   []int
	branches     []branch
	next         int // default_next, -1: none
}

// branch is an outgoing edge that is taken when its predicate holds.
type branch struct {
	target int // position in order of execution
	when   *predicate.Predicate
}

// toolPlan is a tool with its compiled schemas. in and out are nil when the tool declares none: then anything goes
// in, and any object comes out.
type toolPlan struct {
	tool    *flows.Tool
	in, out *schema.Schema
	outputs []string // declared output keys in order
	wraps   bool     // a result that is no object becomes {"result": ...}
	timeout time.Duration
	// hash and cacheable are for the step cache.
	hash      string
	cacheable bool
	// rebuilds: validation makes a new object of every answer, so that only what is nested in it could be shared
	// with the tool.
	rebuilds bool
}

// resultKey holds the result of a tool whose result is no object.
const resultKey = "result"

// maxOutput is the tool's cap on the size of one output, fallback where it has none.
func (tp *toolPlan) maxOutput(fallback int) int {
	if tp.tool.MaxOutputSize != nil {
		return *tp.tool.MaxOutputSize
	}
	return fallback
}

func newToolPlan(tool *flows.Tool) (*toolPlan, error) {
	tp := &toolPlan{tool: tool, wraps: true, hash: flows.SchemaHash(tool)}
	switch s := tool.Safety; {
	case tool.Cacheable != nil:
		tp.cacheable = *tool.Cacheable
	case s != nil:
		tp.cacheable = s.Cacheable && s.ReadOnly()
	}
	if tool.TimeoutSeconds != nil {
		tp.timeout = time.Duration(*tool.TimeoutSeconds * float64(time.Second))
	}
	var err error
	if len(tool.InputSchema) > 0 {
		if tp.in, err = schema.Compile(tool.InputSchema); err != nil {
			return nil, fmt.Errorf("input_schema: %w", err)
		}
	}
	if len(tool.OutputSchema) > 0 {
		if tp.out, err = schema.Compile(tool.OutputSchema); err != nil {
			return nil, fmt.Errorf("output_schema: %w", err)
		}
		tp.rebuilds = tp.out.IsObject()
		fields := tp.out.Fields()
		for _, f := range fields {
			tp.outputs = append(tp.outputs, f.Name)
		}
		local := tool.Binding != nil && tool.Binding.Kind == flows.BindLocal
		tp.wraps = len(fields) == 0 && !local || slices.Contains(tp.outputs, resultKey)
	}
	return tp, nil
}

// contract is a schema of a flow or step that values are checked against. A reference that nothing resolves is kept
// and fails the run where it is needed.
type contract struct {
	schema *schema.Schema // nil: no contract, or an unresolved one
	ref    string         // the unresolved reference
}

// check reports a value that does not fit; it changes nothing.
func (c contract) check(label, name string, step int, v map[string]any) *failure {
	_, f := c.coerce(label, name, step, v)
	return f
}

// coerce returns the value as the contract wants it.
func (c contract) coerce(label, name string, step int, v map[string]any) (map[string]any, *failure) {
	if c.ref != "" {
		message := fmt.Sprintf("Schema '%s' of %s '%s' is not registered.", c.ref, label, name)
		return nil, &failure{cw: flows.CWFlowSerialization, message: message, raw: message, class: ClassOther}
	}
	if c.schema == nil {
		return v, nil
	}
	out, violations := c.schema.Accept(v)
	if len(violations) > 0 {
		return nil, failSchema(label, name, step, violations)
	}
	object, ok := out.(map[string]any)
	if !ok {
		return nil, failSchema(label, name, step, notAnObject)
	}
	return object, nil
}

func parseOnError(text string) (onError, string) {
	if name, ok := strings.CutPrefix(text, fallbackPrefix); ok {
		return onErrorFallback, name
	}
	if text == "skip" {
		return onErrorSkip, ""
	}
	return onErrorFail, ""
}

func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
