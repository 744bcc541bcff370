package replay

import (
	"cmp"
	"container/heap"
)

// Ranking orders flows by what each saves on recorded sessions. It is not safe for concurrent use.
type Ranking struct {
	// ByFlow is what a Scorer finds for each flow on the sessions, parallel to the flows; Used and Saved are not counted.
	ByFlow  []FlowOutcome
	lengths []int // of the stretches, which are numbered
	places  [][]place
}

// place is a stretch in which a flow has applications.
type place struct {
	stretch int
	all     []application
}

// NewRanking lays the flows over the sessions, with the matches that are kept already; nil is none.
func NewRanking(flows []*Flow, sessions []*Session, kept *Matches) *Ranking {
	r := &Ranking{places: make([][]place, len(flows))}
	sc := NewScorer(flows).Keep(kept)
	for _, s := range sessions {
		for n, stretch := range s.stretches {
			strict, _ := sc.stretch(s, n, &Outcome{})
			at := len(r.lengths)
			r.lengths = append(r.lengths, len(stretch))
			for _, a := range strict {
				if a.match.Saved == 0 {
					continue
				}
				mine := &r.places[a.flow]
				if n := len(*mine); n == 0 || (*mine)[n-1].stretch != at {
					*mine = append(*mine, place{stretch: at})
				}
				last := &(*mine)[len(*mine)-1]
				last.all = append(last.all, a)
			}
		}
	}
	r.ByFlow = sc.ByFlow
	return r
}

// Rank orders those of the flows that take by the turns that each saves beyond those before it: greedy set cover, the
// stretches being split anew after every pick; among equals the flow that comes first. It ends where the next one would
// save less than minGain, at least one. order has indexes of flows, gains the turns in the same order.
func (r *Ranking) Rank(take func(flow int) bool, minGain int) (order, gains []int) {
	c := cover{r, map[int][]application{}, map[int]int{}}
	queue := &rankQueue{}
	for i := range r.places {
		if len(r.places[i]) > 0 && take(i) {
			heap.Push(queue, rankItem{i, c.gain(i), 0})
		}
	}
	for queue.Len() > 0 {
		item := heap.Pop(queue).(rankItem)
		if item.gain < max(1, minGain) {
			break
		}
		if item.fresh < len(order) { // a gain never grows
			heap.Push(queue, rankItem{item.flow, c.gain(item.flow), len(order)})
			continue
		}
		c.pick(item.flow)
		order, gains = append(order, item.flow), append(gains, item.gain)
	}
	return order, gains
}

// cover is what is picked so far, by stretch.
type cover struct {
	*Ranking
	picked map[int][]application
	saved  map[int]int
}

func (c *cover) gain(flow int) int {
	total := 0
	for _, p := range c.places[flow] {
		total += c.with(p) - c.saved[p.stretch]
	}
	return total
}

// with is what the stretch saves with a further flow.
func (c *cover) with(p place) int {
	picked := c.picked[p.stretch]
	return savedBy(c.lengths[p.stretch], append(picked[:len(picked):len(picked)], p.all...))
}

func (c *cover) pick(flow int) {
	for _, p := range c.places[flow] {
		c.saved[p.stretch] = c.with(p)
		c.picked[p.stretch] = append(c.picked[p.stretch], p.all...)
	}
}

func savedBy(length int, all []application) int {
	total := 0
	for _, a := range best(length, all) {
		total += a.match.Saved
	}
	return total
}

// rankItem is a flow with an upper bound of its gain, which was right when fresh flows were picked.
type rankItem struct{ flow, gain, fresh int }

type rankQueue []rankItem

func (q rankQueue) Len() int      { return len(q) }
func (q rankQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q rankQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[j].gain, q[i].gain), cmp.Compare(q[i].flow, q[j].flow)) < 0
}
func (q *rankQueue) Push(x any) { *q = append(*q, x.(rankItem)) }
func (q *rankQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
