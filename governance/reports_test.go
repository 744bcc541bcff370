package governance_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
	eventstore "pave/ingest/store"
)

// days is an event store that knows sums by day.
type days struct{ err error }

func (d days) RunStats(context.Context, string, time.Time, time.Time) ([]eventstore.RunStat, error) {
	return nil, d.err
}

func (d days) SessionDays(context.Context, string, time.Time, time.Time) ([]eventstore.SessionDay, error) {
	return []eventstore.SessionDay{{Day: 19999, Sessions: 1, ToolCalls: 10, LLMCalls: 3}, {Day: 20000, Sessions: 5, ToolCalls: 40, LLMCalls: 20}}, d.err
}

func (d days) RunDays(context.Context, string, time.Time, time.Time) ([]eventstore.RunDay, error) {
	return []eventstore.RunDay{{Day: 20000, RunStat: eventstore.RunStat{Flow: "user_by_email", Version: "1.0.0", Runs: 4, Succeeded: 2, Failed: 1, Denied: 1, StepsDone: 8,
		SumDuration: 10 * time.Millisecond, LLMCallsAvoided: 6, TokensAvoided: 900, CostAvoidedUSD: 0.5, LatencyAvoided: 3 * time.Second}}}, d.err
}

func TestReportsByDay(t *testing.T) {
	b := open(t, t.TempDir(), func(o *governance.Options) { o.Stats = days{} })
	b.promoted()
	b.walked(9, 3) // on day 20000
	require.NoError(t, b.RecordWalks(ctx, "default", nil))
	changed := getUser()
	changed.OutputSchema = raw(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"]}`)
	b.apply(changed)
	today := b.clock.at.Format(time.DateOnly)
	for kind, want := range map[governance.ReportKind]string{
		governance.ReportSavings:     "day,flow,version,runs,llm_calls_avoided,tokens_avoided,cost_usd_avoided,latency_ms_avoided,run_time_ms\n2024-10-04,user_by_email,1.0.0,4,6,900,0.5,3000,10\n",
		governance.ReportReliability: "day,flow,version,runs,succeeded,failed,handed_back,denied,failure_rate,mean_duration_ms\n2024-10-04,user_by_email,1.0.0,4,2,1,0,1,0.3333333333333333,2.5\n",
		governance.ReportAdoption:    "day,flow,version,runs,walks,adoption\n2024-10-04,user_by_email,1.0.0,4,12,0.25\n",
		governance.ReportAgents:      "day,flow,version,agent,flow_calls,walks,adoption\n2024-10-04,user_by_email,1.0.0,north,3,0,1\n2024-10-04,user_by_email,1.0.0,south,4,12,0.25\n",
		governance.ReportCoverage: "day,sessions,tool_calls,llm_calls,walked_calls,flow_steps,coverage,realised\n" +
			"2024-10-03,1,10,3,0,0,0,0\n2024-10-04,5,40,20,24,8,0.8,0.2\n",
		governance.ReportDrift: "day,flow,version,walks,exact,conformance,taken_out\n2024-10-04,user_by_email,1.0.0,12,9,0.75,0\n" +
			today + ",user_by_email,1.0.0,0,0,0,1\n",
	} {
		report, err := b.Report(ctx, carol, kind, time.Time{}, time.Time{})
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, report.WriteCSV(&out))
		require.Equal(t, want, out.String(), kind)
	}
	late, err := b.Report(ctx, carol, governance.ReportAdoption, time.Unix(20001*86400, 0), time.Time{})
	require.NoError(t, err)
	require.Len(t, late.Rows, 1, "walks of days before are left out; the double knows no range")
	_, err = b.Report(ctx, carol, "weather", time.Time{}, time.Time{})
	refused(t, flows.CodeInvalid, err, "weather")
	_, err = b.Report(ctx, actor("person:x", governance.ScopeRun), governance.ReportDrift, time.Time{}, time.Time{})
	refused(t, flows.CodeForbidden, err, "read")
	away := open(t, t.TempDir(), func(o *governance.Options) { o.Stats = days{fmt.Errorf("x: %w", eventstore.ErrUnavailable)} })
	_, err = away.Report(ctx, carol, governance.ReportCoverage, time.Time{}, time.Time{})
	refused(t, flows.CodeUnavailable, err, "later")
}

// A walk by hand is compared with every version in service, and is missed by the one that was offered.
func TestAWalkIsMissedOnce(t *testing.T) {
	b := open(t, t.TempDir(), func(o *governance.Options) { o.Stats = days{} })
	b.promoted()
	next, err := b.rolledOut(retried(2), 1)
	require.NoError(t, err)
	require.Equal(t, "1.1.0", next.Flow.Version)
	targets, err := b.ShadowTargets(ctx, "default")
	require.NoError(t, err)
	require.Len(t, targets, 2)
	var all []governance.Walks
	for _, target := range targets {
		day := governance.DayWalks{Walks: 12, Exact: 9}
		if target.Current {
			day.Missed, day.Calls = 12, 24
		}
		all = append(all, governance.Walks{Target: target, Sessions: 12, Days: map[int64]governance.DayWalks{20000: day}})
	}
	require.NoError(t, b.RecordWalks(ctx, "default", all))
	for kind, want := range map[governance.ReportKind][][]any{
		governance.ReportAdoption: {{"2024-10-04", "user_by_email", "1.0.0", int64(4), int64(0), 1.0}, {"2024-10-04", "user_by_email", "1.1.0", int64(0), int64(12), 0.0}},
		governance.ReportDrift: {{"2024-10-04", "user_by_email", "1.0.0", int64(12), int64(9), 0.75, int64(0)},
			{"2024-10-04", "user_by_email", "1.1.0", int64(12), int64(9), 0.75, int64(0)}},
		governance.ReportCoverage: {{"2024-10-03", int64(1), int64(10), int64(3), int64(0), int64(0), 0.0, 0.0},
			{"2024-10-04", int64(5), int64(40), int64(20), int64(24), int64(8), 0.8, 0.2}},
	} {
		report, err := b.Report(ctx, carol, kind, time.Time{}, time.Time{})
		require.NoError(t, err)
		require.Equal(t, want, report.Rows, kind)
	}
}

func TestCSVIsNoFormula(t *testing.T) {
	r := &governance.Report{Columns: []string{"day", "flow"}, Rows: [][]any{{"2024-10-04", "=cmd|' /C calc'!A0"}, {"2024-10-04", "-1+2"}}}
	var out strings.Builder
	require.NoError(t, r.WriteCSV(&out))
	require.Equal(t, "day,flow\n2024-10-04,'=cmd|' /C calc'!A0\n2024-10-04,'-1+2\n", out.String())
}
