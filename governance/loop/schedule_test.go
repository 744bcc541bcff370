package loop_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
	"pave/governance/loop"
	"pave/observer"
)

// clock is a clock that a test moves.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(start.UnixNano())
	return c
}

func (c *clock) now() time.Time       { return time.Unix(0, c.ns.Load()).UTC() }
func (c *clock) pass(d time.Duration) { c.ns.Add(int64(d)) }

// driver runs a loop by hand: look lets it look once whether there is reason to mine, and waits for the pass.
type driver struct {
	*bench
	clock *clock
	ticks chan time.Time
}

func drive(t *testing.T, settings loop.Settings) *driver {
	t.Helper()
	d := &driver{clock: newClock(), ticks: make(chan time.Time)}
	d.bench = newBenchWith(t, loop.Options{Settings: settings, Now: d.clock.now})
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { d.Run(running, tenant, d.ticks) })
	t.Cleanup(func() { stop(); wg.Wait() })
	return d
}

// look ticks twice: the second tick is taken when the pass of the first is over, and finds nothing new.
func (d *driver) look(t *testing.T) loop.Status {
	t.Helper()
	d.ticks <- d.clock.now()
	d.ticks <- d.clock.now()
	return d.Status()
}

func (d *driver) assemble(t *testing.T) {
	t.Helper()
	_, err := d.assembler.Run(ctx, tenant, time.Time{})
	require.NoError(t, err)
}

func TestLoopMinesWhenThereIsReason(t *testing.T) {
	d := drive(t, loop.Settings{Interval: 15 * time.Minute, AfterSessions: 30, MinPause: time.Minute})
	s := d.look(t)
	require.True(t, s.Automatic)
	require.Zero(t, s.Passes, "nothing yet, but what an earlier process left waits for the interval")
	require.Equal(t, start.Add(15*time.Minute), s.NextAt)

	d.work(t, 20)
	d.assemble(t)
	require.Equal(t, 20, d.look(t).PendingSessions)
	require.Zero(t, d.Status().Passes)
	d.work(t, 20)
	d.assemble(t)
	s = d.look(t)
	require.Equal(t, 1, s.Passes)
	require.Zero(t, s.PendingSessions)
	require.Equal(t, governance.TriggerSessions, s.Last.Trigger)
	require.Equal(t, governance.ModeFull, s.Last.Mode)
	require.Equal(t, governance.MiningDone, s.Last.State)
	require.Equal(t, 40, s.Last.Sessions)
	require.Equal(t, 1, s.Last.Patterns)
	require.False(t, s.Running)
	page, err := d.gov.Proposals(ctx, ann, governance.ProposalFilter{Source: "miner"})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)

	d.work(t, 40)
	d.assemble(t)
	require.Equal(t, 1, d.look(t).Passes, "not before the pause is over")
	d.clock.pass(time.Minute)
	require.Equal(t, 2, d.look(t).Passes)

	d.clock.pass(time.Hour)
	require.Equal(t, 2, d.look(t).Passes, "nothing is new")
	d.work(t, 1)
	d.assemble(t)
	s = d.look(t)
	require.Equal(t, 3, s.Passes)
	require.Equal(t, governance.TriggerInterval, s.Last.Trigger)
	run, err := d.gov.MiningRun(ctx, ann, s.Last.RunID)
	require.NoError(t, err)
	require.Equal(t, governance.TriggerInterval, run.Trigger)
	require.Equal(t, 81, run.Result.Sessions)
}

func TestLoopMinesWhenToolsChange(t *testing.T) {
	d := drive(t, loop.Settings{Interval: time.Hour, AfterSessions: 1, FullBelow: 1})
	d.work(t, 40)
	d.assemble(t)
	require.Equal(t, 1, d.look(t).Passes)
	d.clock.pass(2 * time.Minute)
	require.Equal(t, 1, d.look(t).Passes)
	tools, err := flows.ParseTools([]byte("kind: Tool\nname: get_user\ndescription: Reads a user.\ninput_schema: {type: object, properties: {user_id: {type: string}}, required: [user_id]}\nsafety: {side_effects: read}\n"))
	require.NoError(t, err)
	_, err = d.gov.ApplyTools(ctx, admin, tools)
	require.NoError(t, err)
	s := d.look(t)
	require.Equal(t, 2, s.Passes)
	require.Equal(t, governance.TriggerTools, s.Last.Trigger)
	require.Equal(t, governance.ModeFull, s.Last.Mode, "the drafts depend on the tools")
	require.False(t, s.ToolsChanged)
}

