package analyzer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pave/flows"
	"pave/flows/schema"
	"pave/flows/value"
	"pave/ingest"
)

func samples(pairs ...string) []Sample {
	var out []Sample
	for i := 0; i < len(pairs); i += 2 {
		s := Sample{}
		if pairs[i] != "" {
			s.Args = json.RawMessage(pairs[i])
		}
		if pairs[i+1] != "" {
			s.Result = json.RawMessage(pairs[i+1])
		}
		out = append(out, s)
	}
	return out
}

func TestInferSchemas(t *testing.T) {
	for _, c := range []struct {
		name, in, out string
		samples       []Sample
	}{
		{"types, required and optional",
			`{"type":"object","properties":{"id":{"type":"string"},"limit":{"type":"integer"}},"required":["id"],"additionalProperties":true,"x-absent":"omit"}`,
			`{"type":"object","properties":{"n":{"type":"number"},"note":{"type":["string","null"]},"ok":{"type":"boolean"}},"required":["n","note"],"additionalProperties":true,"x-absent":"omit"}`,
			samples(`{"id":"a"}`, `{"n":1,"note":null,"ok":true}`, `{"id":"b","limit":3}`, `{"n":1.5,"note":"x"}`)},
		{"nested objects and lists",
			`{"type":"object","properties":{"ids":{"type":"array","items":{"type":"integer"}}},"required":["ids"],"additionalProperties":true,"x-absent":"omit"}`,
			`{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"sku":{"type":"string"},"size":{"type":["integer","string"]}},"required":["sku"],"additionalProperties":true}},"user":{"type":"object","properties":{"zip":{"type":"string"}},"required":["zip"],"additionalProperties":true}},"required":["items","user"],"additionalProperties":true,"x-absent":"omit"}`,
			samples(`{"ids":[1,2]}`, `{"user":{"zip":"1"},"items":[{"sku":"a","size":1},{"sku":"b","size":"L"},{"sku":"c"}]}`, `{"ids":[]}`, `{"user":{"zip":"2"},"items":[]}`)},
		{"results that are no objects lie under result",
			`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"],"additionalProperties":true,"x-absent":"omit"}`,
			`{"type":"object","properties":{"result":{"type":"string"}},"required":["result"],"additionalProperties":true,"x-absent":"omit"}`,
			samples(`{"q":"x"}`, `"u1"`, `{"q":"y"}`, `"u2"`)},
		{"a tool that never gets arguments takes none",
			`{"type":"object","properties":{},"x-absent":"omit"}`,
			`{"type":"object","properties":{"result":{"type":"array","items":{"type":"string"}}},"required":["result"],"additionalProperties":true,"x-absent":"omit"}`,
			samples(`{}`, `["a"]`, `{}`, `["b"]`)},
		{"only null says nothing of the type",
			`{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":true,"x-absent":"omit"}`, "",
			samples(`{"a":null}`, "")},
		{"mixed results keep both", "",
			`{"type":"object","properties":{"a":{"type":"integer"},"result":{"type":"string"}},"additionalProperties":true,"x-absent":"omit"}`,
			samples("", `{"a":1}`, "", `"none"`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			tool := Infer("t", c.samples)
			assert.Equal(t, flows.ToolInferred, tool.Origin)
			assert.Nil(t, tool.Safety)
			assert.Nil(t, tool.Binding)
			sameJSON(t, c.in, tool.InputSchema)
			sameJSON(t, c.out, tool.OutputSchema)
		})
	}
}

func sameJSON(t *testing.T, want string, got flows.RawSchema) {
	t.Helper()
	if want == "" {
		assert.Nil(t, got)
		return
	}
	require.NotNil(t, got)
	assert.JSONEq(t, want, string(got))
}

func TestInferIgnoresFailures(t *testing.T) {
	list := samples(`{"id":"a"}`, `{"n":1}`)
	for range 20 {
		list = append(list, samples(`{"id":"a"}`, `{"n":1}`)...)
	}
	list = append(list, Sample{Args: json.RawMessage(`{"id":"a"}`), Result: json.RawMessage(`{"error":"x"}`), Failed: true},
		Sample{Args: json.RawMessage(`{"id":"a"}`), Result: json.RawMessage(`"Error: not found"`)}, // one odd text among objects
		Sample{Args: json.RawMessage(`not json`), Result: json.RawMessage(`{`)})
	tool := Infer("t", list)
	sameJSON(t, `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":true,"x-absent":"omit"}`, tool.OutputSchema)
}

func TestInferTakesChangingKeysForData(t *testing.T) {
	var list []Sample
	for i := range 100 {
		list = append(list, Sample{Result: json.RawMessage(fmt.Sprintf(`{"methods":{"card_%d":{"last4":"%04d"}}}`, i, i))})
	}
	tool := Infer("t", list)
	sameJSON(t, `{"type":"object","properties":{"methods":{"type":"object","additionalProperties":{"type":"object","properties":{"last4":{"type":"string"}},"required":["last4"],"additionalProperties":true}}},"required":["methods"],"additionalProperties":true,"x-absent":"omit"}`, tool.OutputSchema)
}

