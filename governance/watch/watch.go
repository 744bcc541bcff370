// Package watch compares what approved drafts and active flows predict with what agents do in live sessions, and lets
// governance decide about versions that fail, that agents walk otherwise or that nobody uses.
package watch

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"pave/analyzer/replay"
	"pave/flows"
	"pave/governance"
	"pave/governance/replays"
	"pave/ingest"
	"pave/ingest/assembly"
)

// Gate is what a Watcher needs of governance; governance.Service is one.
type Gate interface {
	ShadowTargets(ctx context.Context, tenant string) ([]governance.ShadowTarget, error)
	RecordWalks(ctx context.Context, tenant string, all []governance.Walks) error
	Watch(ctx context.Context, tenant string) (taken []string, err error)
}

// Events reads the events of sessions; an event store is one.
type Events interface {
	Events(ctx context.Context, tenant string, sessionIDs []string, fn func(sessionID string, events []ingest.Event) error) error
}

// Bounds of a Watcher.
const (
	maxWaiting = 50_000 // sessions that wait to be compared; more are left out and counted
	batch      = 200    // sessions that are compared at once
	remembered = 20_000 // sessions that are not compared again when late events came
)

// Watcher compares live sessions. It is safe for concurrent use.
type Watcher struct {
	gate   Gate
	events Events
	log    *slog.Logger

	mu      sync.Mutex
	waiting map[string][]string // by tenant
	queued  map[[2]string]bool
	done    map[[2]string]bool
	order   [][2]string // of done, the oldest first
	left    int
}

// New builds a Watcher.
func New(gate Gate, events Events, log *slog.Logger) *Watcher {
	return &Watcher{gate: gate, events: events, log: log, waiting: map[string][]string{}, queued: map[[2]string]bool{}, done: map[[2]string]bool{}}
}

// Seen notes sessions that were assembled. It does not block.
func (w *Watcher) Seen(tenant string, sessions []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range sessions {
		key := [2]string{tenant, id}
		switch {
		case w.queued[key] || w.done[key]:
		case len(w.queued) >= maxWaiting:
			w.left++
		default:
			w.queued[key] = true
			w.waiting[tenant] = append(w.waiting[tenant], id)
		}
	}
}

// Run compares what waits and asks the gate to decide, at every tick until ctx ends.
func (w *Watcher) Run(ctx context.Context, tenant string, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		if err := w.Once(ctx, tenant); err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "watch flows", "error", err)
		}
	}
}

// Once compares the sessions of a tenant that wait, then lets the gate decide.
func (w *Watcher) Once(ctx context.Context, tenant string) error {
	for {
		ids := w.take(tenant)
		if len(ids) == 0 {
			break
		}
		if err := w.compare(ctx, tenant, ids); err != nil {
			return err
		}
	}
	taken, err := w.gate.Watch(ctx, tenant)
	for _, version := range taken {
		w.log.WarnContext(ctx, "a flow version goes to needs_review", "flow", version)
	}
	return err
}

// take takes a batch of waiting sessions and remembers them.
func (w *Watcher) take(tenant string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left > 0 {
		w.log.Warn("sessions were not compared with flows: too many came at once", "sessions", w.left)
		w.left = 0
	}
	n := min(batch, len(w.waiting[tenant]))
	ids := slices.Clone(w.waiting[tenant][:n])
	w.waiting[tenant] = w.waiting[tenant][n:]
	for _, id := range ids {
		key := [2]string{tenant, id}
		delete(w.queued, key)
		w.done[key] = true
		w.order = append(w.order, key)
	}
	for len(w.order) > remembered {
		delete(w.done, w.order[0])
		w.order = w.order[1:]
	}
	return ids
}

// compare lays every target over the sessions.
func (w *Watcher) compare(ctx context.Context, tenant string, ids []string) error {
	targets, err := w.gate.ShadowTargets(ctx, tenant)
	if err != nil || len(targets) == 0 {
		return err
	}
	var watched []governance.Walks
	var compiled []*replay.Flow
	for _, t := range targets {
		ready, err := replay.Compile(t.Flow)
		if err != nil { // flows that call flows have no recorded calls to be compared with
			continue
		}
		compiled = append(compiled, ready)
		watched = append(watched, governance.Walks{Target: t, Days: map[int64]governance.DayWalks{}})
	}
	scorer := replay.NewScorer(compiled)
	err = assembly.Loader{Store: w.events}.Sessions(ctx, tenant, ids, func(s *ingest.Session) error {
		note(scorer, s, watched)
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	watched = slices.DeleteFunc(watched, func(w governance.Walks) bool { return w.Sessions == 0 })
	if len(watched) == 0 {
		return nil
	}
	return w.gate.RecordWalks(ctx, tenant, watched)
}

// note adds what one session says of the targets. A session from before a target's time says nothing of it.
func note(scorer *replay.Scorer, s *ingest.Session, watched []governance.Walks) {
	at, tools := startOf(s)
	for i := range watched {
		if first := firstTool(watched[i].Target.Flow); tools[first] && !at.Before(watched[i].Target.Since) {
			watched[i].Sessions++
		}
	}
	for _, window := range scorer.Windows(replay.NewSession(s)) {
		w := &watched[window.Flow]
		if at.Before(w.Target.Since) {
			continue
		}
		exact := window.Exact
		w.Exact = append(w.Exact, exact)
		day := w.Days[dayOf(at)]
		day.Walks++
		day.Calls += int64(len(window.Calls))
		if exact {
			day.Exact++
		} else {
			w.DestructiveMismatches += replays.Effects(s, &window, func(tool string) (harmless, known bool) {
				harmless, known = w.Target.Harmless[tool]
				return harmless, known
			})
		}
		w.Days[dayOf(at)] = day
	}
}

// startOf is when a session's first call with a time started, and the tools that its agents called.
func startOf(s *ingest.Session) (at time.Time, tools map[string]bool) {
	tools = map[string]bool{}
	for r := range s.Runs {
		for i := range s.Runs[r].Calls {
			c := &s.Runs[r].Calls[i]
			tools[c.Tool] = true
			if !c.Start.IsZero() && (at.IsZero() || c.Start.Before(at)) {
				at = c.Start
			}
		}
	}
	return at, tools
}

func firstTool(f *flows.Flow) string { return f.Steps[0].ToolName }

func dayOf(at time.Time) int64 { return at.Unix() / (24 * 60 * 60) }
