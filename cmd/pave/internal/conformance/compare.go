package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"pave/analyzer/baseline"
	"pave/flows"
	"pave/flows/value"
)

// compare holds an outcome against what the vector expects. Only the keys that expect has count; texts under
// "message" are for people.
func (v *vector) compare(actual any) Outcome {
	if diffs := v.differences(actual); len(diffs) > 0 {
		return failed("%s", strings.Join(diffs, "; "))
	}
	return exact()
}

func (v *vector) differences(actual any) []string {
	want, err := value.Decode(v.Expect)
	if err != nil {
		return []string{"expect: " + err.Error()}
	}
	got, err := value.Of(actual)
	if err != nil {
		return []string{err.Error()}
	}
	return differences("", want, got)
}

// mostDifferences are named of one vector.
const mostDifferences = 5

func differences(at string, want, got any) (out []string) {
	differs := func() []string {
		return []string{fmt.Sprintf("%s: want %s, got %s", strings.TrimPrefix(at, "."), value.Encode(want), value.Encode(got))}
	}
	switch want := want.(type) {
	case map[string]any:
		actual, ok := got.(map[string]any)
		if !ok {
			return differs()
		}
		exactKeys := strings.HasSuffix(at, ".matrix") || strings.HasSuffix(at, ".input_mapping") || strings.HasSuffix(at, ".field_mappings")
		if exactKeys && len(actual) != len(want) {
			return differs()
		}
		for key := range want {
			if key == "message" {
				continue
			}
			inner, present := actual[key]
			if !present {
				out = append(out, fmt.Sprintf("%s.%s: missing", at, key))
				continue
			}
			out = append(out, differences(at+"."+key, want[key], inner)...)
		}
	case []any:
		actual, ok := got.([]any)
		if !ok || len(actual) != len(want) {
			return differs()
		}
		for i := range want {
			out = append(out, differences(fmt.Sprintf("%s[%d]", at, i), want[i], actual[i])...)
		}
	default:
		if !value.Equal(want, got) {
			return differs()
		}
	}
	return out[:min(len(out), mostDifferences)]
}

// errorForm is an error as vectors write it, nil for one that has no such form.
func errorForm(err error) map[string]any {
	var line *baseline.LineError
	var cw flows.CWError
	switch {
	case errors.As(err, &line):
		return map[string]any{"error": flows.CWTraceImport.Class, "code": flows.CWTraceImport.Code, "line": line.Line}
	case errors.As(err, &cw):
		return map[string]any{"error": cw.Class, "code": cw.Code}
	case flows.CodeOf(err) == flows.CodeInvalid:
		return map[string]any{"error": "ValueError"}
	case flows.CodeOf(err) == flows.CodeNotFound:
		return map[string]any{"error": "KeyError"}
	}
	return nil
}

// outcomeOf is the actual outcome in the vectors' form: a result, or the error instead of it.
func outcomeOf(result any, err error) any {
	if err == nil {
		return result
	}
	if form := errorForm(err); form != nil {
		return form
	}
	return map[string]any{"error": err.Error()}
}

// toolSpec is a tool of a vector, as far as these groups read it.
type toolSpec struct {
	Name          string          `json:"name"`
	InputSchema   json.RawMessage `json:"input_schema"`
	OutputSchema  json.RawMessage `json:"output_schema"`
	SchemaVersion string          `json:"schema_version"`
}

// toolsOf is nil for a vector that says null instead of a list.
func toolsOf(specs []toolSpec) []*flows.Tool {
	if specs == nil {
		return nil
	}
	out := make([]*flows.Tool, len(specs))
	for i, s := range specs {
		out[i] = &flows.Tool{Name: s.Name, InputSchema: s.InputSchema, OutputSchema: s.OutputSchema, SchemaVersion: s.SchemaVersion}
	}
	return out
}

// lifecycleOf is the lifecycle of a flow; files that say nothing mean active.
func lifecycleOf(f *flows.Flow) flows.Lifecycle {
	if f.Governance == nil || f.Governance.Lifecycle == "" {
		return flows.LifecycleActive
	}
	return f.Governance.Lifecycle
}

func stepsForm(f *flows.Flow) []any {
	out := make([]any, len(f.Steps))
	for i := range f.Steps {
		out[i] = map[string]any{"tool_name": f.Steps[i].ToolName, "input_mapping": mappingForm(f.Steps[i].InputMapping)}
	}
	return out
}

func mappingForm(m flows.Mapping) map[string]any {
	out := map[string]any{}
	for _, entry := range m {
		out[entry.Target] = entry.Value.Ref
	}
	return out
}
