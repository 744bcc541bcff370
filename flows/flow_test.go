package flows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/flows/value"
)

const minedFlow = `format_version: "1.1"
type: Flow
name: reservation_overview
version: 1.0.0
description: Look up a customer and all of their reservations.
input_schema:
  type: object
  properties: {user_id: {type: string, description: "customer id as the user gave it"}, a: {type: integer}}
  required: [user_id]
  additionalProperties: false
on_context_collision: error
on_failure: hand_back
steps:
  - tool_name: get_user_details
    input_mapping: {user_id: user_id, kind: {$const: "full"}, note: {$optional: /x/note}, limit: 5}
    output_as: user
  - tool_name: get_reservation_details
    guard: user["status"] == "active"
    for_each: /user/reservations
    as: reservation_id
    max_concurrency: 4
    input_mapping: {reservation_id: reservation_id, when: {$expr: "a + 'b'"}}
    output_as: reservations
    retry_policy: {max_retries: 2, retryable_errors: [timeout, io], max_backoff_seconds: 10}
    on_error: skip
returns: {name: /user/name, reservations: reservations}
governance: {lifecycle: active, owner: support-platform, replaces_tools: [get_user_details]}
tool_schema_hashes: {get_user_details: 3f0c}
safety: {side_effects: read, source: declared}
evidence: {proposal: "p", window: ["2026-11-01", "2026-11-30"], n: 9007199254740993}
`

func TestParseMinedFlow(t *testing.T) {
	flow, warnings, err := flows.ParseFlow([]byte(minedFlow))
	require.NoError(t, err)
	assert.Empty(t, warnings)
	assert.Equal(t, flows.CollisionError, flow.OnContextCollision)
	assert.Equal(t, flows.OnFailureHandBack, flow.OnFailure)
	optional := flows.Pointer("/x/note")
	assert.Equal(t, flows.Mapping{
		{Target: "user_id", Value: flows.Key("user_id")}, {Target: "kind", Value: flows.Const("full")},
		{Target: "note", Value: flows.MappingValue{Kind: flows.MapOptional, Inner: &optional}},
		{Target: "limit", Value: flows.MappingValue{Kind: flows.MapLiteral, Literal: int64(5)}},
	}, flow.Steps[0].InputMapping)
	assert.Equal(t, &flows.RetryPolicy{MaxRetries: 2, BackoffSeconds: 1, BackoffMultiplier: 2, MaxBackoffSeconds: 10, RetryableErrors: []string{"timeout", "io"}}, flow.Steps[1].Retry)
	assert.Equal(t, flows.MappingValue{Kind: flows.MapExpr, Ref: "a + 'b'"}, flow.Steps[1].InputMapping[1].Value)
	assert.Equal(t, int64(9007199254740993), flow.Evidence["n"])
	// The declaration order of schema properties survives.
	assert.Regexp(t, `"properties":\{"user_id".*"a":`, string(flow.InputSchema))
	roundTrip(t, "mined", flow)

	stored, err := json.Marshal(flow)
	require.NoError(t, err)
	var again flows.Flow
	require.NoError(t, json.Unmarshal(stored, &again))
	assert.Equal(t, flow, &again)
}

func TestDigestIsOfTheContent(t *testing.T) {
	base, _, err := flows.ParseFlow([]byte(minedFlow))
	require.NoError(t, err)
	digest := flows.Digest(base)
	assert.Len(t, digest, 64)
	same := *base
	same.Version, same.Status, same.Governance, same.Evidence, same.ToolSchemaHashes = "9.9.9", flows.StatusDisabled, nil, nil, nil
	assert.Equal(t, digest, flows.Digest(&same))
	for name, change := range map[string]func(*flows.Flow){
		"name":        func(f *flows.Flow) { f.Name = "other" },
		"description": func(f *flows.Flow) { f.Description = "other" },
		"schema":      func(f *flows.Flow) { f.InputSchema = flows.RawSchema(`{"type":"object"}`) },
		"mapping":     func(f *flows.Flow) { f.Steps[0].InputMapping[1].Value = flows.Const("other") },
		"type":        func(f *flows.Flow) { f.Steps[0].InputMapping[3].Value = flows.Const("5") },
		"safety":      func(f *flows.Flow) { f.Safety = nil },
		"returns":     func(f *flows.Flow) { f.Returns = f.Returns[:1] },
		"on_failure":  func(f *flows.Flow) { f.OnFailure = "" },
	} {
		changed, _, err := flows.ParseFlow([]byte(minedFlow))
		require.NoError(t, err)
		change(changed)
		assert.NotEqual(t, digest, flows.Digest(changed), name)
	}
}

