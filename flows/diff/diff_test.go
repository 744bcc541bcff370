package diff

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
)

func parse(t *testing.T, doc string) *flows.Flow {
	t.Helper()
	flow, _, err := flows.ParseFlow([]byte(doc))
	require.NoError(t, err)
	return flow
}

func linear(version, steps, more string) string {
	return `{"format_version":"1.1","type":"Flow","name":"f","version":"` + version + `","description":"d","steps":[` + steps + `]` + more + `}`
}

func compare(t *testing.T, before, after string) *Diff {
	t.Helper()
	d, err := Flows(parse(t, before), parse(t, after))
	require.NoError(t, err)
	return d
}

const ab = `{"tool_name":"a","input_mapping":{"x":"x"}},{"tool_name":"b","input_mapping":{"y":"/a/y"}}`

func TestEqualFlows(t *testing.T) {
	d := compare(t, linear("1.0.0", ab, ""), linear("1.0.0", ab, `,"status":"active"`))
	assert.Equal(t, &Diff{Old: "f@1.0.0", New: "f@1.0.0", Equal: true, Changes: []Change{}}, d)
}

func TestFieldsAndSteps(t *testing.T) {
	after := `{"tool_name":"a","input_mapping":{"x":"/x/z"}},{"tool_name":"new"},{"tool_name":"b","input_mapping":{"y":"/a/y"},"guard":"y == 1"}`
	d := compare(t, linear("1.0.0", ab+`,{"tool_name":"gone"}`, ""), linear("1.1.0", after, `,"returns":{"r":"y"}`))
	assert.Equal(t, []Change{
		{Pointer: "/returns", Kind: Added, New: map[string]any{"r": "y"}},
		{Pointer: "/version", Kind: Changed, Old: "1.0.0", New: "1.1.0"},
		{Pointer: "/steps/2", Kind: Removed, Old: map[string]any{"tool_name": "gone"}},
		{Pointer: "/steps/0/input_mapping/x", Kind: Changed, Old: "x", New: "/x/z"},
		{Pointer: "/steps/1", Kind: Added, New: map[string]any{"tool_name": "new"}},
		{Pointer: "/steps/2/guard", Kind: Added, New: "y == 1"},
	}, d.Changes)
	assert.True(t, d.Behaviour)
	assert.Contains(t, d.Unified, "--- f@1.0.0\n+++ f@1.1.0\n")
	assert.Contains(t, d.Unified, "\n-  - tool_name: gone\n")
}

func TestVersionAloneIsNoBehaviour(t *testing.T) {
	d := compare(t, linear("1.0.0", ab, ""), linear("2.0.0", ab, `,"governance":{"owner":"me","lifecycle":"draft"}`))
	assert.False(t, d.Behaviour)
	assert.False(t, d.Equal)
	assert.Len(t, d.Changes, 2)
}

func TestStepsOfADAGArePairedByID(t *testing.T) {
	dag := func(steps string) string {
		return `{"type":"DAGFlow","name":"f","version":"1.0.0","description":"d","steps":[` + steps + `]}`
	}
	a, b := `{"step_id":"A","tool_name":"t"}`, `{"step_id":"B","tool_name":"t","depends_on":["A"]}`
	d := compare(t, dag(a+","+b), dag(b+`,{"step_id":"A","tool_name":"u"},{"step_id":"C","tool_name":"t"}`))
	assert.Equal(t, []Change{
		{Pointer: "/steps/1/tool_name", Kind: Changed, Old: "t", New: "u"},
		{Pointer: "/steps/2", Kind: Added, New: map[string]any{"step_id": "C", "tool_name": "t"}},
	}, d.Changes)
}

func TestSubFlowsAndKindsOfFlow(t *testing.T) {
	d := compare(t, linear("1.0.0", `{"flow_name":"g"},{"tool_name":"a"}`, ""), linear("1.0.0", `{"tool_name":"g"},{"tool_name":"a"}`, ""))
	assert.Equal(t, []string{Removed, Added}, []string{d.Changes[0].Kind, d.Changes[1].Kind})
}
