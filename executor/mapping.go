package executor

import (
	"errors"

	"pave/flows"
	"pave/flows/expr"
)

// mapping resolves the arguments of a step, or what a flow returns, from the context.
type mapping struct {
	entries  flows.Mapping
	programs []*expr.Program // of the entries that are expressions; nil when none is
}

// resolve returns the arguments; without entries that is a copy of the whole context. A source that is missing, and
// an expression without a value, is CW-E005.
func (m mapping) resolve(values map[string]any, tool string, step int) (map[string]any, *failure) {
	if m.programs == nil {
		out, err := flows.ResolveMapping(m.entries, values, tool, step)
		if err != nil {
			return nil, failMapping(err)
		}
		return out, nil
	}
	out := make(map[string]any, len(m.entries))
	for i := range m.entries {
		v, present, f := m.value(i, values, tool, step)
		if f != nil {
			return nil, f
		}
		if present {
			out[m.entries[i].Target] = v
		}
	}
	return out, nil
}

// value resolves one entry; present is false where it is optional and its source absent.
func (m mapping) value(i int, values map[string]any, tool string, step int) (v any, present bool, f *failure) {
	entry := &m.entries[i]
	if m.programs == nil || m.programs[i] == nil {
		v, present, err := entry.Value.Resolve(values)
		if err != nil {
			err.Target, err.Tool, err.Step = entry.Target, tool, step
			return nil, false, failMapping(err)
		}
		return v, present, nil
	}
	v, err := m.programs[i].Eval(values)
	if err == nil {
		return v, true, nil
	}
	var e *expr.Error
	if entry.Value.Kind == flows.MapOptional && errors.As(err, &e) && e.Absent {
		return nil, false, nil
	}
	return nil, false, failMapping(&flows.MappingError{Target: entry.Target, Source: m.programs[i].String(), Tool: tool, Step: step, Reason: err.Error()})
}

func failMapping(err *flows.MappingError) *failure {
	message := err.Error()
	return &failure{cw: flows.CWInputMapping, message: message, raw: message, class: ClassOther}
}

// resolvable returns the entries whose sources exist.
func (m mapping) resolvable(values map[string]any) map[string]any {
	if len(m.entries) == 0 {
		out, _ := flows.ResolveMapping(nil, values, "", 0)
		return out
	}
	out := make(map[string]any, len(m.entries))
	for i := range m.entries {
		if v, present, f := m.value(i, values, "", 0); f == nil && present {
			out[m.entries[i].Target] = v
		}
	}
	return out
}
