package watch_test

import (
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

// walksOf records sessions of a user text and calls, each tool with the id that it is given, and compares them with a flow.
func walksOf(t *testing.T, flow *flows.Flow, sessions ...[]string) []governance.Walks {
	t.Helper()
	ctx := t.Context()
	events, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "events.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, events.Close()) })
	g := &gate{flow: flow}
	w := watch.New(g, events, slog.New(slog.DiscardHandler))
	assembler := assembly.New(events, assembly.Options{Wrote: w.Seen})
	recorder := ingest.NewRecorder(events, ingest.RecorderOptions{})
	t.Cleanup(func() { require.NoError(t, recorder.Close()) })
	at := since.Add(time.Minute).Format(time.RFC3339)
	for n, s := range sessions {
		lines := []string{fmt.Sprintf(`{"session_id":"s%d","start":%q,"event":"user_message","text":%q}`, n, at, s[0])}
		for turn, call := range s[1:] {
			tool, id, _ := strings.Cut(call, " ")
			lines = append(lines, fmt.Sprintf(`{"session_id":"s%d","start":%q,"agent":"desk","tool":%q,"turn":%d,"call_id":"%d-%d","args":{"id":%q},"result":{},"status":"ok"}`,
				n, at, tool, turn, n, turn, id))
		}
		var list []ingest.Event
		for e, err := range ingest.DecodeRecords(strings.NewReader(strings.Join(lines, "\n")), ingest.DecodeOptions{Origin: ingest.OriginAgent}) {
			require.NoError(t, err)
			list = append(list, e)
		}
		_, err := recorder.Record(ctx, "default", list)
		require.NoError(t, err)
	}
	_, err = assembler.Run(ctx, "default", time.Time{})
	require.NoError(t, err)
	require.NoError(t, w.Once(ctx, "default"))
	return g.walks
}

// TestWalksThatAreGiven: of a flow that takes whole calls a walk is what its caller could have given, two calls at least. A
// call alone, and one that nobody could have given before it, is none: the flow would have saved nothing.
func TestWalksThatAreGiven(t *testing.T) {
	flow := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "open_then_close_batch", Version: "1.0.0",
		InputSchema: json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{},"close_call":{"default":null,"anyOf":[{"type":"object","properties":{"id":{}},"required":["id"]},{"type":"null"}]}}}`),
		Steps: []flows.Step{
			{ToolName: "open", InputMapping: flows.Mapping{{Target: "id", Value: flows.Key("id")}}, OutputAs: "opened"},
			{ToolName: "close", Guard: "close_call != None", InputMapping: flows.Mapping{{Target: "id", Value: flows.Pointer("/close_call/id")}}, OutputAs: "closed"},
		}}
	walks := walksOf(t, flow,
		[]string{"open a1 and close b1", "open a1", "close b1"},
		[]string{"open a2", "open a2", "close b2"}, // nobody had said b2
		[]string{"open a3", "open a3"},
		[]string{"open a4", "open a4", "other x"},
		[]string{"close b5", "close b5"})
	require.Len(t, walks, 2)
	require.Equal(t, 4, walks[0].Sessions, "with its first tool")
	require.Equal(t, []bool{true}, walks[0].Exact)
	require.Equal(t, map[int64]governance.DayWalks{since.Unix() / 86400: {Walks: 1, Exact: 1, Missed: 1, Calls: 2}}, walks[0].Days)
}

// TestWalksOfLists: three calls in a row are one walk of a flow that takes a list of calls, not one from each of them.
func TestWalksOfLists(t *testing.T) {
	list := flows.Key("close_calls")
	flow := &flows.Flow{FormatVersion: flows.FormatVersion11, Type: flows.TypeFlow, Name: "close_batch", Version: "1.0.0",
		InputSchema: json.RawMessage(`{"type":"object","required":["close_calls"],"properties":{"close_calls":{"type":"array","items":{"type":"object","properties":{"id":{}},"required":["id"]}}}}`),
		Steps:       []flows.Step{{ToolName: "close", ForEach: &list, As: "close_call", InputMapping: flows.Mapping{{Target: "id", Value: flows.Pointer("/close_call/id")}}, OutputAs: "closed"}}}
	walks := walksOf(t, flow,
		[]string{"close b1, b2 and b3", "close b1", "close b2", "close b3"},
		[]string{"close b4", "close b4"},
		[]string{"close b5 and b6", "close b5", "close b6", "other x", "close b5", "close b6"})
	require.Len(t, walks, 2)
	require.Equal(t, []bool{true, true, true}, walks[0].Exact)
	require.Equal(t, map[int64]governance.DayWalks{since.Unix() / 86400: {Walks: 3, Exact: 3, Missed: 3, Calls: 7}}, walks[0].Days)
}
