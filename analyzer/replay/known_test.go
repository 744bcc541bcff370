package replay

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestKnownBeforeTheTurn: what calls of one turn return, nobody had when the turn was made, whatever their order. Calls
// of a turn are laid out by tool, so a step may come before one that was recorded earlier.
func TestKnownBeforeTheTurn(t *testing.T) {
	f := flow(t, userOrders)
	open := called{turn: 0, tool: "list_open", args: `{}`, result: `{"all":["o1"]}`}
	for name, c := range map[string]struct {
		parts []any
		saved int
	}{
		"a call beside the first has it":           {[]any{said("hello"), called{turn: 0, tool: "count", args: `{}`, result: `["o1"]`}, find(0), order(1, "u1", "o1")}, 0},
		"a call of the turn before has it":         {[]any{said("hello"), open, find(1), order(2, "u1", "o1")}, 1},
		"the user said it before the turn":         {[]any{said("it is o1"), called{turn: 0, tool: "count", args: `{}`, result: `[]`}, find(0), order(1, "u1", "o1")}, 1},
		"a repeat in the turn has it from earlier": {[]any{said("hello"), open, called{turn: 1, tool: "list_open", args: `{}`, result: `{"all":["o1"]}`}, find(1), order(2, "u1", "o1")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.saved, score(session(t, 5, c.parts...), f).Saved)
		})
	}
	t.Run("a later step of the flow has it", func(t *testing.T) {
		f := flow(t, `
type: Flow
name: three
input_schema: {type: object, properties: {email: {type: string}, order: {type: string}}}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: list_open, input_mapping: {mode: {$const: all}}, output_as: open}
  - {tool_name: get_order, input_mapping: {user_id: /user/id, order_id: order}, output_as: order_data}
`)
		all := called{turn: 0, tool: "list_open", args: `{"mode":"all"}`, result: `{"all":["o1"]}`}
		assert.Equal(t, 1, score(session(t, 5, said("order o1"), all, find(0), order(1, "u1", "o1")), f).Saved)
		assert.Zero(t, score(session(t, 5, said("hello"), all, find(0), order(1, "u1", "o1")), f).Saved)
	})
}

// TestUnknownLists: a loop over a list whose first element the caller could not give is a window all the same, which
// counts against the flow; from the second element on the list ends there. What the caller gives is no prediction, what the
// flow makes of it beside that is one.
func TestUnknownLists(t *testing.T) {
	f := flow(t, `
type: Flow
name: cancelled
input_schema: {type: object, properties: {email: {type: string}, orders: {type: array}}}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: cancel_order, for_each: orders, as: one, input_mapping: {user_id: /user/id, order_id: one, same: {$optional: one}}, output_as: all}
`)
	cancel := func(turn int32, id string) called {
		return called{turn, "cancel_order", `{"user_id":"u1","order_id":"` + id + `","same":"` + id + `"}`, `{}`, false}
	}
	for name, c := range map[string]struct {
		text                                                  string
		saved, windows, inexact, predicted, correct, destroys int
	}{
		"both known":   {"o1 and o2", 2, 1, 0, 4, 4, 0},
		"none known":   {"hello", 0, 1, 1, 2, 2, 1},
		"first known":  {"o1", 1, 1, 0, 2, 2, 0},
		"second known": {"o2", 0, 1, 1, 2, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := score(session(t, 5, said(c.text), find(0), cancel(1, "o1"), cancel(2, "o2")), f)
			assert.Equal(t, []int{c.saved, c.windows, c.inexact, c.destroys}, []int{o.Saved, o.Windows, o.InexactWindows, o.DestructiveInexact})
			assert.Equal(t, []int{c.predicted, c.correct}, []int{o.Predicted, o.Correct})
		})
	}
}
