package flows_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
)

func formatSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(flows.FormatSchema()))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("urn:pave:flow-file", doc))
	s, err := c.Compile("urn:pave:flow-file")
	require.NoError(t, err)
	return s
}

func validate(t testing.TB, s *jsonschema.Schema, doc []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	require.NoError(t, err)
	return s.Validate(v)
}

// Every flow of the golden vectors, as it is there and in both forms that pave writes.
func TestFormatSchemaTakesGoldenFlows(t *testing.T) {
	s := formatSchema(t)
	files, err := filepath.Glob(filepath.Join("..", "testdata", "vectors", "*.json"))
	require.NoError(t, err)
	seen := map[string]int{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var doc struct {
			Vectors []struct {
				ID       string
				Flow     json.RawMessage
				Subflows []json.RawMessage
			}
		}
		require.NoError(t, json.Unmarshal(raw, &doc), file)
		for _, v := range doc.Vectors {
			for _, own := range append(v.Subflows, v.Flow) {
				flow, _, err := flows.ParseFlow(own)
				if len(own) == 0 || err != nil {
					continue
				}
				require.NoError(t, validate(t, s, own), v.ID)
				for _, encode := range []func(*flows.Flow, flows.Format) ([]byte, error){flows.EncodeFlow, flows.EncodeInterop} {
					out, err := encode(flow, flows.FormatJSON)
					require.NoError(t, err)
					require.NoError(t, validate(t, s, out), "%s: %s", v.ID, out)
				}
				seen[flow.Type]++
			}
		}
	}
	assert.Greater(t, seen[flows.TypeFlow], 200)
	assert.Greater(t, seen[flows.TypeDAGFlow], 50)
}

func flowDoc(kind, version, fields, step string) string {
	return fmt.Sprintf(`{"type":%q,"format_version":%q,"name":"f","version":"1.0.0","description":"d"%s,"steps":[%s]}`, kind, version, fields, step)
}

