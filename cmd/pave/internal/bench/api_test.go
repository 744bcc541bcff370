package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/cmd/pave/internal/app"
	"pave/governance"
	statestore "pave/governance/store"
	"pave/ingest"
	"pave/ingest/store/sqlite"
)

// What the bench measures over is there: sessions, runs in both stores, proposals, walks and drifts.
func TestInstallationOfTheAPIBench(t *testing.T) {
	in := installation{dir: filepath.Join(t.TempDir(), "data"), calls: 2 * callsPerDrift, proposals: 30, note: func(string, ...any) {}}
	require.NoError(t, in.fill(t.Context()))
	events, err := sqlite.Open(t.Context(), filepath.Join(in.dir, "events.db"), sqlite.Options{})
	require.NoError(t, err)
	stats, err := events.Stats(t.Context(), ingest.DefaultTenant)
	require.NoError(t, err)
	assert.Equal(t, []int64{2 * callsPerDrift, 10_000, 2000}, []int64{stats.ToolCalls, stats.Sessions, stats.Runs})
	db, err := statestore.Open(t.Context(), filepath.Join(in.dir, "state.db"))
	require.NoError(t, err)
	gate := governance.New(governance.Options{Store: db, Stats: events})
	for kind, want := range map[governance.ReportKind]int{governance.ReportCoverage: filledDays, governance.ReportAdoption: filledDays * filledFlows, governance.ReportSavings: 2000} {
		report, err := gate.Report(t.Context(), benchActor, kind, time.Time{}, time.Time{})
		require.NoError(t, err)
		assert.Len(t, report.Rows, want, kind)
	}
	drift, err := gate.Report(t.Context(), benchActor, governance.ReportDrift, time.Time{}, time.Time{})
	require.NoError(t, err)
	taken := int64(0)
	for _, row := range drift.Rows {
		taken += row[len(row)-1].(int64)
	}
	assert.EqualValues(t, 2, taken)
	savings, err := gate.Savings(t.Context(), benchActor, time.Time{}, time.Time{})
	require.NoError(t, err)
	assert.EqualValues(t, 2000, savings.Total.Runs)
	assert.EqualValues(t, 4000, savings.Total.Estimate.LLMCalls)
	require.NoError(t, db.Close())
	require.NoError(t, events.Close())

	a, err := app.Open(t.Context(), app.Options{DataDir: in.dir})
	require.NoError(t, err, "the service takes the directory")
	require.NoError(t, a.Close())
}

func TestTimesAreOfTheirRank(t *testing.T) {
	n := 0
	p95, middle, err := times(20, func(i int) error { n += i; return nil })
	require.NoError(t, err)
	assert.Equal(t, 190, n)
	assert.GreaterOrEqual(t, p95, middle)
	_, _, err = times(3, func(int) error { return io.EOF })
	require.ErrorIs(t, err, io.EOF)
}

// A kept installation is taken as it is, and only when it is the one asked for and whole.
func TestInstallationIsKept(t *testing.T) {
	var notes []string
	in := installation{dir: filepath.Join(t.TempDir(), "data"), calls: 400, proposals: 2, note: func(format string, _ ...any) { notes = append(notes, format) }}
	require.NoError(t, in.ensure(t.Context()))
	require.Greater(t, len(notes), 3)
	notes = nil
	require.NoError(t, in.ensure(t.Context()))
	require.Len(t, notes, 1, "nothing is filled again")
	other := in
	other.calls = 800
	require.ErrorContains(t, other.ensure(t.Context()), "holds 400 calls, 2 proposals")
	require.NoError(t, os.Remove(filepath.Join(in.dir, "filled")))
	require.ErrorContains(t, in.ensure(t.Context()), "was not filled to the end")
}

func TestMemoryIsReadFromMetrics(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "Bearer k", r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, "# TYPE go_goroutines gauge\ngo_goroutines 12\ngo_gc_heap_live_bytes 5.24288e+06\ngo_goroutines_x 3\n")
	}))
	defer srv.Close()
	s := &served{child: &child{cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}, address: srv.URL, key: "k", client: srv.Client()}
	rss, heap, goroutines, err := s.memory(t.Context())
	require.NoError(t, err)
	assert.Greater(t, rss, 1.0)
	assert.Equal(t, 5.0, heap)
	assert.Equal(t, 12, goroutines)
}
