package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"pave/flows"
	"pave/flows/diagram"
	"pave/flows/predicate"
	"pave/flows/schema"
	"pave/flows/value"
)

func checkPredicate(v *vector) Outcome {
	var spec struct {
		Expr    string
		Context json.RawMessage
		Expect  struct {
			Value    *bool
			Category string
		}
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	decoded, err := value.Decode(spec.Context)
	context, ok := decoded.(map[string]any)
	if err != nil || !ok {
		return failed("context is no object: %v", err)
	}
	p, err := predicate.Parse(spec.Expr)
	var result bool
	if err == nil {
		result, err = p.Eval(context)
	}
	if err == nil {
		return v.compare(map[string]any{"value": result})
	}
	var refused *predicate.Error
	if !errors.As(err, &refused) {
		return failed("%v", err)
	}
	switch {
	case refused.Category == predicate.Syntax && imaginary.MatchString(spec.Expr) && (spec.Expect.Value != nil || spec.Expect.Category == untypedLeak):
		return diverges("R5") // the grammar that predicates are parsed by has no complex numbers
	case spec.Expect.Category == untypedLeak:
		return typedInstead(refused)
	}
	return v.compare(map[string]any{"error": flows.CWPredicateSyntax.Class, "code": predicate.Code, "category": refused.Category})
}

// imaginary is a number of Python that JSON has no place for.
var imaginary = regexp.MustCompile(`\b[0-9][0-9_.]*[jJ]\b`)

// untypedLeak marks places where the reference lets a bare exception of its language out.
const untypedLeak = "untyped_leak"

// typedInstead is rule R5: a predicate over values of the wrong types fails with CW-E036.
func typedInstead(refused *predicate.Error) Outcome {
	if refused.Category != predicate.TypeError {
		return failed("R5: want category %s, got %s", predicate.TypeError, refused.Category)
	}
	return diverges("R5")
}

func checkFingerprint(v *vector) Outcome {
	switch v.Kind {
	case "raw_schema", "tool":
		return checkHashes(v)
	case "compat":
		return checkCompatibility(v)
	}
	return failed("unknown kind %q", v.Kind)
}

func checkHashes(v *vector) Outcome {
	var spec struct {
		Schema        json.RawMessage
		Input         json.RawMessage `json:"pydantic_input_schema"`
		Output        json.RawMessage `json:"pydantic_output_schema"`
		SchemaVersion string          `json:"schema_version"`
		Expect        struct{ Canonical string }
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	if v.Kind == "raw_schema" {
		hash, err := schema.PeerFingerprint(spec.Schema)
		if err != nil {
			return failed("%v", err)
		}
		// The canonical text is what the fingerprint is the beginning of a hash of.
		sum := sha256.Sum256([]byte(spec.Expect.Canonical))
		if canonical := hex.EncodeToString(sum[:]); !strings.HasPrefix(canonical, hash) {
			return failed("canonical: its hash is %s, the fingerprint is %s", canonical, hash)
		}
		return v.compare(map[string]any{"fingerprint": hash, "canonical": spec.Expect.Canonical})
	}
	in, err := schema.PeerFingerprint(spec.Input)
	if err != nil {
		return failed("%v", err)
	}
	out, err := schema.PeerFingerprint(spec.Output)
	if err != nil {
		return failed("%v", err)
	}
	tool := &flows.Tool{InputSchema: spec.Input, OutputSchema: spec.Output, SchemaVersion: spec.SchemaVersion}
	return v.compare(map[string]any{"input_schema_hash": in, "output_schema_hash": out, "schema_hash": flows.PeerSchemaHash(tool)})
}

// checkCompatibility holds a flow with pins against tools. Rule R18: pins are hashes over normalised schemas, so a pin
// that the reference made does not match the tool that it was made for.
func checkCompatibility(v *vector) Outcome {
	var spec struct {
		Flow   json.RawMessage
		Tools  []toolSpec
		Expect struct{ Issues []issue }
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	flow, _, err := flows.ParseFlow(spec.Flow)
	if err != nil {
		return failed("flow: %v", err)
	}
	tools := toolsOf(spec.Tools)
	lookup := func(name string) *flows.Tool {
		if i := slices.IndexFunc(tools, func(t *flows.Tool) bool { return t.Name == name }); i >= 0 {
			return tools[i]
		}
		return nil
	}
	actual := []issue{}
	for _, i := range flows.Incompatibilities(flow, lookup) {
		actual = append(actual, issue{i.StepIndex, i.ToolName, i.IssueType})
	}
	outcome := v.compare(map[string]any{"issues": actual})
	if outcome.Verdict == Exact {
		return outcome
	}
	want := repinned(flow, lookup, spec.Expect.Issues)
	if !slices.Equal(want, actual) {
		return failed("R18: want %v, got %v", want, actual)
	}
	return diverges("R18")
}

type issue struct {
	StepIndex int    `json:"step_index"`
	ToolName  string `json:"tool_name"`
	IssueType string `json:"issue_type"`
}

// repinned is what rule R18 makes of expected issues: every pinned tool that exists is compared by pave's own hash.
func repinned(flow *flows.Flow, lookup func(string) *flows.Tool, expected []issue) []issue {
	out := slices.DeleteFunc(slices.Clone(expected), func(i issue) bool { return i.IssueType == flows.IssueSchemaMismatch })
	for i := range flow.Steps {
		name := flow.Steps[i].ToolName
		tool := lookup(name)
		if pin, pinned := flow.ToolSchemaHashes[name]; tool != nil && pinned && pin != flows.SchemaHash(tool) {
			out = append(out, issue{i, name, flows.IssueSchemaMismatch})
		}
	}
	slices.SortStableFunc(out, func(a, b issue) int { return a.StepIndex - b.StepIndex })
	return out
}

func checkSafety(v *vector) Outcome {
	var spec struct {
		Contract  json.RawMessage
		Contracts []json.RawMessage
		Expect    map[string]any
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	switch v.Kind {
	case "merge":
		contracts := make([]flows.SafetyContract, len(spec.Contracts))
		for i, raw := range spec.Contracts {
			if err := json.Unmarshal(raw, &contracts[i]); err != nil {
				return failed("contract %d: %v", i, err)
			}
		}
		merged := flows.MergeSafety(contracts...)
		return v.compare(contractForm(&merged))
	case "contract":
		var c flows.SafetyContract
		if err := json.Unmarshal(spec.Contract, &c); err != nil {
			return v.compare(map[string]any{"error": "ValidationError"})
		}
		return v.compare(contractForm(&c))
	case "lifecycle":
		moves := map[string]any{}
		for move := range spec.Expect {
			from, to, _ := strings.Cut(move, "->")
			moves[move] = flows.Lifecycle(from).CanMoveTo(flows.Lifecycle(to))
		}
		return v.compare(moves)
	}
	return failed("unknown kind %q", v.Kind)
}

func contractForm(c *flows.SafetyContract) map[string]any {
	return map[string]any{"side_effects": c.SideEffects, "read_only": c.ReadOnly(), "stability": c.Stability, "determinism_level": c.DeterminismLevel,
		"idempotent": c.Idempotent, "cacheable": c.Cacheable, "safe_to_retry": c.SafeToRetry, "supports_dry_run": c.SupportsDryRun,
		"requires_approval": c.RequiresApproval, "approval_reason": orNull(c.ApprovalReason)}
}

func checkViz(v *vector) Outcome {
	var spec struct{ Flow json.RawMessage }
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	flow, _, err := flows.ParseFlow(spec.Flow)
	if err != nil {
		return failed("flow: %v", err)
	}
	actual := map[string]any{}
	for key, o := range map[string]diagram.Options{
		"ascii":      {Format: diagram.FormatText},
		"mermaid":    {Format: diagram.FormatMermaid},
		"mermaid_td": {Format: diagram.FormatMermaid, Direction: diagram.TopDown},
		"dot":        {Format: diagram.FormatDOT},
	} {
		o.Plain = true
		if actual[key], err = diagram.Draw(flow, o); err != nil {
			return failed("%s: %v", key, err)
		}
	}
	return v.compare(actual)
}

// checkRegistry orders the versions of one flow. Rule R24: versions that are written are semantic ones; the looser
// ones of the reference only come in with flow files.
func checkRegistry(v *vector) Outcome {
	var spec struct {
		Order  []string `json:"register_order"`
		Expect struct{ Code string }
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	if len(spec.Order) == 0 {
		return failed("vector: no versions to register")
	}
	parsed := make([]flows.Version, len(spec.Order))
	for i, text := range spec.Order {
		if slices.Contains(spec.Order[:i], text) {
			return v.compare(outcomeOf(nil, fmt.Errorf("version %q is registered: %w", text, flows.CWFlowExists)))
		}
		var err error
		if parsed[i], err = flows.ParseVersion(text); err == nil {
			continue
		}
		if spec.Expect.Code != "" {
			return v.compare(outcomeOf(nil, err))
		}
		return importedOnly(text, err)
	}
	slices.SortStableFunc(parsed, flows.Version.Compare)
	versions := make([]string, len(parsed))
	for i, version := range parsed {
		versions[i] = version.String()
	}
	keys := []any{}
	for _, version := range slices.Sorted(slices.Values(versions)) {
		keys = append(keys, []string{"f", version})
	}
	return v.compare(map[string]any{"latest": versions[len(versions)-1], "versions": versions, "keys": keys})
}

func importedOnly(version string, refused error) Outcome {
	if !errors.Is(refused, flows.CWInvalidVersion) {
		return failed("R24: version %q is refused with %v, want %s", version, refused, flows.CWInvalidVersion)
	}
	doc, err := json.Marshal(map[string]any{"type": flows.TypeFlow, "name": "f", "description": "f", "version": version, "steps": []any{}})
	if err != nil {
		return failed("%v", err)
	}
	flow, _, err := flows.ParseFlow(doc)
	if err != nil || flow.Version != version {
		return failed("R24: a flow file of version %q does not load: %v", version, err)
	}
	return diverges("R24")
}

func checkSerialization(v *vector) Outcome {
	switch v.Kind {
	case "roundtrip":
		return checkRoundTrip(v)
	case "json_load", "yaml_load", "limits":
		return checkLoad(v)
	}
	return failed("unknown kind %q", v.Kind)
}

// checkRoundTrip writes a flow in both forms. JSON must be the reference's to the byte; YAML writers differ in
// quotes and line breaks, so of YAML it counts what the text says.
func checkRoundTrip(v *vector) Outcome {
	var spec struct {
		Dict   json.RawMessage
		Expect struct{ JSON, YAML string }
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	flow, _, err := flows.ParseFlow(spec.Dict)
	if err != nil {
		return failed("flow: %v", err)
	}
	asJSON, err := flows.EncodeInterop(flow, flows.FormatJSON)
	if err != nil {
		return failed("%v", err)
	}
	asYAML, err := flows.EncodeInterop(flow, flows.FormatYAML)
	if err != nil {
		return failed("%v", err)
	}
	if string(asJSON) != spec.Expect.JSON {
		return failed("json: want %s, got %s", spec.Expect.JSON, asJSON)
	}
	for _, text := range []string{spec.Expect.YAML, string(asYAML)} {
		again, _, err := flows.ParseFlow([]byte(text))
		if err != nil {
			return failed("yaml: %v", err)
		}
		rewritten, err := flows.EncodeInterop(again, flows.FormatJSON)
		if err != nil || !bytes.Equal(rewritten, asJSON) {
			return failed("yaml says another flow: %s", text)
		}
	}
	return exact()
}

func checkLoad(v *vector) Outcome {
	var spec struct {
		Text   string
		Limits struct {
			MaxBytes  limit `json:"max_bytes"`
			MaxNodes  limit `json:"max_nodes"`
			MaxDepth  limit `json:"max_depth"`
			MaxString limit `json:"max_string_length"`
			MaxSteps  limit `json:"max_steps"`
		}
		Expect struct {
			OK         bool
			LimitNamed string `json:"limit_named"`
		}
	}
	if err := v.decode(&spec); err != nil {
		return failed("vector: %v", err)
	}
	flow, _, err := flows.ParseFlowLimits([]byte(spec.Text), flows.Limits{MaxBytes: int(spec.Limits.MaxBytes), MaxNodes: int(spec.Limits.MaxNodes),
		MaxDepth: int(spec.Limits.MaxDepth), MaxStringLength: int(spec.Limits.MaxString), MaxSteps: int(spec.Limits.MaxSteps)})
	if err == nil {
		return v.compare(map[string]any{"ok": true, "name": flow.Name, "steps": len(flow.Steps)})
	}
	var cw flows.CWError
	if !errors.As(err, &cw) {
		return failed("error without a code: %v", err)
	}
	if spec.Expect.OK {
		return strictLoad(v.Kind, spec.Text, cw, err)
	}
	actual := map[string]any{"ok": false, "type": cw.Class, "code": cw.Code}
	if limit := spec.Expect.LimitNamed; limit != "" && strings.Contains(err.Error(), limit) {
		actual["limit_named"] = limit
	}
	return v.compare(actual)
}

// limit is a limit of a vector: 0 lets nothing through, where flows.Limits has its default.
type limit int

func (l *limit) UnmarshalJSON(data []byte) error {
	var n int
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	if *l = limit(n); n == 0 {
		*l = -1
	}
	return nil
}

// strictLoad are the rules by which pave refuses a file that the reference loads: R23 for numbers that are no JSON and
// for repeated keys, R5 for predicates that do not parse.
func strictLoad(kind, text string, cw flows.CWError, err error) Outcome {
	doc, strict := value.DecodeStrict([]byte(text))
	switch {
	case kind == "json_load" && strict != nil && isLax(text), kind == "yaml_load" && isLaxYAML(text):
		if cw != flows.CWFlowSerialization {
			return failed("R23: want %s, got %v", flows.CWFlowSerialization, err)
		}
		return diverges("R23")
	case strict == nil && cw == flows.CWFlowSerialization && onlyPredicates(err) && hasBadPredicate(doc):
		return diverges("R5")
	}
	return failed("does not load: %v", err)
}

// onlyPredicates reports whether a file is refused for its predicates alone.
func onlyPredicates(err error) bool {
	var e *flows.Error
	return errors.As(err, &e) && len(e.Details) > 0 && !slices.ContainsFunc(e.Details, func(d flows.ErrorDetail) bool { return d.Code != predicate.Code })
}

// notNumbers are what Python's JSON reader takes beyond JSON: no numbers, and numbers beyond all that are finite.
var notNumbers = regexp.MustCompile(`-?\b(?:NaN|Infinity|[0-9.]+[eE]\+?[0-9]{3,})\b`)

// isLax reports whether a text is JSON but for repeated keys and notNumbers.
func isLax(text string) bool {
	_, err := value.Decode(notNumbers.ReplaceAll([]byte(text), []byte("0")))
	return err == nil
}

// repeatedKey is what the YAML reader says of a mapping that has a key twice.
const repeatedKey = "already defined"

// isLaxYAML reports whether a text is YAML with a repeated key or a number that is not finite.
func isLaxYAML(text string) bool {
	var doc any
	err := yaml.Unmarshal([]byte(text), &doc)
	return err != nil && strings.Contains(err.Error(), repeatedKey) || err == nil && regexp.MustCompile(`(?i)[-+ ]\.(inf|nan)\b`).MatchString(text)
}

// hasBadPredicate looks for a condition that does not parse.
func hasBadPredicate(doc any) bool {
	switch doc := doc.(type) {
	case []any:
		return slices.ContainsFunc(doc, hasBadPredicate)
	case map[string]any:
		for key, inner := range doc {
			if text, isText := inner.(string); isText && key == "predicate" {
				if _, err := predicate.Parse(text); err != nil {
					return true
				}
			}
			if hasBadPredicate(inner) {
				return true
			}
		}
	}
	return false
}
