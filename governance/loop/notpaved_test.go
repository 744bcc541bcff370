package loop_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/analyzer"
	"pave/flows"
	"pave/governance"
	"pave/observer"
)

// A mapping that declared schemas contradict is refused, and "why not paved" and the explanation name the argument and what
// would change that; with a tool file that fits there is a proposal.
func TestContradictedMappingIsNotPaved(t *testing.T) {
	b := newBench(t)
	b.work(t, 40)
	declare := func(kind string) {
		tools, err := flows.ParseTools([]byte("kind: Tool\nname: get_user\ndescription: Reads a user.\n" +
			"input_schema: {type: object, properties: {user_id: {type: " + kind + "}}, required: [user_id]}\nsafety: {side_effects: read}\n"))
		require.NoError(t, err)
		_, err = b.gov.ApplyTools(ctx, admin, tools)
		require.NoError(t, err)
	}
	declare("integer")
	run, err := b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err)
	require.Zero(t, run.Candidates)
	const why = `the tools' schemas contradict what was recorded: output "/user_id" of find_user does not fit argument user_id of get_user: string is not integer`
	const unblock = "A tool file that declares what the tool takes and gives as it was recorded; if the file is right, calls that keep to it."
	path := []string{"find_user", "get_user"}
	require.Equal(t, []observer.Blocked{{Tools: path, Occurrences: 40, Sessions: 40, Reason: "schema", Step: -1, Detail: "No flow is made of it: " + why + ".", Unblock: unblock}}, run.NotPaved())
	e, err := b.Explain(ctx, ann, path)
	require.NoError(t, err)
	require.Equal(t, []any{observer.VerdictBlocked, why, unblock}, []any{e.Verdict, e.Dropped, e.Unblock})
	require.Contains(t, e.Detail, why)

	declare("string")
	run, err = b.MineOnce(ctx, ann, governance.MiningRequest{})
	require.NoError(t, err)
	require.Equal(t, 1, run.Candidates)
	require.Empty(t, run.NotPaved())
	e, err = b.Explain(ctx, ann, path)
	require.NoError(t, err)
	require.Equal(t, observer.VerdictPattern, e.Verdict)
	require.Empty(t, e.Dropped)
}

// The list is of paths that agents walk: not of chains of schemas that make no candidate.
func TestChainsAreNoPathsNotPaved(t *testing.T) {
	run := governance.MiningRun{Result: &observer.Result{}, Dropped: []governance.DroppedPattern{
		{Tools: []string{"a", "b"}, Code: analyzer.DroppedChain, Reason: "b takes no arguments"},
		{Tools: []string{"c", "d"}, Code: analyzer.DroppedSecondary, Reason: "it is part of more", Unblock: "Occurrences outside."}}}
	require.Equal(t, []observer.Blocked{{Tools: []string{"c", "d"}, Reason: "secondary", Step: -1,
		Detail: "No flow is made of it: it is part of more.", Unblock: "Occurrences outside."}}, run.NotPaved())
}
