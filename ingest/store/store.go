// Package store is the contract of the event store: an append-only log of events, the sessions assembled from
// it, and finished flow runs. Two engines fulfil it (sqlite, clickhouse); storetest.Exercise is the one
// conformance suite that both pass.
//
// Decisions: rows are appended in arrival order and keep an origin known on arrival; sessions are assembled
// later from the bindings origin -> session; Append returns nil only when the events are durable on this
// machine's disk.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"pave/ingest"
)

// Errors of the contract, tested with errors.Is.
var (
	// ErrUnavailable: the engine cannot answer now (ClickHouse away); writes may still be accepted by a spool.
	ErrUnavailable = ingest.ErrStoreUnavailable
	// ErrFull: the spool or the disk has no room; the caller answers 503 with Retry-After.
	ErrFull = ingest.ErrStoreFull
	// ErrNotFound: no such session or run.
	ErrNotFound = errors.New("not found")
	// ErrCursor: the page cursor is not one of ours.
	ErrCursor = errors.New("bad cursor")
	// ErrInvalid: an event lacks what every stored event must carry (see CheckEvents).
	ErrInvalid = errors.New("invalid event")
)

// What is read of one session at most: its first events, this many and of this many bytes of payload together, but
// at least one. A session is assembled in memory, so one that never ends, such as a session id that every agent
// shares, would otherwise take all of it. What is beyond stays stored and is not assembled.
const (
	MaxSessionEvents = 50_000
	MaxSessionBytes  = 64 << 20
)

// SessionRoom counts down what may still be read of a session; the zero value is a whole one.
type SessionRoom struct{ events, bytes int }

// AtLimit reports whether a session of which these events were read may have more: the next event, as large as events can be,
// would not have been read.
func AtLimit(events []ingest.Event) bool {
	var room SessionRoom
	for i := range events {
		room.Take(&events[i])
	}
	largest := ingest.DefaultLimits()
	return room.events >= MaxSessionEvents || room.bytes > MaxSessionBytes-2*largest.Payload-largest.Text-largest.Record
}

// Take says whether the event is still within the limits. After the first that is not, none is.
func (r *SessionRoom) Take(e *ingest.Event) bool {
	size := len(e.Metadata)
	switch {
	case e.Call != nil:
		size += len(e.Call.Args) + len(e.Call.Result) + len(e.Call.Error)
	case e.User != nil:
		size += len(e.User.Text)
	}
	if r.events > 0 && (r.events >= MaxSessionEvents || r.bytes+size > MaxSessionBytes) {
		r.events = MaxSessionEvents
		return false
	}
	r.events, r.bytes = r.events+1, r.bytes+size
	return true
}

// Store is the event store. All methods are safe for concurrent use. Every call is for one tenant.
type Store interface {
	// Append makes the events durable, in order, all or nothing. It records for each event the binding of its
	// origin to its explicit session, if any, and marks the touched sessions dirty. Events must carry Origin,
	// Received and Identity. It does not look for duplicates. An empty batch is no error. The store keeps no
	// reference to the events. Errors: ErrInvalid, ErrFull, ErrUnavailable.
	Append(ctx context.Context, tenant string, events []ingest.Event) error

	// Dirty lists sessions that have events newer than their last PutSession and none received after quietSince
	// (zero: any), those whose newest event is oldest first, at most limit (positive). An event touches every
	// session its origin is bound to. A session is every explicit session id bound to an origin, and for origins
	// without any the origin itself ("trace:..." and so on). When a session id arrives for an origin that was
	// its own session until then, that old session is dirty too, and assembles to nothing.
	Dirty(ctx context.Context, tenant string, quietSince time.Time, limit int) ([]DirtySession, error)

	// Events calls fn once per session id with every stored event of every origin bound to that session, in
	// arrival order, copies and events of other sessions of a shared origin included, up to the limits of
	// SessionRoom. It stops at fn's error.
	// Sessions without events are skipped, such as an origin that has been bound since. The events belong to fn;
	// their times are in UTC.
	Events(ctx context.Context, tenant string, sessionIDs []string, fn func(sessionID string, events []ingest.Event) error) error

	// PutSessions replaces the rows derived from sessions (summary and sequences), in one transaction per call
	// where the engine has them, and clears their dirty mark up to DirtySession.Watermark: events that arrived
	// since keep the session dirty, whatever their Received says. A session whose summary has no calls, LLM calls
	// and user turns is removed. A row needs no stored events.
	PutSessions(ctx context.Context, tenant string, rows []SessionRow) error

	// Sequences calls fn with every assembled sequence that the filter takes, in a stable order. The slices of
	// the Sequence are valid until fn returns. Tool ids index the names that ToolNames returns afterwards. It stops
	// at fn's error.
	Sequences(ctx context.Context, tenant string, filter SequenceFilter, fn func(*ingest.Sequence) error) error

	// ToolNames returns the tool dictionary: index = id. It only grows.
	ToolNames(ctx context.Context, tenant string) ([]string, error)

	// Sessions lists summaries, newest start first (equal starts in an order of the engine that does not change),
	// those without a start last. The time filter works as in SequenceFilter. Rows that are added while a caller pages
	// neither repeat nor hide others.
	Sessions(ctx context.Context, tenant string, filter SessionFilter) (Page[ingest.SessionSummary], error)

	// PutRun stores a finished flow run; the same run id again replaces it.
	PutRun(ctx context.Context, tenant string, run Run) error
	// Runs lists finished flow runs, newest start first, paged as Sessions.
	Runs(ctx context.Context, tenant string, filter RunFilter) (Page[Run], error)
	// RunStats sums finished runs per flow name and version, ordered by both, whose start is in [from, to); zero
	// times leave a side open. The sums of what was avoided are taken over all runs.
	RunStats(ctx context.Context, tenant string, from, to time.Time) ([]RunStat, error)

	Tallies
	Series
	Deleter

	// Stats counts what is stored.
	Stats(ctx context.Context, tenant string) (Stats, error)
	// Ping answers nil when reads work.
	Ping(ctx context.Context) error
	// Close releases everything; again is no error. Other methods answer an error afterwards.
	Close() error
}

