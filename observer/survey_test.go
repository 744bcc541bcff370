package observer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
	"pave/observer"
)

func surveyCall(tool string, flags ingest.CallFlag, at time.Time) ingest.Call {
	return ingest.Call{Flags: flags, Start: at, ToolCall: ingest.ToolCall{Tool: tool}}
}

// The figures were counted by hand from the sessions written here.
func TestSurveyCountsWhatFollowsWhat(t *testing.T) {
	day := time.Date(2026, 11, 3, 23, 0, 0, 0, time.UTC)
	sessions := []ingest.Session{
		{ID: "one", Runs: []ingest.AgentRun{{Agent: "north", Calls: []ingest.Call{
			surveyCall("a", ingest.FlagBreak, day),
			surveyCall("b", 0, day),
			surveyCall("b", ingest.FlagRepeat, day), // an exact repeat is no step
			surveyCall("c", 0, day),
			surveyCall("a", ingest.FlagBreak, day), // a new stretch: c is not followed by a
			surveyCall("b", 0, day),
			surveyCall("flow_step", ingest.FlagNotAgent, day), // a flow's call is no agent's
			surveyCall("c", ingest.FlagBreak, day),
		}}}},
		{ID: "two", Runs: []ingest.AgentRun{
			{Agent: "south", Calls: []ingest.Call{surveyCall("a", ingest.FlagBreak, day.Add(2*time.Hour)), surveyCall("c", 0, day)}},
			{Agent: "south", Calls: []ingest.Call{surveyCall("b", ingest.FlagBreak, day)}},
		}},
	}
	got, err := observer.Look(t.Context(), observer.NewMemory(sessions), store.SequenceFilter{})
	require.NoError(t, err)
	require.EqualValues(t, 2, got.Sessions)
	require.EqualValues(t, 10, got.Calls, "repeats count as calls, the flow's step does not")
	require.Equal(t, []observer.SurveyTool{
		{Name: "a", Calls: 3, Starts: 3, Ends: 0},
		{Name: "b", Calls: 3, Starts: 1, Ends: 2},
		{Name: "c", Calls: 3, Starts: 1, Ends: 3},
	}, got.Tools)
	require.Equal(t, []observer.SurveyEdge{
		{From: "a", To: "b", Count: 2, Confidence: 2.0 / 3},
		{From: "a", To: "c", Count: 1, Confidence: 1.0 / 3},
		{From: "b", To: "c", Count: 1, Confidence: 1.0 / 3},
	}, got.Edges)
	active, err := observer.CountActivity(t.Context(), observer.NewMemory(sessions), store.SequenceFilter{})
	require.NoError(t, err)
	require.EqualValues(t, 2, active.Sessions)
	require.EqualValues(t, 10, active.Calls)
	require.Equal(t, []observer.ActivityDay{
		{Day: time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC), Agent: "north", Calls: 7, Sessions: 1},
		{Day: time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC), Agent: "south", Calls: 1, Sessions: 0},
		{Day: time.Date(2026, 11, 4, 0, 0, 0, 0, time.UTC), Agent: "south", Calls: 2, Sessions: 1},
	}, active.Days)
	require.Equal(t, []observer.ActivityTools{
		{Day: time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC), Tools: 3},
		{Day: time.Date(2026, 11, 4, 0, 0, 0, 0, time.UTC), Tools: 2},
	}, active.Tools)

	one, err := observer.Look(t.Context(), observer.NewMemory(sessions), store.SequenceFilter{Agent: "south"})
	require.NoError(t, err)
	require.EqualValues(t, 1, one.Sessions)
	require.Equal(t, []observer.SurveyEdge{{From: "a", To: "c", Count: 1, Confidence: 1}}, one.Edges)
}

func TestSurveyOfNothing(t *testing.T) {
	got, err := observer.Look(t.Context(), observer.NewMemory(nil), store.SequenceFilter{})
	require.NoError(t, err)
	require.Equal(t, &observer.Survey{}, got)
	active, err := observer.CountActivity(t.Context(), observer.NewMemory(nil), store.SequenceFilter{})
	require.NoError(t, err)
	require.Equal(t, &observer.Activity{}, active)
}
