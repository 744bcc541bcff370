package replay

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
)

// look is a call of get_item; its argument decides whether it can be derived.
func look(turn int32, id string) called {
	return called{turn, "get_item", `{"id":"` + id + `","mode":"fast"}`, `{"next":"i9"}`, false}
}

func list(turn int32) called {
	return called{turn, "list_items", `{}`, `{"items":["i1","i2"]}`, false}
}

// training has list > item in three sessions, item > item in two, and mode=fast wherever there is a mode.
func training(t *testing.T) *Training {
	t.Helper()
	var all []*Session
	for range 2 {
		all = append(all, session(t, 3, said("x"), list(0), look(1, "i1"), look(2, "i2")))
	}
	return NewTraining(append(all, session(t, 3, said("x"), list(0), look(1, "i1"))))
}

func TestBounds(t *testing.T) {
	tr := training(t)
	for name, c := range map[string]struct {
		parts []any
		want  Bounds
	}{
		"all of it":                     {[]any{said("x"), list(0), look(1, "i1")}, Bounds{1, 1, 1, 1}},
		"a value made up":               {[]any{said("x"), list(0), look(1, "i7")}, Bounds{1, 1, 0, 0}},
		"the user named it":             {[]any{said("look at I7"), list(0), look(1, "i7")}, Bounds{1, 1, 1, 1}},
		"a sequence that is too rare":   {[]any{said("x"), list(0), look(1, "i1"), look(2, "i2")}, Bounds{2, 1, 2, 1}},
		"the first call is free":        {[]any{said("x"), look(0, "i7"), look(1, "i9")}, Bounds{1, 0, 1, 0}},
		"stretches":                     {[]any{said("x"), list(0), said("y"), look(1, "i1")}, Bounds{}},
		"one turn":                      {[]any{said("x"), list(0), look(0, "i1")}, Bounds{}},
		"a failure counts structurally": {[]any{said("x"), list(0), called{1, "get_item", `{"id":"i1"}`, `"no"`, true}}, Bounds{1, 0, 0, 0}},
		"another constant":              {[]any{said("x"), list(0), called{1, "get_item", `{"id":"i1","mode":"slow"}`, `{}`, false}}, Bounds{1, 1, 0, 0}},
		"nothing to know": {[]any{said("x"), list(0), called{1, "get_item", `{"id":"i1","mode":"fast","deep":true,"note":"","more":null}`, `{}`, false}},
			Bounds{1, 1, 1, 1}},
		"assembled from parts": {[]any{said("x"), list(0), called{1, "get_item", `{"id":["i2","i1"]}`, `{}`, false}}, Bounds{1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, tr.Bounds(session(t, 4, c.parts...)))
		})
	}
}

func TestBaselineFlows(t *testing.T) {
	tr := training(t)
	s := session(t, 3, said("x"), list(0), look(1, "i1"))
	require.Len(t, tr.AllInputs(), 1, "one sequence is in three sessions")
	assert.Zero(t, score(s, tr.AllInputs()...).Saved, "the caller could not know the item")
	assert.Equal(t, 1, score(session(t, 3, said("i1, fast"), list(0), look(1, "i1")), tr.AllInputs()...).Saved)
	assert.Equal(t, 1, score(s, tr.SequenceOnly(1)...).Saved, "arguments are not looked at")
	assert.Empty(t, tr.SequenceOnly(0))
}

func TestMissed(t *testing.T) {
	tr := training(t)
	s := session(t, 3, said("x"), list(0), look(1, "i1"))
	assert.Equal(t, []Missed{{Tools: []string{"list_items", "get_item"}, Turns: 1}}, NewScorer(nil).Missed(tr, s))
	serving := flow(t, `
type: Flow
name: item
steps:
  - {tool_name: list_items, output_as: all}
  - {tool_name: get_item, input_mapping: {id: /all/items/0, mode: {$const: fast}}, output_as: item}
`)
	assert.Empty(t, NewScorer([]*Flow{serving}).Missed(tr, s))
}

// TestFloor takes flows by what they did: the first element of a list is right twice in three windows.
func TestFloor(t *testing.T) {
	parsed, _, err := flows.ParseFlow([]byte(`
format_version: "1.1"
type: Flow
name: item
version: 1.0.0
description: d
input_schema: {type: object, properties: {id: {type: string}}, additionalProperties: false}
steps:
  - {tool_name: list_items, output_as: all}
  - {tool_name: get_item, input_mapping: {id: /all/items/0, mode: {$const: fast}}, output_as: item}
`))
	require.NoError(t, err)
	f, err := Compile(parsed)
	require.NoError(t, err)
	sc := NewScorer([]*Flow{f})
	for _, id := range []string{"i1", "i1", "i2"} {
		sc.Session(session(t, 2, said("x"), list(0), look(1, id)))
	}
	assert.Equal(t, map[Argument]Rate{{1, "id"}: {2, 3}, {1, "mode"}: {3, 3}}, sc.ByFlow[0].Arguments)
	assert.Equal(t, map[Fault]Loss{{1, "id", Wrong}: {1, 1}}, sc.ByFlow[0].Faults)
	_, ok := Asking(parsed, f, &sc.ByFlow[0], 0.6) // by the rule of succession id is right in 3/5 and mode in 4/5
	assert.False(t, ok, "nothing to ask for")
	asking, ok := Asking(parsed, f, &sc.ByFlow[0], 0.7)
	require.True(t, ok)
	assert.Equal(t, flows.Key("id_2"), asking.Steps[1].InputMapping[0].Value, "id is taken")
	assert.Equal(t, flows.Pointer("/all/items/0"), parsed.Steps[1].InputMapping[0].Value, "the proposal stays as it is")
	text, err := flows.EncodeFlow(asking, flows.FormatYAML)
	require.NoError(t, err)
	again, _, err := flows.ParseFlow(text)
	require.NoError(t, err)
	compiled, err := Compile(again)
	require.NoError(t, err)
	assert.Equal(t, 2, compiled.Inputs)
	assert.Equal(t, 1, score(session(t, 2, said("i2"), list(0), look(1, "i2")), compiled).Saved)
}

