package loop

import (
	"context"
	"time"

	"pave/governance"
	"pave/ingest"
	"pave/observer"
)

// Status is how the loop stands.
type Status struct {
	Automatic bool // passes begin by themselves
	Running   bool
	RunID     string // of the running pass
	Phase     string
	Progress  observer.Progress        // within the phase observe
	Trigger   governance.MiningTrigger // of the running pass

	PendingSessions int       // assembled since the last pass began
	ToolsChanged    bool      // since the last pass
	NextAt          time.Time // when a pass begins at the latest if anything is pending; zero when none does by itself

	Passes, Failures, Incremental int // since the process began
	Last                          *LastPass
	LastFull                      time.Time
}

// LastPass is the last pass of this process.
type LastPass struct {
	RunID          string
	State          governance.MiningState
	Trigger        governance.MiningTrigger
	Mode           governance.MiningMode
	Error          string
	Started, Ended time.Time
	Sessions       int
	Calls          int
	Patterns       int
	Blocked        int
	Candidates     int
	Increment      *observer.Increment
}

// state is the part of the loop that others look at while a pass runs.
type state struct {
	status Status
	tools  string // fingerprint of the declared tools at the last pass
	began  time.Time
	rest   time.Time // no pass by itself before
	taken  int       // pending sessions that the pass that runs took in
	back   int       // of the pending sessions, those that a failed pass gave back: they wait for the interval
	due    bool      // there may be more to take in than PendingSessions, which nobody counted
}

// Status tells how the loop stands.
func (l *Loop) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state.status
	if s.Automatic && !s.Running {
		s.NextAt = l.next()
	}
	return s
}

// next is when the interval is over; mu is held.
func (l *Loop) next() time.Time {
	at := l.state.began
	if last := l.state.status.Last; last != nil {
		at = last.Ended
	}
	if at = at.Add(l.settings.Interval); at.Before(l.state.rest) {
		return l.state.rest
	}
	return at
}

// Assembled notes that sessions of the tenant were assembled.
func (l *Loop) Assembled(tenant string, sessions int) {
	if tenant != ingest.DefaultTenant {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.status.PendingSessions += sessions
}

// taken: the pass that runs reads all that was assembled so far.
func (l *Loop) taken() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.taken = l.state.status.PendingSessions
	l.state.status.PendingSessions, l.state.status.ToolsChanged, l.state.back, l.state.due = 0, false, 0, false
}

func (l *Loop) knows(tools string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.tools = tools
}

func (l *Loop) started(run *governance.MiningRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.state.status
	s.Running, s.RunID, s.Phase, s.Progress = true, run.ID, run.Phase, observer.Progress{}
	l.trail.changed() // whoever waits for the pass before
	l.trail = trail{id: run.ID}
	l.trail.add(Event{Phase: run.Phase})
	l.state.began, l.state.taken = l.now(), 0
}

func (l *Loop) entered(phase string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.status.Phase, l.state.status.Progress = phase, observer.Progress{}
	l.trail.add(Event{Phase: phase})
}

func (l *Loop) observed(p observer.Progress) {
	l.mu.Lock()
	l.state.status.Progress = p
	l.trail.progress(p, l.now())
	l.mu.Unlock()
	if l.progress != nil {
		l.progress(p)
	}
}

// ended notes the end of a pass and logs it.
func (l *Loop) ended(run *governance.MiningRun, err error) {
	now := l.now()
	last := &LastPass{RunID: run.ID, State: run.State, Trigger: run.Trigger, Mode: run.Mode, Error: run.Error, Ended: now,
		Candidates: run.Candidates, Increment: run.Increment}
	if r := run.Result; r != nil {
		last.Sessions, last.Calls, last.Patterns, last.Blocked = r.Sessions, r.Calls, len(r.Patterns), len(r.Blocked)
	}
	l.mu.Lock()
	s := &l.state.status
	last.Started = l.state.began
	l.trail.ended = true
	l.trail.changed()
	s.Running, s.RunID, s.Phase, s.Last = false, "", "", last
	s.Passes++
	switch {
	case err != nil:
		s.Failures++
		s.PendingSessions += l.state.taken // what it should have taken in
		l.state.back, l.state.due = l.state.taken, true
	case run.Mode == governance.ModeIncremental:
		s.Incremental++
	default:
		s.LastFull = now
	}
	l.state.rest = now.Add(max(l.settings.MinPause, 9*now.Sub(last.Started)))
	l.mu.Unlock()
	l.log.Info("mining pass", "id", run.ID, "state", run.State, "trigger", run.Trigger, "mode", run.Mode, "duration_ms", now.Sub(last.Started).Milliseconds(),
		"sessions", last.Sessions, "calls", last.Calls, "patterns", last.Patterns, "blocked", last.Blocked, "candidates", last.Candidates)
}

// Run mines for the tenant whenever there is reason to, until ctx ends; it looks at every tick. A tick during a pass is
// skipped.
func (l *Loop) Run(ctx context.Context, tenant string, ticks <-chan time.Time) {
	if l.settings.Interval < 0 {
		<-ctx.Done()
		return
	}
	actor := governance.Actor{Tenant: tenant, Principal: governance.MinerPrincipal, Scopes: []governance.Scope{governance.ScopePropose, governance.ScopeRead}}
	l.mu.Lock()
	l.state.status.Automatic, l.state.began = true, l.now()
	l.state.due = true // what an earlier process left
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.state.status.Automatic = false
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		why, err := l.reason(ctx, actor)
		if err == nil && why != "" {
			_, err = l.mineOnce(ctx, actor, governance.MiningRequest{Incremental: true}, why)
		}
		if err != nil && ctx.Err() == nil {
			l.log.ErrorContext(ctx, "mining pass", "error", err)
		}
	}
}

// reason says why a pass should begin now, "" when none should.
func (l *Loop) reason(ctx context.Context, actor governance.Actor) (governance.MiningTrigger, error) {
	declared, err := l.queue.DeclaredTools(ctx, actor)
	if err != nil {
		return "", err
	}
	tools := fingerprint(declared)
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.state.status
	if l.state.tools != "" && l.state.tools != tools {
		s.ToolsChanged = true
	}
	switch {
	case s.Running || now.Before(l.state.rest):
		return "", nil
	case s.ToolsChanged:
		return governance.TriggerTools, nil
	case s.PendingSessions-l.state.back >= l.settings.AfterSessions:
		return governance.TriggerSessions, nil
	case (s.PendingSessions > 0 || l.state.due) && !now.Before(l.next()):
		return governance.TriggerInterval, nil
	}
	return "", nil
}