// Both directions: what the schema says of a document, ParseFlow says too.
func TestFormatSchemaAgreesWithParser(t *testing.T) {
	s := formatSchema(t)
	linear := func(step string) string { return flowDoc("Flow", "1.1", "", step) }
	dag := func(step string) string { return flowDoc("DAGFlow", "1.1", "", step) }
	field := func(fields string) string { return flowDoc("Flow", "1.1", ","+fields, `{"tool_name":"a"}`) }
	good := map[string]string{
		"base fields":            flowDoc("Flow", "1", `,"surprise":1,"safety":null`, `{"tool_name":"a","flow_name":null,"retry_policy":{},"output_as":5}`),
		"number as version":      `{"type":"Flow","format_version":1,"name":"f","description":"d","steps":[]}`,
		"later minor":            flowDoc("Flow", "1.9", "", `{"tool_name":"a","on_error":"fallback:b"}`),
		"all mapping forms":      linear(`{"tool_name":"a","input_mapping":{"k":"x","p":"/x/y","l":[1],"c":{"$const":"s"},"e":{"$expr":"x"},"o":{"$optional":{"$expr":"x"}},"two":{"$expr":1,"b":2}}}`),
		"loop":                   linear(`{"tool_name":"a","for_each":"/x","as":"y","max_concurrency":2,"output_as":"z","guard":"x == 1"}`),
		"null additions":         linear(`{"tool_name":"a","for_each":null,"as":null,"output_as":null,"guard":null,"output_mapping":{},"max_concurrency":null}`),
		"sub-flow":               linear(`{"flow_name":"g@1.0.0","retry":{"max_backoff_seconds":3,"retryable_errors":["io"]}}`),
		"schemas":                field(`"input_schema":{"type":"object"},"returns":{"a":"b"},"evidence":{"any":1},"on_failure":"hand_back"`),
		"governance and safety":  field(`"governance":{"lifecycle":"draft","replaces_tools":["a"]},"safety":{"side_effects":"read","read_only":true,"source":"reviewer"}`),
		"branches":               dag(`{"step_id":"a","tool_name":"a","branches":[{"target_step_id":"b","predicate":"x"}],"default_next":"b"},{"step_id":"b","tool_name":"b","depends_on":["a"]}`),
		"capability":             dag(`{"step_id":"a","tool_name":"a","step_type":"capability","capability_id":"c","branches":[]}`),
		"candidates":             linear(`{"tool_name":"a","decision_candidates":["a","b"]}`),
		"interop fields in 1.1":  linear(`{"tool_name":"a","flow_name":null,"output_mapping":null,"retry":null,"decision_candidates":null,"input_contract":null}`),
		"pins":                   field(`"tool_schema_hashes":{"a":"0123"},"dynamic_params":["token"],"trigger_conditions":[1]`),
		"null where it has none": field(`"input_schema_ref":null,"output_schema":null`),
	}
	for name, doc := range good {
		_, _, err := flows.ParseFlow([]byte(doc))
		assert.NoError(t, err, name)
		assert.NoError(t, validate(t, s, []byte(doc)), name)
	}
	bad := map[string]string{
		"no object":               `[]`,
		"no type":                 `{"name":"f","description":"d","steps":[]}`,
		"other type":              flowDoc("Chain", "1", "", ""),
		"no steps":                `{"type":"Flow","name":"f","description":"d"}`,
		"no name":                 `{"type":"Flow","name":"","description":"d","steps":[]}`,
		"dag without version":     `{"type":"DAGFlow","name":"f","description":"d","steps":[]}`,
		"major version":           flowDoc("Flow", "2", "", ""),
		"unknown field":           field(`"surprise":1`),
		"unknown step field":      linear(`{"tool_name":"a","tool":"b"}`),
		"unknown retry field":     linear(`{"tool_name":"a","retry":{"tries":1}}`),
		"unknown safety field":    field(`"safety":{"level":"low"}`),
		"unknown governance":      field(`"governance":{"boss":"me"}`),
		"dag field in linear":     linear(`{"tool_name":"a","depends_on":["b"]}`),
		"neither tool nor flow":   linear(`{"input_mapping":{}}`),
		"tool and flow":           linear(`{"tool_name":"a","flow_name":"b"}`),
		"bad on_error":            linear(`{"tool_name":"a","on_error":"retry"}`),
		"bad status":              field(`"status":"draft"`),
		"bad collision":           field(`"on_context_collision":"merge"`),
		"bad on_failure":          field(`"on_failure":"stop"`),
		"both outputs":            linear(`{"tool_name":"a","output_as":"x","output_mapping":{"a":"b"}}`),
		"empty output_as":         linear(`{"tool_name":"a","output_as":""}`),
		"loop without as":         linear(`{"tool_name":"a","for_each":"/x"}`),
		"as without loop":         linear(`{"tool_name":"a","as":"x"}`),
		"width without loop":      linear(`{"tool_name":"a","max_concurrency":2}`),
		"no width":                linear(`{"tool_name":"a","for_each":"/x","as":"y","max_concurrency":0}`),
		"expression is no string": linear(`{"tool_name":"a","input_mapping":{"e":{"$expr":1}}}`),
		"optional nests":          linear(`{"tool_name":"a","input_mapping":{"o":{"$optional":{"$optional":"x"}}}}`),
		"empty returns":           field(`"returns":{}`),
		"schema twice":            field(`"input_schema":{"type":"object"},"input_schema_ref":"x"`),
		"schema is no object":     field(`"input_schema":true`),
		"retry twice":             linear(`{"tool_name":"a","retry":{},"retry_policy":{}}`),
		"negative retries":        linear(`{"tool_name":"a","retry":{"max_retries":-1}}`),
		"shrinking backoff":       linear(`{"tool_name":"a","retry":{"backoff_multiplier":0.5}}`),
		"retry class":             linear(`{"tool_name":"a","retry":{"retryable_errors":["disk"]}}`),
		"no retry class":          linear(`{"tool_name":"a","retry":{"retryable_errors":[]}}`),
		"empty guard":             linear(`{"tool_name":"a","guard":""}`),
		"candidates twice":        linear(`{"tool_name":"a","decision_candidates":["a","a"]}`),
		"step without id":         dag(`{"tool_name":"a"}`),
		"default alone":           dag(`{"step_id":"a","tool_name":"a","default_next":"b"}`),
		"branch without target":   dag(`{"step_id":"a","tool_name":"a","branches":[{"predicate":"x"}]}`),
		"branch with more":        dag(`{"step_id":"a","tool_name":"a","branches":[{"target_step_id":"b","predicate":"x","weight":1}]}`),
		"capability of a tool":    dag(`{"step_id":"a","tool_name":"a","capability_id":"c"}`),
		"capability branches":     dag(`{"step_id":"a","tool_name":"a","step_type":"capability","branches":[{"target_step_id":"b","predicate":"x"}]}`),
		"output is no key":        linear(`{"tool_name":"a","output_mapping":{"a":1}}`),
		"null in 1":               flowDoc("Flow", "1", `,"status":null`, ""),
		"wrong type in 1":         flowDoc("Flow", "1", `,"dynamic_params":"x"`, ""),
	}
	for name, doc := range bad {
		_, _, err := flows.ParseFlow([]byte(doc))
		assert.Error(t, err, name)
		assert.Error(t, validate(t, s, []byte(doc)), name)
	}
}