func TestFloorTakes(t *testing.T) {
	taken := func(step string, exact, harm int, rates ...Rate) bool {
		f := flow(t, `
type: Flow
name: n
input_schema: {type: object, properties: {id: {}, reboot: {default: null, type: object, properties: {id: {}, mode: {}}}}}
steps:
  - {tool_name: list_items, input_mapping: {id: id}, output_as: a}
  - `+step)
		o := FlowOutcome{Windows: exact + harm, Exact: exact, DestructiveInexact: harm, Arguments: map[Argument]Rate{}}
		for i, r := range rates {
			o.Arguments[Argument{1, string(rune('a' + i))}] = r
		}
		return Floor{MinExact: 0.9}.Takes(f, &o)
	}
	reads := "{tool_name: get_item, input_mapping: {id: /a/items/0}, output_as: b}"
	assert.True(t, taken(reads, 18, 0, Rate{18, 20}, Rate{15, 15}))
	assert.False(t, taken(reads, 17, 0, Rate{17, 20}), "right too rarely")
	assert.False(t, taken(reads, 14, 0, Rate{14, 14}), "fourteen predictions tell little")
	assert.False(t, taken("{tool_name: reboot, input_mapping: {id: /a/items/0}, output_as: b}", 99, 0, Rate{99, 99}), "it derives what it changes")
	assert.False(t, taken("{tool_name: reboot, input_mapping: {id: id}, output_as: b}", 99, 0), "the caller does not say that it wants the change")
	asks := "{tool_name: reboot, guard: reboot != None, input_mapping: {id: /reboot/id, mode: {$optional: /reboot/mode}}, output_as: b}"
	assert.True(t, taken(asks, 1, 0))
	assert.False(t, taken(asks, 99, 1), "it did harm")
	assert.False(t, taken(asks, 19, 0, Rate{19, 19}), "a few windows do not show that what it derives before is right")
	assert.True(t, taken(asks, 20, 0, Rate{20, 20}))
	assert.False(t, taken("{tool_name: reboot, guard: reboot != None, input_mapping: {id: /reboot/id, mode: /a/mode}, output_as: b}", 99, 0), "one argument is not the caller's")

	fixed := flow(t, `
type: Flow
name: n
input_schema: {type: object, properties: {reboot: {default: null, type: object, properties: {id: {}}}}}
steps:
  - {tool_name: list_items, input_mapping: {kind: {$const: open}}, output_as: a}
  - {tool_name: reboot, guard: reboot != None, input_mapping: {id: /reboot/id}, output_as: b}
`)
	assert.False(t, Floor{MinExact: 0.9}.Takes(fixed, &FlowOutcome{Exact: 99}), "the first call is not the caller's")
}

// TestCautious asks for the whole of a change, and for what the first call is given.
func TestCautious(t *testing.T) {
	parsed, _, err := flows.ParseFlow([]byte(`
format_version: "1.1"
type: Flow
name: cancel
version: 1.0.0
description: d
input_schema: {type: object, properties: {email: {type: string}, reason: {type: string, default: null}, unused: {}}, required: [email, unused], additionalProperties: false}
steps:
  - {tool_name: find_user, input_mapping: {email: email, active: {$const: true}}, output_as: user}
  - {tool_name: get_order, input_mapping: {order_id: /user/orders/0}, output_as: order}
  - {tool_name: orders.cancel_order, guard: 'order["open"]', input_mapping: {order_id: /user/orders/0, reason: {$optional: reason}}, output_as: done}
`))
	require.NoError(t, err)
	f, err := Compile(parsed)
	require.NoError(t, err)
	cautious, ok := Cautious(parsed, f)
	require.True(t, ok)
	assert.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["email","active"],"properties":{"email":{"type":"string"},"active":{},
		"cancel_order":{"default":null,"anyOf":[{"type":"object","properties":{"order_id":{},"reason":{"type":"string"}},"required":["order_id"],"additionalProperties":false},{"type":"null"}]}}}`, string(cautious.InputSchema))
	last := cautious.Steps[2]
	assert.Equal(t, "cancel_order != None", last.Guard)
	reason := flows.Pointer("/cancel_order/reason")
	assert.Equal(t, flows.Mapping{{Target: "order_id", Value: flows.Pointer("/cancel_order/order_id")},
		{Target: "reason", Value: flows.MappingValue{Kind: flows.MapOptional, Inner: &reason}}}, last.InputMapping)
	assert.Equal(t, parsed.Steps[1], cautious.Steps[1], "what it reads it still derives")
	compiled, err := Compile(cautious)
	require.NoError(t, err)
	assert.Equal(t, 4, compiled.Inputs)

	parsed.Steps = parsed.Steps[:2]
	f, err = Compile(parsed)
	require.NoError(t, err)
	_, ok = Cautious(parsed, f)
	assert.False(t, ok, "it changes nothing")
}
