package observer

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// weekday is a time in week n of 2026 that begins on a Monday, 5 January being week 0.
func weekday(week, day int) time.Time {
	return time.Date(2026, 1, 5+7*week+day, 10, 0, 0, 0, time.UTC)
}

// found is a session in which a value of the first call is the argument of the second, at a time.
func foundAt(id string, at time.Time, tools ...string) ingest.Session {
	steps := []step{{tool: tools[0], args: `{"q":"` + id + `"}`, result: `{"key":"k` + id + `"}`}}
	for _, tool := range tools[1:] {
		steps = append(steps, step{tool: tool, args: `{"key":"k` + id + `"}`, result: `{}`})
	}
	s := talk(id, "look at "+id, steps...)
	s.Runs[0].Calls[0].Start = at
	return s
}

func spread(perWeek []int) []ingest.Session {
	var sessions []ingest.Session
	for week, n := range perWeek {
		sessions = append(sessions, foundAt(fmt.Sprintf("other-%02d", week), weekday(week, 2), "x", "y"))
		for i := range n {
			sessions = append(sessions, foundAt(fmt.Sprintf("id-%02d-%02d", week, i), weekday(week, i%7), "find", "read"))
		}
	}
	return sessions
}

func TestStabilityOverWeeks(t *testing.T) {
	for name, c := range map[string]struct {
		weeks          []int
		present        int
		rising, steady bool
		variation      float64
	}{
		"every week":             {[]int{6, 6, 6, 6, 6, 6}, 4, false, true, 0},
		"once a month":           {[]int{9, 0, 0, 0, 9, 0, 0, 0}, 1, false, false, math.Sqrt(3)},
		"gone":                   {[]int{9, 9, 9, 0, 0, 0, 0}, 0, false, false, 9 * math.Sqrt(12) / 7 / (27.0 / 7)},
		"new":                    {[]int{0, 0, 0, 0, 5, 9}, 2, true, true, 0},
		"three of the last four": {[]int{5, 5, 0, 5, 5}, 3, false, true, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			p := mine(t, Options{}, spread(c.weeks)...).pattern("find > read")
			require.NotNil(t, p)
			s := p.Stability
			require.Len(t, s.Weeks, len(c.weeks))
			for i, n := range c.weeks {
				require.Equal(t, Week{Start: weekday(i, 0).Truncate(24 * time.Hour), Occurrences: n}, s.Weeks[i])
			}
			require.Equal(t, c.present, s.Present)
			require.Equal(t, c.rising, s.Rising)
			require.Equal(t, c.steady, s.Steady())
			require.Equal(t, !c.steady, p.Secondary, "a queue for people leaves habits of the past out")
			if name != "new" {
				require.InDelta(t, c.variation, s.Variation, 1e-9)
			}
			require.Less(t, s.Drift, driftLimit)
		})
	}
}

// A session of a clock that is years ahead does not make habits of today those of the past.
func TestClocksThatAreAhead(t *testing.T) {
	sessions := spread([]int{6, 6, 6, 6, 6, 6})
	ahead := append(sessions, foundAt("ahead", weekday(4000, 0), "find", "read"))
	until := weekday(6, 0)
	want := mine(t, Options{Until: until}, sessions...).pattern("find > read")
	got := mine(t, Options{Until: until}, ahead...).pattern("find > read")
	require.False(t, want.Secondary)
	require.False(t, got.Secondary)
	require.Equal(t, 37, got.Occurrences, "it is counted all the same")
	require.Equal(t, want.Stability, got.Stability)
	require.True(t, mine(t, Options{Until: weekday(4001, 0)}, ahead...).pattern("find > read").Secondary, "had it begun, the others were of the past")
}

func TestUnsteadyPathsAreExplained(t *testing.T) {
	b := mine(t, Options{}, spread([]int{9, 9, 0, 0, 0, 0})...).blockedPath("find > read")
	require.NotNil(t, b)
	require.Equal(t, "not_steady", b.Reason)
	require.Contains(t, b.Detail, "0 of the last 4 weeks")
}

func TestStabilityIsUnknownWithoutTimes(t *testing.T) {
	sessions := spread([]int{8})
	for i := range sessions {
		sessions[i].Runs[0].Calls[0].Start = time.Time{}
	}
	p := mine(t, Options{}, sessions...).pattern("find > read")
	require.Nil(t, p.Stability)
	require.True(t, p.Stability.Steady())
}

// From the fourth week on another tool follows in all sessions.
func TestDriftOfWhatFollows(t *testing.T) {
	var sessions []ingest.Session
	for i := range 40 {
		week, next := i/10, "read"
		if week >= 2 && i%4 != 0 {
			next = "open"
		}
		sessions = append(sessions, foundAt(fmt.Sprintf("id-%02d", i), weekday(week, i%5), "find", next))
	}
	p := mine(t, Options{}, sessions...).pattern("find > read")
	require.NotNil(t, p)
	// Both halves have 20: 20 read against 5 read and 15 open. H(25/40) - H(5/20)/2, less 1/(2 ln 2 * 40).
	want := entropy(25.0/40) - entropy(0.25)/2 - 1/(2*math.Ln2*40)
	require.InDelta(t, want, p.Stability.Drift, 1e-9)
	require.True(t, p.Stability.Drifts())
}

func entropy(p float64) float64 { return -p*math.Log2(p) - (1-p)*math.Log2(1-p) }
