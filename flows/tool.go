package flows

import "encoding/json"

// RawSchema is a JSON Schema document exactly as it was declared; nil means none. Property order is kept,
// because error order and the order of outputs follow the declaration.
type RawSchema = json.RawMessage

// Tool is a named, schema-validated callable. pave does not own its code: it knows its schemas, its safety
// contract and how to reach it (Binding). A Tool is immutable after construction.
type Tool struct {
	Name           string // 1-128 of A-Za-z0-9_.-
	Description    string
	InputSchema    RawSchema
	OutputSchema   RawSchema
	SchemaVersion  string   // free text, "" means "0.0.0"; folded into the schema hash
	TimeoutSeconds *float64 // nil means no bound of the tool's own
	MaxOutputSize  *int     // bytes of the raw output's JSON; nil means the engine's limit
	Cacheable      *bool
	Safety         *SafetyContract // nil means unknown, which counts as external
	// DeclaredIdempotent is set where the tool file itself says safety.idempotent: true of a tool with side effects. A
	// contract that is silent counts as idempotent in the base system; that is not enough to call such a tool twice.
	DeclaredIdempotent bool
	Metadata           map[string]any
	Binding            *Binding // nil: known but not reachable
	// Origin says how pave learnt of the tool: declared, discovered or inferred.
	Origin ToolOrigin
}

// Repeatable reports whether a call whose outcome is unknown may be made again: the tool only reads, or it was
// explicitly declared idempotent.
func (t *Tool) Repeatable() bool {
	return t.Safety != nil && t.Safety.Idempotent && (t.Safety.ReadOnly() || t.DeclaredIdempotent)
}

// ToolOrigin is the source of a tool's definition.
type ToolOrigin string

const (
	ToolDeclared   ToolOrigin = "declared"
	ToolDiscovered ToolOrigin = "discovered"
	ToolInferred   ToolOrigin = "inferred"
)

// Binding says how a step reaches its tool. Kind selects which of the other fields count.
type Binding struct {
	Kind string // http, local, mcp, worker

	// http
	Method  string
	URL     string            // {placeholders} in path and query come from arguments
	Headers map[string]string // values may hold {{secret:NAME}}
	Body    string            // json (default), form, none
	Result  string            // JSON pointer into the answer; "" is the whole
	Errors  []ErrorRule

	// local: the name of an in-process tool
	Local string

	// mcp: the server, its name for the tool, and the pin: the digest of the definition that was accepted, "" for none
	Server           string
	Tool             string
	DefinitionDigest string

	// worker
	Pool string
}

// ErrorRule turns an answer with a success status into a tool error when its predicate holds.
type ErrorRule struct {
	When    string
	Message string // JSON pointer to the message
	Class   string
}

// SideEffects is the ordered scale of what a tool does to the world.
type SideEffects string

const (
	EffectNone        SideEffects = "none"
	EffectRead        SideEffects = "read"
	EffectWrite       SideEffects = "write"
	EffectExternal    SideEffects = "external"
	EffectDestructive SideEffects = "destructive"
)

// SafetyContract is what is known of a tool's or a flow's side effects. The zero value is not meaningful;
// use DefaultSafety for the permissive contract of the base system. See semantics: merge is by maximum for
// the ordered fields and by conjunction for the permissions.
type SafetyContract struct {
	SideEffects      SideEffects
	Stability        string // stable, best_effort, unstable
	DeterminismLevel string // full, partial, none
	Idempotent       bool
	Cacheable        bool
	SafeToRetry      bool
	SupportsDryRun   bool
	RequiresApproval bool
	ApprovalReason   string
	Source           string // declared, mcp_annotations, reviewer, unknown
}
