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
	c := &activityCounter{days: make(map[activityKey]*activeDay), agents: make(map[string]bool)}
	if err := src.Sequences(ctx, filter, func(seq *ingest.Sequence) error {
		c.add(seq)
		return ctx.Err()
	}); err != nil {
		return nil, err
	}
	return c.result(), nil
}

type activityCounter struct {
	activity Activity
	days     map[activityKey]*activeDay
	agents   map[string]bool
}

type activityKey struct {
	day   int64 // since 1970
	agent string
}

// activeDay is what one agent did on one day.
type activeDay struct {
	calls, sessions int64
	called          []uint64 // a bit for each id of a tool
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
	sessions := int64(0)
	if seq.RunIndex == 0 {
		sessions = 1
	}
	c.activity.Calls += own
	c.activity.Sessions += sessions
	if seq.Start.IsZero() {
		return
	}
	key := activityKey{floorDay(seq.Start), seq.Agent}
	d := c.days[key]
	if d == nil {
		d = c.day(key)
	}
	d.calls += own
	d.sessions += sessions
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

// day makes the day of an agent, or finds that of the agents beyond the bound.
func (c *activityCounter) day(key activityKey) *activeDay {
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

func floorDay(t time.Time) int64 {
	day := t.Unix() / secondsPerDay
	if t.Unix()%secondsPerDay < 0 {
		day--
	}
	return day
}

const secondsPerDay = 24 * 60 * 60

func (c *activityCounter) result() *Activity {
	out := &c.activity
	keys := slices.SortedFunc(maps.Keys(c.days), func(a, b activityKey) int {
		return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.agent, b.agent))
	})
	for i := 0; i < len(keys); {
		day, of := time.Unix(keys[i].day*secondsPerDay, 0).UTC(), keys[i].day
		var called []uint64
		for ; i < len(keys) && keys[i].day == of; i++ {
			d := c.days[keys[i]]
			out.Days = append(out.Days, ActivityDay{Day: day, Agent: keys[i].agent, Calls: d.calls, Sessions: d.sessions})
			called = append(called, make([]uint64, max(0, len(d.called)-len(called)))...)
			for k, word := range d.called {
				called[k] |= word
			}
		}
		tools := 0
		for _, word := range called {
			tools += bits.OnesCount64(word)
		}
		out.Tools = append(out.Tools, ActivityTools{Day: day, Tools: int64(tools)})
	}
	return out
}
