// Package flows is the leaf of pave: what a tool and a flow are, and how a mapping value is written and read.
//
// It does no I/O, keeps no clock and knows no network. Every other room imports it. Values observed or produced
// by tools are JSON values as package value defines them.
package flows

// Flow types as they are written in the `type` field of a flow file.
const (
	TypeFlow    = "Flow"    // linear: steps run in declaration order
	TypeDAGFlow = "DAGFlow" // partially ordered: steps run when their dependencies are done
)

// Format versions of the flow file. Version "1" is the base system's format; "1.1" adds the fields that
// flow files of pave use (inline schemas, output_as, returns, $const and the like).
const (
	FormatVersion1  = "1"
	FormatVersion11 = "1.1"
)

// Status is the only execution gate of a flow version: only StatusActive runs (without force).
type Status string

const (
	StatusActive      Status = "active"
	StatusNeedsReview Status = "needs_review"
	StatusDisabled    Status = "disabled"
)

// Lifecycle is the promotion path of a flow. It never gates execution.
type Lifecycle string

const (
	LifecycleObserved  Lifecycle = "observed"
	LifecycleSuggested Lifecycle = "suggested"
	LifecycleDraft     Lifecycle = "draft"
	LifecycleReviewed  Lifecycle = "reviewed"
	LifecycleActive    Lifecycle = "active"
	LifecycleArchived  Lifecycle = "archived"
	LifecycleIgnored   Lifecycle = "ignored"
)

// CollisionPolicy says what a merge does when an output key already exists in the context.
type CollisionPolicy string

const (
	CollisionOverwrite CollisionPolicy = "overwrite"
	CollisionWarn      CollisionPolicy = "warn" // the default
	CollisionError     CollisionPolicy = "error"
)

// OnFailure says what a failed step does to the run.
type OnFailure string

const (
	OnFailureFail     OnFailure = "fail" // the default
	OnFailureHandBack OnFailure = "hand_back"
)

// Flow is a named, versioned composition of tool steps, linear (TypeFlow) or partially ordered (TypeDAGFlow).
// A Flow is immutable once parsed; copy it to change it. The zero value of every optional field is its default.
type Flow struct {
	FormatVersion string
	Type          string // TypeFlow or TypeDAGFlow
	Name          string
	Version       string // SemVer on write; looser forms are accepted on import
	Description   string
	Steps         []Step

	// InputSchema, OutputSchema and ContextSchema are inline JSON Schemas (2020-12) or nil. The *SchemaRef
	// fields are names looked up in the schema registry; code is never imported by name.
	InputSchema      RawSchema
	OutputSchema     RawSchema
	ContextSchema    RawSchema
	InputSchemaRef   string
	OutputSchemaRef  string
	ContextSchemaRef string

	OnContextCollision CollisionPolicy // "" means CollisionWarn
	OnFailure          OnFailure       // "" means OnFailureFail
	// Returns projects what the caller gets from the final context; nil means the whole final context.
	Returns Mapping

	Status            Status // "" means StatusActive, as in the base system's files
	Deterministic     *bool  // nil means true
	TriggerConditions any    // opaque to the executor
	ToolSchemaHashes  map[string]string
	CapabilityID      string
	Governance        *Governance
	Safety            *SafetyContract // nil means unknown, never safe
	DynamicParams     []string
	Evidence          map[string]any // where the flow came from; the executor ignores it
}

// Governance is the provenance block of a flow file.
type Governance struct {
	Lifecycle                  Lifecycle
	Owner                      string
	ReplacesTools              []string
	EstimatedModelCallsRemoved int
	EstimatedTokenSavings      *int64
	ReviewedBy                 string
	ReviewNotes                string
}

// Step is one step of a flow. Exactly one of ToolName and FlowName is set. The fields from StepID on are
// those of DAG steps.
type Step struct {
	ToolName     string
	FlowName     string // "name" or "name@version"
	InputMapping Mapping
	// OutputMapping renames outputs into the context: context key -> output key. nil merges every output,
	// an empty non-nil mapping merges nothing.
	OutputMapping      []OutputEntry
	OutputAs           string // the step's whole output under one context key; exclusive with OutputMapping
	Retry              *RetryPolicy
	OnError            string // "fail" (""), "skip" or "fallback:<tool>"
	Guard              string // predicate checked before the step; false ends the run as handed_back
	ForEach            *MappingValue
	As                 string
	MaxConcurrency     int
	DecisionCandidates []string
	InputContract      string
	OutputContract     string

	StepID       string
	DependsOn    []string
	StepType     string // "" or "tool", "capability"
	CapabilityID string
	Branches     []Branch
	DefaultNext  string
}

// Name is the tool's name, or the flow's for a sub-flow step.
func (s *Step) Name() string {
	if s.ToolName != "" {
		return s.ToolName
	}
	return s.FlowName
}

// OutputEntry is one entry of an output mapping: the tool's output key is stored under the context key.
type OutputEntry struct {
	ContextKey string
	OutputKey  string
}

// Branch is one outgoing, guarded edge of a DAG step.
type Branch struct {
	TargetStepID string
	Predicate    string
}

// RetryPolicy bounds the attempts of one step. Delays are in seconds, as in flow files.
type RetryPolicy struct {
	MaxRetries        int
	BackoffSeconds    float64
	BackoffMultiplier float64
	MaxBackoffSeconds float64 // 0 means unbounded
	Jitter            bool
	// RetryableErrors are neutral classes (timeout, validation, io, rate_limit, other) or the base system's
	// "builtins:<Class>" filters; "builtins:Exception" matches any.
	RetryableErrors []string
}
