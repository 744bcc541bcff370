package replay

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/ingest"
)

// said and called build the events of a session: the user speaks, or a turn calls a tool.
type said string

type called struct {
	turn   int32
	tool   string
	args   string
	result string
	failed bool
}

// session assembles a recorded session with this many model calls.
func session(t *testing.T, llm int32, parts ...any) *Session {
	t.Helper()
	var events []ingest.Event
	header := ingest.Event{SessionID: "s", Source: "test", OriginKind: ingest.OriginAgent}
	if llm > 0 {
		e := header
		e.Kind, e.LLM = ingest.KindLLMCall, &ingest.LLMCall{Count: llm, InputTokens: -1, OutputTokens: -1, CachedTokens: -1}
		events = append(events, e)
	}
	turn := int32(0)
	for i, p := range parts {
		e := header
		e.Seq, e.HasSeq, e.HasTurn = int64(i), true, true
		switch p := p.(type) {
		case said:
			e.Kind, e.User, e.Turn = ingest.KindUserMessage, &ingest.UserMessage{Text: string(p)}, turn+1
		case called:
			turn = p.turn
			e.Kind, e.Turn = ingest.KindToolCall, p.turn
			e.Call = &ingest.ToolCall{Tool: p.tool, CallID: fmt.Sprint("c", i), Args: json.RawMessage(p.args), Result: json.RawMessage(p.result), Status: ingest.StatusOK}
			if p.failed {
				e.Call.Status = ingest.StatusError
			}
		}
		events = append(events, e)
	}
	// A message belongs before the call after it.
	for i := range events[:max(0, len(events)-1)] {
		if events[i].Kind == ingest.KindUserMessage {
			for _, next := range events[i+1:] {
				if next.Kind == ingest.KindToolCall {
					events[i].Turn = next.Turn
					break
				}
			}
		}
	}
	all := ingest.AssembleAll(ingest.DefaultTenant, events, ingest.AssembleOptions{})
	require.Len(t, all, 1)
	return NewSession(all[0])
}

func flow(t *testing.T, text string) *Flow {
	t.Helper()
	parsed, _, err := flows.ParseFlow([]byte("format_version: \"1.1\"\nversion: 1.0.0\ndescription: d\n" + text))
	require.NoError(t, err)
	f, err := Compile(parsed)
	require.NoError(t, err)
	return f
}

// userOrders finds a user and reads the order that the caller names.
const userOrders = `
type: Flow
name: user_order
input_schema: {type: object, properties: {email: {type: string}, order: {type: string}}, required: [email, order]}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: get_order, input_mapping: {user_id: /user/id, order_id: order}, output_as: order_data}
`

func find(turn int32) called {
	return called{turn: turn, tool: "find_user", args: `{"email":"a@b.c"}`, result: `{"id":"u1","orders":["o1","o2"]}`}
}

func order(turn int32, user, id string) called {
	return called{turn: turn, tool: "get_order", args: fmt.Sprintf(`{"user_id":%q,"order_id":%q}`, user, id), result: `{"status":"open"}`}
}

// score sums the outcome of one session for flows in rank order.
func score(s *Session, all ...*Flow) Outcome { return NewScorer(all).Session(s) }

