package bench

import (
	"cmp"
	"slices"

	"pave/analyzer/replay"
	"pave/flows"
)

// selection are the flows of a domain at an operating point, in rank order.
type selection struct {
	flows    []*flows.Flow
	compiled []*replay.Flow
	index    []int // of the flow among the proposals
	value    []int // turns that the flow saves where it was proposed from
}

func (s *selection) add(p *proposals, k, value int) {
	s.flows, s.compiled = append(s.flows, p.flows[k]), append(s.compiled, p.compiled[k])
	s.index, s.value = append(s.index, k), append(s.value, value)
}

// choose settles the flows of an operating point. At the floors those are left out that ask for much and save least until
// the median of the inputs is kept; others may have a use then that had none beside them.
func choose(domains []replayDomain, point int, floor replay.Floor) {
	out := make([]map[int]bool, len(domains))
	for i := range out {
		out[i] = map[int]bool{}
	}
	for {
		for i := range domains {
			d := &domains[i]
			from := &d.all
			if points[point].floor == 0 {
				from = &d.loose
			}
			d.chosen[point] = from.pick(floor, out[i])
		}
		if points[point].floor == 0 || !leaveOut(domains, point, out) {
			return
		}
	}
}

// pick ranks the flows that a floor takes, but for those that are left out. Without a floor those that add nothing come
// last.
func (p *proposals) pick(fl replay.Floor, out map[int]bool) (s selection) {
	if fl != (replay.Floor{}) {
		order, gains := p.ranking.Rank(func(k int) bool {
			return !out[k] && p.compiled[k].Inputs <= mostInputs && fl.Takes(p.compiled[k], &p.outcomes[k])
		}, 1)
		for n, k := range order {
			s.add(p, k, gains[n])
		}
		return s
	}
	order, gains := p.ranking.Rank(func(int) bool { return true }, 1)
	ranked := map[int]bool{}
	for n, k := range order {
		s.add(p, k, gains[n])
		ranked[k] = true
	}
	for k := range p.flows {
		if !ranked[k] {
			s.add(p, k, 0)
		}
	}
	return s
}

// mostInputs is what a flow at the floors may ask for.
const mostInputs = 24

// maxInputs is the median of the inputs of the flows at the floors that is not exceeded: a flow that asks for much is
// worth less to its caller.
const maxInputs = 3

// leaveOut adds the flows with many inputs that save least, as many as keep the median too high. It reports whether there
// are any.
func leaveOut(domains []replayDomain, point int, out []map[int]bool) bool {
	type place struct{ domain, flow, value int }
	var many []place
	few := 0
	for i := range domains {
		chosen := &domains[i].chosen[point]
		for k, f := range chosen.compiled {
			if f.Inputs > maxInputs {
				many = append(many, place{i, chosen.index[k], chosen.value[k]})
			} else {
				few++
			}
		}
	}
	slices.SortStableFunc(many, func(a, b place) int { return cmp.Compare(a.value, b.value) })
	over := many[:min(len(many), max(0, len(many)-few+1))] // all of them where no flow has few
	for _, p := range over {
		out[p.domain][p.flow] = true
	}
	return len(over) > 0
}

// minExacts are what the rules are chosen among.
var minExacts = [...]float64{0.985, 0.99, 1}

// reserve is the share of what may be wrong that is not used up on the folds.
const reserve = 0.75

// chooseFloor finds the rule that saves most on kept-back folds of the training parts among those that reach the exactness
// there. A rule that only just reaches it on the folds would miss it elsewhere half of the time.
func chooseFloor(domains []replayDomain, exact float64) replay.Floor {
	target := exact + reserve*(1-exact)
	best, most := replay.Floor{MinExact: 1}, -1
	for _, minExact := range minExacts {
		if minExact < exact {
			continue // an argument that was wrong more often where it was proposed from is not right more often elsewhere
		}
		fl := replay.Floor{MinExact: minExact}
		var total replay.Outcome
		for i := range domains {
			o := domains[i].crossValidate(fl)
			total.Add(&o)
		}
		if float64(total.AllCorrect) >= target*float64(total.AllPredicted) && total.Saved > most {
			best, most = fl, total.Saved
		}
	}
	return best
}

// crossValidate scores what a floor chooses on the folds that were kept back.
func (d *replayDomain) crossValidate(fl replay.Floor) replay.Outcome {
	var total replay.Outcome
	for f := range d.folds {
		sc := replay.NewScorer(d.folds[f].pick(fl, nil).compiled).Keep(d.folds[f].matches)
		for _, s := range d.folds[f].other {
			o := sc.Session(s)
			total.Add(&o)
		}
	}
	return total
}
