package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"pave/executor"
	"pave/flows"
	"pave/flows/value"
	"pave/governance"
	"pave/governance/store"
	"pave/ingest"
	eventstore "pave/ingest/store"
)

// Gate says whether a flow may run now, and by which policy calls are approved; governance.Service is one.
type Gate interface {
	Admit(ctx context.Context, actor governance.Actor, name, version string) (*governance.Admission, error)
	// AdmitCaller is Admit of a caller who names no version.
	AdmitCaller(ctx context.Context, actor governance.Actor, name, caller string) (*governance.Admission, error)
	// Readmit is Admit of a run that goes on, with the versions of called flows that it began with, by name.
	Readmit(ctx context.Context, actor governance.Actor, name, version string, called map[string]string, forced bool) (*governance.Admission, error)
	// AdmitForced is Admit of a version that need not be active, for who may open its gate.
	AdmitForced(ctx context.Context, actor governance.Actor, name, version string) (*governance.Admission, error)
	Policy(ctx context.Context, actor governance.Actor) (policy governance.Policy, revision int64, err error)
}

// Archive keeps finished runs for reports; an event store is one.
type Archive interface {
	PutRun(ctx context.Context, tenant string, run eventstore.Run) error
}

// Recorder makes the tool calls of runs durable; ingest.Recorder is one.
type Recorder interface {
	Record(ctx context.Context, tenant string, events []ingest.Event) (ingest.Receipt, error)
}

// Outbox tells webhooks of runs that failed; governance.Service is one.
type Outbox interface {
	RunFailed(tx *store.Tx, tenant string, run governance.FailedRun) error
}

// Limits of the service.
const (
	DefaultMaxConcurrent   = 1024
	DefaultMaxPerPrincipal = 256
	idempotencyAge         = 24 * time.Hour
	maxPlans               = 512
)

// Options are the seams of a Service. Gate, Catalogue, Store, Engine.Invoker and Engine.NewID are required.
type Options struct {
	Gate      Gate
	Catalogue Catalogue
	Store     *store.DB
	// Engine configures the engine that the service builds; its NewID makes run and trace ids, its Now defaults to
	// time.Now. The service sets Approver and Checkpoints.
	Engine   executor.Options
	Outbox   Outbox          // nil: nobody is told of runs that fail
	Archive  Archive         // nil: runs stay in the state store only
	Exporter Exporter        // nil: runs are not exported as telemetry
	Recorder Recorder        // nil: executed steps are not recorded as tool calls
	Redactor ingest.Redactor // of stored results; nil makes one with a key of this process
	Vault    *Vault          // seals checkpoints; nil makes one with a key of this process, which no other can open
	// MaxConcurrent runs at a time, more are refused with CodeFull; 0 means DefaultMaxConcurrent.
	MaxConcurrent int
	// MaxPerPrincipal runs of one principal at a time, more are refused with CodeRateLimited; 0 means
	// DefaultMaxPerPrincipal.
	MaxPerPrincipal int
	// ApprovalExpiry is how long a run waits for an approval; 0 means DefaultApprovalExpiry.
	ApprovalExpiry time.Duration
	// KeepCheckpoints keeps the checkpoints of failed and cancelled runs for this time, so that they can be resumed; 0
	// deletes every checkpoint when its run ends.
	KeepCheckpoints time.Duration
	Logger          *slog.Logger // nil discards
}

// Service runs flows. It is safe for concurrent use. A run lives on the goroutine of its caller or, when it is detached,
// resumed or goes on after an approval, on one of the service's, which Close ends.
type Service struct {
	gate            Gate
	catalogue       Catalogue
	db              *store.DB
	engine          *executor.Engine
	outbox          Outbox
	archive         Archive
	exporter        Exporter
	recorder        Recorder
	redactor        ingest.Redactor
	vault           *Vault
	slots           chan struct{}
	maxPerPrincipal int
	approvalExpiry  time.Duration
	keepCheckpoints time.Duration
	log             *slog.Logger
	now             func() time.Time
	newID           func() string

	base       context.Context // of the runs on goroutines of the service
	stop       context.CancelCauseFunc
	background sync.WaitGroup

	mu      sync.Mutex
	plans   map[string]*executor.Plan // by admission key
	live    map[string]*live          // by run
	running map[caller]int            // slots taken
	feeds   map[string]*feed          // of runs that go on, or that somebody reads
	params  map[string]map[string]any // dynamic, of runs that wait
	sent    []sentRun                 // archived, not yet marked so
	backlog bool                      // a finished run could not be archived
}

