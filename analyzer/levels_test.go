package analyzer

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/executor"
	"pave/flows"
	"pave/observer"
)

// fan is a pattern of four tools: the second and the third take the user of the first, the fourth what both gave.
func fan() observer.Pattern {
	from := func(arg string, step int, pointer string) observer.ArgFlow {
		return observer.ArgFlow{Arg: arg, Presence: 1, Kind: observer.SourceOutput, Step: step, Pointer: pointer}
	}
	return observer.Pattern{Tools: []string{"find", "orders", "refunds", "summary"}, Occurrences: 40, Sessions: 30, TurnsSaved: 3, Score: 90,
		DataFlow: &observer.DataFlow{Sampled: 40, Explained: 40, Steps: []observer.StepFlow{
			{Args: []observer.ArgFlow{{Arg: "email", Presence: 1, Kind: observer.SourceInput, Input: "email"}}},
			{Args: []observer.ArgFlow{from("user", 0, "/user")}},
			{Args: []observer.ArgFlow{from("user", 0, "/user")}},
			{Args: []observer.ArgFlow{from("order", 1, "/order"), from("refund", 2, "/refund")}},
		}, Inputs: []observer.Input{{Name: "email", Arg: "email", Origin: "user text", Required: true}}},
	}
}

func fanTools(middle flows.SideEffects) []*flows.Tool {
	return []*flows.Tool{
		tool("find", object("email"), object("user"), flows.EffectRead),
		tool("orders", object("user"), object("order"), middle),
		tool("refunds", object("user"), object("refund"), flows.EffectRead),
		tool("summary", object("order", "refund"), object("text"), flows.EffectWrite),
	}
}

func dependsOn(f *flows.Flow) map[string][]string {
	out := map[string][]string{}
	for i := range f.Steps {
		out[f.Steps[i].ToolName] = f.Steps[i].DependsOn
	}
	return out
}

func TestIndependentStepsBecomeLevels(t *testing.T) {
	candidates, dropped := minedOnly(t, fan(), nil, fanTools(flows.EffectRead)...)
	require.Empty(t, dropped)
	f := candidates[0].Flow
	require.Equal(t, flows.TypeDAGFlow, f.Type)
	ids := map[string]string{}
	for i := range f.Steps {
		ids[f.Steps[i].ToolName] = f.Steps[i].StepID
	}
	assert.Equal(t, map[string][]string{"find": nil, "orders": {ids["find"]}, "refunds": {ids["find"]}, "summary": {ids["orders"], ids["refunds"]}}, dependsOn(f))
	assert.Equal(t, "miner/linear/find>orders>refunds>summary", candidates[0].PatternKey, "the same path, whatever is known of its tools")
}

// Effects keep the order in which they were seen; so do tools of which nothing is known.
func TestEffectsKeepTheirOrder(t *testing.T) {
	for _, effects := range []flows.SideEffects{flows.EffectWrite, flows.EffectExternal, flows.EffectDestructive, ""} {
		candidates, _ := minedOnly(t, fan(), nil, fanTools(effects)...)
		f := candidates[0].Flow
		require.Equal(t, flows.TypeFlow, f.Type, effects)
		require.Equal(t, map[string][]string{"find": nil, "orders": nil, "refunds": nil, "summary": nil}, dependsOn(f))
	}
}

// echo answers each field of a tool's result with the tool's name and what it was given, and notes which calls ran at
// a time.
type echo struct {
	mu      sync.Mutex
	running int
	most    int
	meet    chan struct{} // orders and refunds wait for each other here
}

func (e *echo) Invoke(ctx context.Context, tool *flows.Tool, input map[string]any, _ executor.CallInfo) (any, error) {
	e.mu.Lock()
	e.running++
	e.most = max(e.most, e.running)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.running--
		e.mu.Unlock()
	}()
	switch tool.Name {
	case "find":
		return map[string]any{"user": "user of " + input["email"].(string)}, nil
	case "orders", "refunds":
		select {
		case e.meet <- struct{}{}:
		case <-e.meet:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return map[string]any{map[string]string{"orders": "order", "refunds": "refund"}[tool.Name]: tool.Name + " of " + input["user"].(string)}, nil
	}
	return map[string]any{"text": input["order"].(string) + ", " + input["refund"].(string)}, nil
}

// The draft compiles and runs, its independent steps side by side: each of the two can only end when the other runs.
func TestDraftedLevelsRun(t *testing.T) {
	tools := fanTools(flows.EffectRead)
	candidates, _ := minedOnly(t, fan(), nil, tools...)
	set := executor.Tools{}
	for _, known := range tools {
		set[known.Name] = known
	}
	plan, found := executor.Compile(candidates[0].Flow, set, executor.CompileOptions{})
	require.NotNil(t, plan, "%v", found)
	e := &echo{meet: make(chan struct{})}
	ids := 0
	engine := executor.New(executor.Options{Invoker: e, Now: time.Now, NewID: func() string { ids++; return strconv.Itoa(ids) }})
	result := engine.Run(t.Context(), plan, executor.RunInput{Input: map[string]any{"email": "ann"}})
	require.True(t, result.Success, "%+v", result)
	require.Equal(t, 2, e.most)
	require.Equal(t, map[string]any{"text": "orders of user of ann, refunds of user of ann"}, result.FinalOutput["summary"])
}
