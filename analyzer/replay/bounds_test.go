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
	takes := func(minExact float64) bool { return Floor{MinExact: minExact}.Takes(f, &sc.ByFlow[0]) }
	// By the rule of succession id is right in 3/5 and mode in 4/5.
	assert.True(t, takes(0))
	assert.True(t, takes(0.6))
	assert.False(t, takes(0.7))
	_, ok := Asking(parsed, f, &sc.ByFlow[0], 0.6)
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

func TestFloorAsksFlowsWithSideEffectsForClean(t *testing.T) {
	bare := func(mapping string) (*flows.Flow, *Flow) {
		parsed, _, err := flows.ParseFlow([]byte("{\"format_version\": \"1.1\", \"type\": \"Flow\", \"name\": \"n\", \"version\": \"1.0.0\", \"description\": \"d\"," +
			"\"input_schema\": {\"type\": \"object\", \"properties\": {\"id\": {}}}," +
			"\"steps\": [{\"tool_name\": \"list_items\", \"output_as\": \"a\"}, {\"tool_name\": \"reboot\", \"output_as\": \"b\"" + mapping + "}]}"))
		require.NoError(t, err)
		f, err := Compile(parsed)
		require.NoError(t, err)
		return parsed, f
	}
	taken := func(mapping string, exact, harm int) bool {
		_, f := bare(mapping)
		o := FlowOutcome{Windows: exact + harm, Exact: exact, DestructiveInexact: harm}
		return Floor{MinClean: Clean{Plain: 3, Derived: 10, Options: 20}}.Takes(f, &o)
	}
	assert.True(t, taken("", 3, 0), "nothing to get wrong")
	assert.False(t, taken("", 2, 0))
	assert.False(t, taken("", 29, 1))
	withArgument := `, "input_mapping": {"id": "/a/items/0"}`
	assert.False(t, taken(withArgument, 9, 0))
	assert.True(t, taken(withArgument, 10, 0))
	withInput := `, "input_mapping": {"id": "id"}`
	assert.True(t, taken(withInput, 3, 0), "a run without it is refused")
	withOption := `, "input_mapping": {"id": {"$optional": "id"}}`
	assert.False(t, taken(withOption, 19, 0))
	assert.True(t, taken(withOption, 20, 0))
}
