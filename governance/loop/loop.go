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
	ToolEras(ctx context.Context, actor governance.Actor) (map[string]time.Time, error)
	MiningRun(ctx context.Context, actor governance.Actor, id string) (*governance.MiningRun, error)
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
	Settings  Settings
	Logger    *slog.Logger // nil discards
	// Progress, when not nil, is called from the pass's goroutine with what the observer does.
	Progress func(observer.Progress)
	Now      func() time.Time // nil is time.Now
}

// Loop runs passes. It is safe for concurrent use. Close it.
type Loop struct {
	queue    Queue
	assemble Assembler
	events   Events
	settings Settings
	log      *slog.Logger
	progress func(observer.Progress)
	now      func() time.Time

	busy   chan struct{} // has room for one: the pass that runs
	full   *fullPass     // the last one of this process without a window; of the pass that runs
	wg     sync.WaitGroup
	ctx    context.Context // of passes that Begin started
	cancel context.CancelFunc

	mu    sync.Mutex
	state state
	trail trail
	gone  map[string]bool // sessions that were deleted since the last full pass began to read
	lost  bool            // more than are kept
}

// fullPass is what incremental passes go on from.
type fullPass struct {
	tenant     string
	result     *observer.Result
	candidates []analyzer.Candidate
	pattern    []int // of each candidate: its index in result.Patterns, -1 for none
	tools      string
	ended      time.Time
}

// New builds a Loop.
func New(o Options) *Loop {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Loop{queue: o.Queue, assemble: o.Assembler, events: o.Events, settings: o.Settings.withDefaults(), log: o.Logger, progress: o.Progress, now: o.Now,
		busy: make(chan struct{}, 1)}
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
	return l.mineOnce(ctx, actor, req, governance.TriggerRequest)
}

func (l *Loop) mineOnce(ctx context.Context, actor governance.Actor, req governance.MiningRequest, why governance.MiningTrigger) (*governance.MiningRun, error) {
	run, err := l.begin(ctx, actor, req, why)
	if err != nil {
		return nil, err
	}
	defer l.leave()
	return run, l.pass(ctx, actor, run)
}

// Begin starts a pass and returns at once with its id; the pass is read from governance while it goes on.
func (l *Loop) Begin(ctx context.Context, actor governance.Actor, req governance.MiningRequest) (*governance.MiningRun, error) {
	run, err := l.begin(ctx, actor, req, governance.TriggerRequest)
	if err != nil {
		return nil, err
	}
	started := *run
	l.wg.Go(func() {
		defer l.leave()
		if err := l.pass(l.ctx, actor, run); err != nil {
			l.log.Error("mining pass", "id", run.ID, "error", err)
		}
	})
	return &started, nil
}

// begin takes the one place there is and writes the pass down; busy is held when the error is nil.
func (l *Loop) begin(ctx context.Context, actor governance.Actor, req governance.MiningRequest, why governance.MiningTrigger) (*governance.MiningRun, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	if err := l.enter(ctx, why); err != nil {
		return nil, err
	}
	run := &governance.MiningRun{State: governance.MiningRunning, Request: req, Phase: "assemble", Trigger: why}
	if err := l.queue.PutMiningRun(ctx, actor, run); err != nil {
		l.leave()
		return nil, err
	}
	return run, nil
}

