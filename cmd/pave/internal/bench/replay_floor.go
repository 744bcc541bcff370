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

// asking are the exactnesses for which a flow with arguments below it is there as one that asks for them, too.
var asking = [...]float64{0.85, 0.95}

// addAsking adds, behind each flow with arguments that are not right often enough, the flow that asks the caller for
// them.
func (p *proposals) addAsking() error {
	var all []*flows.Flow
	var compiled []*replay.Flow
	for i, f := range p.flows {
		all, compiled = append(all, f), append(compiled, p.compiled[i])
		before := ""
		for _, exact := range asking {
			asks, ok := replay.Asking(f, p.compiled[i], &p.outcomes[i], exact)
			if !ok {
				continue
			}
			if digest := flows.Digest(asks); digest != before {
				before = digest
				ready, err := compileAll([]*flows.Flow{asks})
				if err != nil {
					return err
				}
				all, compiled = append(all, asks), append(compiled, ready...)
			}
		}
	}
	p.flows, p.compiled = all, compiled
	p.measure()
	return nil
}

// choose settles the flows of an operating point.
func choose(domains []replayDomain, point int, floors []replay.Floor) {
	for i := range domains {
		d := &domains[i]
		from := &d.all
		if points[point].floor == 0 {
			from = &d.loose
		}
		d.chosen[point] = from.pick(floors[i])
	}
	if points[point].floor > 0 {
		limitInputs(domains, point)
	}
}

// pick takes the flows that a floor takes, and values them.
func (p *proposals) pick(fl replay.Floor) selection {
	out := p.take(fl)
	out.value = make([]int, len(out.flows))
	for k, o := range p.score(out.compiled, p.from) {
		out.value[k] = o.Saved
	}
	return out
}

func (p *proposals) take(fl replay.Floor) selection {
	var out selection
	for k, f := range p.flows {
		if fl.Takes(p.compiled[k], &p.outcomes[k]) && (fl == replay.Floor{} || p.compiled[k].Inputs <= mostInputs) {
			out.flows, out.compiled = append(out.flows, f), append(out.compiled, p.compiled[k])
		}
	}
	return out
}

// mostInputs is how many inputs a flow may have at the floors.
const mostInputs = 8

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

// Values that the rules are chosen among.
var (
	minExacts = [...]float64{0.5, 0.8, 0.85, 0.9, 0.93, 0.95, 0.96, 0.97, 0.98, 1}
	minCleans = [...]int{3, 5, 8, 12, 20, 40, never}
)

// lenient are the least demands.
var lenient = replay.Clean{Plain: minCleans[0], Derived: minCleans[0], Options: minCleans[0]}

const (
	never         = 1 << 20
	enoughWindows = 200 // on the folds, in which flows with side effects did no harm, to trust the least demands
	reserve       = 0.7 // share of what may be wrong that is not used up on the folds
	caution       = 2   // times the applications under which no harm was seen
)

// chooseFloors finds the rules, one for each domain, that save most on kept-back folds of the training parts among those
// that reach the exactness over all of them and would not have done harm there.
func chooseFloors(domains []replayDomain, exact float64) []replay.Floor {
	// A rule that only just reaches the exactness on the folds would miss it elsewhere half of the time.
	target := exact + reserve*(1-exact)
	best, most := make([]replay.Floor, len(domains)), -1
	for i := range best {
		best[i] = replay.Floor{MinExact: 1, MinClean: replay.Clean{Plain: never, Derived: never, Options: never}}
	}
	for _, minExact := range minExacts {
		floors := make([]replay.Floor, len(domains))
		var total replay.Outcome
		for i := range domains {
			floors[i] = domains[i].harmless(minExact)
			o := domains[i].crossValidate(floors[i])
			total.Add(&o)
		}
		if float64(total.AllCorrect) >= target*float64(total.AllPredicted) && total.Saved > most {
			best, most = floors, total.Saved
		}
	}
	return best
}

// harmless is the rule with the least demands of flows with side effects under which none of them does harm on the kept
// back folds: the one whose flows have the most applications there.
func (d *replayDomain) harmless(minExact float64) replay.Floor {
	best, most := replay.Floor{MinExact: minExact, MinClean: replay.Clean{Plain: never, Derived: never, Options: never}}, -1
	for _, plain := range minCleans {
		for _, derived := range minCleans {
			for _, options := range minCleans {
				fl := replay.Floor{MinExact: minExact, MinClean: replay.Clean{Plain: plain, Derived: derived, Options: options}}
				saved, harm := 0, 0
				for f := range d.folds {
					p := &d.folds[f]
					for k := range p.flows {
						if p.compiled[k].Inputs <= mostInputs && fl.Takes(p.compiled[k], &p.outcomes[k]) {
							saved += p.others[k].ExactSaved
							harm += p.others[k].DestructiveInexact
						}
					}
				}
				if harm == 0 && saved > most {
					best, most = fl, saved
				}
			}
		}
	}
	if c := &best.MinClean; *c != lenient || d.riskyWindows() < enoughWindows {
		c.Plain, c.Derived, c.Options = caution*c.Plain, caution*c.Derived, caution*c.Options
	}
	return best
}

// riskyWindows counts the windows of flows with side effects on the folds.
func (d *replayDomain) riskyWindows() int {
	n := 0
	for f := range d.folds {
		p := &d.folds[f]
		for k, c := range p.compiled {
			if c.Effects() {
				n += p.others[k].Windows
			}
		}
	}
	return n
}

// crossValidate scores what a floor chooses on the folds that were kept back.
func (d *replayDomain) crossValidate(fl replay.Floor) replay.Outcome {
	var total replay.Outcome
	for f := range d.folds {
		sc := replay.NewScorer(d.folds[f].take(fl).compiled).Keep(d.folds[f].matches)
		for _, s := range d.folds[f].other {
			o := sc.Session(s)
			total.Add(&o)
		}
	}
	return total
}
