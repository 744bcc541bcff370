package app

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/api"
	"pave/api/gen"
	"pave/governance"
)

// walk records a session in which an agent looks up an order and its ship by hand.
func walk(t *testing.T, c *gen.ClientWithResponses, session, order string) {
	t.Helper()
	text := fmt.Sprintf(`{"event":"user_message","session_id":%[1]q,"text":"where is %[2]s?"}
{"session_id":%[1]q,"trace_id":%[3]q,"call_id":"a","tool":"find_order","args":{"order":%[2]q},"result":{"ship":"ship-of-%[2]s"},"status":"ok"}
{"session_id":%[1]q,"trace_id":%[3]q,"call_id":"b","tool":"find_ship","args":{"ship":"ship-of-%[2]s"},"result":{"at":"harbour-of-%[2]s"},"status":"ok"}
`, session, order, traceOfSession(session))
	in, err := c.RecordToolCallsWithBodyWithResponse(t.Context(), &gen.RecordToolCallsParams{}, "application/x-ndjson", strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, in.StatusCode(), string(in.Body))
	require.Zero(t, in.JSON200.RejectedCount, string(in.Body))
}

func traceOfSession(session string) string { return fmt.Sprintf("%032x", session) }

// TestDeletionReachesWhatWasMadeOfASession deletes one of the sessions that a flow was mined from, that is its golden test
// and that ran it, and looks for its values in every file afterwards.
func TestDeletionReachesWhatWasMadeOfASession(t *testing.T) {
	a, c, _ := traced(t, TelemetryOptions{})
	ctx := t.Context()
	const canary = "o-canary-8814"
	walk(t, c, "s-gone", canary)
	for i := range 9 {
		walk(t, c, fmt.Sprint("s-", i), fmt.Sprint("o-", i))
	}
	// The flow in service is replaced by one whose golden tests are those sessions.
	doc := strings.Replace(tracedFlow, "Finds a ship.", "Finds the ship of an order.", 1)
	mined, err := c.StartMiningRunWithResponse(ctx, &gen.StartMiningRunParams{Wait: true}, gen.MiningRequest{MinSessions: 3})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, mined.StatusCode(), string(mined.Body))
	made, err := c.SubmitProposalWithResponse(ctx, nil, gen.ProposalCreate{Flow: json.RawMessage(doc)})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, made.StatusCode(), string(made.Body))
	ok, err := c.ReviewProposalWithResponse(ctx, made.JSON201.ID, &gen.ReviewProposalParams{IfMatch: made.HTTPResponse.Header.Get("ETag")}, gen.ReviewCreate{Verdict: gen.VerdictApprove, Digest: made.JSON201.Digest})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, ok.StatusCode(), string(ok.Body))
	check, err := a.gate.CheckReplay(ctx, a.localActor(), made.JSON201.ID, 0)
	require.NoError(t, err)
	require.Equal(t, 10, check.Exact)
	done, err := c.PromoteProposalWithResponse(ctx, made.JSON201.ID, &gen.PromoteProposalParams{IfMatch: ok.HTTPResponse.Header.Get("ETag")}, gen.PromoteRequest{})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, done.StatusCode(), string(done.Body))
	run := runTraced(t, c, canary, "00-"+traceOfSession("s-gone")+"-00f067aa0ba902b7-01")
	other := runTraced(t, c, "o-1", "00-"+traceOfSession("s-1")+"-00f067aa0ba902b7-01")
	_, tests, _, err := a.gate.FlowTests(ctx, a.localActor(), "where_is", "")
	require.NoError(t, err)
	require.Len(t, tests, governance.MaxGoldenTests)
	var among int
	for _, test := range tests {
		if test.SessionID == "s-gone" {
			among++
		}
	}

	gone, err := c.DeleteSessionWithResponse(ctx, "s-gone")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, gone.StatusCode(), string(gone.Body))
	r := gone.JSON200
	require.EqualValues(t, 2, r.Sessions, "the session and that of its flow run")
	require.EqualValues(t, 5, r.Events)
	require.EqualValues(t, 4, r.ToolCalls)
	require.EqualValues(t, []int64{1, 0}, []int64{r.Runs, r.RunsOpen})
	require.EqualValues(t, among, r.GoldenTests)
	require.EqualValues(t, 1, r.MiningRuns)
	require.NotZero(t, r.Proposals+r.ReplayChecks)

	kept, err := c.GetRunWithResponse(ctx, run.ID)
	require.NoError(t, err)
	require.Equal(t, "succeeded", string(kept.JSON200.Status))
	require.Equal(t, 2, kept.JSON200.Steps, "what happened stays, without values")
	require.False(t, kept.JSON200.ErasedAt.IsZero())
	replayed, err := c.ReplayRunWithResponse(ctx, run.ID, gen.ReplayRequest{})
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, replayed.StatusCode())
	whole, err := c.GetRunWithResponse(ctx, other.ID)
	require.NoError(t, err)
	require.Contains(t, string(whole.JSON200.Output), "harbour", "other runs keep their values")
	require.True(t, whole.JSON200.ErasedAt.IsZero())
	_, left, _, err := a.gate.FlowTests(ctx, a.localActor(), "where_is", "")
	require.NoError(t, err)
	require.Len(t, left, governance.MaxGoldenTests-among)
	report, err := c.GetSavingsReportWithResponse(ctx, nil)
	require.NoError(t, err)
	require.EqualValues(t, 2, report.JSON200.Total.Runs, "reports stay as they were")
	again, err := c.DeleteSessionWithResponse(ctx, "s-gone")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, again.StatusCode())
	_, err = a.gate.VerifyAudit(ctx, a.localActor())
	require.NoError(t, err)

	// Nothing of it can be read any more. Freed pages of the files may hold it until they are used again, but not copies.
	for _, path := range []string{"/api/v1/runs/" + run.ID, "/api/v1/proposals", "/api/v1/proposals/" + made.JSON201.ID, "/api/v1/patterns?limit=500", "/api/v1/tool-calls",
		"/api/v1/proposals/" + made.JSON201.ID + "/replay-checks", "/api/v1/flows/where_is/versions/" + done.JSON200.Version + "/tests", "/api/v1/mining-runs/" + mined.JSON200.ID} {
		body := fetch(t, a, path)
		require.NotContains(t, body, canary, path)
		require.NotContains(t, body, "s-gone", path)
	}
	dir := a.opts.DataDir
	require.NoError(t, a.Close())
	backup := filepath.Join(t.TempDir(), "backup")
	_, err = Backup(ctx, dir, backup, "test") // compact: without freed pages
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(backup, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		require.NotContains(t, string(raw), canary, path)
		return err
	}))
}

// fetch is the body of an answer to the local user.
func fetch(t *testing.T, a *App, path string) string {
	t.Helper()
	actor := a.localActor()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
	require.NoError(t, err)
	resp, err := api.Transport(a.Handler(), &actor).RoundTrip(r)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", path, body)
	return string(body)
}