// Between full passes the days that changed are counted, and the proposal in the queue gets the evidence of now.
func TestLoopIsIncremental(t *testing.T) {
	d := drive(t, loop.Settings{AfterSessions: 1, FullBelow: 1, FullGrowth: 0.2, FullEvery: 24 * time.Hour})
	d.work(t, 100)
	d.assemble(t)
	require.Equal(t, governance.ModeFull, d.look(t).Last.Mode)
	proposal := func() governance.Proposal {
		page, err := d.gov.Proposals(ctx, ann, governance.ProposalFilter{Source: "miner"})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		return page.Items[0]
	}
	first := proposal()
	require.Equal(t, 100, first.Evidence.Pattern.Sessions)

	d.clock.pass(5 * time.Minute)
	d.work(t, 10)
	d.assemble(t)
	s := d.look(t)
	require.Equal(t, governance.ModeIncremental, s.Last.Mode)
	require.Equal(t, 1, s.Incremental)
	// Sessions come by the hour from nine in the morning: 99 are in the first five days, the last of which goes on.
	require.Equal(t, &observer.Increment{Days: 1, Calls: 2 * (110 - 87), Growth: 1.1}, s.Last.Increment)
	now := proposal()
	require.Equal(t, first.ID, now.ID)
	require.Equal(t, first.Digest, now.Digest)
	require.Equal(t, 110, now.Evidence.Pattern.Sessions)
	require.Equal(t, 110, now.Evidence.Pattern.Occurrences)
	require.Equal(t, 110, now.Evidence.Window.Sessions)
	run, err := d.gov.MiningRun(ctx, ann, s.Last.RunID)
	require.NoError(t, err)
	require.Equal(t, 220, run.Result.Calls)
	require.Equal(t, 1, run.Report.Count(governance.OutcomeUpdated))

	d.clock.pass(5 * time.Minute)
	d.work(t, 15)
	d.assemble(t)
	s = d.look(t)
	require.Equal(t, governance.ModeFull, s.Last.Mode, "a quarter more than at the last full pass")
	require.InDelta(t, 1.25, s.Last.Increment.Growth, 1e-9)
	require.Equal(t, 125, proposal().Evidence.Pattern.Sessions)

	d.clock.pass(24 * time.Hour)
	d.work(t, 1)
	d.assemble(t)
	require.Equal(t, governance.ModeFull, d.look(t).Last.Mode, "once a day")

	// Somebody may ask for an incremental pass, but not with a window.
	asked, err := d.MineOnce(ctx, ann, governance.MiningRequest{Incremental: true})
	require.NoError(t, err)
	require.Equal(t, governance.ModeIncremental, asked.Mode)
	require.Zero(t, asked.Increment.Days)
	_, err = d.MineOnce(ctx, ann, governance.MiningRequest{Incremental: true, MaxLength: 4})
	require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
}

func TestLoopThatIsOffMinesOnlyWhenAsked(t *testing.T) {
	d := drive(t, loop.Settings{Interval: -1})
	d.work(t, 60)
	d.assemble(t)
	select {
	case d.ticks <- d.clock.now():
		t.Fatal("the loop looks")
	default:
	}
	require.False(t, d.Status().Automatic)
	_, err := d.MineOnce(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err)
	require.Equal(t, 1, d.Status().Passes)
	require.Equal(t, governance.TriggerRequest, d.Status().Last.Trigger)
}

// A pass that takes too long ends and says which setting bounds it; what it should have taken in still waits.
func TestPassIsBoundedInTime(t *testing.T) {
	b := newBenchWith(t, loop.Options{Settings: loop.Settings{MaxTime: 10 * time.Millisecond}})
	b.work(t, 5)
	hold := make(chan struct{})
	b.events.hold.Store(&hold)
	run, err := b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.Error(t, err) // that of whatever the end of the time broke
	require.Equal(t, governance.MiningFailed, run.State)
	require.Contains(t, run.Error, "mining.max_time")
	require.Equal(t, 1, b.Status().Failures)
	require.Equal(t, 5, b.Status().PendingSessions)
}

// Somebody who asks waits for a pass that began by itself.
func TestRequestWaitsForAPassByItself(t *testing.T) {
	d := drive(t, loop.Settings{AfterSessions: 1})
	d.work(t, 40)
	hold := make(chan struct{})
	d.events.hold.Store(&hold)
	d.assemble(t)
	d.ticks <- d.clock.now()
	require.Eventually(t, func() bool { return d.Status().Phase == "observe" }, 10*time.Second, time.Millisecond)
	s := d.Status()
	require.True(t, s.Running)
	require.Equal(t, governance.TriggerSessions, s.Trigger)
	var asked *governance.MiningRun
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { asked, err = d.MineOnce(ctx, ann, governance.MiningRequest{}) })
	d.events.hold.Store(nil)
	close(hold)
	wg.Wait()
	require.NoError(t, err)
	require.NotEqual(t, s.RunID, asked.ID)
	require.Equal(t, 2, d.Status().Passes)
	require.Empty(t, d.Status().Trigger)
}

func TestExplainByTheLoop(t *testing.T) {
	b := newBench(t)
	b.work(t, 40)
	_, err := b.Explain(ctx, ann, []string{"find_user"})
	require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
	run, err := b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err)
	e, err := b.Explain(ctx, ann, []string{"find_user", "get_user"})
	require.NoError(t, err)
	require.Equal(t, observer.VerdictPattern, e.Verdict)
	require.Equal(t, run.ID, e.RunID)
	require.Len(t, e.Proposals, 1)
	require.Equal(t, governance.OutcomeCreated, e.Proposals[0].Outcome)
	require.Empty(t, e.Dropped)
	b.events.away.Store(true)
	_, err = b.Explain(ctx, ann, []string{"find_user", "get_user"})
	require.Equal(t, flows.CodeUnavailable, flows.CodeOf(err))
}
