package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/expr"
	"pave/flows/predicate"
)

// Flow is a flow made ready to be laid over recorded calls. It is immutable and safe for concurrent use.
type Flow struct {
	Name   string
	Inputs int // fields of the input schema, of objects and lists of objects theirs

	steps    []step
	declared map[string]bool // inputs; nil when the flow does not list them
	nullable map[string]bool // inputs that are null when the caller leaves them out
	required map[string]bool // inputs without which a run is refused
	objects  map[string]bool // inputs that are an object of a step's arguments, or a list of these
	// tools is the same for flows over the same sequence of tools.
	tools     string
	branching bool
	derived   map[string]derived // by source
	straight  bool               // one call a step, in one order: windows of other tools are told apart without laying it over
	fixed     bool               // one call a step, in some order: likewise
	unchecked bool               // arguments do not matter
}

type step struct {
	tool     string
	mapping  flows.Mapping
	outputs  []flows.OutputEntry
	flat     bool // every output merges into the context
	as       string
	forEach  *flows.MappingValue
	element  string
	guard    *predicate.Predicate
	level    int
	deps     []int // in a linear flow the step before
	users    []int // steps that depend on this one
	branches []branch
	next     int // the default branch, -1 when there is none
	effect   bool
	given    string // the input whose object, or list of objects, has the arguments; "" is none
	free     bool   // every recorded argument is an input of its own
}

// derived is a compiled expression and the keys that it reads.
type derived struct {
	program *expr.Program
	names   []string
}

type branch struct {
	target int
	when   *predicate.Predicate
}

// Compile makes a flow ready. Flows that call other flows or capabilities have no recorded calls to be compared with
// and are refused.
func Compile(f *flows.Flow) (*Flow, error) {
	levels, err := flows.Levels(f)
	if err != nil {
		return nil, err
	}
	out := &Flow{Name: f.Name, derived: map[string]derived{}}
	out.readInputs(f.InputSchema)
	at := map[string]int{} // step id -> position in execution order
	var order []int        // position of each step in the flow file
	for n, level := range levels {
		for _, i := range level {
			at[f.Steps[i].StepID] = len(order)
			order = append(order, i)
			s, err := compileStep(&f.Steps[i])
			if err != nil {
				return nil, fmt.Errorf("step %d: %w", i, err)
			}
			if err := out.compileExpressions(&s); err != nil {
				return nil, fmt.Errorf("step %d: %w", i, err)
			}
			s.level = n
			s.given = out.givenTo(&f.Steps[i])
			out.steps = append(out.steps, s)
		}
	}
	var key []string
	for k, i := range order {
		s := &out.steps[k]
		if err := out.link(f, &f.Steps[i], k, at); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		tool := s.tool
		if s.forEach != nil {
			tool += "+"
		}
		key = append(key, tool)
	}
	out.fixed = !out.branching && !slices.ContainsFunc(out.steps, func(s step) bool { return s.forEach != nil || s.guard != nil })
	out.straight = f.Type != flows.TypeDAGFlow && !slices.ContainsFunc(out.steps, func(s step) bool { return s.forEach != nil || s.guard != nil })
	out.tools = f.Type + "/" + strings.Join(key, ">")
	return out, nil
}

func compileStep(s *flows.Step) (step, error) {
	if s.ToolName == "" || s.StepType != "" && s.StepType != "tool" {
		return step{}, errors.New("only steps that call a tool can be compared with recorded calls")
	}
	out := step{tool: s.ToolName, mapping: s.InputMapping, outputs: s.OutputMapping, as: s.OutputAs, next: -1,
		flat: s.OutputAs == "" && s.OutputMapping == nil, forEach: s.ForEach, element: s.As, effect: !ReadOnly(s.ToolName)}
	if s.Guard != "" {
		var err error
		if out.guard, err = predicate.Parse(s.Guard); err != nil {
			return step{}, err
		}
	}
	return out, nil
}

// givenTo is the input that a step takes whole calls from.
func (f *Flow) givenTo(s *flows.Step) string {
	if s.ForEach != nil {
		if s.ForEach.Kind == flows.MapKey && f.objects[s.ForEach.Ref] {
			return s.ForEach.Ref
		}
		return ""
	}
	name, ok := strings.CutSuffix(s.Guard, " != None")
	if !ok || !f.objects[name] || !f.nullable[name] {
		return ""
	}
	for i := range s.InputMapping {
		if v := &s.InputMapping[i].Value; !v.NeverIn(s.OutputAs) && !slices.Equal(f.reads(v), []string{name}) {
			return ""
		}
	}
	return name
}

