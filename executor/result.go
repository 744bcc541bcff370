// Package executor runs compiled flows deterministically: no model, no network, no randomness of its own. How a
// step reaches its tool is an Invoker; package bind/... implements it. It imports flows only.
package executor

import (
	"context"
	"log/slog"
	"time"

	"pave/flows"
)

// TraceSchemaVersion versions RunResult and StepRecord.
const TraceSchemaVersion = "1.2"

// Run statuses.
const (
	StatusSucceeded  = "succeeded"
	StatusFailed     = "failed"
	StatusHandedBack = "handed_back"
	StatusCancelled  = "cancelled"
	// StatusAwaitingApproval is no end: the result so far of a run that waits for approvals, see Engine.Resume.
	StatusAwaitingApproval = "awaiting_approval"
)

// Invoker reaches a tool. input is validated and coerced; the value returned is the tool's raw answer (any JSON
// value), which the engine validates. Errors should be *ToolError so that retry classes work; ctx carries the
// deadline of the attempt. Implementations are safe for concurrent use and must not change input, which the run's record
// and its context share.
type Invoker interface {
	Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, call CallInfo) (any, error)
}

// PromptInvoker is an Invoker that knows tools whose calls return soon after ctx ends. The engine calls those on
// the run's own goroutine; every other call gets one of its own, so that it can be abandoned.
type PromptInvoker interface {
	Invoker
	Prompt(tool *flows.Tool) bool
}

// CallInfo identifies the call for idempotency keys, trace context and logs.
type CallInfo struct {
	RunID   string
	TraceID string // the run's trace id; 32 hex digits where it is a W3C one
	// Path is the place of the call in the whole run: the step's index, of an element "index:element", in a flow that
	// a step calls "path of the calling step/index". RunID, Path and Fallback name one effect, over all its attempts.
	Path      string
	StepIndex int
	StepID    string
	Attempt   int    // 1-based
	Fallback  bool   // the call of a step's fallback tool
	Preview   bool   // a dry run's call of a Previewer
	Scope     string // whose run it is: RunInput.CacheScope
}

// Classes of tool errors, which retry policies name.
const (
	ClassTimeout    = "timeout"
	ClassValidation = "validation"
	ClassIO         = "io"
	ClassRateLimit  = "rate_limit"
	ClassOther      = "other"
)

// ValidClass reports whether s is one of the error classes.
func ValidClass(s string) bool {
	switch s {
	case ClassTimeout, ClassValidation, ClassIO, ClassRateLimit, ClassOther:
		return true
	}
	return false
}

// CodeOutputTooLarge is the ToolError code of a binding that cut an answer off at its cap; the step's record says
// CW-E009 then.
const CodeOutputTooLarge = "output_too_large"

// ToolError is an error that a tool or its binding reports. Class is one of timeout, validation, io,
// rate_limit, other ("" counts as other); Code is the binding's stable code when it has one (egress_denied,
// http_status, ...). Type is the error's class name in the tool's own language where it reports one; imported
// retry filters such as "builtins:OSError" compare it exactly.
type ToolError struct {
	Class   string
	Code    string
	Message string
	Type    string
	// Final marks a call that may have happened and must not happen twice: no retry policy makes it again.
	Final bool
	// NotSent marks a call that the binding did not make, so that nothing can have happened.
	NotSent bool
}

func (e *ToolError) Error() string { return e.Message }

// RunResult is the record of one run. A failed flow is data here, never a Go error.
type RunResult struct {
	TraceSchemaVersion string         `json:"trace_schema_version"`
	FlowName           string         `json:"flow_name"`
	FlowVersion        string         `json:"flow_version"`
	Success            bool           `json:"success"`
	Status             string         `json:"status"`
	FinalOutput        map[string]any `json:"final_output"`
	ExecutionLog       []StepRecord   `json:"execution_log"`
	TraceID            string         `json:"trace_id"`
	StartedAt          time.Time      `json:"started_at"`
	EndedAt            time.Time      `json:"ended_at"`
	TotalDurationMS    float64        `json:"total_duration_ms"`
	CostReport         *CostReport    `json:"cost_report"`
	InitialInput       map[string]any `json:"initial_input"`
	DryRun             bool           `json:"dry_run"`
	HandBack           *HandBack      `json:"hand_back"`

	// Awaiting and Checkpoint belong to a run that waits: what must be decided, and where to go on. They are not part
	// of the record; the checkpoint holds true values.
	Awaiting   []ApprovalRequest `json:"-"`
	Checkpoint *Checkpoint       `json:"-"`
}

// upgrade brings a result of an earlier trace schema version to this one.
func (r *RunResult) upgrade() {
	if r.Status == "" {
		r.Status = StatusFailed
		if r.Success {
			r.Status = StatusSucceeded
		}
	}
	for i := range r.ExecutionLog {
		rec := &r.ExecutionLog[i]
		if rec.ErrorType != nil && rec.ErrorCode == nil {
			if cw, known := flows.CWByClass(*rec.ErrorType); known {
				rec.ErrorCode = &cw.Code
			}
		}
		if rec.SubResult != nil {
			rec.SubResult.upgrade()
		}
	}
}

// HandBack says where an agent goes on when a flow ended as handed_back.
type HandBack struct {
	StepIndex int            `json:"step_index"`
	StepID    string         `json:"step_id,omitempty"`
	ToolName  string         `json:"tool_name"`
	Inputs    map[string]any `json:"inputs"`
	Reason    string         `json:"reason"`
}

