// Package ingest holds what was observed: events as they arrive (tool calls, LLM calls, user messages), the
// sessions they belong to, and the recorder that makes them durable.
//
// The adapters live below: otlp and transcript decode other people's formats into events, store keeps them.
package ingest

import (
	"encoding/json"
	"time"
)

// SchemaVersion versions the trace record (Event and its JSON form).
const SchemaVersion = "1"

// DefaultTenant is the tenant of every row and key until tenants are configured.
const DefaultTenant = "default"

// Kind tells which part of an Event is set.
type Kind uint8

const (
	KindToolCall    Kind = 1 // Call is set
	KindLLMCall     Kind = 2 // LLM is set
	KindUserMessage Kind = 3 // User is set
	KindSessionEnd  Kind = 4 // the header only
	// KindSpan is structure: a span that is no call itself but carries a session id, an agent run or a parent
	// that calls need. The header only.
	KindSpan Kind = 5
)

// OriginKind says who made a tool call. Mining reads OriginAgent only.
type OriginKind string

const (
	OriginAgent    OriginKind = "agent"     // an agent's own call
	OriginFlow     OriginKind = "flow"      // a step of a flow run
	OriginFlowCall OriginKind = "flow_call" // an agent's call of a promoted flow
)

// Status of a tool call.
type Status string

const (
	StatusOK        Status = "ok"
	StatusError     Status = "error"
	StatusUnknown   Status = "unknown"
	StatusRequested Status = "requested" // seen in a message only, execution not observed
)

// Event is one observed thing: a header and, by Kind, one part. Events are stored in arrival order and never
// changed; sessions are assembled from them later. The receiver of an Event owns it.
type Event struct {
	Kind Kind
	// Origin is known on arrival and never changes: "trace:<id>", else "session:<id>", else "request:<id>".
	Origin string
	// SessionID is the explicit session id of the record ("" when it carries none); it wins over the binding
	// of its origin.
	SessionID    string
	TraceID      string // lower-case hex, "" when none
	SpanID       string
	ParentSpanID string
	RunID        string // agent run inside the session, "" when unknown
	Agent        string
	Source       string // dialect or format that produced it, such as "json", "otlp/genai", "file/tau-bench"
	OriginKind   OriginKind
	// Seq is an explicit order inside the session (HasSeq), stronger than time within one source.
	Seq    int64
	HasSeq bool
	// Turn is the index of the assistant message that issued the call (HasTurn); calls of one turn were parallel.
	Turn    int32
	HasTurn bool
	Start   time.Time // zero when unknown
	// Duration is zero when unknown.
	Duration time.Duration
	// Received is set by the recorder when it accepts the event.
	Received time.Time
	// Identity is the duplicate key set by the recorder: two events of one tenant with equal, non-empty
	// identity are copies of one. Derived from trace and span id; or session, call id and tool; or the hash of
	// the request body and the index in it.
	Identity string
	Metadata json.RawMessage // an object or nil

	Call *ToolCall
	LLM  *LLMCall
	User *UserMessage
}

// ToolCall is one invocation of a tool.
type ToolCall struct {
	Tool   string
	CallID string
	Args   json.RawMessage // nil when not captured
	Result json.RawMessage // nil when not captured; text results that hold JSON are parsed once, at ingest
	Status Status
	Error  string
	// Truncated is set when arguments or result were cut to the limit.
	Truncated bool
}

// LLMCall is one model call, or (Count > 1) the total of several that are known only together.
type LLMCall struct {
	Model        string
	Count        int32 // model calls that this record stands for, at least 1
	InputTokens  int64 // -1 when unknown
	OutputTokens int64 // -1 when unknown
	CachedTokens int64 // -1 when unknown; part of InputTokens
	CostUSD      float64
	HasCost      bool
}

// UserMessage is a turn of the user: a boundary for mining, and text in which flow inputs may be found.
type UserMessage struct {
	Text string // "" when content capture is off
}