func TestParseFlowNamesEveryFault(t *testing.T) {
	_, _, err := flows.ParseFlow([]byte(`format_version: "1.1"
type: Flow
name: 5
description: d
colour: red
input_schema: {type: text}
returns: {}
steps:
  - tool_name: a
    flow_name: b
    guard: "x =="
    on_error: "fallback:"
    as: x
    output_as: o
    output_mapping: {a: b}
    retry: {max_retries: -1, retryable_errors: [sometimes]}
  - 7
`))
	var e *flows.Error
	require.True(t, errors.As(err, &e))
	assert.Equal(t, flows.CodeInvalid, e.Code)
	var got []string
	for _, d := range e.Details {
		got = append(got, d.Pointer+" "+d.Code)
	}
	assert.ElementsMatch(t, []string{"/name wrong_type", "/input_schema invalid_schema", "/returns invalid", "/colour unknown_field",
		"/steps/0 invalid", "/steps/0/guard CW-E036", "/steps/0/on_error invalid", "/steps/0/for_each invalid", "/steps/0/output_as invalid",
		"/steps/0/retry/max_retries invalid", "/steps/0/retry/retryable_errors invalid", "/steps/1 wrong_type"}, got)
	assert.Contains(t, err.Error(), "and 9 more")
}

func TestFormatVersions(t *testing.T) {
	doc := func(version string) []byte {
		return fmt.Appendf(nil, "format_version: %s\ntype: Flow\nname: f\ndescription: d\nsteps: [{tool_name: a, input_mapping: {x: {$const: v}}, extra: 1}]\n", version)
	}
	for _, version := range []string{`"1"`, "1", "1.0", `"1.0"`, `"01"`, `"1."`} {
		flow, warnings, err := flows.ParseFlow(doc(version))
		require.NoError(t, err, version)
		assert.Len(t, warnings, 1)
		assert.Equal(t, "/steps/0/extra", warnings[0].Pointer)
		assert.Equal(t, flows.MapLiteral, flow.Steps[0].InputMapping[0].Value.Kind, "in version 1 $const is a literal")
		roundTrip(t, version, flow)
	}
	for _, version := range []string{`"1.1"`, "1.1"} {
		_, _, err := flows.ParseFlow(doc(version))
		assert.ErrorContains(t, err, "/steps/0/extra: unknown field", version)
	}
	for _, version := range []string{"2", `"x"`, "[1]", `"1x"`} {
		_, _, err := flows.ParseFlow(doc(version))
		assert.ErrorContains(t, err, "format versions 1 and 1.1", version)
	}
}

func TestYAMLEdges(t *testing.T) {
	flowWith := func(line string) []byte {
		return []byte("type: Flow\nname: f\ndescription: d\nsteps: [{tool_name: a, input_mapping: {x: " + line + "}}]\n")
	}
	for text, want := range map[string]any{
		"12345678901234567890123": json.Number("12345678901234567890123"), "9007199254740993": int64(9007199254740993),
		"0x1F": int64(31), "1_000": int64(1000), "yes": true, "Off": false, "~": nil, "2.50": 2.5, "1e3": 1000.0, "-7": int64(-7),
		"[a, 1]": []any{"a", int64(1)},
	} {
		flow, _, err := flows.ParseFlow(flowWith(text))
		require.NoError(t, err, text)
		assert.Equal(t, flows.MappingValue{Kind: flows.MapLiteral, Literal: want}, flow.Steps[0].InputMapping[0].Value, text)
		roundTrip(t, text, flow)
	}
	for text, want := range map[string]string{
		".inf": "not a finite", ".nan": "not a finite", "010": "without leading zeros", "!!binary aGk=": "not allowed", "!own 1": "not allowed",
		"{a: 1, a: 2}": "duplicate key", "{1: 2}": "not a string",
	} {
		_, _, err := flows.ParseFlow(flowWith(text))
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]string{
		"type: Flow\n---\ntype: Flow\n": "one document, not 2",
		"- a":                           "must be an object",
		"a: &x [*x]":                    "",
		`{"type":"Flow","type":"Flow"}`: "duplicate key",
		`{"type":"Flow"} x`:             "after the document",
	} {
		_, _, err := flows.ParseFlow([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'i'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 10), ","))
	}
	_, _, err := flows.ParseFlow([]byte(bomb))
	assert.Equal(t, flows.CodeTooLarge, flows.CodeOf(err))
	assert.ErrorContains(t, err, "max_nodes")

	merged, _, err := flows.ParseFlow([]byte("type: Flow\nname: f\ndescription: d\nsteps:\n- &s {tool_name: a, on_error: skip}\n- {<<: *s, tool_name: b}\n"))
	require.NoError(t, err)
	assert.Equal(t, flows.Step{ToolName: "b", OnError: "skip"}, merged.Steps[1])
}

