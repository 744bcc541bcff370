// Package loop runs mining passes: assemble what was recorded, observe, infer tool schemas, analyse, and bring
// the candidates into the governance queue. One pass runs at a time; every pass is kept with its patterns and with
// what blocks the frequent paths that are not proposed.
package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"pave/analyzer"
	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/ingest"
	"pave/ingest/store"
	"pave/observer"
)

// Queue is what a pass needs of governance; governance.Service is one.
type Queue interface {
	PutMiningRun(ctx context.Context, actor governance.Actor, run *governance.MiningRun) error
	RecordInferred(ctx context.Context, actor governance.Actor, tools []*flows.Tool) error
	DeclaredTools(ctx context.Context, actor governance.Actor) ([]*flows.Tool, error)
	Propose(ctx context.Context, actor governance.Actor, candidates []analyzer.Candidate) (governance.ProposeReport, error)
}

// Assembler brings recorded events into sessions; assembly.Assembler is one.
type Assembler interface {
	Run(ctx context.Context, tenant string, quietSince time.Time) (int, error)
}

// Options are the seams of a Loop. Queue, Assembler and Events are required.
type Options struct {
	Queue     Queue
	Assembler Assembler
	Events    Events
	Logger    *slog.Logger // nil discards
	// Progress, when not nil, is called from the pass's goroutine with what the observer does.
	Progress func(observer.Progress)
}

// Loop runs passes. It is safe for concurrent use. Close it.
type Loop struct {
	queue    Queue
	assemble Assembler
	events   Events
	log      *slog.Logger
	progress func(observer.Progress)

	busy   sync.Mutex // held during a pass
	wg     sync.WaitGroup
	ctx    context.Context // of passes that Begin started
	cancel context.CancelFunc
}