// DirtySession is a session to assemble. Watermark is opaque to the caller and goes back in PutSessions.
type DirtySession struct {
	ID        string
	Watermark int64
}

// SessionRow is what assembly derives from one session. Sequences refer to tools by name here; the store
// interns them.
type SessionRow struct {
	ID        string
	Watermark int64
	Summary   ingest.SessionSummary
	Sequences []NamedSequence
}

// NamedSequence is a Sequence before interning.
type NamedSequence struct {
	RunIndex int
	Agent    string
	Start    time.Time
	Tools    []string
	Turns    []int32
	Flags    []ingest.CallFlag
}

// SequenceFilter selects sequences by the time of their first call, [From, To); zero leaves a side open, and
// sequences without a time are taken only when both sides are open.
type SequenceFilter struct {
	From, To time.Time
	Agent    string
	// OfDay, when not nil, takes the sequences of the sessions of this day (see Tallies); whatever their own times.
	OfDay *int32
	// ToDay, with OfDay, takes those of all days from OfDay to this one.
	ToDay *int32
}

// SessionFilter selects and pages sessions. Limit 0 means 50; Cursor is a previous page's Next.
type SessionFilter struct {
	From, To time.Time
	Agent    string
	Tool     string // sessions that called this tool
	Limit    int
	Cursor   string
}

// Page is one page of a list; Next is "" on the last.
type Page[T any] struct {
	Items []T
	Next  string
}

// Run is a finished flow run as reports and lists read it; Result is the whole redacted result record.
type Run struct {
	ID        string
	Flow      string
	Version   string
	Status    string // succeeded, failed, handed_back, denied, cancelled
	Caller    string // principal
	Start     time.Time
	Duration  time.Duration
	Steps     int // records in the log
	StepsDone int // finished steps: neither failed nor skipped
	ErrorCode string
	Result    json.RawMessage
	// LLMCallsAvoided and the others are the measured averages of the replaced stretches, taken from the
	// flow's evidence when the run ended; zero for runs that saved nothing.
	LLMCallsAvoided float64
	TokensAvoided   float64
	CostAvoidedUSD  float64
	LatencyAvoided  time.Duration
}

// RunFilter selects and pages runs. Limit 0 means 50.
type RunFilter struct {
	Flow   string
	Status string
	Limit  int
	Cursor string
	ID     string // exactly this run
}

// RunStat sums the runs of one flow version.
type RunStat struct {
	Flow, Version           string
	Runs, Succeeded, Failed int64
	HandedBack, Denied      int64
	StepsDone               int64
	SumDuration             time.Duration
	LLMCallsAvoided         float64
	TokensAvoided           float64
	CostAvoidedUSD          float64
	LatencyAvoided          time.Duration
}

// Stats counts events as stored (copies included) and assembled sessions and calls (copies collapsed).
type Stats struct {
	Events        int64
	ToolCallRows  int64
	Sessions      int64
	ToolCalls     int64 // in assembled sessions
	LLMCalls      int64
	Runs          int64
	DirtySessions int64
	SpoolRows     int64 // acknowledged, not yet in the engine
	Bytes         int64 // on disk, where the engine can tell
}