// StepRecord is the record of one step. Inputs are the validated, coerced inputs that the tool received; where
// validation failed, the resolved ones.
type StepRecord struct {
	StepIndex        int            `json:"step_index"`
	StepID           string         `json:"step_id,omitempty"`
	ToolName         string         `json:"tool_name"`
	Inputs           map[string]any `json:"inputs"`
	Outputs          map[string]any `json:"outputs"`
	ErrorType        *string        `json:"error_type"`
	ErrorCode        *string        `json:"error_code"`
	ErrorMessage     *string        `json:"error_message"`
	Success          bool           `json:"success"`
	StartedAt        time.Time      `json:"started_at"`
	EndedAt          time.Time      `json:"ended_at"`
	DurationMS       float64        `json:"duration_ms"`
	RetryCount       int            `json:"retry_count"`
	RetryErrors      []string       `json:"retry_errors"`
	Skipped          bool           `json:"skipped"`
	Cached           bool           `json:"cached"`
	FallbackUsed     bool           `json:"fallback_used"`
	FallbackToolName *string        `json:"fallback_tool_name"`
	FlowName         *string        `json:"flow_name"`
	SubResult        *RunResult     `json:"sub_result"`
	Approval         *Approval      `json:"approval"`
	Decision         *Decision      `json:"decision"`
	Elements         []StepRecord   `json:"elements,omitempty"`
	// NotSent is set when the step failed before it called anything; without it a failed step may have done its work.
	NotSent bool `json:"not_sent,omitempty"`
}

// Approval is the recorded decision of a step that needed one.
type Approval struct {
	Decision string  `json:"decision"` // approve, deny
	Reason   *string `json:"reason"`
}

// Decision is the recorded choice among a step's candidate tools.
type Decision struct {
	Candidates      []string `json:"candidates"`
	Chosen          string   `json:"chosen"`
	DefaultToolName string   `json:"default_tool_name"`
	DurationMS      float64  `json:"duration_ms"`
	TimedOut        bool     `json:"timed_out"`
}

// CostProfile is the configured estimate of what one model call costs (base system, section Cost).
type CostProfile struct {
	AvgLLMLatencyMS  float64 `json:"avg_llm_latency_ms"`
	AvgTokensPerCall float64 `json:"avg_tokens_per_call"`
	CostPerTokenUSD  float64 `json:"cost_per_token_usd"`
	Provider         *string `json:"provider"`
	Model            *string `json:"model"`
	PriceAsOf        *string `json:"price_as_of"`
}

// DefaultCostProfile is the base system's: 300 ms, 750 tokens, 0.00004 USD a token.
var DefaultCostProfile = CostProfile{AvgLLMLatencyMS: 300, AvgTokensPerCall: 750, CostPerTokenUSD: 0.00004}

// CostReport is the profile estimate of one run; measured savings stand beside it in reports.
type CostReport struct {
	StepsExecuted     int         `json:"steps_executed"`
	LLMCallsAvoided   int         `json:"llm_calls_avoided"`
	LatencySavedMS    float64     `json:"latency_saved_ms"`
	CostSavedUSD      float64     `json:"cost_saved_usd"`
	ActualExecutionMS float64     `json:"actual_execution_ms"`
	Profile           CostProfile `json:"profile"`
}

// Options are the engine's seams and limits. Zero fields take the documented defaults.
type Options struct {
	Invoker Invoker
	Logger  *slog.Logger     // nil discards
	Now     func() time.Time // injected clock; required
	NewID   func() string    // injected run and trace ids; required
	// Sleep waits for a retry's backoff, or returns ctx's error; nil waits on a real timer.
	Sleep func(ctx context.Context, d time.Duration) error
	// Jitter returns the factor of a jittered backoff, uniform in [0.5, 1.5); nil is always 1.
	Jitter      func() float64
	CostProfile *CostProfile // nil: no cost report
	Limits      Limits
	// MaxSideEffects refuses tools above the level; "" allows all. Unknown safety counts as external.
	MaxSideEffects flows.SideEffects
	// StrictSafety never retries tools whose contract does not allow it, and refuses tools that need an approval where
	// nobody can be asked.
	StrictSafety bool

	Decider     Decider // nil: steps with candidates call their own tool
	Decisions   DecisionPolicy
	Approver    Approver     // nil: approvals are advice, or refused under StrictSafety
	Guardrail   Guardrail    // nil: nothing is blocked
	Kernel      Kernel       // nil: capability steps fail
	Cache       StepCache    // nil: every call is made
	Checkpoints Checkpointer // nil: only runs that wait have a checkpoint, in their result
	// KeepCheckpoints leaves the checkpoints of runs that failed or were cancelled, so that they can be resumed. Those of
	// other runs are deleted when the run ends.
	KeepCheckpoints bool
}

// Limits of one run; zero means the default in parentheses.
type Limits struct {
	MaxSteps       int           // 1000
	MaxOutputBytes int           // one tool output (1 MiB)
	MaxContext     int           // bytes of context (1 MiB), checked by output sizes
	MaxRunTime     time.Duration // 10 min
	MaxAbandoned   int           // calls that outlived their deadline and still run (256); past it no new ones start
	// MaxParallelSteps bounds the steps of one DAG level, and the elements of one for_each, that run at a time (8).
	MaxParallelSteps int
	MaxElements      int // of one for_each (10,000)
}
