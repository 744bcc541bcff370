package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"pave/analyzer"
	"pave/executor"
	"pave/executor/bind/worker"
	"pave/flows"
	"pave/flows/diff"
	"pave/flows/export"
	"pave/governance"
	"pave/governance/loop"
	"pave/governance/runs"
	statestore "pave/governance/store"
	"pave/ingest"
	"pave/ingest/assembly"
	"pave/ingest/deadletter"
	"pave/ingest/otlp"
	"pave/ingest/store"
	"pave/observer"
)

// Deps are the parts of the domain that the API speaks for. All fields but Losses and Rates are required.
type Deps struct {
	Recorder    Recorder
	Sessions    Sessions
	Proposals   Proposals
	Discuss     Discussion
	Flows       Flows
	Tools       Tools
	Runs        Runs
	Workers     Workers
	Discovery   Discovery
	MCP         MCP
	Mining      Mining
	Passes      Passes
	Keys        Keys
	Webhooks    Webhooks
	Once        Once
	Admin       Admin
	Reports     Reports
	Walks       Walks
	Status      Status
	OTLP        OTLP
	DeadLetters DeadLetters
	Deletions   Deletions
	Redaction   Redaction
	Losses      *Losses             // what could not be used; nil takes a new one
	Rates       *ingest.RateLimiter // of the JSON API; nil is no limit
}

// DeadLetters are the telemetry requests that could not be read.
type DeadLetters interface {
	// Count is how many are kept.
	Count() int
	// List returns up to limit letters after the id, oldest first, without their bodies.
	List(tenant, after string, limit int) ([]deadletter.Letter, error)
	// Retry takes a letter as if it were sent now, and removes it when that went well.
	Retry(ctx context.Context, tenant, id string) (otlp.Stats, error)
	Delete(tenant, id string) error
}

// Deletions removes what was recorded.
type Deletions interface {
	DeleteSessions(ctx context.Context, actor governance.Actor, req governance.DeletionRequest) (*governance.DeletionReceipt, error)
}

// Redaction shows what is hidden before anything is stored.
type Redaction interface {
	Preview(raw json.RawMessage) ingest.RedactionPreview
}

// OTLP are the receivers of the protocol's three signals. They check and inflate bodies themselves.
type OTLP struct {
	Traces, Logs, Metrics http.Handler
}

// Recorder makes events durable; it answers after the commit.
type Recorder interface {
	Record(ctx context.Context, tenant string, events []ingest.Event) (ingest.Receipt, error)
	// Room refuses, before a request is read, what cannot be taken now whatever it is.
	Room() error
}

// Sessions reads assembled sessions and assembles open ones.
type Sessions interface {
	// List pages summaries, newest first.
	List(ctx context.Context, tenant string, filter store.SessionFilter) (store.Page[ingest.SessionSummary], error)
	// Get calls fn for each session that exists.
	Get(ctx context.Context, tenant string, ids []string, fn func(*ingest.Session) error) error
	// Calls pages tool calls over sessions.
	Calls(ctx context.Context, tenant string, filter assembly.CallFilter) (store.Page[assembly.ListedCall], error)
	// Assemble brings every session up to date, without a quiet period, and returns how many it wrote.
	Assemble(ctx context.Context, tenant string) (int, error)
}

// Proposals is the queue.
type Proposals interface {
	Proposals(ctx context.Context, actor governance.Actor, f governance.ProposalFilter) (statestore.Page[governance.Proposal], error)
	Proposal(ctx context.Context, actor governance.Actor, ref string) (*governance.Proposal, error)
	Submit(ctx context.Context, actor governance.Actor, flow *flows.Flow) (*governance.Proposal, error)
	SubmitExternal(ctx context.Context, actor governance.Actor, flow *flows.Flow) (*governance.Proposal, error)
	Edit(ctx context.Context, actor governance.Actor, ref string, req governance.EditRequest) (*governance.Proposal, error)
	Review(ctx context.Context, actor governance.Actor, ref string, req governance.ReviewRequest) (*governance.Proposal, error)
	Withdraw(ctx context.Context, actor governance.Actor, ref, reason string, ifRevision int64) (*governance.Proposal, error)
	Promote(ctx context.Context, actor governance.Actor, ref string, req governance.PromoteRequest) (*governance.FlowVersion, error)
	BulkReject(ctx context.Context, actor governance.Actor, items []governance.BulkItem, reason string) ([]governance.BulkOutcome, error)
	Rejections(ctx context.Context, actor governance.Actor, limit int) ([]governance.Rejection, error)
	Reserve(ctx context.Context, actor governance.Actor, ref string) (*governance.Proposal, error)
	Release(ctx context.Context, actor governance.Actor, ref string) (*governance.Proposal, error)
}