// TestApplication takes each clause of an application in turn.
func TestApplication(t *testing.T) {
	f := flow(t, userOrders)
	for name, c := range map[string]struct {
		parts []any
		// saved turns, then predictions and those that are right
		saved, predicted, correct int
	}{
		"exact":                         {[]any{said("I am a@b.c, order O1"), find(0), order(1, "u1", "o1")}, 1, 1, 1},
		"a: another tool between":       {[]any{said("order o1"), find(0), called{turn: 1, tool: "think", args: `{}`, result: `{}`}, order(2, "u1", "o1")}, 0, 0, 0},
		"a: the other way round":        {[]any{said("order o1"), order(0, "u1", "o1"), find(1)}, 0, 0, 0},
		"a: the second tool is missing": {[]any{said("order o1"), find(0)}, 0, 0, 0},
		"b: the user speaks":            {[]any{said("order o1"), find(0), said("go on"), order(1, "u1", "o1")}, 0, 0, 0},
		"b: a turn without calls":       {[]any{said("order o1"), find(0), order(2, "u1", "o1")}, 0, 0, 0},
		"c: the last call fails": {[]any{said("order o1"), find(0),
			called{turn: 1, tool: "get_order", args: `{"user_id":"u1","order_id":"o1"}`, result: `"no"`, failed: true}}, 0, 0, 0},
		"c: a failure made good": {[]any{said("order o1"), find(0),
			called{turn: 1, tool: "get_order", args: `{"user_id":"u1","order_id":"x"}`, result: `"no"`, failed: true}, order(2, "u1", "o1")}, 1, 1, 1},
		"d: another value": {[]any{said("order o1"), find(0), order(1, "u2", "o1")}, 0, 1, 0},
		"d: an unmapped argument": {[]any{said("order o1"), find(0),
			called{turn: 1, tool: "get_order", args: `{"user_id":"u1","order_id":"o1","verbose":true}`, result: `{}`}}, 0, 1, 1},
		"d: a mapped argument is absent": {[]any{said("order o1"), find(0),
			called{turn: 1, tool: "get_order", args: `{"order_id":"o1"}`, result: `{}`}}, 0, 1, 0},
		"d: an input is absent": {[]any{said("order o1"), find(0),
			called{turn: 1, tool: "get_order", args: `{"user_id":"u1"}`, result: `{}`}}, 0, 1, 1},
		"e: only the result inside knows": {[]any{said("hello"), find(0), order(1, "u1", "o1")}, 0, 1, 1},
		"e: an earlier result knows": {[]any{called{tool: "list", args: `{}`, result: `{"all":[{"id":"o1"}]}`},
			said("hello"), find(1), order(2, "u1", "o1")}, 1, 1, 1},
		"e: an earlier argument knows": {[]any{called{tool: "list", args: `{"id":"o1"}`, result: `{}`},
			said("hello"), find(1), order(2, "u1", "o1")}, 1, 1, 1},
		"e: the user says it afterwards":         {[]any{said("hello"), find(0), order(1, "u1", "o1"), said("it was o1")}, 0, 1, 1},
		"e: it is an argument of the first step": {[]any{said("hello"), find(0), order(1, "u1", "a@b.c")}, 1, 1, 1},
		"parallel calls save nothing":            {[]any{said("order o1"), find(0), order(0, "u1", "o1")}, 0, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := score(session(t, 5, c.parts...), f)
			assert.Equal(t, [3]int{c.saved, c.predicted, c.correct}, [3]int{o.Saved, o.Predicted, o.Correct})
			assert.Equal(t, 5, o.LLMCalls)
			if c.saved > 0 {
				assert.Equal(t, 2, o.Covered)
				assert.Equal(t, 1, o.Triggered)
			}
		})
	}
}

func TestFreeTextCountsOnlyLeniently(t *testing.T) {
	s := session(t, 2, said("hello"), find(0), order(1, "u1", "a text that a model writes, not a value"))
	o := score(s, flow(t, userOrders))
	assert.Equal(t, 0, o.Saved)
	assert.Equal(t, 1, o.SavedFree)
	assert.Equal(t, 1, o.InexactWindows)
	assert.Equal(t, 1, o.UnknownInputWindows)
}

const eachOrder = `
type: Flow
name: each_order
input_schema: {type: object, properties: {email: {type: string}}}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: get_order, for_each: /user/orders, as: one, input_mapping: {user_id: /user/id, order_id: one}, output_as: all}
`

