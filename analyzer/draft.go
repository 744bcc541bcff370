package analyzer

import (
	"fmt"
	"slices"
	"strings"

	"pave/flows"
	"pave/flows/schema"
	"pave/flows/value"
)

// draft is a flow under construction, its steps in the order in which agents made the calls.
type draft struct {
	steps    []draftStep
	inputs   []draftInput
	inTurn   bool // one step after the other, though no value goes from one to the next
	warnings []string
}

type draftStep struct {
	tool *known
	key  string // context key of the whole output
	// wrapped: the result is no object, so it lies under key/result.
	wrapped bool
	// forEach is the list of which the step runs once for every element, which its mapping sees under as; nil for once.
	forEach *flows.MappingValue
	as      string
	guards  []string // all must hold before the step
	when    string   // an optional step runs where this holds after the step before it; "" for one that always runs
	mapping flows.Mapping
	// used are the pointers into the result that later steps read.
	used []string
}

// draftInput is one input of the flow; the first argument that it fills gives its type.
type draftInput struct {
	name     string
	tool     *known
	arg      string
	origin   string // how callers came to the value, for the description
	required bool
	list     bool      // a list of values of the argument
	told     string    // a text, described so, that is no argument
	call     []callArg // an object with these arguments of a call of the tool, instead of the argument
	nullable bool      // null when the caller does not know it: the flow does without, or hands back before the step that takes it
}

