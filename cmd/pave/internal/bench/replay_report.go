package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"pave/analyzer/replay"
)

// ReplayResult is `pave bench replay`. Percentages of model calls are of those left when exact repeats are folded.
type ReplayResult struct {
	Head
	Pooled        replayPoints `json:"pooled"`
	TrainSessions int          `json:"train_sessions"`
	replayFigures
	// Rules are what the floors chose by, Reached how much of the bounds the operating points reach.
	Rules              map[string]replay.Floor `json:"rules"` // by operating point
	OfSupportOraclePct map[string]float64      `json:"of_support_oracle_pct"`
	OfOraclePct        map[string]float64      `json:"of_oracle_pct"`
	Sets               []replaySet             `json:"sets"`
	// Limits are what keeps the proposals of no_floor from the support oracle, the largest losses first.
	Limits struct {
		Faults []replayFault  `json:"faults"` // in windows of proposed flows
		Missed []replayMissed `json:"missed"` // sequences that no flow serves
		// Hindsight is what the proposals save at most without a destructive call, were they chosen by the test part.
		Hindsight map[string]replayHindsight `json:"hindsight"`
	} `json:"limits"`
}

// replayFault is an argument that keeps windows from being applications. An inexact window may have several.
type replayFault struct {
	Domain  string        `json:"domain"`
	Flow    string        `json:"flow"`
	Step    int           `json:"step"` // from 0, in order of execution
	Arg     string        `json:"arg"`
	Reason  replay.Reason `json:"reason"`
	Windows int           `json:"windows"`
	Turns   int           `json:"turns"`
}

type replayMissed struct {
	Domain   string `json:"domain"`
	Tools    string `json:"tools"`
	Segments int    `json:"segments"`
	Turns    int    `json:"turns"`
}

// replaySet is a data set: what one agent did with the tools of a domain.
type replaySet struct {
	Name   string `json:"name"`
	Domain string `json:"domain"`
	replayPoints
	replayFigures
}

type replayPoints struct {
	NoFloor replayPoint `json:"no_floor"`
	Floor97 replayPoint `json:"floor_97"`
	Floor99 replayPoint `json:"floor_99"`
}

// replayPoint is one operating point.
type replayPoint struct {
	Avoided            float64            `json:"llm_calls_avoided_pct"`
	AvoidedCI95        [2]float64         `json:"llm_calls_avoided_ci95"`
	AvoidedMacro       float64            `json:"llm_calls_avoided_macro_pct"`   // mean over sessions
	AvoidedLenient     float64            `json:"llm_calls_avoided_lenient_pct"` // free-text inputs count as known
	Covered            float64            `json:"calls_covered_pct"`
	Exactness          float64            `json:"argument_exactness_pct"`
	ExactnessAll       float64            `json:"argument_exactness_all_variants_pct"`
	ExactWindows       float64            `json:"exact_windows_pct"`
	UnknownInputs      float64            `json:"unknown_input_windows_pct"` // exact but for inputs that the caller could not give
	TriggerPrecision   float64            `json:"trigger_precision_pct"`
	DestructiveInexact int                `json:"destructive_in_inexact"`
	ExtraCalls         int                `json:"extra_calls"`
	Flows              int                `json:"flows"`
	InputsMedian       float64            `json:"inputs_per_flow_median"`
	TopK               map[string]float64 `json:"top_k"`
	// Used is what the avoided model calls used, of what all used, each over the sessions in which it was recorded.
	Used replayUsed `json:"recorded_usage_avoided"`
}

// replayUsed has null for what was not recorded.
type replayUsed struct {
	Tokens  *replayShare `json:"tokens"`
	CostUSD *replayShare `json:"cost_usd"`
	Seconds *replayShare `json:"seconds"`
}

type replayShare struct {
	Avoided float64 `json:"avoided"`
	Of      float64 `json:"of"`
	Pct     float64 `json:"pct"`
	// Calls is over how many of the recorded model calls that is.
	Calls int `json:"llm_calls"`
}

func usedOf(avoided, recorded *replay.Usage) (u replayUsed) {
	share := func(avoided, of float64, calls int) *replayShare {
		if calls == 0 {
			return nil
		}
		return &replayShare{round4(avoided), round4(of), round2(100 * avoided / max(of, math.SmallestNonzeroFloat64)), calls}
	}
	u.Tokens = share(avoided.Tokens, recorded.Tokens, recorded.TokenCalls)
	u.CostUSD = share(avoided.CostUSD, recorded.CostUSD, recorded.CostCalls)
	u.Seconds = share(avoided.Seconds, recorded.Seconds, recorded.DurationCalls)
	return u
}

type replayFigures struct {
	TestSessions     int             `json:"test_sessions"`
	TestCalls        int             `json:"test_calls"`
	TestLLMCalls     int             `json:"test_llm_calls"`
	Bounds           replayBounds    `json:"bounds"`
	Baselines        replayBaselines `json:"baselines"`
	RepeatSavingPct  float64         `json:"repeat_saving_pct"`
	ExtraCalls       int             `json:"extra_calls"`
	ProposalsPer1000 float64         `json:"proposals_per_1000_calls"`
}

