package observer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// furniture is a session in which the user names one of three rows, and the model uses it.
func furniture(i int, says, rows, use string) ingest.Session {
	return talk(id(i), j("query-%d: look at the %s", i, says), step{tool: "find", args: j(`{"q":"query-%d"}`, i), result: rows},
		step{tool: "use", args: use, result: `{}`})
}

var furnishings = []string{"lamp", "chair", "table"}

func threeRows(i int) string {
	return j(`{"rows":[{"name":"Table","id":"t-%d","at":{"shelf":"x-%d"}},{"name":"Lamp","id":"l-%d","at":{"shelf":"y-%d"}},{"name":"Chair","id":"c-%d","at":{"shelf":"z-%d"}}]}`, i, i, i, i, i, i)
}

func oneOf(i int) (name, use string) {
	name = furnishings[i%3]
	return name, j(`{"row":"%s-%d"}`, name[:1], i)
}

// Which row is meant the user has said, though not its id: the flow is asked for the name.
func TestElementThatUsersName(t *testing.T) {
	r := mine(t, Options{}, many(30, func(i int) ingest.Session {
		name, use := oneOf(i)
		if i%10 == 0 {
			name += " or the sofa"
		}
		return furniture(i, name, threeRows(i), use)
	})...)
	p := r.pattern("find > use")
	require.NotNil(t, p)
	a := p.DataFlow.Steps[1].Args[0]
	require.Equal(t, SourceDerived, a.Kind)
	require.Equal(t, &Derived{Form: FormSelect, List: "/rows", Field: "/name", Take: "/id", Asks: true}, a.Derived)
	require.Equal(t, "row_name", a.Input)
	require.Equal(t, []int{30, 30, 30}, []int{a.Evidence.Held, a.Evidence.Present, a.Evidence.Distinct})
	require.Equal(t, "Of the element whose /name the caller names; users had written it in 30 of 30 occurrences. Without it the flow hands back.", a.Evidence.Note)
	require.Equal(t, []Input{{Name: "q", Arg: "q", Origin: "first step", Required: true}, {Name: "row_name", Step: 1, Arg: "row", Origin: "user text"}}, withoutExamples(p.DataFlow.Inputs))
	require.Equal(t, HeldOut{Windows: 30, Exact: 30}, p.DataFlow.HeldOut, "what callers say is not predicted")
	require.Equal(t, []int{30, 30}, []int{p.DataFlow.Explained, p.DataFlow.Applicable})
}

func withoutExamples(inputs []Input) []Input {
	out := append([]Input{}, inputs...)
	for i := range out {
		out[i].Examples, out[i].ExampleSessions = nil, nil
	}
	return out
}

// Two places of one element are asked for by one name.
func TestPlacesOfTheElementThatUsersName(t *testing.T) {
	r := mine(t, Options{}, many(30, func(i int) ingest.Session {
		name, _ := oneOf(i)
		shelf := map[string]string{"table": "x", "lamp": "y", "chair": "z"}[name]
		return furniture(i, name, threeRows(i), j(`{"row":"%s-%d","shelf":"%s-%d"}`, name[:1], i, shelf, i))
	})...)
	flow := r.pattern("find > use").DataFlow
	require.Equal(t, []string{"/id", "/at/shelf"}, []string{flow.Steps[1].Args[0].Derived.Take, flow.Steps[1].Args[1].Derived.Take})
	require.Equal(t, []string{"row_name", "row_name"}, []string{flow.Steps[1].Args[0].Input, flow.Steps[1].Args[1].Input})
	require.Len(t, flow.Inputs, 2)
}

