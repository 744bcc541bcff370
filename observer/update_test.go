package observer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
	"pave/ingest/store/sqlite"
	"pave/observer"
)

// kept is an event store with sequences and no payloads.
type kept struct{ *sqlite.Store }

func (k kept) Sequences(ctx context.Context, f store.SequenceFilter, fn func(*ingest.Sequence) error) error {
	return k.Store.Sequences(ctx, ingest.DefaultTenant, f, fn)
}

func (k kept) ToolNames(ctx context.Context) ([]string, error) {
	return k.Store.ToolNames(ctx, ingest.DefaultTenant)
}

func (k kept) Sessions(context.Context, []string, func(*ingest.Session) error) error { return nil }

func (k kept) Days(ctx context.Context) ([]store.Day, error) {
	return k.Store.Days(ctx, ingest.DefaultTenant)
}

func (k kept) Tally(ctx context.Context) (store.Tally, error) {
	return k.Store.Tally(ctx, ingest.DefaultTenant)
}

func (k kept) PutTally(ctx context.Context, t store.Tally) error {
	return k.Store.PutTally(ctx, ingest.DefaultTenant, t)
}

func openKept(t *testing.T) kept {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return kept{db}
}

// drawn is a session of calls drawn by chance, on one of ten days or without a time. Its second run, when it has one,
// may begin on the next day.
func drawn(r *rand.Rand, id string) store.SessionRow {
	row := store.SessionRow{ID: id, Summary: ingest.SessionSummary{ID: id}}
	var start time.Time
	if r.IntN(10) > 0 {
		start = time.Date(2026, 3, 1+r.IntN(10), r.IntN(24), 0, 0, 0, time.UTC)
	}
	row.Summary.Start = start
	for run := range 1 + r.IntN(2) {
		seq := store.NamedSequence{RunIndex: run, Agent: fmt.Sprint("agent", r.IntN(3)), Start: start}
		if run > 0 && !start.IsZero() {
			seq.Start = start.Add(time.Duration(r.IntN(30)) * time.Hour)
		}
		for i := range 2 + r.IntN(14) {
			seq.Tools = append(seq.Tools, string(rune('a'+r.IntN(4))))
			seq.Turns = append(seq.Turns, int32(i))
			flag := ingest.CallFlag(0)
			for k, share := range map[ingest.CallFlag]int{ingest.FlagBreak: 8, ingest.FlagError: 8, ingest.FlagRepeat: 9, ingest.FlagParallel: 6, ingest.FlagNotAgent: 12} {
				if r.IntN(share) == 0 {
					flag |= k
				}
			}
			seq.Flags = append(seq.Flags, flag)
		}
		row.Summary.ToolCalls += len(seq.Tools)
		row.Sequences = append(row.Sequences, seq)
	}
	return row
}

// Whatever order sessions come in, late, in batches, again with other calls or on other days, or removed: the counts
// kept day by day are those of a full pass.
func TestUpdateEqualsFullRecount(t *testing.T) {
	const seeds = 8
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 4))
		src := openKept(t)
		options := observer.Options{MaxEvaluated: -1, MinSessions: 2, MaxLength: 6}
		if seed%2 == 1 { // a tool changed in the middle of the days, also in that of a day
			options.Since = map[string]time.Time{"b": time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)}
		}
		put := func(n int) {
			var rows []store.SessionRow
			for range n {
				id := fmt.Sprintf("s%03d", r.IntN(120))
				if r.IntN(12) == 0 {
					rows = append(rows, store.SessionRow{ID: id})
				} else {
					rows = append(rows, drawn(r, id))
				}
			}
			require.NoError(t, src.PutSessions(t.Context(), ingest.DefaultTenant, rows))
		}
		put(80)
		first, err := observer.Mine(t.Context(), src, options)
		require.NoError(t, err)
		last := observer.AllTracked(first)
		require.NoError(t, last.Track(t.Context(), src))
		for range 6 {
			put(1 + r.IntN(25))
			got, inc, err := observer.Update(t.Context(), src, last, options)
			require.NoError(t, err)
			require.LessOrEqual(t, inc.Days, 11)
			require.Equal(t, seed%2 == 1, first.EarlierCalls > 0)
			full, err := observer.Mine(t.Context(), src, options)
			require.NoError(t, err)
			require.Equal(t, observer.CountsOf(t, src, last, options), countsOf(got), "seed %d", seed)
			require.Equal(t,
				[]int{full.Sessions, full.Calls, full.Stretches, full.RepeatCalls, full.RetryCalls, full.FlowCalls, full.LLMCalls},
				[]int{got.Sessions, got.Calls, got.Stretches, got.RepeatCalls, got.RetryCalls, got.FlowCalls, got.LLMCalls})
			again, inc, err := observer.Update(t.Context(), src, last, options)
			require.NoError(t, err)
			require.Zero(t, inc.Days, "nothing changed since")
			require.Zero(t, inc.Calls)
			require.Equal(t, got, again)
		}
	}
}