// compileExpressions compiles what a step derives. Keys may hold anything: recorded values decide.
func (f *Flow) compileExpressions(s *step) error {
	values := []*flows.MappingValue{}
	for i := range s.mapping {
		values = append(values, &s.mapping[i].Value)
	}
	if s.forEach != nil {
		values = append(values, s.forEach)
	}
	for _, v := range values {
		for v.Kind == flows.MapOptional {
			v = v.Inner
		}
		if v.Kind != flows.MapExpr {
			continue
		}
		names, err := expr.Names(v.Ref)
		if err != nil {
			return err
		}
		variables := make([]expr.Variable, len(names))
		for i, name := range names {
			variables[i].Name = name
		}
		program, err := expr.Compile(v.Ref, variables)
		if err != nil {
			return err
		}
		f.derived[v.Ref] = derived{program, names}
	}
	return nil
}

// link resolves dependencies and branches of the k-th step in execution order.
func (f *Flow) link(source *flows.Flow, s *flows.Step, k int, at map[string]int) error {
	if source.Type != flows.TypeDAGFlow {
		if k > 0 {
			f.steps[k].deps = []int{k - 1}
			f.steps[k-1].users = []int{k}
		}
		return nil
	}
	for _, id := range s.DependsOn {
		d := at[id]
		f.steps[k].deps = append(f.steps[k].deps, d)
		f.steps[d].users = append(f.steps[d].users, k)
	}
	for _, b := range s.Branches {
		when, err := predicate.Parse(b.Predicate)
		if err != nil {
			return err
		}
		f.steps[k].branches = append(f.steps[k].branches, branch{at[b.TargetStepID], when})
		f.branching = true
	}
	if next, ok := at[s.DefaultNext]; ok && s.DefaultNext != "" {
		f.steps[k].next = next
	}
	return nil
}

// starts lists the tools that a run of the flow can begin with.
func (f *Flow) starts() []string {
	var out []string
	for i := range f.steps {
		if len(f.steps[i].deps) == 0 && !slices.Contains(out, f.steps[i].tool) {
			out = append(out, f.steps[i].tool)
		}
	}
	return out
}

// readInputs reads the names that an input schema declares. A schema that declares nothing leaves all names open.
func (f *Flow) readInputs(raw flows.RawSchema) {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &schema) != nil {
		return
	}
	f.declared, f.nullable, f.required = make(map[string]bool, len(schema.Properties)), map[string]bool{}, map[string]bool{}
	f.objects = map[string]bool{}
	for name, text := range schema.Properties {
		var property map[string]json.RawMessage
		f.declared[name] = true
		fields, isObject := inputFields(text)
		f.Inputs += max(1, fields)
		f.objects[name] = isObject
		if json.Unmarshal(text, &property) == nil && string(property["default"]) == "null" {
			f.nullable[name] = true
		}
	}
	for _, name := range schema.Required {
		f.required[name] = true
	}
}

// argumentSchema is what is looked at of the schema of an input.
type argumentSchema struct {
	Properties map[string]json.RawMessage `json:"properties"`
	Items      *argumentSchema            `json:"items"`
	AnyOf      []argumentSchema           `json:"anyOf"` // with null
}

// inputFields is the number of fields of an input that is an object of arguments, or a list of these.
func inputFields(raw json.RawMessage) (n int, ok bool) {
	var s argumentSchema
	if json.Unmarshal(raw, &s) != nil {
		return 0, false
	}
	if len(s.AnyOf) > 0 {
		s = s.AnyOf[0]
	}
	if s.Items != nil {
		s = *s.Items
	}
	return len(s.Properties), s.Properties != nil
}

// readVerbs are the verbs that mark a tool as read-only where nothing else is known of it.
var readVerbs = []string{"search", "read", "get", "list", "inspect", "fetch", "show", "find", "summarize", "diff"}

// ReadOnly is the verb rule for recorded calls, which carry no safety: the first word of the last dotted part of the
// name. Every other tool counts as having side effects.
func ReadOnly(tool string) bool {
	last := tool[strings.LastIndexByte(tool, '.')+1:]
	verb, _, _ := strings.Cut(strings.ReplaceAll(last, "-", "_"), "_")
	return slices.Contains(readVerbs, verb)
}