func TestInferIsBounded(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40)
	wide := map[string]any{}
	for i := range 500 {
		inner := map[string]any{}
		for k := range 40 {
			inner[fmt.Sprintf("k%d", k)] = fmt.Sprint(i)
		}
		wide[fmt.Sprintf("f%d", i%60)] = inner
	}
	tool := Infer("t", []Sample{{Args: json.RawMessage(deep), Result: value.Encode(wide)}})
	assert.Less(t, strings.Count(string(tool.InputSchema), `"a"`), 2*maxInferDepth+2)
	require.NotNil(t, compiled(tool.OutputSchema))
	assert.Less(t, strings.Count(string(tool.OutputSchema), `"type"`), maxInferNodes+100)
	inf := NewInferrer()
	for i := range 3 * maxInferSamples {
		inf.Observe("t", Sample{Args: json.RawMessage(fmt.Sprintf(`{"id":"value-%d"}`, i))})
	}
	assert.LessOrEqual(t, len(inf.tools["t"].values[place{sideInput, "/id"}]), maxValueSet)
}

// What was observed fits the inferred schema and comes out of it unchanged.
func TestObservedValuesFitTheirSchema(t *testing.T) {
	scalar := rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.Int64().Draw(t, "int")
		case 3:
			return rapid.Float64Range(-1e6, 1e6).Draw(t, "float")
		}
		return rapid.StringMatching(`[a-z0-9 ]{0,6}`).Draw(t, "text")
	})
	var any3 func(depth int) *rapid.Generator[any]
	any3 = func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			if depth == 0 {
				return scalar.Draw(t, "scalar")
			}
			switch rapid.IntRange(0, 3).Draw(t, "shape") {
			case 0:
				return any(rapid.SliceOfN(any3(depth-1), 0, 3).Draw(t, "list"))
			case 1:
				return any(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), any3(depth-1), 0, 3).Draw(t, "object"))
			}
			return scalar.Draw(t, "scalar")
		})
	}
	object := rapid.MapOfN(rapid.SampledFrom([]string{"x", "y", "z"}), any3(3), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		seen := rapid.SliceOfN(object, 1, 8).Draw(t, "samples")
		var list []Sample
		for _, v := range seen {
			list = append(list, Sample{Args: value.Encode(v), Result: value.Encode(v)})
		}
		tool := Infer("t", list)
		for _, raw := range []flows.RawSchema{tool.InputSchema, tool.OutputSchema} {
			s, err := schema.Compile(raw)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range seen {
				out, violations := s.Apply(any(v))
				if len(violations) > 0 || !value.Equal(out, any(v)) {
					t.Fatalf("%s\n%s\n%s %v", raw, value.Encode(any(v)), value.Encode(out), violations)
				}
			}
		}
	})
}

func TestObserveSessionTakesAgentsCallsOnly(t *testing.T) {
	inf := NewInferrer()
	call := func(tool string, flags ingest.CallFlag) ingest.Call {
		return ingest.Call{Flags: flags, ToolCall: ingest.ToolCall{Tool: tool, Args: json.RawMessage(`{"a":1}`), Result: json.RawMessage(`{"b":1}`)}}
	}
	inf.ObserveSession(&ingest.Session{Runs: []ingest.AgentRun{{Calls: []ingest.Call{call("mine", 0), call("flows", ingest.FlagNotAgent), call("bad", ingest.FlagError)}}}})
	tools := inf.Tools()
	require.Len(t, tools, 2)
	assert.Equal(t, "bad", tools[0].Name)
	assert.NotNil(t, tools[0].InputSchema)
	assert.Nil(t, tools[0].OutputSchema)
	assert.Equal(t, "mine", tools[1].Name)
}

func TestOverlap(t *testing.T) {
	inf := NewInferrer()
	inf.Observe("find", Sample{Result: json.RawMessage(`"user-1"`)})
	inf.Observe("find", Sample{Result: json.RawMessage(`"user-2"`)})
	inf.Observe("get", Sample{Args: json.RawMessage(`{"user_id":"user-1"}`), Result: json.RawMessage(`{"a":{"zip":"12345"}}`)})
	inf.Observe("get", Sample{Args: json.RawMessage(`{"user_id":"user-9"}`)})
	inf.Observe("by_zip", Sample{Args: json.RawMessage(`{"zip":"99999","x":"1"}`)})
	share, known := inf.Overlap("find", "/result", "get", "user_id")
	assert.True(t, known)
	assert.InDelta(t, 0.5, share, 1e-9)
	share, known = inf.Overlap("get", "/a/zip", "by_zip", "zip")
	assert.True(t, known)
	assert.Zero(t, share)
	_, known = inf.Overlap("get", "/a/zip", "by_zip", "x") // too short to tell
	assert.False(t, known)
	_, known = inf.Overlap("nobody", "/a", "get", "user_id")
	assert.False(t, known)
}
