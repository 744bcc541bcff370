package storetest

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pave/ingest"
	"pave/ingest/store"
)

// hostileTexts are what agents and attackers put where a name was expected.
var hostileTexts = []string{
	"nul\x00inside", "\x00", "bad utf-8 \xff\xfe\x80", "lone \xed\xa0\x80 surrogate", "'; DROP TABLE events; --", `"quoted\"`,
	"tab\tnew\nline\r", "%s%d %n", "{x:String}", "?", "ünïcödé 漢字 🚀", "\u202eright to left", "e\u0301", "\u00e9", "Case", "case", " space ",
	"\\N", "NULL", strings.Repeat("long", 5000),
}

func testHostile(t *testing.T, s suite) {
	s.each(t, map[string]func(*testing.T, store.Store){
		"a session without end": func(t *testing.T, st store.Store) {
			endless := make([]ingest.Event, store.MaxSessionEvents+10)
			for i := range endless {
				endless[i] = ToolCall("session:endless", "endless", i)
			}
			for batch := range slices.Chunk(endless, 10_000) {
				put(t, st, batch...)
			}
			var heavy []ingest.Event
			for i := range 10 {
				e := ToolCall("session:heavy", "heavy", i)
				e.Call.Result = json.RawMessage(`"` + strings.Repeat("x", store.MaxSessionBytes/8) + `"`)
				heavy = append(heavy, e)
				put(t, st, e)
			}
			giant := ToolCall("session:giant", "giant", 1)
			giant.Call.Result = json.RawMessage(`"` + strings.Repeat("x", store.MaxSessionBytes) + `"`)
			plain := ToolCall("session:plain", "plain", 1)
			put(t, st, giant, plain)
			got := eventsOf(t, st, tenant, "endless", "heavy", "giant", "plain")
			require.Len(t, got["endless"], store.MaxSessionEvents)
			require.Equal(t, endless[store.MaxSessionEvents-1], got["endless"][store.MaxSessionEvents-1])
			require.Len(t, got["heavy"], 7, "the eighth goes beyond the limit, with its quotes and arguments")
			require.Equal(t, heavy[0].Identity, got["heavy"][0].Identity)
			require.Len(t, got["giant"], 1, "one event is read whatever its size")
			require.Equal(t, []ingest.Event{plain}, got["plain"])
		},
		"any text in any field": func(t *testing.T, st store.Store) {
			want := map[string][]ingest.Event{}
			var ids []string
			var events []ingest.Event
			for i, text := range hostileTexts {
				e := ToolCall("trace:"+text, text, i)
				e.TraceID, e.SpanID, e.ParentSpanID, e.RunID, e.Agent = text, text, text, text, text
				e.Source, e.OriginKind, e.Identity = text, ingest.OriginKind(text), text
				e.Metadata, e.Call.Args, e.Call.Result = json.RawMessage(text), json.RawMessage(text), json.RawMessage(text)
				e.Call.Tool, e.Call.CallID, e.Call.Error, e.Call.Status = text, text, text, ingest.Status(text)
				m := LLMCall("trace:"+text, "", i)
				m.LLM.Model = text
				u := UserMessage("trace:"+text, "", i)
				u.User.Text = text
				events = append(events, e, m, u)
				want[text] = []ingest.Event{e, m, u}
				ids = append(ids, text)
			}
			put(t, st, events...)
			require.Equal(t, want, eventsOf(t, st, tenant, ids...))
			require.ElementsMatch(t, ids, keys(dirtyOf(t, st, tenant)))
			mustAssemble(t, st)
			require.Empty(t, dirtyIDs(t, st))
			got := map[string]string{}
			for _, r := range sequencesOf(t, st, tenant, store.SequenceFilter{}) {
				require.Len(t, r.Tools, 1)
				got[r.SessionID] = r.Tools[0]
			}
			require.Len(t, got, len(ids))
			for _, id := range ids {
				require.Equal(t, id, got[id])
				page, err := st.Sessions(t.Context(), tenant, store.SessionFilter{Tool: id})
				require.NoError(t, err)
				require.Len(t, page.Items, 1, "%q", id)
				require.Equal(t, id, page.Items[0].ID)
			}
		},
		"any text in tenants, sessions and runs": func(t *testing.T, st store.Store) {
			for i, text := range hostileTexts {
				e := ToolCall("trace:a", "", i+1)
				require.NoError(t, st.Append(t.Context(), text, []ingest.Event{e}))
				r := row("s", 0, i+1, text)
				r.Summary.Agents, r.Summary.Sources = []string{text, "x"}, []string{text}
				r.Sequences[0].Agent = text
				require.NoError(t, st.PutSessions(t.Context(), text, []store.SessionRow{r}))
				fr := run(text, text, text, text, i+1)
				fr.Caller, fr.ErrorCode, fr.Result = text, text, json.RawMessage(text)
				require.NoError(t, st.PutRun(t.Context(), text, fr))
			}
			for i, text := range hostileTexts {
				require.Equal(t, []ingest.Event{ToolCall("trace:a", "", i+1)}, eventsOf(t, st, text, "trace:a")["trace:a"])
				page, err := st.Sessions(t.Context(), text, store.SessionFilter{Agent: text, Tool: text})
				require.NoError(t, err)
				require.Len(t, page.Items, 1, "%q", text)
				require.Equal(t, []string{text, "x"}, page.Items[0].Agents)
				require.Len(t, sequencesOf(t, st, text, store.SequenceFilter{Agent: text}), 1)
				runs, err := st.Runs(t.Context(), text, store.RunFilter{Flow: text, Status: text, ID: text})
				require.NoError(t, err)
				require.Len(t, runs.Items, 1)
				require.Equal(t, text, runs.Items[0].Caller)
				require.Equal(t, json.RawMessage(text), runs.Items[0].Result)
			}
		},
		"numbers and times at their ends": func(t *testing.T, st store.Store) {
			a := ToolCall("trace:a", "", 1)
			a.Seq, a.HasSeq, a.Turn, a.HasTurn, a.Duration = math.MaxInt64, true, math.MaxInt32, true, math.MaxInt64
			b := LLMCall("trace:a", "", 2)
			b.Seq, b.HasSeq, b.Turn, b.HasTurn, b.Duration = math.MinInt64, true, math.MinInt32, true, -1
			*b.LLM = ingest.LLMCall{
				Count: math.MaxInt32, InputTokens: math.MaxInt64, OutputTokens: math.MinInt64, CachedTokens: -1,
				CostUSD: math.SmallestNonzeroFloat64, HasCost: true,
			}
			c := Span("trace:a", "", 3)
			c.Start = time.Date(2261, 12, 31, 23, 59, 59, 999999999, time.UTC)
			d := Span("trace:a", "", 4)
			d.Start = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
			put(t, st, a, b, c, d)
			require.Equal(t, []ingest.Event{a, b, c, d}, eventsOf(t, st, tenant, "trace:a")["trace:a"])
			// Another zone is the same instant.
			e := Span("trace:b", "", 5)
			e.Start = e.Start.In(time.FixedZone("east", 5*3600+30*60))
			put(t, st, e)
			got := eventsOf(t, st, tenant, "trace:b")["trace:b"][0]
			require.True(t, e.Start.Equal(got.Start))
			require.Equal(t, time.UTC, got.Start.Location())
		},
		"huge payloads": func(t *testing.T, st store.Store) {
			var want []ingest.Event
			for i, size := range []int{0, 1, 1 << 10, 256<<10 - 1, 256 << 10, 256<<10 + 1, 3 << 20, 5} {
				e := ToolCall("trace:a", "", i+1)
				e.Call.Args = incompressible(size)
				e.Call.Result = json.RawMessage(`"` + strings.Repeat("a", size) + `"`)
				want = append(want, e)
			}
			put(t, st, want...)
			got := eventsOf(t, st, tenant, "trace:a")["trace:a"]
			require.Len(t, got, len(want))
			for i := range want {
				require.True(t, bytes.Equal(want[i].Call.Args, got[i].Call.Args), i)
				require.True(t, bytes.Equal(want[i].Call.Result, got[i].Call.Result), i)
				require.Equal(t, want[i].Identity, got[i].Identity)
			}
		},
	})
}

// incompressible is a JSON string of size bytes from a linear congruential generator; nil for 0.
func incompressible(size int) json.RawMessage {
	if size == 0 {
		return nil
	}
	b := make([]byte, size)
	state := uint64(size)
	for i := range b {
		state = state*6364136223846793005 + 1442695040888963407
		b[i] = ' ' + byte(state>>57)%64 // printable
		if b[i] == '"' || b[i] == '\\' {
			b[i] = 'x'
		}
	}
	if size > 1 {
		b[0], b[size-1] = '"', '"'
	}
	return b
}

func keys(m map[string]int64) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}