// New builds a Service; Close it.
func New(o Options) *Service {
	s := &Service{gate: o.Gate, catalogue: o.Catalogue, db: o.Store, outbox: o.Outbox, archive: o.Archive, exporter: o.Exporter, recorder: o.Recorder, redactor: o.Redactor, vault: o.Vault,
		approvalExpiry: cmp.Or(o.ApprovalExpiry, DefaultApprovalExpiry), keepCheckpoints: o.KeepCheckpoints, log: o.Logger,
		now: o.Engine.Now, newID: o.Engine.NewID, maxPerPrincipal: cmp.Or(max(0, o.MaxPerPrincipal), DefaultMaxPerPrincipal), running: map[caller]int{}, plans: map[string]*executor.Plan{}, live: map[string]*live{}, feeds: map[string]*feed{},
		params: map[string]map[string]any{}}
	s.base, s.stop = context.WithCancelCause(context.Background())
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.redactor == nil {
		s.redactor = ingest.NewKeyRedactor(nil)
	}
	if s.vault == nil {
		s.vault = newProcessVault()
	}
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = DefaultMaxConcurrent
	}
	s.slots = make(chan struct{}, o.MaxConcurrent)
	engine := o.Engine
	engine.Now = s.now
	engine.Invoker = &watcher{next: engine.Invoker, now: s.now}
	engine.Approver, engine.Checkpoints = approver{s}, checkpointer{s}
	if engine.Decider != nil {
		engine.Decider = &discreet{s: s, next: engine.Decider}
	}
	s.engine = executor.New(engine)
	return s
}

// Request asks for one run. Version "" takes the one that the flow's rollout gives the caller, see Request.party. The same IdempotencyKey of the same
// principal within 24 hours gives the first run again instead of a second one.
type Request struct {
	Flow    string
	Version string
	Input   map[string]any
	// SessionID is the caller's conversation, as the caller names it; "" when it is not known.
	SessionID string
	// Force runs Version although it may not be active; see governance.Service.AdmitForced. The audit log has it.
	Force bool
	// DynamicParams are values beside the input, secrets as a rule: mappings see them as context keys. They are in the
	// final output that the caller gets and nowhere else.
	DynamicParams  map[string]any
	IdempotencyKey string
	// TraceID continues the caller's trace, 32 hex digits; "" begins one. ParentSpanID is the caller's span in it, 16 hex
	// digits, "" when it is not known.
	TraceID, ParentSpanID string
	DryRun                bool
	// DryRunUnsupported is what a dry run does with a tool that it may not call: executor.DryRunSkip ("") or DryRunAbort.
	DryRunUnsupported string
	// Detach lets the run go on when the caller goes. Run answers at its end, and after Wait as it stands.
	Detach bool
	Wait   time.Duration
	// OnEvent receives the run's events in order, on the run's goroutine; it must return soon. A run that an idempotency
	// key gives again has none.
	OnEvent func(executor.Event)
}

// hash names the request. Params are named by a keyed hash, which does not give them away.
func (s *Service) hash(r *Request) string {
	body := map[string]any{"flow": r.Flow, "version": r.Version, "input": r.Input, "dry_run": r.DryRun}
	if len(r.DynamicParams) > 0 {
		body["dynamic_params"] = hex.EncodeToString(s.vault.mac(value.Canonical(r.DynamicParams)))
	}
	if r.SessionID != "" {
		body["session_id"] = r.SessionID
	}
	if r.Force {
		body["force"] = true
	}
	sum := sha256.Sum256(value.Canonical(body))
	return hex.EncodeToString(sum[:])
}

// party names whom the request is from, so that a flow which is being rolled out serves a conversation with one version:
// the session, else the trace, else, for requests that belong to nothing, the idempotency key, else the principal.
func (r *Request) party(actor governance.Actor) string {
	switch {
	case r.SessionID != "":
		return "session " + r.SessionID
	case r.TraceID != "":
		return "trace " + r.TraceID
	case r.IdempotencyKey != "":
		return "request " + actor.Principal + " " + r.IdempotencyKey
	}
	return "principal " + actor.Principal
}

const operation = "run"

