package observer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// manyKinds are sessions of many days with flows of all shapes: one after the other, with a step left out now and then, once
// per element, and with other calls between the steps. Some calls fail; four agents take turns.
func manyKinds(n int) []ingest.Session {
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	return many(n, func(i int) ingest.Session {
		var s ingest.Session
		switch i % 8 {
		case 0, 1, 2:
			s = order(i, map[bool]string{true: "sent", false: "open"}[i%3 == 0], i%3 == 0)
		case 3, 4:
			s = looped(i, 1+i%5, 1+i%5, true)
		case 5:
			steps := append([]step{{tool: "get_ticket", args: j(`{"ticket":"T-%d"}`, i), result: j(`{"owner":"O-%d"}`, i)}}, stroll(i, 1+i%4)...)
			s = talk(id(i), j("who wrote T-%d", i), append(steps, step{tool: "get_owner", args: j(`{"id":"O-%d"}`, i), result: j(`{"name":"n-%d"}`, i)})...)
		default:
			failed := i%7 == 0
			s = talk(id(i), j("find box %d", i),
				step{tool: "find_box", args: j(`{"no":%d}`, 1000+i), result: j(`{"key":"k-%d"}`, i)},
				step{tool: "open_box", args: j(`{"key":"k-%d"}`, i), result: j(`{"lid":"l-%d"}`, i)},
				step{tool: "close_box", args: j(`{"lid":"l-%d"}`, i), result: `{}`, failed: failed})
		}
		run := &s.Runs[0]
		run.Agent = fmt.Sprint("agent", i/64%4)
		for c := range run.Calls {
			run.Calls[c].Start = start.Add(time.Duration(i) * 20 * time.Minute)
		}
		return s
	})
}

// A pass that looks at a sample of many sessions finds the flows of one that looks at all, with counts of all.
func TestSampleStandsForAll(t *testing.T) {
	src := &countingSource{Source: NewMemory(manyKinds(6400)), reads: map[string]int{}}
	options := Options{MinShare: 0.05, SampleSessions: -1}
	all, err := Mine(t.Context(), src, options)
	require.NoError(t, err)
	options.SampleSessions = 1500
	some, err := Mine(t.Context(), src, options)
	require.NoError(t, err)

	require.Equal(t, []int{all.Sessions, all.Calls, all.LLMCalls}, []int{some.Sessions, some.Calls, some.LLMCalls})
	require.Equal(t, all.Counted, some.Counted)
	require.Len(t, some.Patterns, len(all.Patterns))
	shapes := map[string]int{}
	for i := range all.Patterns {
		want := &all.Patterns[i]
		var got *Pattern
		for k := range some.Patterns {
			if p := &some.Patterns[k]; arrow(p.Tools) == arrow(want.Tools) && sameFlow(p.DataFlow, want.DataFlow) {
				got = p
			}
		}
		name := arrow(want.Tools)
		require.NotNil(t, got, name)
		require.Equal(t, []int{want.Occurrences, want.Sessions, want.Agents}, []int{got.Occurrences, got.Sessions, got.Agents}, name)
		require.Equal(t, []float64{want.Success, want.SuccessLower}, []float64{got.Success, got.SuccessLower}, name)
		require.Equal(t, want.Stability.Weeks, got.Stability.Weeks, name)
		require.Equal(t, want.Gap, got.Gap, name)
		require.Equal(t, want.Secondary, got.Secondary, name)
		require.InEpsilon(t, want.Score, got.Score, 0.1, name)
		switch {
		case want.Gap != nil:
			shapes["gap"]++
		case want.optionalStep() >= 0:
			shapes["optional"]++
		case loops(want.DataFlow):
			shapes["loop"]++
		case want.Success < 1:
			shapes["failing"]++
		}
		for _, o := range got.Examples {
			require.NotEmpty(t, o.SessionID)
		}
	}
	for _, shape := range []string{"gap", "optional", "loop", "failing"} {
		require.Positive(t, shapes[shape], shape)
	}
}

// What occurs on few days only may be in no sample of all days, and the list of what is not paved says so.
func TestBurstsAreSaid(t *testing.T) {
	const looked, bursts = 1500, 330
	sessions := manyKinds(6400)
	in := map[string]bool{}
	for _, id := range logOf(t, NewMemory(sessions)).sampled(looked).sessions {
		in[id] = true
	}
	n := 0
	for i := range sessions {
		if in[sessions[i].ID] || n == bursts {
			continue
		}
		n++
		s := talk(sessions[i].ID, j("lid %d", i), step{tool: "lift", args: j(`{"lid":"q-%d"}`, i), result: j(`{"up":"u-%d"}`, i)},
			step{tool: "drop", args: j(`{"up":"u-%d"}`, i), result: `{}`})
		s.Runs[0].Calls[0].Start = sessions[i].Runs[0].Calls[0].Start
		sessions[i] = s
	}
	options := Options{MinShare: 0.05, SampleSessions: looked}
	r := mine(t, options, sessions...)
	require.Nil(t, r.pattern("lift > drop"))
	b := r.blockedPath("lift > drop")
	require.NotNil(t, b)
	require.Equal(t, []any{"not_sampled", bursts}, []any{b.Reason, b.Occurrences})
	require.Contains(t, b.Detail, fmt.Sprintf("of %d sessions", len(sessions)))
	require.Contains(t, b.Unblock, "mining.sample_sessions")

	options.SampleSessions = -1
	require.NotNil(t, mine(t, options, sessions...).pattern("lift > drop"))
}

// The sample is of whole bunches, and the stretches in it are as they were.
func TestSampledLog(t *testing.T) {
	log := logOf(t, NewMemory(manyKinds(6400)))
	sample := log.sampled(1500)
	require.GreaterOrEqual(t, len(sample.sessions), 1500)
	require.Less(t, len(sample.sessions), 1500+2*bunchSize(6400))
	bunches := map[uint64]bool{}
	for _, o := range sample.order {
		bunches[o>>32] = true
	}
	chosen := map[string]bool{}
	for s, o := range log.order {
		if bunches[o>>32] {
			chosen[log.sessions[s]] = true
		}
	}
	require.Len(t, sample.sessions, len(chosen))
	var want []string
	all := written(log)
	for s := range log.stretches() {
		if chosen[log.sessions[log.session(uint32(s))]] {
			want = append(want, log.sessions[log.session(uint32(s))]+" "+all[s])
		}
	}
	var got []string
	for s, words := range written(sample) {
		got = append(got, sample.sessions[sample.session(uint32(s))]+" "+words)
	}
	require.Equal(t, want, got)
}
