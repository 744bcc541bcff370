package flows_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"pave/flows"
	"pave/flows/schema"
	"pave/flows/value"
)

// load reads the vectors of one group.
func load[T any](t testing.TB, group string) []T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "vectors", group+".json"))
	require.NoError(t, err)
	var file struct{ Vectors []T }
	require.NoError(t, json.Unmarshal(data, &file))
	require.NotEmpty(t, file.Vectors)
	return file.Vectors
}

func tree(t testing.TB, data []byte) any {
	t.Helper()
	v, err := value.Decode(data)
	require.NoError(t, err)
	return v
}

func TestFingerprintVectors(t *testing.T) {
	type vector struct {
		ID, Kind      string
		Schema        json.RawMessage
		Input         json.RawMessage `json:"pydantic_input_schema"`
		Output        json.RawMessage `json:"pydantic_output_schema"`
		SchemaVersion string          `json:"schema_version"`
		Expect        struct {
			Fingerprint string
			Input       string `json:"input_schema_hash"`
			Output      string `json:"output_schema_hash"`
			Hash        string `json:"schema_hash"`
		}
	}
	ran := 0
	for _, v := range load[vector](t, "fingerprint") {
		switch v.Kind {
		case "raw_schema":
			got, err := schema.PeerFingerprint(v.Schema)
			require.NoError(t, err)
			assert.Equal(t, v.Expect.Fingerprint, got, v.ID)
		case "tool":
			in, err := schema.PeerFingerprint(v.Input)
			require.NoError(t, err)
			out, err := schema.PeerFingerprint(v.Output)
			require.NoError(t, err)
			assert.Equal(t, v.Expect.Input, in, v.ID)
			assert.Equal(t, v.Expect.Output, out, v.ID)
			tool := &flows.Tool{InputSchema: v.Input, OutputSchema: v.Output, SchemaVersion: v.SchemaVersion}
			assert.Equal(t, v.Expect.Hash, flows.PeerSchemaHash(tool), v.ID)
			assert.Len(t, flows.SchemaHash(tool), 16)
		default: // "compat" is about a registry of tools
			continue
		}
		ran++
	}
	assert.Equal(t, 9, ran)
}

func TestSafetyVectors(t *testing.T) {
	type vector struct {
		ID, Kind  string
		Contract  json.RawMessage
		Contracts []json.RawMessage
		Expect    map[string]any
	}
	check := func(id string, c flows.SafetyContract, want map[string]any) {
		t.Helper()
		var reason any
		if c.ApprovalReason != "" {
			reason = c.ApprovalReason
		}
		assert.Equal(t, want, map[string]any{"side_effects": string(c.SideEffects), "read_only": c.ReadOnly(), "stability": c.Stability,
			"determinism_level": c.DeterminismLevel, "idempotent": c.Idempotent, "cacheable": c.Cacheable, "safe_to_retry": c.SafeToRetry,
			"supports_dry_run": c.SupportsDryRun, "requires_approval": c.RequiresApproval, "approval_reason": reason}, id)
	}
	for _, v := range load[vector](t, "safety") {
		switch v.Kind {
		case "merge":
			contracts := make([]flows.SafetyContract, len(v.Contracts))
			for i, raw := range v.Contracts {
				require.NoError(t, json.Unmarshal(raw, &contracts[i]), v.ID)
			}
			check(v.ID, flows.MergeSafety(contracts...), v.Expect)
		case "contract":
			var c flows.SafetyContract
			err := json.Unmarshal(v.Contract, &c)
			if v.Expect["error"] != nil {
				assert.ErrorContains(t, err, "contradicts", v.ID)
				continue
			}
			require.NoError(t, err, v.ID)
			check(v.ID, c, v.Expect)
		case "lifecycle":
			for move, allowed := range v.Expect {
				from, to, _ := strings.Cut(move, "->")
				assert.Equal(t, allowed, flows.Lifecycle(from).CanMoveTo(flows.Lifecycle(to)), move)
			}
		default:
			t.Errorf("%s: unknown kind %s", v.ID, v.Kind)
		}
	}
}

