package replay

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// set is a call that changes something.
func set(turn int32, args string) called { return called{turn, "set_item", args, `{}`, false} }

// TestGiven lays a flow whose caller gives a later call as an object over sessions.
func TestGiven(t *testing.T) {
	f := flow(t, `
type: Flow
name: given
input_schema: {type: object, additionalProperties: false, properties: {set_item: {default: null, anyOf: [
  {type: object, properties: {id: {}, mode: {}}, required: [id], additionalProperties: false}, {type: "null"}]}}}
steps:
  - {tool_name: list_items, output_as: all}
  - {tool_name: set_item, guard: set_item != None, input_mapping: {id: /set_item/id, mode: {$optional: /set_item/mode}}, output_as: done}
`)
	assert.Equal(t, 2, f.Inputs)

	o := score(session(t, 3, said("set i7"), list(0), set(1, `{"id":"i7"}`)), f)
	assert.Equal(t, []int{1, 2, 1, 0, 0}, []int{o.Saved, o.Covered, o.Windows, o.Predicted, o.DestructiveInexact}, "nothing is predicted")
	s := session(t, 3, said("set i7 slow"), list(0), set(1, `{"id":"i7","mode":"slow"}`))
	m := f.at(s, s.stretches[0], 0)
	require.NotNil(t, m)
	assert.Equal(t, map[string]any{"set_item": map[string]any{"id": "i7", "mode": "slow"}}, m.Inputs)

	for name, last := range map[string]called{
		"what the caller cannot know is not given":           set(1, `{"id":"i9"}`),
		"nor a call of which a part cannot be known":         set(1, `{"id":"i7","mode":"odd"}`),
		"nor one with an argument that the flow has not":     set(1, `{"id":"i7","force":true}`),
		"nor one without an argument that the flow asks for": set(1, `{"mode":"slow"}`),
	} {
		o := score(session(t, 3, said("set i7 slow"), list(0), last), f)
		assert.Equal(t, []int{0, 0, 0}, []int{o.Saved, o.Windows, o.DestructiveInexact}, name)
	}
}

// TestGivenLists: a tool that is called several times in a row takes a list of calls, and a run ends where the caller
// gives no more.
func TestGivenLists(t *testing.T) {
	f := flow(t, `
type: Flow
name: lists
input_schema: {type: object, properties: {sets: {default: null, anyOf: [{type: array, items: {type: object, properties: {id: {}}, required: [id]}}, {type: "null"}]}}}
steps:
  - {tool_name: list_items, output_as: all}
  - {tool_name: set_item, guard: sets != None, for_each: sets, as: one, input_mapping: {id: /one/id}, output_as: done}
`)
	assert.Equal(t, 1, f.Inputs)

	text := said("set i5, i6 and i7")
	three := session(t, 5, text, list(0), set(1, `{"id":"i5"}`), set(2, `{"id":"i6"}`), set(3, `{"id":"i7"}`))
	o := score(three, f)
	assert.Equal(t, []int{3, 4, 0, 0}, []int{o.Saved, o.Covered, o.Predicted, o.InexactWindows})
	broken := set(3, `{"id":"i7"}`)
	broken.failed = true
	o = score(session(t, 5, text, list(0), set(1, `{"id":"i5"}`), set(2, `{"id":"i6"}`), broken), f)
	assert.Equal(t, []int{2, 3, 0}, []int{o.Saved, o.Covered, o.InexactWindows}, "the list ends before the call that failed")
	m := f.at(three, three.stretches[0], 0)
	require.NotNil(t, m)
	assert.Equal(t, map[string]any{"sets": []any{map[string]any{"id": "i5"}, map[string]any{"id": "i6"}, map[string]any{"id": "i7"}}}, m.Inputs)
	o = score(session(t, 5, text, list(0), set(1, `{"id":"i5"}`), set(2, `{"id":"i9"}`), set(3, `{"id":"i7"}`)), f)
	assert.Equal(t, []int{1, 2, 0}, []int{o.Saved, o.Covered, o.DestructiveInexact}, "the second could not be known")
	o = score(session(t, 3, text, list(0), called{1, "other_tool", `{}`, `{}`, false}), f)
	assert.Zero(t, o.Windows, "the caller had another call in mind: a flow that would hand back at once")

	alone := flow(t, `
type: Flow
name: alone
input_schema: {type: object, required: [sets], properties: {sets: {type: array, items: {type: object, properties: {id: {}}, required: [id]}}}}
steps:
  - {tool_name: set_item, for_each: sets, as: one, input_mapping: {id: /one/id}, output_as: done}
`)
	o = score(session(t, 5, text, set(0, `{"id":"i9"}`), set(1, `{"id":"i6"}`), set(2, `{"id":"i8"}`)), alone)
	assert.Equal(t, []int{1, 2}, []int{o.Saved, o.Covered}, "the first call is the caller's, i6 is written, i8 is not")
	assert.Equal(t, 1, o.Windows, "from the second call the list is i6 alone, for which nobody calls a flow; from the third i8 alone")
}

// TestGivenHandsBackBetween: the agent goes on with another call than the flow's third, so its caller gave none.
func TestGivenHandsBackBetween(t *testing.T) {
	f := flow(t, `
type: Flow
name: three
input_schema: {type: object, properties: {set_item: {default: null, type: object, properties: {id: {}}}, get_item: {default: null, type: object, properties: {id: {}}}}}
steps:
  - {tool_name: list_items, output_as: all}
  - {tool_name: set_item, guard: set_item != None, input_mapping: {id: /set_item/id}, output_as: done}
  - {tool_name: get_item, guard: get_item != None, input_mapping: {id: /get_item/id}, output_as: item}
`)
	text := said("i1")
	o := score(session(t, 4, text, list(0), set(1, `{"id":"i1"}`), called{2, "other_tool", `{}`, `{}`, false}), f)
	assert.Equal(t, []int{1, 2, 0}, []int{o.Saved, o.Covered, o.DestructiveInexact})
	o = score(session(t, 4, text, list(0), set(1, `{"id":"i1"}`), called{2, "get_item", `{"id":"i1"}`, `{}`, false}), f)
	assert.Equal(t, []int{2, 3}, []int{o.Saved, o.Covered})
}

// TestGivenNothing: a call without arguments is given as an empty object. Its mapping names an argument that is never there.
func TestGivenNothing(t *testing.T) {
	f := flow(t, `
type: Flow
name: nothing
input_schema: {type: object, properties: {ping_call: {default: null, anyOf: [{type: object, properties: {}, additionalProperties: false}, {type: "null"}]}}}
steps:
  - {tool_name: list_items, output_as: all}
  - {tool_name: get_ping, guard: ping_call != None, input_mapping: {flag: {$optional: pong}}, output_as: pong}
`)
	s := session(t, 3, said("go"), list(0), called{1, "get_ping", `{}`, `{}`, false})
	o := score(s, f)
	assert.Equal(t, []int{1, 2, 0, 0}, []int{o.Saved, o.Covered, o.Predicted, o.InexactWindows})
	m := f.at(s, s.stretches[0], 0)
	require.NotNil(t, m)
	assert.Equal(t, map[string]any{"ping_call": map[string]any{}}, m.Inputs)
	o = score(session(t, 3, said("go"), list(0), called{1, "get_ping", `{"flag":"x"}`, `{}`, false}), f)
	assert.Equal(t, []int{0, 0, 0}, []int{o.Saved, o.Windows, o.InexactWindows}, "it has no place for the flag")
}
