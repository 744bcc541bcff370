package executor

import (
	"maps"

	"pave/flows"
	"pave/flows/predicate"
	"pave/flows/schema"
	"pave/flows/value"
)

// known is what the checks know of the context before a step: its keys with their schemas, and whether it may hold
// others.
type known struct {
	keys map[string]origin
	// declared: the flow declares its input, so a key that nobody produces is an error rather than an input.
	declared bool
	// rest describes keys that are not in keys: the input schema, while it admits others. nil: there are none.
	rest *schema.Schema
	// open: a step merged outputs that its schema does not list.
	open bool
}

// origin is one key of the context. schema nil is a value of unknown type; certain is false where a run may reach
// the step without the key.
type origin struct {
	schema  *schema.Schema
	certain bool
}

func newKnown(input contract, doc objectDoc) *known {
	k := &known{keys: map[string]origin{}, declared: input.schema != nil || input.ref != "", open: input.ref != ""}
	if input.schema == nil {
		return k
	}
	for _, f := range input.schema.Fields() {
		k.keys[f.Name] = origin{schema: f.Schema, certain: f.Required || doc.hasDefault(f.Name) || doc.defaultsToNull(f.Name)}
	}
	k.rest = input.schema
	return k
}

// behind is what is known where a guard holds.
func (k *known) behind(guard *predicate.Predicate) *known {
	names := guard.NotNone()
	if len(names) == 0 {
		return k
	}
	out := *k
	out.keys = maps.Clone(k.keys)
	for _, name := range names {
		if o, ok := out.keys[name]; ok && o.schema != nil {
			o.schema = o.schema.NotNull()
			out.keys[name] = o
		}
	}
	return &out
}

// allow adds the dynamic params that the flow names: values of any type, which a caller may leave out.
func (k *known) allow(params []string) {
	for _, name := range params {
		if _, declared := k.keys[name]; !declared {
			k.keys[name] = origin{}
		}
	}
}

// key looks a top-level key up.
func (k *known) key(name string) (o origin, found bool) {
	if o, ok := k.keys[name]; ok {
		return o, true
	}
	if k.rest != nil {
		if s, _ := k.rest.At(value.Pointer{name}); s != nil {
			return origin{schema: s}, true
		}
	}
	return origin{}, k.open
}

// sourceState says what a check found about a mapping source.
type sourceState uint8

const (
	sourceMissing    sourceState = iota // the key is in nobody's outputs and not in the input
	sourceImpossible                    // the key is there, but nothing can be at the pointer
	sourceUnproven                      // it may be absent at run time
	sourceProven
)

// source looks a key or pointer up. schema is nil where the type is unknown.
func (k *known) source(v flows.MappingValue) (s *schema.Schema, state sourceState) {
	path := value.Pointer{v.Ref}
	if v.Kind == flows.MapPointer {
		var err error
		if path, err = value.ParsePointer(v.Ref); err != nil || len(path) == 0 {
			return nil, sourceMissing
		}
	}
	o, found := k.key(path[0])
	if !found {
		return nil, sourceMissing
	}
	if o.schema == nil {
		return nil, sourceUnproven
	}
	at, proven := o.schema.At(path[1:])
	switch {
	case at == nil:
		return nil, sourceImpossible
	case proven && o.certain:
		return at, sourceProven
	}
	return at, sourceUnproven
}

// misfit says how well values of one schema go where another is wanted. Unknown schemas fit everything.
type misfit uint8

const (
	fitsIn  misfit = iota // every value's type is taken
	fitsNot               // no value's type is
	mayFit                // some are: which one a run will see is not known
)

func fit(from, to *schema.Schema) (m misfit, reason string) {
	if from == nil || to == nil {
		return fitsIn, ""
	}
	ok, reason := schema.Assignable(from, to)
	switch {
	case ok:
		return fitsIn, ""
	case schema.Differ(from, to):
		return fitsNot, reason
	}
	return mayFit, reason
}

// maxProofDepth bounds how deep parts of a value are compared.
const maxProofDepth = 8

// unproven says which part of a value may not be taken although its type fits: null where none is taken, or a property
// that may be absent where it is required; "" when there is none. path leads to the part.
func unproven(from, to *schema.Schema, path string, depth int) string {
	if from == nil || to == nil || depth == 0 || from.Type() == "any" || to.Type() == "any" {
		return ""
	}
	if takesNull(from) && !takesNull(to) {
		return path + " may be null"
	}
	if items, _ := to.At(value.Pointer{"0"}); items != nil && to.DeclaresItems() {
		own, _ := from.At(value.Pointer{"0"})
		if reason := unproven(own, items, path+"/0", depth-1); reason != "" {
			return reason
		}
	}
	for _, want := range to.Fields() {
		field := path + "/" + value.Escape(want.Name)
		own, declared := from.Field(want.Name)
		switch {
		case !declared && !from.IsObject() || !declared && !want.Required:
			continue
		case !declared || want.Required && !own.Required:
			return field + " may be absent"
		}
		if reason := unproven(own.Schema, want.Schema, field, depth-1); reason != "" {
			return reason
		}
	}
	return ""
}

func takesNull(s *schema.Schema) bool {
	_, violations := s.Apply(nil)
	return len(violations) == 0
}

// contributed is one key that a step's merge adds to the context.
type contributed struct {
	key     string
	origin  origin
	pointer string // in the flow file
}

// add merges a step's contributions; rest is true when the step may add keys that are not listed.
func (k *known) add(keys []contributed, rest bool) {
	for _, c := range keys {
		k.keys[c.key] = c.origin
	}
	k.open = k.open || rest
}
