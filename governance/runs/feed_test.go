package runs_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
)

// collect reads a run's events to their end: kinds as strings, "run" for the last one.
func collect(t *testing.T, r *runs.Reader) (kinds []string, seqs []int64, last *runs.Run) {
	t.Helper()
	defer r.Close()
	for {
		events, err := r.Next(ctx)
		if err != nil {
			require.ErrorIs(t, err, runs.ErrEnded)
			return kinds, seqs, last
		}
		for _, ev := range events {
			seqs = append(seqs, ev.Seq)
			switch {
			case ev.Run != nil:
				kinds, last = append(kinds, "run"), ev.Run
			case ev.Lost > 0:
				kinds = append(kinds, "lost")
			default:
				kinds = append(kinds, string(ev.Event.Kind))
			}
		}
	}
}

func TestEventsOfARunThatWaitsAndGoesOn(t *testing.T) {
	b := newBench(t, nil)
	b.withRefunds(t)
	run := b.waiting(t)
	reader, err := b.Events(ctx, ci, run.ID, 0)
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	_, err = reader.Next(short)
	cancel()
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing yet")
	_, err = b.Decide(ctx, bob, run.ID, runs.DecisionRequest{Decision: executor.Approve, Wait: patience})
	require.NoError(t, err)
	kinds, seqs, last := collect(t, reader)
	require.Equal(t, []string{"lost", "flow_start", "step_start", "step_end", "flow_end", "run"}, kinds, "nobody kept what was before it waited")
	require.IsIncreasing(t, seqs)
	require.Equal(t, executor.StatusSucceeded, last.State)

	// Whoever comes back after the end gets the run, and after that nothing.
	reader, err = b.Events(ctx, ci, run.ID, seqs[2])
	require.NoError(t, err)
	kinds, again, _ := collect(t, reader)
	require.Equal(t, []string{"run"}, kinds)
	require.Equal(t, seqs[len(seqs)-1], again[0])
	reader, err = b.Events(ctx, ci, run.ID, again[0])
	require.NoError(t, err)
	kinds, _, _ = collect(t, reader)
	require.Empty(t, kinds)
	_, err = b.Events(ctx, ci, "none", 0)
	refused(t, flows.CodeNotFound, err, "none")
	_, err = b.Events(ctx, ci, run.ID, -1)
	refused(t, flows.CodeInvalid, err, "Last-Event-ID")
	_, err = b.Events(ctx, governance.Actor{Principal: "x"}, run.ID, 0)
	refused(t, flows.CodeForbidden, err, "read")
}

// Readers that come late get what is kept and then what comes; values are redacted for them; a reader that goes away
// holds nothing up.
func TestReadersFollowALiveRun(t *testing.T) {
	b := newBench(t, nil)
	entered, release := make(chan struct{}), make(chan struct{})
	b.tools.Register("get_user", func(context.Context, map[string]any) (any, error) {
		close(entered)
		<-release
		return map[string]any{"name": "n"}, nil
	}, true)
	run, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input, Detach: true})
	require.NoError(t, err)
	<-entered
	reader, err := b.Events(ctx, ci, run.ID, 1)
	require.NoError(t, err)
	gone, err := b.Events(ctx, ci, run.ID, 0)
	require.NoError(t, err)
	first, err := gone.Next(ctx)
	require.NoError(t, err)
	require.Len(t, first, 4, "start, step, end, step")
	require.EqualValues(t, 1, first[0].Seq)
	require.Contains(t, first[2].Event.StepRecord.Outputs["token"], "redacted")
	short, cancel := context.WithCancel(ctx)
	cancel()
	_, err = gone.Next(short)
	require.ErrorIs(t, err, context.Canceled)
	gone.Close()
	close(release)
	kinds, seqs, _ := collect(t, reader)
	require.Equal(t, []string{"step_start", "step_end", "step_start", "step_end", "flow_end", "run"}, kinds)
	require.Equal(t, []int64{2, 3, 4, 5, 6, 7}, seqs)
}

// A run whose events are more than what is kept goes on; a reader that was too slow is told so, and one that comes back
// is told how many it lost.
func TestSlowReadersLoseEvents(t *testing.T) {
	b := newBench(t, nil)
	each := flows.Pointer("/emails")
	flow := greetFlow("user_by_email")
	flow.Name, flow.Returns = "many", nil
	flow.InputSchema = flows.RawSchema(`{"type":"object","properties":{"emails":{"type":"array","items":{"type":"string"}}},"required":["emails"]}`)
	flow.Steps[0].ForEach, flow.Steps[0].As = &each, "mail"
	emails := make([]any, 200)
	for i := range emails {
		emails[i] = "a"
	}
	b.activate(t, flow)
	var slow *runs.Reader
	started := false
	_, err := b.Run(ctx, ci, runs.Request{Flow: "many", Input: map[string]any{"emails": emails}, OnEvent: func(ev executor.Event) {
		if ev.Kind == executor.EventFlowStart && !started {
			started = true
			page, err := b.List(ctx, ci, runs.Filter{Flow: "many"})
			require.NoError(t, err)
			slow, err = b.Events(ctx, ci, page.Items[0].ID, 0)
			require.NoError(t, err)
			events, err := slow.Next(ctx)
			require.NoError(t, err)
			require.Len(t, events, 1)
		}
		if ev.Kind == executor.EventFlowEnd && ev.FlowName == "many" { // 200 flows of 6 events, 4 around them
			_, err := slow.Next(ctx)
			require.ErrorIs(t, err, runs.ErrSlow)
			page, err := b.List(ctx, ci, runs.Filter{Flow: "many"})
			require.NoError(t, err)
			back, err := b.Events(ctx, ci, page.Items[0].ID, 1)
			require.NoError(t, err)
			events, err := back.Next(ctx)
			require.NoError(t, err)
			require.Positive(t, events[0].Lost)
			require.EqualValues(t, 1204, int64(len(events)-1)+1+events[0].Lost)
			back.Close()
		}
	}})
	require.NoError(t, err)
	slow.Close()
}
