package observer

import (
	"context"
	"sync"

	"pave/ingest/store"
)

// Activities counts the activity of one tenant and keeps what it counted of each block of days of sessions, so that the next
// count reads only the blocks in which a session came, changed or went. The zero value is ready; it is safe for concurrent
// use, one count at a time.
type Activities struct {
	mu     sync.Mutex
	blocks dayBlocks[*activityCounter]
}

// ActivitySource is what Activities read.
type ActivitySource interface {
	SurveySource
	Days(ctx context.Context) ([]store.Day, error)
}

// maxKept bounds the days of agents that are kept; with more, everything is counted anew each time.
const maxKept = 200_000

// Count counts the sequences that the filter takes; of its fields it knows From, To and Agent. It answers what CountActivity
// does.
func (a *Activities) Count(ctx context.Context, src ActivitySource, filter store.SequenceFilter) (*Activity, error) {
	days, ok := wholeDaysOf(filter)
	if !ok {
		return CountActivity(ctx, src, filter)
	}
	out := newActivityCounter()
	whole, err := a.merge(ctx, src, out, filter.Agent, func(key activityKey) bool {
		return days.has(key.day) && (filter.Agent == "" || key.agent == filter.Agent)
	})
	if err != nil {
		return nil, err
	}
	if !whole {
		return CountActivity(ctx, src, filter)
	}
	for _, edge := range days.edges {
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
	blocks, err := a.blocks.refresh(ctx, src, 0, func(filter store.SequenceFilter) (*activityCounter, error) {
		counted := newActivityCounter()
		return counted, counted.count(ctx, src, filter)
	})
	if err != nil {
		return false, err
	}
	kept := 0
	for _, counted := range blocks {
		if agent != "" && counted.agents[OtherAgents] {
			return false, nil
		}
		into.merge(counted, wanted)
		kept += len(counted.days)
	}
	if kept > maxKept {
		a.blocks = dayBlocks[*activityCounter]{}
	}
	return true, nil
}
