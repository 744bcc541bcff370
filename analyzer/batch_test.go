package analyzer

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/observer"
)

var (
	findRoom = tool("room.find", object("room"), object("free"), flows.EffectRead)
	bookRoom = tool("room.book", object("day", "loud:boolean?"), object("ok:boolean"), flows.EffectWrite)
	ping     = tool("ping", object("flag?"), object("pong"), flows.EffectRead)
	leave    = tool("note", object("text", "to"), object("id"), flows.EffectWrite)
)

// booking is a batch of a look, some bookings, a call without arguments, and a note.
func booking() observer.Pattern {
	input := observer.SourceInput
	return observer.Pattern{
		Tools: []string{"room.find", "room.book", "ping", "note"}, Occurrences: 40, Sessions: 30, SuccessLower: 0.9, Success: 1, TurnsSaved: 2, Score: 36,
		Batch: &observer.Batch{Examined: 20, Several: 15, Whole: 5},
		DataFlow: &observer.DataFlow{Sampled: 20, Explained: 20, Applicable: 15,
			Steps: []observer.StepFlow{
				{Args: []observer.ArgFlow{{Arg: "room", Presence: 1, Kind: input, Input: "room"}}},
				{Each: &observer.EachFlow{Kind: input, Input: "book_calls"}, Args: []observer.ArgFlow{
					{Arg: "day", Presence: 1, Kind: observer.SourceElement, Pointer: "/day"},
					{Arg: "loud", Presence: 0.4, Kind: observer.SourceElement, Pointer: "/loud"}}},
				{},
				{Args: []observer.ArgFlow{{Arg: "text", Presence: 1, Kind: input, Input: "note_call", Pointer: "/text"},
					{Arg: "odd", Presence: 0.2, Kind: input, Input: "note_call", Pointer: "/odd"}}},
			},
			Inputs: []observer.Input{{Name: "room", Arg: "room", Required: true}, {Name: "book_calls", Step: 1, List: true, Calls: true},
				{Name: "ping_call", Step: 2, Calls: true}, {Name: "note_call", Step: 3, Calls: true}}},
	}
}

func TestBatchDraft(t *testing.T) {
	closed := *leave
	closed.InputSchema = flows.RawSchema(`{"type":"object","properties":{"text":{"type":"string"},"to":{"type":"string","description":"Who."}},"required":["text","to"],"additionalProperties":false}`)
	candidates, dropped := minedOnly(t, booking(), nil, findRoom, bookRoom, ping, &closed)
	require.Empty(t, dropped)
	c := candidates[0]
	assert.Equal(t, "miner/batch/room.find>room.book+>ping>note", c.PatternKey)
	assert.Equal(t, "find_then_book_then_note_batch", c.Flow.Name, "the gravest step is told")
	assert.Equal(t, flows.EffectWrite, c.SafetyLevel)
	assert.Equal(t, flows.TypeFlow, c.Flow.Type, "one after the other, though no value goes from one to the next")
	sameJSON(t, `{"type":"object","additionalProperties":false,"required":["room"],"properties":{
		"room":{"type":"string"},
		"book_calls":{"description":"One object of arguments for each call of room.book, in order. Leave it out if they are not known yet: the flow then stops before this step and gives back what was done.","default":null,"anyOf":[{"type":"array","items":{"type":"object","additionalProperties":false,"required":["day"],
			"properties":{"day":{"type":"string"},"loud":{"type":"boolean"}}}},{"type":"null"}]},
		"ping_call":{"description":"The arguments of the call of ping. Leave it out if they are not known yet: the flow then stops before this step and gives back what was done.","default":null,"anyOf":[{"type":"object","properties":{},"additionalProperties":false},{"type":"null"}]},
		"note_call":{"description":"The arguments of the call of note. Leave it out if they are not known yet: the flow then stops before this step and gives back what was done.","default":null,"anyOf":[{"type":"object","additionalProperties":false,"required":["text","to"],
			"properties":{"text":{"type":"string"},"to":{"type":"string","description":"Who."}}},{"type":"null"}]}}}`, c.Flow.InputSchema)
	assert.Equal(t, []string{"note does not declare the argument odd, which agents pass; it is left out",
		"note requires to, which the recorded calls do not pass; callers give it"}, c.Warnings)
	assert.Equal(t, []string{"", "book_calls != None", "ping_call != None", "note_call != None"},
		[]string{c.Flow.Steps[0].Guard, c.Flow.Steps[1].Guard, c.Flow.Steps[2].Guard, c.Flow.Steps[3].Guard})
	assert.Equal(t, int64(15), c.Flow.Evidence["callers_knew"])
	assert.Equal(t, 30, c.Savings.Occurrences, "three in four of forty")
	assert.InDelta(t, 15, c.Savings.PerWeek, 1e-9)
}

