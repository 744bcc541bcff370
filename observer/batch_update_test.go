package observer

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

// oneDay is sessions without a time, and what was counted of them.
type oneDay struct {
	Source
	version string
	tally   store.Tally
}

func (d *oneDay) Days(context.Context) ([]store.Day, error) {
	return []store.Day{{Day: math.MinInt32, Version: d.version}}, nil
}
func (d *oneDay) Tally(context.Context) (store.Tally, error) { return d.tally, nil }
func (d *oneDay) PutTally(_ context.Context, t store.Tally) error {
	if t.Set != nil {
		d.tally.Set = t.Set
	}
	d.tally.Days = t.Days
	return nil
}

// TestBatchUpdate: an incremental pass counts batches, with loops and without, as a full one does.
func TestBatchUpdate(t *testing.T) {
	plain := func(i int) ingest.Session {
		return talk(id(1000+i), j("user u-%d lives at a-%d", i, i), step{tool: "user", args: j(`{"id":"u-%d"}`, i), result: `{}`},
			step{tool: "address", args: j(`{"at":"a-%d"}`, i), result: `{}`, failed: i%9 == 0})
	}
	all := append(many(90, noting), many(90, plain)...)
	some := append(many(40, noting), many(50, plain)...)
	src := &oneDay{Source: NewMemory(some), version: "1"}
	first, err := Mine(t.Context(), src, Options{})
	require.NoError(t, err)
	require.NoError(t, first.Track(t.Context(), src))

	src.Source, src.version = NewMemory(all), "2"
	updated, done, err := Update(t.Context(), src, first, Options{})
	require.NoError(t, err)
	require.Equal(t, 1, done.Days)
	full := mine(t, Options{}, all...)
	for _, tools := range []string{"room.find > room.book > note", "user > address"} {
		before, now, want := first.batch(t, tools), updated.batch(t, tools), full.batch(t, tools)
		require.Greater(t, now.Occurrences, before.Occurrences, tools)
		require.Equal(t, []any{want.Occurrences, want.Sessions, want.Agents, want.Success}, []any{now.Occurrences, now.Sessions, now.Agents, now.Success}, tools)
		require.Equal(t, want.StepConfidence, now.StepConfidence, tools)
		require.InEpsilon(t, want.Expected, now.Expected, 1e-9, tools)
		require.InEpsilon(t, want.Z, now.Z, 1e-9, tools)
		require.Equal(t, before.Batch, now.Batch, "%s: what callers knew is as it was examined", tools)
		require.InEpsilon(t, before.Score*float64(now.Occurrences)/float64(before.Occurrences), now.Score, 1e-9, tools)
	}
}
