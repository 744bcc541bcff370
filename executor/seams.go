package executor

import (
	"context"
	"time"

	"pave/flows"
)

// Decider chooses among the candidate tools of a step. An error, and a name that is no candidate, fail the step with
// CW-E031. Implementations are safe for concurrent use and return soon after ctx ends.
type Decider interface {
	Decide(ctx context.Context, d DecisionRequest) (tool string, err error)
}

// DecisionRequest is what a Decider is asked. Context is the decider's own copy.
type DecisionRequest struct {
	RunID           string
	TraceID         string
	FlowName        string
	StepIndex       int
	StepID          string
	DefaultToolName string
	Candidates      []string
	Context         map[string]any
}

// What a decision that is not made in time does to its step.
const (
	OnTimeoutError   = "error"   // the default: CW-E049
	OnTimeoutDefault = "default" // the step calls its own tool
)

// DecisionPolicy bounds decisions. Zero fields mean no bound and OnTimeoutError.
type DecisionPolicy struct {
	Timeout    time.Duration
	MaxPerFlow int // decisions of one run; one more is CW-E050. Flows that steps call count for themselves.
	OnTimeout  string
}

// Answers of an Approver.
const (
	Approve = "approve"
	Deny    = "deny"
	Pending = "pending" // not decided yet: the run waits
)

// Approver decides whether a step may call a tool whose contract requires approval. The engine asks before any step
// of the level starts, on the run's goroutine; of a fallback it asks then too, so that no run has to wait in the middle
// of a step. Pending ends the run as StatusAwaitingApproval with a checkpoint; after a decision Engine.Resume asks
// again. An error, and any other answer, deny.
type Approver interface {
	Approve(ctx context.Context, a ApprovalRequest) (ApprovalDecision, error)
}

// ApprovalRequest asks for one call. RunID, Path and Fallback identify it over restarts. Inputs are the step's
// resolved arguments with their true values; redact them before they are shown or stored.
type ApprovalRequest struct {
	RunID       string            `json:"run_id"`
	FlowName    string            `json:"flow_name"`
	FlowVersion string            `json:"flow_version"`
	Path        string            `json:"path"`
	StepIndex   int               `json:"step_index"`
	StepID      string            `json:"step_id,omitempty"`
	ToolName    string            `json:"tool_name"`
	Fallback    bool              `json:"fallback"`
	SideEffects flows.SideEffects `json:"side_effects"`
	Reason      string            `json:"reason"` // the contract's approval_reason
	Inputs      map[string]any    `json:"inputs"`
}

// ApprovalDecision answers an ApprovalRequest.
type ApprovalDecision struct {
	Decision string // Approve, Deny or Pending
	Reason   string // recorded with the step; "" for none
}

// Stages of a Guardrail.
const (
	GuardrailInput  = "input"
	GuardrailOutput = "output"
)

// Guardrail looks at what a tool is called with and at what it gave; an error blocks the step with CW-E052, whatever
// its on_error. Implementations are safe for concurrent use and must not change what they see.
type Guardrail interface {
	Check(ctx context.Context, g GuardrailCall) error
}

// GuardrailCall is what a Guardrail is shown. Outputs is nil at GuardrailInput.
type GuardrailCall struct {
	Stage     string
	RunID     string
	FlowName  string
	StepIndex int
	StepID    string
	ToolName  string
	Inputs    map[string]any
	Outputs   map[string]any
}

// Previewer is an Invoker that can say what a tool with side effects would answer, without the effects. A dry run asks
// it for tools whose contract supports dry runs.
type Previewer interface {
	Previews(tool *flows.Tool) bool
	Preview(ctx context.Context, tool *flows.Tool, input map[string]any, call CallInfo) (any, error)
}

// Kernel runs capability steps. Errors are *ToolError, or any other, which counts as ClassOther; the record says
// CW-E032.
type Kernel interface {
	InvokeCapability(ctx context.Context, c CapabilityCall) (map[string]any, error)
}

// CapabilityCall is one attempt at a capability. Deadline is zero when there is none.
type CapabilityCall struct {
	CapabilityID   string
	ToolName       string // of the step, which its record carries
	Inputs         map[string]any
	RunID          string
	StepID         string
	IdempotencyKey string
	Deadline       time.Time
}