func TestSerializationVectors(t *testing.T) {
	type vector struct {
		ID, Kind string
		Text     string
		Dict     json.RawMessage
		Limits   struct {
			MaxBytes  int `json:"max_bytes"`
			MaxNodes  int `json:"max_nodes"`
			MaxDepth  int `json:"max_depth"`
			MaxString int `json:"max_string_length"`
		}
		Expect struct {
			OK         bool
			Name, Code string
			Steps      int
			LimitNamed string `json:"limit_named"`
			JSON, YAML string
		}
	}
	divergences := 0
	for _, v := range load[vector](t, "serialization") {
		if v.Kind == "roundtrip" {
			flow, warnings, err := flows.ParseFlow(v.Dict)
			require.NoError(t, err, v.ID)
			assert.Empty(t, warnings, v.ID)
			asJSON, err := flows.EncodeInterop(flow, flows.FormatJSON)
			require.NoError(t, err)
			assert.Equal(t, v.Expect.JSON, string(asJSON), v.ID)
			// YAML writers differ in indentation and quotes; what the text says is compared.
			asYAML, err := flows.EncodeInterop(flow, flows.FormatYAML)
			require.NoError(t, err)
			for _, text := range []string{v.Expect.YAML, string(asYAML)} {
				again, _, err := flows.ParseFlow([]byte(text))
				require.NoError(t, err, v.ID)
				assert.Equal(t, flow, again, v.ID)
			}
			continue
		}
		limits := flows.Limits{MaxBytes: v.Limits.MaxBytes, MaxNodes: v.Limits.MaxNodes, MaxDepth: v.Limits.MaxDepth, MaxStringLength: v.Limits.MaxString}
		flow, _, err := flows.ParseFlowLimits([]byte(v.Text), limits)
		if strings.Contains(v.Text, "NaN") { // rule R23: NaN is refused
			assert.Error(t, err, v.ID)
			divergences++
			continue
		}
		if v.Expect.OK {
			if assert.NoError(t, err, v.ID) {
				assert.Equal(t, v.Expect.Name, flow.Name, v.ID)
				if v.Expect.Steps > 0 {
					assert.Len(t, flow.Steps, v.Expect.Steps, v.ID)
				}
			}
			continue
		}
		var cw flows.CWError
		require.True(t, errors.As(err, &cw), "%s: %v", v.ID, err)
		assert.Equal(t, v.Expect.Code, cw.Code, v.ID)
		assert.ErrorContains(t, err, v.Expect.LimitNamed, v.ID)
	}
	assert.Equal(t, 1, divergences)
}

// The versions of the registry vectors follow PEP 440; rule R24 keeps semantic versions, so the vectors whose
// versions are semantic ones must agree, and the others must be refused.
func TestRegistryVectors(t *testing.T) {
	type vector struct {
		ID     string
		Order  []string `json:"register_order"`
		Expect struct {
			Latest   string
			Versions []string
			Code     string
		}
	}
	exact, byRule := 0, 0
	for _, v := range load[vector](t, "registry") {
		versions := make([]flows.Version, 0, len(v.Expect.Versions))
		var refused error
		for _, text := range append(v.Order, v.Expect.Versions...) {
			if _, err := flows.ParseVersion(text); err != nil {
				refused = err
			}
		}
		if refused != nil {
			assert.ErrorIs(t, refused, flows.CWInvalidVersion)
			byRule++
			continue
		}
		for _, text := range v.Expect.Versions {
			parsed, err := flows.ParseVersion(text)
			require.NoError(t, err)
			versions = append(versions, parsed)
		}
		for i := 1; i < len(versions); i++ {
			assert.Equal(t, -1, versions[i-1].Compare(versions[i]), v.ID)
		}
		assert.Equal(t, v.Expect.Latest, versions[len(versions)-1].String(), v.ID)
		exact++
	}
	assert.Equal(t, 1, exact)
	assert.Equal(t, 8, byRule)
}

