package ingest

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// sortRun puts a run's items in the order in which they happened.
func sortRun(items []*item) {
	setPositions(items)
	renumberRestarts(items)
	byTurn, timed := true, true
	for _, it := range items {
		if !it.aggregate() && !it.e.HasTurn {
			byTurn = false
		}
		if it.e.Start.IsZero() && !it.aggregate() {
			timed = false
		}
	}
	if !timed && !byTurn {
		carryTimes(items)
	}
	slices.SortStableFunc(items, func(a, b *item) int {
		if c := cmp.Compare(b2i(!a.aggregate()), b2i(!b.aggregate())); c != 0 {
			return c // totals of the run have no place; they come first
		}
		if byTurn {
			if c := cmp.Or(cmp.Compare(a.e.Turn, b.e.Turn), cmp.Compare(a.rank(), b.rank())); c != 0 {
				return c
			}
		}
		if !timed && byTurn {
			return cmp.Compare(a.index, b.index)
		}
		if c := a.when.Compare(b.when); c != 0 {
			return c
		}
		if !timed {
			return cmp.Compare(a.index, b.index)
		}
		if c := cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.position, b.position)); c != 0 {
			return c
		}
		if c := a.e.Start.Compare(b.e.Start); c != 0 { // both by a clock that is behind that of what caused them
			return c
		}
		if coarse(a.e.Start) { // exporters send spans in the order of start or end
			return cmp.Compare(a.index, b.index)
		}
		return cmp.Or(a.end().Compare(b.end()),
			strings.Compare(a.e.TraceID, b.e.TraceID), strings.Compare(a.e.SpanID, b.e.SpanID), cmp.Compare(a.index, b.index))
	})
	applySeq(items)
}

// restartAfter is how long after all that was before it a turn must begin to be one of a counter that began anew; the clocks
// of machines differ by less.
const restartAfter = time.Minute

// renumberRestarts lets turns go on where their counter began anew, as that of an agent does that was started again in its
// session or lost its context: where a turn that was there before, with later ones after it, begins again much later than
// all of them. One turn is left out between the two, so that no stretch goes over the restart.
func renumberRestarts(items []*item) {
	placed := make([]*item, 0, len(items))
	for _, it := range items {
		if it.e.HasTurn && !it.when.IsZero() && !it.aggregate() {
			placed = append(placed, it)
		}
	}
	slices.SortStableFunc(placed, func(a, b *item) int { return cmp.Or(a.when.Compare(b.when), cmp.Compare(a.e.Turn, b.e.Turn)) })
	if slices.IsSortedFunc(placed, func(a, b *item) int { return cmp.Compare(a.e.Turn, b.e.Turn) }) {
		return
	}
	var until time.Time // the latest end
	var last, offset int64
	seen := make(map[int32]bool, len(placed)) // since the restart
	for _, it := range placed {
		turn := it.e.Turn
		if seen[turn] && int64(turn) < last && it.when.Sub(until) >= restartAfter {
			offset += last - int64(turn) + 2
			last = 0
			clear(seen)
		}
		if int64(turn)+offset > math.MaxInt32 {
			return // nobody counts that far; what is left keeps its turn
		}
		seen[turn] = true
		last = max(last, int64(turn))
		if end := it.when.Add(it.e.Duration); end.After(until) {
			until = end
		}
		it.e.Turn += int32(offset)
	}
}

// coarse reports a time cut to whole milliseconds, as some clocks give it: the real one may be almost one later.
func coarse(t time.Time) bool { return t.Nanosecond()%int(time.Millisecond) == 0 }

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// carryTimes gives items without a time that of the item that arrived before them.
func carryTimes(items []*item) {
	slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(a.index, b.index) })
	var last time.Time
	for _, it := range items {
		if it.e.Start.IsZero() {
			it.when = last
		}
		last = it.when
	}
}

// unasked is the position of a call that no recorded model call asked for: behind those that one asked for.
const unasked = 1 << 30

// setPositions notes for each call which model call asked for it, and its place among the calls that were asked for, and
// the time. A clock may be so coarse that several turns have one time: the models are told apart by their order then.
func setPositions(items []*item) {
	type request struct {
		model    *item
		position int
	}
	requests := make(map[string][]request)
	for _, it := range items {
		if it.when = it.e.Start; !it.when.IsZero() && it.caused.After(it.when) {
			it.when = it.caused
		}
	}
	models := numberModels(items)
	for _, it := range models {
		for i, id := range it.callIDs {
			requests[id] = append(requests[id], request{it, i})
		}
	}
	uses := make(map[string][]*item)
	for _, it := range items {
		if it.e.Call != nil && requests[it.e.Call.CallID] != nil {
			uses[it.e.Call.CallID] = append(uses[it.e.Call.CallID], it)
		}
	}
	for id, calls := range uses { // where each use of an id was asked for, none came before that
		if len(calls) != len(requests[id]) {
			continue
		}
		slices.SortStableFunc(calls, func(a, b *item) int { return cmp.Or(a.when.Compare(b.when), compareTime(a, b)) })
		for k, it := range calls {
			if asked := requests[id][k].model.when; !it.when.IsZero() && asked.After(it.when) {
				it.when = asked
			}
		}
	}
	for _, it := range items {
		if it.e.Call == nil {
			continue
		}
		it.position = unasked
		for _, r := range requests[it.e.Call.CallID] {
			if r.model.when.After(it.when) || it.position != unasked && r.model.model < it.model {
				continue
			}
			it.model, it.position = r.model.model, r.position
		}
		if it.position == unasked { // after the last model call that had started
			it.model, _ = slices.BinarySearchFunc(models, it.when, func(m *item, start time.Time) int {
				if m.when.After(start) {
					return 1
				}
				return -1
			})
		}
	}
}