// enter takes the one place there is. Somebody who asks for a pass waits for one that began by itself, which takes
// nothing in of what was recorded since; a pass that somebody asked for is in the way.
func (l *Loop) enter(ctx context.Context, why governance.MiningTrigger) error {
	l.mu.Lock()
	running := l.state.status.Trigger
	if running == "" {
		select {
		case l.busy <- struct{}{}:
			l.state.status.Trigger = why
			l.mu.Unlock()
			return nil
		default: // somebody comes from waiting
		}
	}
	l.mu.Unlock()
	if why != governance.TriggerRequest || running == governance.TriggerRequest {
		return flows.NewError(flows.CodeConflict, "a mining pass is running; wait until it is done")
	}
	select {
	case l.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	l.state.status.Trigger = why
	l.mu.Unlock()
	return nil
}

func (l *Loop) leave() {
	l.mu.Lock()
	l.state.status.Trigger = ""
	l.mu.Unlock()
	<-l.busy
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
	if req.Incremental && req != (governance.MiningRequest{Incremental: true}) {
		details = append(details, flows.ErrorDetail{Pointer: "/incremental", Code: "invalid", Detail: "an incremental pass takes no window and no thresholds: it goes on from the last full pass"})
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
	l.started(run)
	limited, cancel := context.WithTimeout(ctx, l.settings.MaxTime)
	defer cancel()
	err := l.work(limited, actor, run)
	run.State, run.Phase = governance.MiningDone, ""
	if err != nil {
		run.State, run.Error = governance.MiningFailed, l.shown(ctx, limited, err)
	}
	if putErr := l.queue.PutMiningRun(context.WithoutCancel(ctx), actor, run); putErr != nil {
		err = errors.Join(err, putErr)
	}
	l.ended(run, err)
	return err
}

// shown is the part of an error that people may read in the record of the pass.
func (l *Loop) shown(ctx, limited context.Context, err error) string {
	var fe *flows.Error
	switch {
	case ctx.Err() != nil: // whatever broke because of it
		return "the pass was cancelled"
	case limited.Err() != nil:
		return fmt.Sprintf("the pass took longer than %s and was ended; raise mining.max_time or lower mining.max_calls", l.settings.MaxTime)
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
	l.taken()
	src := Source{Events: l.events, Tenant: tenant}
	declared, err := l.queue.DeclaredTools(ctx, actor)
	if err != nil {
		return err
	}
	tools := fingerprint(declared)
	l.knows(tools)
	if run.Request.Incremental {
		done, err := l.increment(ctx, actor, run, src, tools)
		if done || err != nil {
			return err
		}
	}
	return l.workFull(ctx, actor, run, src, declared)
}

func (l *Loop) workFull(ctx context.Context, actor governance.Actor, run *governance.MiningRun, src Source, declared []*flows.Tool) error {
	run.Mode = governance.ModeFull
	l.remember()
	filter := store.SequenceFilter{From: run.Request.From, To: run.Request.To}
	if err := l.phase(ctx, actor, run, "observe"); err != nil {
		return err
	}
	options := l.observerOptions(run.Request)
	options.Effects = effectsOf(declared)
	var err error
	if options.Since, err = l.queue.ToolEras(ctx, actor); err != nil {
		return err
	}
	mined, err := observer.Mine(ctx, src, options)
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
	if err := l.phase(ctx, actor, run, "analyse"); err != nil {
		return err
	}
	candidates, err := analyzer.Propose(ctx, mined, analyzer.NewCatalogue(declared, inferred), src, analyzer.Options{
		Values: inferrer, Price: Price, MaxChains: l.settings.Chains, MaxDepth: l.settings.ChainDepth,
		Dropped: func(d analyzer.Dropped) { run.Dropped = append(run.Dropped, governance.DroppedPattern(d)) },
	})
	if err != nil {
		return unavailable(fmt.Errorf("analyse: %w", err))
	}
	candidates = declarable(candidates, run)
	run.Dropped = slices.DeleteFunc(run.Dropped, func(d governance.DroppedPattern) bool { return hasFlow(candidates, d.Tools) })
	if run.Request == (governance.MiningRequest{Incremental: run.Request.Incremental}) {
		if err := mined.Track(ctx, src); err != nil {
			return unavailable(fmt.Errorf("keep counts by day: %w", err))
		}
		l.full = newFullPass(src.Tenant, mined, candidates, fingerprint(declared), l.now())
	}
	return l.propose(ctx, actor, run, candidates)
}

func (l *Loop) propose(ctx context.Context, actor governance.Actor, run *governance.MiningRun, candidates []analyzer.Candidate) (err error) {
	run.Candidates = len(candidates)
	l.strip(run.Result, candidates)
	if err := l.phase(ctx, actor, run, "propose"); err != nil {
		return err
	}
	run.Report, err = l.queue.Propose(ctx, actor, candidates)
	return err
}

// clocksApart is how far clocks that are right may be apart, time zones taken for UTC included.
const clocksApart = 24 * time.Hour

// observerOptions are the thresholds in force with those of the request.
func (l *Loop) observerOptions(req governance.MiningRequest) observer.Options {
	o := l.settings.Observer
	o.Filter = store.SequenceFilter{From: req.From, To: req.To}
	o.Until = l.now().Add(clocksApart)
	if req.MinSessions > 0 {
		o.MinSessions = req.MinSessions
	}
	if req.MaxLength > 0 {
		o.MaxLength = req.MaxLength
	}
	o.Progress = l.observed
	return o
}

// effectsOf tells which tools may change something by the safety that they declare. Of the others nothing is known.
func effectsOf(declared []*flows.Tool) func(tool string) bool {
	known := make(map[string]bool, len(declared))
	for _, t := range declared {
		known[t.Name] = t.Safety != nil && flows.Exceeds(flows.Effects(t.Safety), flows.EffectRead)
	}
	return func(tool string) bool { return known[tool] }
}

// declarable drops the candidates that could never run because a tool file cannot hold one of their tools' names.
func declarable(candidates []analyzer.Candidate, run *governance.MiningRun) []analyzer.Candidate {
	return slices.DeleteFunc(candidates, func(c analyzer.Candidate) bool {
		names := governance.ToolNames(c.Flow)
		at := slices.IndexFunc(names, func(name string) bool { return !governance.ValidToolName(name) })
		if at >= 0 {
			d := governance.DroppedPattern{Tools: names, Code: analyzer.DroppedChain,
				Reason:  fmt.Sprintf("no tool file can declare a tool named %q: a name has 1 to 128 of A-Z a-z 0-9 _ . -", names[at]),
				Unblock: "Telemetry that calls the tool by a name that a tool file can have."}
			if p := c.Evidence.Pattern; p != nil {
				d.Tools, d.Code = p.Tools, analyzer.DroppedNoFlow
			}
			run.Dropped = append(run.Dropped, d)
		}
		return at >= 0
	})
}

// hasFlow reports whether one of the candidates is for the path: then another flow for it that there could be is no news.
func hasFlow(candidates []analyzer.Candidate, tools []string) bool {
	return slices.ContainsFunc(candidates, func(c analyzer.Candidate) bool {
		return c.Evidence.Pattern != nil && slices.Equal(c.Evidence.Pattern.Tools, tools)
	})
}

func (l *Loop) phase(ctx context.Context, actor governance.Actor, run *governance.MiningRun, phase string) error {
	run.Phase = phase
	l.entered(phase)
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
