package ingest

import (
	"encoding/json"
	"time"
)

// Session is one assembled conversation or task of an agent: duplicates collapsed, calls in order. It is what
// data-flow inference, replay and people read. Assemble makes it from events.
type Session struct {
	Tenant string
	ID     string
	// Runs are the agent runs of the session in order of their first call; a nested agent has its own run.
	Runs []AgentRun
	// Conflicts counts copies of one call that differed in content.
	Conflicts int
	// Ended is set when a session_end was seen.
	Ended bool
	// AtLimit is set when no more of the session was read than may be: it may have gone on.
	AtLimit bool
}

// AgentRun is one agent's part of a session.
type AgentRun struct {
	ID         string // "" when the source has none
	Agent      string
	ParentCall string // identity of the call that started a nested agent
	Calls      []Call
	LLM        []LLMStep
	Users      []UserTurn
}

// Call is an assembled tool call. Seq is its position in the run, Turn the assistant turn that issued it.
type Call struct {
	Seq      int
	Turn     int32
	Flags    CallFlag
	Start    time.Time
	Duration time.Duration
	Source   string
	Origin   OriginKind
	Identity string
	TraceID  string
	SpanID   string
	Metadata json.RawMessage // what the record had beside the known fields; nil when nothing
	ToolCall
}

// LLMStep is an assembled model call; Turn is the assistant turn it produced, -1 when it stands for the whole run.
type LLMStep struct {
	Turn     int32
	Start    time.Time
	Duration time.Duration
	LLMCall
}

// UserTurn is a user message before the call with index Before (len(Calls) when it came last).
type UserTurn struct {
	Before int
	Text   string
}

// CallFlag marks a call in a sequence.
type CallFlag uint8

const (
	// FlagBreak: a stretch starts at this call (first of the run, after a user message, a text answer, a reset
	// or a gap of more than the limit). Mining never crosses it.
	FlagBreak CallFlag = 1 << iota
	// FlagError: the call failed.
	FlagError
	// FlagRepeat: same tool and canonically equal arguments as the call before it in the same stretch.
	FlagRepeat
	// FlagParallel: issued by the same assistant turn as the call before it (one wave).
	FlagParallel
	// FlagNotAgent: a step of a flow run or a call of a flow; mining skips it and breaks there.
	FlagNotAgent
	// FlagRequested: seen in a message only.
	FlagRequested
)

// Sequence is the compact row that mining reads: one agent run as arrays of equal length. Tools holds ids of
// the store's tool dictionary.
type Sequence struct {
	SessionID string
	RunIndex  int // position in Session.Runs
	Agent     string
	Start     time.Time // of the first call; zero when unknown
	Tools     []uint32
	Turns     []int32
	Flags     []CallFlag
}

// LLMUsage sums the model calls of a session. Unknown parts are counted so that reports can say so.
type LLMUsage struct {
	Calls             int64
	InputTokens       int64
	OutputTokens      int64
	CachedTokens      int64
	CallsWithTokens   int64 // calls whose tokens are known
	CostUSD           float64
	CallsWithCost     int64
	Duration          time.Duration
	CallsWithDuration int64
}

// SessionSummary is a row of the session list.
type SessionSummary struct {
	ID        string
	Agents    []string
	Start     time.Time
	End       time.Time
	ToolCalls int
	Errors    int
	Repeats   int
	UserTurns int
	Conflicts int
	LLM       LLMUsage
	Sources   []string
}
