package observer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
	"pave/ingest/store/sqlite"
	"pave/observer"
)

// stored is a tenant of a store, which counts the blocks that are read of it.
type stored struct {
	*sqlite.Store
	reads  int
	broken bool
}

func (s *stored) Sequences(ctx context.Context, filter store.SequenceFilter, fn func(*ingest.Sequence) error) error {
	if s.broken && s.reads == 1 {
		return errors.New("the disk is gone")
	}
	s.reads++
	return s.Store.Sequences(ctx, ingest.DefaultTenant, filter, fn)
}

func (s *stored) ToolNames(ctx context.Context) ([]string, error) {
	return s.Store.ToolNames(ctx, ingest.DefaultTenant)
}

func (s *stored) Days(ctx context.Context) ([]store.Day, error) {
	return s.Store.Days(ctx, ingest.DefaultTenant)
}

func activitySource(t *testing.T) *stored {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &stored{Store: db}
}

func activeSession(id, agent string, start, sequence time.Time, tools ...string) store.SessionRow {
	q := store.NamedSequence{Agent: agent, Start: sequence, Tools: tools, Turns: make([]int32, len(tools)), Flags: make([]ingest.CallFlag, len(tools))}
	return store.SessionRow{ID: id, Sequences: []store.NamedSequence{q}, Summary: ingest.SessionSummary{ID: id, Start: start, ToolCalls: len(tools), UserTurns: 1}}
}

// anyChange puts and deletes random sessions, with calls of so many tools and of these flags, and asks after each change
// for several windows.
func anyChange(t *testing.T, src *stored, seed uint64, tools int, flags []ingest.CallFlag, ask func(filter store.SequenceFilter)) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 5))
	moment := func() time.Time {
		switch random.IntN(6) {
		case 0:
			return time.Time{}
		case 1:
			return time.Unix(int64(random.IntN(400)-200)*86400, 0).UTC()
		}
		return time.Unix(random.Int64N(400*86400)-200*86400, random.Int64N(1e9)).UTC()
	}
	for range 60 {
		var rows []store.SessionRow
		for range 1 + random.IntN(3) {
			start := moment()
			row := activeSession(fmt.Sprint("s", random.IntN(40)), fmt.Sprint("agent", random.IntN(3)), start, start)
			q := &row.Sequences[0]
			if !start.IsZero() && random.IntN(3) == 0 { // a run that begins on a later day than its session
				q.Start, q.RunIndex = start.Add(time.Duration(random.IntN(72))*time.Hour), 1
			}
			for range random.IntN(6) {
				q.Tools, q.Turns = append(q.Tools, fmt.Sprint("tool", random.IntN(tools))), append(q.Turns, 0)
				q.Flags = append(q.Flags, flags[random.IntN(len(flags))])
			}
			rows = append(rows, row)
		}
		require.NoError(t, src.PutSessions(t.Context(), ingest.DefaultTenant, rows))
		if random.IntN(4) == 0 {
			_, err := src.Delete(t.Context(), ingest.DefaultTenant, []string{fmt.Sprint("s", random.IntN(40))})
			require.NoError(t, err)
		}
		from := moment()
		for _, filter := range []store.SequenceFilter{{}, {Agent: "agent1"}, {From: from}, {To: moment()}, {From: from, To: moment(), Agent: "agent2"},
			{From: from, To: moment()}, {From: from, To: from.Add(time.Hour)}, {From: from, To: from.Add(3 * 24 * time.Hour)}} {
			ask(filter)
		}
	}
}

// Whatever comes, changes and goes, and whatever is asked, the kept counts are those of one pass over all sequences.
func TestActivitiesAreThoseOfOnePass(t *testing.T) {
	src := activitySource(t)
	var kept observer.Activities
	anyChange(t, src, 3, 90, []ingest.CallFlag{0, ingest.FlagNotAgent, ingest.FlagRepeat}, func(filter store.SequenceFilter) {
		want, err := observer.CountActivity(t.Context(), src, filter)
		require.NoError(t, err)
		got, err := kept.Count(t.Context(), src, filter)
		require.NoError(t, err)
		require.Equal(t, want, got, "%+v", filter)
	})
}

func TestActivitiesReadWhatChanged(t *testing.T) {
	src := activitySource(t)
	at := func(day int) time.Time { return time.Unix(int64(day)*86400+3600, 0).UTC() }
	put := func(id string, day int, tools ...string) {
		require.NoError(t, src.PutSessions(t.Context(), ingest.DefaultTenant, []store.SessionRow{activeSession(id, "north", at(day), at(day), tools...)}))
	}
	for block := range 4 {
		put(fmt.Sprint("a", block), 19968+128*block, "x")
		put(fmt.Sprint("b", block), 19969+128*block, "x", "y")
	}
	var kept observer.Activities
	count := func() *observer.Activity {
		src.reads = 0
		got, err := kept.Count(t.Context(), src, store.SequenceFilter{})
		require.NoError(t, err)
		return got
	}
	require.EqualValues(t, 12, count().Calls)
	require.Equal(t, 4, src.reads)
	require.EqualValues(t, 12, count().Calls)
	require.Zero(t, src.reads, "nothing changed")
	put("a2", 20224, "x", "z", "x")
	require.EqualValues(t, 14, count().Calls)
	require.Equal(t, 1, src.reads, "one block changed")
	_, err := src.Delete(t.Context(), ingest.DefaultTenant, []string{"a0", "b0"})
	require.NoError(t, err)
	require.EqualValues(t, 11, count().Calls)
	require.LessOrEqual(t, src.reads, 1)
	put("a1", 20096, "x", "x")
	put("a3", 20352, "x", "x")
	src.broken, src.reads = true, 0
	_, err = kept.Count(t.Context(), src, store.SequenceFilter{})
	require.ErrorContains(t, err, "the disk is gone")
	src.broken = false
	require.EqualValues(t, 13, count().Calls)
	require.Equal(t, 1, src.reads, "the block that was read before the failure is kept")
}

// Agents beyond the bound are counted as one, and one of them is still found by its name.
func TestActivitiesOfManyAgents(t *testing.T) {
	src := activitySource(t)
	var rows []store.SessionRow
	for i := range 1010 {
		start := time.Unix(int64(20000*86400+i), 0).UTC()
		rows = append(rows, activeSession(fmt.Sprintf("s%04d", i), fmt.Sprintf("agent%04d", i), start, start, "x"))
	}
	require.NoError(t, src.PutSessions(t.Context(), ingest.DefaultTenant, rows))
	var kept observer.Activities
	all, err := kept.Count(t.Context(), src, store.SequenceFilter{})
	require.NoError(t, err)
	require.Len(t, all.Days, 1001)
	require.EqualValues(t, 1010, all.Calls)
	last := all.Days[1000]
	require.Equal(t, observer.OtherAgents, last.Agent)
	require.EqualValues(t, 10, last.Calls)
	one, err := kept.Count(t.Context(), src, store.SequenceFilter{Agent: "agent1009"})
	require.NoError(t, err)
	require.EqualValues(t, 1, one.Calls)
}