// Run executes a flow and returns when it ended or waits for approvals. A flow that fails, is handed back or is cancelled
// by ctx is a result; an error means that it did not start, and carries its code: not_found, forbidden, invalid,
// flow_not_active, outside_rollout, tool_drift, unbound_tools, compile_failed, full, rate_limited, idempotency_reuse, in_progress.
func (s *Service) Run(ctx context.Context, actor governance.Actor, req Request) (*Run, error) {
	if err := governance.Permit(actor, governance.ActionRun); err != nil {
		return nil, err
	}
	if err := (&executor.RunInput{DryRunUnsupported: req.DryRunUnsupported}).Check(); err != nil {
		return nil, err
	}
	if run, err := s.earlier(ctx, actor, &req); run != nil || err != nil {
		return run, err
	}
	admission, err := s.admit(ctx, actor, &req)
	if err != nil {
		return nil, err
	}
	plan, err := s.plan(admission)
	if err != nil {
		return nil, err
	}
	if err := s.enter(actor, s.maxPerPrincipal); err != nil {
		return nil, err
	}
	run := &Run{ID: s.newID(), Flow: admission.Version.Flow.Name, Version: admission.Version.Flow.Version, State: StateRunning,
		Caller: actor.Principal, DryRun: req.DryRun, Started: s.now().UTC(), Revision: 1}
	l := &live{tenant: tenant(actor), actor: actor, run: run, admission: admission, plan: plan, params: req.DynamicParams, careful: careful(admission),
		log: &callLog{}, done: make(chan struct{})}
	in := begun{TraceID: cmp.Or(req.TraceID, s.newID()), ParentSpanID: req.ParentSpanID, Unsupported: req.DryRunUnsupported, Plan: admission.Key, Called: calledAs(admission), Forced: req.Force, Params: slices.Sorted(maps.Keys(req.DynamicParams))}
	if first, err := s.begin(ctx, &req, l, in); first != nil || err != nil {
		s.leave(actor)
		return first, err
	}
	l.feed, l.begun = s.hold(run.ID, 0), &in
	start := func(ctx context.Context) (*executor.RunResult, error) {
		input := s.input(l, req.OnEvent)
		input.Input, input.TraceID, input.DryRunUnsupported = req.Input, in.TraceID, req.DryRunUnsupported
		return s.engine.Run(ctx, plan, input), nil
	}
	if req.Detach {
		s.detach(l, start)
		return s.await(ctx, l, req.Wait)
	}
	defer s.leave(actor)
	s.execute(ctx, l, start)
	return run, nil
}

// admit takes the version that the request names or forces, else the one that serves its caller.
func (s *Service) admit(ctx context.Context, actor governance.Actor, req *Request) (*governance.Admission, error) {
	if req.Force {
		return s.gate.AdmitForced(ctx, actor, req.Flow, req.Version)
	}
	if req.Version != "" {
		return s.gate.Admit(ctx, actor, req.Flow, req.Version)
	}
	return s.gate.AdmitCaller(ctx, actor, req.Flow, req.party(actor))
}

// RunFlow runs a flow within a run, for tools that call flows, in the version that steps get, and returns its final output. It
// may do what the run's caller may; its tool calls are recorded with the run, which has the only record of it.
func (s *Service) RunFlow(ctx context.Context, name string, input map[string]any) (map[string]any, error) {
	l := liveOf(ctx)
	if l == nil {
		return nil, fmt.Errorf("flow %s was called outside of a run", name)
	}
	admission, err := s.gate.Admit(ctx, l.actor, name, "")
	if err != nil {
		return nil, err
	}
	plan, err := s.plan(admission)
	if err != nil {
		return nil, err
	}
	result := s.engine.Run(ctx, plan, executor.RunInput{Input: input, CacheScope: l.tenant})
	if result.Success {
		return result.FinalOutput, nil
	}
	for i := range result.ExecutionLog {
		if m := result.ExecutionLog[i].ErrorMessage; m != nil && !result.ExecutionLog[i].Success {
			return nil, errors.New(*m)
		}
	}
	return nil, fmt.Errorf("flow %s: %s", name, result.Status)
}

func tenant(actor governance.Actor) string {
	if actor.Tenant == "" {
		return ingest.DefaultTenant
	}
	return actor.Tenant
}

// earlier answers a request whose idempotency key was used before; nil, nil when it was not.
func (s *Service) earlier(ctx context.Context, actor governance.Actor, req *Request) (*Run, error) {
	if req.IdempotencyKey == "" {
		return nil, nil
	}
	var run *Run
	err := s.db.View(ctx, func(r *store.Reader) error {
		row, err := r.Claimed(tenant(actor), actor.Principal, operation, req.IdempotencyKey, s.now().Add(-idempotencyAge))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			run, err = s.replay(r, tenant(actor), req, row)
		}
		return err
	})
	return run, err
}

