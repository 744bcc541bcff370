package executor

import (
	"fmt"
	"strings"

	"pave/flows"
)

// Severity of a Diagnostic. Errors keep a flow from being promoted.
type Severity string

const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Issue types of compile diagnostics. They are a wire contract: add, never rename.
const (
	IssueMissingTool             = "missing_tool"
	IssueUnsafeRetry             = "unsafe_retry"
	IssueMissingFallbackTool     = "missing_fallback_tool"
	IssueUnknownTargetKey        = "unknown_target_key"
	IssueMissingMappingKey       = "missing_mapping_key"
	IssueUndeclaredInput         = "undeclared_input"
	IssueTypeMismatch            = "type_mismatch"
	IssueShadowedKey             = "shadowed_key"
	IssueMissingRequiredInput    = "missing_required_input"
	IssueUnprovenValue           = "unproven_value"
	IssueFallbackUnknownTarget   = "fallback_unknown_target_key"
	IssueFallbackTypeMismatch    = "fallback_type_mismatch"
	IssueFallbackMissingRequired = "fallback_missing_required_input"
	IssueFallbackOutputMissing   = "fallback_output_missing_mapped_key"
	IssueFallbackOutputType      = "fallback_output_type_mismatch"
	IssueFallbackOutputShape     = "fallback_output_shape_divergence"
	IssueUnknownOutputKey        = "unknown_output_key"
	IssueContextCollision        = "context_collision"
	IssueOutputSchemaGap         = "output_schema_gap"
	IssueOutputTypeMismatch      = "output_type_mismatch"
	IssuePredicateError          = "predicate_error"
	IssueExpressionError         = "expression_error" // field_name is the expression
	IssueTopologyError           = "topology_error"   // field_name is the reason
	IssueSiblingCollision        = "sibling_collision"
	IssueCompositionError        = "composition_error" // field_name is the reason
	IssueInvalidSchema           = "invalid_schema"
	IssueUnknownSchema           = "unknown_schema"
	IssueTooManySteps            = "too_many_steps"
)

// Diagnostic is one finding of Compile. StepIndex is the step's position, the number of steps for findings about
// the whole flow. Pointer leads to the place in the flow file that Detail says how to change.
type Diagnostic struct {
	Severity  Severity `json:"severity"`
	IssueType string   `json:"issue_type"`
	StepIndex int      `json:"step_index"`
	ToolName  string   `json:"tool_name"`
	FieldName string   `json:"field_name,omitempty"`
	Pointer   string   `json:"pointer"`
	Detail    string   `json:"detail"`
}

func (d Diagnostic) String() string {
	return fmt.Sprintf("%s %s at %s: %s", d.Severity, d.IssueType, d.Pointer, d.Detail)
}

// HasErrors reports whether a diagnostic is an error.
func HasErrors(diagnostics []Diagnostic) bool {
	for _, d := range diagnostics {
		if d.Severity == SeverityError {
			return true
		}
	}
	return false
}

// CompileError turns diagnostics into one *flows.Error with a detail for each error, nil when there is none.
func CompileError(flow string, diagnostics []Diagnostic) error {
	var details []flows.ErrorDetail
	var first []string
	for _, d := range diagnostics {
		if d.Severity != SeverityError {
			continue
		}
		details = append(details, flows.ErrorDetail{Pointer: d.Pointer, Code: d.IssueType, Detail: d.Detail})
		if len(first) < 3 {
			first = append(first, d.IssueType+" at "+d.Pointer+": "+d.Detail)
		}
	}
	if details == nil {
		return nil
	}
	return flows.NewError(flows.CodeCompile, fmt.Sprintf("Flow '%s' does not compile (%d errors): %s", flow, len(details), strings.Join(first, "; ")), details...)
}