// numberModels numbers the model calls in order of their start, from 1, and returns them.
func numberModels(items []*item) (models []*item) {
	for _, it := range items {
		if it.e.LLM != nil && !it.aggregate() {
			models = append(models, it)
		}
	}
	slices.SortStableFunc(models, func(a, b *item) int {
		if c := cmp.Or(a.when.Compare(b.when), a.e.Start.Compare(b.e.Start)); c != 0 || coarse(a.e.Start) {
			return cmp.Or(c, cmp.Compare(a.index, b.index))
		}
		return cmp.Or(a.end().Compare(b.end()), compareTime(a, b), cmp.Compare(a.index, b.index))
	})
	for i, it := range models {
		it.model = i + 1
	}
	return models
}

// applySeq puts the calls of one source that have a seq into the order of their seq, in the places they hold: seq is
// stronger than time within one source and says nothing of others.
func applySeq(items []*item) {
	places := make(map[string][]int)
	for i, it := range items {
		if it.e.Call != nil && it.e.HasSeq {
			places[it.e.Source] = append(places[it.e.Source], i)
		}
	}
	for _, at := range places {
		calls := make([]*item, len(at))
		for i, place := range at {
			calls[i] = items[place]
		}
		slices.SortStableFunc(calls, func(a, b *item) int { return cmp.Compare(a.e.Seq, b.e.Seq) })
		for i, place := range at {
			items[place] = calls[i]
		}
	}
}

// assignTurns numbers the assistant turns of an ordered run. Where every call carries its turn, those count. Else the
// model calls are counted: a call belongs to the model call before it. A call that this model call did not ask for, or
// one before any, was asked for by one that was not recorded: it is a turn of its own, together with calls that surely
// ran at the same time.
func assignTurns(items []*item) {
	explicit := true
	for _, it := range items {
		if it.e.Call != nil && !it.e.HasTurn {
			explicit = false
		}
	}
	if explicit {
		explicitTurns(items)
		return
	}
	var c turnCounter
	for _, it := range items {
		switch {
		case it.e.LLM != nil:
			c.llm(it)
		case it.e.Call != nil:
			c.call(it)
		}
	}
}

// explicitTurns copies turns; a model call without one made the next call's turn, when no other did.
func explicitTurns(items []*item) {
	taken := make(map[int32]bool)
	for _, it := range items {
		if it.turn = it.e.Turn; it.e.LLM != nil && it.e.HasTurn {
			taken[it.turn] = true
		}
	}
	next := int32(-1)
	for _, it := range slices.Backward(items) {
		switch {
		case it.e.Call != nil:
			next = it.turn
		case it.e.LLM != nil && !it.e.HasTurn:
			if it.turn = -1; !it.aggregate() && next >= 0 && !taken[next] {
				it.turn, taken[next] = next, true
			}
		}
	}
}

// turnCounter derives turns from model calls and times.
type turnCounter struct {
	turn  int32
	model bool            // a model call made the current turn
	asked map[string]bool // calls it asked for; nil when that is not known
	// from and until are the earliest start and the latest end of the current turn's calls.
	from, until time.Time
}

func (c *turnCounter) llm(it *item) {
	if it.aggregate() {
		it.turn = -1
		return
	}
	c.turn++
	c.model, c.asked, c.from, c.until = true, nil, time.Time{}, time.Time{}
	if len(it.callIDs) > 0 {
		c.asked = make(map[string]bool, len(it.callIDs))
		for _, id := range it.callIDs {
			c.asked[id] = true
		}
	}
	it.turn = c.turn
}

func (c *turnCounter) call(it *item) {
	id := it.e.Call.CallID
	foreign := c.asked != nil && id != "" && !c.asked[id]
	if (!c.model || foreign) && !c.overlaps(it) {
		c.turn++
		c.model, c.from, c.until = false, time.Time{}, time.Time{}
		if foreign {
			c.asked = nil
		}
	}
	it.turn = c.turn
	if it.e.Start.IsZero() {
		return
	}
	if end := it.end(); end.After(c.until) {
		c.until = end
	}
	if c.from.IsZero() || it.e.Start.Before(c.from) {
		c.from = it.e.Start
	}
}

// overlaps reports whether the call surely ran while calls of the turn did. Clocks cut to milliseconds may be almost
// one behind.
func (c *turnCounter) overlaps(it *item) bool {
	latest := it.e.Start
	if coarse(latest) {
		latest = latest.Add(time.Millisecond - 1)
	}
	return !it.e.Start.IsZero() && latest.Before(c.until) && it.end().After(c.from)
}
