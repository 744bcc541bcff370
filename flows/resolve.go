package flows

import (
	"fmt"
	"maps"
	"strings"

	"pave/flows/value"
)

// MappingError says that an argument has no source (CWInputMapping).
type MappingError struct {
	Target string // the argument
	Source string // the key, or the decoded part of the pointer that leads nowhere, or the expression
	Tool   string
	Step   int
	Reason string // "" when the source is missing
}

func (e *MappingError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("Input mapping of '%s' for tool '%s' at step %d: %s.", e.Target, e.Tool, e.Step, e.Reason)
	}
	return fmt.Sprintf("Input mapping key '%s' not found for tool '%s' at step %d.", e.Source, e.Tool, e.Step)
}

// ResolveMapping returns the arguments that m takes from context. An empty mapping gives a shallow copy of the
// whole context. The first missing source, in declaration order, ends it. Values are shared with context, which
// is safe as long as nobody changes values. tool and step only label the error.
func ResolveMapping(m Mapping, context map[string]any, tool string, step int) (map[string]any, *MappingError) {
	if len(m) == 0 {
		out := make(map[string]any, len(context))
		maps.Copy(out, context)
		return out, nil
	}
	out := make(map[string]any, len(m))
	for i := range m {
		v, present, err := m[i].Value.Resolve(context)
		if err != nil {
			err.Target, err.Tool, err.Step = m[i].Target, tool, step
			return nil, err
		}
		if present {
			out[m[i].Target] = v
		}
	}
	return out, nil
}

// Resolve returns the value that v takes from context; present is false for a MapOptional whose source is absent.
func (v *MappingValue) Resolve(context map[string]any) (out any, present bool, err *MappingError) {
	switch v.Kind {
	case MapKey:
		found, ok := context[v.Ref]
		if !ok {
			return nil, false, &MappingError{Source: v.Ref}
		}
		return found, true, nil
	case MapPointer:
		found, ok := value.Lookup(context, v.Ref)
		if !ok {
			return nil, false, missing(context, v.Ref)
		}
		return found, true, nil
	case MapLiteral, MapConst:
		return v.Literal, true, nil
	case MapOptional:
		out, present, err = v.Inner.Resolve(context)
		if err != nil && err.Reason == "" {
			return nil, false, nil
		}
		return out, present, err
	case MapExpr:
		return nil, false, &MappingError{Source: v.Ref, Reason: "an expression has to be compiled before it has a value"}
	}
	return nil, false, &MappingError{Reason: "unknown mapping form"}
}

// missing names the decoded prefix of the pointer that leads nowhere.
func missing(context map[string]any, ref string) *MappingError {
	pointer, err := value.ParsePointer(ref)
	if err != nil {
		return &MappingError{Source: ref}
	}
	return &MappingError{Source: "/" + strings.Join(pointer.Missing(context), "/")}
}
