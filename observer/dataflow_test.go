package observer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// many builds n sessions that differ in i.
func many(n int, build func(i int) ingest.Session) []ingest.Session {
	out := make([]ingest.Session, n)
	for i := range out {
		out[i] = build(i)
	}
	return out
}

func id(i int) string { return fmt.Sprintf("s%03d", i) }

// j formats JSON with %s and %d written as usual.
func j(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// argOf returns the explanation of an argument of the second step of find > use, mined from the sessions.
func argOf(t *testing.T, name string, sessions []ingest.Session) ArgFlow {
	t.Helper()
	p := mine(t, Options{}, sessions...).pattern("find > use")
	require.NotNil(t, p)
	for _, a := range p.DataFlow.Steps[1].Args {
		if a.Arg == name {
			return a
		}
	}
	t.Fatalf("no argument %s", name)
	return ArgFlow{}
}

// findUse is a session in which use follows find. The user names the query only.
func findUse(i int, found, used string) ingest.Session {
	return talk(id(i), j("look for query-%d please", i),
		step{tool: "find", args: j(`{"q":"query-%d"}`, i), result: found}, step{tool: "use", args: used, result: `{"ok":true}`})
}

func TestCopyOfAnOutput(t *testing.T) {
	a := argOf(t, "key", many(10, func(i int) ingest.Session {
		return findUse(i, j(`{"hit":{"a/b":"k-%d"},"n":3}`, i), j(`{"key":"k-%d"}`, i))
	}))
	require.Equal(t, SourceOutput, a.Kind)
	require.Equal(t, 0, a.Step)
	require.Equal(t, "/hit/a~1b", a.Pointer)
	require.Equal(t, Evidence{Present: 10, Held: 10, Distinct: 10, Supporting: []string{"s000", "s001", "s002"}}, a.Evidence)
	require.Equal(t, 1.0, a.Presence)
}

func TestCopyOfTheWholeResult(t *testing.T) {
	a := argOf(t, "key", many(5, func(i int) ingest.Session {
		return findUse(i, j(`"k-%d"`, i), j(`{"key":"k-%d"}`, i))
	}))
	require.Equal(t, SourceOutput, a.Kind)
	require.Equal(t, "", a.Pointer)
}

func TestCopyOfAContainer(t *testing.T) {
	a := argOf(t, "items", many(5, func(i int) ingest.Session {
		return findUse(i, j(`{"rows":[{"x":%d,"y":1.0}],"n":1}`, i+10), j(`{"items":[{"y":1,"x":%d}]}`, i+10))
	}))
	require.Equal(t, SourceOutput, a.Kind)
	require.Equal(t, "/rows", a.Pointer)
}

func TestCopyOfAnArgument(t *testing.T) {
	a := argOf(t, "q", many(5, func(i int) ingest.Session {
		return findUse(i, `{"n":1}`, j(`{"q":"query-%d"}`, i))
	}))
	require.Equal(t, SourceArg, a.Kind)
	require.Equal(t, "q", a.Pointer)
	require.Equal(t, 0, a.Step)
}

// TestCopyMayMissSome has 50 occurrences, of which two differ: 0.96 with a Wilson bound of 0.865.
func TestCopyMayMissSome(t *testing.T) {
	a := argOf(t, "key", many(50, func(i int) ingest.Session {
		used := j(`{"key":"k-%d"}`, i)
		if i == 7 || i == 30 {
			used = `{"key":"elsewhere"}`
		}
		return findUse(i, j(`{"key":"k-%d"}`, i), used)
	}))
	require.Equal(t, SourceOutput, a.Kind)
	require.Equal(t, 48, a.Evidence.Held)
	require.Equal(t, []string{"s007", "s030"}, a.Evidence.Contradicting)
}

// TestFewMustAllHold has 10 occurrences and one miss, so the source is not accepted and the value is a choice.
func TestFewMustAllHold(t *testing.T) {
	r := mine(t, Options{}, many(10, func(i int) ingest.Session {
		used := j(`{"key":"k-%d"}`, i)
		if i == 7 {
			used = `{"key":"elsewhere"}`
		}
		return findUse(i, j(`{"key":"k-%d"}`, i), used)
	})...)
	require.Nil(t, r.pattern("find > use"))
	require.Equal(t, "choice", r.blockedPath("find > use").Reason)
}

func TestConstant(t *testing.T) {
	sessions := many(10, func(i int) ingest.Session {
		return findUse(i, j(`{"key":"k-%d"}`, i), j(`{"key":"k-%d","mode":"fast","dry":false}`, i))
	})
	mode := argOf(t, "mode", sessions)
	require.Equal(t, SourceConst, mode.Kind)
	require.Equal(t, "fast", mode.Value)
	require.False(t, mode.Evidence.Ambiguous)
	dry := argOf(t, "dry", sessions)
	require.Equal(t, SourceConst, dry.Kind)
	require.Equal(t, false, dry.Value)
}

func TestPersonalValuesAreNoConstants(t *testing.T) {
	r := mine(t, Options{}, many(30, func(i int) ingest.Session {
		s := findUse(i, j(`{"key":"k-%d"}`, i), j(`{"key":"k-%d","to":"ann@example.org"}`, i))
		s.Runs[0].Users[0].Text += " for ann@example.org"
		return s
	})...)
	to := r.pattern("find > use").DataFlow.Steps[1].Args[1]
	require.Equal(t, SourceInput, to.Kind)
	input := r.pattern("find > use").DataFlow.Inputs[1]
	require.Equal(t, "to", input.Name)
	require.Empty(t, input.Examples)
}

func TestOneValueOnlyIsAmbiguous(t *testing.T) {
	sessions := many(10, func(i int) ingest.Session {
		return findUse(i, j(`{"region":"north","zone":"n-1","k":%d}`, i+10), j(`{"region":"north","place":"n-1","k":%d}`, i+10))
	})
	named := argOf(t, "region", sessions)
	require.Equal(t, SourceOutput, named.Kind)
	require.Equal(t, "/region", named.Pointer)
	require.True(t, named.Evidence.Ambiguous)
	require.Equal(t, 1.0, named.Evidence.Chance)
	other := argOf(t, "place", sessions)
	require.Equal(t, SourceConst, other.Kind)
	require.True(t, other.Evidence.Ambiguous)
	require.Contains(t, other.Evidence.Note, "/zone")
}

// TestChanceMatches has an argument that equals a field of two values in all of seven occurrences: at a chance of about a
// half that is no proof (0.57^7 = 0.02). The user named it, so it is an input.
func TestChanceMatches(t *testing.T) {
	sessions := many(7, func(i int) ingest.Session {
		class := []string{"economy", "business"}[i%2]
		s := findUse(i, j(`{"cabin":"%s","k":"k-%d"}`, class, i), j(`{"class":"%s","k":"k-%d"}`, class, i))
		s.Runs[0].Users[0].Text += " in " + class
		return s
	})
	a := argOf(t, "class", sessions)
	require.Equal(t, SourceInput, a.Kind)
	require.Equal(t, 7, a.Evidence.Held)
}

// TestUninformativeValues: a flag that equals some other flag is not copied from it.
func TestUninformativeValues(t *testing.T) {
	a := argOf(t, "notify", many(40, func(i int) ingest.Session {
		b := i%2 == 0
		return findUse(i, j(`{"active":%v,"k":"k-%d"}`, b, i), j(`{"notify":%v,"k":"k-%d"}`, b, i))
	}))
	require.Equal(t, SourceInput, a.Kind)
}

func TestInputsFromUserText(t *testing.T) {
	r := mine(t, Options{}, many(10, func(i int) ingest.Session {
		s := findUse(i, j(`{"key":"k-%d"}`, i), j(`{"key":"k-%d","q":"Colour %d","n":%d}`, i, i, 700+i))
		s.Runs[0].Users[0].Text = j("query-%d in COLOUR %d, %d pieces", i, i, 700+i)
		return s
	})...)
	flow := r.pattern("find > use").DataFlow
	firstThree := []string{"s000", "s001", "s002"}
	require.Equal(t, []Input{
		{Name: "q", Step: 0, Arg: "q", Origin: "first step", Examples: []any{"query-0", "query-1", "query-2"}, ExampleSessions: firstThree, Required: true},
		{Name: "n", Step: 1, Arg: "n", Origin: "user text", Examples: []any{int64(700), int64(701), int64(702)}, ExampleSessions: firstThree, Required: true},
		{Name: "q_2", Step: 1, Arg: "q", Origin: "user text", Examples: []any{"Colour 0", "Colour 1", "Colour 2"}, ExampleSessions: firstThree, Required: true},
	}, flow.Inputs)
	require.Equal(t, 10, flow.Explained)
	require.Equal(t, "q_2", flow.Steps[1].Args[2].Input)
}

// TestInputsFromEarlierResults: the value was in a result of an earlier stretch.
func TestInputsFromEarlierResults(t *testing.T) {
	r := mine(t, Options{}, many(10, func(i int) ingest.Session {
		s := talk(id(i), "hello", step{tool: j("login%d", i), args: `{}`, result: j(`{"account":{"no":"acc-%d"}}`, i)},
			step{tool: "find", args: j(`{"q":"query-%d"}`, i), result: j(`{"key":"k-%d"}`, i)},
			step{tool: "use", args: j(`{"key":"k-%d","account":"acc-%d"}`, i, i), result: `{}`})
		s.Runs[0].Calls[1].Flags = ingest.FlagBreak
		return s
	})...)
	flow := r.pattern("find > use").DataFlow
	require.Equal(t, SourceInput, flow.Steps[1].Args[0].Kind)
	require.Equal(t, "earlier result", flow.Inputs[1].Origin)
}

// TestChoiceCuts: the order is chosen from a list, now the first, now another. The lookup before it survives.
func TestChoiceCuts(t *testing.T) {
	r := mine(t, Options{}, many(12, func(i int) ingest.Session {
		return talk(id(i), j("I am user%d", i),
			step{tool: "find", args: j(`{"name":"user%d"}`, i), result: j(`"id-%d"`, i)},
			step{tool: "details", args: j(`{"user_id":"id-%d"}`, i), result: j(`{"orders":["o-%d-0","o-%d-1","o-%d-2"]}`, i, i, i)},
			step{tool: "order", args: j(`{"order_id":"o-%d-%d"}`, i, i%3), result: j(`{"id":"o-%d-%d","ship":"sh-%d"}`, i, i%3, i)},
			step{tool: "shipment", args: j(`{"shipment":"sh-%d"}`, i), result: `{}`})
	})...)
	prefix := r.pattern("find > details")
	require.NotNil(t, prefix)
	require.Equal(t, []string{"find", "details", "order", "shipment"}, prefix.CutFrom)
	require.Equal(t, 12, prefix.Occurrences)
	require.Equal(t, 1.0, prefix.TurnsSaved)
	rest := r.pattern("order > shipment")
	require.NotNil(t, rest, "what follows the choice is a flow whose first argument is the choice")
	require.Equal(t, "/ship", rest.DataFlow.Steps[1].Args[0].Pointer)
	b := r.blockedPath("find > details > order")
	require.NotNil(t, b)
	require.Equal(t, Blocked{Tools: b.Tools, Occurrences: 12, Sessions: 12, Reason: "choice", Step: 2, Arg: "order_id",
		Detail:  "order_id of step 3 (order): the model chooses its value from /orders/* of the result of step 2 (details) in 12 of 12 occurrences; the nearest source, /orders/0 in the result of step 2 (details), had it in 4.",
		Unblock: "A rule that tells the value of order_id; or callers who know it before find in 80 % of the occurrences, not in 0 % as now: then it is an input."}, *b)
}

// TestAlwaysTheFirstOfAList: with few different values a place in a list is no rule; with 22 it is.
func TestAlwaysTheFirstOfAList(t *testing.T) {
	sessions := func(n int) []ingest.Session {
		return many(n, func(i int) ingest.Session {
			return findUse(i, j(`{"hits":["h-%d","x-%d"]}`, i, i), j(`{"hit":"h-%d"}`, i))
		})
	}
	r := mine(t, Options{}, sessions(21)...)
	require.Equal(t, "choice", r.blockedPath("find > use").Reason)
	a := argOf(t, "hit", sessions(22))
	require.Equal(t, SourceOutput, a.Kind)
	require.Equal(t, "/hits/0", a.Pointer)
	single := argOf(t, "hit", many(5, func(i int) ingest.Session {
		return findUse(i, j(`{"hits":["h-%d"]}`, i), j(`{"hit":"h-%d"}`, i))
	}))
	require.Equal(t, "/hits/0", single.Pointer, "the only element is no choice")
}

func TestFreeText(t *testing.T) {
	write := func(text func(i int) string) *Result {
		return mine(t, Options{}, many(10, func(i int) ingest.Session {
			return findUse(i, j(`{"key":"k-%d","phrase":"amber-%d"}`, i, i), j(`{"key":"k-%d","body":"%s"}`, i, text(i)))
		})...)
	}
	plain := write(func(i int) string { return j("Dear customer, number %d is in good hands.", i) })
	body := plain.pattern("find > use").DataFlow.Steps[1].Args[0]
	require.Equal(t, SourceInput, body.Kind)
	require.Equal(t, "written by the caller", plain.pattern("find > use").DataFlow.Inputs[1].Origin)
	quoting := write(func(i int) string { return j("Dear customer, %d times the phrase is amber-%d today.", i*i+3, i) })
	require.Equal(t, "body", quoting.blockedPath("find > use").Arg, "a text that quotes an inner result is a choice")
	short := write(func(i int) string { return j("code %d", i*7+1) })
	require.Equal(t, "body", short.blockedPath("find > use").Arg, "a short value from nowhere is a choice")
}

// TestParallelCallsSeeNoResults: the second call was asked for in the same turn, so it cannot depend on the first's
// result, though the value is there.
func TestParallelCallsSeeNoResults(t *testing.T) {
	r := mine(t, Options{}, many(10, func(i int) ingest.Session {
		return talk(id(i), j("order o-%d", i),
			step{tool: "find", args: j(`{"order":"o-%d"}`, i), result: j(`{"order":"o-%d"}`, i)},
			step{tool: "status", args: j(`{"order":"o-%d"}`, i), result: j(`{"state":"st-%d"}`, i), same: true},
			step{tool: "use", args: j(`{"state":"st-%d"}`, i), result: `{}`})
	})...)
	p := r.pattern("find > status > use")
	require.NotNil(t, p)
	require.Equal(t, SourceArg, p.DataFlow.Steps[1].Args[0].Kind)
	require.Equal(t, SourceOutput, p.DataFlow.Steps[2].Args[0].Kind)
	require.Equal(t, 1.0, p.TurnsSaved, "three calls in two turns")
}

// TestAmbiguousOutputs: two fields always had the same value and neither has the argument's name.
func TestAmbiguousOutputs(t *testing.T) {
	a := argOf(t, "key", many(10, func(i int) ingest.Session {
		return findUse(i, j(`{"first":"k-%d","second":"k-%d"}`, i, i), j(`{"key":"k-%d"}`, i))
	}))
	require.Equal(t, "/first", a.Pointer)
	require.True(t, a.Evidence.Ambiguous)
	require.Contains(t, a.Evidence.Note, "/second")
}

func TestOptionalArgument(t *testing.T) {
	r := mine(t, Options{}, many(20, func(i int) ingest.Session {
		used := j(`{"key":"k-%d"}`, i)
		if i%2 == 0 {
			used = j(`{"key":"k-%d","hint":"h-%d"}`, i, i)
		}
		return findUse(i, j(`{"key":"k-%d","tip":"h-%d"}`, i, i), used)
	})...)
	p := r.pattern("find > use")
	hint := p.DataFlow.Steps[1].Args[0]
	require.Equal(t, 0.5, hint.Presence)
	require.Equal(t, "/tip", hint.Pointer)
	require.Equal(t, 10, hint.Evidence.Present)
	require.Equal(t, 10, p.DataFlow.Explained, "where agents leave it out, passing it is not what they did")
}

func TestErrorsBlock(t *testing.T) {
	r := mine(t, Options{}, many(12, func(i int) ingest.Session {
		return talk(id(i), j("query-%d", i), step{tool: "find", args: j(`{"q":"query-%d"}`, i), result: j(`{"key":"k-%d"}`, i)},
			step{tool: "use", args: j(`{"key":"k-%d"}`, i), result: `null`, failed: i%3 != 0})
	})...)
	b := r.blockedPath("find > use")
	require.NotNil(t, b)
	require.Equal(t, "errors", b.Reason)
	require.Equal(t, 1, b.Step)
	require.Contains(t, b.Detail, "8 of 12")
}

func TestCallsOfOneTurnSaveNothing(t *testing.T) {
	r := mine(t, Options{}, many(12, func(i int) ingest.Session {
		return talk(id(i), j("a-%d b-%d", i, i), step{tool: "find", args: j(`{"q":"a-%d"}`, i), result: `{}`},
			step{tool: "use", args: j(`{"q":"b-%d"}`, i), result: `{}`, same: true})
	})...)
	require.Equal(t, "no_saving", r.blockedPath("find > use").Reason)
}

func TestPatternFigures(t *testing.T) {
	sessions := many(10, func(i int) ingest.Session {
		return findUse(i, j(`{"key":"k-%d"}`, i), j(`{"key":"k-%d"}`, i))
	})
	sessions[9].Runs[0].Agent = "another"
	sessions[4].Runs[0].Calls[1].Flags |= ingest.FlagError
	r := mine(t, Options{MaxExamples: 2}, sessions...)
	p := r.pattern("find > use")
	require.Equal(t, 10, p.Occurrences)
	require.Equal(t, 10, p.Sessions)
	require.Equal(t, 2, p.Agents)
	require.Equal(t, []float64{1}, p.StepConfidence)
	// find always goes on, use never does: follows(use) = 1, so chance explains all of it; the values prove it.
	require.Equal(t, 10.0, p.Expected)
	require.Equal(t, 0.9, p.Success)
	require.InDelta(t, 0.5958, p.SuccessLower, 1e-4)
	require.Equal(t, 9.0, p.Score, "nine runs of two calls save a model call each")
	require.Equal(t, 9, p.DataFlow.Sampled)
	require.Equal(t, []Occurrence{{SessionID: "s000", Calls: []int{0, 1}}, {SessionID: "s002", Calls: []int{0, 1}}}, p.Examples)
	require.Equal(t, 20, r.Calls)
	require.Equal(t, 20, r.LLMCalls)
	require.Equal(t, 11, r.Stretches+1)
	require.Equal(t, []int{0, 2, 1}, r.Counted)
}

func TestValuesNotRecorded(t *testing.T) {
	r := mine(t, Options{}, many(10, func(i int) ingest.Session { return findUse(i, `{}`, "") })...)
	require.Equal(t, "no_values", r.blockedPath("find > use").Reason)
}

// TestOnlyElement: of several hits the model chooses, of one there is nothing to choose.
func TestOnlyElement(t *testing.T) {
	r := mine(t, Options{}, many(30, func(i int) ingest.Session {
		if i%3 == 0 {
			return findUse(i, j(`{"hits":[{"id":"h-%d"}]}`, i), j(`{"hit":"h-%d"}`, i))
		}
		return findUse(i, j(`{"hits":[{"id":"a-%d"},{"id":"b-%d"},{"id":"c-%d"}]}`, i, i, i), j(`{"hit":"%s-%d"}`, []string{"b", "c"}[i%2], i))
	})...)
	require.Equal(t, "hit", r.blockedPath("find > use").Arg, "as a whole it is blocked")
	p := r.pattern("find > use")
	require.NotNil(t, p)
	require.True(t, p.Partial)
	hit := p.DataFlow.Steps[1].Args[0]
	require.Equal(t, SourceOutput, hit.Kind)
	require.Equal(t, "/hits/0/id", hit.Pointer)
	require.NotNil(t, hit.Only)
	require.Equal(t, "/hits", *hit.Only)
	require.Equal(t, 10, hit.Evidence.Held)
	require.Equal(t, 10, p.DataFlow.Applicable)
	require.Equal(t, 10.0, p.Score)
}

// TestGivenOrFound: where callers know the value they give it, and for the others the flow has a source.
func TestGivenOrFound(t *testing.T) {
	sessions := many(24, func(i int) ingest.Session {
		s := findUse(i, j(`{"key":"k-%d","n":%d}`, i, 100+i), j(`{"key":"k-%d","n":%d}`, i, 100+i))
		if i%2 == 0 {
			s = findUse(i, j(`{"key":"k-%d","n":%d}`, i, 100+i), j(`{"key":"mine-%d","n":%d}`, i, 100+i))
			s.Runs[0].Users[0].Text += j(" mine-%d", i)
		}
		return s
	})
	p := mine(t, Options{}, sessions...).pattern("find > use")
	require.NotNil(t, p)
	key := p.DataFlow.Steps[1].Args[0]
	require.Equal(t, SourceOutput, key.Kind)
	require.Equal(t, "/key", key.Pointer)
	require.True(t, key.Given)
	require.Equal(t, "key", key.Input)
	require.Equal(t, 24, key.Evidence.Held)
	require.Equal(t, "Callers knew the value in 12 of 24 occurrences; where they did not, this source had it in 12 of 12.", key.Evidence.Note)
	require.False(t, slices.ContainsFunc(p.DataFlow.Inputs, func(in Input) bool { return in.Name == "key" && in.Required }))
	require.Equal(t, SourceOutput, p.DataFlow.Steps[1].Args[1].Kind)
	require.False(t, p.DataFlow.Steps[1].Args[1].Given, "callers never know it")
	require.Equal(t, 24, p.DataFlow.Applicable)

	// One miss among those that callers did not know, of a tool with effects: no source at all is safe enough.
	sessions[1] = findUse(1, `{"key":"k-1","n":101}`, `{"key":"other","n":101}`)
	require.NotNil(t, mine(t, Options{}, sessions...).pattern("find > use"))
	strict := mine(t, Options{Effects: func(tool string) bool { return tool == "use" }}, sessions...)
	for _, p := range strict.Patterns {
		require.False(t, p.DataFlow.Steps[1].Args[0].Given)
	}
}

// TestVariantsTogether: sources go together, so the occurrences fall apart into two flows that each hold for all
// arguments at once.
func TestVariantsTogether(t *testing.T) {
	loose := mine(t, Options{Exactness: -1}, many(24, func(i int) ingest.Session {
		return findUse(i, j(`{"a":"a-%d","b":"b-%d"}`, i, i), j(`{"key":"%s-%d","copy":"%s-%d"}`, []string{"a", "b"}[i%2], i, []string{"a", "b"}[i%2], i))
	})...)
	var pointers [][2]string
	for _, p := range loose.Patterns {
		require.Equal(t, 12, p.DataFlow.Applicable)
		pointers = append(pointers, [2]string{p.DataFlow.Steps[1].Args[0].Pointer, p.DataFlow.Steps[1].Args[1].Pointer})
	}
	require.ElementsMatch(t, [][2]string{{"/a", "/a"}, {"/b", "/b"}}, pointers)
}

// TestCrossValidation: the copy holds in 97.5 % of the occurrences, yet which of two fields it is depends on the half of
// the sessions that is looked at: callers are asked instead.
func TestCrossValidation(t *testing.T) {
	sessions := many(80, func(i int) ingest.Session {
		one, two := j("k-%d", i), j("k-%d", i)
		if half(id(i)) == 0 {
			one = j("other-%d", i)
		} else if i%8 == 0 {
			two = j("other-%d", i)
		}
		s := findUse(i, j(`{"one":"%s","two":"%s"}`, one, two), j(`{"key":"k-%d"}`, i))
		s.Runs[0].Users[0].Text += j(" k-%d", i)
		return s
	})
	require.Equal(t, SourceInput, argOf(t, "key", sessions).Kind)
}

func derivedOf(t *testing.T, a ArgFlow) Derived {
	t.Helper()
	require.Equal(t, SourceDerived, a.Kind)
	require.NotNil(t, a.Derived)
	return *a.Derived
}

func TestNumberAsTextAndBack(t *testing.T) {
	sessions := many(10, func(i int) ingest.Session {
		return findUse(i, j(`{"no":%d,"code":"%d"}`, 4000+i, 700+i), j(`{"text":"%d","number":%d}`, 4000+i, 700+i))
	})
	require.Equal(t, Derived{Form: FormText, Parts: []Part{{Place: true, Pointer: "/no"}}}, derivedOf(t, argOf(t, "text", sessions)))
	require.Equal(t, Derived{Form: FormNumber, Parts: []Part{{Place: true, Pointer: "/code"}}}, derivedOf(t, argOf(t, "number", sessions)))
}

func TestTemplate(t *testing.T) {
	a := argOf(t, "subject", many(10, func(i int) ingest.Session {
		return findUse(i, j(`{"id":"id-%d","owner":{"no":%d}}`, i, 5000+i), j(`{"subject":"Re: id-%d (%d)"}`, i, 5000+i))
	}))
	require.Equal(t, Derived{Form: FormTemplate, Parts: []Part{{Text: "Re: "}, {Place: true, Pointer: "/id"}, {Text: " ("},
		{Place: true, Pointer: "/owner/no"}, {Text: ")"}}}, derivedOf(t, a))
	require.Equal(t, "/id", a.Pointer)
}

func TestSelectByName(t *testing.T) {
	a := argOf(t, "id", many(12, func(i int) ingest.Session {
		rows := []string{j(`{"name":"other-%d","id":"x-%d"}`, i, i), j(`{"name":"third-%d","id":"y-%d"}`, i, i)}
		at := i % 3
		rows = append(rows[:at:at], append([]string{j(`{"name":"query-%d","id":"id-%d"}`, i, i)}, rows[at:]...)...)
		return findUse(i, `{"rows":[`+rows[0]+","+rows[1]+","+rows[2]+`]}`, j(`{"id":"id-%d"}`, i))
	}))
	require.Equal(t, Derived{Form: FormSelect, List: "/rows", Field: "/name", Take: "/id", Parts: []Part{{Place: true, Arg: "q"}}}, derivedOf(t, a))
	require.Equal(t, "/rows/*/id", a.Pointer)
}

// TestMinGain: of three calls in a row the whole saves all; its parts add nothing and come only where that is asked for.
func TestMinGain(t *testing.T) {
	sessions := many(12, func(i int) ingest.Session {
		return talk(id(i), "go",
			step{tool: "a", args: `{}`, result: j(`{"x":"x-%d"}`, i)},
			step{tool: "b", args: j(`{"x":"x-%d"}`, i), result: j(`{"y":"y-%d"}`, i)},
			step{tool: "c", args: j(`{"y":"y-%d"}`, i), result: `{}`})
	})
	// Some stop early, so that the part is a path of its own.
	sessions = append(sessions, many(12, func(i int) ingest.Session {
		return talk(id(100+i), "go",
			step{tool: "a", args: `{}`, result: j(`{"x":"x-%d"}`, i)},
			step{tool: "b", args: j(`{"x":"x-%d"}`, i), result: j(`{"y":"y-%d"}`, i)})
	})...)
	r := mine(t, Options{}, sessions...)
	require.Nil(t, r.pattern("b > c"))
	all := mine(t, Options{MinGain: -1}, sessions...)
	require.NotNil(t, all.pattern("b > c"))
	require.Zero(t, all.pattern("b > c").Score)
	require.Equal(t, r.pattern("a > b > c").Score, all.pattern("a > b > c").Score)
}

// Where a tool changes something callers give what they know, unless it always was so: a constant in many sessions, a copy
// on many values. What was another value once is asked for.
func TestWhatAlwaysHeldIsNotAskedForWhereToolsChangeSomething(t *testing.T) {
	build := func(n int, odd string) []ingest.Session {
		return many(n, func(i int) ingest.Session {
			mode := "fast"
			if i == 3 && odd != "" {
				mode = odd
			}
			s := findUse(i, j(`{"key":"k-%d"}`, i), j(`{"key":"k-%d","mode":%q}`, i, mode))
			s.Runs[0].Users[0].Text += j(", %s mode", mode)
			if i%2 == 0 {
				s.Runs[0].Users[0].Text += j(", key k-%d", i)
			}
			return s
		})
	}
	kinds := func(sessions []ingest.Session) (key, mode ArgFlow) {
		p := mine(t, Options{Effects: func(tool string) bool { return tool == "use" }}, sessions...).pattern("find > use")
		require.NotNil(t, p)
		return p.DataFlow.Steps[1].Args[0], p.DataFlow.Steps[1].Args[1]
	}
	key, mode := kinds(build(30, ""))
	require.Equal(t, []any{SourceOutput, false, SourceConst, "fast"}, []any{key.Kind, key.Given, mode.Kind, mode.Value})
	key, mode = kinds(build(21, ""))
	require.Equal(t, SourceInput, mode.Kind, "21 sessions are too few")
	require.True(t, key.Given, "so are 21 values: the copy is for callers who do not know them")
	_, mode = kinds(build(60, "slow"))
	require.Equal(t, SourceInput, mode.Kind, "59 of 60")
}
