package replay

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// TestRates counts what a flow does: the first element of a list is right twice in three windows.
func TestRates(t *testing.T) {
	f := flow(t, `
type: Flow
name: item
input_schema: {type: object, properties: {id: {type: string}}, additionalProperties: false}
steps:
  - {tool_name: list_items, output_as: all}
  - {tool_name: get_item, input_mapping: {id: /all/items/0, mode: {$const: fast}}, output_as: item}
`)
	sc := NewScorer([]*Flow{f})
	for _, id := range []string{"i1", "i1", "i2"} {
		sc.Session(session(t, 2, said("x"), list(0), look(1, id)))
	}
	assert.Equal(t, map[Argument]Rate{{1, "id"}: {2, 3}, {1, "mode"}: {3, 3}}, sc.ByFlow[0].Arguments)
	assert.Equal(t, map[Fault]Loss{{1, "id", Wrong}: {1, 1}}, sc.ByFlow[0].Faults)
}

func TestFloorTakes(t *testing.T) {
	taken := func(step string, harm int, rates ...Rate) bool {
		f := flow(t, `
type: Flow
name: n
input_schema: {type: object, properties: {id: {}, reboot: {default: null, anyOf: [{type: object, properties: {id: {}, mode: {}}}, {type: "null"}]}}}
steps:
  - {tool_name: list_items, input_mapping: {id: id}, output_as: a}
  - `+step)
		o := FlowOutcome{DestructiveInexact: harm, Arguments: map[Argument]Rate{}}
		for i, r := range rates {
			o.Arguments[Argument{1, string(rune('a' + i))}] = r
		}
		assert.True(t, Floor{}.Takes(f, &o), "without a floor everything passes")
		return Floor{MinExact: 0.9}.Takes(f, &o)
	}
	reads := "{tool_name: get_item, input_mapping: {id: /a/items/0}, output_as: b}"
	assert.True(t, taken(reads, 0, Rate{18, 20}, Rate{15, 15}))
	assert.False(t, taken(reads, 0, Rate{17, 20}), "right too rarely")
	assert.False(t, taken(reads, 0, Rate{14, 14}), "fourteen predictions tell little")
	assert.False(t, taken("{tool_name: reboot, input_mapping: {id: /a/items/0}, output_as: b}", 0, Rate{99, 99}), "it derives what it changes")
	assert.False(t, taken("{tool_name: reboot, input_mapping: {id: id}, output_as: b}", 0), "the caller does not say that it wants the change")
	asks := "{tool_name: reboot, guard: reboot != None, input_mapping: {id: /reboot/id, mode: {$optional: /reboot/mode}}, output_as: b}"
	assert.True(t, taken(asks, 0))
	assert.False(t, taken(asks, 1), "it did harm")
	assert.False(t, taken("{tool_name: reboot, guard: reboot != None, input_mapping: {id: /reboot/id, mode: /a/mode}, output_as: b}", 0), "one argument is not the caller's")

	alone := flow(t, `
type: Flow
name: n
input_schema: {type: object, properties: {reboot: {default: null, type: object, properties: {id: {}}}}}
steps:
  - {tool_name: list_items, input_mapping: {no_arguments: {$optional: a}}, output_as: a}
  - {tool_name: reboot, guard: reboot != None, input_mapping: {id: /reboot/id}, output_as: b}
`)
	assert.True(t, Floor{MinExact: 0.9}.Takes(alone, &FlowOutcome{}), "the first call has no arguments")

	fixed := flow(t, `
type: Flow
name: n
input_schema: {type: object, properties: {reboot: {default: null, type: object, properties: {id: {}}}}}
steps:
  - {tool_name: list_items, input_mapping: {kind: {$const: open}}, output_as: a}
  - {tool_name: reboot, guard: reboot != None, input_mapping: {id: /reboot/id}, output_as: b}
`)
	assert.False(t, Floor{MinExact: 0.9}.Takes(fixed, &FlowOutcome{}), "the first call is not the caller's")
}
