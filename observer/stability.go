package observer

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Stability says how a path is spread over the weeks (Monday to Sunday, UTC) of the log.
type Stability struct {
	// Weeks are the last maxWeeks weeks of the log, oldest first.
	Weeks []Week
	// Present is in how many of the last four weeks the path occurs.
	Present int
	// Rising is set when it occurs more often in the second half of the weeks, more than chance explains.
	Rising bool
	// Variation is the coefficient of variation of the weekly occurrences.
	Variation float64
	// Drift is the Jensen-Shannon divergence, 0..1 bit, of what follows all steps but the last, between the first and the
	// second half of these occurrences, less what chance gives. From driftLimit on, what agents do next has changed.
	Drift float64
}

// Week is the number of occurrences that began in the week of Start.
type Week struct {
	Start       time.Time
	Occurrences int
}

const (
	maxWeeks     = 26
	recentWeeks  = 4
	steadyWeeks  = 3
	driftLimit   = 0.1
	risingSigmas = 1.645 // one-sided 95 %
)

// Steady reports whether the path is a habit of today: it is there in three of the last four weeks, or it is
// rising. Of a log of fewer weeks nothing is known and it passes.
func (s *Stability) Steady() bool {
	return s == nil || len(s.Weeks) < recentWeeks || s.Present >= steadyWeeks || s.Rising
}

// Drifts reports whether what agents do next has changed.
func (s *Stability) Drifts() bool { return s != nil && s.Drift >= driftLimit }

// weekOf numbers weeks from that of 1970-01-01, a Thursday.
func weekOf(day int32) int32 { return int32(floorDiv(int64(day)+3, 7)) }

func weekStart(week int32) time.Time { return dayStart(week*7 - 3) }

// stability looks at the occurrences of the chosen flows' paths; nil for a flow whose times are unknown.
func (m *miner) stability(chosen []proof) []*Stability {
	out := make([]*Stability, len(chosen))
	first, last := m.whole.weeks()
	if first == last {
		return out
	}
	first = max(first, last-maxWeeks+1)
	var logs []*calls
	for i := range chosen {
		if !slices.Contains(logs, chosen[i].counted) {
			logs = append(logs, chosen[i].counted)
		}
	}
	for _, log := range logs {
		var of []int // flow of each sequence
		var sequences, heads [][]uint32
		for i := range chosen {
			if chosen[i].counted == log {
				tokens := chosen[i].stats.tokens
				of, sequences, heads = append(of, i), append(sequences, tokens), append(heads, tokens[:max(1, len(tokens)-1)])
			}
		}
		weekly := log.weekly(sequences, first, last)
		drift := chosen[of[0]].log.drift(heads)
		for k, i := range of {
			if o := chosen[i].optional; o != nil {
				for week, n := range log.weekly([][]uint32{o.short.tokens}, first, last)[0] {
					weekly[k][week] += n
				}
			}
			out[i] = newStability(weekly[k], first, drift[k])
		}
	}
	return out
}

// weeks is the range of weeks of the sequences with a time; both are equal when there is none or one.
func (log *calls) weeks() (first, last int32) {
	first, last = math.MaxInt32, math.MinInt32
	for _, s := range log.seqs {
		if s.day != noDay {
			first, last = min(first, weekOf(s.day)), max(last, weekOf(s.day))
		}
	}
	if first > last {
		return 0, 0
	}
	return first, last
}

// weekly counts the occurrences of each sequence without overlaps in each of the weeks first to last.
func (log *calls) weekly(sequences [][]uint32, first, last int32) [][]int {
	out := make([][]int, len(sequences))
	free := make([]uint32, len(sequences))
	for k := range out {
		out[k] = make([]int, last-first+1)
	}
	tree := newPrefixTree(len(log.tools), sequences)
	for s := range log.stretches() {
		day := log.seqs[log.origin[s]].day
		if day == noDay || weekOf(day) < first {
			continue
		}
		week := weekOf(day) - first
		tree.walk(log, uint32(s), func(k int, from, to uint32) {
			if from >= free[k] {
				free[k] = to
				out[k][week]++
			}
		})
	}
	return out
}

// drift compares what follows each of the sequences in the days of the first half of its windows and after.
func (log *calls) drift(heads [][]uint32) []float64 {
	tree := newPrefixTree(len(log.tools), heads)
	perDay := make([]map[int32]int, len(heads))
	for k := range perDay {
		perDay[k] = map[int32]int{}
	}
	each := func(fn func(k int, day int32, next uint32)) {
		for s := range log.stretches() {
			day, end := log.seqs[log.origin[s]].day, log.starts[s+1]
			if day == noDay {
				continue
			}
			tree.walk(log, uint32(s), func(k int, _, to uint32) {
				next := uint32(len(log.tools)) // the stretch ends
				if to < end {
					next = log.tok[to]
				}
				fn(k, day, next)
			})
		}
	}
	each(func(k int, day int32, _ uint32) { perDay[k][day]++ })
	middle := make([]int32, len(heads))
	for k := range middle {
		middle[k] = medianDay(perDay[k])
	}
	early, late := make([]map[uint32]int, len(heads)), make([]map[uint32]int, len(heads))
	for k := range early {
		early[k], late[k] = map[uint32]int{}, map[uint32]int{}
	}
	each(func(k int, day int32, next uint32) {
		if day <= middle[k] {
			early[k][next]++
		} else {
			late[k][next]++
		}
	})
	out := make([]float64, len(heads))
	for k := range out {
		out[k] = divergence(early[k], late[k])
	}
	return out
}

// medianDay is the first day by the end of which half of the windows have begun.
func medianDay(perDay map[int32]int) int32 {
	total, sum := 0, 0
	for _, n := range perDay {
		total += n
	}
	for _, day := range slices.Sorted(maps.Keys(perDay)) {
		if sum += perDay[day]; 2*sum >= total {
			return day
		}
	}
	return noDay
}

func newStability(weekly []int, first int32, drift float64) *Stability {
	s := &Stability{Drift: drift}
	sum, half := 0, [2]int{}
	n := len(weekly)
	for i, occurrences := range weekly {
		s.Weeks = append(s.Weeks, Week{Start: weekStart(first + int32(i)), Occurrences: occurrences})
		sum += occurrences
		if i >= n-recentWeeks && occurrences > 0 {
			s.Present++
		}
		if h := i - n + n/2; i < n/2 { // the middle week of an odd number is in neither half
			half[0] += occurrences
		} else if h >= 0 {
			half[1] += occurrences
		}
	}
	if both := half[0] + half[1]; both > 0 {
		s.Rising = float64(half[1]-half[0])/math.Sqrt(float64(both)) > risingSigmas
	}
	if mean := float64(sum) / float64(n); mean > 0 {
		square := 0.0
		for _, occurrences := range weekly {
			square += (float64(occurrences) - mean) * (float64(occurrences) - mean)
		}
		s.Variation = math.Sqrt(square/float64(n)) / mean
	}
	return s
}
