package flows

// MappingKind is the form of a mapping value.
type MappingKind uint8

const (
	// MapKey copies a flat top-level context key. A string that does not start with "/" is a key.
	MapKey MappingKind = iota
	// MapPointer reads a JSON pointer (RFC 6901) into the context. A string that starts with "/" is a pointer.
	MapPointer
	// MapLiteral uses a non-string JSON value as it is.
	MapLiteral
	// MapConst is {"$const": v}: the literal v, which may be a string. Format 1.1.
	MapConst
	// MapExpr is {"$expr": "<CEL>"}: a derived value. Format 1.1.
	MapExpr
	// MapOptional is {"$optional": m}: the argument is left out when m's source is absent. Format 1.1.
	MapOptional
)

// MappingValue says where one argument of a step comes from. Exactly the field that Kind names is meaningful.
type MappingValue struct {
	Kind    MappingKind
	Ref     string        // MapKey: the key; MapPointer: the pointer; MapExpr: the expression
	Literal any           // MapLiteral, MapConst: the JSON value, not to be changed
	Inner   *MappingValue // MapOptional
}

// MappingEntry binds one argument (Target) of a step to its source.
type MappingEntry struct {
	Target string
	Value  MappingValue
}

// Mapping is an ordered JSON object of mapping values; the order is the declaration order of the file and
// decides which missing source is reported first. nil and empty both mean "the whole context".
type Mapping []MappingEntry

// Key, Pointer and Const build the common forms.
func Key(name string) MappingValue        { return MappingValue{Kind: MapKey, Ref: name} }
func Pointer(pointer string) MappingValue { return MappingValue{Kind: MapPointer, Ref: pointer} }
func Const(v any) MappingValue            { return MappingValue{Kind: MapConst, Literal: v} }

// noArguments is the argument that Nothing names.
const noArguments = "no_arguments"

// Nothing is the mapping of a step that takes no arguments, where an empty one would give it the whole context: an argument
// that is always left out, whatever the tool's schema, since its source is the step's own output under the context key
// outputAs, which is not there before the step.
func Nothing(outputAs string) Mapping {
	own := Key(outputAs)
	return Mapping{{Target: noArguments, Value: MappingValue{Kind: MapOptional, Inner: &own}}}
}

// NeverIn reports whether a value is always left out by a step with this OutputAs: the optional output of the step itself.
func (v *MappingValue) NeverIn(outputAs string) bool {
	return outputAs != "" && v.Kind == MapOptional && v.Inner.Kind == MapKey && v.Inner.Ref == outputAs
}

// WithoutArguments reports whether the step's mapping gives its tool nothing.
func (s *Step) WithoutArguments() bool {
	for i := range s.InputMapping {
		if !s.InputMapping[i].Value.NeverIn(s.OutputAs) {
			return false
		}
	}
	return len(s.InputMapping) > 0
}
