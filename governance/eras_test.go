package governance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
)

// What was recorded before a tool changed incompatibly is of another tool: a new major number of its schema version, or other
// schemas of a tool that its server tells of. A tool file that is corrected changes no tool.
func TestToolEras(t *testing.T) {
	text, number := raw(`{"type":"object","properties":{"user_id":{"type":"string"}},"required":["user_id"]}`), raw(`{"type":"object","properties":{"user_id":{"type":"integer"}},"required":["user_id"]}`)
	more := raw(`{"type":"object","properties":{"user_id":{"type":"string"},"lang":{"type":"string"}},"required":["user_id"]}`)
	needs := raw(`{"type":"object","properties":{"user_id":{"type":"string"},"lang":{"type":"string"}},"required":["user_id","lang"]}`)
	declared := func(version string, input flows.RawSchema) *flows.Tool {
		tool := getUser()
		tool.SchemaVersion, tool.InputSchema = version, input
		return tool
	}
	found := func(input, output flows.RawSchema) *flows.Tool {
		tool := declared("", input)
		tool.Origin, tool.OutputSchema = flows.ToolDiscovered, output
		return tool
	}
	for name, c := range map[string]struct {
		versions []*flows.Tool
		breaks   int // the version from which on the tool is another, 0 for none
	}{
		"the first definition":         {[]*flows.Tool{declared("1", text)}, 0},
		"a corrected file":             {[]*flows.Tool{declared("", number), declared("", text)}, 0},
		"a minor version":              {[]*flows.Tool{declared("1.4", text), declared("1.5", number)}, 0},
		"a major version":              {[]*flows.Tool{declared("1.4", text), declared("2.0", text), declared("2.1", text)}, 1},
		"the newest of two":            {[]*flows.Tool{declared("", text), declared("1", text), declared("v2", text)}, 2},
		"no version is 0":              {[]*flows.Tool{declared("", text), declared("0.3", text)}, 0},
		"found again, takes more":      {[]*flows.Tool{found(text, text), found(more, text)}, 0},
		"found again, needs more":      {[]*flows.Tool{found(text, text), found(needs, text)}, 1},
		"found again, takes another":   {[]*flows.Tool{found(text, text), found(number, text)}, 1},
		"found again, gives more":      {[]*flows.Tool{found(text, text), found(text, needs)}, 0},
		"found again, gives no longer": {[]*flows.Tool{found(text, needs), found(text, text)}, 1},
		"found after it was declared":  {[]*flows.Tool{declared("", number), found(text, text)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.apply(findUser())
			var at []time.Time
			for _, v := range c.versions {
				b.apply(v)
				tool, err := b.Tool(ctx, alice, v.Name)
				require.NoError(t, err)
				at = append(at, tool.UpdatedAt)
			}
			want := map[string]time.Time{}
			if c.breaks > 0 {
				want["get_user"] = at[c.breaks]
			}
			for _, who := range []governance.Actor{alice, miner} {
				eras, err := b.ToolEras(ctx, who)
				require.NoError(t, err)
				require.Equal(t, want, eras)
			}
		})
	}
	_, err := newBench(t).ToolEras(ctx, actor("service:x", governance.ScopeRun))
	require.Equal(t, flows.CodeForbidden, flows.CodeOf(err))
}
