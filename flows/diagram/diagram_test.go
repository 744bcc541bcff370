package diagram

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pave/flows"
)

func parse(t testing.TB, doc string) *flows.Flow {
	t.Helper()
	flow, _, err := flows.ParseFlow([]byte(doc))
	require.NoError(t, err)
	return flow
}

func draw(t testing.TB, flow *flows.Flow, o Options) string {
	t.Helper()
	out, err := Draw(flow, o)
	require.NoError(t, err)
	return out
}

// The base system's drawings of plain flows; the full drawing of such a flow is the same text.
func TestGoldenVectors(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", "viz.json"))
	require.NoError(t, err)
	var doc struct {
		Vectors []struct {
			ID     string
			Flow   json.RawMessage
			Expect struct {
				ASCII, Mermaid, Dot string
				MermaidTD           string `json:"mermaid_td"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	require.Len(t, doc.Vectors, 3)
	for _, v := range doc.Vectors {
		flow := parse(t, string(v.Flow))
		for _, plain := range []bool{true, false} {
			assert.Equal(t, v.Expect.ASCII, draw(t, flow, Options{Plain: plain}), v.ID)
			assert.Equal(t, v.Expect.Mermaid, draw(t, flow, Options{Format: FormatMermaid, Plain: plain}), v.ID)
			assert.Equal(t, v.Expect.MermaidTD, draw(t, flow, Options{Format: FormatMermaid, Direction: TopDown, Plain: plain}), v.ID)
			assert.Equal(t, v.Expect.Dot, draw(t, flow, Options{Format: FormatDOT, Plain: plain}), v.ID)
		}
	}
}

const branching = `
format_version: "1.1"
type: DAGFlow
name: triage-1
version: 1.0.0
description: Sends a ticket where it belongs.
on_failure: hand_back
steps:
  - {step_id: get-ticket, tool_name: get_ticket, retry: {max_retries: 2}, branches: [{target_step_id: refund, predicate: 'kind == "refund"'}], default_next: reply}
  - {step_id: refund, tool_name: refund, depends_on: [get-ticket], guard: amount < 100, on_error: "fallback:refund_by_hand"}
  - {step_id: reply, tool_name: send, depends_on: [get-ticket], on_error: skip}
  - {step_id: audit, tool_name: log, depends_on: [get-ticket]}
  - {step_id: tell, tool_name: send, depends_on: [refund, reply], for_each: /ticket/watchers, as: watcher, max_concurrency: 4, input_mapping: {to: watcher}}
`

func TestConditionsAndRemarks(t *testing.T) {
	flow := parse(t, branching)
	assert.Equal(t, `[get_ticket] → [refund]  when kind == "refund"
[get_ticket] → [reply: send]  when otherwise
[get_ticket] → [log]  when never
[refund] → [tell: send]
[reply: send] → [tell: send]

[get_ticket]   up to 2 retries
               on error: hand back
[refund]       only if amount < 100, else hand back
               on error: refund_by_hand
[reply: send]  on error: go on without it
[log]          on error: hand back
[tell: send]   for each watcher in /ticket/watchers, 4 at once
               on error: hand back`, draw(t, flow, Options{}))

	assert.Equal(t, `graph LR
  S_get_ticket["get_ticket<br/>up to 2 retries<br/>on error: hand back"]
  S_refund["refund<br/>only if amount &lt; 100, else hand back<br/>on error: refund_by_hand"]
  S_reply["send<br/>on error: go on without it"]
  S_audit["log<br/>on error: hand back"]
  S_tell["send<br/>for each watcher in /ticket/watchers, 4 at once<br/>on error: hand back"]
  S_get_ticket -->|"kind == &quot;refund&quot;"| S_refund
  S_get_ticket -->|"otherwise"| S_reply
  S_get_ticket -->|"never"| S_audit
  S_refund --> S_tell
  S_reply --> S_tell`, draw(t, flow, Options{Format: FormatMermaid}))

	assert.Equal(t, "[get_ticket] → [refund]\n[get_ticket] → [send]\n[get_ticket] → [log]\n[refund] → [send]\n[send] → [send]",
		draw(t, flow, Options{Plain: true}))
	dot := draw(t, flow, Options{Format: FormatDOT})
	assert.Contains(t, dot, "digraph triage_1 {\n  S_get_ticket [label=\"get_ticket\\nup to 2 retries\\non error: hand back\"];")
	assert.Contains(t, dot, `S_get_ticket -> S_refund [label="kind == \"refund\""];`)
}

// With sources a drawing says where every argument comes from, in each form.
func TestSources(t *testing.T) {
	flow := parse(t, `{"format_version": "1.1", "type": "Flow", "name": "f", "description": "d", "on_context_collision": "error", "steps": [
		{"tool_name": "find", "input_mapping": {"q": "name", "limit": 10}, "output_as": "found"},
		{"tool_name": "use", "for_each": "/found/rows", "as": "row", "input_mapping": {"id": "/row/id", "key": {"$expr": "found.rows.filter(e, e.state == 'open')[0].key"}, "note": {"$optional": "note"}}},
		{"tool_name": "ping", "input_mapping": {"no_arguments": {"$optional": "pong"}}, "output_as": "pong"},
		{"tool_name": "all"}]}`)
	assert.Equal(t, `[find] → [use] → [ping] → [all]

[find]  q ← name
        limit ← 10
        gives found
[use]   for each row in /found/rows
        id ← /row/id
        key ← found.rows.filter(e, e.state == 'open')[0].key
        note ← note (where present)
[ping]  takes no arguments
        gives pong
[all]   takes the whole context`, draw(t, flow, Options{Sources: true}))
	for _, format := range []Format{FormatMermaid, FormatDOT, FormatSVG} {
		assert.Contains(t, draw(t, flow, Options{Format: format, Sources: true}), "id ← /row/id", format)
		assert.NotContains(t, draw(t, flow, Options{Format: format}), "id ← /row/id", format)
	}
}

func TestWithoutDefaultEveryDependentMayRun(t *testing.T) {
	flow := parse(t, `{"type":"DAGFlow","name":"f","version":"1.0.0","description":"d","steps":[
		{"step_id":"a","tool_name":"a","branches":[{"target_step_id":"b","predicate":"x == 1"},{"target_step_id":"b","predicate":"x == 2"}]},
		{"step_id":"b","tool_name":"b","depends_on":["a","a"]},{"step_id":"c","tool_name":"c","depends_on":["a"]}]}`)
	assert.Equal(t, "[a] → [b]  when x == 1 or x == 2 or no branch holds\n[a] → [c]  when no branch holds", draw(t, flow, Options{}))
}

func TestRunOverlay(t *testing.T) {
	flow := parse(t, branching)
	run := Overlay{0: {State: StateDone, Millis: 1.25, Note: "1 retry"}, 1: {State: StateFailed, Millis: 3, Note: "CW-E006"}, 2: {State: StateSkipped}, 4: {State: StateHandedBack}}
	text := draw(t, flow, Options{Run: run})
	assert.Contains(t, text, "✓ 1.2ms 1 retry")
	assert.Contains(t, text, "✗ 3.0ms CW-E006")
	assert.Contains(t, text, "not reached")
	mermaid := draw(t, flow, Options{Format: FormatMermaid, Run: run})
	for _, want := range []string{"style S_refund fill:#f66", "style S_reply fill:#ddd", "style S_audit stroke-dasharray:4", "style S_tell fill:#fc6"} {
		assert.Contains(t, mermaid, want)
	}
	assert.NotContains(t, mermaid, "style S_get_ticket")
	svg := draw(t, flow, Options{Format: FormatSVG, Run: run})
	assert.Equal(t, 1, strings.Count(svg, looks[StateFailed].fill))
	assert.Equal(t, 1, strings.Count(svg, looks[StateHandedBack].fill))
}

// texts parses an SVG and returns its element names and its text.
func texts(t testing.TB, svg string) (elements map[string]int, text string) {
	t.Helper()
	elements = map[string]int{}
	var b strings.Builder
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements, b.String()
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			elements[token.Name.Local]++
		case xml.CharData:
			b.Write(token)
		}
	}
}

var drawn = map[string]bool{"svg": true, "title": true, "desc": true, "rect": true, "g": true, "text": true, "path": true}

func TestSVGShowsEveryStepAndCondition(t *testing.T) {
	flow := parse(t, branching)
	for _, direction := range []Direction{"", TopDown, LeftRight} {
		elements, text := texts(t, draw(t, flow, Options{Format: FormatSVG, Direction: direction}))
		for i := range flow.Steps {
			assert.Contains(t, text, flow.Steps[i].StepID)
		}
		for _, want := range []string{`kind == "refund"`, "otherwise", "never", "for each watcher", "triage-1@1.0.0", flow.Description} {
			assert.Contains(t, text, want)
		}
		assert.Equal(t, 2*5, elements["path"], "a line and an arrow head for each edge")
		assert.Equal(t, 1+5, elements["rect"])
	}
}

func TestHostileTextStaysText(t *testing.T) {
	hostile := "a\"]<script>alert(1)</script>\n  click S0 `b` #quot; \x1b[2J\u202e'&"
	flow := &flows.Flow{Type: flows.TypeDAGFlow, Name: hostile, Version: hostile, Description: hostile, Steps: []flows.Step{
		{StepID: "a b", ToolName: hostile, Guard: hostile, Branches: []flows.Branch{{TargetStepID: "a-b", Predicate: hostile}}},
		{StepID: "a-b", ToolName: "end", DependsOn: []string{"a b"}},
	}}
	svg := draw(t, flow, Options{Format: FormatSVG})
	elements, _ := texts(t, svg)
	for name := range elements {
		assert.True(t, drawn[name], "element %s", name)
	}
	assert.NotContains(t, svg, "\x1b")
	mermaid := draw(t, flow, Options{Format: FormatMermaid})
	lines := strings.Split(mermaid, "\n")
	require.Len(t, lines, 4, "no line of the flow's own")
	assert.Equal(t, `  S_a_b_2["end"]`, lines[2])
	assert.Contains(t, lines[1], `a&quot;]&lt;script&gt;alert(1)&lt;/script&gt;   click S0 &#96;b&#96; &#35;quot;`)
	for _, line := range strings.Split(strings.TrimSpace(draw(t, flow, Options{Format: FormatDOT})), "\n") {
		assert.Regexp(t, `^(digraph \pL[\pL\pN_]* \{|  S_.* \[label="([^"\\]|\\.)*"\];|\})$`, line)
	}
}

func TestDrawRefuses(t *testing.T) {
	cyclic := &flows.Flow{Type: flows.TypeDAGFlow, Name: "f", Steps: []flows.Step{
		{StepID: "a", ToolName: "t", DependsOn: []string{"b"}}, {StepID: "b", ToolName: "t", DependsOn: []string{"a"}}}}
	for _, tc := range []struct {
		flow *flows.Flow
		o    Options
	}{
		{cyclic, Options{}}, {&flows.Flow{}, Options{Format: "png"}}, {&flows.Flow{}, Options{Direction: "BT"}},
		{&flows.Flow{}, Options{Format: FormatSVG, Plain: true}},
	} {
		_, err := Draw(tc.flow, tc.o)
		assert.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
	}
	wide := &flows.Flow{Type: flows.TypeFlow, Name: "f", Steps: make([]flows.Step, maxSVGSteps+1)}
	_, text := texts(t, draw(t, wide, Options{Format: FormatSVG}))
	assert.Contains(t, text, "too many to draw")
	_, text = texts(t, draw(t, &flows.Flow{Name: "f"}, Options{Format: FormatSVG}))
	assert.Contains(t, text, "(empty flow)")
}

// anyDAG draws a flow whose steps depend on earlier ones.
func anyDAG(t *rapid.T) *flows.Flow {
	n := rapid.IntRange(1, 14).Draw(t, "steps")
	flow := &flows.Flow{Type: flows.TypeDAGFlow, Name: "f", Version: "1.0.0", Steps: make([]flows.Step, n)}
	for i := range n {
		s := &flow.Steps[i]
		s.StepID, s.ToolName = fmt.Sprint(i), rapid.StringN(0, 30, 60).Draw(t, "tool")
		for d := range i {
			if rapid.IntRange(0, 3).Draw(t, "depends") == 0 {
				s.DependsOn = append(s.DependsOn, fmt.Sprint(d))
			}
		}
	}
	return flow
}

// Boxes of a layout never overlap, ranks follow each other, and every edge leads forward.
func TestLayoutProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flow := anyDAG(t)
		g, err := newGraph(flow, Options{})
		require.NoError(t, err)
		l := newLayout(g, func(i int) (float64, float64) { return float64(40 + 13*(i%5)), float64(20 + 7*(i%3)) })
		l.stack(func(int) float64 { return rankGap })
		for _, rank := range l.ranks {
			for i := 1; i < len(rank); i++ {
				a, b := &l.boxes[rank[i-1]], &l.boxes[rank[i]]
				require.GreaterOrEqual(t, b.across-a.across+1e-6, (a.breadth+b.breadth)/2+boxGap)
			}
		}
		for _, route := range l.routes {
			for i := 1; i < len(route); i++ {
				a, b := &l.boxes[route[i-1]], &l.boxes[route[i]]
				require.Equal(t, a.rank+1, b.rank)
				require.Less(t, a.along+a.depth/2, b.along-b.depth/2)
			}
		}
	})
}

func TestDrawingIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flow := anyDAG(t)
		for _, format := range Formats {
			first, err := Draw(flow, Options{Format: format})
			require.NoError(t, err)
			again, err := Draw(flow, Options{Format: format})
			require.NoError(t, err)
			require.Equal(t, first, again)
		}
	})
}

func FuzzDraw(f *testing.F) {
	f.Add([]byte(branching))
	f.Add([]byte(`{"type":"Flow","name":"v","description":"v","steps":[{"tool_name":"b<x>"},{"flow_name":"sub"}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		flow, _, err := flows.ParseFlow(doc)
		if err != nil {
			return
		}
		for _, format := range Formats {
			out, err := Draw(flow, Options{Format: format, Run: Overlay{0: {State: StateDone}}})
			if err != nil {
				require.Equal(t, flows.CodeInvalid, flows.CodeOf(err))
				return
			}
			if format == FormatSVG {
				elements, _ := texts(t, out)
				for name := range elements {
					require.True(t, drawn[name], name)
				}
			}
		}
	})
}
