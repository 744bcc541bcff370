package observer

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"pave/ingest/store"
)

// Activities counts the activity of one tenant and keeps what it counted of each block of days of sessions, so that the next
// count reads only the blocks in which a session came, changed or went. The zero value is ready; it is safe for concurrent
// use, one count at a time.
type Activities struct {
	mu     sync.Mutex
	blocks map[int32]*activityBlock
}

// ActivitySource is what Activities read.
type ActivitySource interface {
	SurveySource
	Days(ctx context.Context) ([]store.Day, error)
}

const (
	blockBits = 7       // 128 days of sessions are counted together: every block is a query, which may scan
	maxKept   = 200_000 // days of agents that are kept; with more, everything is counted anew each time
)

// activityBlock is what the sessions of some days did, by the times of their sequences.
type activityBlock struct {
	first, last int32
	version     string // of its days
	counted     *activityCounter
}

// Count counts the sequences that the filter takes; of its fields it knows From, To and Agent. It answers what CountActivity
// does.
func (a *Activities) Count(ctx context.Context, src ActivitySource, filter store.SequenceFilter) (*Activity, error) {
	first, end := int32(noDay), int32(math.MaxInt32)
	var edges [][2]time.Time // parts of days are counted anew
	if !filter.From.IsZero() {
		if first = dayOf(filter.From); !dayStart(first).Equal(filter.From) {
			first++
			edges = append(edges, [2]time.Time{filter.From, dayStart(first)})
		}
	}
	if !filter.To.IsZero() {
		if end = dayOf(filter.To); !dayStart(end).Equal(filter.To) {
			edges = append(edges, [2]time.Time{dayStart(end), filter.To})
		}
	}
	if end < first { // within one day, or backwards
		return CountActivity(ctx, src, filter)
	}
	open := filter.From.IsZero() && filter.To.IsZero()
	out := newActivityCounter()
	whole, err := a.merge(ctx, src, out, filter.Agent, func(key activityKey) bool {
		return key.day >= first && key.day < end && (open || key.day != noDay) && (filter.Agent == "" || key.agent == filter.Agent)
	})
	if err != nil {
		return nil, err
	}
	if !whole {
		return CountActivity(ctx, src, filter)
	}
	for _, edge := range edges {
		if err := out.count(ctx, src, store.SequenceFilter{From: edge[0], To: edge[1], Agent: filter.Agent}); err != nil {
			return nil, err
		}
	}
	return out.result(), nil
}

// merge brings the blocks up to date and adds what is wanted of them. It is false when the agent may be one of those beyond a
// bound, which are not told apart.
func (a *Activities) merge(ctx context.Context, src ActivitySource, into *activityCounter, agent string, wanted func(activityKey) bool) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	order, err := a.refresh(ctx, src)
	if err != nil {
		return false, err
	}
	kept := 0
	for _, id := range order {
		counted := a.blocks[id].counted
		if agent != "" && counted.agents[OtherAgents] {
			return false, nil
		}
		into.merge(counted, wanted)
		kept += len(counted.days)
	}
	if kept > maxKept {
		a.blocks = nil
	}
	return true, nil
}

// refresh counts the blocks that are not as they were, and returns which there are.
func (a *Activities) refresh(ctx context.Context, src ActivitySource) (order []int32, err error) {
	days, err := src.Days(ctx)
	if err != nil {
		return nil, err
	}
	now := map[int32]*activityBlock{}
	for _, d := range days {
		id := d.Day >> blockBits // rounds down; what has no day is alone
		b := now[id]
		if b == nil {
			b = &activityBlock{first: d.Day}
			now[id] = b
			order = append(order, id)
		}
		b.last = d.Day
		b.version += fmt.Sprintf("%d %s,", d.Day, d.Version)
	}
	was := a.blocks
	a.blocks = map[int32]*activityBlock{}
	for _, id := range order {
		b := now[id]
		if old := was[id]; old != nil && old.version == b.version {
			a.blocks[id] = old
			continue
		}
		b.counted = newActivityCounter()
		if err := b.counted.count(ctx, src, store.SequenceFilter{OfDay: &b.first, ToDay: &b.last}); err != nil {
			for id, old := range was { // what was counted is good for the next time
				if a.blocks[id] == nil {
					a.blocks[id] = old
				}
			}
			return nil, err
		}
		a.blocks[id] = b
	}
	return order, nil
}
