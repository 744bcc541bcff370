package api

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"pave/governance/loop"
)

func TestMiningMetrics(t *testing.T) {
	end := time.Date(2026, 11, 30, 9, 0, 0, 500_000_000, time.UTC)
	status := loop.Status{Running: true, PendingSessions: 7, Passes: 5, Failures: 1, Incremental: 3}
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(&miningCollector{status: func() loop.Status { return status }}))
	read := func() map[string]float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		out := map[string]float64{}
		for _, f := range families {
			require.Len(t, f.GetMetric(), 1)
			m := f.GetMetric()[0]
			out[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		return out
	}
	want := map[string]float64{"pave_mining_running": 1, "pave_mining_pending_sessions": 7, "pave_mining_passes_total": 5,
		"pave_mining_pass_failures_total": 1, "pave_mining_incremental_passes_total": 3}
	require.Equal(t, want, read(), "nothing of a pass before the first")
	status.Last = &loop.LastPass{Started: end.Add(-1500 * time.Millisecond), Ended: end, Calls: 220, Patterns: 2, Blocked: 9}
	want["pave_mining_last_pass_seconds"], want["pave_mining_last_pass_end_timestamp_seconds"] = 1.5, float64(end.UnixMilli())/1000
	want["pave_mining_calls"], want["pave_mining_patterns"], want["pave_mining_blocked_paths"] = 220, 2, 9
	require.Equal(t, want, read())
}