func TestStringsSurviveYAML(t *testing.T) {
	for _, s := range []string{"no", "Yes", "on", "1", "1.0", "~", "null", "", " lead", "trail ", "a: b", "# c", "a\nb\n", "a\r\nb", "tab\tx", "é\u2028\u0085",
		"2026-11-01", "0x1", "=", "<<", "y", "\x01", "'q\"", "- a", "{a}", "*x", "&x", "!x", "%x", "@x", "`x", "|", ">", "?", ".", "-", "😀", "1e5", "010", ".inf"} {
		flow := &flows.Flow{Type: flows.TypeFlow, FormatVersion: "1", Name: "f", Version: "0.1.0", Description: s, Steps: []flows.Step{{ToolName: "a"}}}
		text, err := flows.EncodeFlow(flow, flows.FormatYAML)
		require.NoError(t, err)
		again, _, err := flows.ParseFlow(text)
		require.NoError(t, err, "%q\n%s", s, text)
		assert.Equal(t, s, again.Description, "%s", text)
	}
}

func TestLimitsAtTheEdge(t *testing.T) {
	steps := func(n int) []byte {
		return []byte(`{"type":"Flow","name":"f","description":"d","steps":[` + strings.TrimSuffix(strings.Repeat(`{"tool_name":"a"},`, n), ",") + `]}`)
	}
	_, _, err := flows.ParseFlow(steps(flows.DefaultLimits.MaxSteps))
	require.NoError(t, err)
	_, _, err = flows.ParseFlow(steps(flows.DefaultLimits.MaxSteps + 1))
	assert.ErrorContains(t, err, "max_steps (1000)")
	doc := `{"type":"Flow","name":"f","description":"dddddddddddddddddddd","steps":[{"tool_name":"a","input_mapping":{"x":[[1]]}}]}`
	for _, c := range []struct {
		name     string
		ok, over flows.Limits
	}{
		{"max_bytes", flows.Limits{MaxBytes: len(doc)}, flows.Limits{MaxBytes: len(doc) - 1}},
		{"max_depth", flows.Limits{MaxDepth: 7}, flows.Limits{MaxDepth: 6}},
		{"max_string_length", flows.Limits{MaxStringLength: 20}, flows.Limits{MaxStringLength: 19}},
	} {
		_, _, err := flows.ParseFlowLimits([]byte(doc), c.ok)
		require.NoError(t, err, c.name)
		_, _, err = flows.ParseFlowLimits([]byte(doc), c.over)
		assert.ErrorContains(t, err, c.name)
		assert.Equal(t, flows.CodeTooLarge, flows.CodeOf(err))
	}
}

