// Package replays lays flows over recorded sessions for reviewers: what a draft would have done where agents walked its
// path by hand, and which of these sessions prove it as golden tests.
package replays

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pave/analyzer/replay"
	"pave/executor"
	"pave/executor/flowtest"
	"pave/flows"
	"pave/flows/value"
	"pave/governance"
	"pave/ingest"
	"pave/ingest/assembly"
	"pave/ingest/store"
)

// Events is what a Checker reads of the event store.
type Events interface {
	Sessions(ctx context.Context, tenant string, filter store.SessionFilter) (store.Page[ingest.SessionSummary], error)
	Events(ctx context.Context, tenant string, sessionIDs []string, fn func(sessionID string, events []ingest.Event) error) error
}

// Checker implements governance.Replayer over an event store. It is safe for concurrent use.
type Checker struct{ Events Events }

var _ governance.Replayer = Checker{}

// pageOf is how many summaries are read at once, loadOf how many whole sessions.
const (
	pageOf = 200
	loadOf = 50
)

// Replay implements governance.Replayer.
func (c Checker) Replay(ctx context.Context, tenant string, flow *flows.Flow, tools map[string]*flows.Tool, limit int) (*governance.ReplayCheck, error) {
	ready, err := replay.Compile(flow)
	if err != nil {
		return &governance.ReplayCheck{Note: "it cannot be compared with recorded calls: " + err.Error()}, nil
	}
	ids, err := c.newest(ctx, tenant, flow.Steps[0].ToolName, limit)
	if err != nil {
		return nil, err
	}
	t := &tally{check: &governance.ReplayCheck{}, scorer: replay.NewScorer([]*replay.Flow{ready}), prover: newProver(flow, tools), tools: tools}
	for batch := range slices.Chunk(ids, loadOf) {
		err := assembly.Loader{Store: c.Events}.Sessions(ctx, tenant, batch, func(s *ingest.Session) error {
			t.add(ctx, s)
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	t.check.DestructiveMismatches = t.effects
	if t.check.Windows == 0 {
		t.check.Note = fmt.Sprintf("none of the %d newest sessions with %s holds the path of this flow", t.check.Sessions, flow.Steps[0].ToolName)
	}
	return t.check, nil
}

// newest lists the newest sessions that called a tool.
func (c Checker) newest(ctx context.Context, tenant, tool string, limit int) ([]string, error) {
	var ids []string
	filter := store.SessionFilter{Tool: tool}
	for len(ids) < limit {
		filter.Limit = min(pageOf, limit-len(ids))
		page, err := c.Events.Sessions(ctx, tenant, filter)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			ids = append(ids, page.Items[i].ID)
		}
		if page.Next == "" {
			break
		}
		filter.Cursor = page.Next
	}
	return ids, nil
}

// tally collects the windows of one flow.
type tally struct {
	check   *governance.ReplayCheck
	scorer  *replay.Scorer
	prover  *prover
	tools   map[string]*flows.Tool
	effects int
}

func (t *tally) add(ctx context.Context, s *ingest.Session) {
	t.check.Sessions++
	proved := false
	for _, w := range t.scorer.Windows(replay.NewSession(s)) {
		t.check.Windows++
		switch {
		case w.Fits():
			t.check.Exact++
			if !proved && len(t.check.Golden) < governance.MaxGoldenTests { // one window of a session tells enough
				if g, ok := t.prover.golden(ctx, s, &w); ok {
					t.check.Golden, proved = append(t.check.Golden, g), true
				}
			}
		case w.Exact:
			t.check.BlockedCount++
			t.check.Blocked = shown(t.check.Blocked, s.ID, &w)
		default:
			t.check.DivergedCount++
			t.check.Diverged = shown(t.check.Diverged, s.ID, &w)
			t.effects += Effects(s, &w, func(tool string) (harmless, known bool) {
				declared := t.tools[tool]
				return declared != nil && !flows.Exceeds(flows.Effects(declared.Safety), flows.EffectRead), declared != nil
			})
		}
	}
}

// Effects counts the calls of a window whose tools may change something: what declared says of them, else what their
// names say.
func Effects(s *ingest.Session, w *replay.Window, declared func(tool string) (harmless, known bool)) int {
	calls, n := recorded(s), 0
	for _, at := range w.Calls {
		harmless, known := declared(calls[at].Tool)
		if !known {
			harmless = replay.ReadOnly(calls[at].Tool)
		}
		if !harmless {
			n++
		}
	}
	return n
}

// shown adds a window to a list that is not full.
func shown(list []governance.ReplayWindow, session string, w *replay.Window) []governance.ReplayWindow {
	if len(list) == governance.MaxReplayWindows {
		return list
	}
	out := governance.ReplayWindow{SessionID: session, Calls: w.Calls}
	for _, f := range w.Faults() {
		out.Faults = append(out.Faults, governance.ReplayFault{Step: f.Step, Arg: f.Arg, Reason: string(f.Reason)})
	}
	return append(list, out)
}

// prover runs a flow against recorded answers.
type prover struct{ plan *executor.Plan }

// newProver compiles the flow; without all of its tools nothing can be proved.
func newProver(flow *flows.Flow, tools map[string]*flows.Tool) *prover {
	active := *flow
	active.Status = flows.StatusActive // drafts do not run
	plan, _ := executor.Compile(&active, executor.Tools(tools), executor.CompileOptions{})
	return &prover{plan: plan}
}

// golden makes a test of a window when the executor, given the recorded answers, makes exactly the recorded calls.
func (p *prover) golden(ctx context.Context, s *ingest.Session, w *replay.Window) (governance.GoldenTest, bool) {
	g := governance.GoldenTest{Name: fmt.Sprintf("session %s", s.ID), SessionID: s.ID, Input: value.Encode(anyOf(w.Inputs))}
	if p.plan == nil {
		return g, false
	}
	calls := recorded(s)
	fixture := &flowtest.Fixture{}
	for _, at := range w.Calls {
		c := calls[at]
		in, err := value.Decode(c.Args)
		if err != nil {
			return g, false
		}
		out, err := value.Decode(c.Result)
		if err != nil {
			return g, false
		}
		fixture.Interactions = append(fixture.Interactions, flowtest.Interaction{ToolName: c.Tool,
			Input: flowtest.Value{V: in, Set: true}, Output: flowtest.Value{V: out, Set: true}})
		g.Calls = append(g.Calls, governance.GoldenCall{Tool: c.Tool, Args: c.Args, Result: c.Result})
	}
	result, whole := RunRecorded(ctx, p.plan, fixture, w.Inputs)
	if result.Status != executor.StatusSucceeded && result.Status != executor.StatusHandedBack || !whole {
		return g, false
	}
	g.Status, g.Output = result.Status, value.Encode(anyOf(result.FinalOutput))
	return g, true
}

// RunRecorded runs a plan deterministically with the interactions of the fixture as its tools. whole reports whether
// every one of them was asked for, and nothing else was.
func RunRecorded(ctx context.Context, plan *executor.Plan, fixture *flowtest.Fixture, input map[string]any) (result *executor.RunResult, whole bool) {
	ids := 0
	tools := &counted{Player: flowtest.NewPlayer(fixture)}
	result = executor.New(executor.Options{
		Invoker: tools,
		Now:     func() time.Time { return time.Time{} },
		NewID:   func() string { ids++; return fmt.Sprintf("golden-%d", ids) },
		Sleep:   func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		Limits:  executor.Limits{MaxParallelSteps: 1},
	}).Run(ctx, plan, executor.RunInput{Input: input})
	return result, tools.calls == len(fixture.Interactions) && len(tools.Stale()) == 0
}

// counted counts the calls of one run, which come one after the other.
type counted struct {
	*flowtest.Player
	calls int
}

// Invoke implements executor.Invoker.
func (c *counted) Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, call executor.CallInfo) (any, error) {
	c.calls++
	return c.Player.Invoke(ctx, tool, input, call)
}

// recorded lists the calls of a session in their order, those of nested agents included.
func recorded(s *ingest.Session) []ingest.Call {
	var out []ingest.Call
	for i := range s.Runs {
		out = append(out, s.Runs[i].Calls...)
	}
	return out
}

func anyOf(m map[string]any) any {
	if m == nil {
		return nil
	}
	return m
}
