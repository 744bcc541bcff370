package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pave/analyzer"
	"pave/analyzer/replay"
	"pave/flows"
	"pave/ingest"
	"pave/observer"
	"pave/observer/planted"
)

// Planted measures how well planted flows and the sources of their arguments are found again in a noisy log.
type Planted struct {
	Noise []float64 // rates of each of drop, insert and repeat per planted step
	Calls int       // per log

	seeds []uint64 // numbers of the generator; nil is plantedSeeds
	fresh int      // executions that decide whether a source is right; 0 is freshExecutions
}

// PlantedResult is `pave bench planted`: for each rate the mean over the generator's numbers.
type PlantedResult struct {
	Head
	Calls int            `json:"calls"`
	Seeds int            `json:"seeds"`
	CPUS  float64        `json:"cpu_s"` // of mining and proposing, mean of one log
	Noise []PlantedNoise `json:"noise"`
}

// PlantedNoise are the figures of one rate. A planted flow is found where a proposal has exactly its tools. An argument
// that a found flow derives is right where it is as planted in a thousand fresh executions. These pass all arguments:
// when agents leave an optional one out is chance, so the figures are of where values come from.
type PlantedNoise struct {
	Rate              float64 `json:"rate"`
	PAt50             float64 `json:"p_at_50"`
	RAt100            float64 `json:"r_at_100"`
	SoftRAt100        float64 `json:"soft_r_at_100"`     // a flow counts that shares 80 % of the steps
	MappingPrecision  float64 `json:"mapping_precision"` // right of those derived
	MappingRecall     float64 `json:"mapping_recall"`    // right of those planted, in all planted flows
	RecallFound       float64 `json:"mapping_recall_found"`
	InputF1           float64 `json:"input_f1"`
	FalseConstantRate float64 `json:"false_constant_rate"` // of the constants in found flows
	// ByKind is, of the planted arguments of each kind in found flows, the share that is right.
	ByKind map[planted.Kind]float64 `json:"recall_by_kind"`
}

// maxNoise is a third: drop, insert and repeat exclude each other.
const maxNoise = 0.33

// plantedSeeds are the generator's numbers.
var plantedSeeds = []uint64{1, 2, 3, 4, 5}

// Run implements Runner.
func (b Planted) Run(ctx context.Context, env Env) (any, error) {
	for _, rate := range b.Noise {
		if rate < 0 || rate > maxNoise {
			return nil, flows.NewError(flows.CodeInvalid, fmt.Sprintf("--noise has %g; rates are from 0 to %g", rate, maxNoise))
		}
	}
	if err := atLeast("--calls", b.Calls, leastCalls); err != nil {
		return nil, err
	}
	if b.seeds == nil {
		b.seeds = plantedSeeds
	}
	if b.fresh == 0 {
		b.fresh = freshExecutions
	}
	res := PlantedResult{Head: env.head("planted"), Calls: b.Calls, Seeds: len(b.seeds)}
	logs := 0
	for _, rate := range b.Noise {
		sum := plantedCounts{fresh: b.fresh}
		for _, seed := range b.seeds {
			env.note("noise %g, generator number %d", rate, seed)
			log := planted.Generate(planted.Options{Calls: b.Calls, Seed: seed, Noise: rate, Rich: true})
			var proposed []*flows.Flow
			used, _, err := measure(func() (err error) { proposed, err = proposePlanted(ctx, log); return err })
			if err != nil {
				return nil, err
			}
			logs++
			res.CPUS += used.Seconds()
			if err := sum.add(log, proposed); err != nil {
				return nil, err
			}
		}
		res.Noise = append(res.Noise, sum.figures(rate))
	}
	res.CPUS = round2(res.CPUS / float64(max(1, logs)))
	return res, nil
}

// schemaSessions is how many sessions of a log tell the tools' schemas.
const schemaSessions = 3000

// proposePlanted runs a whole pass over a log.
func proposePlanted(ctx context.Context, log *planted.Log) ([]*flows.Flow, error) {
	mined, err := observer.Mine(ctx, log, observer.Options{})
	if err != nil {
		return nil, err
	}
	tools := analyzer.NewInferrer()
	ids := log.SessionIDs()
	err = log.Sessions(ctx, ids[:min(schemaSessions, len(ids))], func(s *ingest.Session) error { tools.ObserveSession(s); return nil })
	if err != nil {
		return nil, err
	}
	candidates, err := analyzer.Propose(ctx, mined, analyzer.NewCatalogue(nil, tools.Tools()), log, analyzer.Options{MaxChains: -1, Values: tools, Secondary: true})
	if err != nil {
		return nil, err
	}
	out := make([]*flows.Flow, len(candidates))
	for i := range candidates {
		out[i] = candidates[i].Flow
	}
	return out, nil
}

// plantedCounts adds up several logs.
type plantedCounts struct {
	fresh                    int
	logs, planted            int
	at50, at100, soft        int
	derived, right           int
	sources, sourcesFound    int // planted arguments that are no inputs, in all flows and in found ones
	inputRight, inputGuessed int
	inputs                   int
	constants, constantsTrue int
	kinds, kindsRight        map[planted.Kind]int
}

// freshExecutions decide whether a source is right.
const freshExecutions = 1000

