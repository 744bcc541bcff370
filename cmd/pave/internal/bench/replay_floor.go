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
	}, minGain)
}

const (
	mostInputs = 12 // of a flow at the floors
	minGain    = 2  // turns that a flow at the floors must save beyond the others where it was proposed from
)

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
	minExacts = [...]float64{0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 1}
	minCleans = [...]int{3, 5, 8, 12, 20, 40, never}
)

// lenient are the least demands.
var lenient = replay.Clean{Plain: minCleans[0], Derived: minCleans[3], Options: minCleans[1]}

const (
	never         = 1 << 20
	slack         = 2    // times the errors of a floor that one argument may have
	reserve       = 0.85 // share of what may be wrong that is not used up on the folds
	caution       = 2    // times the applications under which no harm was seen
	enoughWindows = 100  // of flows with side effects on the folds, none of which did harm, to trust the least demands
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
		if 1-minExact > slack*(1-exact) {
			continue // an argument that was wrong more often where it was proposed from is not right more often elsewhere
		}
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

// harmless is the rule for flows with side effects under which none of them does harm on the kept-back folds. Where the
// least demands do, agents are too irregular for a change to rest on a derived value; of the others the rule is taken
// whose flows have the most applications. Twice the applications are asked for then, and where little was seen.
func (d *replayDomain) harmless(minExact float64) replay.Floor {
	var order [folds][]int // of the flows that the least demands take
	for f := range d.folds {
		order[f], _ = d.folds[f].rank(replay.Floor{MinExact: minExact, MinClean: lenient})
	}
	try := func(clean replay.Clean) (saved, harm, seen int) {
		fl := replay.Floor{MinExact: minExact, MinClean: clean}
		for f := range d.folds {
			p := &d.folds[f]
			for _, k := range order[f] {
				if fl.Takes(p.compiled[k], &p.outcomes[k]) {
					saved += p.others[k].ExactSaved
					harm += p.others[k].DestructiveInexact
					if p.compiled[k].Effects() {
						seen += p.others[k].Windows
					}
				}
			}
		}
		return saved, harm, seen
	}
	_, harm, seen := try(lenient)
	if harm == 0 && seen >= enoughWindows {
		return replay.Floor{MinExact: minExact, MinClean: lenient}
	}
	best := lenient
	if harm > 0 {
		best = replay.Clean{Plain: never, Derived: never, Options: never}
		most := -1
		for _, plain := range minCleans {
			for _, options := range minCleans {
				clean := replay.Clean{Plain: plain, Derived: never, Options: options}
				if saved, harm, _ := try(clean); harm == 0 && saved > most {
					best, most = clean, saved
				}
			}
		}
	}
	return replay.Floor{MinExact: minExact, MinClean: replay.Clean{
		Plain: caution * best.Plain, Derived: caution * best.Derived, Options: caution * best.Options}}
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
