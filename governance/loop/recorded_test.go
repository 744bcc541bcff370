package loop_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
	"pave/governance/runs"
	"pave/ingest"
	"pave/ingest/transcript"
)

// recorded finds a folder of recorded calls beside the repository, or skips.
func recorded(t *testing.T, names ...string) []string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	var paths []string
	for _, name := range names {
		path := filepath.Join(dir, "..", "shared", "data", "calls", name)
		if _, err := os.Stat(path); err != nil {
			t.Skip("recorded data not present: " + name)
		}
		paths = append(paths, path)
	}
	return paths
}

// TestRecordedCustomerService mines calls of two recorded customer-service domains out of a real event store.
func TestRecordedCustomerService(t *testing.T) {
	paths := recorded(t, "tau-retail.jsonl", "tau-airline.jsonl")
	b := newBench(t)
	report, err := transcript.Import(ctx, paths, transcript.Options{}, func(events []ingest.Event) error {
		_, err := b.record.Record(ctx, tenant, events)
		return err
	})
	require.NoError(t, err)
	require.Zero(t, report.RejectedCount)

	began := time.Now()
	run, err := b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err)
	t.Logf("mined %d calls of %d sessions in %s: %d patterns, %d candidates", run.Result.Calls, run.Result.Sessions,
		time.Since(began).Round(time.Millisecond), len(run.Result.Patterns), run.Candidates)
	require.Equal(t, report.ToolCalls, run.Result.Calls, "every call is read once")

	page, err := b.gov.Proposals(ctx, ann, governance.ProposalFilter{Limit: 50})
	require.NoError(t, err)
	versions, err := b.gov.Tools(ctx, ann)
	require.NoError(t, err)
	known := map[string]*flows.Tool{}
	for _, v := range versions {
		known[v.Tool.Name] = v.Tool
	}
	var queue [][]string
	for _, p := range page.Items {
		var tools []string
		for i := range p.Flow.Steps {
			tools = append(tools, p.Flow.Steps[i].ToolName)
		}
		queue = append(queue, tools)
		require.Equal(t, p.Digest, flows.Digest(p.Flow))
		require.Empty(t, runs.Check(p.Flow, known, nil), "%s compiles against the inferred tools", p.Flow.Name)
	}
	queue = queue[:min(10, len(queue))]
	require.Contains(t, queue, []string{"find_user_id_by_name_zip", "get_user_details"})
	require.Contains(t, queue, []string{"find_user_id_by_email", "get_user_details"})

	again, err := b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err)
	for _, item := range again.Report.Items {
		require.Contains(t, []governance.Outcome{governance.OutcomeUnchanged, governance.OutcomeCapped}, item.Outcome,
			"mining the same data again changes nothing: %s", item.Flow)
	}
}
