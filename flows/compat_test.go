package flows_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"pave/flows"
)

func TestIncompatibilities(t *testing.T) {
	tool := &flows.Tool{Name: "a", InputSchema: flows.RawSchema(`{"type":"object","properties":{"x":{"type":"integer"}}}`)}
	titled := &flows.Tool{Name: "a", InputSchema: flows.RawSchema(`{"type":"object","title":"A","properties":{"x":{"type":"integer"}}}`)}
	other := &flows.Tool{Name: "a", InputSchema: flows.RawSchema(`{"type":"object","properties":{"x":{"type":"string"}}}`)}
	lookup := func(t *flows.Tool) func(string) *flows.Tool {
		return func(name string) *flows.Tool {
			if name == t.Name {
				return t
			}
			return nil
		}
	}
	flow := &flows.Flow{Steps: []flows.Step{{ToolName: "gone"}, {FlowName: "sub"}, {ToolName: "a"}}}
	missing := flows.Incompatibility{StepIndex: 0, ToolName: "gone", IssueType: flows.IssueMissingTool}
	assert.Equal(t, []flows.Incompatibility{missing}, flows.Incompatibilities(flow, lookup(tool)), "no pins")

	flow.ToolSchemaHashes = map[string]string{"a": flows.SchemaHash(tool), "b": "x"}
	assert.Equal(t, []flows.Incompatibility{missing}, flows.Incompatibilities(flow, lookup(tool)))
	assert.Equal(t, []flows.Incompatibility{missing}, flows.Incompatibilities(flow, lookup(titled)), "titles are no part of what a tool takes")
	assert.Equal(t, []flows.Incompatibility{missing, {StepIndex: 2, ToolName: "a", IssueType: flows.IssueSchemaMismatch, Expected: flows.SchemaHash(tool), Actual: flows.SchemaHash(other)}},
		flows.Incompatibilities(flow, lookup(other)))
}