func TestForEach(t *testing.T) {
	f := flow(t, eachOrder)
	t.Run("one call for each element", func(t *testing.T) {
		o := score(session(t, 3, said("hi"), find(0), order(1, "u1", "o1"), order(2, "u1", "o2")), f)
		assert.Equal(t, 2, o.Saved)
		assert.Equal(t, 3, o.Covered)
		assert.Equal(t, [2]int{5, 5}, [2]int{o.Predicted, o.Correct}, "the length, and two arguments for each element")
	})
	t.Run("a further call of the tool is none of the flow's", func(t *testing.T) {
		o := score(session(t, 4, said("hi"), find(0), order(1, "u1", "o1"), order(2, "u1", "o2"), order(3, "u1", "o3")), f)
		assert.Equal(t, 2, o.Saved)
		assert.Equal(t, 3, o.Covered)
	})
	t.Run("an agent that stops early makes a superset", func(t *testing.T) {
		o := score(session(t, 2, said("hi"), find(0), order(1, "u1", "o1")), f)
		assert.Zero(t, o.Saved)
		assert.Equal(t, 1, o.Extra)
		assert.Equal(t, [2]int{3, 2}, [2]int{o.Predicted, o.Correct}, "the length is wrong")
		assert.Equal(t, 0, o.DestructiveInexact, "it only reads")
	})
	t.Run("another order is another thing", func(t *testing.T) {
		o := score(session(t, 3, said("hi"), find(0), order(1, "u1", "o2"), order(2, "u1", "o1")), f)
		assert.Zero(t, o.Saved)
		assert.Zero(t, o.Extra)
		assert.Equal(t, [2]int{5, 3}, [2]int{o.Predicted, o.Correct})
	})
	t.Run("the caller gives the list", func(t *testing.T) {
		given := flow(t, `
type: Flow
name: given
input_schema: {type: object, properties: {ids: {type: array}, user: {type: string}}}
steps:
  - {tool_name: get_order, for_each: ids, as: one, input_mapping: {order_id: one, user_id: user}, output_as: all}
`)
		s := session(t, 2, said("order o2 of u1"), order(0, "u1", "o1"), order(1, "u1", "o2"), order(2, "u1", "o3"))
		m := given.at(s, s.stretches[0], 0)
		require.NotNil(t, m)
		assert.True(t, m.Fits())
		assert.Equal(t, map[string]any{"ids": []any{"o1", "o2"}, "user": "u1"}, m.Inputs, "o3 turned up later")
	})
}

// withheld is a flow whose last step waits for a value that the caller may not know.
const withheld = `
type: Flow
name: withheld
input_schema: {type: object, properties: {email: {type: string}, order: {type: [string, "null"], default: null}}, required: [email]}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: get_order, input_mapping: {user_id: /user/id, order_id: /user/orders/0}, output_as: first}
  - {tool_name: cancel_order, guard: order != None, input_mapping: {order_id: order}, output_as: done}
`

// TestParallelStepsOfOneTool: a call tells the inputs of the one step that has it.
func TestParallelStepsOfOneTool(t *testing.T) {
	f := flow(t, `
type: DAGFlow
name: two_orders
input_schema: {type: object, properties: {email: {type: string}, first: {default: null}, second: {default: null}}}
steps:
  - {step_id: user, tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {step_id: one, tool_name: get_order, depends_on: [user], input_mapping: {user_id: /user/id, order_id: {$expr: "first != null ? first : user.orders[0]"}}, output_as: one}
  - {step_id: two, tool_name: get_order, depends_on: [user], input_mapping: {user_id: /user/id, order_id: {$expr: "second != null ? second : user.orders[1]"}}, output_as: two}
`)
	for name, c := range map[string]struct {
		text          string
		orders        [2]string
		saved         int
		first, second any
	}{
		"as declared":                   {"hello", [2]string{"o1", "o2"}, 2, nil, nil},
		"the other way round":           {"hello", [2]string{"o2", "o1"}, 2, nil, nil},
		"one given":                     {"order o3", [2]string{"o3", "o2"}, 2, "o3", nil},
		"one given, the other unknown":  {"order o2", [2]string{"o2", "o4"}, 0, nil, nil},
		"the same again is not another": {"hello", [2]string{"o1", "o1"}, 0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := session(t, 3, said(c.text), find(0), order(1, "u1", c.orders[0]), order(2, "u1", c.orders[1]))
			assert.Equal(t, c.saved, score(s, f).Saved)
			if c.saved > 0 {
				m := f.at(s, s.stretches[0], 0)
				require.NotNil(t, m)
				assert.Equal(t, []any{c.first, c.second}, []any{m.Inputs["first"], m.Inputs["second"]})
			}
		})
	}
}

