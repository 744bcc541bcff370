package otlp

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"pgregory.net/rapid"

	"pave/ingest"
)

// TestInvariance: any order, copies and batches of the same spans give the same sessions: sessions named late and by
// transports, nested agents, twins of MCP calls, calls that only messages tell of.
func TestInvariance(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var specs []spanSpec
		for trace := range byte(rapid.IntRange(1, 3).Draw(rt, "traces")) {
			for i := range byte(rapid.IntRange(1, 10).Draw(rt, "spans")) {
				s := spanSpec{trace: trace + 1, id: i + 1, parent: byte(rapid.IntRange(0, int(i)).Draw(rt, "parent"))}
				s.from = int64(rapid.IntRange(1, 8).Draw(rt, "from"))
				s.to = s.from + int64(rapid.IntRange(0, 3).Draw(rt, "long"))
				session := rapid.SampledFrom([]string{"", "", "s1", "s2"}).Draw(rt, "session")
				id := rapid.SampledFrom([]string{"c1", "c2", "c3"})
				switch rapid.IntRange(0, 6).Draw(rt, "kind") {
				case 0:
					s.name, s.attrs = "invoke_agent a", attrs{"gen_ai.operation.name": "invoke_agent"}
				case 1:
					part := func(kind, member string) string {
						return fmt.Sprintf(`{"type":%q,"id":%q,"name":"find",%q:{"q":1}}`, kind, id.Draw(rt, "id"), member)
					}
					s.name, s.attrs = "chat", attrs{"gen_ai.operation.name": "chat", "gen_ai.output.messages": `[{"role":"assistant","parts":[` + part("tool_call", "arguments") + `]}]`,
						"gen_ai.input.messages": `[{"role":"assistant","parts":[` + part("tool_call", "arguments") + `]},{"role":"tool","parts":[` + part("tool_call_response", "response") + `]}]`}
				case 2:
					s.name, s.attrs, s.kind = "tools/call find", attrs{"mcp.method.name": "tools/call", "gen_ai.tool.name": "find"}, ptrace.SpanKindClient
					if rapid.Bool().Draw(rt, "transport") {
						s.attrs["mcp.session.id"] = "transport"
					}
				case 3:
					s.name, s.attrs = "agent_step a", attrs{"mastra.span.type": "model_step", "gen_ai.operation.name": "agent_step",
						"mastra.model_step.output": fmt.Sprintf(`{"toolCalls":[{"toolCallId":%q,"toolName":"find","args":{"q":1}}]}`, id.Draw(rt, "id"))}
				case 4:
					s.name, s.attrs = "claude_code.tool", attrs{"tool_name": "find", "tool_use_id": id.Draw(rt, "id"), "full_command": "ls"}
				case 5:
					s.name, s.attrs = "claude_code.tool.execution", attrs{"success": "false", "error": "E"}
				default:
					s.name, s.attrs = "execute_tool find", tool("find", id.Draw(rt, "id"), `{"q":1}`)
				}
				if session != "" {
					s.attrs["gen_ai.conversation.id"] = session
				}
				specs = append(specs, s)
			}
		}
		want := batched(rt, [][]spanSpec{specs})
		shuffled := append([]spanSpec(nil), specs...)
		for range rapid.IntRange(0, 4).Draw(rt, "copies") {
			shuffled = append(shuffled, shuffled[rapid.IntRange(0, len(specs)-1).Draw(rt, "copy")])
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		var batches [][]spanSpec
		for len(shuffled) > 0 {
			n := rapid.IntRange(1, len(shuffled)).Draw(rt, "batch")
			batches, shuffled = append(batches, shuffled[:n]), shuffled[n:]
		}
		require.Equal(rt, want, batched(rt, batches))
	})
}

// batched maps each batch as a request and assembles all, by a clock finer than a millisecond: where a coarser one
// gives ties that nothing tells apart, arrival decides.
func batched(t require.TestingT, batches [][]spanSpec) map[string]*ingest.Session {
	var events []ingest.Event
	for _, specs := range batches {
		td := tracesOf(specs...)
		for i := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().Len() {
			s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(i)
			s.SetStartTimestamp(s.StartTimestamp() + pcommon.Timestamp(1000*(1+int(specs[i].id)+16*int(specs[i].trace))))
			s.SetEndTimestamp(s.EndTimestamp() + 900_000)
		}
		mapped, stats := Reader{}.MapTraces(td)
		require.Zero(t, stats.Rejected)
		events = append(events, mapped...)
	}
	out := make(map[string]*ingest.Session)
	for _, s := range ingest.AssembleAll("t", events, ingest.AssembleOptions{}) {
		out[s.ID] = s
	}
	return out
}
