// Package vectortest runs the golden vectors of testdata/vectors against the executor: each is exact, a declared
// divergence with the rule that declares it, outside of what this version runs, or a failure.
package vectortest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"pave/executor"
	"pave/executor/bind/local"
	"pave/flows"
	"pave/flows/schema"
	"pave/flows/value"
)

// Vector is one golden vector, its parts still in JSON.
type Vector struct {
	ID           string                     `json:"id"`
	Kind         string                     `json:"kind"`
	Tools        []toolSpec                 `json:"tools"`
	Flow         json.RawMessage            `json:"flow"`
	Subflows     []json.RawMessage          `json:"subflows"`
	Schemas      map[string]json.RawMessage `json:"schemas"`
	Executor     map[string]json.RawMessage `json:"executor"`
	Call         map[string]json.RawMessage `json:"call"`
	Input        json.RawMessage            `json:"input"`
	Repeat       int                        `json:"repeat"`
	Expect       json.RawMessage            `json:"expect"`
	Policy       map[string]json.RawMessage `json:"policy"`
	OnError      *string                    `json:"on_error"`
	Step         map[string]any             `json:"step"`
	Steps        int                        `json:"steps_executed"`
	ActualMS     float64                    `json:"actual_execution_ms"`
	Profile      map[string]float64         `json:"profile"`
	Provider     string                     `json:"provider"`
	Model        string                     `json:"model"`
	OutputShare  float64                    `json:"output_fraction"`
	Args         map[string]string          `json:"args"`
	expectValues any
}

type toolSpec struct {
	Name          string          `json:"name"`
	InputSchema   json.RawMessage `json:"input_schema"`
	OutputSchema  json.RawMessage `json:"output_schema"`
	Fn            json.RawMessage `json:"fn"`
	Timeout       *float64        `json:"timeout_seconds"`
	MaxOutputSize *int            `json:"max_output_size"`
	SchemaVersion string          `json:"schema_version"`
	Cacheable     *bool           `json:"cacheable"`
	Safety        map[string]any  `json:"safety"`
	DryRunFn      json.RawMessage `json:"dry_run_fn"`
}

// Load reads the vectors of one group.
func Load(dir, group string) ([]Vector, error) {
	data, err := os.ReadFile(filepath.Join(dir, group+".json"))
	if err != nil {
		return nil, err
	}
	var file struct{ Vectors []Vector }
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", group, err)
	}
	for i := range file.Vectors {
		v := &file.Vectors[i]
		if v.expectValues, err = value.Decode(v.Expect); err != nil {
			return nil, fmt.Errorf("%s: expect: %w", v.ID, err)
		}
	}
	return file.Vectors, nil
}

// Verdict is the outcome of one vector.
type Verdict string

const (
	Exact      Verdict = "exact"
	Divergence Verdict = "divergence" // Note names the rule; its expected outcome was asserted
	OutOfScope Verdict = "out of scope"
	Fail       Verdict = "FAIL"
)

// Outcome is what running a vector found. Note is the rule, the reason, or the differences.
type Outcome struct {
	ID      string
	Verdict Verdict
	Note    string
}

// world is a vector's tools and schemas, ready for one executor. Tool instances keep their state over repeats.
type world struct {
	tools    executor.Tools
	schemas  schemaSet
	registry *local.Registry
}

type schemaSet map[string]json.RawMessage

func (s schemaSet) Schema(name string) (flows.RawSchema, bool) {
	raw, ok := s[name]
	return raw, ok
}

func (v *Vector) world() (*world, error) {
	w := &world{tools: executor.Tools{}, schemas: v.Schemas, registry: local.New()}
	for _, spec := range v.Tools {
		tool := &flows.Tool{Name: spec.Name, InputSchema: spec.InputSchema, OutputSchema: spec.OutputSchema, SchemaVersion: spec.SchemaVersion,
			TimeoutSeconds: spec.Timeout, MaxOutputSize: spec.MaxOutputSize, Cacheable: spec.Cacheable,
			Binding: &flows.Binding{Kind: local.Kind, Local: "vector:" + spec.Name}}
		safety, err := spec.contract()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", spec.Name, err)
		}
		tool.Safety = safety
		params, err := value.Decode(spec.Fn)
		if err != nil {
			return nil, fmt.Errorf("%s: fn: %w", spec.Name, err)
		}
		w.tools[spec.Name] = tool
		in, err := schema.Compile(spec.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("%s: input_schema: %w", spec.Name, err)
		}
		if v.flowDoc().FormatVersion == "1.1" { // not of the reference: absent arguments are absent
			in = nil
		}
		w.registry.Register("vector:"+spec.Name, newFn(params.(map[string]any)).over(in), false)
		if preview, err := value.Decode(spec.DryRunFn); err == nil && preview != nil {
			w.registry.RegisterPreview("vector:"+spec.Name, newFn(preview.(map[string]any)).over(in))
		}
	}
	return w, nil
}

// contract is the reference's permissive contract with what the vector sets.
func (t *toolSpec) contract() (*flows.SafetyContract, error) {
	s := flows.DefaultSafety()
	for key, v := range t.Safety {
		text, _ := v.(string)
		yes, _ := v.(bool)
		switch key {
		case "side_effects":
			s.SideEffects = flows.SideEffects(text)
		case "stability":
			s.Stability = text
		case "determinism_level":
			s.DeterminismLevel = text
		case "idempotent":
			s.Idempotent = yes
		case "cacheable":
			s.Cacheable = yes
		case "safe_to_retry":
			s.SafeToRetry = yes
		case "supports_dry_run":
			s.SupportsDryRun = yes
		case "requires_approval", "requires_review":
			s.RequiresApproval = yes
		case "read_only": // follows from side_effects
		case "approval_reason":
			s.ApprovalReason = text
		default:
			return nil, fmt.Errorf("unknown safety field %q", key)
		}
	}
	return &s, nil
}
