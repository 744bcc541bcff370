package observer

import (
	"cmp"
	"container/heap"
	"slices"
)

// cover ranks flows by what each saves beyond those before it: the model calls that the best split of the recorded
// stretches into flow runs avoids with it and would not avoid without it. Calls belong to one run at most, so flows
// compete for them (greedy set cover with a new segmentation after every pick).
type cover struct {
	log    *calls
	flows  []coverFlow
	placed map[uint32][]span // stretch -> spans of the flows picked so far, by end
	saved  map[uint32]float64

	merged []span    // reused
	best   []float64 // reused
}

// coverFlow is a flow with the places where it may run, by stretch and start.
type coverFlow struct {
	spans  []span
	weight float64 // of its gain in the ranking
	alone  float64 // what it saves when it is the only flow
}

// add gives a flow more places; those of a stretch are in the order of their ends.
func (f *coverFlow) add(spans []span) {
	f.spans = append(f.spans, spans...)
	slices.SortFunc(f.spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.stretch, b.stretch), cmp.Compare(a.to, b.to))
	})
}

// span is a place where a flow may run: calls [from, to) of the log, and the model calls it is expected to save there.
type span struct {
	stretch, from, to uint32
	saves             float64
}

// maxSpans bounds how many spans of one stretch are looked at for one flow; what a single endless stretch could save
// says little.
const maxSpans = 256

// gain is what the flow adds to what the picked ones save.
func (c *cover) gain(f *coverFlow) float64 {
	total := 0.0
	for from := 0; from < len(f.spans); {
		to := from + 1
		for to < len(f.spans) && f.spans[to].stretch == f.spans[from].stretch {
			to++
		}
		stretch := f.spans[from].stretch
		if placed := c.placed[stretch]; len(placed) == 0 {
			total += c.bestSplit(f.spans[from:to])
		} else {
			c.merged = mergeSpans(c.merged[:0], placed, f.spans[from:to])
			total += c.bestSplit(c.merged) - c.saved[stretch]
		}
		from = to
	}
	return total
}

// pick adds the flow.
func (c *cover) pick(f *coverFlow) {
	for from := 0; from < len(f.spans); {
		to := from + 1
		for to < len(f.spans) && f.spans[to].stretch == f.spans[from].stretch {
			to++
		}
		stretch := f.spans[from].stretch
		c.placed[stretch] = mergeSpans(nil, c.placed[stretch], f.spans[from:to])
		c.saved[stretch] = c.bestSplit(c.placed[stretch])
		from = to
	}
}

// mergeSpans appends two lists of spans to out, by end.
func mergeSpans(out, a, b []span) []span {
	out = slices.Grow(out, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].to <= b[0].to {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// bestSplit is the most that disjoint spans save together. The spans are sorted by end (weighted interval scheduling).
func (c *cover) bestSplit(spans []span) float64 {
	if len(spans) == 1 {
		return spans[0].saves
	}
	c.best = slices.Grow(c.best[:0], len(spans)+1)[:len(spans)+1]
	best := c.best
	best[0] = 0
	for i, s := range spans {
		before, over := 0, i // how many end before this one begins, by bisection
		for before < over {
			if middle := (before + over) / 2; spans[middle].to <= s.from {
				before = middle + 1
			} else {
				over = middle
			}
		}
		best[i+1] = max(best[i], best[before]+s.saves)
	}
	return best[len(spans)]
}

// ranked is a flow with its place in the ranking.
type ranked struct {
	flow int
	gain float64
	tier int
}

// rank picks flows until none adds at least minGain. A flow that saves less than half of what it would save alone, or
// that is none of the first rank, comes after all others.
func (c *cover) rank(minGain float64, first func(flow int) bool, most int) []ranked {
	queue := &gainQueue{}
	for i := range c.flows {
		f := &c.flows[i]
		f.alone = c.gain(f)
		heap.Push(queue, queued{ranked: ranked{flow: i, gain: f.alone, tier: tierOf(first(i))}, weight: f.weight, fresh: 0})
	}
	var out []ranked
	for queue.Len() > 0 && len(out) < most {
		q := heap.Pop(queue).(queued)
		f := &c.flows[q.flow]
		if q.fresh < len(out) && q.gain > 0 { // a gain never grows
			q.gain, q.fresh = c.gain(f), len(out)
			if 2*q.gain < f.alone {
				q.tier = 1
			}
			if q.gain >= minGain {
				heap.Push(queue, q)
			}
			continue
		}
		if q.gain < minGain {
			continue
		}
		c.pick(f)
		out = append(out, q.ranked)
	}
	return out
}

func tierOf(first bool) int {
	if first {
		return 0
	}
	return 1
}

// queued is a flow with an upper bound of its gain, which was right when fresh flows were picked.
type queued struct {
	ranked
	weight float64
	fresh  int
}

type gainQueue []queued

func (q gainQueue) Len() int      { return len(q) }
func (q gainQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q gainQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].tier, q[j].tier), cmp.Compare(q[j].weight*q[j].gain, q[i].weight*q[i].gain),
		cmp.Compare(q[i].flow, q[j].flow)) < 0
}
func (q *gainQueue) Push(x any) { *q = append(*q, x.(queued)) }
func (q *gainQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
