package observer

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"pave/ingest"
	"pave/ingest/store"
)

// maxKeptPairs bounds the pairs of tools that are kept, of all days; with more, every survey is one pass over the sequences.
const maxKeptPairs = 1 << 20

// Surveys makes the surveys of one tenant and keeps what it counted of each day, so that the next one reads only the blocks of
// days in which a session came, changed or went. The zero value is ready; it is safe for concurrent use, one count at a time.
type Surveys struct {
	mu     sync.Mutex
	blocks dayBlocks[[]daySurvey]
	wide   bool // there are too many pairs to keep them
}

// daySurvey is what the sequences of one day were counted as.
type daySurvey struct {
	day             int32
	sessions, calls int64
	tools           []SurveyTool // by tool id
	pairs           []pairCount  // by pair
}

type pairCount struct {
	pair uint64
	n    int64
}

// Look answers what the function Look does. Of the filter's fields it knows From, To and Agent; what one agent did is always
// counted anew.
func (k *Surveys) Look(ctx context.Context, src ActivitySource, filter store.SequenceFilter) (*Survey, error) {
	days, ok := wholeDaysOf(filter)
	if !ok || filter.Agent != "" {
		return Look(ctx, src, filter)
	}
	s := &surveyor{pairs: make(map[uint64]*int64)}
	whole, err := k.merge(ctx, src, s, &days)
	if err != nil {
		return nil, err
	}
	if !whole {
		return Look(ctx, src, filter)
	}
	for _, edge := range days.edges {
		if err := s.look(ctx, src, store.SequenceFilter{From: edge[0], To: edge[1]}); err != nil {
			return nil, err
		}
	}
	names, err := src.ToolNames(ctx)
	if err != nil {
		return nil, err
	}
	return s.result(names), nil
}

var errTooWide = errors.New("too many pairs of tools to keep them")

// merge brings the blocks up to date and adds the days that are wanted. It is false when there is too much to keep.
func (k *Surveys) merge(ctx context.Context, src ActivitySource, into *surveyor, days *wholeDays) (whole bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wide {
		return false, nil
	}
	blocks, err := k.blocks.refresh(ctx, src, daysAlone, func(filter store.SequenceFilter) ([]daySurvey, error) {
		return surveyDays(ctx, src, filter)
	})
	kept := 0
	for _, block := range blocks {
		for i := range block {
			kept += len(block[i].pairs)
		}
	}
	if errors.Is(err, errTooWide) || kept > maxKeptPairs {
		k.wide, k.blocks = true, dayBlocks[[]daySurvey]{}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, block := range blocks {
		for i := range block {
			if days.has(block[i].day) {
				into.merge(&block[i])
			}
		}
	}
	return true, nil
}

// surveyDays counts the sequences that the filter takes by day.
func surveyDays(ctx context.Context, src SurveySource, filter store.SequenceFilter) ([]daySurvey, error) {
	days := map[int32]*surveyor{}
	pairs := 0
	err := src.Sequences(ctx, filter, func(seq *ingest.Sequence) error {
		s := days[dayOf(seq.Start)]
		if s == nil {
			s = &surveyor{pairs: make(map[uint64]*int64)}
			days[dayOf(seq.Start)] = s
		}
		pairs -= len(s.pairs)
		s.add(seq)
		if pairs += len(s.pairs); pairs > maxKeptPairs || s.survey.Left > 0 {
			return errTooWide
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	out := make([]daySurvey, 0, len(days))
	for _, day := range slices.Sorted(maps.Keys(days)) {
		out = append(out, days[day].kept(day))
	}
	return out, nil
}

// kept is what the surveyor counted, in little room.
func (s *surveyor) kept(day int32) daySurvey {
	d := daySurvey{day: day, sessions: s.survey.Sessions, calls: s.survey.Calls, tools: slices.Clip(s.tools), pairs: make([]pairCount, 0, len(s.pairs))}
	for pair, n := range s.pairs {
		d.pairs = append(d.pairs, pairCount{pair, *n})
	}
	slices.SortFunc(d.pairs, func(a, b pairCount) int { return cmp.Compare(a.pair, b.pair) })
	return d
}

// merge adds what was counted of a day. A day has fewer pairs than a survey takes.
func (s *surveyor) merge(d *daySurvey) {
	s.survey.Sessions += d.sessions
	s.survey.Calls += d.calls
	if n := len(d.tools) - len(s.tools); n > 0 {
		s.tools = append(s.tools, make([]SurveyTool, n)...)
	}
	for id := range d.tools {
		to, from := &s.tools[id], &d.tools[id]
		to.Calls, to.Starts, to.Ends = to.Calls+from.Calls, to.Starts+from.Starts, to.Ends+from.Ends
	}
	for _, p := range d.pairs {
		if s.pairs[p.pair] == nil {
			s.pairs[p.pair] = new(int64)
		}
		*s.pairs[p.pair] += p.n
	}
}