// Every flow of every group reads, or is refused by rule R5 (a predicate that does not parse) or for the reason
// that its vector expects; what reads is a fixed point of both written forms.
func TestFlowsOfAllVectorsRoundTrip(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "testdata", "vectors", "*.json"))
	require.NoError(t, err)
	read, predicates := 0, 0
	for _, file := range files {
		type vector struct {
			ID     string
			Flow   json.RawMessage
			Expect json.RawMessage
		}
		for _, v := range load[vector](t, strings.TrimSuffix(filepath.Base(file), ".json")) {
			if len(v.Flow) == 0 || v.Flow[0] != '{' {
				continue
			}
			var fields map[string]any
			require.NoError(t, json.Unmarshal(v.Flow, &fields))
			if fields["type"] == nil { // older groups leave the type out
				fields["type"] = flows.TypeFlow
				steps, _ := fields["steps"].([]any)
				if len(steps) > 0 && steps[0].(map[string]any)["step_id"] != nil {
					fields["type"] = flows.TypeDAGFlow
				}
			}
			doc, err := json.Marshal(fields)
			require.NoError(t, err)
			flow, _, err := flows.ParseFlow(doc)
			switch {
			case err != nil && strings.Contains(err.Error(), "Invalid predicate"):
				predicates++
				continue
			case err != nil:
				assert.Contains(t, string(v.Expect), "CW-E017", "%s: %v", v.ID, err)
				continue
			}
			read++
			roundTrip(t, v.ID, flow)
		}
	}
	t.Logf("%d flows round trip, %d refused for their predicate", read, predicates)
	assert.Greater(t, read, 400)
}

func roundTrip(t *testing.T, id string, flow *flows.Flow) {
	t.Helper()
	for _, format := range []flows.Format{flows.FormatJSON, flows.FormatYAML} {
		text, err := flows.EncodeFlow(flow, format)
		require.NoError(t, err, id)
		again, warnings, err := flows.ParseFlow(text)
		require.NoError(t, err, "%s\n%s", id, text)
		assert.Empty(t, warnings, id)
		assert.Equal(t, flows.Digest(flow), flows.Digest(again), id)
		once, err := flows.EncodeFlow(again, format)
		require.NoError(t, err)
		assert.Equal(t, string(text), string(once), id)
	}
	interop, err := flows.EncodeInterop(flow, flows.FormatYAML)
	require.NoError(t, err)
	again, _, err := flows.ParseFlow(interop)
	require.NoError(t, err, "%s\n%s", id, interop)
	assert.Equal(t, flows.Digest(flow), flows.Digest(again), id)
}

func TestAdditionsVectors(t *testing.T) {
	type vector struct {
		ID     string
		Flow   json.RawMessage
		Expect struct {
			Registration *struct{ Code string } `json:"registration_error"`
		}
	}
	for _, v := range load[vector](t, "additions") {
		_, warnings, err := flows.ParseFlow(v.Flow)
		if v.Expect.Registration != nil {
			var cw flows.CWError
			require.True(t, errors.As(err, &cw), v.ID)
			assert.Equal(t, v.Expect.Registration.Code, cw.Code, v.ID)
			continue
		}
		require.NoError(t, err, v.ID)
		assert.Equal(t, v.ID == "additions/unknown-field-1", len(warnings) == 1, v.ID)
	}
}

// The mapping vectors with a failing source name it; array indexes are strict by rule R12.
func TestMappingVectors(t *testing.T) {
	type vector struct {
		ID     string
		Flow   json.RawMessage
		Input  json.RawMessage
		Expect struct {
			Success bool
			Steps   []struct {
				Inputs json.RawMessage
				Error  string `json:"error_message"`
			}
		}
	}
	exact, byRule := 0, 0
	for _, v := range load[vector](t, "mapping") {
		if strings.Contains(v.ID, "/out-") || len(v.Expect.Steps) == 0 {
			continue
		}
		var fields map[string]any
		require.NoError(t, json.Unmarshal(v.Flow, &fields))
		flow, _, err := flows.ParseFlow(v.Flow)
		require.NoError(t, err, v.ID)
		step := &flow.Steps[0]
		got, failed := flows.ResolveMapping(step.InputMapping, tree(t, v.Input).(map[string]any), step.Name(), 0)
		record := v.Expect.Steps[0]
		want := tree(t, record.Inputs)
		switch {
		case failed == nil:
			assert.Equal(t, want, any(got), v.ID)
			exact++
		case record.Error != "":
			assert.Equal(t, record.Error, failed.Error(), v.ID)
			exact++
		default:
			ref := step.InputMapping[0].Value.Ref
			_, strict := value.Index(ref[strings.LastIndex(ref, "/")+1:])
			assert.False(t, strict, v.ID)
			byRule++
		}
	}
	assert.Equal(t, 3, byRule)
	assert.Greater(t, exact, 30)
}
