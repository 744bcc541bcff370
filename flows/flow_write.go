package flows

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pave/flows/value"
)

// EncodeFlow writes the canonical form: sorted fields, none at its default. Mappings and schemas keep their
// order, which has a meaning, so reading it back gives an equal flow.
func EncodeFlow(f *Flow, format Format) ([]byte, error) { return write(flowTree(f), format) }

// EncodeInterop writes the base system's form: every field of it, keys sorted throughout. Additions of format
// version 1.1 are written where they are used.
func EncodeInterop(f *Flow, format Format) ([]byte, error) { return write(interopTree(f), format) }

func write(tree value.Members, format Format) ([]byte, error) {
	switch format {
	case FormatYAML:
		return writeYAML(tree)
	case FormatJSON:
		var buf bytes.Buffer
		err := json.Indent(&buf, value.Encode(tree), "", "  ")
		return buf.Bytes(), err
	}
	return nil, fmt.Errorf("unknown format %q", format)
}

// Digest is the content digest that approvals are for: hex SHA-256 of the canonical JSON (RFC 8785) of the
// canonical form without version, status, governance, evidence and pins.
func Digest(f *Flow) string {
	content := *f
	content.Version, content.Status, content.Governance, content.Evidence, content.ToolSchemaHashes = "", "", nil, nil, nil
	content.FormatVersion = FormatVersion1 // flowTree raises it where the content needs it
	return fullSum(value.Canonical(flowTree(&content)))
}

func fullSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func shortSum(data []byte) string { return fullSum(data)[:16] }

// MarshalJSON writes the canonical form, compact.
func (f *Flow) MarshalJSON() ([]byte, error) { return value.Encode(flowTree(f)), nil }

// UnmarshalJSON reads a flow file.
func (f *Flow) UnmarshalJSON(data []byte) error {
	parsed, _, err := ParseFlow(data)
	if err != nil {
		return err
	}
	*f = *parsed
	return nil
}

// fields builds an object, leaving out what is at its default.
type fields struct{ members value.Members }

func (b *fields) add(key string, v any) {
	b.members = append(b.members, value.Member{Key: key, Value: v})
}

func (b *fields) addIf(present bool, key string, v any) {
	if present {
		b.add(key, v)
	}
}

func (b *fields) text(key, v, dflt string) { b.addIf(v != dflt && v != "", key, v) }

func (b *fields) texts(key string, v []string) {
	if len(v) > 0 {
		b.add(key, anyList(v))
	}
}

// sorted returns the object with its keys in order.
func (b *fields) sorted() value.Members {
	slices.SortFunc(b.members, func(x, y value.Member) int { return strings.Compare(x.Key, y.Key) })
	if b.members == nil {
		return value.Members{}
	}
	return b.members
}

func anyList(v []string) []any {
	out := make([]any, len(v))
	for i, s := range v {
		out[i] = s
	}
	return out
}

func sortedMembers(m map[string]any) value.Members {
	var b fields
	for k, v := range m {
		b.add(k, v)
	}
	return b.sorted()
}

func stringMap(m map[string]string) value.Members {
	var b fields
	for k, v := range m {
		b.add(k, v)
	}
	return b.sorted()
}

// rawTree keeps the declaration order of a schema.
func rawTree(raw RawSchema) any {
	tree, err := value.DecodeOrdered(raw, value.Limits{})
	if err != nil {
		return nil // flows are made of schemas that compile; see ParseFlow
	}
	return tree
}

