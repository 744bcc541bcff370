package planted

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows/value"
	"pave/ingest"
	"pave/ingest/store"
)

func sequences(t *testing.T, l *Log) []ingest.Sequence {
	t.Helper()
	var out []ingest.Sequence
	require.NoError(t, l.Sequences(context.Background(), store.SequenceFilter{}, func(s *ingest.Sequence) error {
		out = append(out, *s)
		return nil
	}))
	return out
}

func TestSameSeedSameLog(t *testing.T) {
	o := Options{Calls: 20_000, Noise: DefaultNoise, Seed: 7}
	a, b := Generate(o), Generate(o)
	require.Equal(t, a.Flows, b.Flows)
	require.Equal(t, sequences(t, a), sequences(t, b))
	o.Seed = 8
	require.NotEqual(t, sequences(t, a), sequences(t, Generate(o)))
}

func TestShape(t *testing.T) {
	l := Generate(Options{Calls: 100_000})
	require.Len(t, l.Flows, 50)
	require.GreaterOrEqual(t, l.Calls, 100_000)
	seqs := sequences(t, l)
	require.Len(t, l.SessionIDs(), len(seqs))
	require.InDelta(t, 21, float64(l.Calls)/float64(len(seqs)), 4, "mean session and the last flow of each")
	for _, f := range l.Flows {
		require.GreaterOrEqual(t, len(f.Tools), 3)
		require.LessOrEqual(t, len(f.Tools), 12)
		require.Len(t, f.Args, len(f.Tools))
	}
}

// TestValuesComeFromTheirSources follows every planted argument of undisturbed flows to its source.
func TestValuesComeFromTheirSources(t *testing.T) {
	l := Generate(Options{Calls: 20_000})
	checked := map[Kind]int{}
	index := -1
	require.NoError(t, l.Sessions(context.Background(), l.SessionIDs(), func(s *ingest.Session) error {
		index++
		run := s.Runs[0]
		starts := map[int]int{}
		for i, c := range l.plan(index) {
			require.Equal(t, l.names[c.tool], run.Calls[i].Tool)
			var args map[string]string
			require.NoError(t, json.Unmarshal(run.Calls[i].Args, &args))
			if c.flow < 0 {
				continue
			}
			if c.step == 0 {
				starts[c.instance] = i
			}
			for _, a := range l.Flows[c.flow].Args[c.step] {
				checked[a.Kind]++
				switch a.Kind {
				case Const:
					require.Equal(t, a.Value, args[a.Name])
				case Input:
					require.Contains(t, run.Users[0].Text, args[a.Name])
				default:
					pointer, err := value.ParsePointer(a.Pointer)
					require.NoError(t, err)
					result, err := value.Decode(run.Calls[starts[c.instance]+a.Step].Result)
					require.NoError(t, err)
					want, ok := pointer.Get(result)
					require.True(t, ok)
					require.Equal(t, want, args[a.Name])
				}
			}
		}
		return nil
	}))
	for _, kind := range []Kind{Pointer, Index, Const, Input} {
		require.Greater(t, checked[kind], 100, kind)
	}
}

func TestNoiseDisturbs(t *testing.T) {
	repeats := func(noise float64) int {
		n := 0
		for _, s := range sequences(t, Generate(Options{Calls: 50_000, Noise: noise})) {
			for _, f := range s.Flags {
				if f&ingest.FlagRepeat != 0 {
					n++
				}
			}
		}
		return n
	}
	require.Zero(t, repeats(0))
	require.InDelta(t, 50_000*0.39*0.03, repeats(0.03), 150, "3 % of the planted steps, which are 39 % of the calls")
}

func TestStopsWhereTheReaderStops(t *testing.T) {
	l := Generate(Options{Calls: 1000})
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	err := l.Sequences(ctx, store.SequenceFilter{}, func(*ingest.Sequence) error {
		n++
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, n)
	require.NoError(t, l.Sessions(context.Background(), []string{"unknown"}, func(*ingest.Session) error { t.Fatal("no such session"); return nil }))
}
