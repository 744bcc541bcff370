package executor

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"pave/flows"
)

// Keys of the engine's log lines; a step's line has exactly logFlow, logRun, logStep, logTool, logOK, logCode,
// logRetries and logMillis. Values never hold arguments or results.
const (
	logFlow    = "flow"
	logRun     = "run_id"
	logStep    = "step_index"
	logTool    = "tool"
	logKey     = "context_key"
	logOK      = "success"
	logCode    = "error_code"
	logRetries = "retry_count"
	logMillis  = "duration_ms"
)

// Defaults of Limits.
const (
	DefaultMaxSteps       = 1000
	DefaultMaxOutputBytes = 1 << 20
	DefaultMaxContext     = 1 << 20
	DefaultMaxRunTime     = 10 * time.Minute
	DefaultMaxAbandoned   = 256
	DefaultMaxParallel    = 8
	DefaultMaxElements    = 10_000
)

// Engine runs plans. It is safe for concurrent use; runs share nothing but the Invoker and the counters.
type Engine struct {
	invoker Invoker
	prompt  PromptInvoker // the invoker, when it is one
	logger  *slog.Logger
	now     func() time.Time
	newID   func() string
	sleep   func(ctx context.Context, d time.Duration) error
	jitter  func() float64
	cost    *CostProfile
	limits  Limits
	ceiling flows.SideEffects
	strict  bool

	previewer       Previewer // the invoker, when it is one
	decider         Decider
	decisions       DecisionPolicy
	approver        Approver
	guardrail       Guardrail
	kernel          Kernel
	cache           StepCache
	checkpoints     Checkpointer
	keepCheckpoints bool

	outstanding atomic.Int64
	abandoned   atomic.Int64
}

// New builds an Engine. It panics when Invoker, Now or NewID is nil: these seams have no default.
func New(o Options) *Engine {
	if o.Invoker == nil || o.Now == nil || o.NewID == nil {
		panic("executor.New: Options.Invoker, Now and NewID are required")
	}
	e := &Engine{invoker: o.Invoker, logger: o.Logger, now: o.Now, newID: o.NewID, sleep: o.Sleep, jitter: o.Jitter,
		cost: o.CostProfile, limits: o.Limits.withDefaults(), ceiling: o.MaxSideEffects, strict: o.StrictSafety,
		decider: o.Decider, decisions: o.Decisions, approver: o.Approver, guardrail: o.Guardrail, kernel: o.Kernel, cache: o.Cache, checkpoints: o.Checkpoints, keepCheckpoints: o.KeepCheckpoints}
	e.prompt, _ = o.Invoker.(PromptInvoker)
	e.previewer, _ = o.Invoker.(Previewer)
	if e.logger == nil {
		e.logger = slog.New(slog.DiscardHandler)
	}
	if e.sleep == nil {
		e.sleep = sleep
	}
	if e.jitter == nil {
		e.jitter = func() float64 { return 1 }
	}
	return e
}

func (l Limits) withDefaults() Limits {
	positive := func(n *int, fallback int) {
		if *n <= 0 {
			*n = fallback
		}
	}
	positive(&l.MaxSteps, DefaultMaxSteps)
	positive(&l.MaxOutputBytes, DefaultMaxOutputBytes)
	positive(&l.MaxContext, DefaultMaxContext)
	positive(&l.MaxAbandoned, DefaultMaxAbandoned)
	positive(&l.MaxParallelSteps, DefaultMaxParallel)
	positive(&l.MaxElements, DefaultMaxElements)
	if l.MaxRunTime <= 0 {
		l.MaxRunTime = DefaultMaxRunTime
	}
	return l
}

// AbandonedCalls counts tool calls that outlived their deadline: those still running and all of them so far.
// Their results are never applied.
func (e *Engine) AbandonedCalls() (running, total int64) {
	return e.outstanding.Load(), e.abandoned.Load()
}

