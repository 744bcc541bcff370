package analyzer

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/flows/expr"
	"pave/flows/predicate"
	"pave/flows/value"
	"pave/ingest"
	"pave/observer"
)

func tool(name, in, out string, effects flows.SideEffects) *flows.Tool {
	t := &flows.Tool{Name: name, Origin: flows.ToolDeclared, Binding: &flows.Binding{Kind: flows.BindLocal, Local: name}}
	if in != "" {
		t.InputSchema = flows.RawSchema(in)
	}
	if out != "" {
		t.OutputSchema = flows.RawSchema(out)
	}
	if effects != "" {
		c := flows.DefaultSafety()
		c.SideEffects = effects
		t.Safety = &c
	}
	return t
}

// object is an object schema: "name:type" fields, a trailing ? makes one optional.
func object(fields ...string) string {
	properties, required := "", ""
	for _, f := range fields {
		optional := f[len(f)-1] == '?'
		if optional {
			f = f[:len(f)-1]
		}
		name, kind := f, "string"
		for i := range f {
			if f[i] == ':' {
				name, kind = f[:i], f[i+1:]
			}
		}
		if properties != "" {
			properties += ","
		}
		properties += fmt.Sprintf(`%q:{"type":%q}`, name, kind)
		if !optional {
			if required != "" {
				required += ","
			}
			required += fmt.Sprintf("%q", name)
		}
	}
	return `{"type":"object","properties":{` + properties + `},"required":[` + required + `]}`
}

// memory is a SessionSource.
type memory map[string]*ingest.Session