// TestManyParallelSteps: twelve steps of one tool have 479 million orders, of which a bounded number is tried.
func TestManyParallelSteps(t *testing.T) {
	text := "type: DAGFlow\nname: many\ninput_schema: {type: object, properties: {email: {type: string}}}\nsteps:\n" +
		"  - {step_id: user, tool_name: find_user, input_mapping: {email: email}, output_as: user}\n"
	parts := []any{said("a@b.c"), find(0)}
	for i := range 12 {
		text += fmt.Sprintf("  - {step_id: s%d, tool_name: get_order, depends_on: [user], input_mapping: {user_id: /user/id, order_id: {$const: never}}, output_as: o%d}\n", i, i)
		parts = append(parts, order(int32(i+1), "u1", "o1"))
	}
	assert.Zero(t, score(session(t, 13, parts...), flow(t, text)).Saved)
}

// TestModelCallsThatWereNotRecorded: each turn that calls a tool took a model call, however few are recorded.
func TestModelCallsThatWereNotRecorded(t *testing.T) {
	f := flow(t, userOrders)
	for recorded, want := range map[int32]int{0: 2, 1: 2, 2: 2, 3: 3} {
		o := score(session(t, recorded, said("order o1"), find(0), order(1, "u1", "o1")), f)
		assert.Equal(t, []int{1, want, want}, []int{o.Saved, o.LLMCalls, o.RecordedLLMCalls}, "%d recorded", recorded)
	}
}

// TestSegmentation chooses between overlapping applications: two of two calls save as much as one of three would, and
// one more.
func TestSegmentation(t *testing.T) {
	bare := func(name string, tools ...string) *Flow {
		text := "type: Flow\nname: " + name + "\nsteps:\n"
		for i, tool := range tools {
			text += fmt.Sprintf("  - {tool_name: %s, output_as: o%d}\n", tool, i)
		}
		return flow(t, text)
	}
	s := session(t, 6, said("x"),
		called{0, "get_a", `{}`, `{}`, false}, called{1, "get_b", `{}`, `{}`, false}, called{2, "get_c", `{}`, `{}`, false},
		called{3, "get_d", `{}`, `{}`, false}, called{4, "get_e", `{}`, `{}`, false})
	abc, cde, de := bare("abc", "get_a", "get_b", "get_c"), bare("cde", "get_c", "get_d", "get_e"), bare("de", "get_d", "get_e")
	assert.Equal(t, 2, score(s, abc, cde).Saved, "they share get_c")
	sc := NewScorer([]*Flow{abc, cde, de})
	o := sc.Session(s)
	assert.Equal(t, 3, o.Saved)
	assert.Equal(t, 5, o.Covered)
	assert.Equal(t, 3, o.Starts, "get_a, get_c and get_d start a flow")
	assert.Equal(t, 3, o.Triggered)
	assert.Equal(t, []int{1, 0, 1}, []int{sc.ByFlow[0].Used, sc.ByFlow[1].Used, sc.ByFlow[2].Used})
	assert.Equal(t, 2, sc.ByFlow[1].ExactSaved)
}

