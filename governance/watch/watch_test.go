package watch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/governance"
	"pave/governance/watch"
	"pave/ingest"
	"pave/ingest/assembly"
	"pave/ingest/store/sqlite"
)

var since = time.Date(2026, 11, 1, 10, 5, 0, 0, time.UTC)

// gate watches one flow and keeps what it is told.
type gate struct {
	flow  *flows.Flow
	walks []governance.Walks
	asked int
}

func (g *gate) ShadowTargets(context.Context, string) ([]governance.ShadowTarget, error) {
	older := *g.flow
	older.Version = "0.9.0"
	return []governance.ShadowTarget{{Object: "flow/close_by_email@1.0.0", Active: true, Current: true, Digest: "d", Flow: g.flow, Since: since},
		{Object: "flow/close_by_email@0.9.0", Active: true, Digest: "c", Flow: &older, Since: since}}, nil
}

func (g *gate) RecordWalks(_ context.Context, _ string, all []governance.Walks) error {
	g.walks = append(g.walks, all...)
	return nil
}

func (g *gate) Watch(context.Context, string) ([]string, error) {
	g.asked++
	return nil, nil
}

// Live sessions from the target's time on are compared once each; the day and the calls of every walk are counted.
func TestLiveSessionsAreCompared(t *testing.T) {
	ctx := t.Context()
	flow := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "close_by_email", Version: "1.0.0",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"email":{"type":"string"}},"required":["email"]}`),
		Steps: []flows.Step{
			{ToolName: "find", InputMapping: flows.Mapping{{Target: "email", Value: flows.Key("email")}}, OutputAs: "found"},
			{ToolName: "close", InputMapping: flows.Mapping{{Target: "id", Value: flows.Pointer("/found/id")}}, OutputAs: "closed"},
		}}
	events, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "events.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, events.Close()) })
	g := &gate{flow: flow}
	w := watch.New(g, events, slog.New(slog.DiscardHandler))
	assembler := assembly.New(events, assembly.Options{Wrote: w.Seen})
	recorder := ingest.NewRecorder(events, ingest.RecorderOptions{})
	record := func(n int, closed string) {
		at := time.Date(2026, 11, 1, 10, n, 0, 0, time.UTC).Format(time.RFC3339)
		text := fmt.Sprintf(`{"session_id":"s%[1]d","start":%[2]q,"event":"user_message","text":"close u%[1]d@x.org"}
{"session_id":"s%[1]d","start":%[2]q,"agent":"desk-%[4]d","tool":"find","turn":0,"call_id":"a%[1]d","args":{"email":"u%[1]d@x.org"},"result":{"id":"c%[1]d"},"status":"ok"}
{"session_id":"s%[1]d","start":%[2]q,"agent":"desk-%[4]d","tool":"close","turn":1,"call_id":"b%[1]d","args":{"id":%[3]q},"result":{},"status":"ok"}`, n, at, closed, n%2)
		var list []ingest.Event
		for e, err := range ingest.DecodeRecords(strings.NewReader(text), ingest.DecodeOptions{Origin: ingest.OriginAgent}) {
			require.NoError(t, err)
			list = append(list, e)
		}
		_, err := recorder.Record(ctx, "default", list)
		require.NoError(t, err)
		_, err = assembler.Run(ctx, "default", time.Time{})
		require.NoError(t, err)
	}
	record(4, "c4") // before the time of the target
	record(5, "c5")
	record(6, "other")
	record(7, "c7")
	require.NoError(t, w.Once(ctx, "default"))
	require.Len(t, g.walks, 2)
	got := g.walks[0]
	require.Equal(t, 3, got.Sessions)
	require.Len(t, got.Exact, 3)
	exact := 0
	for _, is := range got.Exact {
		if is {
			exact++
		}
	}
	require.Equal(t, 2, exact)
	day := since.Unix() / 86400
	require.Equal(t, map[governance.AgentDay]governance.AgentWalks{{Agent: "desk-0", Day: day}: {Walks: 1}, {Agent: "desk-1", Day: day}: {Walks: 2}}, got.Agents)
	require.Equal(t, map[int64]governance.DayWalks{day: {Walks: 3, Exact: 2, Missed: 3, Calls: 6}}, got.Days)
	beside := g.walks[1]
	require.Equal(t, map[int64]governance.DayWalks{day: {Walks: 3, Exact: 2}}, beside.Days, "a version that is not offered is compared, and misses no walk")
	require.Empty(t, beside.Agents)

	w.Seen("default", []string{"s5", "s6"})
	require.NoError(t, w.Once(ctx, "default"))
	require.Len(t, g.walks, 2, "late events of a session do not count it again")
	record(8, "c8")
	require.NoError(t, w.Once(ctx, "default"))
	require.Len(t, g.walks, 4)
	require.Equal(t, 3, g.asked)

	// The flow's own calls are counted of the agent that made them, by whatever name its telemetry has for the tool.
	var calls []ingest.Event
	for i, tool := range []string{"close_by_email", "mcp__pave__close_by_email", "reclose_by_email", "close_by_email_mcp_pave", "close_by_email_twice"} {
		text := fmt.Sprintf(`{"session_id":"f","start":"2026-11-01T11:00:00Z","agent":"paved","tool":%q,"turn":%d,"call_id":"f%d","args":{},"result":{},"status":"ok"}`, tool, i, i)
		for e, err := range ingest.DecodeRecords(strings.NewReader(text), ingest.DecodeOptions{Origin: ingest.OriginFlowCall}) {
			require.NoError(t, err)
			calls = append(calls, e)
		}
	}
	_, err = recorder.Record(ctx, "default", calls)
	require.NoError(t, err)
	_, err = assembler.Run(ctx, "default", time.Time{})
	require.NoError(t, err)
	require.NoError(t, w.Once(ctx, "default"))
	require.Len(t, g.walks, 5)
	require.Equal(t, map[governance.AgentDay]governance.AgentWalks{{Agent: "paved", Day: day}: {FlowCalls: 3}}, g.walks[4].Agents)
	require.Zero(t, g.walks[4].Sessions)
	require.NoError(t, recorder.Close())
}
