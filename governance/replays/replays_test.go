package replays_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
	"pave/governance/replays"
	"pave/ingest"
	"pave/ingest/assembly"
	"pave/ingest/store/sqlite"
)

const tenant = "default"

// shop are the two tools of the sessions: who has an e-mail address, and the orders of a person.
func shop() map[string]*flows.Tool {
	tool := func(name, in, out string, effects flows.SideEffects) *flows.Tool {
		return &flows.Tool{Name: name, Origin: flows.ToolDeclared,
			InputSchema:  json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string"}},"required":[%q]}`, in, in)),
			OutputSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string"}}}`, out)),
			Safety:       &flows.SafetyContract{SideEffects: effects, Idempotent: true, Source: "declared"}}
	}
	return map[string]*flows.Tool{"find": tool("find", "email", "id", flows.EffectRead), "close": tool("close", "id", "state", flows.EffectWrite)}
}

func closing() *flows.Flow {
	return &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "close_by_email", Version: "0.1.0",
		InputSchema:        json.RawMessage(`{"type":"object","properties":{"email":{"type":"string"}},"required":["email"]}`),
		OnContextCollision: flows.CollisionError, OnFailure: flows.OnFailureHandBack, Status: flows.StatusNeedsReview,
		Steps: []flows.Step{
			{ToolName: "find", InputMapping: flows.Mapping{{Target: "email", Value: flows.Key("email")}}, OutputAs: "found"},
			{ToolName: "close", InputMapping: flows.Mapping{{Target: "id", Value: flows.Pointer("/found/id")}}, OutputAs: "closed"},
		}}
}

// record makes sessions of an agent that finds a person and closes what id says.
func record(t *testing.T, closed ...string) *sqlite.Store {
	t.Helper()
	ctx := t.Context()
	events, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "events.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, events.Close()) })
	recorder := ingest.NewRecorder(events, ingest.RecorderOptions{})
	for i, id := range closed {
		var lines []string
		line := func(text string, args ...any) {
			at := time.Date(2026, 11, 1, 10, i, len(lines), 0, time.UTC).Format(time.RFC3339)
			lines = append(lines, fmt.Sprintf(`{"session_id":"s%d","start":%q,`, i, at)+fmt.Sprintf(text, args...)+"}")
		}
		line(`"event":"user_message","text":"please close u%d@x.org"`, i)
		line(`"tool":"find","turn":0,"call_id":"a%d","args":{"email":"u%d@x.org"},"result":{"id":"c%d"},"status":"ok"`, i, i, i)
		line(`"tool":"close","turn":1,"call_id":"b%d","args":{"id":%q},"result":{"state":"closed"},"status":"ok"`, i, id)
		var batch []ingest.Event
		for e, err := range ingest.DecodeRecords(strings.NewReader(strings.Join(lines, "\n")), ingest.DecodeOptions{Origin: ingest.OriginAgent}) {
			require.NoError(t, err)
			batch = append(batch, e)
		}
		_, err := recorder.Record(ctx, tenant, batch)
		require.NoError(t, err)
	}
	require.NoError(t, recorder.Close())
	_, err = assembly.New(events, assembly.Options{}).Run(ctx, tenant, time.Time{})
	require.NoError(t, err)
	return events
}

func TestCheckCountsWhatTheFlowWouldHaveDone(t *testing.T) {
	checker := replays.Checker{Events: record(t, "c0", "c1", "other", "c3")}
	check, err := checker.Replay(t.Context(), tenant, closing(), shop(), 100)
	require.NoError(t, err)
	require.Equal(t, 4, check.Sessions)
	require.Equal(t, 4, check.Windows)
	require.Equal(t, 3, check.Exact)
	require.Equal(t, 1, check.DivergedCount)
	require.Zero(t, check.BlockedCount)
	require.Equal(t, []governance.ReplayWindow{{SessionID: "s2", Calls: []int{0, 1},
		Faults: []governance.ReplayFault{{Step: 1, Arg: "id", Reason: "wrong"}}}}, check.Diverged)
	require.Equal(t, 1, check.DestructiveMismatches, "the run would have closed another thing")
	require.Len(t, check.Golden, 3)
	g := check.Golden[2]
	require.Equal(t, "s3", g.SessionID)
	require.JSONEq(t, `{"email":"u3@x.org"}`, string(g.Input))
	require.Equal(t, "succeeded", g.Status)
	require.JSONEq(t, `{"email":"u3@x.org","found":{"id":"c3"},"closed":{"state":"closed"}}`, string(g.Output))
	require.Equal(t, "close", g.Calls[1].Tool)
	require.JSONEq(t, `{"id":"c3"}`, string(g.Calls[1].Args))
	require.JSONEq(t, `{"state":"closed"}`, string(g.Calls[1].Result))

	few, err := checker.Replay(t.Context(), tenant, closing(), shop(), 2)
	require.NoError(t, err)
	require.Equal(t, 2, few.Sessions)
	require.Equal(t, 1, few.Exact)
}

func TestCheckWithoutToolsProvesNothing(t *testing.T) {
	checker := replays.Checker{Events: record(t, "c0")}
	check, err := checker.Replay(t.Context(), tenant, closing(), nil, 100)
	require.NoError(t, err)
	require.Equal(t, 1, check.Windows)
	require.Empty(t, check.Golden)
	alone := closing()
	alone.Steps[0].ToolName = "lookup"
	check, err = checker.Replay(t.Context(), tenant, alone, nil, 100)
	require.NoError(t, err)
	require.Zero(t, check.Windows)
	require.Contains(t, check.Note, "lookup")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = checker.Replay(ctx, tenant, closing(), nil, 100)
	require.ErrorIs(t, err, context.Canceled)
}
