package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pave/analyzer/baseline"
	"pave/analyzer/replay"
	"pave/flows"
	"pave/flows/value"
	"pave/ingest"
)

// replayReport collects the tallies of all data sets.
type replayReport struct {
	res    ReplayResult
	pooled replayTally
	missed map[[2]string]*replayMissed // by domain and tools

	hindsight [len(hindsights)]hindsightTally
}

// maxLimits bounds each list of what limits the proposals.
const maxLimits = 40

func (r *replayReport) addMissed(domain string, all []replay.Missed) {
	for _, m := range all {
		key := [2]string{domain, strings.Join(m.Tools, " > ")}
		sum := r.missed[key]
		if sum == nil {
			sum = &replayMissed{Domain: domain, Tools: key[1]}
			r.missed[key] = sum
		}
		sum.Segments++
		sum.Turns += m.Turns
	}
}

func (r *replayReport) addFaults(domain string, chosen []*flows.Flow, outcomes []replay.FlowOutcome) {
	for i := range outcomes {
		for f, loss := range outcomes[i].Faults {
			r.res.Limits.Faults = append(r.res.Limits.Faults, replayFault{domain, chosen[i].Name, f.Step, f.Arg, f.Reason, loss.Windows, loss.Turns})
		}
	}
}

// limits keeps the largest losses, in a fixed order.
func (r *replayReport) limits() {
	l := &r.res.Limits
	l.Missed = []replayMissed{}
	slices.SortFunc(l.Faults, func(a, b replayFault) int {
		return cmp.Or(cmp.Compare(b.Turns, a.Turns), strings.Compare(a.Domain+a.Flow, b.Domain+b.Flow), cmp.Compare(a.Step, b.Step),
			strings.Compare(a.Arg, b.Arg), strings.Compare(string(a.Reason), string(b.Reason)))
	})
	l.Faults = append([]replayFault{}, l.Faults[:min(maxLimits, len(l.Faults))]...)
	for _, m := range r.missed {
		l.Missed = append(l.Missed, *m)
	}
	slices.SortFunc(l.Missed, func(a, b replayMissed) int {
		return cmp.Or(cmp.Compare(b.Turns, a.Turns), strings.Compare(a.Domain, b.Domain), strings.Compare(a.Tools, b.Tools))
	})
	l.Missed = l.Missed[:min(maxLimits, len(l.Missed))]
}

// score adds a domain: each of its data sets, and all of them to the pool.
func (d *replayDomain) score(r *replayReport) error {
	var scorers [len(points)]*replay.Scorer
	for i := range points {
		scorers[i] = replay.NewScorer(d.chosen[i].compiled)
		r.pooled.points[i].addFlows(d.chosen[i].compiled)
	}
	training := replay.NewTraining(d.all.from)
	allInputs := replay.NewScorer(training.AllInputs())
	sequences := replay.NewScorer(training.SequenceOnly(len(d.all.flows)))
	referenceAll, err := referenceFlows(d.train)
	if err != nil {
		return err
	}
	reference := replay.NewScorer(referenceAll)
	trainCalls := 0
	for _, s := range d.all.from {
		trainCalls += s.Calls
	}
	r.pooled.trainCalls += trainCalls
	r.res.TrainSessions += len(d.train)

	var names []string
	sets := map[string]*replayTally{}
	for _, s := range d.test {
		t := sets[s.set]
		if t == nil {
			t = &replayTally{trainCalls: trainCalls}
			sets[s.set] = t
			names = append(names, s.set)
			for i := range points {
				t.points[i].addFlows(d.chosen[i].compiled)
			}
		}
		ready := s.ready
		for i := range points {
			o := scorers[i].Session(ready)
			t.points[i].add(&o)
		}
		o := allInputs.Session(ready)
		t.allInputs.Add(&o)
		o = sequences.Session(ready)
		t.sequences.Add(&o)
		o = reference.Session(ready)
		t.reference.Add(&o)
		b := training.Bounds(ready)
		t.bounds.Add(&b)
		r.addMissed(d.name, scorers[0].Missed(training, ready))
	}
	r.addFaults(d.name, d.chosen[0].flows, scorers[0].ByFlow)
	d.addHindsight(&r.hindsight)
	slices.Sort(names)
	for _, name := range names {
		t := sets[name]
		r.res.Sets = append(r.res.Sets, replaySet{Name: name, Domain: d.name, replayPoints: t.operating(), replayFigures: t.figures()})
		r.pooled.add(t)
	}
	return nil
}

