package replay

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInputsThatCallersLeaveOut: who cannot know a value leaves it out, and the flow hands back before the step.
func TestInputsThatCallersLeaveOut(t *testing.T) {
	f := flow(t, withheld)
	cancel := called{2, "cancel_order", `{"order_id":"o2"}`, `{}`, false}
	o := score(session(t, 3, said("cancel o2"), find(0), order(1, "u1", "o1"), cancel), f)
	assert.Equal(t, []int{2, 3, 2, 2, 0}, []int{o.Saved, o.Covered, o.Predicted, o.Correct, o.InexactWindows}, "a given value is no prediction")
	s := session(t, 3, said("cancel one"), find(0), order(1, "u1", "o1"), cancel)
	m := f.at(s, s.stretches[0], 0)
	require.NotNil(t, m)
	assert.True(t, m.Fits() && m.HandedBack)
	assert.Equal(t, []int{2, 1, 0}, []int{m.Calls, m.Saved, m.Effects})
	assert.Equal(t, map[string]any{"email": "a@b.c", "order": nil}, m.Inputs)
	o = score(session(t, 2, said("cancel o2"), find(0), order(1, "u1", "o1")), f)
	assert.Equal(t, []int{1, 2, 1}, []int{o.Saved, o.Covered, o.Windows}, "who does not want the third call leaves it out, though o2 is known")
	o = score(session(t, 3, said("cancel o2"), find(0), order(1, "u2", "o1"), called{2, "think", `{}`, `{}`, false}), f)
	assert.Equal(t, []int{0, 1, 1}, []int{o.Saved, o.Predicted - o.Correct, o.InexactWindows}, "it is measured likewise where the flow is wrong")

	t.Run("a run that would hand back at once is none", func(t *testing.T) {
		f := flow(t, `
type: Flow
name: at_once
input_schema: {type: object, properties: {email: {type: string}, order: {default: null}}}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: cancel_order, guard: order != None, input_mapping: {order_id: order}, output_as: done}
`)
		o := score(session(t, 2, said("cancel one"), find(0), called{1, "cancel_order", `{"order_id":"o2"}`, `{}`, false}), f)
		assert.Equal(t, []int{0, 0, 0, 0}, []int{o.Saved, o.Windows, o.DestructiveInexact, o.Triggered})
	})
	t.Run("a run without a required input is refused", func(t *testing.T) {
		f := flow(t, `
type: Flow
name: refused
input_schema: {type: object, properties: {email: {type: string}, order: {}}, required: [order]}
steps:
  - {tool_name: note_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: cancel_order, input_mapping: {order_id: order}, output_as: done}
`)
		note := called{0, "note_user", `{"email":"a@b.c"}`, `{}`, false}
		o := score(session(t, 2, said("x"), note, called{1, "cancel_order", `{}`, `{}`, false}), f)
		assert.Equal(t, []int{0, 1, 0}, []int{o.Saved, o.InexactWindows, o.DestructiveInexact})
		o = score(session(t, 2, said("x"), note, called{1, "cancel_order", `{"order_id":"o9"}`, `{}`, false}), f)
		assert.Equal(t, []int{0, 1, 2}, []int{o.Saved, o.InexactWindows, o.DestructiveInexact}, "the caller could not know o9")
	})
}

// TestHandedBackWithoutRequired: a required input that the run ends before is nothing that the recording shows to be known.
func TestHandedBackWithoutRequired(t *testing.T) {
	f := flow(t, `
type: Flow
name: with_reason
input_schema: {type: object, properties: {email: {type: string}, order: {default: null}, reason: {type: string}}, required: [email, reason]}
steps:
  - {tool_name: note_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: get_order, input_mapping: {user_id: /user/id, order_id: /user/orders/0}, output_as: data}
  - {tool_name: cancel_order, guard: order != None, input_mapping: {order_id: order, reason: reason}, output_as: done}
`)
	note := find(0)
	note.tool = "note_user"
	cancel := called{2, "cancel_order", `{"order_id":"o2","reason":"late"}`, `{}`, false}
	text := said("cancel o2, it is late")
	assert.Equal(t, 2, score(session(t, 3, text, note, order(1, "u1", "o1"), cancel), f).Saved)
	s := session(t, 3, text, note, order(1, "u1", "o1"))
	o := score(s, f)
	assert.Equal(t, []int{0, 1, 1, 0}, []int{o.Saved, o.InexactWindows, o.UnknownInputWindows, o.DestructiveInexact}, "the run is refused")
	assert.Equal(t, []Fault{{2, "reason", Unknown}}, f.at(s, s.stretches[0], 0).Faults())
}

// TestGuardBesideOtherSteps: an input that decides on a later step is told when that step has its call, whatever comes
// before, and the way through parallel steps that saves most counts.
func TestGuardBesideOtherSteps(t *testing.T) {
	f := flow(t, `
type: DAGFlow
name: beside
input_schema: {type: object, properties: {a: {type: string}, b: {type: string}, item: {default: null, type: [string, "null"]}}, required: [a, b]}
steps:
  - {step_id: one, tool_name: get_order, input_mapping: {order_id: a}, output_as: one}
  - {step_id: two, tool_name: get_order, input_mapping: {order_id: b}, output_as: two}
  - {step_id: thing, tool_name: get_item, depends_on: [two], guard: item != None, output_as: thing,
     input_mapping: {id: {$expr: 'two.items.filter(e, e.name == item)[0].id'}}}
`)
	get := func(turn int32, id, name string) called {
		return called{turn, "get_order", `{"order_id":"` + id + `"}`, `{"items":[{"name":"` + name + `","id":"i-` + name + `"}]}`, false}
	}
	item := func(turn int32, name string) called {
		return called{turn, "get_item", `{"id":"i-` + name + `"}`, `{}`, false}
	}
	text := said("o1 and o2: the cup and the pan")
	for name, c := range map[string]struct {
		calls          []any
		saved, covered int
	}{
		"the second order's item": {[]any{get(0, "o1", "cup"), get(1, "o2", "pan"), item(2, "pan")}, 2, 3},
		"the first order's item":  {[]any{get(0, "o1", "cup"), get(1, "o2", "pan"), item(2, "cup")}, 2, 3},
		"between the orders":      {[]any{get(0, "o1", "cup"), item(1, "cup"), get(2, "o2", "pan")}, 2, 3},
		"no item":                 {[]any{get(0, "o1", "cup"), get(1, "o2", "pan")}, 1, 2},
		"an item of neither":      {[]any{get(0, "o1", "cup"), get(1, "o2", "pan"), item(2, "pot")}, 1, 2},
	} {
		o := score(session(t, 3, append([]any{text}, c.calls...)...), f)
		assert.Equal(t, []int{c.saved, c.covered}, []int{o.Saved, o.Covered}, name)
	}
}

