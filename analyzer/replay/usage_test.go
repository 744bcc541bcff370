package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"pave/ingest"
)

// threeReads calls list and then two items, one turn each, beside records of model calls.
func threeReads(models ...ingest.LLMStep) *Session {
	run := ingest.AgentRun{LLM: models, Users: []ingest.UserTurn{{Before: 0, Text: "i1 and i2, please"}}}
	for i, args := range []string{`{}`, `{"id":"i1","mode":"fast"}`, `{"id":"i2","mode":"fast"}`} {
		c := ingest.Call{Seq: i, Turn: int32(i), ToolCall: ingest.ToolCall{Tool: []string{"list_items", "get_item", "get_item"}[i], CallID: fmt.Sprint(i),
			Args: []byte(args), Result: []byte(`{"items":["i1","i2"]}`), Status: ingest.StatusOK}}
		if i == 0 {
			c.Flags = ingest.FlagBreak
		}
		run.Calls = append(run.Calls, c)
	}
	return NewSession(&ingest.Session{ID: "s", Runs: []ingest.AgentRun{run}})
}

func model(turn, count int32, tokens int64, cost, seconds float64) ingest.LLMStep {
	s := ingest.LLMStep{Turn: turn, Duration: time.Duration(seconds * float64(time.Second)),
		LLMCall: ingest.LLMCall{Count: count, InputTokens: tokens, OutputTokens: 1, CachedTokens: -1}}
	if cost >= 0 {
		s.CostUSD, s.HasCost = cost, true
	}
	return s
}

// listAndItem saves the second turn.
const listAndItem = `
type: Flow
name: list_and_item
input_schema: {type: object, properties: {id: {type: string}}, required: [id], additionalProperties: false}
steps:
  - {tool_name: list_items, input_mapping: {never: {$optional: nothing}}, output_as: all}
  - {tool_name: get_item, input_mapping: {id: id, mode: {$const: fast}}, output_as: item}
`

// What is avoided is what the saved turns used, not a mean of the session's.
func TestUsageOfSavedTurns(t *testing.T) {
	avoided := func(s *Session) Usage {
		o := NewScorer([]*Flow{flow(t, listAndItem)}).Session(s)
		assert.Equal(t, 1, o.Saved)
		assert.Equal(t, s.Recorded, o.Recorded)
		return o.Avoided
	}
	byTurn := threeReads(model(0, 1, 99, 0.1, 1), model(1, 1, 199, 0.2, 2), model(2, 1, 399, 0.4, 4), model(3, 1, 799, 0.8, 8))
	assert.Equal(t, Usage{Calls: 4, Tokens: 1500, CostUSD: 1.5, Seconds: 15, TokenCalls: 4, CostCalls: 4, DurationCalls: 4}, byTurn.Recorded)
	assert.Equal(t, Usage{Calls: 1, Tokens: 200, CostUSD: 0.2, Seconds: 2, TokenCalls: 1, CostCalls: 1, DurationCalls: 1}, avoided(byTurn))

	totals := threeReads(model(-1, 4, -1, 2, 0))
	assert.Equal(t, Usage{Calls: 4, CostUSD: 2, CostCalls: 4}, totals.Recorded)
	assert.Equal(t, Usage{Calls: 1, CostUSD: 0.5, CostCalls: 1}, avoided(totals))
	totals.Lasted(20 * time.Second)
	assert.Equal(t, Usage{Calls: 1, CostUSD: 0.5, CostCalls: 1, Seconds: 5, DurationCalls: 1}, avoided(totals))

	both := threeReads(model(-1, 4, -1, 2, 0), model(1, 1, 199, -1, 2)) // the turn's own tokens and time, the mean cost
	assert.Equal(t, Usage{Calls: 1, Tokens: 200, TokenCalls: 1, CostUSD: 0.5, CostCalls: 1, Seconds: 2, DurationCalls: 1}, avoided(both))
	both.Lasted(20 * time.Second)
	assert.Equal(t, 2.0, avoided(both).Seconds, "some durations are known")

	nothing := threeReads()
	assert.Equal(t, Usage{}, nothing.Recorded)
	assert.Equal(t, Usage{Calls: 1}, avoided(nothing))
}
