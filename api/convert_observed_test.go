package api

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/analyzer"
	"pave/api/gen"
	"pave/flows"
	"pave/governance"
	"pave/observer"
)

// TestArgumentKinds: elements and derived values are told from copies, with the place that they come from.
func TestArgumentKinds(t *testing.T) {
	ofResult := &observer.EachFlow{Kind: observer.SourceOutput, Step: 2, Pointer: "/rooms"}
	ofInput := &observer.EachFlow{Kind: observer.SourceInput, Input: "calls"}
	type place struct {
		kind           gen.ArgFlowKind
		step           int
		input, pointer string
	}
	for name, c := range map[string]struct {
		arg  observer.ArgFlow
		each *observer.EachFlow
		want place
	}{
		"a copy":                {observer.ArgFlow{Kind: observer.SourceOutput, Step: 1, Pointer: "/id"}, nil, place{gen.ArgFlowKindOutput, 1, "", "/id"}},
		"a copy beside a list":  {observer.ArgFlow{Kind: observer.SourceOutput, Step: 1, Pointer: "/id"}, ofResult, place{gen.ArgFlowKindOutput, 1, "", "/id"}},
		"a constant":            {observer.ArgFlow{Kind: observer.SourceConst, Value: "x"}, nil, place{gen.ArgFlowKindConst, -1, "", ""}},
		"an input":              {observer.ArgFlow{Kind: observer.SourceInput, Input: "day"}, nil, place{gen.ArgFlowKindInput, -1, "day", ""}},
		"an element":            {observer.ArgFlow{Kind: observer.SourceElement}, ofResult, place{gen.ArgFlowKindElement, 2, "", "/rooms/*"}},
		"a place in an element": {observer.ArgFlow{Kind: observer.SourceElement, Pointer: "/no"}, ofResult, place{gen.ArgFlowKindElement, 2, "", "/rooms/*/no"}},
		"of a call of a list":   {observer.ArgFlow{Kind: observer.SourceElement, Pointer: "/day"}, ofInput, place{gen.ArgFlowKindElement, -1, "calls", "/*/day"}},
		"derived": {observer.ArgFlow{Kind: observer.SourceDerived, Step: 1, Pointer: "/n", Derived: &observer.Derived{Form: observer.FormText}}, nil,
			place{gen.ArgFlowKindDerived, 1, "", "/n"}},
		"derived of what is asked for": {observer.ArgFlow{Kind: observer.SourceDerived, Step: 1, Pointer: "/items", Input: "name", Derived: &observer.Derived{Form: observer.FormSelect, Asks: true}}, nil,
			place{gen.ArgFlowKindDerived, 1, "name", "/items"}},
	} {
		flow := dataFlow(&observer.DataFlow{Steps: []observer.StepFlow{{Each: c.each, Args: []observer.ArgFlow{c.arg}}}})
		got := flow.Steps[0][0]
		require.Equal(t, c.want, place{got.Kind, got.Step, got.Input, got.Pointer}, name)
		require.True(t, got.Kind.Valid(), name)
	}
}

// TestSummaryOfBatches: how often callers knew several calls stands apart from how often mappings held. Evidence that was
// stored before there were such flows has none of it.
func TestSummaryOfBatches(t *testing.T) {
	summary := func(evidence string) gen.ProposalSummary {
		p := governance.Proposal{Flow: &flows.Flow{Name: "f"}}
		require.NoError(t, json.Unmarshal([]byte(evidence), &p.Evidence))
		return proposalSummary(p)
	}
	stored, err := json.Marshal(analyzer.Evidence{Pattern: &observer.Pattern{Occurrences: 40, Batch: &observer.Batch{Examined: 20, Several: 15, Whole: 5, Supporting: []string{"s1"}},
		DataFlow: &observer.DataFlow{Sampled: 20, Explained: 15}}})
	require.NoError(t, err)
	require.Equal(t, &gen.PatternBatch{Examined: 20, Several: 15, Whole: 5, Supporting: []string{"s1"}, Contradicting: []string{}}, summary(string(stored)).Batch)

	saves := Savings(analyzer.Savings{PerCall: true, CallsPerRun: analyzer.Interval{Mean: 2.5, Low: 2, High: 3, Known: 4}})
	require.True(t, saves.PerCall)
	require.Equal(t, &gen.Interval{Mean: 2.5, Low: 2, High: 3, Known: 4}, saves.CallsPerRun)
	require.Nil(t, Savings(analyzer.Savings{}).CallsPerRun, "what was stored before calls were counted")

	older := summary(`{"Window":{"Sessions":9,"Calls":90},"Pattern":{"Tools":["a","b"],"Occurrences":9,"Sessions":8,"DataFlow":{"Sampled":8,"Explained":7,"Steps":[{},{}]}}}`)
	require.Nil(t, older.Batch)
	require.Equal(t, []int{9, 8, 8, 7}, []int{older.Occurrences, older.Sessions, older.Sampled, older.Explained})
	raw, err := json.Marshal(older)
	require.NoError(t, err)
	require.NotContains(t, string(raw), `"batch"`)
}