// replay is the run that a used key made.
func (s *Service) replay(r *store.Reader, tenant string, req *Request, row store.IdempotencyRow) (*Run, error) {
	if row.BodyHash != s.hash(req) {
		return nil, flows.NewError(flows.CodeIdempotencyReuse, "this Idempotency-Key was used with another request; take a new key")
	}
	kept, err := r.Run(tenant, row.Object)
	if err != nil {
		return nil, fmt.Errorf("run of idempotency key: %w", err)
	}
	if kept.State == StateRunning {
		return nil, flows.NewError(flows.CodeInProgress, "the first request with this Idempotency-Key is still running; ask for run "+kept.ID)
	}
	run, err := fromRow(kept, true)
	if err != nil {
		return nil, err
	}
	run.Replayed = true
	if run.Continuation, err = continuationIn(r, tenant, run); err != nil {
		return nil, err
	}
	run.Approvals, err = approvalsIn(r, tenant, run.ID)
	return run, err
}

// begin writes the run before it starts. When another request with the same key came first, its run is returned.
func (s *Service) begin(ctx context.Context, req *Request, l *live, how begun) (first *Run, err error) {
	run := l.run
	raw, err := json.Marshal(body{})
	if err != nil {
		return nil, fmt.Errorf("encode run: %w", err)
	}
	how.Input = value.Encode(req.Input)
	sealed, err := s.sealBegun(l.tenant, run.ID, how)
	if err != nil {
		return nil, err
	}
	err = s.change(ctx, func(tx *store.Tx) error {
		if req.IdempotencyKey != "" {
			row, ours, err := tx.Claim(l.tenant, store.IdempotencyRow{Principal: run.Caller, Operation: operation, Key: req.IdempotencyKey,
				BodyHash: s.hash(req), Object: run.ID, CreatedAt: run.Started}, run.Started.Add(-idempotencyAge))
			if err != nil {
				return err
			}
			if !ours {
				first, err = s.replay(&tx.Reader, l.tenant, req, row)
				return err
			}
		}
		if err := tx.InsertCheckpoint(l.tenant, store.CheckpointRow{RunID: run.ID, Begun: sealed}); err != nil {
			return err
		}
		if err := s.auditStart(tx, l, req.Force); err != nil {
			return err
		}
		return tx.InsertRun(l.tenant, store.RunRow{ID: run.ID, Flow: run.Flow, Version: run.Version, State: run.State, Caller: run.Caller,
			DryRun: run.DryRun, Started: run.Started, TraceID: how.TraceID, Body: raw})
	})
	return first, err
}

// change is one transaction whose conditions have their codes.
func (s *Service) change(ctx context.Context, fn func(*store.Tx) error) error {
	err := s.db.Update(ctx, fn)
	switch {
	case errors.Is(err, store.ErrFull):
		return &flows.Error{Code: flows.CodeFull, Message: "the disk of the state store is full; free space and retry", Err: err}
	case errors.Is(err, store.ErrStale):
		return &flows.Error{Code: flows.CodeStale, Message: "the run was changed meanwhile; read it again", Err: err}
	}
	return err
}

// system is the actor for what the service itself must know.
func (s *Service) system(tenant string) governance.Actor {
	return governance.Actor{Tenant: tenant, Principal: systemPrincipal, Scopes: []governance.Scope{governance.ScopeRead}}
}

// audit notes a change of a run in its transaction.
func (s *Service) audit(tx *store.Tx, by governance.Actor, action, runID string, detail any) (err error) {
	row := store.AuditRow{At: s.now().UTC(), Actor: by.Principal, Action: action, Object: "run/" + runID}
	if row.Detail, err = governance.AuditDetail(by, detail); err != nil {
		return err
	}
	return tx.Audit(tenant(by), row)
}

// auditStart notes who started a run, of which version.
func (s *Service) auditStart(tx *store.Tx, l *live, forced bool) error {
	action, detail := "run.start", map[string]any{"flow": l.run.Flow + "@" + l.run.Version}
	if forced {
		action = "run.force"
	}
	if l.run.DryRun {
		detail["dry_run"] = true
	}
	return s.audit(tx, l.actor, action, l.run.ID, detail)
}

func errFull(n int) error {
	return &flows.Error{Code: flows.CodeFull, Message: fmt.Sprintf("%d runs are going on; retry later", n), Err: &ingest.RetryError{After: time.Second}}
}