// countsOf are the figures of each pattern that follow from counts.
func countsOf(r *observer.Result) map[string]observer.Figures {
	out := map[string]observer.Figures{}
	for i := range r.Patterns {
		out[strings.Join(r.Patterns[i].Tools, " > ")] = observer.FiguresOf(&r.Patterns[i])
	}
	return out
}

func TestUpdateNeedsCountsThatCanBeRead(t *testing.T) {
	src := openKept(t)
	_, _, err := observer.Update(t.Context(), src, &observer.Result{}, observer.Options{})
	require.ErrorIs(t, err, observer.ErrNoTally)
	for _, set := range []string{"", "{", `{"tools":["a"],"paths":[[1]]}`, `{"tools":["a"],"paths":[[]]}`, `{"tools":["a"],"loops":[{"tools":[0],"each":[]}]}`} {
		require.NoError(t, src.PutTally(t.Context(), store.Tally{Set: []byte(set)}))
		_, _, err = observer.Update(t.Context(), src, &observer.Result{}, observer.Options{})
		require.ErrorIs(t, err, observer.ErrNoTally, set)
	}
}

// A day whose counts are damaged is counted again.
func TestUpdateMendsDamagedDays(t *testing.T) {
	src := openKept(t)
	r := rand.New(rand.NewPCG(3, 3))
	var rows []store.SessionRow
	for i := range 60 {
		rows = append(rows, drawn(r, fmt.Sprintf("s%02d", i)))
	}
	require.NoError(t, src.PutSessions(t.Context(), ingest.DefaultTenant, rows))
	options := observer.Options{MaxEvaluated: -1}
	full, err := observer.Mine(t.Context(), src, options)
	require.NoError(t, err)
	last := observer.AllTracked(full)
	require.NoError(t, last.Track(t.Context(), src))
	want, _, err := observer.Update(t.Context(), src, last, options)
	require.NoError(t, err)
	tally, err := src.Tally(t.Context())
	require.NoError(t, err)
	tally.Days[2].Counts = tally.Days[2].Counts[:5]
	require.NoError(t, src.PutTally(t.Context(), tally))
	got, inc, err := observer.Update(t.Context(), src, last, options)
	require.NoError(t, err)
	require.Equal(t, 1, inc.Days)
	require.Equal(t, want, got)
}

// What becomes frequent in a day that nothing tracked before is told, so that a full pass follows.
func TestUpdateSeesNewPaths(t *testing.T) {
	src := openKept(t)
	session := func(id string, day int, tools ...string) store.SessionRow {
		at := time.Date(2026, 3, day, 9, 0, 0, 0, time.UTC)
		row := store.SessionRow{ID: id, Summary: ingest.SessionSummary{ID: id, Start: at, ToolCalls: len(tools)},
			Sequences: []store.NamedSequence{{Start: at, Tools: tools, Turns: make([]int32, len(tools)), Flags: make([]ingest.CallFlag, len(tools))}}}
		return row
	}
	var rows []store.SessionRow
	for i := range 10 {
		rows = append(rows, session(fmt.Sprint("old", i), 1+i%3, "a", "b", "c"))
	}
	put := func() { require.NoError(t, src.PutSessions(t.Context(), ingest.DefaultTenant, rows)) }
	put()
	options := observer.Options{MaxEvaluated: -1}
	full, err := observer.Mine(t.Context(), src, options)
	require.NoError(t, err)
	require.NoError(t, full.Track(t.Context(), src))
	rows = []store.SessionRow{session("n1", 5, "a", "b", "c"), session("n2", 5, "b", "x"), session("n3", 5, "b", "x")}
	put()
	_, inc, err := observer.Update(t.Context(), src, full, options)
	require.NoError(t, err)
	require.Equal(t, observer.Increment{Days: 1, Calls: 7, NewPaths: 0, Growth: 37.0 / 30}, inc)
	rows = []store.SessionRow{session("n4", 5, "b", "x")}
	put()
	_, inc, err = observer.Update(t.Context(), src, full, options)
	require.NoError(t, err)
	require.Equal(t, observer.Increment{Days: 1, Calls: 9, NewPaths: 1, Growth: 39.0 / 30}, inc, "b > x in three sessions; it is not the three of another day")
}
