// Package watch compares what approved drafts and active flows predict with what agents do in live sessions, and lets
// governance decide about versions that fail, that agents walk otherwise or that nobody uses.
package watch

import (
	"context"
	"log/slog"
	"slices"
	"strings"
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
	c := comparison{targets: make([]governance.Walks, len(targets))}
	var compiled []*replay.Flow
	for i, t := range targets {
		c.targets[i] = governance.Walks{Target: t, Days: map[int64]governance.DayWalks{}, Agents: map[governance.AgentDay]governance.AgentWalks{}}
		if ready, err := replay.Compile(t.Flow); err == nil { // flows that call flows have no recorded calls to be compared with
			compiled, c.of = append(compiled, ready), append(c.of, i)
		}
	}
	c.scorer = replay.NewScorer(compiled)
	err = assembly.Loader{Store: w.events}.Sessions(ctx, tenant, ids, func(s *ingest.Session) error {
		c.note(s)
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(c.targets, func(w governance.Walks) bool { return w.Sessions == 0 && len(w.Agents) == 0 })
	if len(found) == 0 {
		return nil
	}
	return w.gate.RecordWalks(ctx, tenant, found)
}

// comparison lays flows over sessions.
type comparison struct {
	targets []governance.Walks
	scorer  *replay.Scorer
	of      []int // the scorer's flows among the targets
}

// note adds what one session says of the targets. A session from before a target's time says nothing of it.
func (c *comparison) note(s *ingest.Session) {
	at, tools := startOf(s)
	for _, i := range c.of {
		if first := firstTool(c.targets[i].Target.Flow); tools[first] && !at.Before(c.targets[i].Target.Since) {
			c.targets[i].Sessions++
		}
	}
	ends := map[int]int{} // of each flow, the last call of the walk before
	for _, window := range c.scorer.Windows(replay.NewSession(s)) {
		w := &c.targets[c.of[window.Flow]]
		if at.Before(w.Target.Since) {
			continue
		}
		if end, walked := ends[window.Flow]; walked && window.Calls[0] <= end {
			continue // a part of that walk: a list of calls without its first is one, too
		}
		ends[window.Flow] = window.Calls[len(window.Calls)-1]
		exact := window.Exact
		w.Exact = append(w.Exact, exact)
		day := w.Days[dayOf(at)]
		day.Walks++
		if w.Target.Current {
			day.Missed++
			day.Calls += int64(len(window.Calls))
			count(w, agentAt(s, window.Calls[0]), at, governance.AgentWalks{Walks: 1})
		}
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
	c.calls(s, at)
}

// calls counts the calls of flows that the session has.
func (c *comparison) calls(s *ingest.Session, at time.Time) {
	for r := range s.Runs {
		for i := range s.Runs[r].Calls {
			call := &s.Runs[r].Calls[i]
			if call.Origin != ingest.OriginFlowCall {
				continue
			}
			if w := c.called(call.Tool); w != nil && !at.Before(w.Target.Since) {
				count(w, s.Runs[r].Agent, at, governance.AgentWalks{FlowCalls: 1})
			}
		}
	}
}

// called is the current version of the flow that a tool's name names, as agents report it: bare, with something in front,
// as in mcp__pave__refund, or behind, as in refund_mcp_pave. Of several the longest is meant.
func (c *comparison) called(tool string) (found *governance.Walks) {
	for i := range c.targets {
		t := &c.targets[i].Target
		if !t.Current || !strings.HasSuffix(tool, t.Flow.Name) || found != nil && len(found.Target.Flow.Name) >= len(t.Flow.Name) {
			continue
		}
		if before := strings.TrimSuffix(tool, t.Flow.Name); before == "" || strings.ContainsAny(before[len(before)-1:], "_./:-") {
			found = &c.targets[i]
		}
	}
	if i := strings.LastIndex(tool, "_mcp_"); found == nil && i > 0 {
		return c.called(tool[:i])
	}
	return found
}

func count(w *governance.Walks, agent string, at time.Time, more governance.AgentWalks) {
	key := governance.AgentDay{Agent: agent, Day: dayOf(at)}
	n := w.Agents[key]
	n.Walks += more.Walks
	n.FlowCalls += more.FlowCalls
	w.Agents[key] = n
}

// agentAt is who made a call, by its position among the calls of a session.
func agentAt(s *ingest.Session, at int) string {
	for r := range s.Runs {
		if at < len(s.Runs[r].Calls) {
			return s.Runs[r].Agent
		}
		at -= len(s.Runs[r].Calls)
	}
	return ""
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