func TestResolveMapping(t *testing.T) {
	context := map[string]any{"a": map[string]any{"b": []any{"x", nil}}, "/k": int64(1)}
	optional := func(v flows.MappingValue) flows.MappingValue {
		return flows.MappingValue{Kind: flows.MapOptional, Inner: &v}
	}
	got, err := flows.ResolveMapping(flows.Mapping{
		{Target: "p", Value: flows.Pointer("/a/b/0")}, {Target: "n", Value: flows.Pointer("/a/b/1")}, {Target: "c", Value: flows.Const("/a")},
		{Target: "gone", Value: optional(flows.Pointer("/a/zz"))}, {Target: "there", Value: optional(flows.Key("a"))},
	}, context, "t", 3)
	require.Nil(t, err)
	assert.Equal(t, map[string]any{"p": "x", "n": nil, "c": "/a", "there": context["a"]}, got)

	_, err = flows.ResolveMapping(flows.Mapping{{Target: "p", Value: flows.Pointer("/a/z~1y/c")}}, context, "t", 3)
	require.NotNil(t, err)
	assert.Equal(t, "Input mapping key '/a/z/y' not found for tool 't' at step 3.", err.Error())
	assert.Equal(t, "p", err.Target)
	_, err = flows.ResolveMapping(flows.Mapping{{Target: "e", Value: flows.MappingValue{Kind: flows.MapExpr, Ref: "1"}}}, context, "t", 0)
	require.NotNil(t, err)
	assert.Contains(t, err.Error(), "has to be compiled")

	whole, err := flows.ResolveMapping(nil, context, "t", 0)
	require.Nil(t, err)
	whole["new"] = 1
	assert.NotContains(t, context, "new")
}

const toolFile = `kind: Tool
name: get_order_details
description: Status and items of an order.
schema_version: "1"
input_schema:  {type: object, properties: {order_id: {type: string}}, required: [order_id], additionalProperties: false}
output_schema: {type: object, properties: {order_id: {type: string}, status: {type: string}, items: {type: array}}, required: [order_id, status]}
safety: {side_effects: read, idempotent: true, source: declared}
timeout_seconds: 10
max_output_size: 1048576
cacheable: true
metadata: {team: shop}
binding:
  kind: http
  method: get
  url: http://127.0.0.1:9000/orders/{order_id}
  headers: {Authorization: "Bearer {{secret:SHOP_TOKEN}}"}
  body: json
  result: /data
  errors:
    - {when: 'ok == False', message: /error/message, class: other}
---
kind: Tool
name: search_kb
binding: {kind: mcp, server: kb, tool: search}
---
kind: Tool
name: score_lead
binding: {kind: worker, pool: crm}
---
kind: Tool
name: passthrough
origin: inferred
binding: {kind: local}
---
`

func TestToolFile(t *testing.T) {
	tools, err := flows.ParseTools([]byte(toolFile))
	require.NoError(t, err)
	require.Len(t, tools, 4)
	order := tools[0]
	assert.Equal(t, flows.EffectRead, order.Safety.SideEffects)
	assert.Equal(t, 10.0, *order.TimeoutSeconds)
	assert.Equal(t, &flows.Binding{Kind: "http", Method: "GET", URL: "http://127.0.0.1:9000/orders/{order_id}",
		Headers: map[string]string{"Authorization": "Bearer {{secret:SHOP_TOKEN}}"}, Body: "json", Result: "/data",
		Errors: []flows.ErrorRule{{When: "ok == False", Message: "/error/message", Class: "other"}}}, order.Binding)
	assert.Equal(t, &flows.Binding{Kind: "local", Local: "passthrough"}, tools[3].Binding)
	assert.Equal(t, flows.ToolInferred, tools[3].Origin)
	for _, tool := range tools {
		text, err := flows.EncodeTool(tool, flows.FormatYAML)
		require.NoError(t, err)
		again, err := flows.ParseTools(text)
		require.NoError(t, err, "%s", text)
		assert.Equal(t, []*flows.Tool{tool}, again)
		stored, err := json.Marshal(tool)
		require.NoError(t, err)
		var one flows.Tool
		require.NoError(t, json.Unmarshal(stored, &one))
		assert.Equal(t, tool, &one)
	}
	list, err := json.Marshal(tools)
	require.NoError(t, err)
	again, err := flows.ParseTools(list)
	require.NoError(t, err)
	assert.Equal(t, tools, again)
}