func (d *draft) warn(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

// output is the pointer to a place of a step's result.
func (s *draftStep) output(pointer string) flows.MappingValue {
	at := "/" + value.Escape(s.key)
	if s.wrapped {
		at += "/" + wrapKey
	} else if pointer == "" {
		return flows.Key(s.key)
	}
	return flows.Pointer(at + pointer)
}

// subscripts is a place of the step's result as predicates write it.
func (s *draftStep) subscripts(pointer string) string {
	if s.wrapped {
		pointer = "/" + wrapKey + pointer
	}
	out := s.key
	tokens, _ := value.ParsePointer(pointer)
	for _, token := range tokens {
		if i, ok := value.Index(token); ok {
			out += fmt.Sprintf("[%d]", i)
			continue
		}
		out += "[" + string(value.Encode(token)) + "]"
	}
	return out
}

// schemaAt is the schema of a place of the step's result; impossible when the schema does not allow anything there.
func (s *draftStep) schemaAt(pointer string) (at *schema.Schema, proven, impossible bool) {
	if s.tool.out == nil || s.forEach != nil {
		return nil, false, false
	}
	if s.wrapped {
		pointer = "/" + wrapKey + pointer
	}
	p, err := value.ParsePointer(pointer)
	if err != nil {
		return nil, false, true
	}
	at, proven = s.tool.out.At(p)
	return at, proven, at == nil
}

// guard adds a condition of the step.
func (s *draftStep) guard(predicate string) {
	if !slices.Contains(s.guards, predicate) {
		s.guards = append(s.guards, predicate)
	}
}

func (s *draftStep) mapArg(arg string, v flows.MappingValue) {
	s.mapping = append(s.mapping, flows.MappingEntry{Target: arg, Value: v})
}

func optional(v flows.MappingValue) flows.MappingValue {
	return flows.MappingValue{Kind: flows.MapOptional, Inner: &v}
}

// input declares an input of the flow, or adds a use to it.
func (d *draft) input(in draftInput) {
	i := slices.IndexFunc(d.inputs, func(known draftInput) bool { return known.name == in.name })
	if i < 0 {
		d.inputs = append(d.inputs, in)
		return
	}
	d.inputs[i].required = d.inputs[i].required || in.required
	d.inputs[i].nullable = d.inputs[i].nullable && in.nullable
}

// newInput declares a required input that nothing in the flow is named after yet, and returns its name.
func (d *draft) newInput(tool *known, arg string) string {
	taken := map[string]bool{}
	for i := range d.steps {
		taken[d.steps[i].key] = true
	}
	for i := range d.inputs {
		taken[d.inputs[i].name] = true
	}
	name := freeName(taken, arg)
	d.input(draftInput{name: name, tool: tool, arg: arg, required: true})
	return name
}

// mapNothing settles a step that takes no argument: an empty mapping would hand it the whole context.
func (d *draft) mapNothing(k int) {
	s := &d.steps[k]
	switch {
	case len(s.mapping) > 0 || k == 0 && len(d.inputs) == 0:
	case s.tool.in != nil && len(s.tool.in.Fields()) > 0:
		// The step's own output is never there before the step: the argument is always left out.
		s.mapArg(s.tool.in.Fields()[0].Name, optional(flows.Key(s.key)))
	default:
		s.mapping = flows.Nothing(s.key)
	}
}

// flow writes the draft down. name and description must not hold counts: they are part of the digest.
func (d *draft) flow(name, description string) *flows.Flow {
	f := &flows.Flow{
		FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: name, Version: "0.1.0", Description: description,
		InputSchema: d.inputSchema(), OnContextCollision: flows.CollisionError, OnFailure: flows.OnFailureHandBack,
		Status: flows.StatusNeedsReview, Safety: d.safety(), Returns: d.returns(),
		Governance: &flows.Governance{Lifecycle: flows.LifecycleSuggested},
	}
	for i := range d.steps {
		s := &d.steps[i]
		step := flows.Step{ToolName: s.tool.tool.Name, InputMapping: s.mapping, OutputAs: s.key, ForEach: s.forEach, As: s.as, Guard: strings.Join(s.guards, " and ")}
		if s.forEach != nil && !flows.Exceeds(flows.Effects(s.tool.tool.Safety), flows.EffectRead) {
			step.MaxConcurrency = eachConcurrency
		}
		f.Steps = append(f.Steps, step)
		if !slices.Contains(f.Governance.ReplacesTools, s.tool.tool.Name) {
			f.Governance.ReplacesTools = append(f.Governance.ReplacesTools, s.tool.tool.Name)
		}
	}
	switch k := d.optionalStep(); {
	case k >= 0:
		d.branch(f, k)
	case !d.inTurn:
		d.order(f)
	}
	return f
}

// eachConcurrency is how many elements a step that only reads works on at a time.
const eachConcurrency = 4

// safety merges the contracts of the tools; nil, unknown, when one of them is.
func (d *draft) safety() *flows.SafetyContract {
	var contracts []flows.SafetyContract
	for i := range d.steps {
		c := d.steps[i].tool.tool.Safety
		if c == nil {
			return nil
		}
		contracts = append(contracts, *c)
	}
	merged := flows.MergeSafety(contracts...)
	return &merged
}

// effects is the side-effect level for the queue: unknown counts as external.
func (d *draft) effects() flows.SideEffects {
	level := flows.EffectNone
	for i := range d.steps {
		if e := flows.Effects(d.steps[i].tool.tool.Safety); flows.Exceeds(e, level) {
			level = e
		}
	}
	return level
}

// unbound names the tools that nothing binds.
func (d *draft) unbound() []string {
	var out []string
	for i := range d.steps {
		if t := d.steps[i].tool.tool; t.Binding == nil && !slices.Contains(out, t.Name) {
			out = append(out, t.Name)
		}
	}
	return out
}

// returns keeps the last output, and of the others what is more than a key to a later step.
func (d *draft) returns() flows.Mapping {
	var out flows.Mapping
	for i := range d.steps {
		s := &d.steps[i]
		switch {
		case s.when != "":
			out = append(out, flows.MappingEntry{Target: s.key, Value: optional(s.output(""))})
		case i == len(d.steps)-1 || !s.onlyKey():
			out = append(out, flows.MappingEntry{Target: s.key, Value: s.output("")})
		}
	}
	return out
}

// onlyKey reports whether later steps read all there is in the step's result.
func (s *draftStep) onlyKey() bool {
	if slices.Contains(s.used, "") {
		return true
	}
	if s.wrapped || s.forEach != nil || s.tool.out == nil || len(s.used) == 0 || s.tool.out.Fields() == nil {
		return false
	}
	for _, f := range s.tool.out.Fields() {
		if !slices.Contains(s.used, "/"+value.Escape(f.Name)) {
			return false
		}
	}
	return len(s.tool.out.Fields()) > 0
}

func (d *draft) inputSchema() flows.RawSchema {
	properties, required := value.Members{}, []any{}
	for _, in := range d.inputs {
		properties = append(properties, value.Member{Key: in.name, Value: in.schema()})
		if in.required && !in.nullable {
			required = append(required, in.name)
		}
	}
	root := value.Members{{Key: "type", Value: "object"}, {Key: "properties", Value: properties}}
	if len(required) > 0 {
		root = append(root, value.Member{Key: "required", Value: required})
	}
	root = append(root, value.Member{Key: "additionalProperties", Value: false})
	return flows.RawSchema(value.Encode(root))
}

// schema is the argument's schema in the tool, with a description that says where callers get the value.
func (in *draftInput) schema() value.Members {
	var out value.Members
	description := in.told
	switch {
	case in.told != "":
		out = value.Members{{Key: "type", Value: "string"}}
	case in.call != nil:
		out = callSchema(in.tool, in.call)
	default:
		out, description = argumentSchema(in.tool, in.arg)
	}
	if in.origin != "" {
		if description != "" {
			description = strings.TrimRight(description, ". ") + "; "
		}
		description += in.origin
	}
	if in.list {
		out = value.Members{{Key: "type", Value: "array"}, {Key: "items", Value: out}}
	}
	if in.nullable {
		out = value.Members{{Key: "anyOf", Value: []any{out, value.Members{{Key: "type", Value: "null"}}}}, {Key: "default", Value: nil}}
	}
	if description != "" {
		out = append(out, value.Member{Key: "description", Value: description})
	}
	return out
}

// argumentSchema is the schema of an argument without what is only said of it, and its description apart.
func argumentSchema(tool *known, arg string) (out value.Members, description string) {
	out = value.Members{}
	if m, ok := propertyOf(tool.tool.InputSchema, arg); ok {
		for _, e := range m {
			switch e.Key {
			case "description":
				description, _ = e.Value.(string)
			case "title", "default", "examples":
			default:
				out = append(out, e)
			}
		}
	}
	if strings.Contains(string(value.Encode(out)), `"$ref"`) {
		out = typeOnly(tool, arg)
	}
	return out, description
}

// typeOnly stands in for a schema that points elsewhere in the tool's document.
func typeOnly(tool *known, arg string) value.Members {
	if tool.in != nil {
		if f, ok := tool.in.Field(arg); ok && slices.Contains([]string{"string", "integer", "number", "boolean", "array", "object"}, f.Type) {
			return value.Members{{Key: "type", Value: f.Type}}
		}
	}
	return value.Members{}
}

// propertyOf is the schema of one property as it is declared.
func propertyOf(raw flows.RawSchema, name string) (value.Members, bool) {
	if raw == nil {
		return nil, false
	}
	doc, err := value.DecodeOrdered(raw, value.Limits{})
	if err != nil {
		return nil, false
	}
	var at any = doc
	for _, key := range []string{"properties", name} {
		m, ok := at.(value.Members)
		if !ok {
			return nil, false
		}
		if at, ok = m.Get(key); !ok {
			return nil, false
		}
	}
	m, ok := at.(value.Members)
	return m, ok
}
