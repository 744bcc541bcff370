package observer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// Each kind of block names what is in the way, and with what it says would unblock the path, the path is a pattern.
func TestWhatBlocksAndWhatWouldUnblock(t *testing.T) {
	picks := func(user, more string) func(i int) ingest.Session {
		return func(i int) ingest.Session {
			at := i % 3
			if user == "" { // a rule: the one that is marked
				at = i % 2
			}
			rows := []any{}
			for n := range 3 {
				rows = append(rows, j(`{"id":"x-%d-%d","best":%t}`, n, i, user == "" && n == at))
			}
			return talk(id(i), j(user+" a-%[1]d", i, at), step{tool: "find", args: j(`{"q":"a-%d"}`, i), result: j(`{"rows":[%s,%s,%s],"page":"p-%d"}`, append(rows, i)...)},
				step{tool: "use", args: j(`{"row":"x-%d-%d"%s}`, at, i, strings.ReplaceAll(more, "N", fmt.Sprint(i))), result: `{}`})
		}
	}
	ways := func(tools []string, linked bool) func(i int) ingest.Session {
		return func(i int) ingest.Session {
			arg := map[bool]string{true: j(`{"key":"k-%d"}`, i), false: `{}`}[linked]
			return talk(id(i), "go", step{tool: "find", args: `{}`, result: j(`{"key":"k-%d"}`, i)}, step{tool: tools[i%len(tools)], args: arg, result: `{}`})
		}
	}
	fails := func(of int) func(i int) ingest.Session {
		return func(i int) ingest.Session {
			s := findUse(i, j(`{"key":"k-%d"}`, i), j(`{"key":"k-%d"}`, i))
			if i%of != 0 {
				s.Runs[0].Calls[1].Flags |= ingest.FlagError
			}
			return s
		}
	}
	recorded := func(args string) func(i int) ingest.Session {
		return func(i int) ingest.Session { return findUse(i, `{}`, args) }
	}
	together := func(same bool) func(i int) ingest.Session {
		return func(i int) ingest.Session {
			return talk(id(i), j("a-%d b-%d", i, i), step{tool: "find", args: j(`{"q":"a-%d"}`, i), result: j(`{"key":"k-%d"}`, i)},
				step{tool: "use", args: map[bool]string{true: j(`{"q":"b-%d"}`, i), false: j(`{"q":"k-%d"}`, i)}[same], result: `{}`, same: same})
		}
	}
	weeks := func(counts ...int) []ingest.Session { return spread(counts) }
	evenly := []string{"use", "wash", "sell", "keep"}
	for name, c := range map[string]struct {
		blocked, mended []ingest.Session
		path            string
		want            Blocked
	}{
		"a choice, and callers who know it": {many(30, picks("%[1]d %[2]d", `,"page":"p-N"`)), many(30, picks("take x-%[2]d-%[1]d of", `,"page":"p-N"`)), "find > use", Blocked{Reason: "choice", Step: 1, Arg: "row",
			Detail:  "row of step 2 (use): the model chooses its value from /rows/*/id of the result of step 1 (find) in 30 of 30 occurrences; the nearest source, /rows/0/id in the result of step 1 (find), had it in 10.",
			Unblock: "A rule that tells the value of row; or callers who know it before find in 80 % of the occurrences, not in 0 % as now: then it is an input."}},
		"all that is needed is chosen, and a rule": {many(30, picks("%[1]d %[2]d", "")), many(30, picks("", "")), "find > use", Blocked{Reason: "choice", Step: 1, Arg: "row",
			Detail:  "row of step 2 (use): the model chooses its value from /rows/*/id of the result of step 1 (find) in 30 of 30 occurrences; the nearest source, /rows/0/id in the result of step 1 (find), had it in 10.",
			Unblock: "A rule that tells the value of row. Callers who know it would not do: they would have to give all that the later steps need."}},
		"a branch, and a value that it takes": {many(80, ways(evenly, false)), many(80, ways(evenly, true)), "find > use", Blocked{Reason: "branch", Step: 1,
			Detail:  "After step 1 (find) only 25 % of the occurrences go on with use: the agent decides there.",
			Unblock: "Sessions in which use follows in 60 %; or a value that it takes from a step before it, for a flow of its own that callers choose."}},
		"chance, and a value that links": {many(12, ways([]string{"use"}, false)), many(12, ways([]string{"use"}, true)), "find > use", Blocked{Reason: "not_significant", Step: -1,
			Detail:  "It occurs 12 times where 12.0 are expected by chance; more sessions would show whether it is a routine.",
			Unblock: "More sessions, if it is a routine; or values that one step takes from another."}},
		"errors, and a tool that fails less": {many(12, fails(3)), many(12, fails(1)), "find > use", Blocked{Reason: "errors", Step: 1,
			Detail:  "use fails in 8 of 12 occurrences; a flow would fail as often.",
			Unblock: "A use that fails in at most half of its calls there."}},
		"no values, and values": {many(12, recorded("")), many(12, func(i int) ingest.Session { return findUse(i, j(`{"k":"k-%d"}`, i), j(`{"k":"k-%d"}`, i)) }), "find > use", Blocked{Reason: "no_values", Step: -1,
			Detail:  "The arguments of these calls were not recorded; record arguments and results to prove where they come from.",
			Unblock: "Recorded arguments and results of these tools."}},
		"one turn, and two": {many(12, together(true)), many(12, together(false)), "find > use", Blocked{Reason: "no_saving", Step: -1,
			Detail:  "The model asks for all of these calls at once, so a flow saves no model call.",
			Unblock: "Nothing, as long as the model asks for all of them at once."}},
		"a habit of the past, and one of today": {weeks(9, 9, 0, 0, 0, 0), weeks(9, 9, 0, 3, 3, 3), "find > read", Blocked{Reason: "not_steady", Step: -1,
			Detail:  "It occurs in 0 of the last 4 weeks and is not on the rise: a habit of the past.",
			Unblock: "Occurrences in 3 of the last 4 weeks."}},
	} {
		t.Run(name, func(t *testing.T) {
			r := mine(t, Options{}, c.blocked...)
			b := r.blockedPath(c.path)
			require.NotNil(t, b)
			got := *b
			got.Tools, got.Occurrences, got.Sessions = nil, 0, 0
			require.Equal(t, c.want, got)
			require.Positive(t, b.Occurrences)
			if p := r.pattern(c.path); p != nil {
				require.True(t, p.Secondary)
			}
			p := mine(t, Options{}, c.mended...).pattern(c.path)
			require.NotNil(t, p)
			require.False(t, p.Secondary, p.Why)
		})
	}
}

