package observer

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

func batchesOf(r *Result) []Pattern {
	return slices.DeleteFunc(slices.Clone(r.Patterns), func(p Pattern) bool { return p.Batch == nil })
}

func (r *Result) batch(t *testing.T, tools string) *Pattern {
	t.Helper()
	for i := range r.Patterns {
		if p := &r.Patterns[i]; p.Batch != nil && arrow(p.Tools) == tools {
			return p
		}
	}
	require.Fail(t, "no batch of "+tools)
	return nil
}

// noting is a session whose user names what is to be booked, by how many calls; then a note is left that the user worded
// in every third session only.
func noting(i int) ingest.Session {
	text, steps := j("room r-%d please", i), []step{{tool: "room.find", args: j(`{"room":"r-%d"}`, i), result: j(`{"free":%d}`, i)}}
	for k := range 1 + i%3 {
		text += j(", day d-%d-%d", i, k)
		args := j(`{"day":"d-%d-%d"}`, i, k)
		if k == 0 {
			args = j(`{"day":"d-%d-%d","loud":true}`, i, k)
		}
		steps = append(steps, step{tool: "room.book", args: args, result: `{"ok":true}`})
	}
	note := j("n-%d", i)
	if i%3 == 0 {
		text += " and say " + note
	}
	return talk(id(i), text, append(steps, step{tool: "note", args: j(`{"text":%q}`, note), result: `{}`})...)
}

// TestBatch: callers know the bookings, but not always the note.
func TestBatch(t *testing.T) {
	r := mine(t, Options{}, many(30, noting)...)
	p := r.batch(t, "room.find > room.book > note")
	require.Equal(t, []int{30, 30}, []int{p.Occurrences, p.Sessions})
	require.Equal(t, Batch{Examined: 30, Several: 30, Whole: 10, Supporting: []string{"s000", "s003", "s006"}}, *p.Batch)
	require.Equal(t, (10*1+10*2+10*3+10*1)/30.0, p.TurnsSaved, "a model call for each booking, and ten notes")
	require.Equal(t, []int{30, 30, 30}, []int{p.DataFlow.Sampled, p.DataFlow.Explained, p.DataFlow.Applicable})

	require.Equal(t, []Input{
		{Name: "room", Step: 0, Arg: "room", Origin: "first step", Required: true},
		{Name: "book_calls", Step: 1, List: true, Calls: true, Origin: "whole calls"},
		{Name: "note_call", Step: 2, Calls: true, Origin: "whole calls"},
	}, p.DataFlow.Inputs)
	find, book, note := p.DataFlow.Steps[0], p.DataFlow.Steps[1], p.DataFlow.Steps[2]
	require.Nil(t, find.Each)
	require.Equal(t, []any{SourceInput, "room", "", 1.0}, []any{find.Args[0].Kind, find.Args[0].Input, find.Args[0].Pointer, find.Args[0].Presence})
	require.Equal(t, []any{SourceInput, "book_calls"}, []any{book.Each.Kind, book.Each.Input})
	require.Len(t, book.Args, 2)
	require.Equal(t, []any{"day", SourceElement, "/day", 1.0}, []any{book.Args[0].Arg, book.Args[0].Kind, book.Args[0].Pointer, book.Args[0].Presence})
	require.Equal(t, []any{"loud", SourceElement, "/loud", 0.5}, []any{book.Args[1].Arg, book.Args[1].Kind, book.Args[1].Pointer, book.Args[1].Presence}, "30 of 60 calls")
	require.Equal(t, []int{30, 30, 60}, []int{book.Args[0].Evidence.Present, book.Args[0].Evidence.Held, book.Args[0].Evidence.Distinct})
	require.Equal(t, []any{SourceInput, "note_call", "/text"}, []any{note.Args[0].Kind, note.Args[0].Input, note.Args[0].Pointer})
	require.Equal(t, []int{30, 10, 30}, []int{note.Args[0].Evidence.Present, note.Args[0].Evidence.Held, note.Args[0].Evidence.Distinct})
	require.Equal(t, []string{"s001", "s002", "s004"}, note.Args[0].Evidence.Contradicting)

	require.Equal(t, Occurrence{SessionID: "s003", Calls: []int{0, 1, 2}, Sizes: []int{1, 1, 1}}, *r.batchExample(p, "s003"))
	require.Equal(t, Occurrence{SessionID: "s005", Calls: []int{0, 1, 2, 3}, Sizes: []int{1, 3, 0}}, *r.batchExample(p, "s005"), "without the note")
}

func (r *Result) batchExample(p *Pattern, session string) *Occurrence { return r.example(p, session) }

// TestBatchComesAfter: what a flow serves that takes its own values needs no batch.
func TestBatchComesAfter(t *testing.T) {
	r := mine(t, Options{}, many(30, func(i int) ingest.Session { return looped(i, 1+i%4, 1+i%4, false) })...)
	require.False(t, r.pattern("account > order").Secondary)
	require.Empty(t, batchesOf(r))
}

// TestBatchOfPlainCalls: two calls whose values the user gives, among others that follow each other by chance.
func TestBatchOfPlainCalls(t *testing.T) {
	user := func(i int) step { return step{tool: "user", args: j(`{"id":"u-%d"}`, i), result: `{}`} }
	address := func(i int) step { return step{tool: "address", args: j(`{"at":"a-%d"}`, i), result: `{}`} }
	sessions := func(known bool) []ingest.Session {
		return many(300, func(i int) ingest.Session {
			bill, note := step{tool: "bill", args: `{}`, result: `{}`}, step{tool: "note", args: `{}`, result: `{}`}
			switch text := "hello"; i % 5 {
			case 0:
				return talk(id(i), text, user(i), bill, note)
			case 1:
				return talk(id(i), text, note, address(i), bill)
			case 2:
				return talk(id(i), text, bill, user(i), note)
			default:
				if known {
					text = j("move u-%d to a-%d", i, i)
				}
				return talk(id(i), text, user(i), address(i))
			}
		})
	}
	r := mine(t, Options{}, sessions(true)...)
	p := r.batch(t, "user > address")
	require.False(t, p.Secondary, p.Why)
	require.Equal(t, []int{120, 120}, []int{p.Occurrences, p.Sessions})
	require.Equal(t, 120.0, p.Score)
	require.Equal(t, []Input{{Name: "id", Arg: "id", Origin: "first step", Required: true}, {Name: "address_call", Step: 1, Calls: true, Origin: "whole calls"}}, p.DataFlow.Inputs)

	r = mine(t, Options{}, sessions(false)...)
	require.False(t, slices.ContainsFunc(batchesOf(r), func(p Pattern) bool { return arrow(p.Tools) == "user > address" }), "it would save nothing")
}

func TestBatchInputNames(t *testing.T) {
	taken := map[string]bool{}
	require.Equal(t, "get_item_call", inputName(taken, "shop.get_item", "_call"))
	require.Equal(t, "get_item_call_2", inputName(taken, "other.get_item", "_call"))
	require.Equal(t, "_3d_print_calls", inputName(taken, "3d-print", "_calls"), "predicates can name it")
	require.Equal(t, "id", inputName(taken, "id", ""))
	require.Equal(t, "id_2", inputName(taken, "id", ""))
	require.Equal(t, "value", inputName(taken, "at/", ""))
}
