package replay

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
)

// set is a call that changes something.
func set(turn int32, args string) called { return called{turn, "set_item", args, `{}`, false} }

func givenFlow(t *testing.T, sessions ...*Session) (*flows.Flow, *Flow) {
	t.Helper()
	all := Given(sessions)
	require.Len(t, all, 1)
	text, err := flows.EncodeFlow(all[0], flows.FormatYAML)
	require.NoError(t, err)
	parsed, _, err := flows.ParseFlow(text)
	require.NoError(t, err)
	f, err := Compile(parsed)
	require.NoError(t, err)
	return parsed, f
}

// TestGiven makes a flow of calls that three sessions have in a row, and lays it over others.
func TestGiven(t *testing.T) {
	var sessions []*Session
	for i := range 3 {
		args := fmt.Sprintf(`{"id":"i%d"}`, i)
		if i == 0 {
			args = `{"id":"i0","mode":"slow"}`
		}
		sessions = append(sessions, session(t, 3, said("all"), list(0), set(1, args), called{2, "failing", `{}`, `{}`, true}))
	}
	assert.Empty(t, Given(sessions[:2]))
	parsed, f := givenFlow(t, sessions...)
	assert.JSONEq(t, `{"type":"object","additionalProperties":false,"properties":{
		"set_item":{"default":null,"anyOf":[{"type":"object","properties":{"id":{},"mode":{}},"required":["id"],"additionalProperties":false},{"type":"null"}]}}}`, string(parsed.InputSchema))
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
	var sessions []*Session
	for range 3 {
		sessions = append(sessions, session(t, 4, said("all"), list(0), set(1, `{"id":"i1"}`), set(2, `{"id":"i2"}`)))
	}
	all := Given(sessions)
	require.Len(t, all, 2, "from the list on, and from the first change on")
	f, err := Compile(all[0])
	require.NoError(t, err)
	assert.Equal(t, "list_items_then_set_item_given", all[0].Name)
	assert.Equal(t, 1, f.Inputs)

	text := said("set i5, i6 and i7")
	three := session(t, 5, text, list(0), set(1, `{"id":"i5"}`), set(2, `{"id":"i6"}`), set(3, `{"id":"i7"}`))
	o := score(three, f)
	assert.Equal(t, []int{3, 4, 0, 0}, []int{o.Saved, o.Covered, o.Predicted, o.InexactWindows})
	m := f.at(three, three.stretches[0], 0)
	require.NotNil(t, m)
	assert.Equal(t, map[string]any{"set_item": []any{map[string]any{"id": "i5"}, map[string]any{"id": "i6"}, map[string]any{"id": "i7"}}}, m.Inputs)
	o = score(session(t, 5, text, list(0), set(1, `{"id":"i5"}`), set(2, `{"id":"i9"}`), set(3, `{"id":"i7"}`)), f)
	assert.Equal(t, []int{1, 2, 0}, []int{o.Saved, o.Covered, o.DestructiveInexact}, "the second could not be known")
	o = score(session(t, 3, text, list(0), called{1, "other_tool", `{}`, `{}`, false}), f)
	assert.Zero(t, o.Windows, "the caller had another call in mind: a flow that would hand back at once")

	alone, err := Compile(all[1])
	require.NoError(t, err)
	o = score(session(t, 5, text, set(0, `{"id":"i9"}`), set(1, `{"id":"i6"}`), set(2, `{"id":"i8"}`)), alone)
	assert.Equal(t, []int{1, 2}, []int{o.Saved, o.Covered}, "the first call is the caller's, i6 is written, i8 is not")
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
