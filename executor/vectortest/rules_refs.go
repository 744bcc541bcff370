package vectortest

import (
	"encoding/json"
	"slices"
	"strings"

	"pave/flows"
)

// unresolvedIsAResult is what R1 makes of a schema reference that nothing resolves, nil where the flows have none.
func (v *Vector) unresolvedIsAResult(f *flowDoc) map[string]any {
	if f.unresolved(v.Schemas) {
		return failedLast(map[string]any{"error_code": flows.CWFlowSerialization.Code, "error_type": flows.CWFlowSerialization.Class})
	}
	for _, raw := range v.Subflows {
		sub := new(flowDoc)
		if json.Unmarshal(raw, sub) == nil && sub.unresolved(v.Schemas) {
			record := map[string]any{"error_code": flows.CWFlowExecution.Code, "error_type": flows.CWFlowExecution.Class}
			if slices.ContainsFunc(f.Steps, func(s stepDoc) bool { return s.FlowName == sub.Name }) {
				record["flow_name"] = sub.Name // else it is called by a flow between
			}
			return failedLast(record)
		}
	}
	return nil
}

// unresolved reports whether the flow or a step of it names a schema that is not there.
func (f *flowDoc) unresolved(schemas map[string]json.RawMessage) bool {
	refs := []string{f.InputSchemaRef, f.OutputSchemaRef, f.ContextSchemaRef}
	for _, s := range f.Steps {
		refs = append(refs, s.InputContract, s.OutputContract)
	}
	return slices.ContainsFunc(refs, func(ref string) bool { return ref != "" && schemas[ref] == nil })
}

// filterIsExact (R16): a retry filter that names no error class is a filter that never matches, so the tool runs once
// and its own error is recorded.
func filterIsExact(v *Vector, f *flowDoc, expect map[string]any) map[string]any {
	rewritten := eachStep(expect, func(i int, step map[string]any, out map[string]any) {
		message, _ := step["error_message"].(string)
		if i >= len(f.Steps) || f.Steps[i].Retry == nil || !strings.Contains(message, ": Flow serialization failed: ") {
			return
		}
		var spec struct {
			Kind, Message string
			Times         *int
			Value         map[string]any
		}
		tool := v.tool(step["tool_name"])
		if tool == nil || json.Unmarshal(tool.Fn, &spec) != nil {
			return
		}
		if !fitsSchema(tool.InputSchema, step["inputs"]) || spec.Kind == "flaky_output" && *spec.Times > 0 {
			out["record"] = map[string]any{"at": int64(i), "is": map[string]any{"success": false, "error_code": flows.CWSchemaValidation.Code, "retry_count": int64(0)}}
			return
		}
		if spec.Times != nil && *spec.Times == 0 || spec.Kind == "const" {
			out["record"] = map[string]any{"at": int64(i), "is": map[string]any{"success": true, "retry_count": int64(0), "retry_errors": []any{}}}
			return
		}
		raised := spec.Message
		if spec.Kind == "flaky" {
			if raised == "" {
				raised = "flaky"
			}
			raised += " #1"
		}
		wrapped, _, _ := strings.Cut(message, "Flow serialization failed: ")
		step["error_message"] = wrapped + raised
		errors := []any{raised}
		if step["fallback_used"] == true {
			errors = append(errors, wrapped+raised)
		}
		step["retry_errors"] = errors
	})
	if record := rewritten["record"]; record != nil { // the run goes on from there as it never did in the reference
		return map[string]any{"record": record}
	}
	return rewritten
}
