package loop_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
)

// After a new major version of a tool a pass mines none of the calls from before it, says how many, and finds no pattern of
// them; a minor one changes nothing of that.
func TestOldMajorVersionsAreNotMined(t *testing.T) {
	b := newBench(t)
	b.work(t, 40)
	declare := func(version string) {
		tools, err := flows.ParseTools([]byte("kind: Tool\nname: get_user\ndescription: Reads a user.\nschema_version: \"" + version + "\"\n" +
			"input_schema: {type: object, properties: {user_id: {type: string}}, required: [user_id]}\nsafety: {side_effects: read}\n"))
		require.NoError(t, err)
		_, err = b.gov.ApplyTools(ctx, admin, tools)
		require.NoError(t, err)
	}
	for _, step := range []struct {
		version                  string
		earlier, calls, patterns int
	}{{"1.0", 0, 80, 1}, {"1.1", 0, 80, 1}, {"2.0", 40, 40, 0}} {
		declare(step.version)
		run, err := b.MineOnce(ctx, ann, governance.MiningRequest{})
		require.NoError(t, err)
		require.Equal(t, []int{step.earlier, step.calls, step.patterns}, []int{run.Result.EarlierCalls, run.Result.Calls, len(run.Result.Patterns)}, step.version)
	}
	e, err := b.Explain(ctx, ann, []string{"find_user", "get_user"})
	require.NoError(t, err)
	require.Zero(t, e.Occurrences)
}
