package observer

import (
	"cmp"
	"context"
	"maps"
	"math/bits"
	"slices"
	"time"

	"pave/ingest"
	"pave/ingest/store"
)

// OtherAgents stands for the agents beyond the bound of an activity.
const OtherAgents = "others"

// Activity is how many tool calls agents made themselves, by day.
type Activity struct {
	Sessions int64
	Calls    int64
	Days     []ActivityDay   // by day and agent; sequences without a time are in none
	Tools    []ActivityTools // by day, like Days
}

// ActivityDay counts what one agent did on one day (UTC midnight). A session counts where its first run began.
type ActivityDay struct {
	Day             time.Time
	Agent           string
	Calls, Sessions int64
}

// ActivityTools counts the different tools that were called on one day (UTC midnight), by sessions that began on it.
type ActivityTools struct {
	Day   time.Time
	Tools int64
}

// CountActivity counts the sequences that the filter takes, in one pass over them. Its memory grows with the number of
// different tools and days, and of agents within a bound, not with calls.
func CountActivity(ctx context.Context, src SurveySource, filter store.SequenceFilter) (*Activity, error) {
	c := newActivityCounter()
	if err := c.count(ctx, src, filter); err != nil {
		return nil, err
	}
	return c.result(), nil
}

type activityCounter struct {
	days   map[activityKey]*activeDay
	agents map[string]bool
}

type activityKey struct {
	day   int32 // since 1970, or noDay
	agent string
}

// activeDay is what one agent did on one day.
type activeDay struct {
	calls, sessions int64
	called          []uint64 // a bit for each id of a tool
}

func newActivityCounter() *activityCounter {
	return &activityCounter{days: make(map[activityKey]*activeDay), agents: make(map[string]bool)}
}

func (c *activityCounter) count(ctx context.Context, src SurveySource, filter store.SequenceFilter) error {
	return src.Sequences(ctx, filter, func(seq *ingest.Sequence) error {
		c.add(seq)
		return ctx.Err()
	})
}

func (c *activityCounter) add(seq *ingest.Sequence) {
	own := int64(0)
	for _, flags := range seq.Flags {
		if flags&ingest.FlagNotAgent == 0 {
			own++
		}
	}
	if own == 0 {
		return
	}
	key := activityKey{dayOf(seq.Start), seq.Agent}
	d := c.day(key)
	d.calls += own
	if seq.RunIndex == 0 {
		d.sessions++
	}
	for i, tool := range seq.Tools {
		if seq.Flags[i]&ingest.FlagNotAgent != 0 {
			continue
		}
		for int(tool/64) >= len(d.called) {
			d.called = append(d.called, 0)
		}
		d.called[tool/64] |= 1 << (tool % 64)
	}
}

// day gives the day of an agent, or that of the agents beyond the bound.
func (c *activityCounter) day(key activityKey) *activeDay {
	if d := c.days[key]; d != nil {
		return d
	}
	if !c.agents[key.agent] {
		if len(c.agents) >= maxActiveAgents {
			key.agent = OtherAgents
		}
		c.agents[key.agent] = true
	}
	if c.days[key] == nil {
		c.days[key] = new(activeDay)
	}
	return c.days[key]
}

func (c *activityCounter) keys() []activityKey {
	return slices.SortedFunc(maps.Keys(c.days), func(a, b activityKey) int {
		return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.agent, b.agent))
	})
}

// merge adds what another counted, as far as it is wanted.
func (c *activityCounter) merge(other *activityCounter, wanted func(activityKey) bool) {
	for _, key := range other.keys() {
		if wanted(key) {
			from, to := other.days[key], c.day(key)
			to.calls += from.calls
			to.sessions += from.sessions
			to.called = union(to.called, from.called)
		}
	}
}

// union sets the bits of more in set.
func union(set, more []uint64) []uint64 {
	set = append(set, make([]uint64, max(0, len(more)-len(set)))...)
	for i, word := range more {
		set[i] |= word
	}
	return set
}

func (c *activityCounter) result() *Activity {
	out := &Activity{}
	keys := c.keys()
	for i := 0; i < len(keys); {
		of, start := keys[i].day, dayStart(keys[i].day)
		var called []uint64
		for ; i < len(keys) && keys[i].day == of; i++ {
			d := c.days[keys[i]]
			out.Calls += d.calls
			out.Sessions += d.sessions
			called = union(called, d.called)
			if of != noDay {
				out.Days = append(out.Days, ActivityDay{Day: start, Agent: keys[i].agent, Calls: d.calls, Sessions: d.sessions})
			}
		}
		tools := 0
		for _, word := range called {
			tools += bits.OnesCount64(word)
		}
		if of != noDay {
			out.Tools = append(out.Tools, ActivityTools{Day: start, Tools: int64(tools)})
		}
	}
	return out
}
