package observer

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/observer/planted"
)

// recovery is how well the planted flows were found again.
type recovery struct {
	at50, at100   int // planted flows among the first 50 and 100 patterns, exactly
	mapped, right int // arguments predicted with a source, and of these with a true one
	planted       int // arguments with a planted source, in found flows
}

func recovered(log *planted.Log, r *Result) recovery {
	truth := map[string]planted.Flow{}
	for _, f := range log.Flows {
		truth[arrow(f.Tools)] = f
	}
	var out recovery
	for i, p := range r.Patterns {
		flow, ok := truth[arrow(p.Tools)]
		if !ok {
			continue
		}
		if i < 50 {
			out.at50++
		}
		if i < 100 {
			out.at100++
		}
		for k := 1; k < len(flow.Args); k++ {
			for _, want := range flow.Args[k] {
				out.compare(p.DataFlow, k, want)
			}
		}
	}
	return out
}

// compare checks one argument. Two planted arguments that copy one field are equal, so a copy of the other is right,
// too.
func (out *recovery) compare(flow *DataFlow, k int, want planted.Arg) {
	if want.Kind != planted.Input {
		out.planted++
	}
	for _, got := range flow.Steps[k].Args {
		if got.Arg != want.Name || got.Kind == SourceInput || got.Kind == SourceChoice {
			continue
		}
		out.mapped++
		switch {
		case got.Kind == SourceConst && want.Kind == planted.Const && got.Value == want.Value,
			got.Kind == SourceOutput && got.Step == want.Step && got.Pointer == want.Pointer,
			got.Kind == SourceArg && want.Kind != planted.Const && want.Kind != planted.Input:
			out.right++
		}
	}
}

func TestPlantedFlowsAreFound(t *testing.T) {
	log := planted.Generate(planted.Options{Calls: 250_000, Noise: planted.DefaultNoise})
	stages := map[string]bool{}
	result, err := Mine(context.Background(), log, Options{Progress: func(p Progress) {
		stages[p.Stage] = true
		require.LessOrEqual(t, p.Done, p.Total)
	}})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"count": true, "data flow": true}, stages)
	require.Equal(t, log.Calls, result.Calls)
	found := recovered(log, result)
	t.Logf("%+v", found)
	require.GreaterOrEqual(t, found.at50, 46)
	require.GreaterOrEqual(t, found.at100, 49)
	require.GreaterOrEqual(t, float64(found.right), 0.99*float64(found.mapped))
	require.GreaterOrEqual(t, float64(found.right), 0.95*float64(found.planted))
}

// TestPlantedFlowsAreFoundInMuchNoise: where each step is disturbed three times in ten, and some run for each element of a
// list, most of what people see are flows, whole ones, and hardly anything is shown twice.
func TestPlantedFlowsAreFoundInMuchNoise(t *testing.T) {
	log := planted.Generate(planted.Options{Calls: 250_000, Noise: 0.1, Rich: true, Flows: 25})
	result, err := Mine(context.Background(), log, Options{})
	require.NoError(t, err)
	found := recovered(log, result)
	shown := 0
	for i := range result.Patterns {
		if !result.Patterns[i].Secondary {
			shown++
		}
	}
	t.Logf("%d of the first 50, %d in all of %d shown", found.at50, found.at100, shown)
	require.GreaterOrEqual(t, found.at50, 21)
	require.LessOrEqual(t, shown, 30)
}

func TestNoiseHasNoFlows(t *testing.T) {
	log := planted.Generate(planted.Options{Calls: 40_000, Flows: 1, Noise: 0.99})
	result, err := Mine(context.Background(), log, Options{})
	require.NoError(t, err)
	for _, p := range result.Patterns {
		require.True(t, p.Secondary, "habits and chance are no routine: %s", arrow(p.Tools))
		require.Less(t, p.Score, 10.0)
	}
}

// BenchmarkMine is a whole pass over a million generated calls. The time of the generator, which makes the values of
// the sampled sessions, is in it.
func BenchmarkMine(b *testing.B) {
	log := planted.Generate(planted.Options{Noise: planted.DefaultNoise})
	start := cpu()
	for b.Loop() {
		if _, err := Mine(context.Background(), log, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((cpu()-start).Seconds()/float64(b.N), "cpu-s/op")
}
