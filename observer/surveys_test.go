package observer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
	"pave/observer"
)

// Whatever comes, changes and goes, and whatever is asked, the kept counts are those of one pass over all sequences.
func TestSurveysAreThoseOfOnePass(t *testing.T) {
	src := activitySource(t)
	var kept observer.Surveys
	anyChange(t, src, 7, 12, []ingest.CallFlag{0, 0, ingest.FlagBreak, ingest.FlagNotAgent, ingest.FlagRepeat}, func(filter store.SequenceFilter) {
		want, err := observer.Look(t.Context(), src, filter)
		require.NoError(t, err)
		got, err := kept.Look(t.Context(), src, filter)
		require.NoError(t, err)
		require.Equal(t, want, got, "%+v", filter)
	})
}

// A session of one of the newest days makes that day be read, one of an old day its block.
func TestSurveysReadWhatChanged(t *testing.T) {
	src := activitySource(t)
	put := func(id string, day int, tools ...string) {
		at := time.Unix(int64(day)*86400+3600, 0).UTC()
		require.NoError(t, src.PutSessions(t.Context(), ingest.DefaultTenant, []store.SessionRow{activeSession(id, "north", at, at, tools...)}))
	}
	for day := range 20 {
		put(fmt.Sprint("a", day), 19968+day, "x", "y")
	}
	var kept observer.Surveys
	look := func() *observer.Survey {
		src.reads = 0
		got, err := kept.Look(t.Context(), src, store.SequenceFilter{})
		require.NoError(t, err)
		return got
	}
	require.EqualValues(t, 40, look().Calls)
	require.Equal(t, 9, src.reads, "twelve days together, and the eight newest")
	got := look()
	require.Zero(t, src.reads, "nothing changed")
	require.Equal(t, []observer.SurveyEdge{{From: "x", To: "y", Count: 20, Confidence: 1}}, got.Edges)
	put("a19", 19987, "x", "y", "x")
	require.EqualValues(t, 41, look().Calls)
	require.Equal(t, 1, src.reads)
	put("a0", 19968, "x")
	require.EqualValues(t, 40, look().Calls)
	require.Equal(t, 1, src.reads)
	put("b", 19988, "z")
	require.EqualValues(t, 41, look().Calls)
	require.Equal(t, 2, src.reads, "a new day, and the one that joined the older ones")

	src.broken, src.reads = true, 1
	put("b", 19988, "z", "z")
	_, err := kept.Look(t.Context(), src, store.SequenceFilter{})
	require.ErrorContains(t, err, "the disk is gone")
	src.broken = false
	require.EqualValues(t, 42, look().Calls)
	require.Equal(t, 1, src.reads, "what was kept before the failure is kept")
}

// wideSource has a sequence of each of some days in which each of many tools is followed by each.
type wideSource struct {
	days, tools uint32
	reads       int
}

func (w *wideSource) Sequences(_ context.Context, _ store.SequenceFilter, fn func(*ingest.Sequence) error) error {
	w.reads++
	seq := &ingest.Sequence{SessionID: "s"}
	for i := range w.tools {
		for k := range w.tools {
			seq.Tools = append(seq.Tools, i, k)
		}
	}
	seq.Flags = make([]ingest.CallFlag, len(seq.Tools))
	for day := range w.days {
		seq.Start = time.Unix(int64(day)*86400, 0).UTC()
		if err := fn(seq); err != nil {
			return err
		}
	}
	return nil
}

func (w *wideSource) ToolNames(context.Context) ([]string, error) {
	names := make([]string, w.tools)
	for i := range names {
		names[i] = fmt.Sprint("tool", i)
	}
	return names, nil
}

func (w *wideSource) Days(context.Context) ([]store.Day, error) {
	return []store.Day{{Day: 0, Version: "1"}}, nil
}

// More pairs of tools than can be kept are counted anew each time.
func TestTooManyPairsAreNotKept(t *testing.T) {
	src := &wideSource{days: 12, tools: 300} // 90,000 pairs a day
	var kept observer.Surveys
	for _, reads := range []int{2, 1} {
		src.reads = 0
		got, err := kept.Look(t.Context(), src, store.SequenceFilter{})
		require.NoError(t, err)
		require.EqualValues(t, 12*2*300*300, got.Calls)
		require.Len(t, got.Edges, 300*300)
		require.Zero(t, got.Left)
		require.Equal(t, reads, src.reads)
	}
	few := &wideSource{days: 11, tools: 300}
	kept = observer.Surveys{}
	for _, reads := range []int{1, 0} {
		few.reads = 0
		_, err := kept.Look(t.Context(), few, store.SequenceFilter{})
		require.NoError(t, err)
		require.Equal(t, reads, few.reads)
	}
}