func (r *replayReport) result() ReplayResult {
	r.limits()
	res := r.res
	res.Pooled, res.replayFigures = r.pooled.operating(), r.pooled.figures()
	res.Limits.Hindsight = withHindsight(r.hindsight, r.pooled.points[0].LLMCalls, r.pooled.bounds.SupportOracle)
	res.OfSupportOraclePct, res.OfOraclePct = map[string]float64{}, map[string]float64{}
	for i, p := range points {
		saved := r.pooled.points[i].Saved
		res.OfSupportOraclePct[p.name] = percent(saved, r.pooled.bounds.SupportOracle)
		res.OfOraclePct[p.name] = percent(saved, r.pooled.bounds.Oracle)
	}
	return res
}

// exportFlows writes the flows of every operating point as files, DIR/POINT/DOMAIN/RANK-NAME.flow.yaml.
func exportFlows(dir string, domains []replayDomain) error {
	for i, p := range points {
		for _, d := range domains {
			folder := filepath.Join(dir, p.name, d.name)
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
			for rank, f := range d.chosen[i].flows {
				text, err := flows.EncodeFlow(f, flows.FormatYAML)
				if err != nil {
					return err
				}
				path := filepath.Join(folder, fmt.Sprintf("%03d-%s.flow.yaml", rank+1, f.Name))
				if err := os.WriteFile(path, text, 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// referenceFlows are what the base system's observer proposes for sessions, whose names it sees only: sequences that
// occur three times, wired by equal names in the first occurrence. The first step takes what its call was given.
func referenceFlows(sessions []recordedSession) ([]*replay.Flow, error) {
	o, err := baseline.NewObserver(nil)
	if err != nil {
		return nil, err
	}
	for _, s := range sessions {
		t := baseline.Trace{ID: s.ID}
		for _, run := range s.Runs {
			for i := range run.Calls {
				c := &run.Calls[i]
				step := baseline.Step{Tool: c.Tool, Inputs: keysOf(c.Args)}
				if c.Status != ingest.StatusError {
					step.Outputs = keysOf(c.Result)
				}
				t.Steps = append(t.Steps, step)
			}
		}
		o.Add(t)
	}
	maxLength := 8
	suggestions, err := o.SuggestFlows(baseline.ObserverOptions{MinOccurrences: 3, MinLength: 2, MaxLength: &maxLength})
	if err != nil {
		return nil, err
	}
	all := make([]*flows.Flow, len(suggestions))
	for i := range suggestions {
		all[i] = suggestions[i].Flow
		all[i].Steps[0].InputMapping = nil
	}
	out := make([]*replay.Flow, len(all))
	for i, f := range all {
		if out[i], err = replay.Compile(f); err != nil {
			return nil, fmt.Errorf("flow %s: %w", f.Name, err)
		}
	}
	return out, nil
}

// keysOf lists the names of a recorded object in their order; a value that is none has the one name that it gets when
// a flow runs.
func keysOf(raw json.RawMessage) []string {
	v, err := value.DecodeOrdered(raw, value.Limits{})
	if err != nil || v == nil {
		return nil
	}
	members, ok := v.(value.Members)
	if !ok {
		return []string{"result"}
	}
	keys := make([]string, len(members))
	for i, m := range members {
		keys[i] = m.Key
	}
	return keys
}