func TestTopK(t *testing.T) {
	s := session(t, 3, said("x"), called{0, "get_a", `{}`, `{}`, false}, called{1, "get_b", `{}`, `{}`, false}, called{2, "get_c", `{}`, `{}`, false})
	var all []*Flow
	for range 5 {
		all = append(all, flow(t, "type: Flow\nname: other\nsteps:\n  - {tool_name: get_x, output_as: a}\n  - {tool_name: get_y, output_as: b}\n"))
	}
	all = append(all, flow(t, "type: Flow\nname: abc\nsteps:\n  - {tool_name: get_a, output_as: a}\n  - {tool_name: get_b, output_as: b}\n  - {tool_name: get_c, output_as: c}\n"))
	assert.Equal(t, [len(TopK)]int{0, 2, 2, 2}, score(s, all...).SavedTop)
}

func TestRepeatsAreASavingOfTheirOwn(t *testing.T) {
	s := session(t, 6, said("a@b.c o1"), find(0), find(1), find(2), order(3, "u1", "o1"))
	assert.Equal(t, []int{6, 2, 4, 2}, []int{s.RecordedLLMCalls, s.RepeatTurns, s.LLMCalls, s.Calls})
	assert.Equal(t, 1, score(s, flow(t, userOrders)).Saved)
	t.Run("a turn with another call stays", func(t *testing.T) {
		s := session(t, 3, said("x"), find(0), find(1), called{1, "get_a", `{}`, `{}`, false})
		assert.Equal(t, []int{0, 3, 2}, []int{s.RepeatTurns, s.LLMCalls, s.Calls})
	})
	t.Run("the last result that is no error stays", func(t *testing.T) {
		bad := find(0)
		bad.failed, bad.result = true, `"busy"`
		s := session(t, 3, said("a@b.c o1"), bad, find(1), order(2, "u1", "o1"))
		assert.Equal(t, 1, score(s, flow(t, userOrders)).Saved)
	})
	t.Run("without recorded model calls turns count", func(t *testing.T) {
		s := session(t, 0, said("x"), find(0), find(1), called{2, "get_a", `{}`, `{}`, false})
		assert.Equal(t, []int{3, 2}, []int{s.RecordedLLMCalls, s.LLMCalls})
	})
}

func TestVerbRule(t *testing.T) {
	for tool, want := range map[string]bool{"get_user": true, "calendar.search_events": true, "list-all": true, "find": true, "show.me.diff_files": true,
		"cancel_order": false, "calculate": false, "getUser": false, "search.delete_event": false, "": false} {
		assert.Equal(t, want, ReadOnly(tool), tool)
	}
}

const dag = `
type: DAGFlow
name: dag
input_schema: {type: object, properties: {email: {type: string}, product: {type: string}}}
steps:
  - {step_id: user, tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {step_id: product, tool_name: get_product, input_mapping: {id: product}, output_as: product_data}
  - {step_id: order, tool_name: get_order, depends_on: [user], input_mapping: {user_id: /user/id, order_id: /user/orders/0}, output_as: order}
`

func TestParallelSteps(t *testing.T) {
	f := flow(t, dag)
	product := func(turn int32) called { return called{turn, "get_product", `{"id":"p1"}`, `{"price":2}`, false} }
	for name, parts := range map[string][]any{
		"as declared":   {find(0), product(1), order(2, "u1", "o1")},
		"product first": {product(0), find(1), order(2, "u1", "o1")},
		"product last":  {find(0), order(1, "u1", "o1"), product(2)},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, 2, score(session(t, 3, append([]any{said("a@b.c p1")}, parts...)...), f).Saved)
		})
	}
	assert.Zero(t, score(session(t, 3, said("a@b.c p1"), order(0, "u1", "o1"), find(1), product(2)), f).Saved, "an order needs its user")
}

