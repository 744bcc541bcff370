package governance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
	"pave/governance/store"
)

// walked records walks of the only target: so many exact ones and then so many others.
func (b *bench) walked(exact, other int) {
	targets, err := b.ShadowTargets(ctx, "default")
	require.NoError(b.t, err)
	require.Len(b.t, targets, 1)
	w := governance.Walks{Target: targets[0], Sessions: exact + other, Days: map[int64]governance.DayWalks{20000: {Walks: int64(exact + other), Exact: int64(exact), Missed: int64(exact + other), Calls: int64(2 * (exact + other))}}}
	w.Agents = map[governance.AgentDay]governance.AgentWalks{{Agent: "north", Day: 20000}: {FlowCalls: 3}, {Agent: "south", Day: 20000}: {Walks: int64(exact + other), FlowCalls: 4}}
	for i := range exact + other {
		w.Exact = append(w.Exact, i < exact)
	}
	require.NoError(b.t, b.RecordWalks(ctx, "default", []governance.Walks{w}))
}

func (b *bench) watch() []string {
	taken, err := b.Watch(ctx, "default")
	require.NoError(b.t, err)
	return taken
}

func TestShadowBeforePromotion(t *testing.T) {
	b, id := ready(t)
	policy := governance.DefaultPolicy()
	policy.RequireShadow = true
	require.NoError(t, b.SetPolicy(ctx, admin, policy, 0))
	targets, err := b.ShadowTargets(ctx, "default")
	require.NoError(t, err)
	require.Empty(t, targets, "only what was approved is watched")
	b.approve(id, bob)
	_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
	refused(t, flows.CodeShadow, err, "no session")
	b.walked(72, 0)
	_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
	refused(t, flows.CodeShadow, err, "72 of 72")
	b.walked(1, 0)
	require.Equal(t, 73, b.get(id).Shadow.Exact)

	edited := userFlow("f")
	edited.Description = "Another."
	_, err = b.Edit(ctx, alice, id, governance.EditRequest{Flow: edited})
	require.NoError(t, err)
	require.Nil(t, b.get(id).Shadow, "what another draft predicted says nothing")
	b.approve(id, bob)
	b.walked(80, 0)
	_, err = b.Promote(ctx, bob, id, governance.PromoteRequest{})
	require.NoError(t, err)
}

// Of a flow that takes whole calls and predicts none, the shadow says what callers could have given.
func TestShadowOfWhatIsGiven(t *testing.T) {
	b := newBench(t)
	policy := governance.DefaultPolicy()
	policy.RequireShadow = true
	require.NoError(t, b.SetPolicy(ctx, admin, policy, 0))
	b.apply(findUser(), getUser())
	c := candidate(userFlow("f"), "k", 10, 100)
	c.Savings.PerCall = true
	id := b.one(c).ProposalID
	b.approve(id, bob)
	b.walked(5, 1)
	require.True(t, b.get(id).Shadow.Given)
	_, err := b.Promote(ctx, bob, id, governance.PromoteRequest{})
	refused(t, flows.CodeShadow, err, "callers could have given several calls, all as they were made, in 5 of 6 walks")
}

// Later evidence, labels and looks at a draft do not move the time from which it is watched, nor what was seen.
func TestWhatIsWatchedStaysWatched(t *testing.T) {
	b, id := ready(t)
	b.approve(id, bob)
	watched := func() time.Time {
		targets, err := b.ShadowTargets(ctx, "default")
		require.NoError(t, err)
		require.Len(t, targets, 1)
		return targets[0].Since
	}
	since := watched()
	require.Equal(t, b.get(id).Reviews[0].At, since)
	b.walked(3, 1)
	require.Equal(t, governance.OutcomeUpdated, b.one(candidate(userFlow("f"), "k", 12, 100)).Outcome)
	who := "person:carol"
	_, err := b.Edit(ctx, alice, id, governance.EditRequest{Assignee: &who})
	require.NoError(t, err)
	require.Equal(t, since, watched())
	require.Equal(t, 4, b.get(id).Shadow.Windows)
}

func TestFallingConformanceTakesAVersionOut(t *testing.T) {
	b := newBench(t)
	b.promoted()
	b.walked(0, 49)
	require.Empty(t, b.watch(), "49 walks are too few to judge")
	b.walked(45, 0)
	b.walked(0, 5)
	require.Empty(t, b.watch(), "45 of the last 50 are 0.9")
	b.walked(0, 1)
	require.Equal(t, []string{"user_by_email@1.0.0"}, b.watch())
	v, err := b.Flow(ctx, bob, "user_by_email", "")
	require.NoError(t, err)
	require.Equal(t, flows.StatusNeedsReview, v.Status)
	require.Contains(t, v.Reason, "88 %")
	require.Contains(t, b.actions(), "flow.watch")
	require.Empty(t, b.watch(), "once")
	_, err = b.SetFlowStatus(ctx, bob, "user_by_email", "1.0.0", governance.StatusRequest{Status: flows.StatusActive})
	require.NoError(t, err)
	require.Empty(t, b.watch(), "what was held against it is not held against it again")
}

// ended stores finished runs of the promoted flow.
func (b *bench) ended(state string, n int) {
	require.NoError(b.t, b.db.Update(ctx, func(tx *store.Tx) error {
		for range n {
			at := b.clock.now()
			row := store.RunRow{ID: fmt.Sprint("run", at.UnixNano()), Flow: "user_by_email", Version: "1.0.0", State: state, Started: at,
				Ended: b.clock.now(), Body: []byte("{}")}
			if err := tx.InsertRun("default", row); err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestFailuresTakeAVersionOut(t *testing.T) {
	b := newBench(t)
	b.promoted()
	require.Empty(t, b.watch())
	url := "http://receiver.example/hook"
	hook, _, err := b.CreateWebhook(ctx, admin, governance.WebhookRequest{URL: &url})
	require.NoError(t, err)
	b.ended("failed", 10)
	require.Empty(t, b.watch(), "10 runs are too few to judge")
	b.ended("succeeded", 10)
	require.Empty(t, b.watch(), "10 of 20 are not more than half")
	b.ended("failed", 11)
	require.Equal(t, []string{"user_by_email@1.0.0"}, b.watch())
	v, err := b.Flow(ctx, bob, "user_by_email", "")
	require.NoError(t, err)
	require.Contains(t, v.Reason, "11 of its last 20 runs failed")
	log, err := b.Deliveries(ctx, admin, hook.ID, 100, "")
	require.NoError(t, err)
	events := map[string]int{}
	for _, d := range log.Items {
		events[d.Event]++
	}
	require.Equal(t, map[string]int{"flow.needs_review": 1}, events)
}

func TestUnusedVersionsAreTakenOut(t *testing.T) {
	b := newBench(t)
	b.promoted()
	b.clock.advance(89 * 24 * time.Hour)
	require.Empty(t, b.watch())
	b.ended("succeeded", 1)
	b.clock.advance(89 * 24 * time.Hour)
	require.Empty(t, b.watch(), "somebody ran it meanwhile")
	b.clock.advance(2 * 24 * time.Hour)
	require.Len(t, b.watch(), 1)
	v, err := b.Flow(ctx, bob, "user_by_email", "")
	require.NoError(t, err)
	require.Contains(t, v.Reason, "nobody ran it for 91 days")
}
