// Package governance keeps proposals, reviews, flows, tools, principals and the audit log in the state store,
// decides who may do what, and promotes. Every change of state is one transaction with its audit event.
package governance

import (
	"encoding/json"
	"time"

	"pave/analyzer"
	"pave/flows"
)

// State of a proposal.
type State string

const (
	StateProposed   State = "proposed"
	StateInReview   State = "in_review"
	StateChanges    State = "changes_requested"
	StateApproved   State = "approved"
	StatePromoted   State = "promoted"
	StateRejected   State = "rejected"
	StateWithdrawn  State = "withdrawn"
	StateSuperseded State = "superseded"
)

// Proposal is a candidate in the queue. Revision is the ETag; Digest is what approvals are for.
type Proposal struct {
	ID         string
	Tenant     string
	State      State
	Source     analyzer.Source
	PatternKey string
	Digest     string
	Revision   int64
	Flow       *flows.Flow
	Author     string // principal; MinerPrincipal for mined ones
	// Editors are the principals who changed the draft since; like the author they may not approve it.
	Editors   []string
	Evidence  analyzer.Evidence
	Savings   analyzer.Savings
	Safety    flows.SideEffects
	Unbound   []string
	Binders   map[string]string // of each unbound tool, what would bind it
	Warnings  []string
	Rank      int
	Score     float64
	CreatedAt time.Time
	UpdatedAt time.Time
	Reviews   []Review
	// Needs is how many approvals the policy wants; Approvals how many valid ones there are.
	Needs     int
	Approvals int
	// PromotedAs is "name@version" once promoted.
	PromotedAs string
	// Returned says what changed since a rejection, when the proposal came back.
	Returned string
	// Changed says what a later mining pass or an edit last changed in the draft, "" when nothing did.
	Changed string
	// Assignee is the principal who is to look at it, "" for nobody; Labels are free words. Neither is content.
	Assignee string
	Labels   []string
	// Closed says who took it out of the queue and why; nil while it is in it, and of promoted ones.
	Closed *Closing
	// Check is the newest replay check of the draft as it is now; nil when it was not checked.
	Check *ReplayCheck
	// Shadow is what the draft as it is now predicted on live sessions; nil until one came.
	Shadow *ShadowResult
	// Next is the version that a promotion would make, with its reasons; zero for closed ones and in lists.
	Next VersionBump
	// ToolHashes are the schema hashes of the draft's declared tools as the approvals (or the rejection) saw
	// them. Promotion refuses when one of them changed since.
	ToolHashes map[string]string
	// Reserved says who reads it now, so that others take another one; nil when nobody ever did.
	Reserved *Reservation
}

// Reservation is a claim on reading a proposal. It holds nobody up.
type Reservation struct {
	By    string
	Until time.Time
}

// Closing is the end of a proposal that was rejected, withdrawn or superseded.
type Closing struct {
	By     string
	Reason string
	At     time.Time
}

// Open says that the proposal is still in the queue.
func (p *Proposal) Open() bool {
	switch p.State {
	case StateProposed, StateInReview, StateChanges, StateApproved:
		return true
	}
	return false
}

// MinerPrincipal is the author of everything that mining proposes.
const MinerPrincipal = "service:miner"

// Sources beside those of the analyzer: SourceSubmitted is a flow that a person or a service of pave's users wrote,
// SourceExternal one of another generator. Both pass the same checks as mined ones.
const (
	SourceSubmitted analyzer.Source = "submitted"
	SourceExternal  analyzer.Source = "external"
)

// Verdict of a review.
type Verdict string

const (
	VerdictApprove        Verdict = "approve"
	VerdictReject         Verdict = "reject"
	VerdictRequestChanges Verdict = "request_changes"
)

// Feedback says what kind of change a reviewer requests.
type Feedback string

const (
	FeedbackMapping Feedback = "mapping_wrong"
	FeedbackSchema  Feedback = "schema_too_loose"
	FeedbackNoFlow  Feedback = "not_a_flow"
	FeedbackOther   Feedback = "other"
)

// Review is one principal's verdict on one digest. Feedback is that of a request for changes, else "".
type Review struct {
	ID        string
	Principal string
	Verdict   Verdict
	Feedback  Feedback
	Digest    string
	Comment   string
	Solo      bool // approved by its author under solo mode
	Dismissed bool // the digest changed since
	At        time.Time
}

// FlowVersion is a stored flow.
type FlowVersion struct {
	Flow       *flows.Flow
	Digest     string
	Status     flows.Status
	Active     bool    // the flow's active pointer names this version
	Rollout    Rollout // of the flow
	Revision   int64
	ProposalID string
	PromotedBy string
	CreatedAt  time.Time
	Savings    analyzer.Savings // from the proposal's evidence; reports multiply it by runs
	// Bump explains the version number; zero but in the answer of a promotion.
	Bump VersionBump
	// Reason is why the version has its status, "" while nothing changed it since the promotion.
	Reason string
	// StatusAt is since when it has the status; zero is since its promotion.
	StatusAt time.Time
	// Shadow is what it predicted where agents still walked its path themselves; nil in lists and until one did.
	Shadow *ShadowResult
}

// ToolVersion is a stored tool definition.
type ToolVersion struct {
	Tool             *flows.Tool
	Revision         int64
	SchemaHash       string
	DefinitionDigest string
	UpdatedBy        string
	UpdatedAt        time.Time
}

// Scope is a permission of an API key.
type Scope string

const (
	ScopeIngest  Scope = "ingest"
	ScopeRead    Scope = "read"
	ScopePropose Scope = "propose"
	ScopeReview  Scope = "review"
	ScopePromote Scope = "promote"
	ScopeRun     Scope = "run"
	ScopeWork    Scope = "work"
	ScopeAdmin   Scope = "admin"
)

// Actor is who does something: a principal with the scopes of the key it came with.
type Actor struct {
	Tenant    string
	Principal string // "person:alice", "service:ci", "local:root"
	Scopes    []Scope
	Key       string // prefix of the API key that it came with, "" for others
	Via       string // the admin who acts as Principal, "" for others
}

// APIKey is a stored key; the secret itself is shown once and only its SHA-256 is kept.
type APIKey struct {
	ID        string
	Prefix    string
	Principal string
	Scopes    []Scope
	CreatedAt time.Time
	ExpiresAt *time.Time
	LastUsed  *time.Time
	Revoked   bool
}

// AuditEvent is one row of the hash-chained audit log.
type AuditEvent struct {
	Seq     int64
	At      time.Time
	Actor   string
	Action  string // "proposal.approve", "flow.promote", ...
	Object  string // "proposal/<id>", "flow/<name>@<version>", ...
	Detail  json.RawMessage
	PrevSum string // hex SHA-256 of the event before
	Sum     string
}