func TestBranches(t *testing.T) {
	f := flow(t, `
type: DAGFlow
name: branching
input_schema: {type: object, properties: {email: {type: string}}}
steps:
  - step_id: user
    tool_name: find_user
    input_mapping: {email: email}
    output_as: user
    branches: [{target_step_id: order, predicate: 'user["id"] == "u1"'}]
    default_next: product
  - {step_id: order, tool_name: get_order, depends_on: [user], input_mapping: {user_id: /user/id, order_id: /user/orders/0}, output_as: order}
  - {step_id: product, tool_name: get_product, depends_on: [user], input_mapping: {id: /user/id}, output_as: product}
`)
	assert.Equal(t, 1, score(session(t, 2, said("a@b.c"), find(0), order(1, "u1", "o1")), f).Saved)
	other := find(0)
	other.result = `{"id":"u2"}`
	assert.Equal(t, 1, score(session(t, 2, said("a@b.c"), other, called{1, "get_product", `{"id":"u2"}`, `{}`, false}), f).Saved)
	assert.Zero(t, score(session(t, 2, said("a@b.c"), other, order(1, "u2", "o1")), f).Saved)
}

func TestDerivedValues(t *testing.T) {
	items := called{0, "get_order", `{"order_id":"o1"}`, `{"items":[{"name":"mug","id":"i1"},{"name":"hat","id":"i2"}]}`, false}
	f := flow(t, `
type: Flow
name: selected
input_schema: {type: object, properties: {order: {type: string}, name: {type: string}}}
steps:
  - {tool_name: get_order, input_mapping: {order_id: order}, output_as: data}
  - {tool_name: get_item, input_mapping: {item_id: {$expr: "data.items.filter(i, i.name == name)[0].id"}}, output_as: item}
`)
	item := func(id string) called { return called{1, "get_item", `{"item_id":"` + id + `"}`, `{}`, false} }
	s := session(t, 2, said("the hat of o1"), items, item("i2"))
	m := f.at(s, s.stretches[0], 0)
	require.NotNil(t, m)
	assert.True(t, m.Fits())
	assert.Equal(t, map[string]any{"order": "o1", "name": "hat"}, m.Inputs, "what only the expression reads is told by what makes it right")
	assert.Zero(t, score(session(t, 2, said("the hat of o1"), items, item("i1")), f).Saved, "nobody spoke of a mug")
	o := score(session(t, 2, said("the hat of o1"), items, item("i9")), f)
	assert.Equal(t, []int{0, 1, 0}, []int{o.Saved, o.Predicted, o.Correct})
	_, err := Compile(&flows.Flow{Type: flows.TypeFlow, Steps: []flows.Step{{ToolName: "t", InputMapping: flows.Mapping{{Target: "a", Value: flows.MappingValue{Kind: flows.MapExpr, Ref: "("}}}}}})
	require.Error(t, err)
}

// TestFlatContext is how flows of the base system pass values: outputs merge key by key, an empty mapping hands over
// everything.
func TestFlatContext(t *testing.T) {
	f := flow(t, `
type: Flow
name: flat
steps:
  - {tool_name: find_user}
  - {tool_name: get_profile}
`)
	profile := func(args string) called { return called{1, "get_profile", args, `{}`, false} }
	o := score(session(t, 2, said("x"), find(0), profile(`{"id":"u1","email":"a@b.c"}`)), f)
	assert.Equal(t, []int{1, 2, 2}, []int{o.Saved, o.Predicted, o.Correct})
	o = score(session(t, 2, said("x"), find(0), profile(`{"id":"u9"}`)), f)
	assert.Equal(t, []int{0, 1, 0}, []int{o.Saved, o.Predicted, o.Correct})
	assert.Zero(t, score(session(t, 2, said("x"), find(0), profile(`{"language":"en"}`)), f).Saved, "nothing in the context has this name")
}