func flowTree(f *Flow) value.Members {
	var b fields
	format := f.FormatVersion
	if (format == "" || format == FormatVersion1) && needs11(f) {
		format = FormatVersion11
	}
	b.text("format_version", format, FormatVersion1)
	b.add("type", orText(f.Type, TypeFlow))
	b.add("name", f.Name)
	b.addIf(f.Version != "" && (f.Version != "0.1.0" || f.Type == TypeDAGFlow), "version", f.Version)
	b.add("description", f.Description)
	for _, s := range []struct {
		key string
		raw RawSchema
		ref string
	}{{"input_schema", f.InputSchema, f.InputSchemaRef}, {"output_schema", f.OutputSchema, f.OutputSchemaRef}, {"context_schema", f.ContextSchema, f.ContextSchemaRef}} {
		b.addIf(s.raw != nil, s.key, rawTree(s.raw))
		b.text(s.key+"_ref", s.ref, "")
	}
	b.text("on_context_collision", string(f.OnContextCollision), string(CollisionWarn))
	b.text("on_failure", string(f.OnFailure), string(OnFailureFail))
	b.addIf(len(f.Returns) > 0, "returns", mappingTree(f.Returns, true))
	b.text("status", string(f.Status), string(StatusActive))
	b.addIf(f.Deterministic != nil && !*f.Deterministic, "deterministic", false)
	b.addIf(f.TriggerConditions != nil, "trigger_conditions", f.TriggerConditions)
	b.addIf(f.ToolSchemaHashes != nil, "tool_schema_hashes", stringMap(f.ToolSchemaHashes))
	b.text("capability_id", f.CapabilityID, "")
	governance := governanceTree(f.Governance)
	b.addIf(len(governance) > 0, "governance", governance)
	b.addIf(f.Safety != nil, "safety", safetyTree(f.Safety))
	b.texts("dynamic_params", f.DynamicParams)
	b.addIf(f.Evidence != nil, "evidence", f.Evidence)
	steps := make([]any, len(f.Steps))
	for i := range f.Steps {
		steps[i] = stepTree(&f.Steps[i], format != "" && format != FormatVersion1)
	}
	b.add("steps", steps)
	return b.sorted()
}

func orText(s, dflt string) string {
	if s == "" {
		return dflt
	}
	return s
}

// needs11 reports whether the flow uses an addition of format version 1.1.
func needs11(f *Flow) bool {
	if f.InputSchema != nil || f.OutputSchema != nil || f.ContextSchema != nil || f.OnFailure == OnFailureHandBack || len(f.Returns) > 0 || f.Evidence != nil {
		return true
	}
	return slices.ContainsFunc(f.Steps, func(s Step) bool {
		return s.OutputAs != "" || s.Guard != "" || s.ForEach != nil || s.Retry != nil && s.Retry.MaxBackoffSeconds != 0 ||
			slices.ContainsFunc(s.InputMapping, func(e MappingEntry) bool { return e.Value.Kind >= MapConst })
	})
}

func governanceTree(g *Governance) value.Members {
	if g == nil {
		return nil
	}
	var b fields
	b.text("lifecycle", string(g.Lifecycle), string(LifecycleActive))
	b.text("owner", g.Owner, "")
	b.texts("replaces_tools", g.ReplacesTools)
	b.addIf(g.EstimatedModelCallsRemoved != 0, "estimated_model_calls_removed", int64(g.EstimatedModelCallsRemoved))
	if g.EstimatedTokenSavings != nil {
		b.add("estimated_token_savings", *g.EstimatedTokenSavings)
	}
	b.text("reviewed_by", g.ReviewedBy, "")
	b.text("review_notes", g.ReviewNotes, "")
	return b.sorted()
}

func safetyTree(c *SafetyContract) value.Members {
	if c == nil {
		return nil
	}
	var b fields
	b.add("side_effects", orText(string(c.SideEffects), string(EffectNone)))
	b.text("stability", c.Stability, "stable")
	b.text("determinism_level", c.DeterminismLevel, "full")
	b.addIf(!c.Idempotent, "idempotent", false)
	b.addIf(!c.Cacheable, "cacheable", false)
	b.addIf(!c.SafeToRetry, "safe_to_retry", false)
	b.addIf(c.SupportsDryRun, "supports_dry_run", true)
	b.addIf(c.RequiresApproval, "requires_approval", true)
	b.text("approval_reason", c.ApprovalReason, "")
	b.text("source", c.Source, "")
	return b.sorted()
}

// MarshalJSON writes the contract without fields at their defaults.
func (c SafetyContract) MarshalJSON() ([]byte, error) { return value.Encode(safetyTree(&c)), nil }

// UnmarshalJSON reads a contract; absent fields take the defaults of DefaultSafety.
func (c *SafetyContract) UnmarshalJSON(data []byte) error {
	tree, err := value.DecodeOrdered(data, value.Limits{})
	if err != nil {
		return formatError("%v", err)
	}
	r := &reader{what: "safety contract", strict: true}
	parsed := r.safety(&object{reader: r, m: value.Members{{Key: "safety", Value: tree}}, read: map[string]bool{}})
	if err := r.err(); err != nil {
		return err
	}
	if parsed != nil {
		*c = *parsed
	}
	return nil
}

