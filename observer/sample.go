package observer

import (
	"cmp"
	"math/bits"
	"slices"
)

// Which occurrences are examined. Reading sessions is what a pass spends most of its time on, and a store keeps sessions
// of one time together. So all sequences draw from one order of the sessions, in which, where there are many, those that
// began at about the same time are neighbours: a bunch (cluster sampling, with bottom-k samples coordinated between the
// sequences: Cohen and Kaplan 2007). Bunches come in an order of chance, and so do sessions in a bunch.

// About so many sessions of one time are a bunch: in a large log those that a store keeps together, in a smaller one fewer,
// for there to be some hundred bunches.
const (
	smallBunch  = 64
	largeBunch  = 256
	someBunches = 200
)

// perBunch is how many occurrences are taken of a bunch before others have had their turn.
const perBunch = 4

// bunchSize is about how many of n sessions are a bunch.
func bunchSize(n int) int { return min(largeBunch, max(smallBunch, n/someBunches)) }

// sessionOrder places sessions, which began at so many seconds (0: unknown), in the order in which samples are drawn: the
// upper half of the number is the place of the bunch, the lower that in it. Of few sessions each is a bunch. Bunches are
// spans of a power of two of seconds, so that most stay the same as sessions come in.
func sessionOrder(ids []string, begun []int64) []uint64 {
	order := make([]uint64, len(ids))
	first, last, known := int64(0), int64(0), 0
	for i, id := range ids {
		order[i] = shuffled(id)
		if at := begun[i]; at != 0 {
			if known++; known == 1 {
				first, last = at, at
			}
			first, last = min(first, at), max(last, at)
		}
	}
	if known <= manySessions {
		return order
	}
	shift := max(1, bits.Len64(uint64(last-first)*uint64(bunchSize(known))/uint64(known))) - 1
	for i, at := range begun {
		if at != 0 {
			order[i] = mix(uint64(at>>shift), tagNumber)&^(1<<32-1) | order[i]>>32
		}
	}
	return order
}

// shuffled places a session in an order of chance (FNV-1a and a finaliser).
func shuffled(id string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return mix(h, tagText)
}

// sampler keeps the wanted number of windows that come first: those of sessions that come first, but of a bunch with more
// than perBunch of them the others only after those of all bunches.
type sampler struct {
	want    int
	windows []drawn
	worst   uint64 // order of the last one kept where no later window can come before it, 0 while any may
}

// drawn is a window with the place of its session in the order.
type drawn struct {
	order uint64
	turn  uint32 // of its bunch
	window
}

func (s *sampler) add(w window, order uint64) {
	if s.worst > 0 && order > s.worst {
		return
	}
	s.windows = append(s.windows, drawn{order: order, window: w})
	if len(s.windows) >= 2*s.want {
		s.trim()
	}
}

func (s *sampler) trim() {
	slices.SortFunc(s.windows, func(a, b drawn) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.at, b.at)) })
	first, later := 0, false // the first window of the bunch
	for i := range s.windows {
		if s.windows[i].order>>32 != s.windows[first].order>>32 {
			first = i
		}
		s.windows[i].turn = uint32(i-first) / perBunch
		later = later || s.windows[i].turn > 0
	}
	if later {
		slices.SortStableFunc(s.windows, func(a, b drawn) int { return cmp.Compare(a.turn, b.turn) })
	}
	if len(s.windows) < s.want {
		return
	}
	s.windows = s.windows[:s.want]
	if last := s.windows[s.want-1]; last.turn == 0 {
		s.worst = last.order
	}
}

// take returns at most n windows, of no more than the wanted number, in the order of the log.
func (s *sampler) take(n int) []window {
	s.trim()
	out := make([]window, min(n, len(s.windows)))
	for i := range out {
		out[i] = s.windows[i].window
	}
	slices.SortFunc(out, func(a, b window) int { return cmp.Compare(a.at, b.at) })
	return out
}
