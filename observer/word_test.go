package observer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// cardOf is a session in which the card to use is the one of its owner's cards that has the mark; its place in the list
// moves about.
func cardOf(i int, field, mark string) ingest.Session {
	cards := []string{j(`{"id":"v-%d",%s:"visa"}`, i, field), j(`{"id":"a-%d",%s:"amex"}`, i, field), j(`{"id":"d-%d",%s:"debit"}`, i, field)}
	cards[i%3] = j(`{"id":"g-%d",%s:%s}`, i, field, mark)
	return findUse(i, j(`{"cards":[%s]}`, strings.Join(cards, ",")), j(`{"card":"g-%d"}`, i))
}

// An element that always has the same kind is no choice: the flow selects it by that.
func TestElementSelectedByAWord(t *testing.T) {
	for mark, want := range map[string]any{`"gift"`: "gift", `true`: true} {
		a := argOf(t, "card", many(24, func(i int) ingest.Session { return cardOf(i, `"kind"`, mark) }))
		require.Equal(t, Derived{Form: FormSelect, List: "/cards", Field: "/kind", Take: "/id", Parts: []Part{{Value: want}}}, derivedOf(t, a))
		require.Equal(t, []int{24, 24, 24}, []int{a.Evidence.Held, a.Evidence.Present, a.Evidence.Distinct})
		require.Zero(t, a.Evidence.Chance, "no two of the values are equal")
	}
}

// Where the mark tells the element in nine of ten occurrences only, the model chooses.
func TestElementThatAWordTellsMostly(t *testing.T) {
	r := mine(t, Options{}, many(40, func(i int) ingest.Session {
		s := cardOf(i, `"kind"`, `"gift"`)
		if i%10 == 0 { // another one than that of the mark
			s.Runs[0].Calls[1].Args = []byte(j(`{"card":%q}`, []string{"a", "d", "v"}[i%3]+j("-%d", i)))
		}
		return s
	})...)
	require.Nil(t, r.pattern("find > use"))
	require.Equal(t, "choice", r.blockedPath("find > use").Reason)
}

// A mark that is personal, or that one of several agents looks for, is not written into a flow.
func TestWordsOfElementsAreConstants(t *testing.T) {
	personal := mine(t, Options{}, many(24, func(i int) ingest.Session { return cardOf(i, `"owner"`, `"ann@example.com"`) })...)
	require.Nil(t, personal.pattern("find > use"))

	sessions := many(40, func(i int) ingest.Session {
		s := cardOf(i, `"kind"`, `"gift"`)
		if s.Runs[0].Agent = "desk"; i == 7 {
			s.Runs[0].Agent = "shop"
			s.Runs[0].Calls[1].Args = []byte(j(`{"card":"a-%d"}`, i))
		}
		return s
	})
	require.Nil(t, mine(t, Options{}, sessions...).pattern("find > use"))
	sessions[8].Runs[0].Agent = "shop"
	require.NotNil(t, mine(t, Options{}, sessions...).pattern("find > use"))
}

// What is always the same and may be no constant blocks a path where callers could not know it, and the reason says so; the
// value is in none of the texts. Where users say it, it is an input.
func TestWhatIsAlwaysTheSameAndNoConstant(t *testing.T) {
	for _, value := range []string{"ann@example.com", "Bearer abcdef", "+47 22 33 44 55"} {
		sessions := many(12, func(i int) ingest.Session {
			return findUse(i, j(`{"hit":"h-%d"}`, i), j(`{"hit":"h-%d","mode":%q}`, i, value))
		})
		r := mine(t, Options{}, sessions...)
		require.Nil(t, r.pattern("find > use"))
		b := r.blockedPath("find > use")
		require.Equal(t, Blocked{Tools: b.Tools, Occurrences: 12, Sessions: 12, Reason: "choice", Step: 1, Arg: "mode",
			Detail:  "mode of step 2 (use): its value is the same in 12 of 12 occurrences, and no flow may hold it: it looks personal or secret, or is that of few sessions or of one agent.",
			Unblock: "A use that has the value by itself, as the binding of a tool can; or users who say it before find."}, *b)
		for i := range sessions {
			sessions[i].Runs[0].Users[0].Text += ", use " + value
		}
		p := mine(t, Options{}, sessions...).pattern("find > use")
		require.NotNil(t, p)
		require.Equal(t, []any{SourceInput, 12, 12}, []any{p.DataFlow.Steps[1].Args[1].Kind, p.DataFlow.Steps[1].Args[1].Evidence.Held, p.DataFlow.Steps[1].Args[1].Evidence.Present})
		require.Empty(t, p.DataFlow.Inputs[1].Examples)
	}
	// The same in eleven of twelve occurrences is a habit: the model made up what the twelfth says.
	r := mine(t, Options{}, many(12, func(i int) ingest.Session {
		to := map[bool]string{true: "bob@example.com", false: "ann@example.com"}[i == 5]
		return findUse(i, j(`{"hit":"h-%d"}`, i), j(`{"hit":"h-%d","mode":%q}`, i, to))
	})...)
	require.Contains(t, r.blockedPath("find > use").Detail, "made its value up")
}
