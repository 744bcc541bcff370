package executor

import (
	"fmt"
	"strconv"
	"strings"

	"pave/flows"
	"pave/flows/schema"
)

// failure is why a step did not succeed: what the record shows, and what retry and on_error need to know.
type failure struct {
	cw      flows.CWError
	message string // error_message
	raw     string // the error before it was wrapped with tool and step, as retry_errors lists it
	class   string // neutral class
	typ     string // the class name that the tool reported, "" when pave found the error
	ended   bool   // the run was cancelled or ran out of time: no retry, no on_error
	pending bool   // no failure: the step waits for an approval
	final   bool   // the call may have happened and must not happen twice: no retry
}

// write puts the failure into the record.
func (f *failure) write(rec *StepRecord) {
	class, code, message := f.cw.Class, f.cw.Code, f.message
	rec.ErrorType, rec.ErrorCode, rec.ErrorMessage = &class, &code, &message
}

// letsOn reports whether steps beside one with this outcome may still start: they may when it has not failed, also when
// it waits, so that all approvals are asked for together.
func (f *failure) letsOn() bool { return f == nil || f.pending }

func (f *failure) String() string { return f.cw.Code + " " + f.message }

func failMissingTool(name string) *failure {
	return &failure{cw: flows.CWToolNotFound, message: fmt.Sprintf("Tool '%s' is not registered.", name)}
}

// failSchema reports values that do not fit. label is "tool" for a tool's own schemas, else the name of the check
// (flow_input, step_output_contract, ...).
func failSchema(label, name string, step int, violations []schema.Violation) *failure {
	raw := describeViolations(violations)
	return &failure{cw: flows.CWSchemaValidation, raw: raw, class: ClassValidation, typ: "ValueError",
		message: fmt.Sprintf("Schema validation failed for %s '%s' at step %d: %s", label, name, step, raw)}
}

// describeViolations writes "loc: message [type]" for each violation, in order.
func describeViolations(violations []schema.Violation) string {
	parts := make([]string, len(violations))
	for i, v := range violations {
		parts[i] = fmt.Sprintf("%s: %s [%s]", v.Loc, v.Message, v.Type)
	}
	return strings.Join(parts, "; ")
}

// failExecution wraps what a tool or its binding reported.
func failExecution(tool string, step int, err *ToolError) *failure {
	raw := err.Message
	if err.Code != "" {
		raw += " [" + err.Code + "]"
	}
	class := err.Class
	if !ValidClass(class) {
		class = ClassOther
	}
	return &failure{cw: flows.CWFlowExecution, raw: raw, class: class, typ: err.Type, final: err.Final,
		message: fmt.Sprintf("Execution error in tool '%s' at step %d: %s", tool, step, raw)}
}

func failTimeout(tool string, seconds float64) *failure {
	text := strconv.FormatFloat(seconds, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	message := fmt.Sprintf("Tool '%s' exceeded timeout of %ss.", tool, text)
	return &failure{cw: flows.CWToolTimeout, message: message, raw: message, class: ClassTimeout, typ: flows.CWToolTimeout.Class}
}

func failSize(tool string, size, limit int) *failure {
	message := fmt.Sprintf("Tool '%s' output size %d exceeds max %d.", tool, size, limit)
	return &failure{cw: flows.CWToolOutputSize, message: message, raw: message, class: ClassOther, typ: flows.CWToolOutputSize.Class}
}

func failCancelled(flow string, step int, reason string) *failure {
	message := fmt.Sprintf("Flow '%s' was cancelled at step %d: %s.", flow, step, reason)
	return &failure{cw: flows.CWFlowCancelled, message: message, raw: message, class: ClassOther, ended: true}
}
