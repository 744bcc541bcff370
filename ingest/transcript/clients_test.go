package transcript

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pave/ingest"
)

// TestClients imports what real frameworks sent. Every one played the same scenario, so that what is right is known beforehand.
func TestClients(t *testing.T) {
	type want struct {
		tool, args, result string // result "" is none
		id                 string
		turn               int32
		status             ingest.Status
	}
	const found, sunny = `{"orders":[{"id":"o-1","customer":"Zoë \"Z\" 李","total":12.5}]}`, `"Sunny in Paris"`
	// scenario with the results as a client tells them; refused is that of the refunds.
	scenario := func(sunny, refused string) []want {
		return []want{
			{"search_orders", `{"customer":"Zoë \"Z\" 李"}`, found, "call_1", 1, ingest.StatusOK},
			{"get_weather", `{"city":"Paris"}`, sunny, "call_2", 1, ingest.StatusOK},
			{"refund", `{"order":"o-1","amount":12.5}`, refused, "call_3", 2, ingest.StatusError},
			{"refund", `{"order":"o-1","amount":12.5}`, refused, "call_4", 3, ingest.StatusError},
		}
	}
	change := func(calls []want, change func(i int, c *want)) []want {
		for i := range calls {
			change(i, &calls[i])
		}
		return calls
	}
	noID := func(_ int, c *want) { c.id = "" }
	for name, c := range map[string]struct {
		session       string // "" is a trace
		agent, source string
		calls         []want
		models, users int
	}{
		"adk-js": {"sess-A", "support", "otlp/adk", change(scenario(`{"result":"Sunny in Paris"}`, ""), func(_ int, c *want) {
			if c.tool == "refund" { // nothing but the name is on its span
				c.args, c.id = "", ""
			}
		}), 4, 1},
		"adk-python":            {"sess-A", "support", "otlp/adk", scenario(`{"result":"Sunny in Paris"}`, `{"error":"payment gateway timeout"}`), 4, 1},
		"adk-python-legacy":     {"sess-A", "support", "otlp/adk", change(scenario(`{"result":"Sunny in Paris"}`, "")[:3], func(i int, c *want) { c.id = []string{"call_1", "call_2", ""}[i] }), 2, 1},
		"agent-framework":       {"", "support", "otlp/genai", scenario(sunny, ""), 4, 1},
		"langgraph-openllmetry": {"sess-A", "LangGraph", "otlp/genai", change(scenario(sunny, ""), noID), 4, 1},
		"llama-index":           {"sess-A", "", "otlp/openinference", change(scenario(sunny, ""), noID), 4, 1},
		"mastra":                {"sess-A", "support", "otlp/mastra", scenario(sunny, ""), 4, 1},
		"openllmetry-js":        {"sess-A", "support", "otlp/traceloop", change(scenario(sunny, "")[:2], noID), 0, 0},
		"semantic-kernel":       {"", "", "otlp/genai", change(scenario(sunny, ""), func(_ int, c *want) { c.tool = "Shop-" + c.tool }), 4, 0},
		"strands-python":        {"sess-A", "support", "otlp/strands", scenario(sunny, `"Error: RuntimeError - payment gateway timeout"`), 4, 1},
		"crewai": {"sess-A", "support", "otlp/openinference", func() []want { // each refund is tried three times, and each call is a turn
			s := change(scenario(sunny, ""), noID)
			s = append(s[:3:3], s[2], s[2], s[3], s[3], s[3])
			return change(s, func(i int, c *want) { c.turn = int32(i) + 1 })
		}(), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			events, report := load(t, Options{}, filepath.Join(root(t), "testdata", "clients", name))
			require.Empty(t, report.Rejected)
			for range 2 {
				sessions := ingest.AssembleAll("t", slices.Clone(events), ingest.AssembleOptions{})
				require.Len(t, sessions, 1)
				s := sessions[0]
				require.Zero(t, s.Conflicts)
				if c.session == "" {
					require.Regexp(t, "^trace:[0-9a-f]{32}$", s.ID)
				} else {
					require.Equal(t, c.session, s.ID)
				}
				require.Len(t, s.Runs, 1)
				run := s.Runs[0]
				require.Equal(t, c.agent, run.Agent)
				require.Len(t, run.LLM, c.models)
				require.Len(t, run.Users, c.users)
				for _, u := range run.Users {
					require.Equal(t, ingest.UserTurn{Before: 0, Text: "refund o-1"}, u)
				}
				require.Len(t, run.Calls, len(c.calls))
				for i, w := range c.calls {
					g := run.Calls[i]
					require.Equal(t, []any{w.tool, w.id, w.turn, w.status, c.source}, []any{g.Tool, g.CallID, g.Turn, g.Status, g.Source})
					requireJSON(t, w.args, g.Args)
					requireJSON(t, w.result, g.Result)
					require.Equal(t, w.status == ingest.StatusError, g.Error != "")
				}
				slices.Reverse(events)
			}
		})
	}
}

// requireJSON compares with a payload that may be none.
func requireJSON(t *testing.T, want string, got []byte) {
	t.Helper()
	if want == "" {
		require.Empty(t, string(got))
		return
	}
	require.JSONEq(t, want, string(got))
}