// Discussion is what reviewers say and find out about a proposal.
type Discussion interface {
	Comments(ctx context.Context, actor governance.Actor, ref string) ([]governance.Comment, error)
	Comment(ctx context.Context, actor governance.Actor, ref string, req governance.CommentRequest) (*governance.Comment, error)
	Diff(ctx context.Context, actor governance.Actor, ref, against string) (*diff.Diff, error)
	ReplayCheck(ctx context.Context, actor governance.Actor, ref string) (*governance.ReplayCheck, error)
	CheckReplay(ctx context.Context, actor governance.Actor, ref string, limit int) (*governance.ReplayCheck, error)
	// TryReplay checks another draft in the place of the proposal's and keeps nothing.
	TryReplay(ctx context.Context, actor governance.Actor, ref string, draft *flows.Flow, limit int) (*governance.ReplayCheck, error)
}

// Flows reads flow versions and opens or closes their gate.
type Flows interface {
	Flows(ctx context.Context, actor governance.Actor) ([]governance.FlowVersion, error)
	Flow(ctx context.Context, actor governance.Actor, name, version string) (*governance.FlowVersion, error)
	SetFlowStatus(ctx context.Context, actor governance.Actor, name, version string, req governance.StatusRequest) (*governance.FlowVersion, error)
	Rollback(ctx context.Context, actor governance.Actor, name string, req governance.RollbackRequest) (*governance.FlowVersion, error)
	SetRollout(ctx context.Context, actor governance.Actor, name string, req governance.RolloutRequest) (*governance.FlowVersion, error)
	FlowTests(ctx context.Context, actor governance.Actor, name, version string) (*governance.FlowVersion, []governance.GoldenTest, []*flows.Tool, error)
}

// Tools is the tool catalogue.
type Tools interface {
	Tools(ctx context.Context, actor governance.Actor) ([]governance.ToolVersion, error)
	Tool(ctx context.Context, actor governance.Actor, name string) (*governance.ToolVersion, error)
	ApplyTools(ctx context.Context, actor governance.Actor, tools []*flows.Tool) (governance.ApplyReport, error)
	ApplyTool(ctx context.Context, actor governance.Actor, tool *flows.Tool, ifRevision int64) (governance.ApplyReport, error)
	ApplyToolFile(ctx context.Context, actor governance.Actor, file *flows.ToolFile) (governance.ApplyReport, error)
	ToolVersions(ctx context.Context, actor governance.Actor, name string) ([]governance.ToolVersion, error)
	ToolDrift(ctx context.Context, actor governance.Actor, name string) (d *diff.ToolDiff, against string, err error)
	PinTool(ctx context.Context, actor governance.Actor, name string, req governance.PinRequest) (governance.ApplyReport, error)
	MCPServers(ctx context.Context, actor governance.Actor) ([]governance.MCPServer, error)
	Compatibility(ctx context.Context, actor governance.Actor, tool string) (*governance.Compatible, error)
	Chains(ctx context.Context, actor governance.Actor, q analyzer.ChainQuery) (chains []analyzer.Chain, of string, err error)
	Schemas(ctx context.Context, actor governance.Actor) ([]governance.Schema, error)
	Schema(ctx context.Context, actor governance.Actor, name string) (*governance.Schema, error)
	PutSchema(ctx context.Context, actor governance.Actor, name string, schema flows.RawSchema, ifRevision int64) (*governance.Schema, error)
}

// Runs runs flows.
type Runs interface {
	Run(ctx context.Context, actor governance.Actor, req runs.Request) (*runs.Run, error)
	Get(ctx context.Context, actor governance.Actor, id string) (*runs.Run, error)
	List(ctx context.Context, actor governance.Actor, f runs.Filter) (statestore.Page[runs.Run], error)
	Lesson(ctx context.Context, actor governance.Actor, id string) (*runs.Lesson, error)
	// Decide, Resume and Cancel change a run that waits, was interrupted or goes on; Events reads it as it goes on.
	Decide(ctx context.Context, actor governance.Actor, id string, req runs.DecisionRequest) (*runs.Run, error)
	Resume(ctx context.Context, actor governance.Actor, id string, req runs.ResumeRequest) (*runs.Run, error)
	Cancel(ctx context.Context, actor governance.Actor, id string) (*runs.Run, error)
	Events(ctx context.Context, actor governance.Actor, id string, after int64) (*runs.Reader, error)
	// Replay runs a stored run again and compares.
	Replay(ctx context.Context, actor governance.Actor, id string, req runs.ReplayRequest) (*executor.ReplayReport, error)
	Profile(ctx context.Context, actor governance.Actor, name, version string) (*runs.Profile, error)
	// Compile checks a flow against what is registered; the others describe registered flows.
	Compile(ctx context.Context, actor governance.Actor, flow *flows.Flow) (*runs.Compiled, error)
	Explain(ctx context.Context, actor governance.Actor, name, version string) (*executor.Explanation, error)
	Export(ctx context.Context, actor governance.Actor, name, version string, target export.Target, as string) (json.RawMessage, error)
	Capabilities(ctx context.Context, actor governance.Actor) ([]runs.Capability, error)
	Offers(ctx context.Context, actor governance.Actor) ([]runs.Offer, error)
}

// MCP is the face of flows as tools of the Model Context Protocol.
type MCP interface {
	// Admit holds a caller to a rate.
	Admit(actor governance.Actor) error
	// Denied keeps a refusal; actor is empty when nobody was authenticated.
	Denied(actor governance.Actor, err error)
	ServeHTTP(w http.ResponseWriter, r *http.Request, actor governance.Actor)
}