func TestToolFileFaults(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Tool\nname: a b\n":                                                                "1 to 128",
		"kind: MCPServer\nname: kb\n":                                                            "transport: is required",
		"name: a\n":                                                                              "/0/kind: is required",
		"kind: Tool\nname: a\ncolour: red\n":                                                     "/0/colour: unknown field",
		"kind: Tool\nname: a\n---\nkind: Tool\nname: a\n":                                        "declared twice",
		"kind: Tool\nname: a\ninput_schema: {type: x}\n":                                         "/0/input_schema",
		"kind: Tool\nname: a\nsafety: {side_effects: huge}\n":                                    "must be one of",
		"kind: Tool\nname: a\nsafety: {cacheable: false}\ncacheable: true\n":                     "contradicts",
		"kind: Tool\nname: a\nbinding: {kind: http}\n":                                           "/0/binding/url: is required",
		"kind: Tool\nname: a\nbinding: {kind: http, url: 'ftp://x'}\n":                           "http://",
		"kind: Tool\nname: a\nbinding: {kind: worker, pool: p, url: 'http://'}\n":                "unknown field",
		"kind: Tool\nname: a\nbinding: {kind: http, url: 'http://x', result: a}\n":               "JSON pointer",
		"kind: Tool\nname: a\nbinding: {kind: http, url: 'http://x', errors: [{when: 'a b'}]}\n": "Invalid predicate",
	} {
		_, err := flows.ParseTools([]byte(text))
		require.ErrorContains(t, err, want, text)
		assert.ErrorIs(t, err, flows.CWFlowSerialization)
	}
}

func TestToolHashes(t *testing.T) {
	tools, err := flows.ParseTools([]byte(toolFile))
	require.NoError(t, err)
	base := *tools[0]
	hash, digest := flows.SchemaHash(&base), flows.DefinitionDigest(&base)
	described := base
	described.Description = "other"
	assert.Equal(t, hash, flows.SchemaHash(&described))
	assert.NotEqual(t, digest, flows.DefinitionDigest(&described))
	rebound := base
	rebound.Binding, rebound.Metadata, rebound.TimeoutSeconds = nil, nil, nil
	assert.Equal(t, digest, flows.DefinitionDigest(&rebound))
	for name, change := range map[string]func(*flows.Tool){
		"input":   func(t *flows.Tool) { t.InputSchema = flows.RawSchema(`{"type":"object"}`) },
		"output":  func(t *flows.Tool) { t.OutputSchema = nil },
		"version": func(t *flows.Tool) { t.SchemaVersion = "2" },
	} {
		changed := base
		change(&changed)
		assert.NotEqual(t, hash, flows.SchemaHash(&changed), name)
		assert.NotEqual(t, digest, flows.DefinitionDigest(&changed), name)
	}
}

func TestVersions(t *testing.T) {
	order := []string{"0.0.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.9.0", "1.10.0", "2.0.0"}
	for i := range order {
		for j := range order {
			a, err := flows.ParseVersion(order[i])
			require.NoError(t, err)
			b, err := flows.ParseVersion(order[j])
			require.NoError(t, err)
			assert.Equal(t, order[i], a.String())
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			assert.Equal(t, want, a.Compare(b), "%s %s", a, b)
		}
	}
	for _, bad := range []string{"", "1", "1.0", "v1.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0-a..b", "1.0.0+", "99999999999999999999.0.0", " 1.0.0"} {
		_, err := flows.ParseVersion(bad)
		assert.ErrorIs(t, err, flows.CWInvalidVersion, bad)
	}
	built, err := flows.ParseVersion("1.0.0+b.01")
	require.NoError(t, err)
	assert.Zero(t, built.Compare(flows.Version{Major: 1}))
}

func TestSafetyLevels(t *testing.T) {
	assert.True(t, flows.Exceeds(flows.EffectWrite, flows.EffectRead))
	assert.False(t, flows.Exceeds(flows.EffectRead, flows.EffectRead))
	assert.True(t, flows.Exceeds("unheard", flows.EffectWrite), "unknown counts as external")
	assert.Equal(t, flows.EffectExternal, flows.Effects(nil))
	assert.Equal(t, flows.DefaultSafety(), flows.MergeSafety())
}

// The codes are a contract: each is unique, well formed and never renumbered.
func TestErrorCatalogue(t *testing.T) {
	source, err := os.ReadFile("cwcodes.go")
	require.NoError(t, err)
	entries := regexp.MustCompile(`CWError\{"(CW-E\d{3})", "(\w+)"\}`).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, entries)
	seen := map[string]bool{}
	for _, e := range entries {
		assert.False(t, seen[e[1]] || seen[e[2]], e[0])
		seen[e[1]], seen[e[2]] = true, true
	}
	assert.Equal(t, "CW-E005 InputMappingError", flows.CWInputMapping.Error())
}