// TestGivenOrFound: an expression takes what the caller gives, else its own source.
func TestGivenOrFound(t *testing.T) {
	f := flow(t, `
type: Flow
name: given_or_found
input_schema: {type: object, properties: {email: {type: string}, order: {default: null}}}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: get_order, input_mapping: {user_id: /user/id, order_id: {$expr: "order != null ? order : user.orders[0]"}}, output_as: data}
`)
	for name, c := range map[string]struct {
		text, order               string
		saved, predicted, correct int
		input                     any
	}{
		"found":                    {"hello", "o1", 1, 2, 2, nil},
		"given":                    {"order o2", "o2", 1, 1, 1, "o2"},
		"given in vain":            {"order o1", "o1", 1, 2, 2, nil},
		"found wrongly":            {"hello", "o2", 0, 2, 1, nil},
		"the caller says another":  {"order o2", "o3", 0, 2, 1, nil},
		"neither, yet it is there": {"order o3", "o3", 1, 1, 1, "o3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := session(t, 2, said(c.text), find(0), order(1, "u1", c.order))
			o := score(s, f)
			assert.Equal(t, [3]int{c.saved, c.predicted, c.correct}, [3]int{o.Saved, o.Predicted, o.Correct})
			m := f.at(s, s.stretches[0], 0)
			require.NotNil(t, m)
			assert.Equal(t, c.input, m.Inputs["order"])
		})
	}
}

func TestGuardHandsBack(t *testing.T) {
	f := flow(t, `
type: Flow
name: guarded
input_schema: {type: object, properties: {email: {type: string}}}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: get_order, input_mapping: {user_id: /user/id, order_id: /user/orders/0}, output_as: order}
  - {tool_name: cancel_order, guard: 'order["status"] == "open"', input_mapping: {order_id: /user/orders/0}, output_as: done}
`)
	cancel := called{2, "cancel_order", `{"order_id":"o1"}`, `{}`, false}
	closed := called{1, "get_order", `{"user_id":"u1","order_id":"o1"}`, `{"status":"closed"}`, false}
	assert.Equal(t, 2, score(session(t, 3, said("a@b.c"), find(0), order(1, "u1", "o1"), cancel), f).Saved)
	s := session(t, 3, said("a@b.c"), find(0), closed, cancel)
	m := f.at(s, s.stretches[0], 0)
	require.NotNil(t, m)
	assert.True(t, m.HandedBack)
	assert.Equal(t, []int{2, 1, 0}, []int{m.Calls, m.Saved, m.Effects})
	assert.True(t, m.Fits())
	assert.Zero(t, score(session(t, 2, said("a@b.c"), find(0), order(1, "u1", "o1")), f).Saved, "the guard holds, so the flow would go on")
}

func TestDestructiveInInexact(t *testing.T) {
	f := flow(t, `
type: Flow
name: cancel_first
input_schema: {type: object, properties: {email: {type: string}}}
steps:
  - {tool_name: find_user, input_mapping: {email: email}, output_as: user}
  - {tool_name: cancel_order, for_each: /user/orders, as: id, input_mapping: {order_id: id}, output_as: done}
`)
	cancel := func(turn int32, id string) called {
		return called{turn, "cancel_order", `{"order_id":"` + id + `"}`, `{}`, false}
	}
	assert.Equal(t, 0, score(session(t, 3, said("a@b.c"), find(0), cancel(1, "o1"), cancel(2, "o2")), f).DestructiveInexact)
	o := score(session(t, 2, said("a@b.c"), find(0), cancel(1, "o1")), f)
	assert.Equal(t, []int{2, 1}, []int{o.DestructiveInexact, o.Extra}, "it would have cancelled both")
	assert.Equal(t, 2, score(session(t, 3, said("a@b.c"), find(0), cancel(1, "o2"), cancel(2, "o1")), f).DestructiveInexact)

	t.Run("a first call that the flow does not take", func(t *testing.T) {
		strict := find(0)
		strict.args = `{"email":"a@b.c","strict":true}`
		o := score(session(t, 3, said("a@b.c"), strict, cancel(1, "o2"), cancel(2, "o1")), f)
		assert.Equal(t, []int{1, 0}, []int{o.InexactWindows, o.DestructiveInexact}, "the input schema refuses the run")
	})
	t.Run("a later call that has more than the flow passes", func(t *testing.T) {
		more := called{1, "cancel_order", `{"order_id":"o1","notify":true}`, `{}`, false}
		o := score(session(t, 3, said("a@b.c"), find(0), more, cancel(2, "o2")), f)
		assert.Equal(t, []int{1, 2}, []int{o.InexactWindows, o.DestructiveInexact})
	})
}
