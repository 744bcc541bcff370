package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/governance"
	"pave/governance/runs"
	"pave/governance/store"
)

// told subscribes a webhook to failed runs and returns what reads the runs that its outbox holds.
func (b *bench) told(t testing.TB) func() []string {
	url, events := "http://receiver.example/hook", []string{governance.EventRunFailed}
	hook, _, err := b.gov.CreateWebhook(ctx, admin, governance.WebhookRequest{URL: &url, Events: &events})
	require.NoError(t, err)
	return func() (objects []string) {
		log, err := b.gov.Deliveries(ctx, admin, hook.ID, 100, "")
		require.NoError(t, err)
		for _, d := range log.Items {
			var body struct {
				Event, Object string
				Detail        struct{ Flow, Version, Caller string }
			}
			require.NoError(t, json.Unmarshal(d.Body, &body))
			require.Equal(t, governance.EventRunFailed, body.Event)
			require.Equal(t, []string{"count", "1.0.0", ci.Principal}, []string{body.Detail.Flow, body.Detail.Version, body.Detail.Caller})
			objects = append(objects, body.Object)
		}
		return objects
	}
}

func TestFailedRunsAreToldOnce(t *testing.T) {
	b := newBench(t, nil)
	b.chain(t, 2, true)
	told := b.told(t)
	broken := errors.New("broken")
	b.tools.Register("add1", func(context.Context, map[string]any) (any, error) { return nil, broken }, true)
	in := map[string]any{"n": int64(1)}
	run, err := b.Run(ctx, ci, runs.Request{Flow: "count", Input: in})
	require.NoError(t, err)
	require.Equal(t, executor.StatusFailed, run.State)
	require.Equal(t, []string{"run/" + run.ID}, told())
	b.onCall("add1", func() {})
	_, err = b.Run(ctx, ci, runs.Request{Flow: "count", Input: in})
	require.NoError(t, err)
	b.restart(t)
	require.Len(t, told(), 1, "neither a success nor a restart tells anything")
}

// quiet is an outbox that cannot be written.
type quiet struct{}

func (quiet) RunFailed(*store.Tx, string, governance.FailedRun) error { return errors.New("no room") }

// The end of a run and what webhooks are told of it are one transaction: where the process is killed before it, the run
// goes on at the next start and is told of then.
func TestAFailureIsNotKeptWithoutBeingTold(t *testing.T) {
	b := newBench(t, nil)
	b.chain(t, 2, true)
	told := b.told(t)
	b.tools.Register("add1", func(context.Context, map[string]any) (any, error) { return nil, errors.New("broken") }, true)
	b.opts.Outbox = quiet{}
	b.restart(t)
	_, err := b.Run(ctx, ci, runs.Request{Flow: "count", Input: map[string]any{"n": int64(1)}})
	require.NoError(t, err)
	require.Equal(t, runs.StateRunning, b.only(t).State, "its end was not kept")
	require.Empty(t, told())

	b.kill(t)
	b.opts.Outbox = b.gov
	b.reopen(t)
	resumed, err := b.Recover(ctx, tenant)
	require.NoError(t, err)
	require.Equal(t, 1, resumed)
	require.Eventually(t, func() bool { return b.only(t).State == executor.StatusFailed }, patience, 1e6)
	require.Equal(t, []string{"run/" + b.only(t).ID}, told())
}