// Each reason to leave a flow to better ones says what would change that, and with it the flow stands by itself.
func TestWhySecondaryAndWhatWouldChangeIt(t *testing.T) {
	hits := func(single int) []ingest.Session { // one hit of those there are: no choice where it is the only one
		return many(30, func(i int) ingest.Session {
			if i < single {
				return findUse(i, j(`{"hits":[{"id":"h-%d"}]}`, i), j(`{"hit":"h-%d"}`, i))
			}
			return findUse(i, j(`{"hits":[{"id":"a-%d"},{"id":"b-%d"},{"id":"c-%d"}]}`, i, i, i), j(`{"hit":"%s-%d"}`, []string{"b", "c"}[i%2], i))
		})
	}
	asked := func(linked bool) []ingest.Session {
		return many(30, func(i int) ingest.Session {
			y := map[bool]string{true: "key", false: "next"}[linked]
			return talk(id(i), j("in-%d next-%d", i, i), step{tool: "find", args: j(`{"x":"in-%d"}`, i), result: j(`{"key":"key-%d"}`, i)},
				step{tool: "use", args: j(`{"y":"%s-%d"}`, y, i), result: `{}`})
		})
	}
	longer := func(alone int) []ingest.Session { // find > use > keep, and find > use alone
		return many(30+alone, func(i int) ingest.Session {
			s := findUse(i, j(`{"key":"k-%d"}`, i), j(`{"key":"k-%d"}`, i))
			if i >= alone {
				s = talk(id(i), j("query-%d", i), step{tool: "find", args: j(`{"q":"query-%d"}`, i), result: j(`{"key":"k-%d"}`, i)},
					step{tool: "use", args: j(`{"key":"k-%d"}`, i), result: j(`{"box":"b-%d"}`, i)}, step{tool: "keep", args: j(`{"box":"b-%d"}`, i), result: `{}`})
			}
			return s
		})
	}
	for name, c := range map[string]struct {
		secondary, mended []ingest.Session
		why, unblock      string
	}{
		"a part of the occurrences": {hits(12), hits(30), "it is for a part of the occurrences, and the others take their values elsewhere", "Occurrences that all take their values from the same places."},
		"asks for everything":       {asked(false), asked(true), "callers would have to give all that its later steps need", "Values that one step takes from another."},
		"a part of a longer one":    {longer(10), longer(40), "most of its occurrences are part of a longer path, or run a loop, for which there is a flow", "Occurrences outside the longer path."},
		"served by a better one":    {longer(18), longer(40), "better flows serve 30 of the 48 model calls that it would avoid alone", "More occurrences outside of what the better flows serve."},
	} {
		t.Run(name, func(t *testing.T) {
			p := mine(t, Options{}, c.secondary...).pattern("find > use")
			require.NotNil(t, p)
			require.Equal(t, []any{true, c.why, c.unblock}, []any{p.Secondary, p.Why, p.Unblock})
			p = mine(t, Options{}, c.mended...).pattern("find > use")
			require.NotNil(t, p)
			require.False(t, p.Secondary, p.Why)
		})
	}
}
