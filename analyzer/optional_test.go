package analyzer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/flows/predicate"
	"pave/flows/value"
	"pave/observer"
)

// guarded is a pattern find_user, note, get_user of which note is optional.
func guarded(g *observer.Guard) observer.Pattern {
	p := pair("find_user_id_by_email", "get_user_details")
	p.Tools = []string{"find_user_id_by_email", "note", "get_user_details"}
	p.DataFlow.Steps = []observer.StepFlow{p.DataFlow.Steps[0], {When: g, Args: []observer.ArgFlow{{Arg: "text", Presence: 1, Kind: observer.SourceOutput}}}, p.DataFlow.Steps[1]}
	return p
}

// The step before the optional one goes to it or past it, and what comes after waits for either way.
func TestOptionalStepIsABranch(t *testing.T) {
	p := guarded(&observer.Guard{Test: observer.GuardFilled})
	p.Tools = append(p.Tools, "get_user_details")
	p.DataFlow.Steps = append(p.DataFlow.Steps, p.DataFlow.Steps[2])
	candidates, dropped := minedOnly(t, p, nil, findUser, tool("note", object("text"), object("done:boolean"), flows.EffectRead), getUser)
	require.Empty(t, dropped)
	f := candidates[0].Flow
	require.Equal(t, "miner/linear/find_user_id_by_email>note?>get_user_details>get_user_details", candidates[0].PatternKey)
	require.Equal(t, flows.TypeDAGFlow, f.Type)
	ids, depends := make([]string, len(f.Steps)), make([][]string, len(f.Steps))
	for i := range f.Steps {
		ids[i], depends[i] = f.Steps[i].StepID, f.Steps[i].DependsOn
	}
	first, note, user, again, past := ids[0], ids[1], ids[2], ids[3], ids[4]
	require.Equal(t, [][]string{nil, {first}, {note}, {user, past}, {first}}, depends)
	require.NotEqual(t, user, past)
	require.NotEqual(t, user, again)
	require.Equal(t, []flows.Branch{{TargetStepID: note, Predicate: first + `["result"]`}}, f.Steps[0].Branches)
	require.Equal(t, past, f.Steps[0].DefaultNext)
	require.Equal(t, f.Steps[2].ToolName, f.Steps[4].ToolName)
	require.Equal(t, f.Steps[2].InputMapping, f.Steps[4].InputMapping)
	require.Equal(t, f.Steps[2].OutputAs, f.Steps[4].OutputAs, "one key, whichever way")
	levels, err := flows.Levels(f)
	require.NoError(t, err)
	require.Equal(t, [][]int{{0}, {1, 4}, {2}, {3}}, levels)
	for _, e := range f.Returns {
		require.Equal(t, e.Target == f.Steps[1].OutputAs, e.Value.Kind == flows.MapOptional, e.Target)
	}
}

func TestNothingComesAfterTheLastStep(t *testing.T) {
	p := guarded(nil)
	p.DataFlow.Steps[2].When = &observer.Guard{Test: observer.GuardFilled}
	candidates, dropped := minedOnly(t, p, nil, findUser, tool("note", object("text"), object("done:boolean"), flows.EffectRead), getUser)
	require.Empty(t, candidates)
	require.Contains(t, dropped[0], "optional at the end")
}

// Each guard, written as a predicate and read by the predicate language, says what it means, also where the place is not
// there. A schema that promises the place makes the predicate short.
func TestGuardsAsPredicates(t *testing.T) {
	results := []string{`{}`, `{"a":null}`, `{"a":{}}`, `{"a":"text"}`, `{"a":{"b":null}}`, `{"a":{"b":""}}`, `{"a":{"b":"x"}}`, `{"a":{"b":"y"}}`}
	for _, c := range []struct {
		guard observer.Guard
		want  []bool
	}{
		{observer.Guard{Pointer: "/a/b", Test: observer.GuardFilled}, []bool{false, false, false, false, false, false, true, true}},
		{observer.Guard{Pointer: "/a/b", Test: observer.GuardFilled, Not: true}, []bool{true, true, true, true, true, true, false, false}},
		{observer.Guard{Pointer: "/a/b", Test: observer.GuardEquals, Value: "x"}, []bool{false, false, false, false, false, false, true, false}},
		{observer.Guard{Pointer: "/a/b", Test: observer.GuardEquals, Value: "x", Not: true}, []bool{true, true, true, true, true, true, false, true}},
	} {
		b := &minedDraft{draft: &draft{}}
		text := b.predicateOf(&draftStep{tool: &known{}, key: "out"}, &c.guard)
		p, err := predicate.Parse(text)
		require.NoError(t, err, text)
		for i, result := range results {
			out, err := value.Decode([]byte(result))
			require.NoError(t, err)
			got, err := p.Eval(map[string]any{"out": out})
			require.NoError(t, err, "%s of %s", text, result)
			require.Equal(t, c.want[i], got, "%s of %s", text, result)
		}
	}
	promised := newLookup(NewCatalogue([]*flows.Tool{tool("t", "", object("n:integer", "s"), flows.EffectRead)}, nil)).tool("t")
	for want, g := range map[string]observer.Guard{
		`out["n"] >= 7`:    {Pointer: "/n", Test: observer.GuardAtLeast, Value: int64(7)},
		`out["n"] < 7`:     {Pointer: "/n", Test: observer.GuardAtLeast, Value: int64(7), Not: true},
		`out["s"] != "it"`: {Pointer: "/s", Test: observer.GuardEquals, Value: "it", Not: true},
		`not out["s"]`:     {Pointer: "/s", Test: observer.GuardFilled, Not: true},
	} {
		b := &minedDraft{draft: &draft{}}
		require.Equal(t, want, b.predicateOf(&draftStep{tool: promised, key: "out"}, &g))
	}
}