type replayBounds struct {
	Structural    float64 `json:"structural_pct"`
	SequenceOnly  float64 `json:"sequence_only_pct"`
	Oracle        float64 `json:"oracle_pct"`
	SupportOracle float64 `json:"support_oracle_pct"`
}

type replayBaselines struct {
	Reference    float64 `json:"reference_observer_pct"`
	AllInputs    float64 `json:"all_inputs_pct"`
	SequenceOnly float64 `json:"sequence_only_pct"`
}

// replayTally adds up one data set, or all.
type replayTally struct {
	points     [len(points)]pointTally
	bounds     replay.Bounds
	allInputs  replay.Outcome
	sequences  replay.Outcome
	reference  replay.Outcome
	trainCalls int
}

type pointTally struct {
	replay.Outcome
	sessions []savedOf
	flows    int
	inputs   []float64
}

// savedOf is one session's share of a figure.
type savedOf struct{ saved, of int }

func (t *pointTally) add(o *replay.Outcome) {
	t.Outcome.Add(o)
	t.sessions = append(t.sessions, savedOf{o.Saved, o.LLMCalls})
}

func (t *pointTally) addFlows(flows []*replay.Flow) {
	t.flows += len(flows)
	for _, f := range flows {
		t.inputs = append(t.inputs, float64(f.Inputs))
	}
}

func (t *replayTally) add(u *replayTally) {
	for i := range t.points {
		t.points[i].Outcome.Add(&u.points[i].Outcome)
		t.points[i].sessions = append(t.points[i].sessions, u.points[i].sessions...)
	}
	t.bounds.Add(&u.bounds)
	t.allInputs.Add(&u.allInputs)
	t.sequences.Add(&u.sequences)
	t.reference.Add(&u.reference)
}

func (t *replayTally) figures() replayFigures {
	o := &t.points[0].Outcome
	of := func(saved int) float64 { return percent(saved, o.LLMCalls) }
	return replayFigures{
		TestSessions: o.Sessions, TestCalls: o.Calls, TestLLMCalls: o.LLMCalls,
		Bounds:          replayBounds{of(t.bounds.Structural), of(t.bounds.SequenceOnly), of(t.bounds.Oracle), of(t.bounds.SupportOracle)},
		Baselines:       replayBaselines{of(t.reference.Saved), of(t.allInputs.Saved), of(t.sequences.Saved)},
		RepeatSavingPct: percent(o.RepeatTurns, o.RecordedLLMCalls), ExtraCalls: o.Extra,
		ProposalsPer1000: round2(1000 * float64(t.points[0].flows) / float64(max(1, t.trainCalls))),
	}
}

func (t *replayTally) operating() replayPoints {
	return replayPoints{t.points[0].point(), t.points[1].point(), t.points[2].point()}
}

func (t *pointTally) point() replayPoint {
	of := func(saved int) float64 { return percent(saved, t.LLMCalls) }
	p := replayPoint{
		Avoided: of(t.Saved), AvoidedCI95: bootstrap(t.sessions), AvoidedMacro: macroMean(t.sessions), AvoidedLenient: of(t.SavedFree),
		Covered: percent(t.Covered, t.Calls), Exactness: percent(t.Correct, t.Predicted), ExactnessAll: percent(t.AllCorrect, t.AllPredicted),
		ExactWindows: percent(t.Windows-t.InexactWindows, t.Windows), UnknownInputs: percent(t.UnknownInputWindows, t.Windows), TriggerPrecision: percent(t.Triggered, t.Starts),
		DestructiveInexact: t.DestructiveInexact, ExtraCalls: t.Extra, Flows: t.flows, TopK: map[string]float64{},
		Used: usedOf(&t.Avoided, &t.Recorded),
	}
	if len(t.inputs) > 0 {
		p.InputsMedian = median(t.inputs)
	}
	for i, k := range replay.TopK {
		p.TopK[strconv.Itoa(k)] = of(t.SavedTop[i])
	}
	return p
}

func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return round2(100 * float64(part) / float64(whole))
}

func round2(x float64) float64 { return math.Round(100*x) / 100 }

func round4(x float64) float64 { return math.Round(1e4*x) / 1e4 }

func macroMean(sessions []savedOf) float64 {
	sum, n := 0.0, 0
	for _, s := range sessions {
		if s.of > 0 {
			sum += float64(s.saved) / float64(s.of)
			n++
		}
	}
	return round2(100 * sum / float64(max(1, n)))
}

// resamples of the bootstrap.
const resamples = 1000

// bootstrap is the 95 % percentile interval of the pooled percentage over resampled sessions.
func bootstrap(sessions []savedOf) [2]float64 {
	if len(sessions) == 0 {
		return [2]float64{}
	}
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]float64, resamples)
	for i := range all {
		saved, of := 0, 0
		for range sessions {
			s := sessions[r.IntN(len(sessions))]
			saved += s.saved
			of += s.of
		}
		all[i] = percent(saved, of)
	}
	slices.Sort(all)
	return [2]float64{all[resamples*25/1000], all[resamples*975/1000-1]}
}