// TestBatchAlone: a flow of one step that takes a list, and the saving of occurrences that are cut to what callers knew.
func TestBatchAlone(t *testing.T) {
	p := observer.Pattern{Tools: []string{"room.book"}, Occurrences: 9, Sessions: 9, Success: 1, Batch: &observer.Batch{Examined: 2, Several: 2, Whole: 1},
		DataFlow: &observer.DataFlow{Sampled: 2, Explained: 2, Steps: []observer.StepFlow{{Each: &observer.EachFlow{Kind: observer.SourceInput, Input: "book_calls"},
			Args: []observer.ArgFlow{{Arg: "day", Presence: 1, Kind: observer.SourceElement, Pointer: "/day"}}}},
			Inputs: []observer.Input{{Name: "book_calls", List: true, Calls: true, Required: true}}},
		Examples: []observer.Occurrence{{SessionID: "s", Calls: []int{0, 1, 2}, Sizes: []int{3}}, {SessionID: "s", Calls: []int{3, 4}, Sizes: []int{2}}}}
	s := session("s", []string{`{}`, `{}`, `{}`, `{}`, `{}`}, []int32{0, 1, 2, 3, 4})
	candidates, _ := minedOnly(t, p, memory{"s": s}, bookRoom)
	c := candidates[0]
	assert.Equal(t, []any{"miner/batch/room.book+", 1.5, 9}, []any{c.PatternKey, c.Savings.LLMCallsPerRun.Mean, c.Savings.Occurrences})
	assert.Equal(t, []any{true, 2.5}, []any{c.Savings.PerCall, c.Savings.CallsPerRun.Mean}, "of three calls and of two")
	sameJSON(t, `{"type":"object","additionalProperties":false,"required":["book_calls"],"properties":{
		"book_calls":{"description":"One object of arguments for each call of room.book, in order.","type":"array","items":{"type":"object","additionalProperties":false,"required":["day"],"properties":{"day":{"type":"string"}}}}}}`, c.Flow.InputSchema)
}

// noted answers and notes what it was asked.
type noted struct{ calls []map[string]any }

func (n *noted) Invoke(_ context.Context, tool *flows.Tool, input map[string]any, _ executor.CallInfo) (any, error) {
	call := map[string]any{"tool": tool.Name}
	for k, v := range input {
		call[k] = v
	}
	n.calls = append(n.calls, call)
	return map[string]map[string]any{"room.find": {"free": "yes"}, "room.book": {"ok": true}, "ping": {"pong": "p"}, "note": {"id": "1"}}[tool.Name], nil
}

// TestBatchRuns: the flow makes the calls that it is given and hands back before the first step that it is given nothing for.
func TestBatchRuns(t *testing.T) {
	tools := []*flows.Tool{findRoom, bookRoom, ping, leave}
	candidates, _ := minedOnly(t, booking(), nil, tools...)
	set := executor.Tools{}
	for _, known := range tools {
		set[known.Name] = known
	}
	plan, found := executor.Compile(candidates[0].Flow, set, executor.CompileOptions{})
	require.NotNil(t, plan, "%v", found)
	run := func(input map[string]any) (*executor.RunResult, []map[string]any) {
		n, ids := &noted{}, 0
		engine := executor.New(executor.Options{Invoker: n, Now: time.Now, NewID: func() string { ids++; return strconv.Itoa(ids) }})
		return engine.Run(t.Context(), plan, executor.RunInput{Input: input}), n.calls
	}
	room := map[string]any{"tool": "room.find", "room": "r"}
	days := []any{map[string]any{"day": "mon"}, map[string]any{"day": "tue", "loud": true}}
	booked := []map[string]any{room, {"tool": "room.book", "day": "mon"}, {"tool": "room.book", "day": "tue", "loud": true}}

	result, calls := run(map[string]any{"room": "r", "book_calls": days, "ping_call": map[string]any{}, "note_call": map[string]any{"text": "hi", "to": "ann"}})
	require.True(t, result.Success, "%+v", result)
	assert.Equal(t, append(booked, map[string]any{"tool": "ping"}, map[string]any{"tool": "note", "text": "hi", "to": "ann"}), calls)

	result, calls = run(map[string]any{"room": "r", "book_calls": days})
	require.False(t, result.Success)
	require.NotNil(t, result.HandBack, "%+v", result)
	assert.Equal(t, booked, calls)

	result, calls = run(map[string]any{"room": "r", "note_call": map[string]any{"text": "hi", "to": "ann"}})
	require.NotNil(t, result.HandBack, "%+v", result)
	assert.Equal(t, []map[string]any{room}, calls, "nothing after the gap")

	_, calls = run(map[string]any{"room": "r", "book_calls": []any{map[string]any{"loud": true}}})
	assert.Empty(t, calls, "a call without what it needs is refused before anything is done")
}

// TestChainBesideBatch: that callers know the calls says nothing of what one call could tell the next, so the chain of the
// schemas stays; a flow that was proved from values takes its place.
func TestChainBesideBatch(t *testing.T) {
	p := observer.Pattern{Tools: []string{"get_order", "get_shipment", "track_parcel"}, Batch: &observer.Batch{Examined: 9, Several: 9}}
	chain := []string{"get_order>get_shipment>track_parcel"}
	assert.Equal(t, chain, keys(cold(t, &observer.Result{Patterns: []observer.Pattern{p}}, nil, desk...)))
	p.Batch = nil
	assert.NotContains(t, keys(cold(t, &observer.Result{Patterns: []observer.Pattern{p}}, nil, desk...)), chain[0])
}
