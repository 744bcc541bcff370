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
	value    []int // turns that the flow saves where it was proposed from
}

// choose settles the flows of an operating point.
func choose(domains []replayDomain, point int, floor replay.Floor) {
	for i := range domains {
		d := &domains[i]
		from := &d.all
		if points[point].floor == 0 {
			from = &d.loose
		}
		d.chosen[point] = from.pick(floor)
	}
	if points[point].floor > 0 {
		limitInputs(domains, point)
	}
}

// pick ranks the flows that a floor takes. Without a floor those that add nothing come last.
func (p *proposals) pick(fl replay.Floor) selection {
	var out selection
	add := func(k, value int) {
		out.flows, out.compiled, out.value = append(out.flows, p.flows[k]), append(out.compiled, p.compiled[k]), append(out.value, value)
	}
	if fl != (replay.Floor{}) {
		order, gains := p.rank(fl)
		for n, k := range order {
			add(k, gains[n])
		}
		return out
	}
	order, gains := p.ranking.Rank(func(int) bool { return true }, 1)
	ranked := map[int]bool{}
	for n, k := range order {
		add(k, gains[n])
		ranked[k] = true
	}
	for k := range p.flows {
		if !ranked[k] {
			add(k, 0)
		}
	}
	return out
}

// rank orders what a floor takes.
func (p *proposals) rank(fl replay.Floor) (order, gains []int) {
	return p.ranking.Rank(func(k int) bool {
		return p.compiled[k].Inputs <= mostInputs && fl.Takes(p.compiled[k], &p.outcomes[k])
	}, 1)
}

// mostInputs is what a flow at the floors may ask for.
const mostInputs = 24

// maxInputs is the median of the inputs of the flows at the floors that is not exceeded: a flow that asks for much is
// worth less to its caller.
const maxInputs = 3

// limitInputs drops the flows with many inputs that save least until the median is kept.
func limitInputs(domains []replayDomain, point int) {
	type place struct{ domain, flow, value int }
	var many []place
	few := 0
	for i := range domains {
		chosen := &domains[i].chosen[point]
		for k, f := range chosen.compiled {
			if f.Inputs > maxInputs {
				many = append(many, place{i, k, chosen.value[k]})
			} else {
				few++
			}
		}
	}
	slices.SortStableFunc(many, func(a, b place) int { return cmp.Compare(a.value, b.value) })
	dropped := map[[2]int]bool{}
	for _, p := range many[:max(0, len(many)-few+1)] {
		dropped[[2]int{p.domain, p.flow}] = true
	}
	for i := range domains {
		old, out := domains[i].chosen[point], selection{}
		for k := range old.flows {
			if !dropped[[2]int{i, k}] {
				out.flows, out.compiled, out.value = append(out.flows, old.flows[k]), append(out.compiled, old.compiled[k]), append(out.value, old.value[k])
			}
		}
		domains[i].chosen[point] = out
	}
}

// minExacts are what the rules are chosen among.
var minExacts = [...]float64{0.97, 0.98, 0.985, 0.99, 1}

// reserve is the share of what may be wrong that is not used up on the folds.
const reserve = 0.5

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
		sc := replay.NewScorer(d.folds[f].pick(fl).compiled).Keep(d.folds[f].matches)
		for _, s := range d.folds[f].other {
			o := sc.Session(s)
			total.Add(&o)
		}
	}
	return total
}