func TestOptionalArguments(t *testing.T) {
	f := flow(t, `
type: Flow
name: optional
input_schema: {type: object, properties: {email: {type: string}, page: {type: integer}}}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: get_order, input_mapping: {user_id: {$optional: /user/ref}, page: {$optional: page}}, output_as: order}
`)
	call := func(args string) called { return called{1, "get_order", args, `{}`, false} }
	assert.Equal(t, 1, score(session(t, 2, said("x"), find(0), call(`{}`)), f).Saved)
	assert.Equal(t, 1, score(session(t, 2, said("page 7"), find(0), call(`{"page":7}`)), f).Saved)
	withRef := find(0)
	withRef.result = `{"id":"u1","ref":"r1"}`
	o := score(session(t, 2, said("x"), withRef, call(`{}`)), f)
	assert.Equal(t, []int{0, 1, 0}, []int{o.Saved, o.Predicted, o.Correct}, "the flow would pass it")
	o = score(session(t, 2, said("x"), find(0), call(`{"user_id":"u1"}`)), f)
	assert.Equal(t, []int{0, 1, 0}, []int{o.Saved, o.Predicted, o.Correct}, "the flow would leave it out")
}

// TestOneInputInTwoPlaces: the second use predicts.
func TestOneInputInTwoPlaces(t *testing.T) {
	f := flow(t, `
type: Flow
name: twice
input_schema: {type: object, properties: {email: {type: string}}}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: get_mail, input_mapping: {to: email}, output_as: mail}
`)
	mail := func(to string) called { return called{1, "get_mail", `{"to":"` + to + `"}`, `{}`, false} }
	o := score(session(t, 2, said("x"), find(0), mail("a@b.c")), f)
	assert.Equal(t, []int{1, 1, 1}, []int{o.Saved, o.Predicted, o.Correct})
	o = score(session(t, 2, said("x"), find(0), mail("d@e.f")), f)
	assert.Equal(t, []int{0, 1, 0}, []int{o.Saved, o.Predicted, o.Correct})
}

// TestVariantsCountOnce: of two flows over one sequence of tools the first that predicts counts; both count in the
// figure of all.
func TestVariantsCountOnce(t *testing.T) {
	second := `
type: Flow
name: second
input_schema: {type: object, properties: {email: {type: string}}}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: get_order, input_mapping: {user_id: /user/id, order_id: /user/orders/1}, output_as: order_data}
`
	o := score(session(t, 2, said("order o1"), find(0), order(1, "u1", "o1")), flow(t, userOrders), flow(t, second))
	assert.Equal(t, []int{1, 1, 1, 3, 2}, []int{o.Saved, o.Predicted, o.Correct, o.AllPredicted, o.AllCorrect})
}

func TestRefusedFlows(t *testing.T) {
	for _, f := range []*flows.Flow{
		{Type: flows.TypeFlow, Steps: []flows.Step{{FlowName: "other"}}},
		{Type: flows.TypeFlow, Steps: []flows.Step{{ToolName: "t", StepType: "capability"}}},
		{Type: flows.TypeFlow, Steps: []flows.Step{{ToolName: "t", Guard: "=="}}},
		{Type: flows.TypeDAGFlow, Steps: []flows.Step{{ToolName: "t", StepID: "a", DependsOn: []string{"b"}}}},
	} {
		_, err := Compile(f)
		require.Error(t, err)
	}
}

// Kept matches are of one flow over one session: scorers that share them score as those that keep none.
func TestKeptMatches(t *testing.T) {
	right := session(t, 3, said("mail a@b.c, order o1"), find(0), order(1, "u1", "o1"))
	wrong := session(t, 3, said("mail a@b.c, order o1"), find(0), order(1, "u2", "o1"))
	f, other := flow(t, userOrders), flow(t, "type: Flow\nname: bare\nsteps:\n  - {tool_name: find_user, output_as: user}\n  - {tool_name: get_order, output_as: order_data}\n")
	kept := NewMatches()
	for _, flows := range [][]*Flow{{f}, {other, f}, {f, other}, {f}} {
		plain, keeping := NewScorer(flows), NewScorer(flows).Keep(kept)
		for _, s := range []*Session{right, wrong, right} {
			assert.Equal(t, plain.Session(s), keeping.Session(s))
		}
		assert.Equal(t, plain.ByFlow, keeping.ByFlow)
	}
	assert.NotEqual(t, score(right, f), score(wrong, f))
}
