package flowtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
)

const capabilityFlow = `
format_version: "1.1"
type: DAGFlow
name: f
version: 1.0.0
description: d
steps:
  - {step_id: a, tool_name: get, input_mapping: {id: id}, output_as: a}
  - {step_id: b, tool_name: get, step_type: capability, capability_id: crm.score, input_mapping: {id: id}, output_as: b}
  - {step_id: c, depends_on: [a, b], tool_name: get, step_type: capability, capability_id: crm.rank, for_each: ids, as: one, input_mapping: {id: one}, output_as: c}
`

// TestCapabilities fakes capability steps by id and by the step's tool, and replays their record: two of the steps have
// the tool and the input of another in common.
func TestCapabilities(t *testing.T) {
	suites, err := Load(write(t, map[string]string{"f.yaml": capabilityFlow, "f.test.yaml": `
flow: f.yaml
cases:
  - name: by id
    input: {id: 1, ids: [1, 2]}
    fakes:
      get: [{result: {tool: 9007199254740993}}]
      crm.score: [{error: {message: busy}, when: {id: 2}}, {result: {score: 7}}]
      crm.rank: [{when: {id: 1}, result: {rank: 1}}, {when: {id: 2}, result: {rank: 2}}]
    expect:
      output: {id: 1, ids: [1, 2], a: {tool: 9007199254740993}, b: {score: 7}, c: [{rank: 1}, {rank: 2}]}
      calls: {get: 1, crm.score: 1, crm.rank: 2}
  - name: by the tool's name
    input: {id: 1, ids: []}
    fakes: {get: [{result: {any: 1}}]}
    expect: {output: {id: 1, ids: [], a: {any: 1}, b: {any: 1}, c: []}, calls: {get: 2}}
  - name: not an object
    input: {id: 1, ids: []}
    fakes: {get: [{result: {any: 1}}], crm.score: [{result: 3}]}
    expect: {status: failed, error_code: CW-E032}
  - name: not answered
    input: {id: 1, ids: [3]}
    fakes: {get: [{result: {any: 1}, times: 2}]}
    expect: {status: failed, error_code: CW-E032}
`}))
	require.NoError(t, err)
	o := Options{Tools: toolsOf("get")}
	r := Run(context.Background(), suites, o)
	require.Len(t, r.Cases, 4)
	assert.Empty(t, r.Cases[0].Failures)
	assert.Empty(t, r.Cases[1].Failures)
	assert.Empty(t, r.Cases[2].Failures)
	require.Len(t, r.Cases[3].Failures, 1, "a call that nothing answers fails its case")
	assert.Equal(t, flows.CWFixtureStale.Code, r.Cases[3].Failures[0].Code)

	read, _, err := flows.ParseFlow([]byte(capabilityFlow))
	require.NoError(t, err)
	plan, found := executor.Compile(read, toolsOf("get"), executor.CompileOptions{})
	require.NoError(t, executor.CompileError("f", found))
	player := NewPlayer(FixtureOf(r.Cases[0].Result, read))
	engine := executor.New(executor.Options{Invoker: player, Kernel: player, Now: time.Now, NewID: func() string { return "again" }})
	report, err := engine.Replay(context.Background(), plan, r.Cases[0].Result, executor.ReplayOptions{Force: true})
	require.NoError(t, err)
	assert.Empty(t, report.Diffs)
	assert.True(t, report.Match)
	assert.Empty(t, player.Stale())
}
