package bench

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/analyzer/replay"
	"pave/flows"
	"pave/observer/planted"
)

// truthOf writes a planted flow down as its author would.
func truthOf(f *planted.Flow) *flows.Flow {
	out := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "truth"}
	for k, tool := range f.Tools {
		s := flows.Step{ToolName: tool, OutputAs: key("out", k)}
		for _, a := range f.Args[k] {
			var v flows.MappingValue
			switch from := "/" + key("out", a.Step); a.Kind {
			case planted.Const:
				v = flows.Const(a.Value)
			case planted.Input:
				v = flows.Key(a.Name + key("_", k))
			case planted.Map:
				list := flows.Pointer(from + "/items")
				s.ForEach, s.As = &list, "element"
				v = flows.Pointer("/element/sku")
			case planted.Template, planted.Cast, planted.Select:
				v = flows.MappingValue{Kind: flows.MapExpr, Ref: expression(a)}
			default:
				v = flows.Pointer(from + a.Pointer)
			}
			s.InputMapping = append(s.InputMapping, flows.MappingEntry{Target: a.Name, Value: v})
		}
		out.Steps = append(out.Steps, s)
	}
	return out
}

func key(name string, k int) string { return name + string(rune('a'+k)) }

// field names a planted pointer to a field in an expression.
func field(step int, pointer string) string {
	name := map[string]string{"/id": "id", "/owner/ref": "owner.ref", "/number": "number", "/code": "code"}[pointer]
	return key("out", step) + "." + name
}

func expression(a planted.Arg) string {
	switch {
	case a.Kind == planted.Select:
		return key("out", a.Step) + ".items.filter(i, i.name == query_a)[0].sku"
	case a.Kind == planted.Cast && a.Pointer == "/code":
		return "int(" + field(a.Step, a.Pointer) + ")"
	case a.Kind == planted.Cast:
		return "string(" + field(a.Step, a.Pointer) + ")"
	}
	text := `"` + a.Value + `" + ` + field(a.Step, a.Pointer)
	if a.Second != "" {
		text += ` + "/" + string(` + field(a.Step, a.Second) + `)`
	}
	return text
}

// TestPlantedTruth: the true flows get full marks.
func TestPlantedTruth(t *testing.T) {
	log := planted.Generate(planted.Options{Calls: 1000, Rich: true})
	var truth []*flows.Flow
	for i := range log.Flows {
		truth = append(truth, truthOf(&log.Flows[i]))
	}
	c := plantedCounts{fresh: 30}
	require.NoError(t, c.add(log, truth))
	got := c.figures(0)
	for kind, share := range got.ByKind {
		assert.Equal(t, 1.0, share, kind)
	}
	assert.Len(t, got.ByKind, 8)
	got.ByKind = nil
	assert.Equal(t, PlantedNoise{PAt50: 1, RAt100: 1, SoftRAt100: 1, MappingPrecision: 1, MappingRecall: 1, RecallFound: 1, InputF1: 1}, got)
}

// TestPlantedMistakes: one copy is of another field, one constant became an input, one input a constant.
func TestPlantedMistakes(t *testing.T) {
	log, counts := logWith(t, planted.Pointer, planted.Const, planted.Input)
	f := &log.Flows[0]
	bad := truthOf(f)
	spoil := func(kind planted.Kind, with func(*flows.MappingValue)) {
		for k := 1; k < len(f.Args); k++ {
			for n, a := range f.Args[k] {
				if a.Kind == kind {
					with(&bad.Steps[k].InputMapping[n].Value)
					return
				}
			}
		}
	}
	spoil(planted.Pointer, func(v *flows.MappingValue) { v.Ref = "/outa/status" })
	spoil(planted.Const, func(v *flows.MappingValue) { *v = flows.Key("fixed") })
	spoil(planted.Input, func(v *flows.MappingValue) { *v = flows.Const("in_0") })
	c := plantedCounts{fresh: 30}
	require.NoError(t, c.add(log, []*flows.Flow{bad}))
	got := c.figures(0)
	sources := 0
	for kind, n := range counts {
		if kind != planted.Input {
			sources += n
		}
	}
	rate := ratio(sources-2, sources)
	got.ByKind = nil
	inputs := counts[planted.Input]
	assert.Equal(t, PlantedNoise{PAt50: 0.02, RAt100: 1, SoftRAt100: 1, MappingPrecision: rate, MappingRecall: rate, RecallFound: rate,
		InputF1: ratio(inputs-1, inputs), FalseConstantRate: ratio(1, counts[planted.Const])}, got)
}

// logWith finds a log whose one flow has arguments of these kinds after its first step, and counts them.
func logWith(t *testing.T, kinds ...planted.Kind) (*planted.Log, map[planted.Kind]int) {
	t.Helper()
	for seed := range uint64(200) {
		log := planted.Generate(planted.Options{Calls: 1, Rich: true, Flows: 2, Seed: seed + 1})
		log.Flows = log.Flows[:1]
		counts := map[planted.Kind]int{}
		for _, args := range log.Flows[0].Args[1:] {
			for n := range args {
				counts[args[n].Kind]++
			}
		}
		if !slices.ContainsFunc(kinds, func(k planted.Kind) bool { return counts[k] == 0 }) {
			return log, counts
		}
	}
	t.Fatal("no such flow")
	return nil, nil
}

// TestTruthSavesAllTurns: over its own undisturbed executions a true flow saves every turn but the first.
func TestTruthSavesAllTurns(t *testing.T) {
	log := planted.Generate(planted.Options{Calls: 1, Rich: true, Seed: 9})
	for i := range log.Flows {
		f, err := replay.Compile(truthOf(&log.Flows[i]))
		require.NoError(t, err)
		sc := replay.NewScorer([]*replay.Flow{f})
		for _, s := range log.Executions(i, 3) {
			o := sc.Session(replay.NewSession(&s))
			assert.Equal(t, []int{len(s.Runs[0].Calls) - 1, len(s.Runs[0].Calls)}, []int{o.Saved, o.Covered})
		}
	}
}

func TestPlantedBench(t *testing.T) {
	res, err := Planted{Noise: []float64{0}, Calls: 20_000, seeds: []uint64{1}, fresh: 30}.Run(t.Context(), quiet)
	require.NoError(t, err)
	r := res.(PlantedResult)
	require.Len(t, r.Noise, 1)
	assert.Positive(t, r.Noise[0].RAt100)
	assert.Greater(t, r.Noise[0].MappingPrecision, 0.8)
	_, err = Planted{Noise: []float64{0.5}, Calls: 10}.Run(t.Context(), quiet)
	require.ErrorContains(t, err, "--noise")
}

func TestJaccard(t *testing.T) {
	assert.InDelta(t, 1, jaccard([]string{"a", "b"}, []string{"b", "a"}), 1e-12)
	assert.InDelta(t, 2.0/4, jaccard([]string{"a", "a", "b"}, []string{"a", "b", "c"}), 1e-12)
	assert.Zero(t, jaccard([]string{"a"}, []string{"b"}))
}