func stepTree(s *Step, is11 bool) value.Members {
	var b fields
	b.addIf(s.FlowName == "", "tool_name", s.ToolName) // also an empty name, which files of version 1 may have
	b.text("flow_name", s.FlowName, "")
	b.addIf(len(s.InputMapping) > 0, "input_mapping", mappingTree(s.InputMapping, is11))
	b.addIf(s.OutputMapping != nil, "output_mapping", outputTree(s.OutputMapping))
	b.text("output_as", s.OutputAs, "")
	b.addIf(s.Retry != nil, "retry", retryTree(s.Retry))
	b.text("on_error", s.OnError, "fail")
	b.text("guard", s.Guard, "")
	if s.ForEach != nil {
		b.add("for_each", valueTree(s.ForEach, true))
	}
	b.text("as", s.As, "")
	b.addIf(s.MaxConcurrency > 0, "max_concurrency", int64(s.MaxConcurrency))
	b.texts("decision_candidates", s.DecisionCandidates)
	b.text("input_contract", s.InputContract, "")
	b.text("output_contract", s.OutputContract, "")
	b.text("step_id", s.StepID, "")
	b.texts("depends_on", s.DependsOn)
	b.text("step_type", s.StepType, "tool")
	b.text("capability_id", s.CapabilityID, "")
	b.addIf(len(s.Branches) > 0, "branches", branchesTree(s.Branches))
	b.text("default_next", s.DefaultNext, "")
	return b.sorted()
}

func branchesTree(branches []Branch) []any {
	out := make([]any, len(branches))
	for i, br := range branches {
		out[i] = value.Members{{Key: "predicate", Value: br.Predicate}, {Key: "target_step_id", Value: br.TargetStepID}}
	}
	return out
}

func retryTree(p *RetryPolicy) value.Members {
	if p == nil {
		return nil
	}
	var b fields
	dflt := DefaultRetry()
	b.addIf(p.MaxRetries != dflt.MaxRetries, "max_retries", int64(p.MaxRetries))
	b.addIf(p.BackoffSeconds != dflt.BackoffSeconds, "backoff_seconds", p.BackoffSeconds)
	b.addIf(p.BackoffMultiplier != dflt.BackoffMultiplier, "backoff_multiplier", p.BackoffMultiplier)
	b.addIf(p.MaxBackoffSeconds != 0, "max_backoff_seconds", p.MaxBackoffSeconds)
	b.addIf(p.Jitter, "jitter", true)
	b.addIf(len(p.RetryableErrors) > 0 && !slices.Equal(p.RetryableErrors, dflt.RetryableErrors), "retryable_errors", anyList(p.RetryableErrors))
	return b.sorted()
}

func outputTree(entries []OutputEntry) value.Members {
	out := make(value.Members, len(entries))
	for i, e := range entries {
		out[i] = value.Member{Key: e.ContextKey, Value: e.OutputKey}
	}
	return out
}

func mappingTree(m Mapping, is11 bool) value.Members {
	out := make(value.Members, len(m))
	for i := range m {
		out[i] = value.Member{Key: m[i].Target, Value: valueTree(&m[i].Value, is11)}
	}
	return out
}

func valueTree(v *MappingValue, is11 bool) any {
	wrap := func(key string, inner any) value.Members { return value.Members{{Key: key, Value: inner}} }
	switch v.Kind {
	case MapConst:
		return wrap("$const", v.Literal)
	case MapExpr:
		return wrap("$expr", v.Ref)
	case MapOptional:
		return wrap("$optional", valueTree(v.Inner, true))
	case MapLiteral:
		// What would be read as something else is written as a constant.
		_, isText := v.Literal.(string)
		m, isObject := v.Literal.(map[string]any)
		_, c := m["$const"]
		_, e := m["$expr"]
		_, o := m["$optional"]
		if isText || is11 && isObject && len(m) == 1 && (c || e || o) {
			return wrap("$const", v.Literal)
		}
		return v.Literal
	}
	return v.Ref
}