// New builds a Loop.
func New(o Options) *Loop {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Loop{queue: o.Queue, assemble: o.Assembler, events: o.Events, log: o.Logger, progress: o.Progress}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Close ends the passes that Begin started, which are kept as failed, and waits for them.
func (l *Loop) Close() error {
	l.cancel()
	l.wg.Wait()
	return nil
}

// MineOnce runs one pass and returns it when it is done. A pass that fails is kept as failed and returned with
// the error. CodeConflict: another pass is running.
func (l *Loop) MineOnce(ctx context.Context, actor governance.Actor, req governance.MiningRequest) (*governance.MiningRun, error) {
	run, err := l.begin(ctx, actor, req)
	if err != nil {
		return nil, err
	}
	defer l.busy.Unlock()
	return run, l.pass(ctx, actor, run)
}

// Begin starts a pass and returns at once with its id; the pass is read from governance while it goes on.
func (l *Loop) Begin(ctx context.Context, actor governance.Actor, req governance.MiningRequest) (*governance.MiningRun, error) {
	run, err := l.begin(ctx, actor, req)
	if err != nil {
		return nil, err
	}
	started := *run
	l.wg.Go(func() {
		defer l.busy.Unlock()
		if err := l.pass(l.ctx, actor, run); err != nil {
			l.log.Error("mining pass", "id", run.ID, "error", err)
		}
	})
	return &started, nil
}

// Run runs a pass for the tenant at every tick until ctx ends. A tick during a pass is skipped.
func (l *Loop) Run(ctx context.Context, tenant string, ticks <-chan time.Time) {
	actor := governance.Actor{Tenant: tenant, Principal: governance.MinerPrincipal, Scopes: []governance.Scope{governance.ScopePropose, governance.ScopeRead}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		if _, err := l.MineOnce(ctx, actor, governance.MiningRequest{}); err != nil && ctx.Err() == nil {
			l.log.ErrorContext(ctx, "mining pass", "error", err)
		}
	}
}

// begin takes the one place there is and writes the pass down; busy is held when the error is nil.
func (l *Loop) begin(ctx context.Context, actor governance.Actor, req governance.MiningRequest) (*governance.MiningRun, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	if !l.busy.TryLock() {
		return nil, flows.NewError(flows.CodeConflict, "a mining pass is running; wait until it is done")
	}
	run := &governance.MiningRun{State: governance.MiningRunning, Request: req, Phase: "assemble"}
	if err := l.queue.PutMiningRun(ctx, actor, run); err != nil {
		l.busy.Unlock()
		return nil, err
	}
	return run, nil
}

func check(req governance.MiningRequest) error {
	var details []flows.ErrorDetail
	if !req.From.IsZero() && !req.To.IsZero() && !req.From.Before(req.To) {
		details = append(details, flows.ErrorDetail{Pointer: "/to", Code: "out_of_range", Detail: "the window ends before it begins"})
	}
	if req.MaxLength != 0 && (req.MaxLength < 2 || req.MaxLength > maxLength) {
		details = append(details, flows.ErrorDetail{Pointer: "/max_length", Code: "out_of_range", Detail: fmt.Sprintf("use 2 to %d", maxLength)})
	}
	if req.MinSessions < 0 {
		details = append(details, flows.ErrorDetail{Pointer: "/min_sessions", Code: "out_of_range", Detail: "use 1 or more"})
	}
	if len(details) == 0 {
		return nil
	}
	return flows.NewError(flows.CodeInvalid, "the mining request is not valid: "+details[0].Detail, details...)
}

// maxLength is the longest pattern that the observer counts.
const maxLength = 16

// pass does the work of one run and keeps its end, whatever it is.
func (l *Loop) pass(ctx context.Context, actor governance.Actor, run *governance.MiningRun) error {
	err := l.work(ctx, actor, run)
	run.State, run.Phase = governance.MiningDone, ""
	if err != nil {
		run.State, run.Error = governance.MiningFailed, shown(ctx, err)
	}
	if putErr := l.queue.PutMiningRun(context.WithoutCancel(ctx), actor, run); putErr != nil {
		return errors.Join(err, putErr)
	}
	return err
}

// shown is the part of an error that people may read in the record of the pass.
func shown(ctx context.Context, err error) string {
	var fe *flows.Error
	switch {
	case ctx.Err() != nil: // whatever broke because of it
		return "the pass was cancelled"
	case errors.As(err, &fe):
		return fe.Message
	}
	return "internal error; the server's log has it"
}

func (l *Loop) work(ctx context.Context, actor governance.Actor, run *governance.MiningRun) error {
	tenant := actor.Tenant
	if tenant == "" {
		tenant = ingest.DefaultTenant
	}
	if _, err := l.assemble.Run(ctx, tenant, time.Time{}); err != nil {
		return unavailable(fmt.Errorf("assemble sessions: %w", err))
	}
	src := Source{Events: l.events, Tenant: tenant}
	filter := store.SequenceFilter{From: run.Request.From, To: run.Request.To}
	if err := l.phase(ctx, actor, run, "observe"); err != nil {
		return err
	}
	mined, err := observer.Mine(ctx, src, observer.Options{Filter: filter, MinSessions: run.Request.MinSessions,
		MaxLength: run.Request.MaxLength, Progress: l.progress})
	if err != nil {
		return unavailable(fmt.Errorf("observe: %w", err))
	}
	run.Result = mined
	if err := l.phase(ctx, actor, run, "infer"); err != nil {
		return err
	}
	inferrer, err := inferTools(ctx, src, filter)
	if err != nil {
		return unavailable(fmt.Errorf("infer tool schemas: %w", err))
	}
	inferred := inferrer.Tools()
	if err := l.queue.RecordInferred(ctx, actor, inferred); err != nil {
		return err
	}
	declared, err := l.queue.DeclaredTools(ctx, actor)
	if err != nil {
		return err
	}
	if err := l.phase(ctx, actor, run, "analyse"); err != nil {
		return err
	}
	candidates, err := analyzer.Propose(ctx, mined, analyzer.NewCatalogue(declared, inferred), src, analyzer.Options{
		Values: inferrer,
		Price:  Price,
		Dropped: func(tools []string, reason string) {
			run.Dropped = append(run.Dropped, governance.DroppedPattern{Tools: tools, Reason: reason})
		},
	})
	if err != nil {
		return unavailable(fmt.Errorf("analyse: %w", err))
	}
	candidates = declarable(candidates, run)
	run.Candidates = len(candidates)
	if err := l.phase(ctx, actor, run, "propose"); err != nil {
		return err
	}
	run.Report, err = l.queue.Propose(ctx, actor, candidates)
	return err
}

// declarable drops the candidates that could never run because a tool file cannot hold one of their tools' names.
func declarable(candidates []analyzer.Candidate, run *governance.MiningRun) []analyzer.Candidate {
	return slices.DeleteFunc(candidates, func(c analyzer.Candidate) bool {
		names := governance.ToolNames(c.Flow)
		at := slices.IndexFunc(names, func(name string) bool { return !governance.ValidToolName(name) })
		if at >= 0 {
			run.Dropped = append(run.Dropped, governance.DroppedPattern{Tools: names,
				Reason: fmt.Sprintf("no tool file can declare a tool named %q: a name has 1 to 128 of A-Z a-z 0-9 _ . -", names[at])})
		}
		return at >= 0
	})
}

func (l *Loop) phase(ctx context.Context, actor governance.Actor, run *governance.MiningRun, phase string) error {
	run.Phase = phase
	return l.queue.PutMiningRun(ctx, actor, run)
}

// unavailable gives an event store that is away its code.
func unavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return &flows.Error{Code: flows.CodeUnavailable, Message: "the event store does not answer now; mine again later", Err: err}
	}
	return err
}

var prices = executor.DefaultPrices()

// Price is what a model costs by the default table; a cost that was recorded wins over it.
func Price(model string) (analyzer.Price, bool) {
	p, ok := executor.PriceOfModel(prices, model)
	return analyzer.Price{Input: p.InputPerMTok, Output: p.OutputPerMTok, AsOf: p.AsOf}, ok
}