func (m memory) Sessions(_ context.Context, ids []string, fn func(*ingest.Session) error) error {
	for _, id := range ids {
		if s, ok := m[id]; ok {
			if err := fn(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// pair is a pattern of two tools whose second argument is copied from the first result.
func pair(first, second string) observer.Pattern {
	return observer.Pattern{
		Tools: []string{first, second}, Occurrences: 40, Sessions: 30, SuccessLower: 0.9, Success: 1, TurnsSaved: 1, Score: 36,
		DataFlow: &observer.DataFlow{Sampled: 40, Explained: 38,
			Steps: []observer.StepFlow{
				{Args: []observer.ArgFlow{{Arg: "email", Presence: 1, Kind: observer.SourceInput, Input: "email"}}},
				{Args: []observer.ArgFlow{{Arg: "user_id", Presence: 1, Kind: observer.SourceOutput, Step: 0, Pointer: ""}}},
			},
			Inputs: []observer.Input{{Name: "email", Arg: "email", Origin: "user text", Required: true}}},
	}
}

func minedOnly(t *testing.T, p observer.Pattern, sessions SessionSource, tools ...*flows.Tool) (candidates []Candidate, dropped []string) {
	t.Helper()
	mined := &observer.Result{Sessions: 100, Calls: 1000, Patterns: []observer.Pattern{p},
		From: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)}
	candidates, err := Propose(context.Background(), mined, NewCatalogue(tools, nil), sessions, Options{MaxChains: -1,
		Dropped: func(d Dropped) { dropped = append(dropped, d.Reason) }})
	require.NoError(t, err)
	for i := range candidates {
		checkCandidate(t, &candidates[i])
	}
	return candidates, dropped
}

var (
	findUser = tool("find_user_id_by_email", object("email"), `{"type":"object","properties":{"result":{"type":"string"}},"required":["result"]}`, flows.EffectRead)
	getUser  = tool("get_user_details", object("user_id", "verbose:boolean?"), object("user_id", "name", "nick?"), flows.EffectRead)
)

func TestMinedFlow(t *testing.T) {
	candidates, dropped := minedOnly(t, pair("find_user_id_by_email", "get_user_details"), nil, findUser, getUser)
	assert.Empty(t, dropped)
	require.Len(t, candidates, 1)
	c := candidates[0]
	assert.Equal(t, SourceMiner, c.Source)
	assert.Equal(t, "miner/linear/find_user_id_by_email>get_user_details", c.PatternKey)
	assert.Empty(t, c.Unbound)
	assert.Equal(t, flows.EffectRead, c.SafetyLevel)
	assert.Equal(t, 36.0, c.Score, "the observer's")
	assert.InDelta(t, 20, c.Savings.PerWeek, 1e-9, "40 occurrences in two weeks")
	text, err := flows.EncodeFlow(c.Flow, flows.FormatYAML)
	require.NoError(t, err)
	assert.Equal(t, `description: Calls find_user_id_by_email, then get_user_details without a model call in between. Mined from recorded sessions.
evidence:
  explained: 38
  occurrences: 40
  sampled: 40
  sessions: 30
  source: miner
  window:
    - "2026-11-01"
    - "2026-11-15"
format_version: "1.1"
governance:
  estimated_model_calls_removed: 1
  lifecycle: suggested
  replaces_tools:
    - find_user_id_by_email
    - get_user_details
input_schema:
  type: object
  properties:
    email:
      type: string
      description: callers had it from the user's words
  required:
    - email
  additionalProperties: false
name: user_by_email
on_context_collision: error
on_failure: hand_back
returns:
  user: user
safety:
  side_effects: read
status: needs_review
steps:
  - input_mapping:
      email: email
    output_as: user_id
    tool_name: find_user_id_by_email
  - input_mapping:
      user_id: /user_id/result
    output_as: user
    tool_name: get_user_details
type: Flow
`, string(text))
}

func TestDigestDoesNotHangOnCounts(t *testing.T) {
	first, _ := minedOnly(t, pair("find_user_id_by_email", "get_user_details"), nil, findUser, getUser)
	p := pair("find_user_id_by_email", "get_user_details")
	p.Occurrences, p.Sessions, p.DataFlow.Sampled = 400, 300, 200
	second, _ := minedOnly(t, p, nil, findUser, getUser)
	assert.Equal(t, first[0].Digest, second[0].Digest)
	assert.NotEqual(t, first[0].Flow.Evidence, second[0].Flow.Evidence)
}

func TestArgumentsOfMinedFlows(t *testing.T) {
	type args = []observer.ArgFlow
	userID := observer.ArgFlow{Arg: "user_id", Presence: 1, Kind: observer.SourceOutput, Step: 0, Pointer: "/customer_id"}
	find := tool("find_customer", object("email", "note?"), object("customer_id", "tier?"), flows.EffectRead)
	get := tool("get_user_details", object("user_id", "verbose:boolean?", "tier?"), object("name"), flows.EffectWrite)
	for _, c := range []struct {
		name    string
		steps   []args // both steps; nil takes the usual
		second  args
		want    flows.Mapping
		dropped string
		warning string
		tools   []*flows.Tool
	}{
		{name: "constant", second: args{{Arg: "user_id", Presence: 1, Kind: observer.SourceConst, Value: "u1"}, {Arg: "verbose", Presence: 1, Kind: observer.SourceConst, Value: true}},
			want: flows.Mapping{{Target: "user_id", Value: flows.Const("u1")}, {Target: "verbose", Value: flows.Const(true)}}},
		{name: "constant that agents pass sometimes", second: args{userID, {Arg: "verbose", Presence: 0.5, Kind: observer.SourceConst, Value: true}},
			want: flows.Mapping{{Target: "user_id", Value: flows.Pointer("/customer/customer_id")}}, warning: "only in 50 % of the calls; it is left out"},
		{name: "constant that agents pass more often than not", second: args{userID, {Arg: "verbose", Presence: 0.6, Kind: observer.SourceConst, Value: true}},
			want: flows.Mapping{{Target: "user_id", Value: flows.Pointer("/customer/customer_id")}, {Target: "verbose", Value: flows.Const(true)}}, warning: "only in 60 % of the calls; it is always passed"},
		{name: "constant of another type becomes an input", second: args{{Arg: "user_id", Presence: 1, Kind: observer.SourceConst, Value: int64(7)}},
			want: flows.Mapping{{Target: "user_id", Value: flows.Key("user_id")}}, warning: "became an input"},
		{name: "argument of an earlier step", second: args{{Arg: "user_id", Presence: 1, Kind: observer.SourceArg, Step: 0, Pointer: "email"}},
			want: flows.Mapping{{Target: "user_id", Value: flows.Key("email")}}},
		{name: "argument that is not part of the pattern", second: args{{Arg: "user_id", Presence: 1, Kind: observer.SourceArg, Step: 0, Pointer: "gone"}}, dropped: "not part of the pattern"},
		{name: "choice", second: args{{Arg: "user_id", Presence: 1, Kind: observer.SourceChoice}}, dropped: "chosen by the model"},
		{name: "output that the tool does not declare", second: args{{Arg: "user_id", Presence: 1, Kind: observer.SourceOutput, Pointer: "/secret"}}, dropped: `declares no output at "/secret"`},
		{name: "types that contradict", second: args{userID}, dropped: "string is not integer",
			tools: []*flows.Tool{find, tool("get_user_details", object("user_id:integer"), "", "")}},
		{name: "optional copy of an optional field", second: args{userID, {Arg: "tier", Presence: 0.6, Kind: observer.SourceOutput, Pointer: "/tier"}},
			want: flows.Mapping{{Target: "tier", Value: optional(flows.Pointer("/customer/tier"))}, {Target: "user_id", Value: flows.Pointer("/customer/customer_id")}}},
		{name: "copy of a field that is always there, sometimes", second: args{userID, {Arg: "tier", Presence: 0.4, Kind: observer.SourceOutput, Pointer: "/customer_id"}},
			want: flows.Mapping{{Target: "user_id", Value: flows.Pointer("/customer/customer_id")}}, warning: "it is left out"},
		{name: "the same more often than not", second: args{userID, {Arg: "tier", Presence: 0.6, Kind: observer.SourceOutput, Pointer: "/customer_id"}},
			want:    flows.Mapping{{Target: "tier", Value: flows.Pointer("/customer/customer_id")}, {Target: "user_id", Value: flows.Pointer("/customer/customer_id")}},
			warning: "agents pass tier = a value of find_customer to get_user_details only in 60 % of the calls; it is always passed"},
		{name: "optional input", second: args{userID, {Arg: "tier", Presence: 0.6, Kind: observer.SourceInput, Input: "tier"}},
			want: flows.Mapping{{Target: "tier", Value: optional(flows.Key("tier"))}, {Target: "user_id", Value: flows.Pointer("/customer/customer_id")}}},
		{name: "argument that the tool does not declare", second: args{userID, {Arg: "colour", Presence: 1, Kind: observer.SourceConst, Value: "red"}},
			want: flows.Mapping{{Target: "user_id", Value: flows.Pointer("/customer/customer_id")}}, warning: "does not declare"},
		{name: "required argument that nobody passed", second: args{}, want: flows.Mapping{{Target: "user_id", Value: flows.Key("user_id")}}, warning: "became an input"},
		{name: "no arguments are mapped to nothing", second: args{}, tools: []*flows.Tool{find, tool("get_user_details", object("verbose:boolean?"), "", flows.EffectRead)},
			want: flows.Mapping{{Target: "verbose", Value: optional(flows.Key("user"))}}},
		{name: "no arguments and none declared", second: args{}, tools: []*flows.Tool{find, tool("get_user_details", object(), "", flows.EffectRead)}, want: flows.Nothing("user")},
		{name: "no arguments and others refused", second: args{}, want: flows.Nothing("user"),
			tools: []*flows.Tool{find, tool("get_user_details", `{"type":"object","properties":{},"additionalProperties":false}`, "", flows.EffectRead)}},
		{name: "no arguments and no schema", second: args{}, want: flows.Nothing("user"),
			tools: []*flows.Tool{find, tool("get_user_details", "", "", "")}},
		{name: "tools without schemas", second: args{userID}, tools: []*flows.Tool{tool("find_customer", "", "", ""), tool("get_user_details", "", "", "")},
			want: flows.Mapping{{Target: "user_id", Value: flows.Pointer("/customer/customer_id")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pair("find_customer", "get_user_details")
			p.DataFlow.Steps[1].Args = c.second
			tools := c.tools
			if tools == nil {
				tools = []*flows.Tool{find, get}
			}
			candidates, dropped := minedOnly(t, p, nil, tools...)
			if c.dropped != "" {
				assert.Empty(t, candidates)
				require.Len(t, dropped, 1)
				assert.Contains(t, dropped[0], c.dropped)
				return
			}
			require.Len(t, candidates, 1, "%v", dropped)
			assert.Equal(t, c.want, candidates[0].Flow.Steps[1].InputMapping)
			if c.warning == "" {
				assert.Empty(t, candidates[0].Warnings)
			} else {
				require.Len(t, candidates[0].Warnings, 1)
				assert.Contains(t, candidates[0].Warnings[0], c.warning)
			}
		})
	}
}

// TestValuesThatCallersMayNotKnow: a value that callers give or the flow finds, and one without which a flow that
// changes something hands back.
func TestValuesThatCallersMayNotKnow(t *testing.T) {
	find := tool("find_orders", object("email"), `{"type":"object","properties":{"orders":{"type":"array","items":{"type":"string"}}},"required":["orders"]}`, flows.EffectRead)
	cancel := tool("cancel_order", object("order_id", "reason", "note?"), object("state"), flows.EffectWrite)
	p := pair("find_orders", "cancel_order")
	only := "/orders"
	p.DataFlow.Steps[1].Args = []observer.ArgFlow{
		{Arg: "order_id", Presence: 1, Kind: observer.SourceOutput, Step: 0, Pointer: "/orders/0", Given: true, Input: "order_id", Only: &only},
		{Arg: "reason", Presence: 1, Kind: observer.SourceInput, Input: "reason"},
	}
	p.DataFlow.Inputs = append(p.DataFlow.Inputs, observer.Input{Name: "order_id", Step: 1, Arg: "order_id", Origin: "user text"},
		observer.Input{Name: "reason", Step: 1, Arg: "reason", Origin: "user text", Required: true})
	candidates, dropped := minedOnly(t, p, nil, find, cancel)
	require.Len(t, candidates, 1, "%v", dropped)
	f := candidates[0].Flow
	step := f.Steps[1]
	assert.Equal(t, flows.Mapping{
		{Target: "order_id", Value: flows.MappingValue{Kind: flows.MapExpr, Ref: "order_id != null ? order_id : orders.orders[0]"}},
		{Target: "reason", Value: flows.Key("reason")},
	}, step.InputMapping)
	assert.Equal(t, `(order_id != None or orders["orders"] and orders["orders"] == [orders["orders"][0]]) and reason != None`, step.Guard)
	assert.JSONEq(t, `{"type":"object","required":["email"],"additionalProperties":false,"properties":{
		"email":{"type":"string","description":"callers had it from the user's words"},
		"order_id":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"description":"callers had it from the user's words"},
		"reason":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"description":"callers had it from the user's words"}}}`, string(f.InputSchema))

	cancel.Safety = find.Safety
	candidates, _ = minedOnly(t, p, nil, find, cancel)
	require.Len(t, candidates, 1)
	assert.NotContains(t, candidates[0].Flow.Steps[1].Guard, "reason", "it only reads")

	p.DataFlow.Steps[1].Args[0].Input = "order id"
	_, dropped = minedOnly(t, p, nil, find, cancel)
	require.Len(t, dropped, 1)
	assert.Contains(t, dropped[0], "cannot name")
}

func TestUnboundAndUnknownTools(t *testing.T) {
	unbound := *findUser
	unbound.Binding = nil
	candidates, _ := minedOnly(t, pair("find_user_id_by_email", "get_mystery"), nil, &unbound)
	require.Len(t, candidates, 1)
	assert.Equal(t, []string{"find_user_id_by_email", "get_mystery"}, candidates[0].Unbound)
	assert.Equal(t, flows.EffectExternal, candidates[0].SafetyLevel, "unknown counts as external")
	assert.Nil(t, candidates[0].Flow.Safety)
}

// session has one run: calls at the turns given, then model calls.
func session(id string, results []string, turns []int32, llm ...ingest.LLMStep) *ingest.Session {
	run := ingest.AgentRun{LLM: llm}
	for i, turn := range turns {
		run.Calls = append(run.Calls, ingest.Call{Seq: i, Turn: turn, ToolCall: ingest.ToolCall{Tool: "t", Result: json.RawMessage(results[i]), Status: ingest.StatusOK}})
	}
	return &ingest.Session{ID: id, Runs: []ingest.AgentRun{run}}
}

func llm(turn int32, count int32, in, out int64, cost float64, d time.Duration) ingest.LLMStep {
	return ingest.LLMStep{Turn: turn, Duration: d, LLMCall: ingest.LLMCall{Count: count, InputTokens: in, OutputTokens: out, CachedTokens: -1, CostUSD: cost, HasCost: cost >= 0}}
}

func TestSavingsOfRecordedModelCalls(t *testing.T) {
	p := pair("find_user_id_by_email", "get_user_details")
	p.Examples = []observer.Occurrence{{SessionID: "a", Calls: []int{0, 1}}, {SessionID: "b", Calls: []int{1, 2}}, {SessionID: "gone", Calls: []int{0, 1}},
		{SessionID: "c", Calls: []int{0, 1}}, {SessionID: "a", RunIndex: 7, Calls: []int{0, 1}}, {SessionID: "a", Calls: []int{0, 9}}}
	sessions := memory{
		// The call of turn 2 chose to start; that of turn 3 is removed.
		"a": session("a", []string{`"u"`, `{}`}, []int32{2, 3}, llm(2, 1, 900, 90, 0.9, 9*time.Second), llm(3, 1, 100, 10, 0.01, 2*time.Second)),
		"b": session("b", []string{`1`, `"u"`, `{}`}, []int32{1, 4, 5}, llm(5, 1, 300, 30, 0.03, 4*time.Second)),
		// Only totals: 1000 + 200 tokens and 0.5 USD over 10 calls.
		"c": session("c", []string{`"u"`, `{}`}, []int32{0, 1}, llm(-1, 10, 1000, 200, 0.5, 0)),
	}
	candidates, _ := minedOnly(t, p, sessions, findUser, getUser)
	s := candidates[0].Savings
	assert.Equal(t, Interval{Mean: 1, Low: 1, High: 1, Known: 3}, s.LLMCallsPerRun)
	// Tokens 110, 330, 120: mean 560/3, s = 124.231, half = 1.96 s/sqrt(3) = 140.58.
	assert.InDelta(t, 186.667, s.TokensPerRun.Mean, 0.001)
	assert.InDelta(t, 186.667-140.581, s.TokensPerRun.Low, 0.01)
	assert.InDelta(t, 186.667+140.581, s.TokensPerRun.High, 0.01)
	assert.InDelta(t, (0.01+0.03+0.05)/3, s.CostUSDPerRun.Mean, 1e-12)
	assert.Equal(t, 2, s.LatencyMSPerRun.Known)
	assert.InDelta(t, 3000, s.LatencyMSPerRun.Mean, 1e-9)
	assert.Equal(t, "mean over 3 of 40 recorded occurrences of the model calls between the first and the last step; some figures are totals of a run divided by its model calls; recorded for a part of them: latency", s.Basis)
	assert.Equal(t, 1, candidates[0].Flow.Governance.EstimatedModelCallsRemoved)
	assert.Equal(t, int64(187), *candidates[0].Flow.Governance.EstimatedTokenSavings)
}

func TestCallsOfOneTurnSaveNothing(t *testing.T) {
	p := pair("find_user_id_by_email", "get_user_details")
	p.Examples = []observer.Occurrence{{SessionID: "a", Calls: []int{0, 1}}}
	candidates, dropped := minedOnly(t, p, memory{"a": session("a", []string{`"u"`, `{}`}, []int32{2, 2})}, findUser, getUser)
	assert.Empty(t, candidates)
	require.Len(t, dropped, 1)
	assert.Contains(t, dropped[0], "one model call")

	none, ok := measureOccurrence(&session("a", []string{`1`, `2`}, []int32{2, 2}).Runs[0], []int{0, 1}, nil)
	assert.True(t, ok)
	assert.Equal(t, measure{calls: 2, removed: 0, tokens: unknown, cost: unknown, latencyMS: unknown}, none, "no figures recorded, so none is known")
	zero, _ := measureOccurrence(&session("a", []string{`1`, `2`}, []int32{2, 2}, llm(2, 1, 5, 5, 0.1, time.Second)).Runs[0], []int{0, 1}, nil)
	assert.Equal(t, measure{calls: 2}, zero)
}

// A cost that was not recorded comes from the tokens, without the cached ones; a recorded one wins.
func TestCostFromTokens(t *testing.T) {
	price := func(model string) (Price, bool) { return Price{Input: 2, Output: 10, AsOf: "2026-05-01"}, model == "m" }
	step := ingest.LLMStep{LLMCall: ingest.LLMCall{Model: "m", Count: 1, InputTokens: 1000, OutputTokens: 50, CachedTokens: 400}}
	f := stepFigures(&step, price)
	assert.InDelta(t, (600*2+50*10)/1e6, f.cost, 1e-12)
	assert.Equal(t, "2026-05-01", f.pricedAt)
	step.CachedTokens = -1 // unknown: all of the input is priced
	assert.InDelta(t, (1000*2+50*10)/1e6, stepFigures(&step, price).cost, 1e-12)
	step.HasCost, step.CostUSD = true, 0.5
	assert.Equal(t, figures{tokens: 1050, cost: 0.5, latency: unknown}, stepFigures(&step, price))
	step.HasCost, step.Model = false, "unheard of"
	assert.Equal(t, unknown, stepFigures(&step, price).cost)
}

// What the results were decides where they lie, whatever the tool is called.
func TestResultsThatAreNoObjects(t *testing.T) {
	p := pair("find", "get_user_details")
	p.Examples = []observer.Occurrence{{SessionID: "a", Calls: []int{0, 1}}}
	for result, want := range map[string]flows.MappingValue{`"u1"`: flows.Pointer("/find/result"), ` {"id":1}`: flows.Key("find"), `["u1"]`: flows.Pointer("/find/result")} {
		candidates, dropped := minedOnly(t, p, memory{"a": session("a", []string{result, `{}`}, []int32{1, 2})}, tool("find", "", "", ""), tool("get_user_details", "", "", ""))
		require.Len(t, candidates, 1, "%v", dropped)
		assert.Equal(t, want, candidates[0].Flow.Steps[1].InputMapping[0].Value, result)
	}
}

func TestRankIsTheObservers(t *testing.T) {
	often, seldom := pair("find_user_id_by_email", "get_user_details"), pair("find_user_id_by_email", "get_other")
	mined := &observer.Result{Patterns: []observer.Pattern{often, {Tools: []string{"a", "b"}}, seldom}}
	candidates, err := Propose(context.Background(), mined, NewCatalogue([]*flows.Tool{findUser, getUser}, nil), nil, Options{MaxChains: -1})
	require.NoError(t, err)
	require.Len(t, candidates, 2)
	assert.Equal(t, "get_user_details", candidates[0].Flow.Steps[1].ToolName)
	assert.Equal(t, []int{0, 1}, []int{candidates[0].Rank, candidates[1].Rank})
	assert.NotEqual(t, candidates[0].Flow.Name, candidates[1].Flow.Name)
}

// Several flows for the same tools are different things, each known again by what it maps.
func TestVariantsHaveKeysOfTheirOwn(t *testing.T) {
	whole, part, other := pair("find_user_id_by_email", "get_user_details"), pair("find_user_id_by_email", "get_user_details"), pair("find_user_id_by_email", "get_user_details")
	part.Partial, other.Partial = true, true
	other.DataFlow.Steps[1].Args = []observer.ArgFlow{{Arg: "user_id", Presence: 1, Kind: observer.SourceInput, Input: "user_id"}}
	other.DataFlow.Inputs = append(other.DataFlow.Inputs, observer.Input{Name: "user_id", Step: 1, Arg: "user_id", Origin: "user text", Required: true})
	keys := func(patterns ...*observer.Pattern) (out []string) {
		mined := &observer.Result{}
		for _, p := range patterns {
			mined.Patterns = append(mined.Patterns, *p)
		}
		candidates, err := Propose(context.Background(), mined, NewCatalogue([]*flows.Tool{findUser, getUser}, nil), nil, Options{MaxChains: -1})
		require.NoError(t, err)
		names := map[string]bool{}
		for i := range candidates {
			out = append(out, candidates[i].PatternKey)
			names[candidates[i].Flow.Name] = true
		}
		require.Len(t, names, len(candidates))
		return out
	}
	first := keys(&whole, &part, &other)
	assert.Equal(t, "miner/linear/find_user_id_by_email>get_user_details", first[0])
	assert.Regexp(t, `^miner/linear/find_user_id_by_email>get_user_details#[0-9a-f]{8}$`, first[1])
	assert.NotEqual(t, first[1], first[2])
	assert.Equal(t, first[1:], keys(&part, &other), "whatever else is found")
}

func TestSessionErrorsEndThePass(t *testing.T) {
	p := pair("find_user_id_by_email", "get_user_details")
	p.Examples = []observer.Occurrence{{SessionID: "a", Calls: []int{0, 1}}}
	_, err := Propose(context.Background(), &observer.Result{Patterns: []observer.Pattern{p}}, NewCatalogue(nil, nil), failing{}, Options{})
	assert.ErrorIs(t, err, assert.AnError)
}

type failing struct{}

func (failing) Sessions(context.Context, []string, func(*ingest.Session) error) error {
	return assert.AnError
}

// A step that runs once per element of a list that an earlier step returned.
func TestForEachStep(t *testing.T) {
	account := tool("get_account", object("user"), `{"type":"object","properties":{"orders":{"type":"array","items":{"type":"object","properties":{"no":{"type":"string"}},"required":["no"]}}},"required":["orders"]}`, flows.EffectRead)
	order := tool("get_order", object("order_no"), object("total"), flows.EffectRead)
	p := observer.Pattern{Tools: []string{"get_account", "get_order"}, Occurrences: 20, Sessions: 20, SuccessLower: 1, Success: 1, TurnsSaved: 2.5, Score: 50,
		DataFlow: &observer.DataFlow{Sampled: 20, Explained: 18, Applicable: 18,
			Steps: []observer.StepFlow{
				{Args: []observer.ArgFlow{{Arg: "user", Presence: 1, Kind: observer.SourceInput, Input: "user"}}},
				{Each: &observer.EachFlow{Kind: observer.SourceOutput, Pointer: "/orders", Fewer: 2, Evidence: observer.Evidence{Present: 20, Held: 18}},
					Args: []observer.ArgFlow{{Arg: "order_no", Presence: 1, Kind: observer.SourceElement, Pointer: "/no"}}},
			},
			Inputs: []observer.Input{{Name: "user", Arg: "user", Origin: "user text", Required: true}}}}
	candidates, dropped := minedOnly(t, p, nil, account, order)
	require.Empty(t, dropped)
	c := candidates[0]
	assert.Equal(t, "miner/linear/get_account>get_order+", c.PatternKey)
	require.Len(t, c.Warnings, 1)
	assert.Contains(t, c.Warnings[0], "in 2 of 20 occurrences")
	step := c.Flow.Steps[1]
	assert.Equal(t, flows.Pointer("/account/orders"), *step.ForEach)
	assert.Equal(t, flows.Mapping{{Target: "order_no", Value: flows.Pointer("/" + step.As + "/no")}}, step.InputMapping)
	assert.Equal(t, 4, step.MaxConcurrency)
	assert.Contains(t, c.Flow.Returns, flows.MappingEntry{Target: "order", Value: flows.Key("order")})

	p.DataFlow.Steps[1].Each = &observer.EachFlow{Kind: observer.SourceInput, Input: "order_nos"}
	p.DataFlow.Steps[1].Args[0].Pointer = ""
	p.DataFlow.Inputs = append(p.DataFlow.Inputs, observer.Input{Name: "order_nos", Step: 1, Arg: "order_no", List: true, Origin: "user text", Required: true})
	candidates, dropped = minedOnly(t, p, nil, account, order)
	require.Empty(t, dropped)
	assert.Equal(t, flows.Key("order_nos"), *candidates[0].Flow.Steps[1].ForEach)
	assert.JSONEq(t, `{"type":"object","properties":{"user":{"type":"string","description":"callers had it from the user's words"},
		"order_nos":{"type":"array","items":{"type":"string"},"description":"callers had it from the user's words"}},
		"required":["user","order_nos"],"additionalProperties":false}`, string(candidates[0].Flow.InputSchema))

	p.DataFlow.Steps[1].Args[0] = observer.ArgFlow{Arg: "order_no", Presence: 1, Kind: observer.SourceInput, Input: "order_nos"}
	_, dropped = minedOnly(t, p, nil, account, order)
	assert.Equal(t, []string{"get_order runs once per element of a list, but takes nothing from the element"}, dropped)
}

// A choice among one is none: the step is guarded by a predicate that holds for lists of one element.
func TestGuardForTheOnlyElement(t *testing.T) {
	search := tool("search", object("q"), "", flows.EffectRead)
	p := pair("search", "get_user_details")
	p.DataFlow.Steps[0].Args[0].Arg = "q"
	list := "/hits list"
	p.DataFlow.Steps[1].Args[0].Pointer, p.DataFlow.Steps[1].Args[0].Only = "/hits list/0/id", &list
	candidates, dropped := minedOnly(t, p, nil, search, getUser)
	require.Empty(t, dropped)
	step := candidates[0].Flow.Steps[1]
	require.Equal(t, `search["hits list"] and search["hits list"] == [search["hits list"][0]]`, step.Guard)
	guard, err := predicate.Parse(step.Guard)
	require.NoError(t, err)
	for hits, want := range map[string]bool{`[]`: false, `[{"id":"u1"}]`: true, `[{"id":"u1"},{"id":"u2"}]`: false} {
		v, err := value.Decode([]byte(`{"search":{"hits list":` + hits + `}}`))
		require.NoError(t, err)
		got, err := guard.Eval(v.(map[string]any))
		require.NoError(t, err)
		assert.Equal(t, want, got, hits)
	}
}

// Derived values are expressions over what the steps before returned.
func TestDerivedValues(t *testing.T) {
	find := tool("find", object("q"), "", flows.EffectRead)
	v, err := value.Decode([]byte(`{"q":"red","find":{"no":41,"code":"0042","rate":"2.50","text":"Ticket #17: a/b/c","a b":[{"id":"r1","colour":"blue"},{"id":"r2","colour":"red"},{"id":"r3","colour":"grey","mine":true}]}}`))
	require.NoError(t, err)
	context := v.(map[string]any)
	for want, d := range map[any]observer.Derived{
		"41":      {Form: observer.FormText, Parts: []observer.Part{{Place: true, Pointer: "/no"}}},
		int64(42): {Form: observer.FormNumber, Parts: []observer.Part{{Place: true, Pointer: "/code"}}},
		`"41"-r1`: {Form: observer.FormTemplate, Parts: []observer.Part{{Text: `"`}, {Place: true, Pointer: "/no"}, {Text: `"-`}, {Place: true, Pointer: "/a b/0/id"}}},
		"r2":      {Form: observer.FormSelect, List: "/a b", Field: "/colour", Take: "/id", Parts: []observer.Part{{Place: true, Arg: "q"}}},
		"r1":      {Form: observer.FormSelect, List: "/a b", Field: "/colour", Take: "/id", Parts: []observer.Part{{Value: "blue"}}},
		"r3":      {Form: observer.FormSelect, List: "/a b", Field: "/mine", Take: "/id", Parts: []observer.Part{{Value: true}}},
		2.5:       {Form: observer.FormDecimal, Parts: []observer.Part{{Place: true, Pointer: "/rate"}}},
		"17":      {Form: observer.FormPart, After: "#", Before: ":", Parts: []observer.Part{{Place: true, Pointer: "/text"}}},
		"c":       {Form: observer.FormPart, After: "/", Last: true, Parts: []observer.Part{{Place: true, Pointer: "/text"}}},
		"Ticket":  {Form: observer.FormPart, Before: " ", Parts: []observer.Part{{Place: true, Pointer: "/text"}}},
	} {
		p := pair("find", "get_user_details")
		p.DataFlow.Steps[0].Args[0].Arg, p.DataFlow.Steps[0].Args[0].Input, p.DataFlow.Inputs[0].Name, p.DataFlow.Inputs[0].Arg = "q", "q", "q", "q"
		p.DataFlow.Steps[1].Args[0] = observer.ArgFlow{Arg: "user_id", Presence: 1, Kind: observer.SourceDerived, Derived: &d}
		candidates, dropped := minedOnly(t, p, memory{}, find, anyUser)
		require.Empty(t, dropped)
		mapped := candidates[0].Flow.Steps[1].InputMapping[0].Value
		require.Equal(t, flows.MapExpr, mapped.Kind)
		program, err := expr.Compile(mapped.Ref, []expr.Variable{{Name: "find"}, {Name: "q"}})
		require.NoError(t, err, mapped.Ref)
		got, err := program.Eval(context)
		require.NoError(t, err, mapped.Ref)
		assert.Equal(t, want, got, mapped.Ref)
	}
	p := pair("find", "get_user_details")
	p.DataFlow.Steps[1].Args[0] = observer.ArgFlow{Arg: "user_id", Presence: 1, Kind: observer.SourceDerived}
	_, dropped := minedOnly(t, p, nil, find, anyUser)
	assert.Equal(t, []string{"an argument of get_user_details is derived, but nothing says how"}, dropped)
}

// The element that the caller names, in any case; without a name the flow hands back, and a name that none has is an error,
// so that it hands back, too.
func TestElementThatCallersName(t *testing.T) {
	find := tool("find", object("q"), "", flows.EffectRead)
	d := &observer.Derived{Form: observer.FormSelect, Asks: true, List: "/a b", Field: "/colour", Take: "/id"}
	p := pair("find", "get_user_details")
	p.DataFlow.Steps[0].Args[0].Arg, p.DataFlow.Steps[0].Args[0].Input, p.DataFlow.Inputs[0].Name, p.DataFlow.Inputs[0].Arg = "q", "q", "q", "q"
	p.DataFlow.Steps[1].Args[0] = observer.ArgFlow{Arg: "user_id", Presence: 0.9, Kind: observer.SourceDerived, Derived: d, Input: "b_colour"}
	p.DataFlow.Inputs = append(p.DataFlow.Inputs, observer.Input{Name: "b_colour", Step: 1, Arg: "user_id", Origin: "user text"})
	candidates, dropped := minedOnly(t, p, memory{}, find, getUser)
	require.Empty(t, dropped)
	f := candidates[0].Flow
	require.Equal(t, "b_colour != None", f.Steps[1].Guard)
	require.JSONEq(t, `{"type":"object","properties":{"q":{"type":"string","description":"callers had it from the user's words"},"b_colour":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,
		"description":"colour of the one that is meant among what find returns; callers had it from the user's words"}},"required":["q"],"additionalProperties":false}`, string(f.InputSchema))
	program, err := expr.Compile(f.Steps[1].InputMapping[0].Value.Ref, []expr.Variable{{Name: "find"}, {Name: "b_colour"}})
	require.NoError(t, err)
	for name, want := range map[string]any{"RED": "r2", "red": "r2", "blue": "r1", "grey": nil} {
		v, err := value.Decode([]byte(`{"find":{"a b":[{"id":"r0"},{"id":"r1","colour":"blue"},{"id":"r2","colour":"Red"},{"id":"r3","colour":"red"}]},"b_colour":"` + name + `"}`))
		require.NoError(t, err)
		got, err := program.Eval(v.(map[string]any))
		require.Equal(t, want == nil, err != nil, name)
		require.Equal(t, want, got, name)
	}
	p.DataFlow.Steps[1].Args[0].Input = "in"
	_, dropped = minedOnly(t, p, memory{}, find, getUser)
	require.Equal(t, []string{"an argument of get_user_details is told by the input in, which expressions cannot name"}, dropped)
}

// A built value is an expression that gives the recorded object, also after it was stored as JSON.
func TestBuiltValues(t *testing.T) {
	find := tool("find", object("q"), "", flows.EffectRead)
	d := observer.Derived{Form: observer.FormBuilt, Shape: map[string]any{"a b": int64(0), "list": []any{int64(1), map[string]any{"k": int64(2)}, int64(3)}},
		Parts: []observer.Part{{Place: true, Arg: "q"}, {Place: true, Pointer: "/no"}, {Value: "it's \"fixed\""}, {Value: nil}}}
	stored, err := json.Marshal(d)
	require.NoError(t, err)
	var read observer.Derived
	require.NoError(t, json.Unmarshal(stored, &read))
	for _, d := range []observer.Derived{d, read} {
		p := pair("find", "get_user_details")
		p.DataFlow.Steps[0].Args[0].Arg, p.DataFlow.Steps[0].Args[0].Input, p.DataFlow.Inputs[0].Name, p.DataFlow.Inputs[0].Arg = "q", "q", "q", "q"
		p.DataFlow.Steps[1].Args[0] = observer.ArgFlow{Arg: "user_id", Presence: 1, Kind: observer.SourceDerived, Derived: &d}
		candidates, dropped := minedOnly(t, p, memory{}, find, anyUser)
		require.Empty(t, dropped)
		mapped := candidates[0].Flow.Steps[1].InputMapping[0].Value
		program, err := expr.Compile(mapped.Ref, []expr.Variable{{Name: "find"}, {Name: "q"}})
		require.NoError(t, err, mapped.Ref)
		got, err := program.Eval(map[string]any{"q": "red", "find": map[string]any{"no": int64(41)}})
		require.NoError(t, err, mapped.Ref)
		want := map[string]any{"a b": "red", "list": []any{int64(41), map[string]any{"k": "it's \"fixed\""}, nil}}
		assert.True(t, value.Equal(want, got), "%s gives %v", mapped.Ref, got)
	}
	p := pair("find", "get_user_details")
	p.DataFlow.Steps[1].Args[0] = observer.ArgFlow{Arg: "user_id", Presence: 1, Kind: observer.SourceDerived,
		Derived: &observer.Derived{Form: observer.FormBuilt, Shape: []any{int64(7)}, Parts: []observer.Part{{Value: "x"}}}}
	_, dropped := minedOnly(t, p, nil, find, getUser)
	assert.Equal(t, []string{"an argument of get_user_details is built of parts that are not there"}, dropped)
}