// record keeps the calls of a run as tool calls. The run has its own record, so a failure here is only logged.
func (s *Service) record(ctx context.Context, l *live, calls []call) {
	if s.recorder == nil || len(calls) == 0 {
		return
	}
	err := s.hide(calls, l.params)
	if err == nil {
		_, err = s.recorder.Record(ctx, l.tenant, events(l.run, calls))
	}
	if err != nil {
		s.log.ErrorContext(ctx, "record the calls of a run", "run_id", l.run.ID, "calls", len(calls), "error", err)
	}
}

// Filter selects and pages runs, newest first. Limit 0 means 50, at most 500.
type Filter struct {
	Flow   string
	State  string
	Limit  int
	Cursor string
}

// Get reads one run.
func (s *Service) Get(ctx context.Context, actor governance.Actor, id string) (run *Run, err error) {
	if err := governance.Permit(actor, governance.ActionRead); err != nil {
		return nil, err
	}
	return s.read(ctx, tenant(actor), id)
}

func (s *Service) read(ctx context.Context, tenant, id string) (run *Run, err error) {
	err = s.db.View(ctx, func(r *store.Reader) error {
		row, err := runIn(r, tenant, id)
		if err != nil {
			return err
		}
		if run, err = fromRow(row, true); err != nil {
			return err
		}
		if run.Continuation, err = continuationIn(r, tenant, run); err != nil {
			return err
		}
		run.Approvals, err = approvalsIn(r, tenant, id)
		return err
	})
	return run, err
}

// continuationIn is how to go on with a run that is read back, from what is kept of it.
func continuationIn(r *store.Reader, tenant string, run *Run) (*Continuation, error) {
	if run.State == StateRunning || run.Result == nil || run.Result.Success {
		return nil, nil
	}
	row, err := r.FlowVersion(tenant, run.Flow, run.Version)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var flow flows.Flow
	if err := json.Unmarshal(row.Flow, &flow); err != nil {
		return nil, fmt.Errorf("flow of run %s: %w", run.ID, err)
	}
	c := continuation(&flow, run.Result)
	if flows.Exceeds(flows.Effects(flow.Safety), flows.EffectRead) {
		known, err := knownTools(r, tenant, &flow)
		if err != nil {
			return nil, err
		}
		c.doubt(known, run.Result)
	}
	if run.State != run.Result.Status && run.Problem != nil { // it ended while it waited: the result is of before
		c.Reason = run.Problem.Message
	}
	return c, nil
}

func runIn(r *store.Reader, tenant, id string) (store.RunRow, error) {
	row, err := r.Run(tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return row, &flows.Error{Code: flows.CodeNotFound, Message: fmt.Sprintf("there is no run %q", id), Err: err}
	}
	return row, err
}

// sameRevision compares an If-Match revision with a run's; 0 means that none was given.
func sameRevision(row store.RunRow, given int64) error {
	if given != 0 && given != row.Revision {
		return flows.NewError(flows.CodeStale, fmt.Sprintf("run %s has revision %d, not %d; read it again", row.ID, row.Revision, given))
	}
	return nil
}

// List lists runs, newest first, without their results.
func (s *Service) List(ctx context.Context, actor governance.Actor, f Filter) (store.Page[Run], error) {
	return s.list(ctx, actor, f, false)
}

func (s *Service) list(ctx context.Context, actor governance.Actor, f Filter, withResults bool) (page store.Page[Run], err error) {
	if err := governance.Permit(actor, governance.ActionRead); err != nil {
		return page, err
	}
	err = s.db.View(ctx, func(r *store.Reader) error {
		rows, err := r.Runs(tenant(actor), store.RunQuery{Flow: f.Flow, State: f.State, Limit: f.Limit, Cursor: f.Cursor})
		if errors.Is(err, store.ErrCursor) {
			return &flows.Error{Code: flows.CodeInvalid, Message: "the cursor is not one that this list gave", Err: err}
		}
		if err != nil {
			return err
		}
		page.Next = rows.Next
		for _, row := range rows.Items {
			run, err := fromRow(row, withResults)
			if err == nil && row.State == executor.StatusAwaitingApproval {
				run.Approvals, err = approvalsIn(r, tenant(actor), row.ID)
			}
			if err != nil {
				return err
			}
			page.Items = append(page.Items, *run)
		}
		return nil
	})
	return page, err
}
