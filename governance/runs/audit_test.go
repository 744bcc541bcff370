package runs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
)

// The audit log has who started each run, and as whom; a request that starts none leaves no event.
func TestStartsOfRunsAreAudited(t *testing.T) {
	b := newBench(t, nil)
	type event struct{ Actor, Object, Detail string }
	var want []event
	run := func(as governance.Actor, req runs.Request, detail string) {
		t.Helper()
		req.Flow, req.Input = "user_by_email", input
		done, err := b.Run(ctx, as, req)
		require.NoError(t, err)
		want = append(want, event{as.Principal, "run/" + done.ID, detail})
	}
	run(ci, runs.Request{IdempotencyKey: "k"}, `{"flow":"user_by_email@1.0.0"}`)
	run(ci, runs.Request{DryRun: true}, `{"dry_run":true,"flow":"user_by_email@1.0.0"}`)
	dana := governance.Actor{Principal: "person:dana", Via: "person:root", Scopes: ci.Scopes}
	run(dana, runs.Request{Detach: true, Wait: patience}, `{"via":"person:root","flow":"user_by_email@1.0.0"}`)

	again, err := b.Run(ctx, ci, runs.Request{Flow: "user_by_email", Input: input, IdempotencyKey: "k"})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	_, err = b.Run(ctx, ci, runs.Request{Flow: "nobody", Input: input})
	refused(t, flows.CodeNotFound, err, "nobody")
	_, err = b.Run(ctx, bob, runs.Request{Flow: "user_by_email", Input: input})
	refused(t, flows.CodeForbidden, err, "run")

	events, err := b.gov.Audit(ctx, admin, 0, 500)
	require.NoError(t, err)
	var got []event
	for _, e := range events {
		if e.Action == "run.start" {
			got = append(got, event{e.Actor, e.Object, string(e.Detail)})
		}
	}
	require.Equal(t, want, got)
	n, err := b.gov.VerifyAudit(ctx, admin)
	require.NoError(t, err)
	require.EqualValues(t, len(events), n)

	usage, err := b.gov.Usage(ctx, admin, time.Time{}, time.Time{})
	require.NoError(t, err)
	for _, u := range usage {
		if u.Principal == ci.Principal {
			require.Equal(t, []int64{1, 1, 0}, []int64{u.Runs, u.DryRuns, u.Changes}, "a run changes nothing of the installation")
		}
	}
}
