package bench

import "pave/analyzer/replay"

// hindsights are ways to choose among all proposals, with and without a demand for exactness, for somebody who knew the
// test part: no choice that is made from the training part alone saves more without a destructive call.
var hindsights = [...]struct {
	name  string
	right float64 // share of a flow's predictions in the test part
}{{"harmless", 0}, {"harmless_97", 0.97}, {"harmless_99", 0.99}}

// replayHindsight is what the proposals would save that did no harm in the test part, and were right there.
type replayHindsight struct {
	Avoided         float64 `json:"llm_calls_avoided_pct"`
	OfSupportOracle float64 `json:"of_support_oracle_pct"`
	Flows           int     `json:"flows"`
}

// hindsightTally adds up one of the hindsights over the domains.
type hindsightTally struct{ saved, flows int }

// addHindsight scores the proposals of a domain, those that ask for exactness and the others, by how they did on its test
// part.
func (d *replayDomain) addHindsight(tallies *[len(hindsights)]hindsightTally) {
	kept := replay.NewMatches()
	pool := append(append([]*replay.Flow{}, d.all.compiled...), d.loose.compiled...)
	outcomes := replay.NewScorer(pool).Keep(kept)
	for _, s := range d.test {
		outcomes.Session(s.ready)
	}
	for i, h := range hindsights {
		var chosen []*replay.Flow
		for k, o := range outcomes.ByFlow {
			if o.Exact > 0 && o.DestructiveInexact == 0 && float64(o.Correct) >= h.right*float64(o.Predicted) {
				chosen = append(chosen, pool[k])
			}
		}
		tallies[i].flows += len(chosen)
		sc := replay.NewScorer(chosen).Keep(kept)
		for _, s := range d.test {
			tallies[i].saved += sc.Session(s.ready).Saved
		}
	}
}

// withHindsight reports the tallies against the model calls and the support oracle of the test part.
func withHindsight(tallies [len(hindsights)]hindsightTally, llmCalls, supportOracle int) map[string]replayHindsight {
	out := map[string]replayHindsight{}
	for i, h := range hindsights {
		out[h.name] = replayHindsight{percent(tallies[i].saved, llmCalls), percent(tallies[i].saved, supportOracle), tallies[i].flows}
	}
	return out
}
