package baseline_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/analyzer/baseline"
	"pave/flows"
)

// service is one over traces, whose events are kept in short form.
func service(t *testing.T, config baseline.ServiceConfig, words ...string) (*baseline.Service, *[]string) {
	t.Helper()
	o, err := baseline.NewObserver(nil)
	require.NoError(t, err)
	o.Add(tracesOf(words...)...)
	events := &[]string{}
	return baseline.NewService(config, o, func(e baseline.Event) {
		*events = append(*events, strings.Join([]string{e.Kind, e.ToolName, e.ProposalID, e.Source, e.Flow}, " "))
	}), events
}

func TestServiceApprovesAndRejects(t *testing.T) {
	s, events := service(t, baseline.DefaultServiceConfig(), "ab", "ab", "ab", "cd", "cd", "cd")
	created, err := s.Analyze()
	require.NoError(t, err)
	require.Len(t, created, 2)
	require.NoError(t, s.Approve(created[0].ID))
	require.NoError(t, s.Reject(created[1].ID))
	assert.Equal(t, flows.CodeInvalid, flows.CodeOf(s.Approve(created[0].ID)))
	assert.Equal(t, flows.CodeInvalid, flows.CodeOf(s.Reject(created[1].ID)))
	assert.Equal(t, flows.CodeNotFound, flows.CodeOf(s.Approve("proposal-9")))
	assert.Equal(t, "suggested__a__b", s.Registered()[0].Name)
	assert.Equal(t, baseline.Metrics{PatternsDetected: 2, FlowsProposed: 2, FlowsPromoted: 1, TotalLLMCallsAvoided: 6}, s.Metrics())

	// What was approved stays known, what was rejected comes back.
	again, err := s.Analyze()
	require.NoError(t, err)
	require.Len(t, again, 1)
	assert.Equal(t, "suggested__c__d", again[0].Flow.Name)
	assert.Equal(t, []string{"proposal_created  proposal-0 observer ", "proposal_created  proposal-1 observer ", "analysis_completed    ",
		"flow_promoted  proposal-0  suggested__a__b", "proposal_rejected  proposal-1  ", "proposal_created  proposal-2 observer ", "analysis_completed    "}, *events)
}

func TestServiceApprovesDeterministicFlowsWhenAsked(t *testing.T) {
	config := baseline.DefaultServiceConfig()
	config.AutoApproveDeterministic, config.MinDeterminismScore = true, 0.5
	s, _ := service(t, config, "ab", "ab", "ab", "ax", "cd", "cd", "cd")
	created, err := s.Analyze()
	require.NoError(t, err)
	require.Len(t, created, 2)
	statuses := map[string]string{}
	for _, p := range created {
		statuses[p.Flow.Name] = p.Status
	}
	assert.Equal(t, map[string]string{"suggested__a__b": baseline.ProposalPending, "suggested__c__d": baseline.ProposalApproved}, statuses)
}

// Tools and calls that come in are watched; a tool of the same name is replaced, and analysis follows at once.
func TestServiceWatches(t *testing.T) {
	s, events := service(t, baseline.DefaultServiceConfig())
	require.NoError(t, s.RegisterTool(tool("x", "k:string", "v:string")))
	require.NoError(t, s.RegisterTool(tool("y", "v:integer", "")))
	assert.Empty(t, s.Proposals())
	require.NoError(t, s.RegisterTool(tool("x", "k:string", "v:integer")))
	require.Len(t, s.Proposals(), 1)
	assert.Equal(t, baseline.SourceAnalyzer, s.Proposals()[0].Source)
	assert.Equal(t, 2, s.Metrics().ToolsMonitored)

	assert.Error(t, s.EndTrace())
	s.Record(baseline.Step{Tool: "x"})
	require.NoError(t, s.EndTrace())
	assert.Equal(t, 1, s.Metrics().TracesRecorded)
	assert.Equal(t, "trace_recorded    ", (*events)[len(*events)-1])
	assert.Error(t, s.RegisterTool(&flows.Tool{Name: "broken", InputSchema: flows.RawSchema("{")}))
}

func TestRedactionPolicies(t *testing.T) {
	data := map[string]any{"Token": map[string]any{"a": int64(1)}, "list": []any{map[string]any{"ssn": "1", "cookie": true}, "key sk-ABCDEFGHIJKLMNOP, Bearer abc.d", nil, 1.5},
		"long": strings.Repeat("é", 300)}
	assert.Equal(t, map[string]any{"Token": baseline.Redacted, "list": data["list"], "long": data["long"]}, baseline.DefaultRedaction().Redact(data))
	assert.Equal(t, map[string]any{"Token": baseline.Redacted, "long": data["long"],
		"list": []any{map[string]any{"ssn": "1", "cookie": baseline.Redacted}, "key ***REDACTED***, ***REDACTED***", nil, 1.5}}, baseline.RecommendedRedaction().Redact(data))
	strict := baseline.StrictRedaction().Redact(data).(map[string]any)
	assert.Equal(t, strings.Repeat("é", 256)+"…(truncated)", strict["long"])
	assert.Equal(t, baseline.Redacted, strict["list"].([]any)[0].(map[string]any)["ssn"])
	assert.Equal(t, "ask-ABCDEFGHIJKLMNOP", baseline.StrictRedaction().Redact("ask-ABCDEFGHIJKLMNOP"), "inside of a word")
	assert.Equal(t, map[string]any{"a": int64(1)}, data["Token"], "the original is unchanged")
}