// A name is no help where users seldom say it, where two rows have it, or where each session is about the same row.
func TestElementThatUsersDoNotTell(t *testing.T) {
	said := func(silent int, rows func(int) string) []ingest.Session {
		return many(30, func(i int) ingest.Session {
			name, use := oneOf(i)
			if i < silent {
				name = "thing"
			}
			return furniture(i, name, rows(i), use)
		})
	}
	twice := func(i int) string {
		return j(`{"rows":[{"name":"Table","id":"t-%d"},{"name":"Lamp","id":"l-%d"},{"name":"Chair","id":"c-%d"},{"name":"TABLE","id":"u-%d"},{"name":"Lamp","id":"k-%d"},{"name":"chair","id":"d-%d"}]}`, i, i, i, i, i, i)
	}
	asks := func(options Options, sessions []ingest.Session) bool {
		for _, p := range mine(t, options, sessions...).Patterns {
			if d := p.DataFlow.Steps[len(p.Tools)-1].Args[0].Derived; d != nil && d.Asks {
				return true
			}
		}
		return false
	}
	require.True(t, asks(Options{}, said(6, threeRows)), "24 of 30")
	blocked := mine(t, Options{}, said(7, threeRows)...).blockedPath("find > use")
	require.NotNil(t, blocked, "23 of 30")
	require.Equal(t, []any{"choice", "row"}, []any{blocked.Reason, blocked.Arg})
	require.False(t, asks(Options{}, said(0, twice)), "another row has the name, too")
	require.False(t, asks(Options{Effects: func(tool string) bool { return tool == "use" }}, said(0, threeRows)), "a name does not decide on a change")
}

// coloured is a session in which the user names one of three variants, which are members of an object.
func coloured(i int, says string, taken string) ingest.Session {
	result := j(`{"variants":{"Red":{"id":"r-%d","in":{"shelf":"x-%d"}},"green":{"id":"g-%d"},"blue":{"id":"b-%d"}}}`, i, i, i, i)
	return furniture(i, says, result, j(`{"variant":"%s-%d"}`, taken, i))
}

// Of an object the caller names the key; its case does not matter.
func TestMemberThatUsersName(t *testing.T) {
	p := mine(t, Options{}, many(30, func(i int) ingest.Session {
		colour := []string{"red", "green", "Blue"}[i%3]
		return coloured(i, colour+" one", []string{"r", "g", "b"}[i%3])
	})...).pattern("find > use")
	require.NotNil(t, p)
	a := p.DataFlow.Steps[1].Args[0]
	require.Equal(t, &Derived{Form: FormMember, Take: "/id", Parts: []Part{{Place: true, Pointer: "/variants"}}, Asks: true}, a.Derived)
	require.Equal(t, []any{SourceDerived, "variant_key", "/variants/*/id"}, []any{a.Kind, a.Input, a.Pointer})
	require.Equal(t, "Of the member whose key the caller names; users had written it in 30 of 30 occurrences. Without it the flow hands back.", a.Evidence.Note)
	require.Equal(t, []Input{{Name: "q", Arg: "q", Origin: "first step", Required: true}, {Name: "variant_key", Step: 1, Arg: "variant", Origin: "user text"}}, withoutExamples(p.DataFlow.Inputs))
}

// Two keys alone, which may be fields that users happen to speak of, a key that users do not write, and one that two members
// have but for its case are not asked for.
func TestMemberThatUsersDoNotTell(t *testing.T) {
	asked := func(session func(i int) ingest.Session) bool {
		for _, p := range mine(t, Options{}, many(30, session)...).Patterns {
			for _, a := range p.DataFlow.Steps[len(p.Tools)-1].Args {
				if a.Derived != nil && a.Derived.Asks {
					return true
				}
			}
		}
		return false
	}
	require.False(t, asked(func(i int) ingest.Session { return coloured(i, []string{"red", "green"}[i%2], []string{"r", "g"}[i%2]) }))
	require.False(t, asked(func(i int) ingest.Session { return coloured(i, "nice one", []string{"r", "g", "b"}[i%3]) }))
	require.False(t, asked(func(i int) ingest.Session {
		colour := []string{"red", "green", "blue"}[i%3]
		return furniture(i, colour, j(`{"variants":{"red":{"id":"r-%d"},"Red":{"id":"x-%d"},"green":{"id":"g-%d"},"GREEN":{"id":"y-%d"},"blue":{"id":"b-%d"},"Blue":{"id":"z-%d"}}}`, i, i, i, i, i, i),
			j(`{"variant":"%s-%d"}`, colour[:1], i))
	}))
}