// Gate refuses to run a flow whose status is not active, unless forced (an audited right of the caller). The error
// is a *flows.Error that wraps flows.CWFlowStatus.
func Gate(flow *flows.Flow, force bool) error {
	if force || flow.Status == flows.StatusActive || flow.Status == "" {
		return nil
	}
	err := flows.NewError(flows.CodeFlowStatus, fmt.Sprintf("Flow '%s' has status '%s' and only active flows run; promote or re-activate it first.", flow.Name, flow.Status))
	err.Err = flows.CWFlowStatus
	return err
}

// What a dry run does with a tool that has side effects.
const (
	DryRunSkip  = "skip" // the default: the step succeeds as skipped, without outputs
	DryRunAbort = "abort"
)

// RunInput is what one run gets.
type RunInput struct {
	// Input is the flow's input; it is copied.
	Input map[string]any
	// RunID and TraceID identify the run for idempotency keys and traces; "" takes new ids.
	RunID   string
	TraceID string
	// DynamicParams are values that the caller gives beside the input, secrets as a rule: mappings see them as context
	// keys that win over equal input keys, they are not validated, and the final output holds them. Events, logs and
	// checkpoints do not; Redact keeps them out of a stored result. Resume asks for them again.
	DynamicParams map[string]any
	// CacheScope keeps the cache entries of different owners (tenants) apart.
	CacheScope string
	// DryRun calls only tools whose safety says that they have no side effects beyond reading; unknown safety
	// counts as external.
	DryRun            bool
	DryRunUnsupported string // DryRunSkip or DryRunAbort
	// OnEvent receives the run's events in order, on the run's goroutine; it must return soon. A panic in it is
	// logged and ignored.
	OnEvent func(Event)
}

// Check reports an input that no run can be started with. The error is a *flows.Error.
func (in *RunInput) Check() error {
	switch in.DryRunUnsupported {
	case "", DryRunSkip, DryRunAbort:
		return nil
	}
	return flows.NewError(flows.CodeInvalid, fmt.Sprintf("dry_run_unsupported must be '%s' or '%s', got '%s'.", DryRunSkip, DryRunAbort, in.DryRunUnsupported))
}

// EventKind names what an Event reports.
type EventKind string

const (
	EventFlowStart EventKind = "flow_start"
	EventStepStart EventKind = "step_start"
	EventStepEnd   EventKind = "step_end"
	EventFlowEnd   EventKind = "flow_end"
)

// Event is one point of a run: flow_start, then step_start and step_end in turn, flow_end always last. A step
// that fails before its inputs are resolved has a step_end only.
type Event struct {
	Kind       EventKind
	FlowName   string
	TraceID    string
	Timestamp  time.Time
	StepIndex  int            // step_start, step_end
	ToolName   string         // step_start, step_end
	Inputs     map[string]any // step_start: the resolved inputs, not to be changed
	StepRecord *StepRecord    // step_end
	Result     *RunResult     // flow_end
	TotalSteps int            // flow_start
}

// emit hands an event to the run's listener.
func (r *run) emit(ev Event) {
	if r.in.OnEvent != nil {
		r.deliver(r.label(ev))
	}
}

// label says which run an event belongs to and when it happened.
func (r *run) label(ev Event) Event {
	ev.FlowName, ev.TraceID, ev.Timestamp = r.plan.flow.Name, r.result.TraceID, stamp(r.e.now())
	return ev
}

func (r *run) deliver(ev Event) {
	defer func() {
		if p := recover(); p != nil {
			r.e.logger.Error("event listener panicked", logFlow, r.plan.flow.Name, logRun, r.runID, "panic", p)
		}
	}()
	r.in.OnEvent(ev)
}

// stamp brings a time to the form of records: UTC, microseconds, no monotonic clock.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// millis is a duration in milliseconds with microsecond steps, never negative.
func millis(d time.Duration) float64 { return float64(max(0, d.Microseconds())) / 1000 }
