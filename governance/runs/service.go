package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"pave/executor"
	"pave/flows"
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