// Discovery asks MCP servers for their tools.
type Discovery interface {
	Discover(ctx context.Context, actor governance.Actor, server string) ([]governance.DiscoveredTool, error)
}

// Workers are the pools of tools that live in other processes.
type Workers interface {
	Poll(ctx context.Context, req worker.Poll) (*worker.Call, error)
	// Undelivered takes back a call whose answer could not be sent.
	Undelivered(id string)
	Heartbeat(id, owner string) (until time.Time, cancelled bool, err error)
	Complete(id, owner string, result any) error
	Fail(id, owner string, failure executor.ToolError) error
	Stats() []worker.PoolStats
}

// Mining starts passes and reads them.
type Mining interface {
	// MineOnce mines to the end.
	MineOnce(ctx context.Context, actor governance.Actor, req governance.MiningRequest) (*governance.MiningRun, error)
	// Begin starts a pass that goes on after the request and returns its first state.
	Begin(ctx context.Context, actor governance.Actor, req governance.MiningRequest) (*governance.MiningRun, error)
	// Status tells how the loop stands.
	Status() loop.Status
	// Follow reads the events of a pass behind one of them, 0 for all.
	Follow(ctx context.Context, actor governance.Actor, id string, after int64) (*loop.Follower, error)
	// Explain says why a path is or is not proposed.
	Explain(ctx context.Context, actor governance.Actor, tools []string) (*loop.Explanation, error)
}

// Passes reads mining passes.
type Passes interface {
	// MiningRun reads a pass; id "" is the newest that is done.
	MiningRun(ctx context.Context, actor governance.Actor, id string) (*governance.MiningRun, error)
	MiningRuns(ctx context.Context, actor governance.Actor, limit int, cursor string) (statestore.Page[governance.MiningRun], error)
}

// Keys is authentication.
type Keys interface {
	Authenticate(ctx context.Context, secret string) (governance.Actor, error)
	Keys(ctx context.Context, actor governance.Actor) ([]governance.APIKey, error)
	CreateKey(ctx context.Context, actor governance.Actor, req governance.KeyRequest) (governance.APIKey, string, error)
	RevokeKey(ctx context.Context, actor governance.Actor, id string) error
	RotateKey(ctx context.Context, actor governance.Actor, id string, grace time.Duration) (governance.APIKey, string, error)
}

// Webhooks is the outbox's subscriptions.
type Webhooks interface {
	Webhooks(ctx context.Context, actor governance.Actor) ([]governance.Webhook, error)
	Webhook(ctx context.Context, actor governance.Actor, id string) (*governance.Webhook, error)
	CreateWebhook(ctx context.Context, actor governance.Actor, req governance.WebhookRequest) (*governance.Webhook, string, error)
	UpdateWebhook(ctx context.Context, actor governance.Actor, id string, req governance.WebhookRequest) (*governance.Webhook, error)
	DeleteWebhook(ctx context.Context, actor governance.Actor, id string, ifRevision int64) error
	Deliveries(ctx context.Context, actor governance.Actor, id string, limit int, cursor string) (statestore.Page[governance.Delivery], error)
	TestWebhook(ctx context.Context, actor governance.Actor, id string) (governance.Delivery, error)
	Redeliver(ctx context.Context, actor governance.Actor, webhook, id string) (governance.Delivery, error)
}

// Admin is the policy and the audit log.
type Admin interface {
	Policy(ctx context.Context, actor governance.Actor) (governance.Policy, int64, error)
	SetPolicy(ctx context.Context, actor governance.Actor, policy governance.Policy, ifRevision int64) error
	Audit(ctx context.Context, actor governance.Actor, after int64, limit int) ([]governance.AuditEvent, error)
	AuditBefore(ctx context.Context, actor governance.Actor, before int64, limit int) ([]governance.AuditEvent, error)
	VerifyAudit(ctx context.Context, actor governance.Actor) (int64, error)
	ExportAudit(ctx context.Context, actor governance.Actor, w io.Writer) error
	Usage(ctx context.Context, actor governance.Actor, from, to time.Time) ([]governance.Usage, error)
}

// Reports computes reports.
type Reports interface {
	Savings(ctx context.Context, actor governance.Actor, from, to time.Time) (*governance.SavingsReport, error)
	Report(ctx context.Context, actor governance.Actor, kind governance.ReportKind, from, to time.Time) (*governance.Report, error)
}

// Walks surveys where agents walk.
type Walks interface {
	Survey(ctx context.Context, tenant string, filter store.SequenceFilter) (*observer.Survey, error)
	Activity(ctx context.Context, tenant string, filter store.SequenceFilter) (*observer.Activity, error)
}

// Status tells how the process stands.
type Status interface {
	// Ready lists what keeps the service from its work; none means ready.
	Ready(ctx context.Context) []string
	Stats(ctx context.Context) (store.Stats, error)
	// Retention is how long sessions are kept after their start; 0 is for ever.
	Retention() time.Duration
}
