// Package storetest is the one conformance suite of the event store: what every engine of store.Store must do.
// The engines differ in nothing that it looks at.
package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

// Capabilities says what an engine under test cannot do.
type Capabilities struct {
	// Reopen closes the given store and opens its data again; nil when the engine under test cannot.
	Reopen func(t *testing.T, s store.Store) store.Store
}

// Exercise runs the suite. open returns a store with no data; the suite closes it.
func Exercise(t *testing.T, open func(t *testing.T) store.Store, caps Capabilities) {
	s := suite{open: open, caps: caps}
	for _, area := range []struct {
		name string
		run  func(*testing.T, suite)
	}{
		{"append", testAppend},
		{"dirty", testDirty},
		{"binding", testBinding},
		{"sequences", testSequences},
		{"tallies", testTallies},
		{"sessions", testSessions},
		{"delete", testDelete},
		{"runs", testRuns},
		{"series", testSeries},
		{"sums", testSums},
		{"stats", testStats},
		{"hostile", testHostile},
		{"concurrency", testConcurrency},
		{"reopen", testReopen},
	} {
		t.Run(area.name, func(t *testing.T) { area.run(t, s) })
	}
}

type suite struct {
	open func(t *testing.T) store.Store
	caps Capabilities
}

// each runs every case on a store of its own.
func (s suite) each(t *testing.T, cases map[string]func(*testing.T, store.Store)) {
	for name, run := range cases {
		t.Run(name, func(t *testing.T) { run(t, s.fresh(t)) })
	}
}

func (s suite) fresh(t *testing.T) store.Store {
	st := s.open(t)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// tenant is the tenant of tests that need only one.
const tenant = ingest.DefaultTenant

var everything = time.Time{} // as quietSince

func put(t *testing.T, st store.Store, events ...ingest.Event) {
	t.Helper()
	require.NoError(t, st.Append(t.Context(), tenant, events))
}

// eventsOf reads sessions and fails when one is given twice.
func eventsOf(t *testing.T, st store.Store, tenant string, ids ...string) map[string][]ingest.Event {
	t.Helper()
	got := map[string][]ingest.Event{}
	require.NoError(t, st.Events(t.Context(), tenant, ids, func(id string, events []ingest.Event) error {
		require.NotContains(t, got, id)
		require.NotEmpty(t, events)
		got[id] = events
		return nil
	}))
	return got
}

func dirtyOf(t *testing.T, st store.Store, tenant string) map[string]int64 {
	t.Helper()
	list, err := st.Dirty(t.Context(), tenant, everything, 10_000)
	require.NoError(t, err)
	marks := map[string]int64{}
	for _, d := range list {
		require.NotContains(t, marks, d.ID)
		marks[d.ID] = d.Watermark
	}
	return marks
}

func dirtyIDs(t *testing.T, st store.Store) []string {
	t.Helper()
	ids := []string{}
	for id := range dirtyOf(t, st, tenant) {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// assemble derives a plain row from every dirty session, one sequence of its tool calls in arrival order, and
// puts it.
func assemble(ctx context.Context, st store.Store, tenant string) error {
	list, err := st.Dirty(ctx, tenant, everything, 10_000)
	if err != nil {
		return err
	}
	rows := make([]store.SessionRow, len(list))
	ids := make([]string, len(list))
	at := map[string]int{}
	for i, d := range list {
		rows[i] = store.SessionRow{ID: d.ID, Watermark: d.Watermark, Summary: ingest.SessionSummary{ID: d.ID}}
		ids[i], at[d.ID] = d.ID, i
	}
	err = st.Events(ctx, tenant, ids, func(id string, events []ingest.Event) error {
		row := &rows[at[id]]
		var seq store.NamedSequence
		for _, e := range events {
			if e.Kind == ingest.KindToolCall {
				seq.Tools = append(seq.Tools, e.Call.Tool)
				seq.Turns = append(seq.Turns, e.Turn)
				seq.Flags = append(seq.Flags, 0)
			}
		}
		row.Summary.ToolCalls = len(seq.Tools)
		row.Sequences = []store.NamedSequence{seq}
		return nil
	})
	if err != nil {
		return err
	}
	return st.PutSessions(ctx, tenant, rows)
}

func mustAssemble(t *testing.T, st store.Store) {
	t.Helper()
	require.NoError(t, assemble(t.Context(), st, tenant))
}

// sequencesOf reads sequences with the names of their tools.
func sequencesOf(t *testing.T, st store.Store, tenant string, filter store.SequenceFilter) []NamedRun {
	t.Helper()
	runs := []NamedRun{}
	ids := [][]uint32{}
	require.NoError(t, st.Sequences(t.Context(), tenant, filter, func(s *ingest.Sequence) error {
		runs = append(runs, NamedRun{SessionID: s.SessionID, NamedSequence: store.NamedSequence{
			RunIndex: s.RunIndex, Agent: s.Agent, Start: s.Start,
			Turns: slices.Clone(s.Turns), Flags: slices.Clone(s.Flags),
		}})
		ids = append(ids, slices.Clone(s.Tools))
		return nil
	}))
	names, err := st.ToolNames(t.Context(), tenant)
	require.NoError(t, err)
	for i := range runs {
		for _, id := range ids[i] {
			require.Less(t, int(id), len(names))
			runs[i].Tools = append(runs[i].Tools, names[id])
		}
	}
	return runs
}

// NamedRun is a sequence with tool names, as the suite compares them.
type NamedRun struct {
	SessionID string
	store.NamedSequence
}