func (c *plantedCounts) add(log *planted.Log, proposed []*flows.Flow) error {
	if c.kinds == nil {
		c.kinds, c.kindsRight = map[planted.Kind]int{}, map[planted.Kind]int{}
	}
	c.logs++
	c.planted += len(log.Flows)
	first := map[string]int{} // tools -> the best proposal
	tools := make([][]string, len(proposed))
	for i, f := range proposed {
		for k := range f.Steps {
			tools[i] = append(tools[i], f.Steps[k].ToolName)
		}
		if key := strings.Join(tools[i], ">"); i < 100 {
			if _, known := first[key]; !known {
				first[key] = i
			}
		}
	}
	for i := range log.Flows {
		truth := &log.Flows[i]
		for k := 1; k < len(truth.Args); k++ {
			for _, a := range truth.Args[k] {
				if a.Kind != planted.Input {
					c.sources++
				}
			}
		}
		if slices.ContainsFunc(tools[:min(100, len(tools))], func(t []string) bool { return jaccard(t, truth.Tools) >= 0.8 }) {
			c.soft++
		}
		rank, found := first[strings.Join(truth.Tools, ">")]
		if !found {
			continue
		}
		c.at100++
		if rank < 50 {
			c.at50++
		}
		if err := c.compare(log, i, proposed[rank]); err != nil {
			return err
		}
	}
	return nil
}

// compare lays the proposal over fresh executions of the planted flow.
func (c *plantedCounts) compare(log *planted.Log, index int, f *flows.Flow) error {
	compiled, err := replay.Compile(f)
	if err != nil {
		return fmt.Errorf("flow %s: %w", f.Name, err)
	}
	sc := replay.NewScorer([]*replay.Flow{compiled})
	for _, s := range log.Executions(index, c.fresh) {
		sc.Session(replay.NewSession(&s))
	}
	rates := sc.ByFlow[0].Arguments
	truth := &log.Flows[index]
	for k := 1; k < len(truth.Args); k++ {
		for _, a := range truth.Args[k] {
			c.argument(f, k, a, rates[replay.Argument{Step: k, Arg: a.Name}])
		}
	}
	return nil
}

// argument compares one planted argument with what the proposal does; rate is what its derivation is worth.
func (c *plantedCounts) argument(f *flows.Flow, step int, a planted.Arg, rate replay.Rate) {
	c.kinds[a.Kind]++
	if a.Kind == planted.Input {
		c.inputs++
	} else {
		c.sourcesFound++
	}
	mapping := f.Steps[step].InputMapping
	at := slices.IndexFunc(mapping, func(e flows.MappingEntry) bool { return e.Target == a.Name })
	if at < 0 {
		return
	}
	v := unwrapped(&mapping[at].Value)
	if isFirstUse(f, step, v) {
		c.inputGuessed++
		if a.Kind == planted.Input {
			c.inputRight++
			c.kindsRight[a.Kind]++
		}
		return
	}
	c.derived++
	if v.Kind == flows.MapConst || v.Kind == flows.MapLiteral {
		c.constants++
		if a.Kind == planted.Const {
			c.constantsTrue++
		}
	}
	if rate.Of > 0 && rate.Right == rate.Of && a.Kind != planted.Input {
		c.right++
		c.kindsRight[a.Kind]++
	}
}

func unwrapped(v *flows.MappingValue) *flows.MappingValue {
	for v.Kind == flows.MapOptional {
		v = v.Inner
	}
	return v
}

// isFirstUse reports whether a mapping value is an input of the flow that no earlier step takes.
func isFirstUse(f *flows.Flow, step int, v *flows.MappingValue) bool {
	if v.Kind != flows.MapKey || v.Ref == f.Steps[step].As {
		return false
	}
	for k := range f.Steps[:step] {
		if f.Steps[k].OutputAs == v.Ref {
			return false
		}
		for i := range f.Steps[k].InputMapping {
			if e := unwrapped(&f.Steps[k].InputMapping[i].Value); e.Kind == flows.MapKey && e.Ref == v.Ref {
				return false
			}
		}
	}
	return true
}

// jaccard compares steps as multisets.
func jaccard(a, b []string) float64 {
	count := map[string]int{}
	for _, t := range a {
		count[t]++
	}
	shared := 0
	for _, t := range b {
		if count[t] > 0 {
			count[t]--
			shared++
		}
	}
	return float64(shared) / float64(len(a)+len(b)-shared)
}

func (c *plantedCounts) figures(rate float64) PlantedNoise {
	out := PlantedNoise{Rate: rate, PAt50: ratio(c.at50, 50*c.logs), RAt100: ratio(c.at100, c.planted), SoftRAt100: ratio(c.soft, c.planted),
		MappingPrecision: ratio(c.right, c.derived), MappingRecall: ratio(c.right, c.sources), RecallFound: ratio(c.right, c.sourcesFound),
		InputF1:           ratio(2*c.inputRight, c.inputs+c.inputGuessed),
		FalseConstantRate: ratio(c.constants-c.constantsTrue, c.constants), ByKind: map[planted.Kind]float64{}}
	for kind, n := range c.kinds {
		out.ByKind[kind] = ratio(c.kindsRight[kind], n)
	}
	return out
}

func ratio(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part*10_000/whole) / 10_000
}