func FuzzFlowYAML(f *testing.F) {
	f.Add([]byte(minedFlow))
	f.Add([]byte(`{"type":"DAGFlow","name":"f","version":"1","description":"d","steps":[{"step_id":"A","tool_name":"a","branches":[{"target_step_id":"B","predicate":"x == 1"}]}]}`))
	f.Add([]byte("type: Flow\nname: f\ndescription: \"a\\tb\"\nsteps:\n- &s {tool_name: a, input_mapping: {x: 1.0, y: [~, no]}}\n- *s\n"))
	f.Add([]byte(`{"type":"Flow","name":"f","version":"1.0.0","description":"d","steps":[{"tool_name":""}]}`)) // an empty name is a name there
	for _, v := range load[struct{ Flow json.RawMessage }](f, "additions") {
		f.Add([]byte(v.Flow))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		flow, _, err := flows.ParseFlow(data)
		if err != nil {
			var e *flows.Error
			if !errors.As(err, &e) || !errors.Is(err, flows.CWFlowSerialization) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		for _, format := range []flows.Format{flows.FormatYAML, flows.FormatJSON} {
			once, err := flows.EncodeFlow(flow, format)
			if err != nil {
				t.Fatal(err)
			}
			again, _, err := flows.ParseFlow(once)
			if err != nil {
				t.Fatalf("%v\n%s", err, once)
			}
			twice, err := flows.EncodeFlow(again, format)
			if err != nil || string(once) != string(twice) || flows.Digest(flow) != flows.Digest(again) {
				t.Fatalf("not a fixed point: %v\n%s\n%s", err, once, twice)
			}
		}
	})
}

func FuzzTools(f *testing.F) {
	f.Add([]byte(toolFile))
	f.Add([]byte(`[{"kind":"Tool","name":"a"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tools, err := flows.ParseTools(data)
		if err != nil {
			if !errors.Is(err, flows.CWFlowSerialization) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		for _, tool := range tools {
			text, err := flows.EncodeTool(tool, flows.FormatYAML)
			if err != nil {
				t.Fatal(err)
			}
			again, err := flows.ParseTools(text)
			if err != nil || len(again) != 1 || !value.Equal(mustOf(t, tool), mustOf(t, again[0])) {
				t.Fatalf("no round trip: %v\n%s", err, text)
			}
		}
	})
}

func mustOf(t *testing.T, v any) any {
	t.Helper()
	out, err := value.Of(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestToolFileWithServers(t *testing.T) {
	doc := "kind: Tool\nname: search\nbinding: {kind: mcp, server: kb, definition_digest: abc}\n---\nkind: MCPServer\nname: kb\ntransport: stdio\ncommand: [kb, --readonly]\nenv: {TOKEN: '{{secret:KB}}'}\n---\n" +
		"kind: MCPServer\nname: web\ntransport: streamable_http\nurl: https://kb.example/mcp\nheaders: {Authorization: x}\n"
	file, err := flows.ParseToolFile([]byte(doc))
	require.NoError(t, err)
	require.Equal(t, &flows.Binding{Kind: flows.BindMCP, Server: "kb", Tool: "search", DefinitionDigest: "abc"}, file.Tools[0].Binding)
	require.Equal(t, []string{"kb", "--readonly"}, file.Servers[0].Command)
	for _, s := range file.Servers {
		raw, err := flows.EncodeMCPServer(s, flows.FormatYAML)
		require.NoError(t, err)
		again, err := flows.ParseToolFile(raw)
		require.NoError(t, err)
		require.Equal(t, s, again.Servers[0])
	}
	tools, err := flows.ParseTools([]byte(doc))
	require.NoError(t, err)
	require.Len(t, tools, 1)
	for _, bad := range []string{"kind: MCPServer\nname: kb\ntransport: stdio\n", "kind: MCPServer\nname: kb\ntransport: streamable_http\nurl: ftp://x\n",
		"kind: MCPServer\nname: 'a b'\ntransport: stdio\ncommand: [x]\n", "kind: MCPServer\nname: a\ntransport: stdio\ncommand: [x]\n---\nkind: MCPServer\nname: a\ntransport: stdio\ncommand: [x]\n"} {
		_, err := flows.ParseToolFile([]byte(bad))
		require.Error(t, err, bad)
	}
}
