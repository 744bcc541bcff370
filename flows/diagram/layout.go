package diagram

import (
	"slices"
)

// Limits of the layout.
const (
	maxBends  = 20_000 // beyond it edges go straight instead of around steps
	sweeps    = 8      // of ordering and of placing
	boxGap    = 24.0   // between boxes of a rank
	bendWidth = 10.0
)

// box is a step in the layout, or a bend of an edge that passes a rank. Sizes and positions are along the two axes of
// the layout: ranks follow each other along depth, the boxes of a rank along breadth. Positions are centres.
type box struct {
	step           int // -1 is a bend
	rank           int
	breadth, depth float64 // size
	across, along  float64 // position
	before, after  []int   // neighbours in the ranks before and after
}

// layout places the steps of a graph in layers (the method of Sugiyama, Tagawa and Toda, 1981): ranks by
// dependency, bends where an edge passes a rank, an order within ranks by the barycentre of neighbours, positions by
// least squares towards the neighbours.
type layout struct {
	boxes  []box
	ranks  [][]int
	routes [][]int // by edge: the boxes from its source to its target
}

// newLayout orders and places boxes across ranks. size returns a step's extent across and along.
func newLayout(g *graph, size func(step int) (breadth, depth float64)) *layout {
	l := &layout{boxes: make([]box, len(g.nodes)), ranks: make([][]int, len(g.levels))}
	for rank, steps := range g.levels {
		l.ranks[rank] = slices.Clone(steps)
		for _, i := range steps {
			l.boxes[i] = box{step: i, rank: rank}
			l.boxes[i].breadth, l.boxes[i].depth = size(i)
		}
	}
	bends := 0
	for _, e := range g.edges {
		bends += l.boxes[e.to].rank - l.boxes[e.from].rank - 1
	}
	for _, e := range g.edges {
		l.route(e, bends <= maxBends)
	}
	l.order()
	l.place()
	return l
}

// route connects an edge's ends, through a bend in each rank between them.
func (l *layout) route(e edge, bend bool) {
	route := []int{e.from}
	for rank := l.boxes[e.from].rank + 1; bend && rank < l.boxes[e.to].rank; rank++ {
		l.boxes = append(l.boxes, box{step: -1, rank: rank, breadth: bendWidth})
		l.ranks[rank] = append(l.ranks[rank], len(l.boxes)-1)
		route = append(route, len(l.boxes)-1)
	}
	route = append(route, e.to)
	for i := 1; i < len(route); i++ {
		from, to := &l.boxes[route[i-1]], &l.boxes[route[i]]
		from.after, to.before = append(from.after, route[i]), append(to.before, route[i-1])
	}
	l.routes = append(l.routes, route)
}

// order sorts every rank by the mean position of the neighbours, sweeping down and up in turn.
func (l *layout) order() {
	at := make([]float64, len(l.boxes))
	number := func(rank []int) {
		for i, b := range rank {
			at[b] = float64(i)
		}
	}
	for _, rank := range l.ranks {
		number(rank)
	}
	for sweep := range sweeps {
		for k := range l.ranks {
			rank, neighbours := l.ranks[k], func(b int) []int { return l.boxes[b].before }
			if sweep%2 == 1 {
				rank, neighbours = l.ranks[len(l.ranks)-1-k], func(b int) []int { return l.boxes[b].after }
			}
			weight := make(map[int]float64, len(rank))
			for _, b := range rank {
				weight[b] = mean(neighbours(b), at, at[b])
			}
			slices.SortStableFunc(rank, func(a, b int) int {
				switch {
				case weight[a] < weight[b]:
					return -1
				case weight[a] > weight[b]:
					return 1
				}
				return 0
			})
			number(rank)
		}
	}
}

func mean(of []int, at []float64, alone float64) float64 {
	if len(of) == 0 {
		return alone
	}
	sum := 0.0
	for _, b := range of {
		sum += at[b]
	}
	return sum / float64(len(of))
}

// place gives every box its position across: first packed, then drawn towards its neighbours.
func (l *layout) place() {
	at := make([]float64, len(l.boxes))
	for _, rank := range l.ranks {
		offsets := l.offsets(rank)
		middle := offsets[len(offsets)-1] / 2
		for i, b := range rank {
			at[b] = offsets[i] - middle
		}
	}
	for sweep := range sweeps {
		for k := range l.ranks {
			rank := l.ranks[k]
			if sweep%2 == 1 {
				rank = l.ranks[len(l.ranks)-1-k]
			}
			wanted := make([]float64, len(rank))
			for i, b := range rank {
				wanted[i] = mean(append(slices.Clip(l.boxes[b].before), l.boxes[b].after...), at, at[b])
			}
			for i, x := range spread(wanted, l.offsets(rank)) {
				at[rank[i]] = x
			}
		}
	}
	for b := range l.boxes {
		l.boxes[b].across = at[b]
	}
}

// offsets are the least distances of the boxes of a rank from the first one.
func (l *layout) offsets(rank []int) []float64 {
	out := make([]float64, len(rank))
	for i := 1; i < len(rank); i++ {
		out[i] = out[i-1] + (l.boxes[rank[i-1]].breadth+l.boxes[rank[i]].breadth)/2 + boxGap
	}
	return out
}

// spread returns the positions nearest to the wanted ones, by least squares, that keep the distances: isotonic
// regression by pooling adjacent violators.
func spread(wanted, offsets []float64) []float64 {
	type pool struct {
		sum float64
		n   int
	}
	var pools []pool
	for i, w := range wanted {
		pools = append(pools, pool{w - offsets[i], 1})
		for len(pools) > 1 {
			last, previous := pools[len(pools)-1], pools[len(pools)-2]
			if previous.sum/float64(previous.n) <= last.sum/float64(last.n) {
				break
			}
			pools = append(pools[:len(pools)-2], pool{previous.sum + last.sum, previous.n + last.n})
		}
	}
	out := make([]float64, 0, len(wanted))
	for _, p := range pools {
		for range p.n {
			out = append(out, p.sum/float64(p.n)+offsets[len(out)])
		}
	}
	return out
}

// stack gives every rank its position along, with gap(rank) before it, and returns the whole extent.
func (l *layout) stack(gap func(rank int) float64) float64 {
	at := 0.0
	for rank, boxes := range l.ranks {
		deepest := 0.0
		for _, b := range boxes {
			deepest = max(deepest, l.boxes[b].depth)
		}
		if rank > 0 {
			at += gap(rank)
		}
		for _, b := range boxes {
			l.boxes[b].along = at + deepest/2
			if l.boxes[b].step < 0 {
				l.boxes[b].depth = deepest
			}
		}
		at += deepest
	}
	return at
}

// bounds are the least and greatest positions across.
func (l *layout) bounds() (least, most float64) {
	for i := range l.boxes {
		b := &l.boxes[i]
		if i == 0 || b.across-b.breadth/2 < least {
			least = b.across - b.breadth/2
		}
		if i == 0 || b.across+b.breadth/2 > most {
			most = b.across + b.breadth/2
		}
	}
	return least, most
}
